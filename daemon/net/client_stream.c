/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sessions on connections, TCP and TLS: RFC 8323 as a client, over libevent.
 *
 * Not libcoap's, though it has them: 4.3.1 loses its place in the stream when a read
 * ends inside the header of a message (of three bytes or more, after the second), and
 * waits for the rest of a message that never was. On a busy connection that happens
 * every few thousand responses.
 */
#include "net/client_internal.h"

#include "coap/frame.h"
#include "net/loop_internal.h"
#include "net/sockaddr.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

#define CHAIN_MAX 6
#define COAPS_PORT 5684
#define TOKEN_MAX 8u

/* Requests that may wait for the other side to take them; then they wait in the pool. */
#define OUTPUT_MAX 262144u

/* What was written and is not acknowledged for as long as so many handshakes may take ends a
 * connection (RFC 5482). */
#define SILENCE_HANDSHAKES 2u

/* Options of signalling messages (RFC 8323 section 5). */
#define CSM_MAX_MESSAGE_SIZE 2u
#define CSM_BLOCK_WISE_TRANSFER 4u
#define PING_CUSTODY 2u
#define ABORT_BAD_CSM_OPTION 2u

struct stream_end {
    struct bufferevent *bev;
    SSL *ssl;          /* the bufferevent's; NULL on TCP */
    bool is_connected; /* TCP, and TLS where there is one */
    bool is_open;      /* the other side's CSM has come */
    bool is_wrong_name;
    long verdict;      /* on the certificate */
    const char *why;   /* the handshake failed */
    uint64_t peer_max; /* longest message it takes */
};

/* ---- out ---- */

static void write_bytes(const struct session *session, struct bytes bytes)
{
    if (session->stream->bev != NULL) {
        (void)bufferevent_write(session->stream->bev, bytes.data, bytes.len);
    }
}

/* @p option 0: none. */
static void send_signal(const struct session *session, uint8_t code, struct bytes token,
                        uint16_t option, struct bytes value)
{
    uint8_t buffer[64];
    struct message_writer writer;

    frame_writer_init(&writer, buffer, sizeof buffer, token);
    if (option != 0) {
        message_writer_option(&writer, option, value);
    }
    write_bytes(session, frame_finish(&writer, code, token, false));
}

/* The first thing that is sent (TCP-5, TCP-8). */
static void send_csm(const struct session *session)
{
    uint8_t buffer[32];
    struct message_writer writer;
    struct bytes none = {0};

    frame_writer_init(&writer, buffer, sizeof buffer, none);
    message_writer_option_uint(&writer, CSM_MAX_MESSAGE_SIZE,
                               session->upstream->options.message_bytes);
    message_writer_option(&writer, CSM_BLOCK_WISE_TRANSFER, none);
    write_bytes(session, frame_finish(&writer, CODE_CSM, none, false));
}

static void abort_session(struct session *session, const char *why, uint16_t bad_option)
{
    uint8_t number[2] = {(uint8_t)(bad_option >> 8), (uint8_t)bad_option};
    struct bytes value = {number + (bad_option < 256), bad_option < 256 ? 1 : 2};

    send_signal(session, CODE_ABORT, (struct bytes){0}, bad_option != 0 ? ABORT_BAD_CSM_OPTION : 0,
                value);
    session_die(session,
                session->state == SESSION_CONNECTING ? UPSTREAM_HANDSHAKE_FAILED : UPSTREAM_CLOSED,
                why);
}

/* ---- in ---- */

/* Later ones replace what earlier ones said (TCP-7). */
static void on_csm(struct session *session, const struct message *message)
{
    struct stream_end *end = session->stream;
    struct option_iter iter;
    struct option option;

    option_iter_init(&iter, message->options);
    while (option_iter_next(&iter, &option)) {
        if (option.number == CSM_MAX_MESSAGE_SIZE) {
            end->peer_max = option_uint(option.value);
        } else if (option.number % 2 != 0) {
            abort_session(session, "unknown critical option in CSM", option.number);
            return;
        }
    }
    end->is_open = true;
    session->is_up = true;
    session_set_due(session);
}

