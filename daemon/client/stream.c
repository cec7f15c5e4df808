/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One stream a connection. Each side begins with a CSM; after that messages come
 * one after the other, and each request is answered when its answer is there.
 *
 *   opening --CSM--> open --Release, or ours--> released --all answered--> closed
 *      \               \ \
 *       \               \ +--idle: our Release--> leaving --time is up---> closed
 *        +---------------+---- a fault: Abort ---------------------------> closed
 *
 * What a peer sends faster than we answer waits in its own send buffer: reading
 * stops while it has limits.exchanges-per-client requests in flight or does not
 * take its answers. A device that is asked is read on: its answers may stand behind its requests.
 */
#include "client/stream_internal.h"

#include "base/log.h"
#include "client/admission.h"
#include "client/handle.h"
#include "client/http_front.h"
#include "client/http_token.h"
#include "client/reply.h"
#include "client/side.h"
#include "conf/device.h"
#include "context/capture.h"
#include "context/faults.h"
#include "policy/access.h"

#include <stdlib.h>

/* What an idle peer has, after our Release, for a request that has crossed it. */
#define RELEASE_MS 2000u

static uint32_t scheme_of(const struct conn *conn)
{
    return transport_row(conn_transport(conn))->number;
}

static const char *scheme_name(const struct stream *stream)
{
    return transport_row(conn_transport(stream->conn))->scheme;
}

void stream_pause(struct stream *stream, bool is_paused)
{
    if (is_paused != stream->is_paused) {
        stream->is_paused = is_paused;
        conn_pause(stream->conn, is_paused);
    }
}

/* Read on, or not: whichever of the two reasons to stop holds. HTTP's requests come one by one. */
static void regulate(struct stream *stream)
{
    if (stream->http == NULL) {
        bool is_asked = stream->device != NULL && device_is_asked(stream->device);
        stream_pause(stream, !is_asked && (stream->is_full ||
                                           stream->peer.in_flight >=
                                               limit_exchanges(stream->side, &stream->peer)));
    }
}

void stream_send_bytes(struct stream *stream, const void *data, size_t len)
{
    if (len > 0 && !conn_send(stream->conn, data, len)) {
        stream->is_full = true;
        regulate(stream);
    }
}

static void stream_send_frame(void *context, struct bytes frame)
{
    stream_send_bytes(context, frame.data, frame.len);
}

/* A signal without a token: Ping, or Release with the reason for it. */
static void stream_send_signal(const struct stream *stream, uint8_t code, const char *words)
{
    if (stream->http == NULL) {
        endpoint_send(&stream->endpoint, code, (struct bytes){0}, words);
    }
}

/* --- its end ------------------------------------------------------------ */

void stream_close(struct stream *stream, const char *why)
{
    stream->state = STREAM_CLOSED;
    stream->why = why;
    conn_close(stream->conn);
}

static void close_if_done(struct stream *stream)
{
    bool is_over = stream->state == STREAM_RELEASED ||
                   (stream->state == STREAM_LEAVING && stream->has_crossed);
    bool is_asked = stream->device != NULL && device_is_asked(stream->device);
    if (is_over && stream->peer.in_flight == 0 && !is_asked) {
        stream_close(stream, "released");
    }
}

const char *stream_host(const struct stream *stream)
{
    return conn_host(stream->conn);
}

/* --- messages ----------------------------------------------------------- */

static bool stream_may_read(void *context)
{
    const struct stream *stream = context;
    return stream->state != STREAM_CLOSED && !stream->is_paused;
}

/* A token is what its client shows with the request; the connection may have one of its own. */
static struct identity *stream_identity(const struct stream *stream)
{
    return stream->identity != NULL ? stream->identity : conn_identity(stream->conn);
}

/* The client was sent an Abort: the log and criproxyctl are told why, too. */
static void stream_on_fault(void *context, const char *why)
{
    struct stream *stream = context;
    const struct refusal_note note = {.client = conn_remote(stream->conn),
                                      .kind = REFUSAL_MESSAGE,
                                      .word = "malformed",
                                      .identity = stream_identity(stream),
                                      .detail = why};
    refusals_log(&stream->side->refusals, &note, "message_malformed");
    metric_add(&stream->side->context.metrics.streams_aborted, 1);
    stream_close(stream, why);
}

