/* SPDX-License-Identifier: BSD-2-Clause */
#include "ops/events.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void event_ring_add(struct event_ring *ring, const struct event *event, uint32_t *last)
{
    if (++ring->serial == 0) {
        ring->serial = 1; /* 0 stands for none */
    }
    struct event *slot = &ring->events[ring->serial % EVENT_RING_SIZE];
    *slot = *event;
    slot->previous = *last;
    *last = ring->serial;
}

/* The slot may have been used again since, by another exchange or by a later lap. */
static bool is_there(const struct event_ring *ring, uint64_t exchange, uint32_t serial)
{
    return serial != 0 && ring->serial - serial < EVENT_RING_SIZE &&
           ring->events[serial % EVENT_RING_SIZE].exchange == exchange;
}

size_t event_ring_collect(const struct event_ring *ring, uint64_t exchange, uint32_t last,
                          const struct event *ret_events[EVENTS_SHOWN_MAX])
{
    size_t count = 0;

    while (count < EVENTS_SHOWN_MAX && is_there(ring, exchange, last)) {
        const struct event *event = &ring->events[last % EVENT_RING_SIZE];
        ret_events[count++] = event;
        last = event->previous;
    }
    for (size_t i = 0; i < count / 2; i++) {
        const struct event *later = ret_events[i];
        ret_events[i] = ret_events[count - 1 - i];
        ret_events[count - 1 - i] = later;
    }
    return count;
}

void event_format(const struct event *event, char *text, size_t capacity)
{
    static const char *const texts[] = {
#define EVENT(name, text) text,
#include "ops/events.def"
#undef EVENT
    };
    const char *words = texts[event->kind];
    const char *mark = strstr(words, "%u");

    if (mark == NULL) {
        (void)snprintf(text, capacity, "%s", words);
    } else {
        (void)snprintf(text, capacity, "%.*s%u%s", (int)(mark - words), words, event->number,
                       mark + 2);
    }
}
