/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How connections are counted. libevent 2.1's evhttp has no limit to them, and tells of
 * a connection's end only when it has asked something. So their bufferevents are made
 * here and held: one whose callbacks have been taken away has been freed by evhttp, and
 * its descriptor, which evhttp has shut down, is closed as we let go. A timer looks for
 * these as long as there are connections. Each connection has so long for a request, from its
 * beginning or the answer before, whatever it sends meanwhile; when all places are taken the one
 * that has had longest is ended, and until it has gone no other is accepted.
 */
#include "net/http.h"

#include "net/loop_internal.h"
#include "net/reserve.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <event2/listener.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEAD_MAX_BYTES 8192

/* What a client may have sent that was not read yet: evhttp does not read while it answers. */
#define UNREAD_MAX_BYTES (2 * HEAD_MAX_BYTES)

/* What may wait to be sent of one stream. */
#define STREAM_OUTPUT_BYTES (128u * 1024u)

#define STREAM_LIST_MS 60000u   /* from the beginning to the end of one that is not endless */
#define STREAM_STALL_S 20       /* without a byte that the client takes */
#define STREAM_COMMENT_MS 3000u /* between comments on one that is idle */

/* How long to wait with accepting when there are no descriptors left, or no room. */
#define RETRY_MS 50

/* How long one that has been ended takes to be gone: a turn or two. */
#define ENDING_MS 1

#define ALL_METHODS                                                                                \
    (EVHTTP_REQ_GET | EVHTTP_REQ_HEAD | EVHTTP_REQ_POST | EVHTTP_REQ_PUT | EVHTTP_REQ_DELETE |     \
     EVHTTP_REQ_OPTIONS | EVHTTP_REQ_PATCH)

struct connection {
    struct bufferevent *bufferevent;
    uint64_t began_ms; /* when it was accepted, or its last request answered */
    bool is_ending;    /* its socket has been shut down */
    bool is_streaming; /* its time is the stream's */
};

struct http_stream {
    struct http_server *server;
    struct evhttp_request *request; /* ours until it is ended, even when its connection has gone */
    const struct http_stream_handler *handler;
    void *context;
    struct http_stream *next, **link;
    uint64_t began_ms, sent_ms;
    bool is_endless, is_full;
};

struct http_server {
    struct loop *loop;
    struct evhttp *http;
    struct evconnlistener *listener;
    struct event *retry; /* accept again */
    struct event *tidy;  /* look for connections that have ended */
    http_answer_fn answer;
    void *context;
    struct connection *open; /* each bufferevent held once */
    unsigned open_count, open_max;
    uint64_t request_ms;
    struct http_stream *streams;
    unsigned stream_count;
};

/* ---- connections ---- */

static bool has_ended(struct bufferevent *connection)
{
    bufferevent_event_cb on_event = NULL;

    bufferevent_getcb(connection, NULL, NULL, &on_event, NULL);
    return on_event == NULL;
}

/* Release connections that have ended; the others move to the start. */
static void sweep(struct http_server *server)
{
    unsigned left = 0;

    for (unsigned i = 0; i < server->open_count; i++) {
        struct connection *connection = &server->open[i];
        if (has_ended(connection->bufferevent)) {
            (void)bufferevent_decref(connection->bufferevent);
        } else {
            server->open[left++] = *connection;
        }
    }
    server->open_count = left;
}

/*
 * evhttp finds the end of the input in the next turn, and lets go of the connection; there is no
 * call to have it do so.
 */
static void http_end(struct connection *connection)
{
    if (!connection->is_ending) {
        connection->is_ending = true;
        (void)shutdown(bufferevent_getfd(connection->bufferevent), SHUT_RDWR);
    }
}

/*
 * End connections whose time is over. evhttp's own time-out restarts with each byte, so a client
 * that sends a byte now and then could hold its place forever.
 */
static void end_late(struct http_server *server)
{
    uint64_t now_ms = loop_now_ms(server->loop);

    for (unsigned i = 0; i < server->open_count; i++) {
        const struct connection *connection = &server->open[i];
        if (!connection->is_streaming && now_ms - connection->began_ms >= server->request_ms) {
            http_end(&server->open[i]);
        }
    }
}