/* --- devices: the proxy is the client, too ------------------------------- */

static enum reason stream_send_to_device(void *owner, const uint8_t *datagram, size_t len)
{
    struct stream *stream = owner;
    struct client_side *side = stream->side;
    struct message message;
    struct message_writer writer;
    if (stream->state != STREAM_OPEN) {
        return REASON_device_gone; /* it has said that it goes */
    }
    if (message_decode(datagram, len, &message) != MESSAGE_OK) {
        return REASON_internal;
    }
    frame_writer_init(&writer, side->context.scratch, side->context.scratch_bytes, message.token);
    message_writer_all_options(&writer, message.options);
    message_writer_payload(&writer, message.payload);
    struct bytes frame = frame_finish(&writer, message.code, message.token, stream->endpoint.is_ws);
    if (frame.len == 0 || frame.len > stream->endpoint.peer_max) {
        return REASON_request_too_large;
    }
    stream_send_frame(stream, frame);
    regulate(stream); /* read on, for the answer */
    return REASON_none;
}

static void stream_end_device(void *owner, const char *why)
{
    struct stream *stream = owner;
    stream->device = NULL;
    if (stream->state == STREAM_OPEN) {
        stream_send_signal(stream, CODE_RELEASE, why);
    }
    if (stream->state != STREAM_CLOSED) {
        stream_close(stream, why);
    }
}

static void stream_ping_device(void *owner)
{
    stream_send_signal(owner, CODE_PING, "");
}

static const struct device_calls stream_device_calls = {
    .send = stream_send_to_device,
    .ping = stream_ping_device,
    .end = stream_end_device,
};

/* Its CSM has come, so it can be asked, if it is a device. */
static void stream_open_device(struct stream *stream)
{
    struct client_side *side = stream->side;
    const struct config_device *row =
        config_device_of(side->context.config, stream_identity(stream));
    const struct device_line line = {.calls = &stream_device_calls,
                                     .owner = stream,
                                     .transport = conn_transport(stream->conn),
                                     .remote = *conn_remote(stream->conn),
                                     .identity = stream_identity(stream)};
    if (row != NULL) {
        stream->device = device_open(&side->origin, row, &line);
        observations_renew(side, stream->device);
    }
}

void stream_find_devices(struct client_side *side)
{
    struct stream *next;
    for (struct stream *stream = side->streams; stream != NULL; stream = next) {
        const struct config_device *row =
            config_device_of(side->context.config, stream_identity(stream));
        next = stream->next;
        if (row != NULL && stream->state == STREAM_OPEN && stream->http == NULL &&
            !device_is_open(&side->origin, row)) {
            stream_open_device(stream);
        }
    }
}

static void stream_close_device(struct stream *stream)
{
    struct device *device = stream->device;
    stream->device = NULL;
    if (device != NULL) {
        device_close(&stream->side->origin, device);
    }
}

static void stream_on_signal(void *context, uint8_t code)
{
    struct stream *stream = context;
    if (stream->device != NULL) {
        device_hear(&stream->side->origin, stream->device);
    }
    if (code == CODE_CSM && stream->state == STREAM_OPENING) {
        stream->state = STREAM_OPEN;
        stream_open_device(stream);
    } else if (code == CODE_RELEASE) {
        stream->state = STREAM_RELEASED;
        close_if_done(stream);
    } else if (code == CODE_ABORT) {
        metric_add(&stream->side->context.metrics.streams_aborted_by_clients, 1);
        stream_close(stream, "aborted by the peer");
    }
}

struct leg stream_make_leg(struct stream *stream)
{
    struct leg leg = {
        .kind = LEG_STREAM,
        .peer = &stream->peer,
        .stream = stream,
        .asker = {.path = {.remote = *conn_remote(stream->conn),
                           .local = *conn_local(stream->conn)},
                  .identity = stream_identity(stream),
                  .scheme = scheme_of(stream->conn)},
    };
    leg.asker.serial = leg_serial(stream->side, &leg);
    return leg;
}

