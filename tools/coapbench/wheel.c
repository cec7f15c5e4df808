/* SPDX-License-Identifier: BSD-2-Clause */
#include "wheel.h"

#include <errno.h>
#include <stdlib.h>

/* A doubly linked ring by number; an entry that points to itself is in no bucket. */
struct wheel_entry {
    uint64_t due_ms;
    uint32_t next, previous;
};

static uint32_t head_of(const struct wheel *wheel, uint64_t ms)
{
    return wheel->capacity + (uint32_t)(ms % WHEEL_BUCKETS);
}

static void unlink_entry(struct wheel *wheel, uint32_t id)
{
    struct wheel_entry *entry = &wheel->entries[id];

    wheel->entries[entry->previous].next = entry->next;
    wheel->entries[entry->next].previous = entry->previous;
    entry->next = id;
    entry->previous = id;
}

static void append_entry(struct wheel *wheel, uint32_t head, uint32_t id)
{
    struct wheel_entry *entry = &wheel->entries[id];

    entry->next = head;
    entry->previous = wheel->entries[head].previous;
    wheel->entries[entry->previous].next = id;
    wheel->entries[head].previous = id;
}

int wheel_init(struct wheel *wheel, uint32_t capacity, uint64_t now_ms)
{
    uint32_t count = capacity + WHEEL_BUCKETS + 1;
    struct wheel_entry *entries = calloc(count, sizeof(*entries));

    if (entries == NULL) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        entries[i].next = i;
        entries[i].previous = i;
    }
    *wheel = (struct wheel){.entries = entries, .capacity = capacity, .now_ms = now_ms};
    return 0;
}

void wheel_clear(struct wheel *wheel)
{
    free(wheel->entries);
    *wheel = (struct wheel){0};
}

void wheel_set(struct wheel *wheel, uint32_t id, uint64_t due_ms)
{
    wheel_cancel(wheel, id);
    /* The bucket of now_ms has been emptied already: the past waits in the next one. */
    wheel->entries[id].due_ms = due_ms > wheel->now_ms ? due_ms : wheel->now_ms + 1;
    append_entry(wheel, head_of(wheel, wheel->entries[id].due_ms), id);
    wheel->armed++;
}

void wheel_cancel(struct wheel *wheel, uint32_t id)
{
    if (wheel->entries[id].next != id) {
        unlink_entry(wheel, id);
        wheel->armed--;
    }
}

/*
 * The bucket moves to a ring of its own first, so that timers that are put back, or set by a
 * callback, are not visited again in this walk, and a callback may cancel anything.
 */
static void expire_bucket(struct wheel *wheel, uint32_t head, wheel_fn on_expire, void *context)
{
    struct wheel_entry *entries = wheel->entries;
    uint32_t walk = wheel->capacity + WHEEL_BUCKETS;

    if (entries[head].next == head) {
        return;
    }
    append_entry(wheel, head, walk); /* the second head joins the ring, the first leaves */
    unlink_entry(wheel, head);
    while (entries[walk].next != walk) {
        uint32_t id = entries[walk].next;
        unlink_entry(wheel, id);
        if (entries[id].due_ms > wheel->now_ms) {
            append_entry(wheel, head, id);
        } else {
            wheel->armed--;
            on_expire(context, id);
        }
    }
}

void wheel_advance(struct wheel *wheel, uint64_t now_ms, wheel_fn on_expire, void *context)
{
    while (wheel->now_ms < now_ms) {
        if (wheel->armed == 0) {
            wheel->now_ms = now_ms;
            return;
        }
        wheel->now_ms++;
        expire_bucket(wheel, head_of(wheel, wheel->now_ms), on_expire, context);
    }
}

uint64_t wheel_next_ms(const struct wheel *wheel, uint64_t max_ms)
{
    if (wheel->armed == 0) {
        return max_ms;
    }
    for (uint64_t ahead = 1; ahead < max_ms && ahead < WHEEL_BUCKETS; ahead++) {
        uint32_t head = head_of(wheel, wheel->now_ms + ahead);
        if (wheel->entries[head].next != head) {
            return ahead;
        }
    }
    return max_ms;
}
