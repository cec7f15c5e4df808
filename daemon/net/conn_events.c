/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The events of a connection. Its bufferevent's callbacks are deferred, so that none of them runs
 * inside a call of ours; a connection is destroyed from one of them, or by a task of the loop, and
 * so never inside a call of its owner.
 */
#include "base/log.h"
#include "net/conn_internal.h"
#include "net/ws_opening.h"

#include <stdlib.h>

/* --- the end of a connection -------------------------------------------- */

static size_t pending_output(const struct conn *conn)
{
    return evbuffer_get_length(bufferevent_get_output(conn->bev));
}

static void end_deadline(struct conn *conn)
{
    if (conn->deadline != NULL) {
        event_free(conn->deadline);
        conn->deadline = NULL;
    }
}

static void free_memory(struct conn *conn)
{
    conn->is_dead = true;
    if (!conn->has_task) {
        free(conn);
    }
}

void conn_destroy(struct conn *conn)
{
    struct conn_listener *listener = conn->listener;

    *conn->link = conn->next;
    if (conn->next != NULL) {
        conn->next->link = conn->link;
    }
    account_discharge(&listener->accounts, &conn->holding);
    listener->counters.open--;
    if (conn->is_open) {
        conn->is_open = false;
        listener->handler->on_close(conn->context, conn, conn->why);
    }
    end_deadline(conn);
    conn_ws_free(conn->ws);
    bufferevent_free(conn->bev);
    conn_tls_free(conn->tls);
    free_memory(conn);
}

/* Everything was sent, and this side closes. */
static void part(struct conn *conn)
{
    if (conn->tls != NULL) {
        conn_tls_goodbye(conn);
    }
    conn_linger(conn->listener, bufferevent_getfd(conn->bev));
    conn_destroy(conn);
}

