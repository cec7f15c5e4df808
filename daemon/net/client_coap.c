/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sessions on DTLS, which are libcoap's. Each has a context of its own.
 *
 * A context each, because in libcoap (4.3.1 to 4.3.5) the name for SNI, the trust anchors and the
 * checks of a certificate belong to the context and not to the session, and because its queue of
 * unacknowledged messages is one list for each context, which is walked. So a session ends together
 * with all of libcoap's state for it.
 *
 * What has to be kept from libcoap: text to resolve; a log level at which its static
 * buffers are used (contexts in several threads share those, and nothing else);
 * blocks (its block mode stays off, they pass through as they are); and functions that
 * wait, such as coap_new_pdu() on a session whose handshake is under way.
 */
#include "net/client_coap_internal.h"

#include "coap/option.h"
#include "net/loop_internal.h"
#include "net/sockaddr.h"

#include <event2/event.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define CHAIN_MAX 6

/* Around options and payload: header, marker, an option put in. */
#define MESSAGE_EXTRA 32u

/* ---- libcoap as a whole ---- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool is_openssl;

/* OpenSSL's contexts that this thread makes: see catch_contexts(). */
static _Thread_local struct {
    SSL_CTX *made[4];
    unsigned count;
    bool is_on;
} caught;

/* OpenSSL's own six parameters. NOLINTNEXTLINE(readability-function-size) */
static void on_new_context(void *parent, void *value, CRYPTO_EX_DATA *data, int index, long number,
                           void *pointer)
{
    (void)value;
    (void)data;
    (void)index;
    (void)number;
    (void)pointer;
    if (caught.is_on && caught.count < sizeof caught.made / sizeof caught.made[0]) {
        caught.made[caught.count++] = parent;
    }
}

static void on_log(coap_log_t level, const char *message)
{
    (void)level;
    (void)message;
}

static void start_libcoap(void)
{
    coap_startup();
    coap_set_log_level((coap_log_t)0); /* nothing less than an emergency is even formatted */
    coap_set_log_handler(on_log);
    is_openssl = coap_get_tls_library_version()->type == COAP_TLS_LIBRARY_OPENSSL;
    (void)SSL_CTX_get_ex_new_index(0, NULL, on_new_context, NULL, NULL);
}

bool client_coap_is_there(void)
{
    (void)pthread_once(&once, start_libcoap);
    return is_openssl && coap_dtls_is_supported() != 0;
}

const char *upstream_version(void)
{
    /* LIBCOAP_PACKAGE_VERSION is the version at build time; the library has no call for its own. */
    return LIBCOAP_PACKAGE_VERSION;
}

static void on_readable(evutil_socket_t fd, short what, void *context)
{
    struct session *session = context;

    (void)fd;
    (void)what;
    loop_turn_begin(session->upstream->loop);
    if (session->state == SESSION_CONNECTING && client_coap_is_refused(session)) {
        session_die(session, UPSTREAM_REFUSED, NULL);
        return;
    }
    ERR_clear_error();
    session->upstream->inside = session;
    (void)coap_io_process(session->coap->context, COAP_IO_NO_WAIT);
    session->upstream->inside = NULL;
}

/* libcoap's timer, which it sets only after it has waited itself. */
static void set_timers(const struct session *session)
{
    coap_tick_t now;
    coap_ticks(&now);
    (void)coap_io_prepare_epoll(session->coap->context, now);
}

/* ---- opening ---- */

/* The contexts of OpenSSL that libcoap makes in coap_new_context(): it has no function that
 * gives them, and makes no list of suites, no store and no version anyone else's business. */
static bool catch_contexts(struct session *session)
{
    caught.count = 0;
    caught.is_on = true;
    session->coap->context = coap_new_context(NULL);
    caught.is_on = false;
    if (session->coap->context == NULL) {
        return false;
    }
    for (unsigned i = 0; i < caught.count; i++) {
        if (!credentials_apply(session->credentials, caught.made[i])) {
            ERR_clear_error();
            return false;
        }
    }
    return caught.count > 0;
}

