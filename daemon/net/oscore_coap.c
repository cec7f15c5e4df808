/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libcoap's part of a security context: a client session with OSCORE over UDP. It has a context of
 * libcoap's of its own, and is the only session in it.
 *
 * What has to be kept from libcoap is as in upstream_coap.c. Its record of sequence numbers is
 * taken after each message (ssn_freq 1), so that the next session begins at the exact number; what
 * is on disk is ahead of it (oscore_context.c).
 */
#include "net/oscore_internal.h"

#include "coap/option.h"
#include "net/sockaddr.h"

#include <coap3/coap.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_OPTIONS_MAX 16384u

/* Around options and payload: header, marker, an option put in. */
#define REQUEST_EXTRA 96u

struct oscore_coap {
    struct upstream_oscore *oscore;
    coap_context_t *context;
    coap_session_t *session;
};

/* ---- callbacks ---- */

static struct upstream_oscore *oscore_of(const coap_session_t *session)
{
    return coap_get_app_data(coap_session_get_context(session));
}

static struct bytes oscore_token_of(const coap_pdu_t *pdu)
{
    coap_bin_const_t token = coap_pdu_get_token(pdu);

    return (struct bytes){token.s, token.length};
}

static coap_response_t on_oscore_response(coap_session_t *session, const coap_pdu_t *sent,
                                          const coap_pdu_t *received, const coap_mid_t mid)
{
    static uint8_t room[ANSWER_OPTIONS_MAX]; /* there is one thread */
    struct upstream_oscore *oscore = oscore_of(session);
    struct message_writer writer = {.buffer = room, .capacity = sizeof room};
    const uint8_t *payload = NULL;
    size_t payload_len = 0;
    coap_opt_iterator_t iter;
    coap_opt_t *option;

    (void)sent;
    (void)mid;
    (void)coap_option_iterator_init(received, &iter, COAP_OPT_ALL);
    while ((option = coap_option_next(&iter)) != NULL) {
        if (iter.number == OPTION_observe && oscore->has_inbound_number) {
            /* RFC 8613 section 4.1.3.5.2; libcoap 4.3.4 gives the request's Partial IV. */
            message_writer_option_uint(&writer, OPTION_observe,
                                       (uint32_t)(oscore->inbound_number & 0xffffffu));
            continue;
        }
        message_writer_option(&writer, iter.number,
                              (struct bytes){coap_opt_value(option), coap_opt_length(option)});
    }
    (void)coap_get_data(received, &payload_len, &payload);
    const struct message response = {
        .code = (uint8_t)coap_pdu_get_code(received),
        .token = oscore_token_of(received),
        .options = {room, writer.overflow ? 0 : writer.len},
        .payload = {payload, payload_len},
    };
    oscore_on_response(oscore, &response);
    return COAP_RESPONSE_OK;
}

static int on_oscore_event(coap_session_t *session, const coap_event_t event)
{
    struct upstream_oscore *oscore = oscore_of(session);

    switch ((int)event) { /* others are not about OSCORE */
    case COAP_EVENT_OSCORE_DECRYPTION_FAILURE:
        oscore_on_unverified(oscore, "it was not made with our keys");
        break;
    case COAP_EVENT_OSCORE_NO_PROTECTED_PAYLOAD:
        oscore_on_unverified(oscore, "it has no protected payload");
        break;
    case COAP_EVENT_OSCORE_DECODE_ERROR:
        oscore_on_unverified(oscore, "its OSCORE option is malformed");
        break;
    case COAP_EVENT_OSCORE_NOT_ENABLED:
    case COAP_EVENT_OSCORE_NO_SECURITY:
    case COAP_EVENT_OSCORE_INTERNAL_ERROR:
        oscore_on_unverified(oscore, "libcoap has failed");
        break;
    default:
        break;
    }
    return 0;
}