static void stream_on_request(void *context, const struct message *message)
{
    struct stream *stream = context;
    struct leg leg = stream_make_leg(stream);
    if (stream->state == STREAM_RELEASED) {
        return; /* it said that it would send no more */
    }
    stream->has_crossed = stream->state == STREAM_LEAVING;
    if (stream->device != NULL) {
        device_hear(&stream->side->origin, stream->device);
    }
    request_handle(stream->side, &leg, message, conn_local(stream->conn));
    regulate(stream);
    close_if_done(stream); /* one that was answered at once */
}

/* Responses are those of devices, and Empty messages are for keeping alive (RFC 8323 3.4). */
static void stream_on_response(void *context, const struct message *message)
{
    struct stream *stream = context;
    if (stream->device != NULL) {
        device_hear(&stream->side->origin, stream->device);
        if (stream->device != NULL &&
            device_take(&stream->side->origin, stream->device, message, false)) {
            regulate(stream);
            close_if_done(stream);
            return;
        }
    }
    metric_add(&stream->side->context.metrics.messages_ignored, 1);
}

static const struct endpoint_handler endpoint_handler = {
    .write = stream_send_frame,
    .may_read = stream_may_read,
    .on_request = stream_on_request,
    .on_response = stream_on_response,
    .on_signal = stream_on_signal,
    .on_fault = stream_on_fault,
};

static void log_stream(const struct stream *stream, const char *event, const char *why)
{
    char client[ADDRESS_TEXT_MAX], identity[IDENTITY_TEXT_MAX];
    if (log_is_on(LOG_DEBUG)) {
        log_event(LOG_DEBUG, event, "client=%s identity=%s scheme=%s%s%s%s",
                  address_format(conn_remote(stream->conn), client),
                  identity_format(stream_identity(stream), identity), scheme_name(stream),
                  why[0] != '\0' ? " reason=\"" : "", why, why[0] != '\0' ? "\"" : "");
    }
}

/* --- connections -------------------------------------------------------- */

static void on_failure(void *listener_context, const struct handshake_failure *failure)
{
    const struct stream_listener *listener = listener_context;
    refusals_add_handshake(&listener->side->refusals, failure);
}

/*
 * Whether a connection that has just been made may stay; false where policy.clients refuses the
 * client.
 */
static bool admit_connection(const struct client_side *side, const struct address *remote,
                             uint32_t scheme, const struct identity *identity)
{
    const struct access_client client = access_client_of(remote, scheme, identity);
    return access_standing(side->context.config->access, &client) != STANDING_NONE;
}

static void *on_open(void *listener_context, struct conn *conn)
{
    struct stream_listener *listener = listener_context;
    struct client_side *side = listener->side;
    bool may_have_token =
        transport_is_http(listener->transport) && side->context.config->http_token_count > 0;
    if (!may_have_token &&
        !admit_connection(side, conn_remote(conn), scheme_of(conn), conn_identity(conn))) {
        const struct refusal_note note = {.client = conn_remote(conn),
                                          .kind = REFUSAL_POLICY,
                                          .word = "policy.clients",
                                          .identity = conn_identity(conn)};
        metric_add(&side->context.metrics.connections_refused, 1);
        refusals_log(&side->refusals, &note, "connection_refused");
        return NULL;
    }
    /* One allocation a connection, bounded by the listener's own cap. */
    struct stream *stream = calloc(1, sizeof(*stream));
    if (stream == NULL) {
        return NULL;
    }
    *stream = (struct stream){
        .side = side,
        .listener = listener,
        .serial = ++side->stream_serial,
        .conn = conn,
        .next = side->streams,
        .link = &side->streams,
        .endpoint = {.handler = &endpoint_handler,
                     .context = stream,
                     .message_max = (uint32_t)side->context.config->limits_stream_message_bytes,
                     .token_max = side->context.config->proxy_max_token_bytes,
                     .is_ws = transport_is_ws(listener->transport)},
    };
    if (transport_is_http(listener->transport)) {
        stream->state = STREAM_OPEN;
        stream->http = http_front_new(stream);
        if (stream->http == NULL) {
            free(stream);
            return NULL;
        }
    }
    if (side->streams != NULL) {
        side->streams->link = &stream->next;
    }
    side->streams = stream;
    listener->open_count++;
    metric_set(&side->context.metrics.streams, ++side->stream_count);
    log_stream(stream, "stream_opened", "");
    if (stream->http == NULL) {
        endpoint_start(&stream->endpoint);
    }
    if (side->is_draining) {
        stream_send_signal(stream, CODE_RELEASE, "");
        stream_close(stream, "shutting down");
    }
    return stream;
}

