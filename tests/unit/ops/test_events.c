/* SPDX-License-Identifier: BSD-2-Clause */
#include "ops/events.h"

#include "support/test.h"

#include <stdlib.h>

static struct event_ring *new_ring(void)
{
    struct event_ring *ring = calloc(1, sizeof(*ring));
    assert_non_null(ring);
    return ring;
}

static void add(struct event_ring *ring, uint64_t exchange, uint32_t number, uint32_t *last)
{
    const struct event event = {.exchange = exchange, .number = number, .kind = EVENT_sent};
    event_ring_add(ring, &event, last);
}

static void test_each_exchange_has_its_own_events_in_order(void **state)
{
    struct event_ring *ring = new_ring();
    const struct event *events[EVENTS_SHOWN_MAX];
    uint32_t first = 0, second = 0;

    (void)state;
    for (uint32_t i = 0; i < 5; i++) {
        add(ring, 1, i, &first);
        add(ring, 2, 100 + i, &second);
    }
    assert_int_equal(event_ring_collect(ring, 1, first, events), 5);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(events[i]->number, i);
    }
    assert_int_equal(event_ring_collect(ring, 2, second, events), 5);
    assert_int_equal(events[0]->number, 100);
    assert_int_equal(event_ring_collect(ring, 3, 0, events), 0);
    free(ring);
}

static void test_of_many_events_the_latest_are_shown(void **state)
{
    struct event_ring *ring = new_ring();
    const struct event *events[EVENTS_SHOWN_MAX];
    uint32_t last = 0;

    (void)state;
    for (uint32_t i = 0; i < 1000; i++) {
        add(ring, 7, i, &last);
    }
    assert_int_equal(event_ring_collect(ring, 7, last, events), EVENTS_SHOWN_MAX);
    assert_int_equal(events[0]->number, 1000 - EVENTS_SHOWN_MAX);
    assert_int_equal(events[EVENTS_SHOWN_MAX - 1]->number, 999);
    free(ring);
}

/* What the ring has gone over is not taken for another exchange's, however long ago. */
static void test_what_is_overwritten_is_gone(void **state)
{
    struct event_ring *ring = new_ring();
    const struct event *events[EVENTS_SHOWN_MAX];
    uint32_t old = 0, other = 0;

    (void)state;
    add(ring, 1, 0, &old);
    for (uint32_t i = 1; i < EVENT_RING_SIZE; i++) {
        add(ring, 2, i, &other);
    }
    assert_int_equal(event_ring_collect(ring, 1, old, events), 1);
    add(ring, 2, 0, &other);
    assert_int_equal(event_ring_collect(ring, 1, old, events), 0);
    for (uint32_t i = 0; i < EVENT_RING_SIZE; i++) {
        add(ring, 1, i, &other); /* an exchange of the same number, but not that event */
    }
    assert_int_equal(event_ring_collect(ring, 1, old, events), 0);
    free(ring);
}

static void test_serials_wrap(void **state)
{
    struct event_ring *ring = new_ring();
    const struct event *events[EVENTS_SHOWN_MAX];
    uint32_t last = 0;

    (void)state;
    ring->serial = UINT32_MAX - 2;
    for (uint32_t i = 0; i < 6; i++) {
        add(ring, 9, i, &last);
        assert_int_not_equal(last, 0);
    }
    /* The serial 0 is left out, and with it the link is not lost. */
    assert_int_equal(event_ring_collect(ring, 9, last, events), 6);
    free(ring);
}

static void test_texts_have_their_number(void **state)
{
    const struct event with = {.number = 4711, .kind = EVENT_sent};
    const struct event without = {.number = 4711, .kind = EVENT_repeated};
    char text[128];

    (void)state;
    event_format(&with, text, sizeof(text));
    assert_string_equal(text, "sent to the origin server, message id 4711");
    event_format(&without, text, sizeof(text));
    assert_string_equal(text, "repeated by the client");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_exchange_has_its_own_events_in_order),
        cmocka_unit_test(test_of_many_events_the_latest_are_shown),
        cmocka_unit_test(test_what_is_overwritten_is_gone),
        cmocka_unit_test(test_serials_wrap),
        cmocka_unit_test(test_texts_have_their_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