static bool open_context(struct session *session)
{
    const struct upstream *upstream = session->upstream;

    if (!catch_contexts(session)) {
        return false;
    }
    coap_context_t *context = session->coap->context;
    coap_set_app_data(context, session);
    coap_context_set_block_mode(context, 0);
    if (!client_coap_listen(context)) {
        return false;
    }
    session->coap->event =
        event_new(loop_event_base(upstream->loop), coap_context_get_coap_fd(context),
                  EV_READ | EV_PERSIST, on_readable, session);
    return session->coap->event != NULL && event_add(session->coap->event, NULL) == 0;
}

static coap_session_t *connect_psk(struct session *session, const coap_address_t *address)
{
    struct bytes key = credentials_psk_key(session->credentials);
    const char *identity = credentials_psk_identity(session->credentials);
    struct place *place = session->place;
    coap_dtls_cpsk_t setup = {
        .version = COAP_DTLS_CPSK_SETUP_VERSION,
        .validate_ih_call_back = client_coap_on_psk,
        .ih_call_back_arg = session,
        .client_sni = place->target.host != NULL ? place->host : NULL,
    };
    setup.psk_info.identity = (coap_bin_const_t){strlen(identity), (const uint8_t *)identity};
    setup.psk_info.key = (coap_bin_const_t){key.len, key.data};
    return coap_new_client_session_psk2(session->coap->context, NULL, address, COAP_PROTO_DTLS,
                                        &setup);
}

static coap_session_t *connect_pki(struct session *session, const coap_address_t *address)
{
    struct place *place = session->place;
    coap_dtls_pki_t setup = {
        .version = COAP_DTLS_PKI_SETUP_VERSION,
        .verify_peer_cert = 1,
        .cert_chain_validation = 1,
        .cert_chain_verify_depth = CHAIN_MAX,
        .validate_cn_call_back = client_coap_on_certificate,
        .cn_call_back_arg = session,
        .client_sni = place->target.host != NULL ? place->host : NULL,
    };
    setup.pki_key.key_type = COAP_PKI_KEY_PEM; /* without files: credentials_apply() gave them */
    return coap_new_client_session_pki(session->coap->context, NULL, address, COAP_PROTO_DTLS,
                                       &setup);
}

static coap_fixed_point_t fixed_point(uint32_t thousandths)
{
    return (coap_fixed_point_t){(uint16_t)(thousandths / 1000), (uint16_t)(thousandths % 1000)};
}

/* This limit must not be below the engine's own window (MSG-31). */
static void set_parameters(const struct session *session)
{
    const struct upstream_target *target = &session->place->target;

    coap_session_set_nstart(session->coap->session, UINT16_MAX);
    coap_session_set_mtu(session->coap->session, session->upstream->options.message_bytes);
    coap_session_set_ack_timeout(session->coap->session, fixed_point(target->ack_timeout_ms));
    coap_session_set_ack_random_factor(session->coap->session,
                                       fixed_point(target->ack_random_factor * 10));
    coap_session_set_max_retransmit(session->coap->session, (uint16_t)target->max_retransmit);
}

/* OpenSSL's state of a session is made before anything is sent: without it, memory ran out. Where
 * that happens libcoap 4.3.1 returns no session; 4.3.4 returns one that would wait for its
 * time-out. */
static bool connect_session(struct session *session, enum upstream_status *ret_status)
{
    coap_tls_library_t library = COAP_TLS_LIBRARY_NOTLS;
    union sockaddr_any name;
    coap_address_t address;

    coap_address_init(&address);
    address.size = sockaddr_from_address(&session->place->target.address, &name);
    memcpy(&address.addr, &name, address.size);
    ERR_clear_error();
    int expected = client_coap_next_socket(session);
    coap_session_t *coap = credentials_have_psk(session->credentials)
                               ? connect_psk(session, &address)
                               : connect_pki(session, &address);
    session->coap->session = coap;
    if (coap == NULL || coap_session_get_tls(coap, &library) == NULL) {
        bool is_shortage = coap != NULL || ERR_peek_error() != 0;
        *ret_status = is_shortage ? UPSTREAM_NO_MEMORY : UPSTREAM_REFUSED;
        return false;
    }
    session->coap->fd = client_coap_find_socket(session, expected);
    set_parameters(session);
    return true;
}