/* An HTTP client may go on with CoAP over WebSockets. */
static size_t take_http(struct stream *stream, const uint8_t *data, size_t len)
{
    size_t used = http_front_input(stream->http, data, len);
    if (http_front_is_socket(stream->http)) {
        http_front_free(stream->http);
        stream->http = NULL;
        stream->state = STREAM_OPENING;
        stream->endpoint.is_ws = true;
        endpoint_start(&stream->endpoint);
    }
    return used;
}

static size_t on_input(void *conn_context, struct conn *conn, const uint8_t *data, size_t len)
{
    struct stream *stream = conn_context;
    (void)conn;
    if (stream->state == STREAM_CLOSED) {
        return len;
    }
    if (stream->http != NULL) {
        return take_http(stream, data, len);
    }
    size_t used = endpoint_input(&stream->endpoint, data, len);
    stream->is_pinged = stream->is_pinged && used == 0;
    return stream->state == STREAM_CLOSED ? len : used;
}

static void on_drained(void *conn_context, struct conn *conn)
{
    struct stream *stream = conn_context;
    (void)conn;
    stream->is_full = false;
    regulate(stream);
    if (stream->http != NULL) {
        http_front_drained(stream->http);
    }
    observers_resume(stream->side, &stream->peer);
}

static uint32_t on_idle(void *conn_context, struct conn *conn)
{
    struct stream *stream = conn_context;
    (void)conn;
    bool is_asked = stream->device != NULL && device_is_asked(stream->device);
    if (stream->peer.in_flight > 0 || is_asked ||
        (stream->http != NULL && http_front_is_busy(stream->http))) {
        return CONN_NOT_IDLE;
    }
    if (stream->state != STREAM_OPEN || stream->http != NULL) {
        return 0;
    }
    if ((stream->peer.watcher != NULL || stream->device != NULL) && !stream->is_pinged) {
        /* It waits for notifications, or requests, if it is still there (RFC 8323 section 5.4). */
        stream_send_signal(stream, CODE_PING, "");
        stream->is_pinged = true;
        return CONN_NOT_IDLE;
    }
    stream_send_signal(stream, CODE_RELEASE, "");
    stream->state = STREAM_LEAVING; /* TCP-12 */
    return RELEASE_MS;
}

static void on_close(void *conn_context, struct conn *conn, const char *why)
{
    struct stream *stream = conn_context;
    struct client_side *side = stream->side;
    log_stream(stream, "stream_closed", stream->why != NULL ? stream->why : why);
    stream->state = STREAM_CLOSED;
    struct closed_client *closed = closed_add(&side->closed_clients, stream_identity(stream));
    closed->client = *conn_remote(conn);
    closed->scheme = scheme_of(conn);
    closed->requests = stream->peer.requests;
    closed->at_ms = context_now_ms(&side->context);
    closed->why = stream->why != NULL ? stream->why : why;
    request_leave_all(side, &stream->peer);
    faults_forget(&side->context, stream);
    stream_close_device(stream);
    http_front_free(stream->http);
    identity_release(stream->identity);
    *stream->link = stream->next;
    if (stream->next != NULL) {
        stream->next->link = stream->link;
    }
    stream->listener->open_count--;
    metric_set(&side->context.metrics.streams, --side->stream_count);
    free(stream);
}

static enum conn_need need_of(void *conn_context, const struct conn *conn)
{
    const struct stream *stream = conn_context;
    (void)conn;
    if (stream->device != NULL) {
        return CONN_DEVICE;
    }
    bool is_busy = stream->http != NULL && http_front_is_busy(stream->http) &&
                   !http_front_has_events(stream->http);
    if (stream->peer.in_flight > 0 || is_busy) {
        return CONN_ASKS;
    }
    return stream->peer.watcher != NULL ? CONN_OBSERVES : CONN_IDLE;
}

