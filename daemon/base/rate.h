/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How often something may happen: a token bucket that is a second deep. Time is an
 * argument; time that stands still or wraps only ever makes it slower.
 */
#ifndef CRIPROXY_RATE_H
#define CRIPROXY_RATE_H

#include <stdbool.h>
#include <stdint.h>

struct rate {
    uint64_t spent; /* thousandths of one, of a second's worth */
    uint64_t at_ms; /* when that was so */
};

/** Whether another one may happen now, without taking it. @p per_s 0: always. */
static inline bool rate_has(struct rate *rate, uint32_t per_s, uint64_t now_ms)
{
    uint64_t passed_ms = now_ms > rate->at_ms ? now_ms - rate->at_ms : 0;
    /* A second gives all of it back: more cannot overflow. */
    uint64_t regained = (passed_ms < 1000 ? passed_ms : 1000) * per_s;
    rate->spent = regained < rate->spent ? rate->spent - regained : 0;
    rate->at_ms = now_ms;
    return per_s == 0 || rate->spent + 1000 <= (uint64_t)per_s * 1000;
}

/** It has happened. */
static inline void rate_take(struct rate *rate)
{
    rate->spent += 1000;
}

/** When rate_has() says yes again, in ms from the time of its last call; at least 1. */
static inline uint32_t rate_wait_ms(const struct rate *rate, uint32_t per_s)
{
    uint64_t depth = (uint64_t)per_s * 1000;
    uint64_t over = rate->spent + 1000 > depth ? rate->spent + 1000 - depth : 0;
    uint64_t wait_ms = per_s == 0 ? 0 : (over + per_s - 1) / per_s;
    return wait_ms == 0 ? 1 : (uint32_t)wait_ms;
}

#endif
