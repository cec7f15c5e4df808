/* SPDX-License-Identifier: BSD-2-Clause */
/* Bytes of table entries: an entry's own, or one of the large blocks. */
#include "support/test.h"

#include "base/memory.h"

#include <string.h>

#define OWN_BYTES 100u
#define BLOCK_BYTES 1000u

static struct memory_pool pool;

static void test_blocks_are_taken_where_own_bytes_are_not_enough(void **state)
{
    (void)state;
    static uint8_t own[MEMORY_LARGE_COUNT + 1][OWN_BYTES];
    struct memory held[MEMORY_LARGE_COUNT + 1];
    struct memory one;
    assert_int_equal(memory_pool_init(&pool, BLOCK_BYTES, 1), 0);
    assert_true(memory_take(&pool, &one, own[0], OWN_BYTES, OWN_BYTES));
    assert_ptr_equal(one.bytes, own[0]);
    assert_false(one.is_large);
    assert_false(memory_take(&pool, &one, own[0], OWN_BYTES, BLOCK_BYTES + 1));
    assert_ptr_equal(one.bytes, own[0]); /* nothing has changed */
    for (size_t i = 0; i < MEMORY_LARGE_COUNT; i++) {
        assert_true(memory_take(&pool, &held[i], own[i], OWN_BYTES, OWN_BYTES + 1));
        assert_true(held[i].is_large);
        assert_int_equal(held[i].capacity, BLOCK_BYTES);
        memset(memory_alloc(&held[i], BLOCK_BYTES), (int)i, BLOCK_BYTES);
        assert_null(memory_alloc(&held[i], 1));
    }
    assert_false(memory_take(&pool, &one, own[0], OWN_BYTES, OWN_BYTES + 1));
    for (size_t i = 0; i < MEMORY_LARGE_COUNT; i++) {
        assert_int_equal(held[i].bytes[0], i);
        assert_int_equal(held[i].bytes[BLOCK_BYTES - 1], i);
    }
    memory_give_back(&pool, &held[7]);
    assert_null(held[7].bytes);
    memory_give_back(&pool, &held[7]); /* it has none */
    assert_int_equal(pool.free_count, 1);
    assert_true(memory_take(&pool, &one, own[0], OWN_BYTES, BLOCK_BYTES));
    memory_pool_clear(&pool);
}

static void test_pieces_end_with_the_bytes(void **state)
{
    (void)state;
    static uint8_t own[OWN_BYTES];
    struct memory one = {0};
    assert_int_equal(memory_pool_init(&pool, BLOCK_BYTES, 1), 0);
    assert_null(memory_alloc(&one, 1));
    assert_true(memory_take(&pool, &one, own, OWN_BYTES, 0));
    assert_ptr_equal(memory_alloc(&one, 60), own);
    assert_ptr_equal(memory_alloc(&one, 0), own + 60);
    assert_null(memory_alloc(&one, 41));
    assert_ptr_equal(memory_alloc(&one, 40), own + 60);
    assert_null(memory_alloc(&one, SIZE_MAX));
    memory_pool_clear(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_are_taken_where_own_bytes_are_not_enough),
        cmocka_unit_test(test_pieces_end_with_the_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
