/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/listen.h"

#include "client/datagram.h"
#include "engine/state.h"
#include "net/dtls.h"
#include "net/interfaces.h"

#include <errno.h>

/* How long the list of the host's own addresses is used. */
#define OWN_ADDRESSES_MS 5000u

/* How often a listener that retires is looked at. */
#define RETIRE_CHECK_MS 50u

/* --- opening ------------------------------------------------------------ */

static bool is_open(const struct listener *listener)
{
    return listener->socket != NULL || listener->dtls != NULL;
}

/* A slot that is free, or NULL. */
static struct listener *take_listener_slot(struct engine *engine)
{
    for (uint32_t i = 0; i < LISTENERS_MAX; i++) {
        struct listener *listener = &engine->listeners[i];
        if (!is_open(listener)) {
            /* Never a number of before: what is remembered of clients there must not match. */
            *listener = (struct listener){.engine = engine, .index = engine->next_listener++};
            return listener;
        }
    }
    return NULL;
}

static struct stream_listener *take_stream_slot(struct engine *engine)
{
    for (uint32_t i = 0; i < LISTENERS_MAX; i++) {
        struct stream_listener *listener = &engine->stream_listeners[i];
        if (listener->listener == NULL) {
            *listener = (struct stream_listener){.engine = engine};
            engine->stream_listener_count =
                i < engine->stream_listener_count ? engine->stream_listener_count : i + 1;
            return listener;
        }
    }
    return NULL;
}

static void opened(struct listener *listener, const struct address *bound,
                   struct address *ret_address)
{
    listener->bound = *bound;
    if (ret_address != NULL) {
        *ret_address = *bound;
    }
}

int engine_listen(struct engine *engine, const struct udp_options *options,
                  struct address *ret_address)
{
    struct listener *listener = take_listener_slot(engine);
    struct udp_options with_limit = *options;
    if (listener == NULL) {
        return -ENOSPC;
    }
    with_limit.datagram_max = (uint32_t)engine->config->limits_datagram_bytes;
    int error = udp_open(engine->loop, &with_limit, &datagram_handler, listener, &listener->socket);
    if (error == 0) {
        opened(listener, udp_local(listener->socket), ret_address);
    }
    return error;
}

int engine_listen_dtls(struct engine *engine, const struct dtls_options *options,
                       struct address *ret_address)
{
    struct listener *listener = take_listener_slot(engine);
    struct dtls_options with_limit = *options;
    if (listener == NULL) {
        return -ENOSPC;
    }
    with_limit.udp.datagram_max = (uint32_t)engine->config->limits_datagram_bytes;
    int error =
        dtls_listen(engine->loop, &with_limit, &secure_datagram_handler, listener, &listener->dtls);
    if (error == 0) {
        opened(listener, dtls_local(listener->dtls), ret_address);
    }
    return error;
}

int engine_listen_stream(struct engine *engine, const struct conn_options *options,
                         struct address *ret_address)
{
    struct stream_listener *listener = take_stream_slot(engine);
    struct conn_options with_limits = *options;
    if (listener == NULL) {
        return -ENOSPC;
    }
    listener->transport = options->transport;
    /* A whole message has to fit, and the start of the next one to be seen. */
    with_limits.input_max = (uint32_t)engine->config->limits_stream_message_bytes + 64;
    int error =
        conn_listen(engine->loop, &with_limits, &stream_handler, listener, &listener->listener);
    if (error == 0 && ret_address != NULL) {
        *ret_address = *conn_listener_local(listener->listener);
    }
    return error;
}

/* --- closing one -------------------------------------------------------- */

static bool has_requests(const struct engine *engine, const struct listener *listener)
{
    for (uint32_t i = 0; i < engine->requests.used; i++) {
        const struct request *request = &engine->requests.slots[i];
        if (request->is_used && request->leg.kind == LEG_DATAGRAM &&
            request->leg.listener == listener) {
            return true;
        }
    }
    return false;
}

