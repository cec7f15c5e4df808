/* SPDX-License-Identifier: BSD-2-Clause */
#include "pending.h"
#include "support/test.h"

enum {
    CAPACITY = 100,
};

static void add(struct pending_table *table, uint32_t number, uint32_t client, uint16_t mid,
                uint64_t seed)
{
    table->requests[number].client = client;
    table->requests[number].mid = mid;
    table->requests[number].token_seed = seed;
    pending_add(table, number);
}

static uint32_t find(const struct pending_table *table, uint32_t client, uint64_t seed,
                     bool *ret_other)
{
    uint8_t token[256];

    pending_token(table, seed, token);
    return pending_find_token(table, client, (struct view){token, table->token_len}, ret_other);
}

static void test_requests_are_found_by_client_and_token(void **state)
{
    static const unsigned lengths[] = {0, 1, 8, 9, 64};

    (void)state;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        struct pending_table table;
        bool other;
        assert_int_equal(pending_init(&table, CAPACITY, lengths[i]), 0);
        add(&table, 0, 7, 1, 1234);
        add(&table, 1, 8, 1, 1234);
        assert_int_equal(find(&table, 7, 1234, &other), 0);
        assert_int_equal(find(&table, 8, 1234, &other), 1);
        assert_false(pending_token_is_free(&table, 7, 1234));
        assert_true(pending_token_is_free(&table, 9, 1234));
        assert_true(find(&table, 9, 1234, &other) == INDEX_NONE);
        assert_true(other);
        pending_remove(&table, 0);
        pending_remove(&table, 1);
        assert_true(find(&table, 9, 1234, &other) == INDEX_NONE);
        assert_false(other);
        pending_clear(&table);
    }
}

/* Equal in the eight bytes that they are looked up by, different after them. */
static void test_long_tokens_are_compared_whole(void **state)
{
    struct pending_table table;
    uint8_t token[256];
    bool other;

    (void)state;
    assert_int_equal(pending_init(&table, CAPACITY, 20), 0);
    add(&table, 0, 7, 1, 1234);
    pending_token(&table, 1234, token);
    assert_int_equal(pending_find_token(&table, 7, (struct view){token, 20}, &other), 0);
    assert_true(pending_find_token(&table, 7, (struct view){token, 19}, &other) == INDEX_NONE);
    token[19] ^= 1;
    assert_true(pending_find_token(&table, 7, (struct view){token, 20}, &other) == INDEX_NONE);
    pending_clear(&table);
}

static void test_message_ids_are_of_client_and_endpoint(void **state)
{
    struct pending_table table;

    (void)state;
    assert_int_equal(pending_init(&table, CAPACITY, 8), 0);
    for (uint32_t i = 0; i < CAPACITY; i++) {
        table.requests[i].endpoint = i % 3;
        add(&table, i, i % 10, (uint16_t)(i / 30), i);
    }
    for (uint32_t i = 0; i < CAPACITY; i++) {
        uint32_t found = pending_find_mid(&table, i % 10, i % 3, (uint16_t)(i / 30));
        assert_int_equal(found, i);
    }
    assert_true(pending_find_mid(&table, 1, 1, 999) == INDEX_NONE);
    pending_clear(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests_are_found_by_client_and_token),
        cmocka_unit_test(test_long_tokens_are_compared_whole),
        cmocka_unit_test(test_message_ids_are_of_client_and_endpoint),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