static void on_signal(struct session *session, const struct message *message)
{
    bool has_custody = message_has_option(message, PING_CUSTODY);

    switch (message->code) {
    case CODE_CSM:
        on_csm(session, message);
        break;
    case CODE_PING:
        send_signal(session, CODE_PONG, message->token, has_custody ? PING_CUSTODY : 0,
                    (struct bytes){0});
        break;
    case CODE_PONG:
        session_pong(session);
        break;
    case CODE_RELEASE:
        session->is_leaving = true;
        session_set_due(session);
        break;
    case CODE_ABORT:
        session_die(session, session->stream->is_open ? UPSTREAM_CLOSED : UPSTREAM_HANDSHAKE_FAILED,
                    "aborted by the other side");
        break;
    default: /* signals to come (TCP-15) */
        break;
    }
}

static void on_message(struct session *session, const struct message *message)
{
    session_heard(session);
    if (CODE_CLASS(message->code) == 7) {
        if (!session->stream->is_open && message->code != CODE_CSM && message->code != CODE_ABORT) {
            abort_session(session, "CSM expected first", 0); /* TCP-6 */
        } else {
            on_signal(session, message);
        }
    } else if (message->code == CODE_EMPTY) {
        return; /* TCP-16 */
    } else if (!session->stream->is_open) {
        abort_session(session, "CSM expected first", 0);
    } else if (message_is_request(message)) {
        send_signal(session, CODE(5, 1), message->token, 0, (struct bytes){0}); /* TCP-20 */
    } else {
        (void)session_on_response(session, message); /* one nobody waits for is dropped */
    }
}

static void read_frames(struct session *session)
{
    struct evbuffer *input = bufferevent_get_input(session->stream->bev);

    while (!session->is_dead) {
        struct message message;
        size_t len = evbuffer_get_length(input), frame_len = 0;
        const uint8_t *data = len > 0 ? evbuffer_pullup(input, -1) : NULL;
        if (data == NULL) {
            return;
        }
        switch (frame_decode(data, len, session->upstream->options.message_bytes, TOKEN_MAX,
                             &frame_len, &message)) {
        case FRAME_OK:
            on_message(session, &message);
            (void)evbuffer_drain(input, frame_len);
            break;
        case FRAME_MORE:
            return;
        case FRAME_TOO_LARGE:
            abort_session(session, "message too large", 0); /* TCP-3 */
            return;
        case FRAME_MALFORMED:
            abort_session(session, "malformed message", 0); /* TCP-14 */
            return;
        }
    }
}

static void on_read(struct bufferevent *bev, void *context)
{
    struct session *session = context;

    (void)bev;
    loop_turn_begin(session->upstream->loop);
    session->upstream->inside = session;
    read_frames(session);
    session->upstream->inside = NULL;
}

/* What waited has gone out: there is room for more. */
static void on_write(struct bufferevent *bev, void *context)
{
    struct session *session = context;

    (void)bev;
    loop_turn_begin(session->upstream->loop);
    session_set_due(session);
}

/* ---- TLS ---- */

static int on_verify(int is_good, X509_STORE_CTX *store)
{
    const SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    struct session *session = SSL_get_app_data(ssl);
    X509 *certificate = X509_STORE_CTX_get_current_cert(store);

    if (is_good == 1 && X509_STORE_CTX_get_error_depth(store) == 0 &&
        !credentials_match_name(&session->place->target, certificate)) {
        session->stream->is_wrong_name = true;
        X509_STORE_CTX_set_error(store, X509_V_ERR_HOSTNAME_MISMATCH);
        return 0;
    }
    return is_good;
}

/*
 * The bufferevent does not hand on OpenSSL's errors, and by the time its callback comes
 * the queue can hold those of another connection. Here they are fresh.
 */
static void on_info(const SSL *ssl, int where, int result)
{
    const struct session *session = SSL_get_app_data(ssl);
    unsigned long code = ERR_peek_last_error();

    if (where == SSL_CB_CONNECT_EXIT && result <= 0 && code != 0) {
        session->stream->why = ERR_reason_error_string(code);
        session->stream->verdict = SSL_get_verify_result(ssl);
    }
}

