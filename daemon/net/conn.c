/* SPDX-License-Identifier: BSD-2-Clause */
/* Listeners, and the functions for owners of connections; the rest is in conn_events.c. */
#include "net/conn.h"

#include "net/bind.h"
#include "net/conn_internal.h"
#include "net/credentials.h"
#include "net/entropy.h"
#include "net/reserve.h"
#include "net/sockaddr.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* --- room --------------------------------------------------------------- */

/*
 * Room for a newcomer where a listener has as many connections as it may have. The address that
 * has most of them gives up one; where all have as many, only one that has been idle for a while
 * goes. Of a few that were not used for longest it is the one that is needed least (enum
 * conn_need). All that comes or leaves is a use, also what only keeps a connection alive: that of a
 * device is the one unused for longest only where the device is silent.
 */

/* Connections that are looked at for one to close. */
#define CANDIDATES_MAX 32u

/* Among equals a connection is not closed for another before it has been idle for so long: each
 * client that comes back would else close the next one's, at the cost of a handshake. */
#define IDLE_MIN_MS 1000u

/* @return 0 or -ENOMEM */
static int conn_room_init(struct conn_listener *listener)
{
    const struct conn_options *options = &listener->options;
    struct entropy *entropy = malloc(sizeof *entropy); /* 4 kB: not for the stack of a worker */

    if (entropy == NULL) {
        return -ENOMEM;
    }
    entropy_init(entropy);
    int error = account_book_init(
        &listener->accounts, options->connections_max, options->connections_max,
        options->ipv6_bits != 0 ? options->ipv6_bits : ACCOUNT_IPV6_BITS, entropy_u64(entropy));
    free(entropy);
    return error;
}

static enum conn_need conn_room_need_of(const struct conn *conn)
{
    const struct conn_handler *handler = conn->listener->handler;

    return conn->is_open ? handler->need_of(conn->context, conn) : CONN_IDLE;
}

/* @return NULL where none should be closed for the newcomer */
static struct conn *choose(const struct conn_listener *listener, const struct address *newcomer)
{
    bool is_owed;
    struct holding *holding = account_yield(&listener->accounts, newcomer, 1, &is_owed);
    const struct account *largest = holding != NULL ? holding->account : NULL;
    struct conn *chosen = NULL;
    enum conn_need least = CONN_DEVICE;

    for (unsigned i = 0; i < CANDIDATES_MAX && holding != NULL; i++) {
        struct conn *conn = HASH_ENTRY(holding, struct conn, holding);
        enum conn_need need = conn_room_need_of(conn);
        uint64_t idle_ms = loop_now_ms(listener->loop) - conn->active_ms;
        bool may_go =
            is_owed ? holding->account == largest : need == CONN_IDLE && idle_ms >= IDLE_MIN_MS;
        if (may_go && (chosen == NULL || need < least)) {
            chosen = conn;
            least = need;
        }
        holding = account_next(holding);
    }
    return chosen;
}

/* As much of the last word as the socket takes at once; with TLS that is close_notify alone. */
static void say_goodbye(struct conn *conn)
{
    struct evbuffer *output = bufferevent_get_output(conn->bev);

    if (conn->tls != NULL) {
        conn_tls_goodbye(conn);
    } else if (evbuffer_get_length(output) > 0 && evbuffer_unfreeze(output, 1) == 0) {
        (void)evbuffer_write(output, bufferevent_getfd(conn->bev));
    }
    conn_linger(conn->listener, bufferevent_getfd(conn->bev));
}

static void recycle(struct conn *conn)
{
    const struct conn_handler *handler = conn->listener->handler;

    conn->listener->counters.recycled++;
    if (conn->is_open && conn->why == NULL && handler->on_recycle != NULL) {
        handler->on_recycle(conn->context, conn);
    }
    if (conn->why == NULL) {
        conn->why = "made room for another";
        conn_ws_goodbye(conn);
    }
    say_goodbye(conn);
    conn_destroy(conn);
}

/*
 * Whether there is room for one more connection from @p remote; an idle one may have been closed
 * for it. Not in a callback of a connection.
 */
static bool conn_room_make(struct conn_listener *listener, const struct address *remote)
{
    uint32_t max = listener->options.connections_per_address;

    if (max != 0 && account_amount(&listener->accounts, remote) >= max) {
        return false;
    }
    if (listener->counters.open < listener->options.connections_max) {
        return true;
    }
    struct conn *conn = listener->handler->need_of != NULL ? choose(listener, remote) : NULL;
    if (conn == NULL) {
        return false;
    }
    account_note_displaced(&conn->holding);
    recycle(conn);
    return true;
}

