/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libcoap's callbacks for sessions on DTLS.
 *
 * They note the event and return; it is acted on in upstream_turn(). Only a response goes straight
 * to its handler, because its bytes live no longer than the callback, and no function that a
 * handler may call enters libcoap.
 *
 * libcoap drops without a word messages of more than 1,472 bytes on DTLS, and responses with an
 * option of a wrong length or an unsafe one that it does not know. Such a request ends by its
 * time-out (5.04), where over UDP, TCP and TLS it is 5.02. OpenSSL shows the head of a longer
 * record, but that is not authenticated: a forger could end requests with it. libcoap also
 * retransmits unseen: an answer that took longer than the first time-out counts as a loss.
 */
#include "net/client_coap_internal.h"

#include "coap/option.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>

static struct session *session_of(const coap_session_t *coap)
{
    return coap_get_app_data(coap_session_get_context(coap));
}

/* The cause of a failed handshake. */
static void on_tls_error(struct session *session)
{
    coap_tls_library_t library = COAP_TLS_LIBRARY_NOTLS;
    const SSL *ssl = coap_session_get_tls(session->coap->session, &library);
    long verdict =
        ssl != NULL && library == COAP_TLS_LIBRARY_OPENSSL ? SSL_get_verify_result(ssl) : X509_V_OK;
    unsigned long error = ERR_peek_last_error();
    const char *why = error != 0 ? ERR_reason_error_string(error) : NULL;

    ERR_clear_error();
    if (session->state != SESSION_CONNECTING) {
        session_die(session, UPSTREAM_CLOSED, why);
    } else if (session->coap->is_wrong_name) {
        session_die(session, UPSTREAM_NAME_MISMATCH, NULL);
    } else if (verdict != X509_V_OK) {
        session_die(session, UPSTREAM_BAD_CERTIFICATE, X509_verify_cert_error_string(verdict));
    } else {
        session_die(session, UPSTREAM_HANDSHAKE_FAILED, why);
    }
}

static void on_closed(struct session *session)
{
    if (session->state != SESSION_CONNECTING) {
        session_die(session, UPSTREAM_CLOSED, NULL);
    } else {
        session_die(session, UPSTREAM_HANDSHAKE_FAILED, "closed by the other side");
    }
}

static int client_coap_on_event(coap_session_t *coap, const coap_event_t event)
{
    struct session *session = session_of(coap);

    if (session == NULL || session->coap->session == NULL) {
        return 0; /* it is being opened or freed: session_open() handles the failure */
    }
    switch ((int)event) { /* later versions have more */
    case COAP_EVENT_DTLS_ERROR:
        on_tls_error(session);
        break;
    case COAP_EVENT_DTLS_CLOSED:
    case COAP_EVENT_SESSION_CLOSED:
    case COAP_EVENT_SESSION_FAILED:
        on_closed(session);
        break;
    case COAP_EVENT_DTLS_CONNECTED:
        session->is_up = true;
        session_set_due(session);
        break;
    default:
        break;
    }
    return 0;
}

static struct bytes token_of(const coap_pdu_t *pdu)
{
    coap_bin_const_t token = coap_pdu_get_token(pdu);
    return (struct bytes){token.s, token.length};
}

static void on_nack(coap_session_t *coap, const coap_pdu_t *sent, const coap_nack_reason_t reason,
                    const coap_mid_t mid)
{
    struct session *session = session_of(coap);

    (void)mid;
    if (session == NULL || session->coap->session == NULL || sent == NULL) {
        return;
    }
    if (reason == COAP_NACK_ICMP_ISSUE) {
        session_die(session,
                    session->state == SESSION_CONNECTING ? UPSTREAM_REFUSED : UPSTREAM_CLOSED,
                    NULL);
        return;
    }
    if (reason == COAP_NACK_RST && coap_pdu_get_code(sent) == COAP_EMPTY_CODE) {
        session_pong(session); /* RFC 7252 section 4.3 */
        return;
    }
    struct upstream_request *request = client_find(session, token_of(sent));
    if (request != NULL && reason == COAP_NACK_RST) {
        session_heard(session);
        client_on_failure(session, request, UPSTREAM_RESET, NULL);
    } else if (request != NULL && reason == COAP_NACK_TOO_MANY_RETRIES) {
        client_on_failure(session, request, UPSTREAM_TIMEOUT, NULL);
    } /* else the session has ended, which an event tells */
}

