/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sessions on connections, TCP and TLS, bare or with a WebSocket on them: RFC 8323 as a
 * client, over libevent.
 *
 * Not libcoap's, though it has them: 4.3.1 loses its place in the stream when a read
 * ends inside the header of a message (of three bytes or more, after the second), and
 * waits for the rest of a message that never was. On a busy connection that happens
 * every few thousand responses.
 */
#include "net/upstream_stream_internal.h"

#include "net/loop_internal.h"
#include "net/sockaddr.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <netinet/tcp.h>
#include <openssl/x509.h>
#include <stdlib.h>

/* Requests that may wait for the other side to take them; then they wait in the pool. */
#define OUTPUT_MAX 262144u

/*
 * Output beyond this, in addition to one message, means that the other side sends Pings and
 * requests but does not read: the connection is cut.
 */
#define OUTPUT_HARD_MAX (2 * OUTPUT_MAX)

/* A connection ends when written bytes are not acknowledged for this many handshake time-outs (RFC
 * 5482). */
#define SILENCE_HANDSHAKES 2u

bool stream_has_room(struct session *session)
{
    const struct evbuffer *output = bufferevent_get_output(session->stream->bev);
    size_t most = OUTPUT_HARD_MAX + (size_t)session->upstream->options.message_bytes;

    if (evbuffer_get_length(output) <= most) {
        return true;
    }
    stream_fail(session, "the other side does not read");
    return false;
}

/* False where there is no memory or room, or no WebSocket yet. */
static bool session_queue(struct session *session, struct bytes frame)
{
    const struct stream_end *end = session->stream;

    if (end->bev == NULL || frame.len == 0 || !stream_has_room(session)) {
        return false;
    }
    return end->endpoint.is_ws ? upstream_ws_write(end->ws, frame)
                               : bufferevent_write(end->bev, frame.data, frame.len) == 0;
}

void stream_fail(struct session *session, const char *why)
{
    session_die(session,
                session->state == SESSION_CONNECTING ? UPSTREAM_HANDSHAKE_FAILED : UPSTREAM_CLOSED,
                why);
}

/* ---- messages ---- */

static void session_write(void *context, struct bytes frame)
{
    (void)session_queue(context, frame);
}

static bool session_may_read(void *context)
{
    const struct session *session = context;
    return !session->is_dead;
}

static void session_on_request(void *context, const struct message *request)
{
    struct session *session = context;
    endpoint_send(&session->stream->endpoint, CODE(5, 1), request->token, ""); /* TCP-20 */
}

static void session_on_message(void *context, const struct message *message)
{
    if (message->code != CODE_EMPTY) {               /* TCP-16 */
        (void)session_on_response(context, message); /* one without a request is dropped */
    }
}

static void session_on_signal(void *context, uint8_t code)
{
    struct session *session = context;
    bool is_open = session->stream->endpoint.is_open;

    if (code == CODE_CSM) {
        session->is_up = true;
    } else if (code == CODE_PONG) {
        session_pong(session);
    } else if (code == CODE_RELEASE) {
        session->is_leaving = true;
    } else {
        session_die(session, is_open ? UPSTREAM_CLOSED : UPSTREAM_HANDSHAKE_FAILED,
                    "aborted by the other side");
    }
    session_set_due(session);
}

static void session_on_fault(void *context, const char *why)
{
    stream_fail(context, why);
}

static const struct endpoint_handler endpoint_handler = {
    .write = session_write,
    .may_read = session_may_read,
    .on_request = session_on_request,
    .on_response = session_on_message,
    .on_signal = session_on_signal,
    .on_fault = session_on_fault,
};

size_t stream_input(struct session *session, const uint8_t *data, size_t len)
{
    size_t used = endpoint_input(&session->stream->endpoint, data, len);

    if (used > 0) {
        session_heard(session);
    }
    return used;
}

/* ---- in ---- */

static void read_stream(struct session *session)
{
    struct evbuffer *input = bufferevent_get_input(session->stream->bev);
    size_t len = evbuffer_get_length(input);
    const uint8_t *data = len > 0 ? evbuffer_pullup(input, -1) : NULL;

    if (data != NULL) {
        (void)evbuffer_drain(input, stream_input(session, data, len));
    }
}

static void on_read(struct bufferevent *bev, void *context)
{
    struct session *session = context;

    (void)bev;
    loop_turn_begin(session->upstream->loop);
    session->upstream->inside = session;
    if (session->stream->endpoint.is_ws) {
        upstream_ws_input(session);
    } else {
        read_stream(session);
    }
    session->upstream->inside = NULL;
}

/* The queued output was sent: there is room for more. */
static void on_write(struct bufferevent *bev, void *context)
{
    struct session *session = context;

    (void)bev;
    loop_turn_begin(session->upstream->loop);
    session_set_due(session);
}

/* ---- its life ---- */