/* --- the end of a connection's output ------------------------------------ */

#define LINGER_MS 2000u
#define DISCARD_BYTES 16384u

/* Reads in one turn: a peer that sends fast must not keep the others waiting. */
#define DISCARD_READS 16u

struct conn_linger {
    struct conn_listener *listener;
    struct conn_linger *next, **link;
    struct event *event;
    uint64_t end_ms;
    evutil_socket_t fd;
};

static void linger_end(struct conn_linger *linger)
{
    *linger->link = linger->next;
    if (linger->next != NULL) {
        linger->next->link = linger->link;
    }
    linger->listener->linger_count--;
    event_free(linger->event);
    close(linger->fd);
    free(linger);
}

static bool linger_has_ended(evutil_socket_t fd)
{
    uint8_t discarded[DISCARD_BYTES];

    for (unsigned i = 0; i < DISCARD_READS; i++) {
        ssize_t got = recv(fd, discarded, sizeof discarded, MSG_DONTWAIT);
        if (got <= 0) {
            return got == 0 || (errno != EAGAIN && errno != EINTR);
        }
    }
    return false;
}

static void linger_on_event(evutil_socket_t fd, short what, void *context)
{
    struct conn_linger *linger = context;
    struct loop *loop = linger->listener->loop;

    loop_turn_begin(loop);
    /* libevent's time-out restarts with each byte; this one does not. */
    if ((what & EV_TIMEOUT) != 0 || loop_now_ms(loop) >= linger->end_ms || linger_has_ended(fd)) {
        linger_end(linger);
    }
}

void conn_linger(struct conn_listener *listener, evutil_socket_t fd)
{
    const struct timeval time = conn_timeval(LINGER_MS);

    (void)shutdown(fd, SHUT_WR);
    if (listener->linger_count >= LINGER_COUNT_MAX) {
        return;
    }
    struct conn_linger *linger = calloc(1, sizeof *linger);
    if (linger == NULL) {
        return;
    }
    /* The bufferevent closes its own descriptor, at a time of its choosing. */
    linger->fd = dup(fd);
    linger->event = linger->fd < 0 ? NULL
                                   : event_new(listener->loop->base, linger->fd,
                                               EV_READ | EV_PERSIST, linger_on_event, linger);
    if (linger->event == NULL || event_add(linger->event, &time) != 0) {
        if (linger->event != NULL) {
            event_free(linger->event);
        }
        if (linger->fd >= 0) {
            close(linger->fd);
        }
        free(linger);
        return;
    }
    linger->listener = listener;
    linger->end_ms = loop_now_ms(listener->loop) + LINGER_MS;
    linger->next = listener->lingering;
    linger->link = &listener->lingering;
    if (linger->next != NULL) {
        linger->next->link = &linger->next;
    }
    listener->lingering = linger;
    listener->linger_count++;
}

static void conn_linger_end_all(struct conn_listener *listener)
{
    while (listener->lingering != NULL) {
        linger_end(listener->lingering);
    }
}

/* How long to wait with accepting when there are no descriptors left. */
#define RETRY_MS 100u

/* --- accepting ---------------------------------------------------------- */

static void take_local(struct conn *conn, evutil_socket_t fd)
{
    union sockaddr_any local;
    socklen_t local_len = sizeof(local);

    conn->local = conn->listener->local;
    if (getsockname(fd, &local.any, &local_len) == 0) {
        sockaddr_to_address(&local, local_len, &conn->local);
    }
}

/* @p fd stays the caller's where there is no connection to have it. */
static struct conn *conn_new(struct conn_listener *listener, evutil_socket_t fd)
{
    struct conn *conn = calloc(1, sizeof(*conn));

