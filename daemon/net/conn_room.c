/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Room for a newcomer where a listener has as many connections as it may have. The address that
 * has most of them gives up one; where all have as many, only one that has been idle for a while
 * goes. Of a few that were not used for longest it is the one that is needed least (enum
 * conn_need).
 *
 * A use of connections that outweighs these, such as a device that is reached only over the
 * connection that it has opened, is one more row of enum conn_need behind them. What keeps such
 * a connection alive has to be counted with conn_note_use().
 */
#include "net/conn_internal.h"
#include "net/entropy.h"

#include <errno.h>
#include <stdlib.h>

/* Connections that are looked at for one to close. */
#define CANDIDATES_MAX 32u

/* Among equals a connection is not closed for another before it has been idle for so long: each
 * client that comes back would else close the next one's, at the cost of a handshake. */
#define IDLE_MIN_MS 1000u

int conn_room_init(struct conn_listener *listener)
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
    enum conn_need least = CONN_ASKS;

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

bool conn_room_make(struct conn_listener *listener, const struct address *remote)
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