static void on_failed(struct session *session, int error)
{
    struct stream_end *end = session->stream;
    bool is_refused = error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH ||
                      error == EACCES || error == ENETDOWN || error == EHOSTDOWN;
    /* Under TLS the bufferevent does not report the error of connect(), but then nothing was
     * written. */
    is_refused = is_refused || upstream_tls_is_unwritten(end);

    if (session->state != SESSION_CONNECTING) {
        session_die(session, UPSTREAM_CLOSED, NULL);
    } else if (end->is_wrong_name) {
        session_die(session, UPSTREAM_NAME_MISMATCH, NULL);
    } else if (end->verdict != X509_V_OK) {
        session_die(session, upstream_certificate_status(end->verdict),
                    X509_verify_cert_error_string(end->verdict));
    } else if (error == ETIMEDOUT) {
        session_die(session, UPSTREAM_CONNECT_TIMEOUT, NULL);
    } else if (error == EADDRNOTAVAIL) {
        session_die(session, UPSTREAM_NO_MEMORY, NULL); /* see stream_open() */
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
        /* A host that is gone without a word: found out while the request may be repeated. */
        unsigned silence_ms = SILENCE_HANDSHAKES * session->upstream->options.handshake_ms;
        (void)setsockopt(bufferevent_getfd(bev), IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms,
                         sizeof silence_ms);
        if (upstream_tls_lacks_alpn(session)) {
            session_die(session, UPSTREAM_HANDSHAKE_FAILED, "no ALPN");
            return;
        }
        session->stream->is_connected = true;
        if (!session->stream->endpoint.is_ws) {
            endpoint_start(&session->stream->endpoint);
        } else if (!upstream_ws_open(session)) {
            session_die(session, UPSTREAM_NO_MEMORY, NULL);
        }
    } else if ((what & (BEV_EVENT_ERROR | BEV_EVENT_EOF)) != 0) {
        on_failed(session, (what & BEV_EVENT_ERROR) != 0 ? error : 0);
    }
}

static bool connect_to(struct bufferevent *bev, const struct address *address)
{
    const int on = 1;
    union sockaddr_any name;
    socklen_t name_len = sockaddr_from_address(address, &name);

    if (bufferevent_socket_connect(bev, &name.any, (int)name_len) != 0) {
        return false;
    }
    /* From the first byte on: a flight of TLS's handshake is several writes, each of which
     * would wait for the acknowledgement of the one before, which may be delayed. */
    (void)setsockopt(bufferevent_getfd(bev), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return bufferevent_enable(bev, EV_READ | EV_WRITE) == 0;
}

static bool stream_open(struct session *session, enum upstream_status *ret_status)
{
    struct event_base *base = session->upstream->loop->base;
    const int options = BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS;
    struct stream_end *end = calloc(1, sizeof *end);

    *ret_status = UPSTREAM_NO_MEMORY;
    session->stream = end;
    if (end == NULL) {
        return false;
    }
    end->endpoint = (struct endpoint){
        .handler = &endpoint_handler,
        .context = session,
        .message_max = session->upstream->options.message_bytes,
        .token_max = ENDPOINT_BASE_TOKEN,
        .is_ws = transport_is_ws(session->pool->target.transport),
    };
    end->verdict = X509_V_OK;
    if (session->credentials != NULL) {
        end->bev = upstream_tls_new(session, base, options);
    } else {
        end->bev = bufferevent_socket_new(base, -1, options);
    }
    if (end->bev == NULL) {
        return false;
    }
    bufferevent_setcb(end->bev, on_read, on_write, on_event, session);
    errno = 0;
    if (connect_to(end->bev, &session->pool->target.address)) {
        return true;
    }
    /* All our ports towards it are in use: nothing to hold against the origin server. */
    *ret_status = errno == EADDRNOTAVAIL ? UPSTREAM_NO_MEMORY : UPSTREAM_REFUSED;
    return false;
}

/* Write what libevent had no chance to write before: Release, Abort, a Close frame,
 * close_notify (TCP-12). */
static void flush(const struct stream_end *end)
{
    struct evbuffer *output = bufferevent_get_output(end->bev);
    size_t len = evbuffer_get_length(output);

    const uint8_t *data = len > 0 ? evbuffer_pullup(output, -1) : NULL;
    if (end->ssl != NULL) {
        upstream_tls_goodbye(end, (struct bytes){data, data != NULL ? len : 0});
    } else if (data != NULL) {
        (void)send(bufferevent_getfd(end->bev), data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

static void stream_close(struct session *session)
{
    struct stream_end *end = session->stream;

    if (end == NULL) {
        return;
    }
    if (end->bev != NULL) {
        if (end->endpoint.is_open && !session->is_dead) {
            endpoint_send(&end->endpoint, CODE_RELEASE, (struct bytes){0}, "");
        }
        upstream_ws_goodbye(end->ws);
        if (end->is_connected) {
            flush(end);
        }
        bufferevent_setcb(end->bev, NULL, NULL, NULL, NULL);
        bufferevent_free(end->bev);
    }
    upstream_ws_free(end->ws);
    free(end);
    session->stream = NULL;
}

/* ---- requests ---- */

static bool stream_transmit(struct session *session, const struct message *message,
                            struct upstream_request *request, enum upstream_status *ret_status)
{
    (void)request;
    const struct endpoint *endpoint = &session->stream->endpoint;
    size_t len =
        FRAME_HEAD_MAX + message->token.len + message->options.len + 1 + message->payload.len + 16;
    struct message_writer writer;

    uint8_t *buffer = malloc(len);
    if (buffer == NULL) {
        *ret_status = UPSTREAM_NO_MEMORY;
        return false;
    }
    frame_writer_init(&writer, buffer, len, message->token);
    message_writer_all_options(&writer, message->options);
    message_writer_payload(&writer, message->payload);
    struct bytes frame = frame_finish(&writer, message->code, message->token, endpoint->is_ws);
    *ret_status = UPSTREAM_MESSAGE_TOO_LARGE; /* than its CSM allows (TCP-4) */
    bool is_good = frame.len > 0 && frame.len <= endpoint->peer_max;
    if (is_good) {
        *ret_status = UPSTREAM_NO_MEMORY;
        is_good = session_queue(session, frame);
    }
    free(buffer);
    return is_good;
}

static bool stream_ping(struct session *session)
{
    session->has_pong = false;
    endpoint_send(&session->stream->endpoint, CODE_PING, (struct bytes){0}, "");
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
    return false; /* a wrong key is reported with an alert */
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