/* Its clients are forgotten first: nothing may point to it any more. */
static void close_listener(struct engine *engine, struct listener *listener)
{
    for (uint32_t i = 0; i < engine->clients.used; i++) {
        struct client *client = &engine->clients.slots[i];
        if (client->listener == listener->index) {
            datagram_client_gone(engine, client);
        }
    }
    if (listener->socket != NULL) {
        totals_add_datagrams(&engine->closed, udp_counters(listener->socket));
    }
    udp_close(listener->socket);
    if (listener->dtls != NULL) {
        totals_add_sessions(&engine->closed, dtls_counters(listener->dtls));
    }
    dtls_close_listener(listener->dtls);
    listener->socket = NULL;
    listener->dtls = NULL;
}

static void on_retire_check(void *context, struct timer *timer, uint64_t now_ms)
{
    struct engine *engine = context;
    struct listener *listener = HASH_ENTRY(timer, struct listener, retire_timer);
    if (now_ms < listener->retire_ms && has_requests(engine, listener)) {
        timer_set(&engine->wheel, timer, now_ms + RETIRE_CHECK_MS, on_retire_check);
        return;
    }
    close_listener(engine, listener);
}

static void on_stream_retire_check(void *context, struct timer *timer, uint64_t now_ms)
{
    struct engine *engine = context;
    struct stream_listener *listener = HASH_ENTRY(timer, struct stream_listener, retire_timer);
    if (now_ms < listener->retire_ms && listener->open_count > 0) {
        timer_set(&engine->wheel, timer, now_ms + RETIRE_CHECK_MS, on_stream_retire_check);
        return;
    }
    totals_add_connections(&engine->closed, conn_counters(listener->listener));
    conn_close_listener(listener->listener);
    listener->listener = NULL;
}

static uint64_t retire_until_ms(const struct engine *engine)
{
    return engine_now_ms(engine) + engine->config->proxy_drain_timeout;
}

static void unlisten_datagrams(struct engine *engine, const struct address *bound)
{
    for (uint32_t i = 0; i < LISTENERS_MAX; i++) {
        struct listener *listener = &engine->listeners[i];
        if (is_open(listener) && !listener->is_retiring && address_equal(&listener->bound, bound)) {
            listener->is_retiring = true;
            listener->retire_ms = retire_until_ms(engine);
            timer_set(&engine->wheel, &listener->retire_timer, engine_now_ms(engine) + 1,
                      on_retire_check);
        }
    }
}

static void unlisten_streams(struct engine *engine, const struct address *bound)
{
    for (uint32_t i = 0; i < LISTENERS_MAX; i++) {
        struct stream_listener *listener = &engine->stream_listeners[i];
        if (listener->listener == NULL || listener->is_retiring ||
            !address_equal(conn_listener_local(listener->listener), bound)) {
            continue;
        }
        listener->is_retiring = true;
        listener->retire_ms = retire_until_ms(engine);
        conn_stop_accepting(listener->listener);
        stream_release_all(engine, listener);
        timer_set(&engine->wheel, &listener->retire_timer, engine_now_ms(engine) + 1,
                  on_stream_retire_check);
    }
}

void engine_unlisten(struct engine *engine, bool is_stream, const struct address *bound)
{
    if (is_stream) {
        unlisten_streams(engine, bound);
    } else {
        unlisten_datagrams(engine, bound);
    }
}

/* --- all of them -------------------------------------------------------- */

void listen_close_all(struct engine *engine)
{
    for (uint32_t i = 0; i < LISTENERS_MAX; i++) {
        udp_close(engine->listeners[i].socket);
        dtls_close_listener(engine->listeners[i].dtls);
        conn_close_listener(engine->stream_listeners[i].listener);
    }
}

void listen_stop_accepting(struct engine *engine)
{
    for (uint32_t i = 0; i < LISTENERS_MAX; i++) {
        if (engine->stream_listeners[i].listener != NULL) {
            conn_stop_accepting(engine->stream_listeners[i].listener);
        }
    }
}

