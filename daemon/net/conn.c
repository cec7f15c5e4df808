/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A bufferevent a connection. Its callbacks are deferred, so that none of them
 * runs inside a call of ours; a connection is freed either from one of them, at
 * its end, or by a task of the loop.
 */
#include "net/conn.h"

#include "net/loop_internal.h"
#include "net/sockaddr.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BACKLOG 128
#define MS_PER_S 1000u
#define US_PER_MS 1000u

struct conn {
    struct conn_listener *listener;
    struct conn *next, **link; /* of the listener's connections */
    struct bufferevent *bev;
    struct address remote, local;
    struct identity identity;
    void *context;
    const char *why; /* of the close that is under way; NULL: none is */
    bool is_open;    /* on_open has been called */
    bool is_full;    /* conn_send() said that it is too much */
    bool has_task;   /* the loop holds the task below */
    bool is_dead;    /* nothing but the task is left */
    struct loop_task task;
};

struct conn_listener {
    struct loop *loop;
    struct conn_options options;
    const struct conn_handler *handler;
    void *context;
    struct evconnlistener *accepting;
    struct address local;
    struct conn *conns;
    struct conn_counters counters;
};

/* --- the end of a connection -------------------------------------------- */

static void destroy(struct conn *conn)
{
    struct conn_listener *listener = conn->listener;
    *conn->link = conn->next;
    if (conn->next != NULL) {
        conn->next->link = conn->link;
    }
    listener->counters.open--;
    if (conn->is_open) {
        conn->is_open = false;
        listener->handler->on_close(conn->context, conn, conn->why);
    }
    bufferevent_free(conn->bev);
    conn->is_dead = true;
    if (!conn->has_task) {
        free(conn);
    }
}

static size_t pending_output(const struct conn *conn)
{
    return evbuffer_get_length(bufferevent_get_output(conn->bev));
}

/* In a turn of the loop: nothing of ours is on the stack. */
static void run_task(void *context)
{
    struct conn *conn = context;
    conn->has_task = false;
    if (conn->is_dead) {
        free(conn);
    } else if (conn->why != NULL && pending_output(conn) == 0) {
        destroy(conn);
    }
}

static void drop_task(void *context)
{
    struct conn *conn = context;
    conn->has_task = false;
    if (conn->is_dead) {
        free(conn);
    }
}

static void close_later(struct conn *conn, const char *why)
{
    if (conn->why != NULL) {
        return;
    }
    conn->why = why;
    bufferevent_disable(conn->bev, EV_READ);
    if (!conn->has_task) {
        conn->task = (struct loop_task){.run = run_task, .drop = drop_task, .context = conn};
        conn->has_task = loop_post_task(conn->listener->loop, &conn->task) == 0;
    }
}

/* --- events of the bufferevent ------------------------------------------ */

static void on_read(struct bufferevent *bev, void *context)
{
    struct conn *conn = context;
    struct evbuffer *input = bufferevent_get_input(bev);
    size_t len = evbuffer_get_length(input);
    loop_turn_begin(conn->listener->loop);
    if (len == 0 || conn->why != NULL) {
        return;
    }
    /* At most input_max bytes: the bufferevent stops reading there. */
    const uint8_t *data = evbuffer_pullup(input, -1);
    if (data == NULL) {
        close_later(conn, "out of memory");
        return;
    }
    size_t used = conn->listener->handler->on_input(conn->context, conn, data, len);
    if (used == SIZE_MAX) {
        close_later(conn, "refused");
        return;
    }
    conn->listener->counters.bytes_in += used;
    evbuffer_drain(input, used);
    if (used == 0 && len >= conn->listener->options.input_max && conn->why == NULL &&
        (bufferevent_get_enabled(bev) & EV_READ) != 0) {
        close_later(conn, "message too long");
    }
}

static void on_written(struct bufferevent *bev, void *context)
{
    struct conn *conn = context;
    (void)bev;
    loop_turn_begin(conn->listener->loop);
    if (conn->why != NULL) {
        if (pending_output(conn) == 0) {
            destroy(conn);
        }
        return;
    }
    if (conn->is_full) {
        conn->is_full = false;
        conn->listener->handler->on_drained(conn->context, conn);
    }
}

