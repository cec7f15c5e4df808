/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sessions are made when the first request needs one: an engine that has only plain
 * UDP to do starts no library for them.
 */
#include "fetch/via_session.h"

#include "fetch/forward.h"
#include "fetch/keyring.h"
#include "fetch/own.h"
#include "fetch/receive.h"
#include "fetch/side.h"

#include <stdio.h>
#include <string.h>

bool via_session_is_for(const struct fetch *fetch)
{
    return transport_has_session(fetch->hop.scheme->transport);
}

/* --- what comes back ---------------------------------------------------- */

/* libcoap retransmits by itself and does not say so: an answer that took longer than the
 * first time-out needed it, or came from an origin server that is slow. */
static void note_loss(struct fetch_side *side, struct fetch *fetch)
{
    const struct scheme *scheme = fetch->hop.scheme;
    uint64_t now_ms = context_now_ms(&side->context);
    uint64_t first_ms = (uint64_t)scheme->ack_timeout * scheme->ack_random_factor / 100;
    if (scheme->transport != TRANSPORT_DTLS || !fetch->is_outstanding ||
        now_ms - fetch->sent_ms < first_ms) {
        return;
    }
    fetch->again.count = 1; /* its time is no measure (Karn) */
    if (window_on_loss(&fetch->origin->window, fetch->sent_ms, now_ms)) {
        metric_add(&side->context.metrics.upstream_losses, 1);
    }
}

static void via_session_on_response(void *context, void *user, const struct message *response)
{
    struct fetch_side *side = context;
    struct fetch *fetch = user;
    if (!fetch->is_kept_upstream) {
        fetch->upstream = NULL; /* over, whoever it is for by now */
    }
    note_loss(side, fetch);
    receive_response(side, fetch, response, false);
}

static enum reason reason_of(enum upstream_status status)
{
    switch (status) {
    case UPSTREAM_REFUSED:
        return REASON_origin_refused;
    case UPSTREAM_CONNECT_TIMEOUT:
        return REASON_connect_timeout;
    case UPSTREAM_HANDSHAKE_FAILED:
        return REASON_handshake_failed;
    case UPSTREAM_BAD_CERTIFICATE:
        return REASON_certificate_refused;
    case UPSTREAM_NAME_MISMATCH:
        return REASON_certificate_name;
    case UPSTREAM_CLOSED:
        return REASON_origin_closed;
    case UPSTREAM_TIMEOUT:
        return REASON_origin_timeout;
    case UPSTREAM_RESET:
        return REASON_origin_reset;
    case UPSTREAM_FULL:
        return REASON_sessions_full;
    case UPSTREAM_DISPLACED:
        return REASON_displaced;
    case UPSTREAM_BACKING_OFF:
        return REASON_origin_backing_off;
    case UPSTREAM_MESSAGE_TOO_LARGE:
        return REASON_request_too_large;
    case UPSTREAM_UNSUPPORTED:
        return REASON_transport_missing;
    case UPSTREAM_NO_MEMORY:
        return REASON_proxy_busy;
    }
    return REASON_internal;
}

static void via_session_on_failure(void *context, void *user,
                                   const struct upstream_failure *failure)
{
    struct fetch_side *side = context;
    struct fetch *fetch = user;
    enum reason reason = reason_of(failure->status);
    char text[PROBLEM_TEXT_MAX] = "";

    fetch->upstream = NULL;
    trail_event(&side->context, fetch->trail, EVENT_session_failed, failure->was_sent ? 1 : 0);
    if (fetch_lost(side, fetch)) {
        return; /* it is registered again (RFC 8323 section 7.4) */
    }
    fetch->is_sent = failure->was_sent;
    if (reason == REASON_transport_missing) {
        (void)snprintf(text, sizeof text, "no %s: libcoap %s has no OpenSSL",
                       fetch->hop.scheme->name, upstream_version());
    } else if (failure->why != NULL) {
        (void)snprintf(text, sizeof text, "%s: %s", reason_row(reason)->diagnostic, failure->why);
    }
    forward_failed(side, fetch, reason, text);
}

static const struct upstream_handler handler = {via_session_on_response, via_session_on_failure};

/* --- the pool ----------------------------------------------------------- */

static struct upstream_options via_session_options_of(struct fetch_side *side)
{
    const struct config *config = side->context.config;
    uint64_t datagram_bytes = config->limits_datagram_bytes;
    uint64_t message_bytes = config->limits_stream_message_bytes;
    return (struct upstream_options){
        .sessions_max = config->upstream_sessions,
        .requests_max = config->limits_exchanges,
        .ipv6_bits = config->limits_ipv6_prefix,
        .idle_ms = config->upstream_idle_timeout,
        .handshake_ms = config->upstream_handshake_timeout,
        .back_off_ms = config->upstream_back_off,
        .back_off_max_ms = config->upstream_back_off_max,
        .message_bytes =
            (uint32_t)(message_bytes > datagram_bytes ? message_bytes : datagram_bytes),
        .seed = entropy_u64(&side->context.entropy),
    };
}