/* The client may connect again, and is told so in place of an Abort: nothing was wrong. */
static void on_recycle(void *conn_context, struct conn *conn)
{
    struct stream *stream = conn_context;
    (void)conn;
    if (stream->state == STREAM_OPEN) {
        stream_send_signal(stream, CODE_RELEASE, "made room for another");
    }
    stream->state = STREAM_CLOSED;
    stream->why = "made room for another";
}

const struct conn_handler stream_handler = {
    .on_open = on_open,
    .on_input = on_input,
    .on_drained = on_drained,
    .on_idle = on_idle,
    .need_of = need_of,
    .on_recycle = on_recycle,
    .on_close = on_close,
    .on_failure = on_failure,
};

/* --- answers ------------------------------------------------------------ */

static struct bytes encode(struct stream *stream, const struct leg *leg, const struct reply *reply)
{
    struct client_side *side = stream->side;
    struct message_writer writer;
    frame_writer_init(&writer, side->context.scratch, side->context.scratch_bytes, leg->token);
    reply_write_options(&writer, reply);
    message_writer_payload(&writer, reply->payload);
    return frame_finish(&writer, reply->code, leg->token, stream->endpoint.is_ws);
}

uint64_t stream_serial(const struct leg *leg)
{
    return leg->stream->serial;
}

bool stream_takes_blocks(const struct stream *stream)
{
    return stream->http != NULL ? http_front_takes_blocks(stream->http)
                                : stream->endpoint.takes_blocks;
}

bool stream_does_blocks(const struct leg *leg)
{
    bool is_http = leg->kind == LEG_STREAM && leg->stream->http != NULL;
    return leg_takes_blocks(leg) || (is_http && http_front_sends_blocks(leg->stream->http));
}

bool stream_takes_bert(const struct leg *leg)
{
    return leg->kind == LEG_STREAM && leg->stream->http == NULL &&
           leg->stream->endpoint.takes_blocks &&
           leg->stream->endpoint.peer_max > FRAME_BASE_MESSAGE_SIZE;
}

size_t stream_message_max(const struct leg *leg)
{
    const struct stream *stream = leg->stream;
    if (stream->http != NULL) {
        return SIZE_MAX; /* HTTP has no limit: nothing is ever cut for it */
    }
    size_t ours = stream->side->context.scratch_bytes;
    return stream->endpoint.peer_max < ours ? stream->endpoint.peer_max : ours;
}

bool stream_fits(const struct leg *leg, const struct reply *reply)
{
    struct stream *stream = leg->stream;
    if (stream->http != NULL) {
        return true;
    }
    size_t at_most = FRAME_HEAD_MAX + leg->token.len + reply->options.len + REPLY_OWN_OPTIONS_MAX +
                     1 + reply->payload.len;
    if (at_most <= stream->endpoint.peer_max && at_most <= stream->side->context.scratch_bytes) {
        return true;
    }
    struct bytes frame = encode(stream, leg, reply);
    return frame.len > 0 && frame.len <= stream->endpoint.peer_max;
}

void stream_capture(const struct leg *leg, const struct message *message, bool is_out)
{
    const struct stream *stream = leg->stream;
    const struct capture_view view = {.is_client = true,
                                      .is_out = is_out,
                                      .transport = conn_transport(stream->conn),
                                      .local = conn_local(stream->conn),
                                      .remote = conn_remote(stream->conn)};
    capture_add_message(&stream->side->context, &view, message);
}

static void capture_reply(struct client_side *side, const struct leg *leg,
                          const struct reply *reply)
{
    struct message_writer writer;
    struct message message;
    const struct bytes none = {0};
    message_writer_init(&writer, side->context.scratch, side->context.scratch_bytes, MESSAGE_ACK,
                        reply->code, 0, none);
    reply_write_options(&writer, reply);
    message_writer_payload(&writer, reply->payload);
    if (message_decode(side->context.scratch, writer.len, &message) == MESSAGE_OK) {
        message.token = leg->token;
        stream_capture(leg, &message, true);
    }
}