/* The options in their encoded form: libcoap gives them one by one. */
static struct bytes client_coap_write_options(struct upstream *upstream, const coap_pdu_t *pdu)
{
    struct message_writer writer = {.buffer = upstream->scratch,
                                    .capacity = upstream->scratch_bytes};
    coap_opt_iterator_t iter;
    coap_opt_t *option;

    (void)coap_option_iterator_init(pdu, &iter, COAP_OPT_ALL);
    while ((option = coap_option_next(&iter)) != NULL) {
        message_writer_option(&writer, iter.number,
                              (struct bytes){coap_opt_value(option), coap_opt_length(option)});
    }
    return (struct bytes){writer.buffer, writer.overflow ? 0 : writer.len};
}

static coap_response_t on_response(coap_session_t *coap, const coap_pdu_t *sent,
                                   const coap_pdu_t *received, const coap_mid_t mid)
{
    struct session *session = session_of(coap);
    const uint8_t *payload = NULL;
    size_t payload_len = 0;

    (void)sent;
    (void)mid;
    if (session == NULL) {
        return COAP_RESPONSE_FAIL;
    }
    if (client_find(session, token_of(received)) == NULL) {
        session_heard(session);
        return COAP_RESPONSE_FAIL; /* a Reset for it, on DTLS (OBS-27) */
    }
    (void)coap_get_data(received, &payload_len, &payload);
    const struct message response = {
        .type = (enum message_type)coap_pdu_get_type(received),
        .code = (uint8_t)coap_pdu_get_code(received),
        .token = token_of(received),
        .options = client_coap_write_options(session->upstream, received),
        .payload = {payload, payload_len},
    };
    (void)session_on_response(session, &response);
    return COAP_RESPONSE_OK;
}

/* This side serves no requests (TCP-20). The handler is there because without one libcoap rejects
 * unknown options, also critical ones that are safe to forward (OPT-7). */
static void client_coap_on_request(coap_resource_t *resource, coap_session_t *coap,
                                   const coap_pdu_t *request, const coap_string_t *query,
                                   coap_pdu_t *response)
{
    (void)resource;
    (void)coap;
    (void)request;
    (void)query;
    coap_pdu_set_code(response, COAP_RESPONSE_CODE_PROXYING_NOT_SUPPORTED);
}

/* libcoap's own seven parameters. NOLINTNEXTLINE(readability-function-size) */
int client_coap_on_certificate(const char *name, const uint8_t *certificate, size_t certificate_len,
                               coap_session_t *coap, unsigned depth, int is_good, void *context)
{
    struct session *session = context;

    (void)name;
    (void)coap;
    if (depth > 0 || is_good == 0) {
        return is_good;
    }
    X509 *parsed = d2i_X509(NULL, &certificate, (long)certificate_len);
    bool is_match = parsed != NULL && credentials_match_name(&session->place->target, parsed);
    X509_free(parsed);
    session->coap->is_wrong_name = !is_match;
    return is_match;
}

const coap_dtls_cpsk_info_t *client_coap_on_psk(coap_str_const_t *hint, coap_session_t *coap,
                                                void *context)
{
    static _Thread_local coap_dtls_cpsk_info_t info;
    const struct session *session = context;
    struct bytes key = credentials_psk_key(session->credentials);
    const char *identity = credentials_psk_identity(session->credentials);

    (void)hint;
    (void)coap;
    info.identity = (coap_bin_const_t){strlen(identity), (const uint8_t *)identity};
    info.key = (coap_bin_const_t){key.len, key.data};
    return &info;
}

bool client_coap_listen(coap_context_t *context)
{
    static const char *nobody[] = {"invalid"};

    coap_register_event_handler(context, client_coap_on_event);
    coap_register_nack_handler(context, on_nack);
    coap_register_response_handler(context, on_response);
    /* A parent proxy that does not know these has them in its 4.02 (PXO-26). libcoap would
     * drop that as an answer with a critical option that it does not know itself. */
    coap_register_option(context, OPTION_proxy_cri);
    coap_register_option(context, OPTION_proxy_scheme_number);
    coap_resource_t *resource = coap_resource_proxy_uri_init(client_coap_on_request, 1, nobody);
    if (resource == NULL) {
        return false;
    }
    coap_add_resource(context, resource); /* the context's from here on */
    return true;
}
