/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/listen.h"

#include "client/datagram.h"
#include "client/side.h"
#include "net/dtls.h"

#include <errno.h>

/* How often a listener that retires is looked at. */
#define RETIRE_CHECK_MS 50u

/* --- opening ------------------------------------------------------------ */

static bool is_open(const struct listener *listener)
{
    return listener->socket != NULL || listener->dtls != NULL;
}

/* A slot that is free, or NULL. */
static struct listener *take_listener_slot(struct client_side *side)
{
    for (uint32_t i = 0; i < LISTENERS_MAX; i++) {
        struct listener *listener = &side->listeners[i];
        if (!is_open(listener)) {
            /* Never a number of before: what is remembered of clients there must not match. */
            *listener = (struct listener){.side = side, .index = side->next_listener++};
            return listener;
        }
    }
    return NULL;
}

static struct stream_listener *take_stream_slot(struct client_side *side)
{
    for (uint32_t i = 0; i < LISTENERS_MAX; i++) {
        struct stream_listener *listener = &side->stream_listeners[i];
        if (listener->listener == NULL) {
            *listener = (struct stream_listener){.side = side};
            side->stream_listener_count =
                i < side->stream_listener_count ? side->stream_listener_count : i + 1;
            return listener;
        }
    }
    return NULL;
}

static void opened(struct listener *listener, enum transport transport, const struct address *bound,
                   struct address *ret_address)
{
    listener->bound = *bound;
    own_hosts_open(&listener->side->fetch.own, transport, bound);
    if (ret_address != NULL) {
        *ret_address = *bound;
    }
}

int listen_udp(struct client_side *side, const struct udp_options *options,
               struct address *ret_address)
{
    struct listener *listener = take_listener_slot(side);
    struct udp_options with_limit = *options;
    if (listener == NULL) {
        return -ENOSPC;
    }
    with_limit.datagram_max = (uint32_t)side->context.config->limits_datagram_bytes;
    int error =
        udp_open(side->context.loop, &with_limit, &datagram_handler, listener, &listener->socket);
    if (error == 0) {
        opened(listener, TRANSPORT_UDP, udp_local(listener->socket), ret_address);
    }
    return error;
}

int listen_dtls(struct client_side *side, const struct dtls_options *options,
                struct address *ret_address)
{
    struct listener *listener = take_listener_slot(side);
    struct dtls_options with_limit = *options;
    if (listener == NULL) {
        return -ENOSPC;
    }
    with_limit.udp.datagram_max = (uint32_t)side->context.config->limits_datagram_bytes;
    int error = dtls_listen(side->context.loop, &with_limit, &secure_datagram_handler, listener,
                            &listener->dtls);
    if (error == 0) {
        opened(listener, TRANSPORT_DTLS, dtls_local(listener->dtls), ret_address);
    }
    return error;
}

int listen_stream(struct client_side *side, const struct conn_options *options,
                  struct address *ret_address)
{
    struct stream_listener *listener = take_stream_slot(side);
    struct conn_options with_limits = *options;
    if (listener == NULL) {
        return -ENOSPC;
    }
    listener->transport = options->transport;
    /* A whole message has to fit, and the start of the next one to be seen. */
    with_limits.input_max = (uint32_t)side->context.config->limits_stream_message_bytes + 64;
    int error = conn_listen(side->context.loop, &with_limits, &stream_handler, listener,
                            &listener->listener);
    if (error == 0) {
        const struct address *bound = conn_listener_local(listener->listener);
        own_hosts_open(&side->fetch.own, options->transport, bound);
        if (ret_address != NULL) {
            *ret_address = *bound;
        }
    }
    return error;
}

/* --- closing one -------------------------------------------------------- */

static bool has_requests(const struct client_side *side, const struct listener *listener)
{
    for (uint32_t i = 0; i < side->requests.used; i++) {
        const struct request *request = &side->requests.slots[i];
        if (request->is_used && request->leg.kind == LEG_DATAGRAM &&
            request->leg.listener == listener) {
            return true;
        }
    }
    return false;
}

/* Its clients are forgotten first: nothing may point to it any more. */
static void close_listener(struct client_side *side, struct listener *listener)
{
    for (uint32_t i = 0; i < side->clients.used; i++) {
        struct client *client = &side->clients.slots[i];
        if (client->listener == listener->index) {
            datagram_client_gone(side, client);
        }
    }
    own_hosts_close(&side->fetch.own, listener->socket != NULL ? TRANSPORT_UDP : TRANSPORT_DTLS,
                    &listener->bound);
    if (listener->socket != NULL) {
        totals_add_datagrams(&side->closed, udp_counters(listener->socket));
    }
    udp_close(listener->socket);
    if (listener->dtls != NULL) {
        totals_add_sessions(&side->closed, dtls_counters(listener->dtls));
    }
    dtls_close_listener(listener->dtls);
    listener->socket = NULL;
    listener->dtls = NULL;
}