static struct upstream *via_session_pool_of(struct fetch_side *side)
{
    if (side->upstream == NULL) {
        struct upstream_options options = via_session_options_of(side);
        (void)upstream_new(side->context.loop, &options, &handler, side, &side->upstream);
    }
    return side->upstream;
}

static void count(struct fetch_side *side)
{
    const struct upstream_counters *counters = upstream_counters(side->upstream);
    struct metrics *metrics = &side->context.metrics;
    metric_set(&metrics->upstream_sessions, metric_get(&counters->sessions));
    metric_set(&metrics->upstream_sessions_opened, metric_get(&counters->sessions_opened));
    metric_set(&metrics->upstream_sessions_lost, metric_get(&counters->sessions_lost));
    metric_set(&metrics->upstream_handshakes_failed, metric_get(&counters->handshake_failures));
    metric_set(&metrics->upstream_requests_repeated, metric_get(&counters->requests_repeated));
    metric_set(&metrics->upstream_backed_off, metric_get(&counters->backed_off));
}

uint64_t via_session_turn(struct fetch_side *side, uint64_t now_ms)
{
    if (side->upstream == NULL) {
        return UINT64_MAX;
    }
    uint64_t next_ms = upstream_turn(side->upstream, now_ms);
    count(side);
    return next_ms;
}

void via_session_set_config(struct fetch_side *side)
{
    if (side->upstream != NULL) {
        struct upstream_options options = via_session_options_of(side);
        upstream_set_options(side->upstream, &options);
    }
}

void via_session_free(struct fetch_side *side)
{
    upstream_free(side->upstream);
    side->upstream = NULL;
}

/* --- requests ----------------------------------------------------------- */

/* The host that the certificate has to be for: as it was asked for (SEC-12), or the parent's. */
static const char *host_of(const struct next_hop *hop, char *buffer, size_t capacity)
{
    size_t len = hop->name.len;
    if (!hop->is_name || len >= capacity) {
        return NULL;
    }
    if (len > 1 && hop->name.data[len - 1] == '.') {
        len--; /* a fully qualified name: SNI and certificates have it without (RFC 6066) */
    }
    memcpy(buffer, hop->name.data, len);
    buffer[len] = '\0';
    return buffer;
}

static void on_unsent(void *context, struct timer *timer, uint64_t now_ms)
{
    (void)now_ms;
    struct fetch *fetch = HASH_ENTRY(timer, struct fetch, timer);
    fetch_fail(context, fetch, fetch->reason, NULL);
}

/* By a timer: the caller may be giving an answer that must not be freed below it. */
static void end_soon(struct fetch_side *side, struct fetch *fetch, enum reason reason)
{
    if (fetch->state != FETCH_sent) {
        fetch_set_state(side, fetch, FETCH_sent);
    }
    fetch->reason = reason;
    timer_set(&side->context.wheel, &fetch->timer, context_now_ms(&side->context), on_unsent);
}

void via_session_send(struct fetch_side *side, struct fetch *fetch)
{
    const struct scheme *scheme = fetch->hop.scheme;
    char host[TARGET_NAME_MAX + 1];
    struct upstream_target target = {
        .transport = scheme->transport,
        .address = fetch->origin->address,
        .source = fetch->asker->path.remote,
        .host = host_of(&fetch->hop, host, sizeof host),
        .credentials = keyring_find(side->context.config, fetch),
        .ack_timeout_ms = scheme->ack_timeout,
        .ack_random_factor = scheme->ack_random_factor,
        .max_retransmit = scheme->max_retransmit,
    };
    struct message request;
    struct upstream *pool = via_session_pool_of(side);

    via_session_cancel(side, fetch); /* what was sent before, under the same token */
    if (pool == NULL || !transport_has_session(scheme->transport) ||
        message_decode(fetch->datagram, fetch->datagram_len, &request) != MESSAGE_OK) {
        end_soon(side, fetch, pool == NULL ? REASON_proxy_busy : REASON_internal);
        return;
    }
    fetch_set_state(side, fetch, FETCH_sent);
    fetch->sent_ms = context_now_ms(&side->context);
    fetch->sent_us = context_now_us(&side->context);
    fetch->again.count = 0;
    fetch->is_outstanding = true;
    window_on_send(&fetch->origin->window);
    fetch_set_deadline(side, fetch);
    metric_add(&side->context.metrics.upstream_requests, 1);
    fetch->origin->requests++;
    trail_event(&side->context, fetch->trail, EVENT_session, 0);
    /* Of our own: an observation's stays. A client's may become nobody's meanwhile. */
    fetch->is_kept_upstream = fetch->is_own;
    fetch->upstream = upstream_send(pool, &target, &request, fetch->is_kept_upstream, fetch);
    fetch->is_sent = fetch->upstream != NULL;
    if (fetch->upstream == NULL) {
        end_soon(side, fetch, REASON_proxy_busy);
    }
}

void via_session_cancel(struct fetch_side *side, struct fetch *fetch)
{
    if (fetch->upstream != NULL) {
        /* Notifications are cancelled by a request of their own (OBS-25). */
        upstream_cancel(side->upstream, fetch->upstream, false);
        fetch->upstream = NULL;
    }
}