static void on_oscore_nack(coap_session_t *session, const coap_pdu_t *sent,
                           const coap_nack_reason_t reason, const coap_mid_t mid)
{
    (void)mid;
    if (sent == NULL) {
        return;
    }
    if (reason == COAP_NACK_TOO_MANY_RETRIES) {
        oscore_on_lost(oscore_of(session), oscore_token_of(sent), UPSTREAM_TIMEOUT);
    } else if (reason == COAP_NACK_RST) {
        oscore_on_lost(oscore_of(session), oscore_token_of(sent), UPSTREAM_RESET);
    } else if (reason == COAP_NACK_BAD_RESPONSE) {
        oscore_on_lost(oscore_of(session), oscore_token_of(sent), UPSTREAM_INVALID);
    } /* else it is about the relay, which does not fail */
}

/* After each message with a number of its own; that the number is reserved is known. */
static int on_oscore_number(uint64_t number, void *context)
{
    struct upstream_oscore *oscore = context;

    oscore->number = number;
    return 1;
}

/* ---- opening and closing ---- */

/* A line of libcoap's configuration: in quotes, as an empty value is taken only so. */
static size_t put_conf(char *text, size_t capacity, size_t len, const char *key,
                       const struct oscore_value *value)
{
    len += (size_t)snprintf(text + len, capacity - len, "%s,hex,\"", key);
    for (size_t i = 0; i < value->len; i++) {
        len += (size_t)snprintf(text + len, capacity - len, "%02x", value->bytes[i]);
    }
    return len + (size_t)snprintf(text + len, capacity - len, "\"\n");
}

static coap_oscore_conf_t *make_conf(struct upstream_oscore *oscore)
{
    const struct oscore_keys *keys = &oscore->keys;
    char text[1024]; /* 5 values of 64 bytes at most, and the words */
    size_t len = 0;

    len = put_conf(text, sizeof text, len, "master_secret", &keys->master_secret);
    if (keys->master_salt.len > 0) {
        len = put_conf(text, sizeof text, len, "master_salt", &keys->master_salt);
    }
    if (keys->id_context.len > 0) {
        len = put_conf(text, sizeof text, len, "id_context", &keys->id_context);
    }
    len = put_conf(text, sizeof text, len, "sender_id", &keys->sender_id);
    len = put_conf(text, sizeof text, len, "recipient_id", &keys->recipient_id);
    len += (size_t)snprintf(text + len, sizeof text - len,
                            "ssn_freq,integer,1\naead_alg,text,\"%s\"\n"
                            "hkdf_alg,text,\"direct+%s\"\n",
                            keys->aead_algorithm, keys->hkdf_algorithm);
    const coap_str_const_t memory = {len, (const uint8_t *)text};
    coap_oscore_conf_t *conf =
        coap_new_oscore_conf(memory, on_oscore_number, oscore, oscore->number);
    explicit_bzero(text, sizeof text);
    return conf;
}

static coap_fixed_point_t oscore_fixed_point(uint32_t thousandths)
{
    return (coap_fixed_point_t){(uint16_t)(thousandths / 1000), (uint16_t)(thousandths % 1000)};
}

static void set_oscore_parameters(coap_session_t *session, const struct oscore_call *parameters)
{
    coap_session_set_nstart(session, UINT16_MAX);
    coap_session_set_mtu(session, parameters->message_bytes);
    coap_session_set_ack_timeout(session, oscore_fixed_point(parameters->ack_timeout_ms));
    coap_session_set_ack_random_factor(session,
                                       oscore_fixed_point(parameters->ack_random_factor * 10));
    coap_session_set_max_retransmit(session, (uint16_t)parameters->max_retransmit);
}

/* Each is connected to the other: what others send to either port does not come in. */
static bool join_relay(const coap_session_t *session, int relay_fd)
{
    const coap_address_t *local = coap_session_get_addr_local(session);

    return local != NULL && connect(relay_fd, &local->addr.sa, local->size) == 0;
}

/* libcoap owns the configuration from the call on, but for where it fails early. */
static bool open_oscore_session(struct oscore_coap *coap, int relay_fd,
                                const struct oscore_call *parameters)
{
    coap_address_t relay;
    socklen_t len = sizeof relay.addr;

    coap_address_init(&relay);
    if (getsockname(relay_fd, &relay.addr.sa, &len) != 0) {
        return false;
    }
    relay.size = len;
    coap_oscore_conf_t *conf = make_conf(coap->oscore);
    if (conf == NULL) {
        return false;
    }
    coap->session =
        coap_new_client_session_oscore(coap->context, NULL, &relay, COAP_PROTO_UDP, conf);
    if (coap->session == NULL) {
        return false;
    }
    set_oscore_parameters(coap->session, parameters);
    return join_relay(coap->session, relay_fd);
}

