/* SPDX-License-Identifier: BSD-2-Clause */
#include "origin/probe.h"

#include "origin/sending.h"
#include "origin/side.h"

/* One half of the rate is for Pings while something waits: requests get the other one. */
#define PING_SHARE 2u

/* The scheme of what waits first: origin servers have none of their own. */
static const struct scheme *scheme_of(const struct origin *origin)
{
    return sending_first(origin)->scheme;
}

static uint64_t interval_ms(const struct scheme *scheme)
{
    uint64_t paced_ms = PING_SHARE * MESSAGE_HEADER_LEN * 1000u / scheme->probing_rate;
    return paced_ms > scheme->ack_timeout ? paced_ms : scheme->ack_timeout;
}

static void on_timer(void *context, struct timer *timer, uint64_t now_ms)
{
    (void)now_ms;
    struct origin_side *side = context;
    struct origin *origin = HASH_ENTRY(timer, struct origin, probe_timer);
    origin_resume(side, origin);
    probe_wait(side, origin);
}

void probe_wait(struct origin_side *side, struct origin *origin)
{
    uint64_t now_ms = context_now_ms(&side->context);
    /* Carriers without Pings send no bytes that count (struct carrier). */
    if (origin->queue.first == NULL || origin->silence.bytes == 0 ||
        timer_is_set(&origin->probe_timer)) {
        return;
    }
    const struct scheme *scheme = scheme_of(origin);
    uint64_t next_ms = silence_begins_ms(&origin->silence, scheme);
    if (now_ms >= next_ms) {
        if (now_ms >= origin->ping_ms) {
            carrier_of(origin->transport)->ping(side, origin);
            origin->ping_ms = now_ms + interval_ms(scheme);
        }
        uint64_t until_ms = silence_until_ms(&origin->silence, scheme);
        bool is_first = until_ms > now_ms && until_ms < origin->ping_ms;
        next_ms = is_first ? until_ms : origin->ping_ms;
    }
    timer_set(&side->context.wheel, &origin->probe_timer, next_ms, on_timer);
}

void probe_end(struct origin_side *side, struct origin *origin)
{
    timer_cancel(&side->context.wheel, &origin->probe_timer);
}