/*
 * All places are taken: the connection goes on which no request has been answered for longest.
 * Streams have fewer places than there are, so one without a stream is among them.
 */
static void end_oldest(struct http_server *server)
{
    struct connection *oldest = NULL;

    for (unsigned i = 0; i < server->open_count; i++) {
        struct connection *connection = &server->open[i];
        if (!connection->is_streaming &&
            (oldest == NULL || connection->began_ms < oldest->began_ms)) {
            oldest = connection;
        }
    }
    if (oldest != NULL) {
        http_end(oldest);
    }
}

/* Accept again in a while, if there is room then. */
static void pause_accepting(struct http_server *server, unsigned ms)
{
    const struct timeval wait = {.tv_usec = (suseconds_t)ms * 1000};

    if (event_add(server->retry, &wait) == 0) {
        (void)evconnlistener_disable(server->listener);
    }
}

static void tidy_later(struct http_server *server)
{
    const struct timeval wait = {.tv_sec = 1};

    if (server->open_count > 0 && !evtimer_pending(server->tidy, NULL)) {
        (void)event_add(server->tidy, &wait);
    }
}

static void look_after_streams(struct http_server *server);

static void on_tidy(evutil_socket_t fd, short what, void *context)
{
    struct http_server *server = context;

    (void)fd;
    (void)what;
    loop_turn_begin(server->loop);
    end_late(server);
    look_after_streams(server);
    sweep(server);
    tidy_later(server);
}

/* For a connection that has been accepted; evhttp gives it its descriptor and callbacks. */
static struct bufferevent *make_bufferevent(struct event_base *base, void *context)
{
    struct http_server *server = context;
    struct bufferevent *connection = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);

    loop_turn_begin(server->loop);
    sweep(server);
    if (connection != NULL) {
        bufferevent_setwatermark(connection, EV_READ, 0, UNREAD_MAX_BYTES);
    }
    if (connection == NULL || server->open_count == server->open_max) {
        return connection; /* evhttp goes on with one of its own where it is NULL */
    }
    bufferevent_incref(connection);
    server->open[server->open_count++] =
        (struct connection){.bufferevent = connection, .began_ms = loop_now_ms(server->loop)};
    tidy_later(server);
    if (server->open_count == server->open_max) {
        end_oldest(server);
        pause_accepting(server, ENDING_MS);
    } else if (reserve_is_low()) {
        pause_accepting(server, RETRY_MS);
    }
    return connection;
}

static void on_retry(evutil_socket_t fd, short what, void *context)
{
    struct http_server *server = context;

    (void)fd;
    (void)what;
    loop_turn_begin(server->loop);
    sweep(server);
    if (server->open_count < server->open_max && !reserve_is_low()) {
        (void)evconnlistener_enable(server->listener);
    } else {
        pause_accepting(server, RETRY_MS);
    }
}

/* No descriptors, or no memory: the connection waits in the kernel, and the loop must not spin. */
static void on_accept_error(struct evconnlistener *listener, void *context)
{
    struct http_server *server = context;

    (void)listener;
    loop_turn_begin(server->loop);
    pause_accepting(server, RETRY_MS);
}

/* ---- requests ---- */

static enum http_method method_of(struct evhttp_request *request)
{
    enum evhttp_cmd_type command = evhttp_request_get_command(request);

    return command == EVHTTP_REQ_GET    ? HTTP_GET
           : command == EVHTTP_REQ_HEAD ? HTTP_HEAD
           : command == EVHTTP_REQ_POST ? HTTP_POST
                                        : HTTP_OTHER;
}

static const char *status_text(unsigned status)
{
    switch (status) {
    case 200:
        return "OK";
    case 400:
        return "Bad Request";
    case 403:
        return "Forbidden";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 421:
        return "Misdirected Request";
    case 503:
        return "Service Unavailable";
    default:
        return "Internal Server Error";
    }
}

