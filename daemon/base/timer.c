/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How it works. Level L has 64 slots of 64^L ms each. A timer waits at the lowest
 * level at which its time and now_ms still share all higher digits (base 64), so
 * every slot in use lies ahead of now_ms and the lowest level in use holds the
 * earliest timer. When the time reaches the start of a slot at a level above 0,
 * that slot's timers move down ("cascade"), each at most TIMER_LEVELS - 1 times
 * in its life.
 *
 * The top level is a ring of two years: what is further away is met once a round
 * and filed again.
 */
#include "base/timer.h"

#include <string.h>

#define SLOT_BITS 6u
#define SLOT_MASK (TIMER_SLOTS - 1u)
#define TOP_LEVEL (TIMER_LEVELS - 1u)

_Static_assert(TIMER_SLOTS == 1u << SLOT_BITS, "a slot is one digit of the time");
_Static_assert(TIMER_SLOTS == 64, "occupied has a bit per slot");

static unsigned slot_index(uint64_t at_ms, unsigned level)
{
    return (unsigned)(at_ms >> (SLOT_BITS * level)) & SLOT_MASK;
}

static void list_push(struct timer **head, struct timer *timer)
{
    timer->next = *head;
    timer->link = head;
    if (timer->next != NULL) {
        timer->next->link = &timer->next;
    }
    *head = timer;
}

static void list_remove(struct timer *timer)
{
    *timer->link = timer->next;
    if (timer->next != NULL) {
        timer->next->link = timer->link;
    }
    timer->next = NULL;
    timer->link = NULL;
}

/* Move a whole list to @p to, which must be empty. */
static void list_move(struct timer **from, struct timer **to)
{
    *to = *from;
    *from = NULL;
    if (*to != NULL) {
        (*to)->link = to;
    }
}

/* File a timer whose time is not before now_ms. */
static void wheel_file(struct timer_wheel *wheel, struct timer *timer)
{
    uint64_t differ = timer->at_ms ^ wheel->now_ms;
    unsigned level = 0;

    while (level < TOP_LEVEL && differ >> (SLOT_BITS * (level + 1)) != 0) {
        level++;
    }
    unsigned slot = slot_index(timer->at_ms, level);
    list_push(&wheel->slots[level][slot], timer);
    wheel->occupied[level] |= UINT64_C(1) << slot;
}

void timer_wheel_init(struct timer_wheel *wheel, uint64_t now_ms, void *context)
{
    memset(wheel, 0, sizeof *wheel);
    wheel->now_ms = now_ms;
    wheel->context = context;
}

void timer_set(struct timer_wheel *wheel, struct timer *timer, uint64_t at_ms, timer_fn on_expire)
{
    timer_cancel(wheel, timer);
    timer->at_ms = at_ms;
    timer->on_expire = on_expire;
    if (at_ms <= wheel->now_ms) {
        /* Not in a slot: one that sets itself to "now" must not keep an advance busy for ever. */
        list_push(&wheel->due, timer);
    } else {
        wheel_file(wheel, timer);
    }
}

void timer_cancel(struct timer_wheel *wheel, struct timer *timer)
{
    struct timer **link = timer->link;
    if (link == NULL) {
        return;
    }
    list_remove(timer);
    if (*link != NULL) {
        return;
    }
    /* If that was the last of a slot (and not of another list), its bit goes too. */
    uintptr_t offset = (uintptr_t)link - (uintptr_t)&wheel->slots[0][0];
    if (offset < sizeof wheel->slots) {
        size_t slot = offset / sizeof wheel->slots[0][0];
        wheel->occupied[slot / TIMER_SLOTS] &= ~(UINT64_C(1) << (slot % TIMER_SLOTS));
    }
}

/* Start of the first slot in use, UINT64_MAX if there is none. */
static uint64_t wheel_next_slot_ms(const struct timer_wheel *wheel)
{
    for (unsigned level = 0; level < TOP_LEVEL; level++) {
        if (wheel->occupied[level] != 0) {
            unsigned shift = SLOT_BITS * level;
            unsigned slot = (unsigned)__builtin_ctzll(wheel->occupied[level]);
            uint64_t digits_above = wheel->now_ms >> shift & ~(uint64_t)SLOT_MASK;
            return (digits_above | slot) << shift;
        }
    }
    uint64_t occupied = wheel->occupied[TOP_LEVEL];
    if (occupied == 0) {
        return UINT64_MAX;
    }
    /* Turn the ring so that bit 0 is the slot after the current one. */
    uint64_t now_slot = wheel->now_ms >> (SLOT_BITS * TOP_LEVEL);
    unsigned turn = (unsigned)(now_slot + 1) & SLOT_MASK;
    if (turn != 0) {
        occupied = occupied >> turn | occupied << (TIMER_SLOTS - turn);
    }
    uint64_t distance = 1 + (uint64_t)__builtin_ctzll(occupied);
    return (now_slot + distance) << (SLOT_BITS * TOP_LEVEL);
}

static void wheel_take_slot(struct timer_wheel *wheel, unsigned level, unsigned slot,
                            struct timer **ret_list)
{
    list_move(&wheel->slots[level][slot], ret_list);
    wheel->occupied[level] &= ~(UINT64_C(1) << slot);
}

/* now_ms has come to the start of slots at one or more levels above 0: move them down. */
static void wheel_cascade(struct timer_wheel *wheel)
{
    for (unsigned level = TOP_LEVEL; level > 0; level--) {
        if ((wheel->now_ms & ((UINT64_C(1) << (SLOT_BITS * level)) - 1)) != 0) {
            continue;
        }
        struct timer *list;
        wheel_take_slot(wheel, level, slot_index(wheel->now_ms, level), &list);
        while (list != NULL) {
            struct timer *timer = list;
            list_remove(timer);
            wheel_file(wheel, timer);
        }
    }
}

/* A callback may cancel what is still on @p list: always start from its head. */
static void wheel_expire_list(struct timer_wheel *wheel, struct timer **list, uint64_t now_ms)
{
    while (*list != NULL) {
        struct timer *timer = *list;
        list_remove(timer);
        timer->on_expire(wheel->context, timer, now_ms);
    }
}

void timer_wheel_advance(struct timer_wheel *wheel, uint64_t now_ms)
{
    struct timer *list;

    if (now_ms < wheel->now_ms) {
        now_ms = wheel->now_ms;
    }
    list_move(&wheel->due, &list);
    wheel_expire_list(wheel, &list, now_ms);
    for (;;) {
        uint64_t slot_ms = wheel_next_slot_ms(wheel);
        if (slot_ms > now_ms || slot_ms == UINT64_MAX) {
            break;
        }
        wheel->now_ms = slot_ms;
        wheel_cascade(wheel);
        wheel_take_slot(wheel, 0, slot_index(slot_ms, 0), &list);
        wheel_expire_list(wheel, &list, now_ms);
    }
    wheel->now_ms = now_ms;
}

uint64_t timer_wheel_next_ms(const struct timer_wheel *wheel)
{
    return wheel->due != NULL ? wheel->now_ms : wheel_next_slot_ms(wheel);
}