static SSL *make_ssl(struct session *session)
{
    const struct upstream_target *target = &session->place->target;
    SSL *ssl = SSL_new(credentials_tls_client(session->credentials));

    if (ssl == NULL) {
        return NULL;
    }
    SSL_set_app_data(ssl, session);
    SSL_set_info_callback(ssl, on_info);
    if (!credentials_have_psk(session->credentials)) {
        SSL_set_verify(ssl, SSL_VERIFY_PEER, on_verify);
        SSL_set_verify_depth(ssl, CHAIN_MAX);
    }
    if (target->host != NULL && SSL_set_tlsext_host_name(ssl, session->place->host) != 1) {
        SSL_free(ssl);
        return NULL;
    }
    return ssl;
}

/* On other ports than the default one it has to speak CoAP in so many words (TCP-26). A
 * pre-shared key says as much: it is for CoAP, and libcoap's servers do not answer then. */
static bool lacks_alpn(const struct session *session)
{
    const struct upstream_target *target = &session->place->target;
    const unsigned char *name = NULL;
    unsigned len = 0;

    if (session->stream->ssl == NULL || target->address.port == COAPS_PORT ||
        credentials_have_psk(session->credentials)) {
        return false;
    }
    SSL_get0_alpn_selected(session->stream->ssl, &name, &len);
    return len != 4 || memcmp(name, "coap", 4) != 0;
}

/* ---- its life ---- */

static void on_failed(struct session *session, int error)
{
    struct stream_end *end = session->stream;
    bool is_refused = error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH ||
                      error == EACCES || error == EADDRNOTAVAIL || error == ENETDOWN ||
                      error == EHOSTDOWN;
    /* Under TLS the bufferevent swallows what connect() says: but nothing was written then. */
    is_refused =
        is_refused || (end->ssl != NULL && BIO_number_written(SSL_get_wbio(end->ssl)) == 0);

    if (session->state != SESSION_CONNECTING) {
        session_die(session, UPSTREAM_CLOSED, NULL);
    } else if (end->is_wrong_name) {
        session_die(session, UPSTREAM_NAME_MISMATCH, NULL);
    } else if (end->verdict != X509_V_OK) {
        session_die(session, UPSTREAM_BAD_CERTIFICATE, X509_verify_cert_error_string(end->verdict));
    } else if (error == ETIMEDOUT) {
        session_die(session, UPSTREAM_CONNECT_TIMEOUT, NULL);
    } else if (is_refused) {
        session_die(session, UPSTREAM_REFUSED, NULL);
    } else {
        session_die(session, UPSTREAM_HANDSHAKE_FAILED,
                    end->why != NULL ? end->why : "closed by the other side");
    }
}

