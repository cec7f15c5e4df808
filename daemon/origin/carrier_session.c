/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/upstream.h"
#include "origin/carrier.h"
#include "origin/origin.h"
#include "origin/side.h"

#include <stdio.h>

/* --- what comes back ---------------------------------------------------- */

static bool is_native(const struct origin_side *side)
{
    return side->context.config->upstream_engine == UPSTREAM_NATIVE;
}

/* libcoap, which also does OSCORE, retransmits by itself and does not say so: an answer that took
 * longer than the first time-out needed it, or came from an origin server that is slow. */
static void note_loss(struct origin_side *side, struct sending *sending)
{
    const struct scheme *scheme = sending->scheme;
    uint64_t now_ms = context_now_ms(&side->context);
    uint64_t first_ms = (uint64_t)scheme->ack_timeout * scheme->ack_random_factor / 100;
    bool is_known =
        !sending->has_oscore && (scheme->transport != TRANSPORT_DTLS || is_native(side));
    if (is_known || !sending->is_outstanding || now_ms - sending->sent_ms < first_ms) {
        return;
    }
    sending->again.count = 1; /* its time is no measure (Karn) */
    if (window_on_loss(&sending->origin->window, sending->sent_ms, now_ms)) {
        metric_add(&side->context.metrics.upstream_losses, 1);
    }
}

static void carrier_session_on_response(void *context, void *user, const struct message *response)
{
    struct origin_side *side = context;
    struct sending *sending = user;
    if (!sending->is_kept) {
        sending->upstream = NULL; /* over, as far as the session goes */
    }
    note_loss(side, sending);
    sending_answered(side, sending, response, false);
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
    case UPSTREAM_CERTIFICATE_EXPIRED:
        return REASON_certificate_expired;
    case UPSTREAM_CERTIFICATE_UNKNOWN:
        return REASON_certificate_unknown;
    case UPSTREAM_NAME_MISMATCH:
        return REASON_certificate_name;
    case UPSTREAM_CLOSED:
        return REASON_origin_closed;
    case UPSTREAM_TIMEOUT:
        return REASON_origin_timeout;
    case UPSTREAM_RESET:
        return REASON_origin_reset;
    case UPSTREAM_INVALID:
        return REASON_origin_invalid;
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
    case UPSTREAM_OSCORE_UNKNOWN:
        return REASON_oscore_unknown;
    case UPSTREAM_OSCORE_REPLAYED:
        return REASON_oscore_replayed;
    case UPSTREAM_OSCORE_UNDECRYPTED:
        return REASON_oscore_undecrypted;
    case UPSTREAM_OSCORE_REFUSED:
        return REASON_oscore_refused;
    case UPSTREAM_OSCORE_UNPROTECTED:
        return REASON_oscore_unprotected;
    case UPSTREAM_OSCORE_UNVERIFIED:
        return REASON_oscore_unverified;
    case UPSTREAM_OSCORE_STATE:
        return REASON_oscore_state;
    case UPSTREAM_OSCORE_IN_USE:
        return REASON_oscore_in_use;
    }
    return REASON_internal;
}

static void carrier_session_on_failure(void *context, void *user,
                                       const struct upstream_failure *failure)
{
    struct origin_side *side = context;
    struct sending *sending = user;
    enum reason reason = reason_of(failure->status);
    char text[PROBLEM_TEXT_MAX] = "";

    sending->upstream = NULL;
    sending->is_sent = failure->was_sent;
    sending_event(side, sending, EVENT_session_failed, failure->was_sent ? 1 : 0);
    if (reason == REASON_transport_missing) {
        (void)snprintf(text, sizeof text, "no %s: libcoap %s has no OpenSSL", sending->scheme->name,
                       upstream_version());
    } else if (failure->why != NULL) {
        (void)snprintf(text, sizeof text, "%s: %s", reason_row(reason)->diagnostic, failure->why);
    }
    sending_failed(side, sending, reason, text);
}

static void carrier_session_on_sent(void *context, void *user, size_t len)
{
    struct origin_side *side = context;
    const struct sending *sending = user;
    silence_on_send(&sending->origin->silence, len, context_now_ms(&side->context));
}

static void carrier_session_on_acknowledged(void *context, void *user)
{
    struct sending *sending = user;
    if (sending->stage == SENDING_OUT) { /* not where it was sent again on another session */
        sending_acknowledged(context, sending);
    }
}

static void carrier_session_on_heard(void *context, const struct address *address)
{
    struct origin_side *side = context;
    struct origin *origin = origin_find(&side->origins, address, TRANSPORT_DTLS);
    if (origin != NULL && origin->silence.bytes > 0) {
        origin_on_heard(side, origin);
    }
}

/* As over UDP: it is no longer outstanding in the window, and may still be answered (MSG-32). */
static void give_up_non(struct origin_side *side, struct sending *sending)
{
    uint64_t until_ms = sending->sent_ms + sending->scheme->non_lifetime;
    sending->deadline_ms = until_ms < sending->deadline_ms ? until_ms : sending->deadline_ms;
    sending_await_end(side, sending);
    sending_settle(side, sending, false);
}

static void carrier_session_on_loss(void *context, void *user, uint64_t sent_ms, bool is_sent_again)
{
    struct origin_side *side = context;
    struct sending *sending = user;
    if (sending->is_outstanding &&
        window_on_loss(&sending->origin->window, sent_ms, context_now_ms(&side->context))) {
        metric_add(&side->context.metrics.upstream_losses, 1);
    }
    if (is_sent_again) {
        sending->again.count++; /* its time is no measure (Karn) */
        sending->origin->retransmitted++;
        metric_add(&side->context.metrics.upstream_retransmitted, 1);
        sending_event(side, sending, EVENT_sent_again, 0);
    } else if (!sending->is_confirmable) {
        give_up_non(side, sending);
    }
}