static void on_event(struct bufferevent *bev, short what, void *context)
{
    struct conn *conn = context;
    struct conn_listener *listener = conn->listener;
    loop_turn_begin(listener->loop);
    if ((what & BEV_EVENT_TIMEOUT) != 0 && (what & BEV_EVENT_READING) != 0 &&
        pending_output(conn) > 0) {
        bufferevent_enable(bev, EV_READ); /* it is not idle: it is being answered */
        return;
    }
    if (conn->why == NULL) {
        conn->why = (what & BEV_EVENT_EOF) != 0       ? "closed by the peer"
                    : (what & BEV_EVENT_ERROR) != 0   ? "connection error"
                    : (what & BEV_EVENT_WRITING) != 0 ? "peer does not read"
                                                      : "idle";
    }
    listener->counters.timeouts += (what & BEV_EVENT_TIMEOUT) != 0;
    listener->counters.slow_readers +=
        (what & BEV_EVENT_TIMEOUT) != 0 && (what & BEV_EVENT_WRITING) != 0;
    destroy(conn);
}

/* --- accepting ---------------------------------------------------------- */

static struct timeval timeval_of(uint32_t ms)
{
    return (struct timeval){.tv_sec = ms / MS_PER_S,
                            .tv_usec = (suseconds_t)(ms % MS_PER_S * US_PER_MS)};
}

static void set_limits(struct conn *conn)
{
    const struct conn_options *options = &conn->listener->options;
    struct timeval idle = timeval_of(options->idle_ms), write = timeval_of(options->write_ms);
    bufferevent_set_timeouts(conn->bev, options->idle_ms > 0 ? &idle : NULL,
                             options->write_ms > 0 ? &write : NULL);
    bufferevent_setwatermark(conn->bev, EV_READ, 0, options->input_max);
    bufferevent_setwatermark(conn->bev, EV_WRITE, options->output_max / 2, 0);
}

static struct conn *conn_new(struct conn_listener *listener, evutil_socket_t fd,
                             const struct sockaddr *name, int name_len)
{
    struct conn *conn = calloc(1, sizeof(*conn));
    struct event_base *base = loop_event_base(listener->loop);
    if (conn == NULL) {
        return NULL;
    }
    conn->bev = bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
    if (conn->bev == NULL) {
        free(conn);
        return NULL;
    }
    union sockaddr_any local;
    socklen_t local_len = sizeof(local);
    conn->listener = listener;
    conn->local = listener->local;
    sockaddr_to_address(name, (socklen_t)name_len, &conn->remote);
    if (getsockname(fd, &local.any, &local_len) == 0) {
        sockaddr_to_address(&local, local_len, &conn->local);
    }
    return conn;
}

