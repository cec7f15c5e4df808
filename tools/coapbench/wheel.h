/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Timers with numbers: one timer each, set and cleared in O(1), 1 ms apart. One turn of the wheel
 * is 8.192 s; later timers stay in their bucket for another turn.
 */
#ifndef COAPBENCH_WHEEL_H
#define COAPBENCH_WHEEL_H

#include <stdbool.h>
#include <stdint.h>

enum {
    WHEEL_BUCKETS = 8192,
};

struct wheel {
    struct wheel_entry *entries; /* [capacity], a list head per bucket, one more */
    uint32_t capacity, armed;
    uint64_t now_ms;
};

typedef void (*wheel_fn)(void *context, uint32_t id);

/** Timers for ids 0 to @p capacity - 1. @return 0 or -ENOMEM. */
int wheel_init(struct wheel *wheel, uint32_t capacity, uint64_t now_ms);
void wheel_clear(struct wheel *wheel);

/** Set or move the timer of @p id; a time in the past expires at the next advance. */
void wheel_set(struct wheel *wheel, uint32_t id, uint64_t due_ms);

/** Takes a timer that is not set. */
void wheel_cancel(struct wheel *wheel, uint32_t id);

/** Calls @p on_expire for all that is due; it may set and cancel any timer. */
void wheel_advance(struct wheel *wheel, uint64_t now_ms, wheel_fn on_expire, void *context);

/** Milliseconds from now to the next occupied bucket, at most @p max_ms. */
uint64_t wheel_next_ms(const struct wheel *wheel, uint64_t max_ms);

#endif