    if (conn == NULL) {
        return NULL;
    }
    conn->listener = listener;
    conn->stage = transport_is_secure(listener->options.transport) ? STAGE_TLS
                  : transport_is_ws(listener->options.transport)   ? STAGE_UPGRADE
                                                                   : STAGE_OPEN;
    conn->bev = conn->stage == STAGE_TLS
                    ? conn_tls_new(conn, fd)
                    : bufferevent_socket_new(listener->loop->base, fd,
                                             BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
    if (conn->bev == NULL) {
        conn_tls_free(conn->tls);
        free(conn);
        return NULL;
    }
    conn->next = listener->conns;
    conn->link = &listener->conns;
    if (conn->next != NULL) {
        conn->next->link = &conn->next;
    }
    listener->conns = conn;
    return conn;
}

/* A connection, or NULL where there are too many or no memory; then @p fd stays the caller's. */
static struct conn *admit(struct conn_listener *listener, evutil_socket_t fd,
                          const struct address *remote)
{
    bool has_room = !reserve_is_low() && conn_room_make(listener, remote);
    struct conn *conn = has_room ? conn_new(listener, fd) : NULL;

    if (conn != NULL) {
        conn->remote = *remote;
        account_charge(&listener->accounts, &conn->holding, remote, 1);
    }
    return conn;
}

static void conn_pause_accepting(struct conn_listener *listener, uint32_t ms)
{
    const struct timeval wait = conn_timeval(ms);

    if (listener->accepting != NULL && event_add(listener->retry, &wait) == 0) {
        evconnlistener_disable(listener->accepting);
    }
}

/* Those that come when this second's handshakes have been begun wait in the kernel. */
static void count_handshake(struct conn_listener *listener)
{
    uint32_t per_s = listener->options.handshakes_per_s;
    uint64_t now_ms = loop_now_ms(listener->loop);

    if (per_s == 0 || !transport_is_secure(listener->options.transport)) {
        return;
    }
    (void)rate_has(&listener->handshakes, per_s, now_ms);
    rate_take(&listener->handshakes);
    if (!rate_has(&listener->handshakes, per_s, now_ms)) {
        conn_pause_accepting(listener, rate_wait_ms(&listener->handshakes, per_s));
    }
}

static void on_accept(struct evconnlistener *accepting, evutil_socket_t fd, struct sockaddr *name,
                      int name_len, void *context)
{
    struct conn_listener *listener = context;
    struct address remote;
    const int one = 1;

    (void)accepting;
    loop_turn_begin(listener->loop);
    sockaddr_to_address(name, (socklen_t)name_len, &remote);
    struct conn *conn = admit(listener, fd, &remote);
    if (conn == NULL) {
        listener->counters.refused++;
        evutil_closesocket(fd);
        return;
    }
    /* Answers are whole messages: nothing is gained by waiting for more. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    take_local(conn, fd);
    listener->counters.accepted++;
    listener->counters.open++;
    count_handshake(listener);
    if (!conn_start(conn)) {
        conn_cut_later(conn, "out of memory");
    } else if (conn->stage == STAGE_OPEN) {
        conn_opened(conn);
    }
}

static void conn_on_retry(evutil_socket_t fd, short what, void *context)
{
    struct conn_listener *listener = context;

    (void)fd;
    (void)what;
    if (listener->accepting != NULL) {
        evconnlistener_enable(listener->accepting);
    }
}

/* No descriptors, or no memory: the connection waits in the kernel, and the loop must not spin. */
static void conn_on_accept_error(struct evconnlistener *accepting, void *context)
{
    struct conn_listener *listener = context;

    (void)accepting;
    loop_turn_begin(listener->loop);
    conn_pause_accepting(listener, RETRY_MS);
}

/* --- listeners ---------------------------------------------------------- */

/* Inherited, or bound here. */
static int take_socket(const struct conn_options *options)
{
    if (options->fd >= 0) {
        return evutil_make_socket_nonblocking(options->fd) == 0 ? options->fd : -EINVAL;
    }
    return bind_socket(BIND_STREAM, &options->bind, options->reuse_port);
}

/* @p fd is taken over. */
static int start_accepting(struct conn_listener *listener, int fd)
{
    union sockaddr_any local;
    socklen_t local_len = sizeof(local);
    struct event_base *base = listener->loop->base;

    if (getsockname(fd, &local.any, &local_len) == 0) {
        sockaddr_to_address(&local, local_len, &listener->local);
    }
    listener->retry = evtimer_new(base, conn_on_retry, listener);
    listener->accepting = evconnlistener_new(base, on_accept, listener,
                                             LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0, fd);
    if (listener->accepting == NULL) {
        close(fd);
    }
    if (listener->retry == NULL || listener->accepting == NULL) {
        return -ENOMEM;
    }
    evconnlistener_set_error_cb(listener->accepting, conn_on_accept_error);
    return 0;
}

int conn_listen(struct loop *loop, const struct conn_options *options,
                const struct conn_handler *handler, void *context,
                struct conn_listener **ret_listener)
{
    bool lacks_credentials =
        transport_is_secure(options->transport) && options->credentials == NULL;
    struct conn_listener *listener = lacks_credentials ? NULL : calloc(1, sizeof(*listener));
    int fd = lacks_credentials ? -EINVAL : listener != NULL ? take_socket(options) : -ENOMEM;
    if (fd < 0) {
        if (options->fd >= 0) {
            close(options->fd);
        }
        free(listener);
        return fd;
    }
    listener->loop = loop;
    listener->options = *options;
    listener->handler = handler;
    listener->context = context;
    if (options->credentials != NULL) {
        (void)credentials_acquire(options->credentials);
    }
    int error = start_accepting(listener, fd);
    if (error == 0) {
        error = conn_room_init(listener);
    }
    if (error != 0) {
        conn_close_listener(listener);
        return error;
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
        conn_destroy(listener->conns);
    }
    conn_linger_end_all(listener);
    if (listener->retry != NULL) {
        event_free(listener->retry);
    }
    account_book_clear(&listener->accounts);
    credentials_release(listener->options.credentials);
    free(listener);
}

void conn_set_credentials(struct conn_listener *listener, struct credentials *credentials)
{
    struct credentials *before = listener->options.credentials;

    listener->options.credentials = credentials_acquire(credentials);
    for (struct conn *conn = listener->conns; conn != NULL; conn = conn->next) {
        bool is_done = conn->tls != NULL && conn->stage != STAGE_TLS;
        if (is_done && !conn_tls_holds(conn, credentials)) {
            conn_cut_later(conn, "credentials gone");
        }
    }
    credentials_release(before);
}

/* --- for owners --------------------------------------------------------- */

bool conn_send(struct conn *conn, const uint8_t *data, size_t len)
{
    if (conn->why != NULL) {
        return true; /* it is going: there is nothing to wait for */
    }
    bool sent = conn->ws != NULL ? conn_ws_send(conn, data, len) : conn_queue(conn, data, len);
    return !sent || !conn->is_full;
}

void conn_pause(struct conn *conn, bool paused)
{
    if (conn->why != NULL || conn->is_paused == paused) {
        return;
    }
    conn->is_paused = paused;
    if (!paused && conn->partial_ms != 0) {
        conn->partial_ms =
            loop_now_ms(conn->listener->loop); /* it was this side that did not read */
    }
    if (paused) {
        bufferevent_disable(conn->bev, EV_READ);
        return;
    }
    bufferevent_enable(conn->bev, EV_READ);
    if (evbuffer_get_length(bufferevent_get_input(conn->bev)) > 0) {
        bufferevent_trigger(conn->bev, EV_READ, BEV_TRIG_DEFER_CALLBACKS);
    }
}

void conn_close(struct conn *conn)
{
    conn_close_later(conn, "closed");
}

enum transport conn_transport(const struct conn *conn)
{
    return conn->listener->options.transport;
}

const struct address *conn_remote(const struct conn *conn)
{
    return &conn->remote;
}

const struct address *conn_local(const struct conn *conn)
{
    return &conn->local;
}

struct identity *conn_identity(const struct conn *conn)
{
    return conn->tls != NULL ? conn_tls_identity(conn->tls) : NULL;
}

int conn_descriptor(const struct conn *conn)
{
    return bufferevent_getfd(conn->bev);
}

static bool peer_of(const struct conn *conn, struct ucred *ret_peer)
{
    socklen_t len = sizeof(*ret_peer);
    int fd = bufferevent_getfd(conn->bev);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret_peer, &len) == 0 && ret_peer->pid > 0;
}

bool conn_is_own_process(const struct conn *conn)
{
    struct ucred peer = {.pid = 0};

    return peer_of(conn, &peer) && (peer.uid == 0 || peer.uid == geteuid());
}

bool conn_process_has_group(const struct conn *conn, gid_t group)
{
    struct ucred peer = {.pid = 0};
    gid_t groups[128];
    socklen_t len = sizeof(groups);

    if (!peer_of(conn, &peer)) {
        return false;
    }
    /* SO_PEERCRED tells the main group only. */
    if (peer.gid == group) {
        return true;
    }
    if (getsockopt(bufferevent_getfd(conn->bev), SOL_SOCKET, SO_PEERGROUPS, groups, &len) != 0) {
        return false;
    }
    for (size_t i = 0; i < len / sizeof(groups[0]); i++) {
        if (groups[i] == group) {
            return true;
        }
    }
    return false;
}

const char *conn_host(const struct conn *conn)
{
    return conn->ws != NULL ? conn_ws_host(conn->ws) : "";
}

const struct address *conn_listener_local(const struct conn_listener *listener)
{
    return &listener->local;
}

const struct account_book *conn_accounts(const struct conn_listener *listener)
{
    return &listener->accounts;
}

const struct conn_counters *conn_counters(const struct conn_listener *listener)
{
    return &listener->counters;
}