struct oscore_coap *oscore_coap_new(struct upstream_oscore *oscore, int relay_fd,
                                    const struct oscore_call *parameters)
{
    struct oscore_coap *coap = upstream_coap_is_there() ? calloc(1, sizeof *coap) : NULL;

    if (coap == NULL) {
        return NULL;
    }
    coap->oscore = oscore;
    coap->context = coap_new_context(NULL);
    if (coap->context == NULL) {
        free(coap);
        return NULL;
    }
    coap_set_app_data(coap->context, oscore);
    coap_context_set_block_mode(coap->context, 0);
    coap_register_response_handler(coap->context, on_oscore_response);
    coap_register_event_handler(coap->context, on_oscore_event);
    coap_register_nack_handler(coap->context, on_oscore_nack);
    if (!open_oscore_session(coap, relay_fd, parameters)) {
        oscore_coap_free(coap);
        return NULL;
    }
    ERR_clear_error();
    return coap;
}

void oscore_coap_free(struct oscore_coap *coap)
{
    if (coap == NULL) {
        return;
    }
    coap_register_event_handler(coap->context, NULL);
    coap_register_nack_handler(coap->context, NULL);
    if (coap->session != NULL) {
        coap_session_release(coap->session);
    }
    coap_free_context(coap->context);
    ERR_clear_error();
    free(coap);
}

/* ---- work ---- */

int oscore_coap_fd(const struct oscore_coap *coap)
{
    return coap_context_get_coap_fd(coap->context);
}

/* libcoap's timer, which it sets only after it has waited itself. */
static void set_oscore_timer(const struct oscore_coap *coap)
{
    coap_tick_t now;

    coap_ticks(&now);
    (void)coap_io_prepare_epoll(coap->context, now);
}

void oscore_coap_process(struct oscore_coap *coap)
{
    (void)coap_io_process(coap->context, COAP_IO_NO_WAIT);
    set_oscore_timer(coap);
}

/* In the order of their numbers, Echo in its place. */
static bool add_oscore_options(coap_pdu_t *pdu, struct bytes options, struct bytes echo)
{
    struct option_iter iter;
    struct option option;
    bool is_put = echo.len == 0;

    option_iter_init(&iter, options);
    while (option_iter_next(&iter, &option)) {
        if (!is_put && option.number > OPTION_echo) {
            (void)coap_add_option(pdu, OPTION_echo, echo.len, echo.data);
            is_put = true;
        }
        /* libcoap drops the second of an option that must not be repeated; that is elective. */
        (void)coap_add_option(pdu, option.number, option.value.len, option.value.data);
    }
    return is_put || coap_add_option(pdu, OPTION_echo, echo.len, echo.data) != 0;
}

static coap_pdu_t *make_oscore_pdu(const struct oscore_coap *coap, const struct oscore_call *call,
                                   struct bytes echo)
{
    size_t len = call->token_len + call->options.len + call->payload.len + REQUEST_EXTRA;
    coap_pdu_t *pdu = coap_pdu_init(COAP_MESSAGE_CON, (coap_pdu_code_t)call->code,
                                    coap_new_message_id(coap->session), len);

    if (pdu == NULL) {
        return NULL;
    }
    if (coap_add_token(pdu, call->token_len, call->token) == 0 ||
        !add_oscore_options(pdu, call->options, echo) ||
        (call->payload.len > 0 && coap_add_data(pdu, call->payload.len, call->payload.data) == 0)) {
        coap_delete_pdu(pdu);
        return NULL;
    }
    return pdu;
}

bool oscore_coap_send(struct oscore_coap *coap, const struct oscore_call *call, struct bytes echo)
{
    coap_pdu_t *pdu = make_oscore_pdu(coap, call, echo);

    if (pdu == NULL) {
        return false;
    }
    bool has_left = coap_send(coap->session, pdu) != COAP_INVALID_MID;
    ERR_clear_error();
    set_oscore_timer(coap);
    return has_left;
}