/* In a turn of the loop: nothing of ours is on the stack. */
static void run_task(void *context)
{
    struct conn *conn = context;

    conn->has_task = false;
    if (conn->is_dead) {
        free(conn);
    } else if (conn->is_cut) {
        conn_destroy(conn);
    } else if (pending_output(conn) == 0) {
        part(conn);
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

static void post_task(struct conn *conn)
{
    if (!conn->has_task) {
        conn->task = (struct loop_task){.run = run_task, .drop = drop_task, .context = conn};
        /* Where the loop has ended the listener will be closed, and the connection with it. */
        conn->has_task = loop_post_task(conn->listener->loop, &conn->task) == 0;
    }
}

void conn_close_later(struct conn *conn, const char *why)
{
    if (conn->why == NULL) {
        conn->why = why;
        conn_ws_goodbye(conn);
        bufferevent_disable(conn->bev, EV_READ);
        post_task(conn);
    }
}

void conn_cut_later(struct conn *conn, const char *why)
{
    if (!conn->is_cut) {
        conn->is_cut = true;
        conn->why = conn->why != NULL ? conn->why : why;
        bufferevent_disable(conn->bev, EV_READ | EV_WRITE);
        post_task(conn);
    }
}

/* @p detail may be empty. */
static void count_handshake_failure(struct conn *conn, enum handshake why, const char *detail)
{
    const struct conn_listener *listener = conn->listener;

    conn->listener->counters.failed[why]++;
    if (conn->is_open) {
        return;
    }
    struct identity *claimed = conn_tls_claimed(conn);
    const struct handshake_failure failure = {
        .remote = &conn->remote, .why = why, .detail = detail, .identity = claimed};
    handshake_log("stream_handshake_failed", &failure);
    if (listener->handler->on_failure != NULL) {
        listener->handler->on_failure(listener->context, &failure);
    }
    identity_release(claimed);
}

void conn_handshake_failed(struct conn *conn, enum handshake why, const char *detail)
{
    count_handshake_failure(conn, why, detail);
    conn_close_later(conn, handshake_rows[why].name);
}

/* --- bytes -------------------------------------------------------------- */

static void conn_note_use(struct conn *conn)
{
    conn->active_ms = loop_now_ms(conn->listener->loop);
    account_touch(&conn->listener->accounts, &conn->holding);
}

bool conn_queue(struct conn *conn, const void *data, size_t len)
{
    uint64_t hard_max = (uint64_t)OUTPUT_HARD_FACTOR * conn->listener->options.output_max;

    if (len > hard_max || pending_output(conn) > hard_max - len) {
        conn->listener->counters.slow_readers++;
        conn_cut_later(conn, "peer does not read");
        return false;
    }
    if (bufferevent_write(conn->bev, data, len) != 0) {
        conn_cut_later(conn, "out of memory");
        return false;
    }
    conn_note_use(conn);
    conn->listener->counters.bytes_out += len;
    if (pending_output(conn) > conn->listener->options.output_max) {
        conn->is_full = true;
    }
    return true;
}

bool conn_is_behind(struct conn *conn)
{
    conn->is_behind = conn->why == NULL && pending_output(conn) > OUTPUT_BEHIND_BYTES;
    return conn->is_behind;
}

size_t conn_give(struct conn *conn, const uint8_t *data, size_t len)
{
    size_t used = conn->listener->handler->on_input(conn->context, conn, data, len);

    if (used == SIZE_MAX) {
        conn_close_later(conn, "refused");
    } else if (used > 0) {
        end_deadline(conn);
    }
    return used;
}

static void wait_for_input(struct conn *conn, uint32_t wait_ms)
{
    const struct conn_options *options = &conn->listener->options;
    const struct timeval wait = conn_timeval(wait_ms);
    const struct timeval write = conn_timeval(options->write_ms);

    bufferevent_set_timeouts(conn->bev, &wait, options->write_ms > 0 ? &write : NULL);
    if (!conn->is_paused) {
        bufferevent_enable(conn->bev, EV_READ);
    }
}

static bool is_late(const struct conn *conn)
{
    uint32_t limit_ms = conn->listener->options.message_ms;

    return conn->partial_ms != 0 && !conn->is_paused &&
           loop_now_ms(conn->listener->loop) - conn->partial_ms >= limit_ms;
}

static void close_late(struct conn *conn)
{
    conn->listener->counters.timeouts++;
    conn_close_later(conn, "message took too long");
}

/*
 * The idle time-out restarts with each byte, so a peer that sends a byte now and then could hold a
 * buffer and a place forever. The time since the start of the message does not restart.
 */
void conn_note_partial(struct conn *conn, bool is_partial, bool has_moved)
{
    const struct conn_options *options = &conn->listener->options;
    bool was_partial = conn->partial_ms != 0;

    if (options->message_ms == 0 || conn->why != NULL) {
        return;
    }
    if (!is_partial) {
        conn->partial_ms = 0;
    } else if (!was_partial || has_moved) {
        conn->partial_ms = loop_now_ms(conn->listener->loop);
    }
    if (was_partial != is_partial) {
        uint32_t wait_ms = options->idle_ms;
        wait_for_input(conn,
                       is_partial && options->message_ms < wait_ms ? options->message_ms : wait_ms);
    }
    if (is_late(conn)) {
        close_late(conn);
    }
}

static void give_stream(struct conn *conn)
{
    struct evbuffer *input = bufferevent_get_input(conn->bev);
    size_t len = evbuffer_get_length(input);

    /* Not much more than input_max bytes: the bufferevent stops reading there. */
    const uint8_t *data = evbuffer_pullup(input, -1);
    if (data == NULL) {
        conn_cut_later(conn, "out of memory");
        return;
    }
    size_t used = conn_give(conn, data, len);
    if (used != SIZE_MAX) {
        evbuffer_drain(input, used);
        conn->listener->counters.bytes_in += used;
        if (used == 0 && len >= conn->listener->options.input_max && !conn->is_paused) {
            conn_close_later(conn, "message too long");
            return;
        }
        conn_note_partial(conn, used<len, used> 0);
    }
}

/* --- events of the bufferevent ------------------------------------------ */

static void conn_on_read(struct bufferevent *bev, void *context)
{
    struct conn *conn = context;

    loop_turn_begin(conn->listener->loop);
    conn_note_use(conn);
    if (evbuffer_get_length(bufferevent_get_input(bev)) == 0 || conn->why != NULL ||
        conn->is_paused) {
        return;
    }
    switch (conn->stage) {
    case STAGE_TLS:
        break; /* no input before the handshake's end */
    case STAGE_UPGRADE:
        conn_ws_upgrade(conn);
        break;
    case STAGE_OPEN:
        if (conn->ws != NULL) {
            conn_ws_input(conn);
        } else {
            give_stream(conn);
        }
        break;
    }
}

static void on_written(struct bufferevent *bev, void *context)
{
    struct conn *conn = context;

    (void)bev;
    loop_turn_begin(conn->listener->loop);
    conn_note_use(conn);
    if (conn->why != NULL) {
        if (pending_output(conn) == 0 && !conn->is_cut) {
            part(conn);
        }
        return;
    }
    if (conn->is_full || (conn->is_behind && pending_output(conn) <= OUTPUT_BEHIND_BYTES)) {
        conn->is_full = false;
        conn->is_behind = false;
        conn->listener->handler->on_drained(conn->context, conn);
    }
}

/* The bufferevent sees no input for a time; output counts too. */
static void conn_on_idle(struct conn *conn)
{
    uint32_t limit_ms = conn->listener->options.idle_ms;
    uint64_t idle_ms = loop_now_ms(conn->listener->loop) - conn->active_ms;

    if (is_late(conn)) {
        close_late(conn);
        return;
    }
    if (!conn->is_ending && (idle_ms < limit_ms || pending_output(conn) > 0)) {
        wait_for_input(conn, idle_ms < limit_ms ? limit_ms - (uint32_t)idle_ms : limit_ms);
        return;
    }
    const struct conn_handler *handler = conn->listener->handler;
    bool can_ask = conn->is_open && !conn->is_ending && handler->on_idle != NULL;
    uint32_t wait_ms = can_ask ? handler->on_idle(conn->context, conn) : 0;
    if (conn->why != NULL) {
        return; /* it closes already */
    }
    if (wait_ms > 0) {
        conn->is_ending = wait_ms != CONN_NOT_IDLE;
        conn->active_ms = loop_now_ms(conn->listener->loop);
        wait_for_input(conn, conn->is_ending ? wait_ms : limit_ms);
        return;
    }
    conn->listener->counters.timeouts++;
    conn_close_later(conn, "idle");
}

static void conn_on_event(struct bufferevent *bev, short what, void *context)
{
    struct conn *conn = context;
    struct conn_counters *counters = &conn->listener->counters;

    (void)bev;
    loop_turn_begin(conn->listener->loop);
    if ((what & BEV_EVENT_CONNECTED) != 0) {
        enum handshake why;
        if (!conn_tls_connected(conn, &why)) {
            conn_handshake_failed(conn, why, "");
        } else if (conn->stage == STAGE_OPEN) {
            conn_opened(conn);
        }
        return;
    }
    if ((what & BEV_EVENT_TIMEOUT) != 0 && (what & BEV_EVENT_READING) != 0) {
        if (conn->why == NULL) {
            conn_on_idle(conn);
        }
        return;
    }
    if ((what & BEV_EVENT_EOF) != 0 && conn->tls == NULL && pending_output(conn) > 0) {
        /* The peer may have closed one direction only, so the queued output is still sent. */
        conn_close_later(conn, "closed by the peer");
        return;
    }
    if (conn->stage == STAGE_TLS && conn->why == NULL) {
        const char *detail = "";
        enum handshake why = conn_tls_failure(conn, &detail);
        conn->why = handshake_rows[why].name;
        count_handshake_failure(conn, why, detail);
    }
    if (conn->why == NULL) {
        conn->why = (what & BEV_EVENT_EOF) != 0       ? "closed by the peer"
                    : (what & BEV_EVENT_TIMEOUT) != 0 ? "peer does not read"
                                                      : "connection error";
    }
    counters->timeouts += (what & BEV_EVENT_TIMEOUT) != 0;
    counters->slow_readers += (what & BEV_EVENT_TIMEOUT) != 0;
    conn_destroy(conn);
}

/* Neither handshakes nor a first message in time: a stranger may not hold a place for long. */
static void on_deadline(evutil_socket_t fd, short what, void *context)
{
    struct conn *conn = context;
    struct conn_counters *counters = &conn->listener->counters;

    (void)fd;
    (void)what;
    loop_turn_begin(conn->listener->loop);
    if (conn->why == NULL) {
        counters->timeouts++;
        conn->why = handshake_rows[HANDSHAKE_timeout].name;
        count_handshake_failure(conn, HANDSHAKE_timeout, "");
    }
    conn_destroy(conn);
}

/* --- the beginning ------------------------------------------------------ */

static bool set_limits(struct conn *conn)
{
    const struct conn_options *options = &conn->listener->options;
    const struct timeval idle = conn_timeval(options->idle_ms);
    const struct timeval write = conn_timeval(options->write_ms);
    const struct timeval handshake = conn_timeval(options->handshake_ms);

    bufferevent_set_timeouts(conn->bev, options->idle_ms > 0 ? &idle : NULL,
                             options->write_ms > 0 ? &write : NULL);
    bufferevent_setwatermark(conn->bev, EV_READ, 0,
                             options->input_max > WS_HEAD_MAX ? options->input_max : WS_HEAD_MAX);
    bufferevent_setwatermark(conn->bev, EV_WRITE, options->output_max / 2, 0);
    if (options->handshake_ms == 0) {
        return true;
    }
    conn->deadline = evtimer_new(conn->listener->loop->base, on_deadline, conn);
    return conn->deadline != NULL && event_add(conn->deadline, &handshake) == 0;
}

bool conn_start(struct conn *conn)
{
    conn->active_ms = loop_now_ms(conn->listener->loop);
    bufferevent_setcb(conn->bev, conn_on_read, on_written, conn_on_event, conn);
    return set_limits(conn) && bufferevent_enable(conn->bev, EV_READ | EV_WRITE) == 0;
}

void conn_opened(struct conn *conn)
{
    conn->stage = STAGE_OPEN;
    conn->context = conn->listener->handler->on_open(conn->listener->context, conn);
    if (conn->context == NULL) {
        conn_close_later(conn, "refused");
        return;
    }
    conn->is_open = true;
}
