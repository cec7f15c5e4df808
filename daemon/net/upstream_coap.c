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
#include "net/upstream_internal.h"

#include "coap/option.h"
#include "net/loop_internal.h"
#include "net/sockaddr.h"

#include <coap3/coap.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* The state of a session of this kind. Its context's application data is the session. */
struct coap_end {
    coap_context_t *context;
    coap_session_t *session;
    struct event *event;
    int fd; /* its socket, which stays libcoap's; -1: not found */
    bool is_wrong_name;
};

/* ---- ICMP errors ---- */

/*
 * libcoap opens the socket and does not give it away; its
 * versions report a refusal (ICMP port unreachable) differently: 4.3.1 with an event, 4.3.4 not at
 * all, so that a closed port would look like a silent host. So the socket is searched for, and
 * its error read before libcoap does.
 */

/* Descriptors looked at behind the one expected: other threads open some at the same time. */
#define WINDOW 64

static bool is_connected_to(int fd, const struct address *remote)
{
    union sockaddr_any name;
    socklen_t len = sizeof name, type_len = sizeof(int);
    struct address peer;
    int type = 0;

    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_len) != 0 || type != SOCK_DGRAM ||
        getpeername(fd, &name.any, &len) != 0) {
        return false;
    }
    sockaddr_to_address(&name.any, len, &peer);
    return address_equal(&peer, remote);
}

/* Whether @p fd is one of those that @p epoll_fd waits for: then it cannot be added. */
static bool is_waited_for(int epoll_fd, int fd)
{
    struct epoll_event none = {.events = 0};

    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &none) == 0) {
        (void)epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, NULL); /* another session's */
        return false;
    }
    return errno == EEXIST;
}

static bool is_session_s(const struct session *session, int fd)
{
    return is_connected_to(fd, &session->pool->target.address) &&
           is_waited_for(coap_context_get_coap_fd(session->coap->context), fd);
}

/* The descriptor that the next socket will probably have, or -1. */
static int upstream_coap_next_socket(const struct session *session)
{
    int fd = fcntl(coap_context_get_coap_fd(session->coap->context), F_DUPFD_CLOEXEC, 0);

    if (fd >= 0) {
        (void)close(fd);
    }
    return fd;
}

/* The socket that libcoap has opened, of which upstream_coap_next_socket() said @p expected; or -1.
 */
static int upstream_coap_find_socket(const struct session *session, int expected)
{
    for (int fd = expected; fd >= 0 && fd < expected + WINDOW; fd++) {
        if (is_session_s(session, fd)) {
            return fd;
        }
    }
    return -1;
}

/* Whether the network has refused a packet since the last call. */
static bool upstream_coap_is_refused(const struct session *session)
{
    int fd = session->coap->fd, error = 0;
    socklen_t len = sizeof error;

    return fd >= 0 && is_session_s(session, fd) &&
           getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 &&
           (error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH);
}

/* ---- libcoap's callbacks ---- */

/*
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
        session_die(session, upstream_certificate_status(verdict),
                    X509_verify_cert_error_string(verdict));
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

static int upstream_coap_on_event(coap_session_t *coap, const coap_event_t event)
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
    struct upstream_request *request = session_find_request(session, token_of(sent));
    if (request != NULL && reason == COAP_NACK_RST) {
        session_heard(session);
        upstream_on_failure(session, request, UPSTREAM_RESET, NULL);
    } else if (request != NULL && reason == COAP_NACK_TOO_MANY_RETRIES) {
        upstream_on_failure(session, request, UPSTREAM_TIMEOUT, NULL);
    } /* else the session has ended, which an event tells */
}

/* The options in their encoded form: libcoap gives them one by one. */
static struct bytes upstream_coap_write_options(struct upstream *upstream, const coap_pdu_t *pdu)
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
    if (session_find_request(session, token_of(received)) == NULL) {
        session_heard(session);
        return COAP_RESPONSE_FAIL; /* a Reset for it, on DTLS (OBS-27) */
    }
    (void)coap_get_data(received, &payload_len, &payload);
    const struct message response = {
        .type = (enum message_type)coap_pdu_get_type(received),
        .code = (uint8_t)coap_pdu_get_code(received),
        .token = token_of(received),
        .options = upstream_coap_write_options(session->upstream, received),
        .payload = {payload, payload_len},
    };
    (void)session_on_response(session, &response);
    return COAP_RESPONSE_OK;
}

/* This side serves no requests (TCP-20). The handler is there because without one libcoap rejects
 * unknown options, also critical ones that are safe to forward (OPT-7). */
