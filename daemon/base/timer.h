/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hierarchical timing wheel: set, cancel and expire in O(1), 1 ms resolution.
 * No clock of its own: the owner brings the time.
 */
#ifndef CRIPROXY_TIMER_H
#define CRIPROXY_TIMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TIMER_LEVELS 6
#define TIMER_SLOTS 64

struct timer;
typedef void (*timer_fn)(void *context, struct timer *timer, uint64_t now_ms);

/* Embedded in what it times; zeroed is "not set". */
struct timer {
    struct timer *next, **link; /* the slot's list; link == NULL: not set */
    uint64_t at_ms;
    timer_fn on_expire;
};

struct timer_wheel {
    uint64_t now_ms;
    struct timer *due;               /* set to a time that had passed: for the next advance */
    uint64_t occupied[TIMER_LEVELS]; /* bit per slot */
    struct timer *slots[TIMER_LEVELS][TIMER_SLOTS];
    void *context; /* handed to every on_expire */
};

/** An empty wheel at @p now_ms; nothing to be freed. @p context is borrowed. */
void timer_wheel_init(struct timer_wheel *wheel, uint64_t now_ms, void *context);

/**
 * Sets or moves @p timer, which the wheel borrows until it expires or is cancelled. @p at_ms is in
 * ms of the owner's clock; a time that has passed expires at the next advance.
 */
void timer_set(struct timer_wheel *wheel, struct timer *timer, uint64_t at_ms, timer_fn on_expire);

/** Cancels the timer, which its owner may then free; no effect on a timer that is not set. */
void timer_cancel(struct timer_wheel *wheel, struct timer *timer);

static inline bool timer_is_set(const struct timer *timer)
{
    return timer->link != NULL;
}

/**
 * Move the time on and expire what is due, in order of time (in any order within
 * one ms; what had passed already when it was set comes first). A callback may
 * set and cancel any timer, its own included; it is told @p now_ms, the time this
 * call moves to. Costs what it expires and moves down a level, however long the
 * time that passed. A @p now_ms before the last one counts as the last one.
 */
void timer_wheel_advance(struct timer_wheel *wheel, uint64_t now_ms);

/** When the next timer may be due: never late, at most early; UINT64_MAX if none is set. */
uint64_t timer_wheel_next_ms(const struct timer_wheel *wheel);

#endif