void engine_set_credentials(struct engine *engine, struct credentials *credentials)
{
    for (uint32_t i = 0; i < LISTENERS_MAX; i++) {
        if (engine->listeners[i].dtls != NULL) {
            dtls_set_credentials(engine->listeners[i].dtls, credentials);
        }
        if (engine->stream_listeners[i].listener != NULL) {
            conn_set_credentials(engine->stream_listeners[i].listener, credentials);
        }
    }
}

/* Listeners are few, and most slots of the table empty: those in use are at its start. */
static uint32_t slots_used(const struct engine *engine)
{
    return engine->next_listener < LISTENERS_MAX ? engine->next_listener : LISTENERS_MAX;
}

void listen_flush(struct engine *engine)
{
    uint32_t used = slots_used(engine);
    for (uint32_t i = 0; i < used; i++) {
        if (engine->listeners[i].dtls != NULL) {
            dtls_flush(engine->listeners[i].dtls);
        } else if (engine->listeners[i].socket != NULL) {
            udp_flush(engine->listeners[i].socket);
        }
    }
}

uint64_t listen_turn(struct engine *engine, uint64_t now_ms)
{
    uint32_t used = slots_used(engine);
    uint64_t next_ms = UINT64_MAX;
    for (uint32_t i = 0; i < used; i++) {
        if (engine->listeners[i].dtls != NULL) {
            uint64_t wanted_ms = dtls_turn(engine->listeners[i].dtls, now_ms);
            next_ms = wanted_ms < next_ms ? wanted_ms : next_ms;
        }
    }
    return next_ms;
}

/* --- our own addresses -------------------------------------------------- */

const struct address *engine_host_addresses(struct engine *engine, size_t *ret_count)
{
    uint64_t now_ms = engine_now_ms(engine);
    if (now_ms >= engine->own_until_ms) {
        engine->own_count = interfaces_list(engine->own, OWN_ADDRESSES_MAX);
        engine->own_until_ms = now_ms + OWN_ADDRESSES_MS;
    }
    *ret_count = engine->own_count;
    return engine->own;
}

static bool is_host_address(struct engine *engine, const struct address *address)
{
    size_t count;
    const struct address *own = engine_host_addresses(engine, &count);
    return address_is_among(own, count, address);
}

static bool leads_to(struct engine *engine, const struct address *bound,
                     const struct address *address)
{
    if (bound->port != address->port || bound->family != address->family) {
        return false;
    }
    return address_is_unspecified(bound)
               ? address_is_loopback(address) || address_is_unspecified(address) ||
                     is_host_address(engine, address)
               : address_same_host(bound, address);
}

static bool is_own_datagram(struct engine *engine, bool is_secure, const struct address *address)
{
    uint32_t used = slots_used(engine);
    for (uint32_t i = 0; i < used; i++) {
        const struct listener *listener = &engine->listeners[i];
        bool is_open = is_secure ? listener->dtls != NULL : listener->socket != NULL;
        if (is_open && leads_to(engine, &listener->bound, address)) {
            return true;
        }
    }
    return false;
}

static bool is_own_stream(struct engine *engine, enum transport transport,
                          const struct address *address)
{
    for (uint32_t i = 0; i < LISTENERS_MAX; i++) {
        const struct stream_listener *listener = &engine->stream_listeners[i];
        if (listener->listener != NULL && listener->transport == transport &&
            leads_to(engine, conn_listener_local(listener->listener), address)) {
            return true;
        }
    }
    return false;
}

bool engine_is_own_address(struct engine *engine, const struct scheme *scheme,
                           const struct address *address)
{
    enum transport transport = scheme->transport;
    return transport_is_stream(transport)
               ? is_own_stream(engine, transport, address)
               : transport_is_datagram(transport) &&
                     is_own_datagram(engine, transport_is_secure(transport), address);
}