static void on_retire_check(void *context, struct timer *timer, uint64_t now_ms)
{
    struct client_side *side = context;
    struct listener *listener = HASH_ENTRY(timer, struct listener, retire_timer);
    if (now_ms < listener->retire_ms && has_requests(side, listener)) {
        timer_set(&side->context.wheel, timer, now_ms + RETIRE_CHECK_MS, on_retire_check);
        return;
    }
    close_listener(side, listener);
}

static void on_stream_retire_check(void *context, struct timer *timer, uint64_t now_ms)
{
    struct client_side *side = context;
    struct stream_listener *listener = HASH_ENTRY(timer, struct stream_listener, retire_timer);
    if (now_ms < listener->retire_ms && listener->open_count > 0) {
        timer_set(&side->context.wheel, timer, now_ms + RETIRE_CHECK_MS, on_stream_retire_check);
        return;
    }
    totals_add_connections(&side->closed, conn_counters(listener->listener));
    own_hosts_close(&side->fetch.own, listener->transport, conn_listener_local(listener->listener));
    conn_close_listener(listener->listener);
    listener->listener = NULL;
}

static uint64_t retire_until_ms(const struct client_side *side)
{
    return context_now_ms(&side->context) + side->context.config->proxy_drain_timeout;
}

static void unlisten_datagrams(struct client_side *side, const struct address *bound)
{
    for (uint32_t i = 0; i < LISTENERS_MAX; i++) {
        struct listener *listener = &side->listeners[i];
        if (is_open(listener) && !listener->is_retiring && address_equal(&listener->bound, bound)) {
            listener->is_retiring = true;
            listener->retire_ms = retire_until_ms(side);
            timer_set(&side->context.wheel, &listener->retire_timer,
                      context_now_ms(&side->context) + 1, on_retire_check);
        }
    }
}

static void unlisten_streams(struct client_side *side, const struct address *bound)
{
    for (uint32_t i = 0; i < LISTENERS_MAX; i++) {
        struct stream_listener *listener = &side->stream_listeners[i];
        if (listener->listener == NULL || listener->is_retiring ||
            !address_equal(conn_listener_local(listener->listener), bound)) {
            continue;
        }
        listener->is_retiring = true;
        listener->retire_ms = retire_until_ms(side);
        conn_stop_accepting(listener->listener);
        stream_release_all(side, listener);
        timer_set(&side->context.wheel, &listener->retire_timer, context_now_ms(&side->context) + 1,
                  on_stream_retire_check);
    }
}

void listen_retire(struct client_side *side, bool is_stream, const struct address *bound)
{
    if (is_stream) {
        unlisten_streams(side, bound);
    } else {
        unlisten_datagrams(side, bound);
    }
}

/* --- all of them -------------------------------------------------------- */

void listen_close_all(struct client_side *side)
{
    for (uint32_t i = 0; i < LISTENERS_MAX; i++) {
        udp_close(side->listeners[i].socket);
        dtls_close_listener(side->listeners[i].dtls);
        conn_close_listener(side->stream_listeners[i].listener);
    }
}

void listen_stop_accepting(struct client_side *side)
{
    for (uint32_t i = 0; i < LISTENERS_MAX; i++) {
        if (side->stream_listeners[i].listener != NULL) {
            conn_stop_accepting(side->stream_listeners[i].listener);
        }
    }
}

void listen_set_credentials(struct client_side *side, struct credentials *credentials)
{
    for (uint32_t i = 0; i < LISTENERS_MAX; i++) {
        if (side->listeners[i].dtls != NULL) {
            dtls_set_credentials(side->listeners[i].dtls, credentials);
        }
        if (side->stream_listeners[i].listener != NULL) {
            conn_set_credentials(side->stream_listeners[i].listener, credentials);
        }
    }
}

/* Listeners are few, and most slots of the table empty: those in use are at its start. */
static uint32_t slots_used(const struct client_side *side)
{
    return side->next_listener < LISTENERS_MAX ? side->next_listener : LISTENERS_MAX;
}

void listen_flush(struct client_side *side)
{
    uint32_t used = slots_used(side);
    for (uint32_t i = 0; i < used; i++) {
        if (side->listeners[i].dtls != NULL) {
            dtls_flush(side->listeners[i].dtls);
        } else if (side->listeners[i].socket != NULL) {
            udp_flush(side->listeners[i].socket);
        }
    }
}

uint64_t listen_turn(struct client_side *side, uint64_t now_ms)
{
    uint32_t used = slots_used(side);
    uint64_t next_ms = UINT64_MAX;
    for (uint32_t i = 0; i < used; i++) {
        if (side->listeners[i].dtls != NULL) {
            uint64_t wanted_ms = dtls_turn(side->listeners[i].dtls, now_ms);
            next_ms = wanted_ms < next_ms ? wanted_ms : next_ms;
        }
    }
    return next_ms;
}
