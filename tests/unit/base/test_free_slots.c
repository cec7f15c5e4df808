/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/free_slots.h"
#include "support/test.h"

#define CAPACITY 5u

static struct free_slots make(void)
{
    struct free_slots slots = {0};

    assert_int_equal(free_slots_init(&slots, CAPACITY), 0);
    return slots;
}

static void test_memory_is_touched_in_order(void **state)
{
    struct free_slots slots = make();
    (void)state;

    for (uint32_t i = 0; i < CAPACITY; i++) {
        assert_int_equal(free_slots_next(&slots), i);
        assert_int_equal(free_slots_taken(&slots), i);
        assert_int_equal(free_slots_take(&slots), i);
    }
    assert_int_equal(free_slots_next(&slots), NO_SLOT);
    assert_int_equal(free_slots_take(&slots), NO_SLOT);
    assert_int_equal(free_slots_taken(&slots), CAPACITY);
    free_slots_clear(&slots);
}

static void test_what_was_given_back_is_taken_first(void **state)
{
    struct free_slots slots = make();
    (void)state;

    for (uint32_t i = 0; i < 3; i++) {
        (void)free_slots_take(&slots);
    }
    free_slots_give(&slots, 0);
    free_slots_give(&slots, 2);
    assert_int_equal(free_slots_taken(&slots), 1);
    assert_int_equal(free_slots_take(&slots), 2);
    assert_int_equal(free_slots_take(&slots), 0);
    assert_int_equal(free_slots_take(&slots), 3);
    assert_int_equal(slots.used, 4);
    free_slots_clear(&slots);
}

static void test_a_zeroed_one_has_no_slot(void **state)
{
    struct free_slots slots = {.stack = NULL};
    (void)state;

    assert_int_equal(free_slots_take(&slots), NO_SLOT);
    free_slots_clear(&slots);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_is_touched_in_order),
        cmocka_unit_test(test_what_was_given_back_is_taken_first),
        cmocka_unit_test(test_a_zeroed_one_has_no_slot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