static void upstream_coap_on_request(coap_resource_t *resource, coap_session_t *coap,
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
static int upstream_coap_on_certificate(const char *name, const uint8_t *certificate,
                                        size_t certificate_len, coap_session_t *coap,
                                        unsigned depth, int is_good, void *context)
{
    struct session *session = context;

    (void)name;
    (void)coap;
    if (depth > 0 || is_good == 0) {
        return is_good;
    }
    X509 *parsed = d2i_X509(NULL, &certificate, (long)certificate_len);
    bool is_match = parsed != NULL && credentials_match_name(&session->pool->target, parsed);
    X509_free(parsed);
    session->coap->is_wrong_name = !is_match;
    return is_match;
}

/*
 * libcoap's callback for the pre-shared key: identity and key are borrowed from the session's
 * credentials, the struct lives until the next call in the same thread. With a callback the
 * handshake has TLS 1.2 at most, see credentials_apply().
 */
static const coap_dtls_cpsk_info_t *upstream_coap_on_psk(coap_str_const_t *hint,
                                                         coap_session_t *coap, void *context)
{
    static _Thread_local coap_dtls_cpsk_info_t info;
    const struct session *session = context;
    struct bytes key = credentials_psk_key(session->credentials);
    const char *identity = session->credentials->identity;

    (void)hint;
    (void)coap;
    info.identity = (coap_bin_const_t){strlen(identity), (const uint8_t *)identity};
    info.key = (coap_bin_const_t){key.len, key.data};
    return &info;
}

/*
 * Register the callbacks for the session of @p context.
 *
 * @return false without memory
 */
static bool upstream_coap_listen(coap_context_t *context)
{
    static const char *names[] = {"invalid"};

    coap_register_event_handler(context, upstream_coap_on_event);
    coap_register_nack_handler(context, on_nack);
    coap_register_response_handler(context, on_response);
    /* A parent proxy that does not know these has them in its 4.02 (PXO-26). libcoap would
     * drop that as an answer with a critical option that it does not know itself. */
    coap_register_option(context, OPTION_proxy_cri);
    coap_register_option(context, OPTION_proxy_scheme_number);
    coap_resource_t *resource = coap_resource_proxy_uri_init(upstream_coap_on_request, 1, names);
    if (resource == NULL) {
        return false;
    }
    coap_add_resource(context, resource); /* the context's from here on */
    return true;
}

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

bool upstream_coap_is_there(void)
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
    if (session->state == SESSION_CONNECTING && upstream_coap_is_refused(session)) {
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
    if (!upstream_coap_listen(context)) {
        return false;
    }
    session->coap->event = event_new(upstream->loop->base, coap_context_get_coap_fd(context),
                                     EV_READ | EV_PERSIST, on_readable, session);
    return session->coap->event != NULL && event_add(session->coap->event, NULL) == 0;
}

static coap_session_t *connect_psk(struct session *session, const coap_address_t *address)
{
    struct bytes key = credentials_psk_key(session->credentials);
    const char *identity = session->credentials->identity;
    struct session_pool *pool = session->pool;
    coap_dtls_cpsk_t setup = {
        .version = COAP_DTLS_CPSK_SETUP_VERSION,
        .validate_ih_call_back = upstream_coap_on_psk,
        .ih_call_back_arg = session,
        .client_sni = pool->target.host != NULL ? pool->host : NULL,
    };
    setup.psk_info.identity = (coap_bin_const_t){strlen(identity), (const uint8_t *)identity};
    setup.psk_info.key = (coap_bin_const_t){key.len, key.data};
    return coap_new_client_session_psk2(session->coap->context, NULL, address, COAP_PROTO_DTLS,
                                        &setup);
}

static coap_session_t *connect_pki(struct session *session, const coap_address_t *address)
{
    struct session_pool *pool = session->pool;
    coap_dtls_pki_t setup = {
        .version = COAP_DTLS_PKI_SETUP_VERSION,
        .verify_peer_cert = 1,
        .cert_chain_validation = 1,
        .cert_chain_verify_depth = CHAIN_MAX,
        .validate_cn_call_back = upstream_coap_on_certificate,
        .cn_call_back_arg = session,
        .client_sni = pool->target.host != NULL ? pool->host : NULL,
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
    const struct upstream_target *target = &session->pool->target;

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
    address.size = sockaddr_from_address(&session->pool->target.address, &name);
    memcpy(&address.addr, &name, address.size);
    ERR_clear_error();
    int expected = upstream_coap_next_socket(session);
    coap_session_t *coap = credentials_have_psk(session->credentials)
                               ? connect_psk(session, &address)
                               : connect_pki(session, &address);
    session->coap->session = coap;
    if (coap == NULL || coap_session_get_tls(coap, &library) == NULL) {
        bool is_shortage = coap != NULL || ERR_peek_error() != 0;
        *ret_status = is_shortage ? UPSTREAM_NO_MEMORY : UPSTREAM_REFUSED;
        return false;
    }
    session->coap->fd = upstream_coap_find_socket(session, expected);
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