static const struct upstream_handler carrier_session_handler = {
    .on_response = carrier_session_on_response,
    .on_failure = carrier_session_on_failure,
    .on_sent = carrier_session_on_sent,
    .on_acknowledged = carrier_session_on_acknowledged,
    .on_loss = carrier_session_on_loss,
    .on_heard = carrier_session_on_heard,
};

/* --- the pool ----------------------------------------------------------- */

static struct upstream_options carrier_session_options(struct origin_side *side)
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
        .engine = is_native(side) ? UPSTREAM_ENGINE_NATIVE : UPSTREAM_ENGINE_LIBCOAP,
    };
}

static struct upstream *session_pool_of(struct origin_side *side)
{
    if (side->upstream == NULL) {
        struct upstream_options options = carrier_session_options(side);
        (void)upstream_new(side->context.loop, &options, &carrier_session_handler, side,
                           &side->upstream);
    }
    return side->upstream;
}

static void note_pool_counters(struct origin_side *side)
{
    const struct upstream_counters *counters = upstream_counters(side->upstream);
    struct metrics *metrics = &side->context.metrics;
    metric_set(&metrics->upstream_sessions, metric_get(&counters->sessions));
    metric_set(&metrics->upstream_sessions_opened, metric_get(&counters->sessions_opened));
    metric_set(&metrics->upstream_sessions_resumed, metric_get(&counters->sessions_resumed));
    metric_set(&metrics->upstream_sessions_lost, metric_get(&counters->sessions_lost));
    metric_set(&metrics->upstream_handshakes_failed, metric_get(&counters->handshake_failures));
    metric_set(&metrics->upstream_requests_repeated, metric_get(&counters->requests_repeated));
    metric_set(&metrics->upstream_backed_off, metric_get(&counters->backed_off));
    metric_set(&metrics->upstream_records_unopened, metric_get(&counters->records_unopened));
}

static uint64_t carrier_session_turn(struct origin_side *side, uint64_t now_ms)
{
    if (side->upstream == NULL) {
        return UINT64_MAX;
    }
    uint64_t next_ms = upstream_turn(side->upstream, now_ms);
    note_pool_counters(side);
    return next_ms;
}

static void carrier_session_set_config(struct origin_side *side)
{
    if (side->upstream != NULL) {
        struct upstream_options options = carrier_session_options(side);
        upstream_set_options(side->upstream, &options);
    }
}

static void carrier_session_free(struct origin_side *side)
{
    upstream_free(side->upstream);
    side->upstream = NULL;
}

/* --- sending ------------------------------------------------------------ */

static void carrier_session_cancel(struct origin_side *side, struct sending *sending)
{
    if (sending->upstream != NULL) {
        upstream_cancel(side->upstream, sending->upstream, false);
        sending->upstream = NULL;
    }
}

static enum carrier_result fail_to_send(struct sending *sending, enum reason reason)
{
    sending->reason = reason;
    return CARRIER_FAILED;
}

static enum carrier_result carrier_session_send(struct origin_side *side, struct sending *sending)
{
    const struct scheme *scheme = sending->scheme;
    struct upstream *pool = session_pool_of(side);
    struct carrier_way way;
    struct message request;

    carrier_session_cancel(side, sending); /* what was sent before, under the same token */
    if (pool == NULL) {
        return fail_to_send(sending, REASON_proxy_busy);
    }
    if ((!sending->has_oscore && !transport_has_session(scheme->transport)) ||
        message_decode(sending->datagram, sending->datagram_len, &request) != MESSAGE_OK) {
        return fail_to_send(sending, REASON_internal);
    }
    request.type = sending->is_confirmable ? MESSAGE_CON : MESSAGE_NON;
    side->origins.calls->find_way(side, sending, &way);
    if (sending->has_oscore && way.oscore == NULL) {
        return fail_to_send(sending, REASON_way_changed); /* a reload has taken the section */
    }
    const struct upstream_target target = {
        .transport = scheme->transport,
        .address = sending->origin->address,
        .source = way.source,
        .host = way.host,
        .credentials = way.credentials,
        .oscore = way.oscore,
        .ack_timeout_ms = scheme->ack_timeout,
        .ack_random_factor = scheme->ack_random_factor,
        .max_retransmit = scheme->max_retransmit,
    };
    sending->again.count = 0;
    sending->upstream = upstream_send(pool, &target, &request, sending->is_kept, sending);
    sending->is_sent = sending->upstream != NULL;
    if (sending->upstream == NULL) {
        return fail_to_send(sending, REASON_proxy_busy);
    }
    sending_event(side, sending, sending->has_oscore ? EVENT_oscore : EVENT_session, 0);
    sending_await_end(side, sending);
    return CARRIER_SENT;
}

/*
 * Only our own DTLS calls silence_on_send(). The pool has Pings of its own, and another handshake
 * beside a session that has fallen silent; this is for what waits although nothing is out.
 */
static void carrier_session_ping(struct origin_side *side, struct origin *origin)
{
    if (side->upstream == NULL || !upstream_ping(side->upstream, &origin->address)) {
        silence_on_heard(&origin->silence); /* a request will find out */
        return;
    }
    metric_add(&side->context.metrics.upstream_pings, 1);
    silence_on_send(&origin->silence, MESSAGE_HEADER_LEN, context_now_ms(&side->context));
}

const struct carrier carrier_session = {
    .send = carrier_session_send,
    .cancel = carrier_session_cancel,
    .ping = carrier_session_ping,
    .turn = carrier_session_turn,
    .set_config = carrier_session_set_config,
    .free = carrier_session_free,
};