static void on_event(struct bufferevent *bev, short what, void *context)
{
    struct session *session = context;
    int error = EVUTIL_SOCKET_ERROR();

    loop_turn_begin(session->upstream->loop);
    if ((what & BEV_EVENT_CONNECTED) != 0) {
        int on = 1;
        /* A host that is gone without a word: found out while the request may be repeated. */
        unsigned silence_ms = SILENCE_HANDSHAKES * session->upstream->options.handshake_ms;
        (void)setsockopt(bufferevent_getfd(bev), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        (void)setsockopt(bufferevent_getfd(bev), IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms,
                         sizeof silence_ms);
        if (lacks_alpn(session)) {
            session_die(session, UPSTREAM_HANDSHAKE_FAILED, "no ALPN");
            return;
        }
        session->stream->is_connected = true;
        send_csm(session);
    } else if ((what & (BEV_EVENT_ERROR | BEV_EVENT_EOF)) != 0) {
        on_failed(session, (what & BEV_EVENT_ERROR) != 0 ? error : 0);
    }
}

static bool stream_open(struct session *session, enum upstream_status *ret_status)
{
    struct event_base *base = loop_event_base(session->upstream->loop);
    const struct place *place = session->place;
    const int options = BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS;
    union sockaddr_any name;
    struct stream_end *end = calloc(1, sizeof *end);

    *ret_status = UPSTREAM_NO_MEMORY;
    session->stream = end;
    if (end == NULL) {
        return false;
    }
    end->peer_max = FRAME_BASE_MESSAGE_SIZE;
    end->verdict = X509_V_OK;
    if (session->credentials != NULL) {
        end->ssl = make_ssl(session);
        if (end->ssl == NULL) {
            ERR_clear_error();
            return false;
        }
        end->bev =
            bufferevent_openssl_socket_new(base, -1, end->ssl, BUFFEREVENT_SSL_CONNECTING, options);
        if (end->bev == NULL) {
            SSL_free(end->ssl);
            return false;
        }
        /* A close without close_notify is a close: messages have lengths of their own. */
        bufferevent_openssl_set_allow_dirty_shutdown(end->bev, 1);
    } else {
        end->bev = bufferevent_socket_new(base, -1, options);
    }
    if (end->bev == NULL) {
        return false;
    }
    bufferevent_setcb(end->bev, on_read, on_write, on_event, session);
    socklen_t name_len = sockaddr_from_address(&place->target.address, &name);
    *ret_status = UPSTREAM_REFUSED;
    return bufferevent_socket_connect(end->bev, &name.any, (int)name_len) == 0 &&
           bufferevent_enable(end->bev, EV_READ | EV_WRITE) == 0;
}

/* Once more what libevent had no occasion to write: Release, Abort, close_notify (TCP-12). */
static void flush(const struct stream_end *end)
{
    struct evbuffer *output = bufferevent_get_output(end->bev);
    size_t len = evbuffer_get_length(output);

    const uint8_t *data = len > 0 ? evbuffer_pullup(output, -1) : NULL;
    if (data != NULL && end->ssl == NULL) {
        (void)send(bufferevent_getfd(end->bev), data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    } else if (data != NULL && len <= INT32_MAX) {
        (void)SSL_write(end->ssl, data, (int)len);
    }
    if (end->ssl == NULL) {
        return;
    }
    (void)SSL_shutdown(end->ssl);
    ERR_clear_error();
}

static void stream_close(struct session *session)
{
    struct stream_end *end = session->stream;

    if (end == NULL) {
        return;
    }
    if (end->bev != NULL) {
        if (end->is_open && !session->is_dead) {
            send_signal(session, CODE_RELEASE, (struct bytes){0}, 0, (struct bytes){0});
        }
        if (end->is_connected) {
            flush(end);
        }
        bufferevent_setcb(end->bev, NULL, NULL, NULL, NULL);
        bufferevent_free(end->bev);
    }
    free(end);
    session->stream = NULL;
}

/* ---- requests ---- */

static bool stream_transmit(struct session *session, const struct message *message,
                            enum upstream_status *ret_status)
{
    const struct stream_end *end = session->stream;
    size_t len =
        FRAME_HEAD_MAX + message->token.len + message->options.len + 1 + message->payload.len + 16;
    struct message_writer writer;
    struct option_iter iter;
    struct option option;

    uint8_t *buffer = malloc(len);
    if (buffer == NULL) {
        *ret_status = UPSTREAM_NO_MEMORY;
        return false;
    }
    frame_writer_init(&writer, buffer, len, message->token);
    option_iter_init(&iter, message->options);
    while (option_iter_next(&iter, &option)) {
        message_writer_option(&writer, option.number, option.value);
    }
    message_writer_payload(&writer, message->payload);
    struct bytes frame = frame_finish(&writer, message->code, message->token, false);
    *ret_status = UPSTREAM_MESSAGE_TOO_LARGE; /* than its CSM allows (TCP-4) */
    bool is_good = frame.len > 0 && frame.len <= end->peer_max;
    if (is_good) {
        *ret_status = UPSTREAM_NO_MEMORY;
        is_good = bufferevent_write(end->bev, frame.data, frame.len) == 0;
    }
    free(buffer);
    return is_good;
}

static bool stream_ping(struct session *session)
{
    session->has_pong = false;
    send_signal(session, CODE_PING, (struct bytes){0}, 0, (struct bytes){0});
    return true;
}

static bool stream_is_acknowledged(const struct session *session)
{
    (void)session;
    return true; /* TCP's business */
}

static bool stream_is_almost_up(const struct session *session)
{
    (void)session;
    return false; /* a wrong key is told with an alert */
}

static bool stream_is_full(const struct session *session)
{
    const struct evbuffer *output = bufferevent_get_output(session->stream->bev);
    return evbuffer_get_length(output) > OUTPUT_MAX;
}

const struct session_kind session_kind_stream = {
    .open = stream_open,
    .close = stream_close,
    .transmit = stream_transmit,
    .ping = stream_ping,
    .is_acknowledged = stream_is_acknowledged,
    .is_almost_up = stream_is_almost_up,
    .is_full = stream_is_full,
};