static void add_fields_of_all(struct evkeyvalq *fields, const char *type)
{
    (void)evhttp_add_header(fields, "Content-Type", type);
    (void)evhttp_add_header(fields, "Cache-Control", "no-store");
    (void)evhttp_add_header(fields, "X-Content-Type-Options", "nosniff");
    (void)evhttp_add_header(fields, "Cross-Origin-Resource-Policy", "same-origin");
}

static void add_fields(struct evhttp_request *request, const struct http_answer *answer)
{
    struct evkeyvalq *fields = evhttp_request_get_output_headers(request);

    add_fields_of_all(fields, answer->type);
    if (answer->security_policy != NULL) {
        (void)evhttp_add_header(fields, "Content-Security-Policy", answer->security_policy);
        (void)evhttp_add_header(fields, "Referrer-Policy", "no-referrer");
    }
    if (answer->status == 405) {
        (void)evhttp_add_header(fields, "Allow",
                                answer->allow != NULL ? answer->allow : "GET, HEAD");
    }
}

/* Of HEAD the length alone: evhttp would send the body. */
static void reply(struct evhttp_request *request, enum http_method method,
                  const struct http_answer *answer, struct evbuffer *body)
{
    char length[24];

    add_fields(request, answer);
    if (method == HTTP_HEAD) {
        (void)snprintf(length, sizeof(length), "%zu", evbuffer_get_length(body));
        (void)evhttp_add_header(evhttp_request_get_output_headers(request), "Content-Length",
                                length);
        (void)evbuffer_drain(body, evbuffer_get_length(body));
    }
    evhttp_send_reply(request, (int)answer->status, status_text(answer->status), body);
}

/* The time of the connection begins anew: of a stream, or of its next request. */
static void begin_anew(struct http_server *server, struct evhttp_request *request,
                       bool is_streaming)
{
    struct bufferevent *of =
        evhttp_connection_get_bufferevent(evhttp_request_get_connection(request));

    for (unsigned i = 0; i < server->open_count; i++) {
        if (server->open[i].bufferevent == of) {
            server->open[i].began_ms = loop_now_ms(server->loop);
            server->open[i].is_streaming = is_streaming;
        }
    }
}

/* The field Host; NULL where there are several, of which none counts (RFC 9112 section 3.2). */
static const char *only_host(const struct evkeyvalq *fields)
{
    const char *found = NULL;
    for (const struct evkeyval *field = fields->tqh_first; field != NULL;
         field = field->next.tqe_next) {
        if (strcasecmp(field->key, "Host") == 0) {
            if (found != NULL) {
                return NULL;
            }
            found = field->value;
        }
    }
    return found;
}

static void http_on_request(struct evhttp_request *request, void *context)
{
    struct http_server *server = context;
    const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(request);
    const char *path = uri == NULL ? NULL : evhttp_uri_get_path(uri);
    const char *query = uri == NULL ? NULL : evhttp_uri_get_query(uri);
    const struct evkeyvalq *fields = evhttp_request_get_input_headers(request);
    const struct http_request asked = {.method = method_of(request),
                                       .path = path == NULL ? "" : path,
                                       .query = query == NULL ? "" : query,
                                       .host = only_host(fields),
                                       .origin = evhttp_find_header(fields, "Origin"),
                                       .fetch_site = evhttp_find_header(fields, "Sec-Fetch-Site"),
                                       .fetch_mode = evhttp_find_header(fields, "Sec-Fetch-Mode"),
                                       .server = server,
                                       .handle = request};
    struct http_answer answer = {.status = 500, .type = "text/plain; charset=utf-8"};
    struct evbuffer *body = evbuffer_new();

    loop_turn_begin(server->loop);
    begin_anew(server, request, false);
    server->answer(server->context, &asked, &answer);
    if (answer.is_streamed) {
        if (body != NULL) {
            evbuffer_free(body);
        }
        return;
    }
    if (body == NULL) {
        evhttp_send_error(request, 500, NULL);
    } else {
        if (answer.body == NULL || evbuffer_add(body, answer.body, answer.body_len) != 0) {
            answer.status = 500;
        }
        reply(request, asked.method, &answer, body);
        evbuffer_free(body);
    }
    free(answer.body);
}