static bool coap_open(struct session *session, enum upstream_status *ret_status)
{
    *ret_status = UPSTREAM_NO_MEMORY;
    session->coap = calloc(1, sizeof *session->coap);
    if (session->coap == NULL) {
        return false;
    }
    session->coap->fd = -1;
    if (!open_context(session) || !connect_session(session, ret_status)) {
        return false;
    }
    set_timers(session); /* of the handshake */
    return true;
}

/* ---- closing ---- */

static void coap_close(struct session *session)
{
    struct coap_end *end = session->coap;

    if (end == NULL) {
        return;
    }
    if (end->event != NULL) {
        event_free(end->event);
    }
    coap_session_t *last = end->session;
    end->session = NULL; /* on_event() and on_nack() look away from now on */
    if (last != NULL) {
        coap_session_release(last);
    }
    if (end->context != NULL) {
        coap_free_context(end->context);
    }
    ERR_clear_error();
    free(end);
    session->coap = NULL;
}

/* ---- requests ---- */

/* libcoap drops the second of an option that must not be repeated; that is elective here. */
static bool add_options(coap_pdu_t *pdu, struct bytes options)
{
    struct option_iter iter;
    struct option option;
    uint32_t last = UINT32_MAX;

    option_iter_init(&iter, options);
    for (; option_iter_next(&iter, &option); last = option.number) {
        if (coap_add_option(pdu, option.number, option.value.len, option.value.data) == 0 &&
            option.number != last) {
            return false;
        }
    }
    return true;
}

static coap_pdu_t *make_pdu(const struct session *session, const struct message *message)
{
    size_t len = message->token.len + message->options.len + message->payload.len + MESSAGE_EXTRA;
    coap_mid_t mid = coap_new_message_id(session->coap->session);
    coap_pdu_t *pdu = coap_pdu_init(COAP_MESSAGE_CON, (coap_pdu_code_t)message->code, mid, len);

    if (pdu == NULL) {
        return NULL;
    }
    if (coap_add_token(pdu, message->token.len, message->token.data) == 0 ||
        !add_options(pdu, message->options) ||
        (message->payload.len > 0 &&
         coap_add_data(pdu, message->payload.len, message->payload.data) == 0)) {
        coap_delete_pdu(pdu);
        return NULL;
    }
    return pdu;
}

static bool coap_transmit(struct session *session, const struct message *message,
                          struct upstream_request *request, enum upstream_status *ret_status)
{
    (void)request;
    coap_pdu_t *pdu = make_pdu(session, message);
    if (pdu == NULL) {
        *ret_status = UPSTREAM_NO_MEMORY;
        return false;
    }
    ERR_clear_error();
    if (coap_send(session->coap->session, pdu) == COAP_INVALID_MID) {
        *ret_status = UPSTREAM_CLOSED;
        return false;
    }
    set_timers(session);
    return true;
}

static bool coap_ping(struct session *session)
{
    session->has_pong = false;
    bool has_left = coap_session_send_ping(session->coap->session) != COAP_INVALID_MID;
    set_timers(session);
    return has_left;
}

static bool coap_is_acknowledged(const struct session *session)
{
    return coap_can_exit(session->coap->context) != 0;
}

static bool coap_is_almost_up(const struct session *session)
{
    coap_tls_library_t library = COAP_TLS_LIBRARY_NOTLS;
    const SSL *ssl = session->coap->session != NULL
                         ? coap_session_get_tls(session->coap->session, &library)
                         : NULL;

    if (ssl == NULL || library != COAP_TLS_LIBRARY_OPENSSL) {
        return false;
    }
    OSSL_HANDSHAKE_STATE state = SSL_get_state(ssl);
    return state == TLS_ST_CW_FINISHED || state == TLS_ST_CR_SESSION_TICKET ||
           state == TLS_ST_CR_CHANGE || state == TLS_ST_CR_FINISHED;
}

/* libcoap's own queues are long enough for the engine's window (MSG-31). */
static bool coap_is_full(const struct session *session)
{
    (void)session;
    return false;
}

const struct session_kind session_kind_coap = {
    .open = coap_open,
    .close = coap_close,
    .transmit = coap_transmit,
    .ping = coap_ping,
    .is_acknowledged = coap_is_acknowledged,
    .is_almost_up = coap_is_almost_up,
    .is_full = coap_is_full,
};
