/* SPDX-License-Identifier: BSD-2-Clause */
/* Books that are kept only while their table is full. */
#include "support/test.h"

#include "base/slot_book.h"

#include <string.h>

#define SLOTS 8u

static struct slot_book book;

static struct address at(const char *text)
{
    struct address address;
    assert_true(address_parse(text, strlen(text), 0, &address));
    return address;
}

static void charge(uint32_t slot, const char *text)
{
    const struct address address = at(text);
    slot_book_charge(&book, slot, &address);
}

/* The slot that makes room for @p text; negative: none. */
static int yields(const char *text)
{
    const struct address address = at(text);
    const struct holding *holding = slot_book_yield(&book, &address);
    return holding != NULL ? (int)slot_of_holding(&book, holding) : -1;
}

static void test_a_closed_book_can_be_closed(void **state)
{
    (void)state;
    slot_book_close(&book);
    assert_false(slot_book_is_open(&book));
    assert_int_equal(slot_book_open(&book, SLOTS, 64, 7), 0);
    assert_true(slot_book_is_open(&book));
    charge(1, "192.0.2.1:1");
    slot_book_close(&book);
    assert_false(slot_book_is_open(&book));
    assert_int_equal(book.count, 0);
    slot_book_close(&book);
}

static void test_the_oldest_slot_of_the_largest_makes_room(void **state)
{
    (void)state;
    assert_int_equal(slot_book_open(&book, SLOTS, 64, 7), 0);
    charge(5, "192.0.2.1:1");
    charge(2, "192.0.2.1:2");
    charge(3, "192.0.2.2:1");
    assert_int_equal(book.count, 3);
    assert_int_equal(yields("192.0.2.3:1"), 5);
    assert_int_equal(yields("192.0.2.2:9"), -1);
    assert_int_equal(yields("192.0.2.1:9"), -1);
    charge(5, "192.0.2.1:77"); /* the same source: it stays the oldest */
    assert_int_equal(yields("192.0.2.3:1"), 5);
    charge(5, "192.0.2.2:7"); /* another one's now */
    assert_int_equal(book.count, 3);
    assert_int_equal(yields("192.0.2.3:1"), 3);
    slot_book_discharge(&book, 3);
    slot_book_discharge(&book, 3);
    assert_int_equal(book.count, 2);
    assert_int_equal(yields("192.0.2.3:1"), -1); /* one each */
    slot_book_close(&book);
}

static void test_ages_are_sorted_and_slots_among_equals(void **state)
{
    struct slot_age ages[] = {{3, 9}, {1, 4}, {7, 4}, {0, UINT32_MAX}, {2, 0}};
    static const uint32_t sorted[] = {2, 1, 7, 3, 0};
    (void)state;
    slot_ages_sort(ages, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(ages[i].slot, sorted[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_closed_book_can_be_closed),
        cmocka_unit_test(test_the_oldest_slot_of_the_largest_makes_room),
        cmocka_unit_test(test_ages_are_sorted_and_slots_among_equals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