/* ---- answers in pieces ---- */

static void stream_unlink(struct http_stream *stream)
{
    *stream->link = stream->next;
    if (stream->next != NULL) {
        stream->next->link = stream->link;
    }
    stream->server->stream_count--;
}

/* Its connection has been freed by evhttp, the request has not. */
static void on_stream_closed(struct evhttp_connection *connection, void *context)
{
    struct http_stream *stream = context;

    (void)connection;
    loop_turn_begin(stream->server->loop);
    stream_unlink(stream);
    stream->handler->on_gone(stream->context);
    evhttp_send_reply_end(stream->request); /* frees a request without a connection */
    free(stream);
}

static void on_stream_drained(struct evhttp_connection *connection, void *context)
{
    struct http_stream *stream = context;

    (void)connection;
    loop_turn_begin(stream->server->loop);
    if (stream->is_full) {
        stream->is_full = false;
        stream->handler->on_drained(stream->context);
    }
}

struct http_stream *http_stream_open(const struct http_request *request,
                                     const struct http_stream_handler *handler, void *context)
{
    struct http_server *server = request->server;
    struct http_stream *stream =
        server->stream_count < HTTP_STREAMS_MAX ? calloc(1, sizeof(*stream)) : NULL;

    if (stream == NULL) {
        return NULL;
    }
    *stream = (struct http_stream){.server = server,
                                   .request = request->handle,
                                   .handler = handler,
                                   .context = context,
                                   .next = server->streams,
                                   .link = &server->streams,
                                   .began_ms = loop_now_ms(server->loop)};
    if (server->streams != NULL) {
        server->streams->link = &stream->next;
    }
    server->streams = stream;
    server->stream_count++;
    begin_anew(server, request->handle, true);
    evhttp_connection_set_closecb(evhttp_request_get_connection(request->handle), on_stream_closed,
                                  stream);
    return stream;
}

/* The client sends nothing meanwhile, and has so long to take something. */
static void set_stream_times(const struct http_stream *stream)
{
    const struct timeval stall = {.tv_sec = STREAM_STALL_S};

    (void)bufferevent_set_timeouts(
        evhttp_connection_get_bufferevent(evhttp_request_get_connection(stream->request)), NULL,
        &stall);
}

void http_stream_begin(struct http_stream *stream, unsigned status, const char *type,
                       bool is_endless)
{
    add_fields_of_all(evhttp_request_get_output_headers(stream->request), type);
    stream->is_endless = is_endless;
    stream->sent_ms = loop_now_ms(stream->server->loop);
    evhttp_send_reply_start(stream->request, (int)status, status_text(status));
    set_stream_times(stream);
}

bool http_stream_send(struct http_stream *stream, const char *data, size_t len)
{
    struct evhttp_connection *connection = evhttp_request_get_connection(stream->request);
    struct bufferevent *of = evhttp_connection_get_bufferevent(connection);
    struct evbuffer *piece = evbuffer_new();

    if (piece == NULL || evbuffer_add(piece, data, len) != 0) {
        /* What is missing would not be noticed: the client gets no end. */
        (void)shutdown(bufferevent_getfd(of), SHUT_RDWR);
        stream->is_full = true;
    } else {
        evhttp_send_reply_chunk_with_cb(stream->request, piece, on_stream_drained, stream);
        stream->sent_ms = loop_now_ms(stream->server->loop);
        stream->is_full = evbuffer_get_length(bufferevent_get_output(of)) >= STREAM_OUTPUT_BYTES;
    }
    if (piece != NULL) {
        evbuffer_free(piece);
    }
    return !stream->is_full;
}

void http_stream_end(struct http_stream *stream)
{
    struct http_server *server = stream->server;
    struct evhttp_connection *connection = evhttp_request_get_connection(stream->request);
    const struct timeval idle = {.tv_sec = (time_t)(server->request_ms / 1000)};

    evhttp_connection_set_closecb(connection, NULL, NULL);
    begin_anew(server, stream->request, false);
    (void)bufferevent_set_timeouts(evhttp_connection_get_bufferevent(connection), &idle, &idle);
    stream_unlink(stream);
    evhttp_send_reply_end(stream->request);
    free(stream);
}

