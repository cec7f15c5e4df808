/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What every part of an engine needs: the configuration, the clock with its timers, counters,
 * random numbers, and memory for one message. One for each engine, so for each thread.
 *
 * The parts above it nest: struct origin_side has this in it, struct fetch_side has an origin side
 * in it, struct client_side a fetch side (the files side.h of those folders), and struct engine all
 * of them. Each begins with the one below it, in a union with what that one begins with. So a
 * function takes the struct of its own layer and reaches what is below it by one name
 * (side->context, side->fetch), at a fixed offset; it cannot name what is above.
 */
#ifndef CRIPROXY_CONTEXT_H
#define CRIPROXY_CONTEXT_H

#include "base/timer.h"
#include "conf/config.h"
#include "net/entropy.h"
#include "net/loop.h"
#include "ops/events.h"
#include "ops/metrics.h"

/* What of a lab is in use; context->lab has a bit for each. */
enum {
    LAB_FAULTS = 1,  /* context->faults is there */
    LAB_CAPTURE = 2, /* context->capture is */
    LAB_BUSIEST = 4, /* the busiest clients and targets are counted (client/busiest.h) */
};

struct context {
    const struct config *config; /* borrowed; a reload gives another */
    const struct scheme *coap;   /* of the configuration: what clients at listeners speak */
    uint32_t policy_epoch; /* counts configurations, so that what was decided before is not used */
    unsigned worker_index;
    struct loop *loop; /* borrowed */
    struct timer_wheel
        wheel;   /* its timers are called with the engine as context, which is any side */
    uint8_t lab; /* LAB_ bits; where it is 0, a message or request asks for nothing else of a lab */
    bool trace;  /* requests are traced: */
    struct event_ring *events; /* what happens to them is noted here; NULL: no trace was started */
    uint8_t *scratch;          /* one message to encode, */
    size_t scratch_bytes;      /* of this size at most */
    uint8_t *target_memory;    /* the parts of one target */
    size_t target_memory_bytes;
    struct faults *faults;   /* of a lab (context/faults.h); NULL: there are none */
    struct capture *capture; /* of messages (context/capture.h); NULL: it has no reader */
    struct entropy entropy;
    struct metrics metrics;
};

/** The clock, in ms, frozen for the turn: every part of the engine has its time from here. */
static inline uint64_t context_now_ms(const struct context *context)
{
    return loop_now_ms(context->loop);
}

/** The same in microseconds: when what the engine is dealing with came in. */
static inline uint64_t context_now_us(const struct context *context)
{
    return loop_now_us(context->loop);
}

/** How long an origin server has for its answer, in ms; @p is_for_http: to an HTTP client. */
static inline uint64_t context_patience_ms(const struct context *context, bool is_for_http)
{
    return is_for_http ? context->config->http_request_timeout
                       : context->config->proxy_request_timeout;
}

#endif