static void on_accept(struct evconnlistener *accepting, evutil_socket_t fd, struct sockaddr *name,
                      int name_len, void *context)
{
    struct conn_listener *listener = context;
    const int one = 1;
    (void)accepting;
    loop_turn_begin(listener->loop);
    struct conn *conn = listener->counters.open < listener->options.connections_max
                            ? conn_new(listener, fd, name, name_len)
                            : NULL;
    if (conn == NULL) {
        listener->counters.refused++;
        evutil_closesocket(fd);
        return;
    }
    /* Answers are whole messages: nothing is gained by waiting for more. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    conn->next = listener->conns;
    conn->link = &listener->conns;
    if (conn->next != NULL) {
        conn->next->link = &conn->next;
    }
    listener->conns = conn;
    listener->counters.accepted++;
    listener->counters.open++;
    set_limits(conn);
    bufferevent_setcb(conn->bev, on_read, on_written, on_event, conn);
    conn->context = listener->handler->on_open(listener->context, conn);
    if (conn->context == NULL) {
        close_later(conn, "refused");
        return;
    }
    conn->is_open = true;
    if (conn->why == NULL) {
        bufferevent_enable(conn->bev, EV_READ | EV_WRITE);
    }
}

static int open_socket(const struct conn_options *options)
{
    union sockaddr_any name;
    socklen_t len = sockaddr_from_address(&options->bind, &name);
    const int one = 1;
    if (options->fd >= 0) {
        return options->fd;
    }
    int fd = socket(name.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (options->reuse_port) {
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
    }
    if (name.any.sa_family == AF_INET6) {
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
    }
    if (bind(fd, &name.any, len) != 0 || listen(fd, BACKLOG) != 0) {
        int error = -errno;
        close(fd);
        return error;
    }
    return fd;
}

int conn_listen(struct loop *loop, const struct conn_options *options,
                const struct conn_handler *handler, void *context,
                struct conn_listener **ret_listener)
{
    union sockaddr_any local;
    socklen_t local_len = sizeof(local);
    if (options->kind != CONN_TCP) {
        return -EPROTONOSUPPORT;
    }
    struct conn_listener *listener = calloc(1, sizeof(*listener));
    int fd = listener != NULL ? open_socket(options) : -ENOMEM;
    if (fd < 0) {
        free(listener);
        return fd;
    }
    listener->loop = loop;
    listener->options = *options;
    listener->handler = handler;
    listener->context = context;
    if (getsockname(fd, &local.any, &local_len) == 0) {
        sockaddr_to_address(&local, local_len, &listener->local);
    }
    listener->accepting = evconnlistener_new(loop_event_base(loop), on_accept, listener,
                                             LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0, fd);
    if (listener->accepting == NULL) {
        close(fd);
        free(listener);
        return -ENOMEM;
    }
    *ret_listener = listener;
    return 0;
}

void conn_stop_accepting(struct conn_listener *listener)
{
    if (listener->accepting != NULL) {
        evconnlistener_free(listener->accepting);
        listener->accepting = NULL;
    }
}

void conn_close_listener(struct conn_listener *listener)
{
    if (listener == NULL) {
        return;
    }
    conn_stop_accepting(listener);
    while (listener->conns != NULL) {
        if (listener->conns->why == NULL) {
            listener->conns->why = "shutting down";
        }
        destroy(listener->conns);
    }
    free(listener);
}

/* --- what owners do ----------------------------------------------------- */

bool conn_send(struct conn *conn, const uint8_t *data, size_t len)
{
    if (conn->why != NULL) {
        return true; /* it is going: there is nothing to wait for */
    }
    if (bufferevent_write(conn->bev, data, len) != 0) {
        close_later(conn, "out of memory");
        return true;
    }
    conn->listener->counters.bytes_out += len;
    if (pending_output(conn) > conn->listener->options.output_max) {
        conn->is_full = true;
    }
    return !conn->is_full;
}

void conn_pause(struct conn *conn, bool paused)
{
    if (conn->why != NULL) {
        return;
    }
    if (paused) {
        bufferevent_disable(conn->bev, EV_READ);
        return;
    }
    bufferevent_enable(conn->bev, EV_READ);
    if (evbuffer_get_length(bufferevent_get_input(conn->bev)) > 0) {
        bufferevent_trigger(conn->bev, EV_READ, BEV_OPT_DEFER_CALLBACKS);
    }
}

void conn_close(struct conn *conn)
{
    close_later(conn, "closed");
}

void conn_set_credentials(struct conn_listener *listener, struct credentials *credentials)
{
    listener->options.credentials = credentials;
}

enum conn_kind conn_kind_of(const struct conn *conn)
{
    return conn->listener->options.kind;
}

const struct address *conn_remote(const struct conn *conn)
{
    return &conn->remote;
}

const struct address *conn_local(const struct conn *conn)
{
    return &conn->local;
}

const struct identity *conn_identity(const struct conn *conn)
{
    return &conn->identity;
}

const char *conn_host(const struct conn *conn)
{
    (void)conn;
    return "";
}

const struct address *conn_listener_local(const struct conn_listener *listener)
{
    return &listener->local;
}

const struct conn_counters *conn_counters(const struct conn_listener *listener)
{
    return &listener->counters;
}