void stream_reply(struct client_side *side, struct leg *leg, const struct reply *reply)
{
    struct stream *stream = leg->stream;
    if (stream->state == STREAM_CLOSED || reply_is_unwanted(leg, reply->code)) {
        return;
    }
    if (side->context.capture != NULL) {
        capture_reply(side, leg, reply);
    }
    if (stream->http != NULL) {
        http_front_reply(stream->http, leg, reply);
        return;
    }
    struct bytes frame = encode(stream, leg, reply);
    if (frame.len == 0 || frame.len > stream->endpoint.peer_max) {
        /* Words of our own that do not fit the peer's Max-Message-Size (TCP-4). */
        struct reply too_large = reply_of(REASON_response_too_large, NULL);
        frame = encode(stream, leg, &too_large);
    }
    if (frame.len > 0) {
        stream_send_frame(stream, frame);
    }
}

bool stream_is_full(const struct leg *leg)
{
    return leg->stream->is_full || conn_is_behind(leg->stream->conn);
}

void stream_settle(struct peer *peer)
{
    struct stream *stream = HASH_ENTRY(peer, struct stream, peer);
    if (stream->state != STREAM_CLOSED && stream->http != NULL) {
        http_front_settle(stream->http);
    } else if (stream->state != STREAM_CLOSED) {
        regulate(stream);
        close_if_done(stream);
    }
}

void stream_release_all(struct client_side *side, const struct stream_listener *listener)
{
    for (struct stream *stream = side->streams; stream != NULL; stream = stream->next) {
        if (listener != NULL && stream->listener != listener) {
            continue;
        }
        if (stream->http != NULL) {
            http_front_release(stream->http);
        } else if (stream->state == STREAM_LEAVING) {
            stream->state = STREAM_RELEASED;
            close_if_done(stream);
        } else if (stream->state == STREAM_OPEN) {
            stream_send_signal(stream, CODE_RELEASE, "");
            stream->state = STREAM_RELEASED;
            close_if_done(stream);
        } else if (stream->state == STREAM_OPENING) {
            stream_close(stream, "shutting down"); /* it has asked for nothing yet */
        }
    }
}

/* After a Release: nothing was wrong. */
static void stream_dismiss(struct stream *stream, const char *why)
{
    if (stream->state == STREAM_OPEN) {
        stream_send_signal(stream, CODE_RELEASE, why);
    }
    stream_close(stream, why);
    /* Not only when the connection has closed: it may take long to send what is queued. */
    request_leave_all(stream->side, &stream->peer);
}

static bool is_any_match(const struct stream *stream, peer_match_fn *is_match, const void *context)
{
    const struct address *remote = conn_remote(stream->conn);
    return is_match(context, remote, conn_identity(stream->conn)) ||
           (stream->identity != NULL && is_match(context, remote, stream->identity));
}

uint32_t stream_close_matching(struct client_side *side, peer_match_fn *is_match,
                               const void *context, const char *why)
{
    uint32_t count = 0;
    for (struct stream *stream = side->streams; stream != NULL; stream = stream->next) {
        if (stream->state != STREAM_CLOSED && is_any_match(stream, is_match, context)) {
            stream_dismiss(stream, why);
            count++;
        }
    }
    return count;
}

void stream_recheck_tokens(struct client_side *side)
{
    for (struct stream *stream = side->streams; stream != NULL; stream = stream->next) {
        if (stream->state != STREAM_CLOSED && !http_token_holds(stream)) {
            stream_dismiss(stream, "its token is not accepted any more");
        }
    }
}

size_t stream_list(const struct client_side *side, size_t skip, struct stream_view *ret_views,
                   size_t max)
{
    static const char *const states[] = {
        [STREAM_OPENING] = "opening",   [STREAM_OPEN] = "open",     [STREAM_LEAVING] = "leaving",
        [STREAM_RELEASED] = "released", [STREAM_CLOSED] = "closed",
    };
    size_t count = 0;
    for (const struct stream *stream = side->streams; stream != NULL && count < max;
         stream = stream->next) {
        if (skip > 0) {
            skip--;
            continue;
        }
        ret_views[count++] = (struct stream_view){
            .remote = conn_remote(stream->conn),
            .identity = stream_identity(stream),
            .state = states[stream->state],
            .scheme = scheme_of(stream->conn),
            .in_flight = stream->peer.in_flight,
            .requests = stream->peer.requests,
        };
    }
    return count;
}
