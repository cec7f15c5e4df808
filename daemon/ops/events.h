/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events on the way of requests, kept for the trace in one ring for all exchanges of an engine:
 * each event has the index of the previous one of its exchange. Without a trace no event is kept,
 * and the only cost is the test of a flag.
 */
#ifndef CRIPROXY_EVENTS_H
#define CRIPROXY_EVENTS_H

#include <stddef.h>
#include <stdint.h>

enum event_kind {
#define EVENT(name, text) EVENT_##name,
#include "ops/events.def"
#undef EVENT
};

/* Events that are remembered; older ones are gone. */
#define EVENT_RING_SIZE 8192u

/* Of one exchange that are shown at most: the latest. */
#define EVENTS_SHOWN_MAX 32u

struct event {
    uint64_t exchange; /* its id */
    uint64_t at_us;
    uint32_t number;   /* for the text */
    uint32_t previous; /* serial of the exchange's event before; 0: none */
    enum event_kind kind;
};

struct event_ring {
    uint32_t serial; /* of the last event; counts from 1, and wraps */
    struct event events[EVENT_RING_SIZE];
};

/**
 * Remember an event.
 *
 * @param last serial of the exchange's event before, 0 for none; then of this one.
 */
void event_ring_add(struct event_ring *ring, const struct event *event, uint32_t *last);

/**
 * The events of one exchange that are still there, the oldest first.
 *
 * @param last serial of its last event.
 * @return how many
 */
size_t event_ring_collect(const struct event_ring *ring, uint64_t exchange, uint32_t last,
                          const struct event *ret_events[EVENTS_SHOWN_MAX]);

/**
 * Formats the text of an event with its number into @p text; longer text is cut to @p capacity
 * bytes.
 */
void event_format(const struct event *event, char *text, size_t capacity);

#endif