/* Once a second. A connection that is shut down is found by evhttp in the next turn. */
static void look_after_streams(struct http_server *server)
{
    static const char comment[] = ": still there\n\n";
    uint64_t now_ms = loop_now_ms(server->loop);

    for (struct http_stream *stream = server->streams; stream != NULL; stream = stream->next) {
        if (!stream->is_endless && now_ms - stream->began_ms >= STREAM_LIST_MS) {
            struct evhttp_connection *connection = evhttp_request_get_connection(stream->request);
            (void)shutdown(bufferevent_getfd(evhttp_connection_get_bufferevent(connection)),
                           SHUT_RDWR);
        } else if (stream->is_endless && !stream->is_full &&
                   now_ms - stream->sent_ms >= STREAM_COMMENT_MS) {
            (void)http_stream_send(stream, comment, sizeof(comment) - 1);
        }
    }
}

/* The server ends: evhttp frees the requests with their connections. */
static void drop_streams(struct http_server *server)
{
    struct http_stream *stream;

    while ((stream = server->streams) != NULL) {
        stream_unlink(stream);
        evhttp_connection_set_closecb(evhttp_request_get_connection(stream->request), NULL, NULL);
        stream->handler->on_gone(stream->context);
        free(stream);
    }
}

/* ---- the server ---- */

/* @p fd is taken over. */
static int http_start(struct http_server *server, int fd, unsigned idle_s)
{
    struct event_base *base = server->loop->base;

    server->http = evhttp_new(base);
    server->retry = evtimer_new(base, on_retry, server);
    server->tidy = evtimer_new(base, on_tidy, server);
    struct evhttp_bound_socket *bound = NULL;
    if (server->http != NULL && evutil_make_socket_nonblocking(fd) == 0) {
        bound = evhttp_accept_socket_with_handle(server->http, fd);
    }
    if (bound == NULL) {
        (void)close(fd);
    }
    if (bound == NULL || server->retry == NULL || server->tidy == NULL || server->open == NULL) {
        return -ENOMEM;
    }
    server->listener = evhttp_bound_socket_get_listener(bound);
    evconnlistener_set_error_cb(server->listener, on_accept_error);
    evhttp_set_bevcb(server->http, make_bufferevent, server);
    evhttp_set_gencb(server->http, http_on_request, server);
    evhttp_set_max_headers_size(server->http, HEAD_MAX_BYTES);
    evhttp_set_max_body_size(server->http, 0);
    evhttp_set_timeout(server->http, (int)idle_s);
    evhttp_set_allowed_methods(server->http, ALL_METHODS);
    return 0;
}

int http_serve(struct loop *loop, const struct http_options *options, http_answer_fn answer,
               void *context, struct http_server **ret_server)
{
    struct http_server *server = calloc(1, sizeof *server);

    if (server == NULL) {
        (void)close(options->fd);
        return -ENOMEM;
    }
    server->loop = loop;
    server->answer = answer;
    server->context = context;
    server->open_max = options->connections_max;
    server->open = calloc(options->connections_max, sizeof(struct connection));
    server->request_ms = (uint64_t)options->idle_s * 1000;
    int error = http_start(server, options->fd, options->idle_s);
    if (error != 0) {
        http_close(server);
        return error;
    }
    *ret_server = server;
    return 0;
}

void http_close(struct http_server *server)
{
    if (server == NULL) {
        return;
    }
    if (server->retry != NULL) {
        event_free(server->retry);
    }
    if (server->tidy != NULL) {
        event_free(server->tidy);
    }
    drop_streams(server);
    if (server->http != NULL) {
        evhttp_free(server->http);
    }
    for (unsigned i = 0; i < server->open_count; i++) {
        (void)bufferevent_decref(server->open[i].bufferevent);
    }
    free(server->open);
    free(server);
}
