/* SPDX-License-Identifier: BSD-2-Clause */
/* Slots, memory and tokens of exchanges, against a plain list. */
#include "support/test.h"

#include "fetch/exchange.h"

#include <string.h>

#define CAPACITY 100u
#define LARGE_BYTES 5120u
#define LARGE_COUNT 64u /* blocks, whatever the table's capacity */

/* What the test knows of an exchange in use: its memory is filled with its mark. */
struct held {
    struct exchange *exchange;
    uint8_t mark;
    size_t len;
    uint8_t *bytes;
};

static struct exchange_table table;
static struct held held[CAPACITY];
static uint32_t held_count;

static uint32_t count_large(void)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < held_count; i++) {
        count += held[i].exchange->memory_capacity > EXCHANGE_MEMORY_BYTES;
    }
    return count;
}

static void check_marks(void)
{
    for (uint32_t i = 0; i < held_count; i++) {
        for (size_t k = 0; k < held[i].len; k += 61) {
            assert_int_equal(held[i].bytes[k], held[i].mark);
        }
        if (held[i].len > 0) {
            assert_int_equal(held[i].bytes[held[i].len - 1], held[i].mark);
        }
    }
}

static void fill(struct held *one, uint8_t mark)
{
    one->mark = mark;
    one->len = one->exchange->memory_capacity - one->exchange->memory_used;
    one->bytes = exchange_alloc(one->exchange, one->len);
    assert_non_null(one->bytes);
    memset(one->bytes, mark, one->len);
    assert_null(exchange_alloc(one->exchange, 1)); /* that was all of it */
}

static size_t random_bytes(uint64_t *random)
{
    static const size_t edges[] = {
        0, 1, EXCHANGE_MEMORY_BYTES, EXCHANGE_MEMORY_BYTES + 1, LARGE_BYTES, LARGE_BYTES + 1};
    return test_random_below(random, 4) == 0 ? edges[test_random_below(random, 6)]
                                             : test_random_below(random, LARGE_BYTES);
}

static bool may_have(size_t bytes, uint32_t large)
{
    return bytes <= EXCHANGE_MEMORY_BYTES || (bytes <= LARGE_BYTES && large < LARGE_COUNT);
}

static void add(uint64_t *random)
{
    size_t bytes = random_bytes(random);
    bool expected = held_count < CAPACITY && may_have(bytes, count_large());
    struct exchange *exchange = exchange_new(&table, bytes);
    assert_int_equal(exchange != NULL, expected);
    if (exchange == NULL) {
        return;
    }
    for (uint32_t i = 0; i < held_count; i++) {
        assert_ptr_not_equal(held[i].exchange, exchange);
    }
    assert_true(exchange->memory_capacity >= bytes);
    assert_int_equal(exchange->memory_used, 0);
    assert_null(exchange->origin);
    assert_null(exchange->by_request.link);
    assert_false(timer_is_set(&exchange->timer));
    held[held_count].exchange = exchange;
    exchange->state = EXCHANGE_queued;
    exchange_set_token(exchange, test_random(random));
    fill(&held[held_count], (uint8_t)test_random(random));
    held_count++;
}

/* More memory for an answer: what was there is forgotten, other exchanges' is not. */
static void renew(struct held *one, uint64_t *random)
{
    size_t bytes = random_bytes(random);
    bool is_large = one->exchange->memory_capacity > EXCHANGE_MEMORY_BYTES;
    bool expected =
        bytes <= one->exchange->memory_capacity || (!is_large && may_have(bytes, count_large()));
    bool is_done = exchange_renew_memory(&table, one->exchange, bytes);
    assert_int_equal(is_done, expected);
    if (is_done) {
        assert_true(one->exchange->memory_capacity >= bytes);
        assert_int_equal(one->exchange->memory_used, 0);
        fill(one, (uint8_t)(one->mark + 1));
    }
}

static void drop(uint32_t at, uint64_t *random)
{
    uint8_t token[EXCHANGE_TOKEN_LEN];
    struct exchange *exchange = held[at].exchange;
    memcpy(token, exchange->token, sizeof(token));
    if (test_random_below(random, 2) == 0) {
        exchange_deliver(&table, exchange);
    }
    exchange_free(&table, exchange);
    held[at] = held[--held_count];
    assert_null(exchange_by_token(&table, (struct bytes){token, sizeof(token)}));
}

static void test_slots_and_memory_are_never_shared(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    held_count = 0;
    assert_int_equal(exchange_table_init(&table, CAPACITY, LARGE_BYTES, 1), 0);
    for (unsigned step = 0; step < 20000; step++) {
        /* Now mostly more, now mostly less, so that both ends are reached. */
        bool grow = step / 500 % 2 == 0;
        if (held_count == 0 || test_random_below(&random, 10) < (grow ? 7u : 2u)) {
            add(&random);
        } else if (test_random_below(&random, 3) == 0) {
            renew(&held[test_random_below(&random, held_count)], &random);
        } else {
            drop((uint32_t)test_random_below(&random, held_count), &random);
        }
        assert_int_equal(table.in_use, held_count);
        assert_int_equal(exchange_table_is_full(&table), held_count == CAPACITY);
        assert_int_equal(table.large_free_count, LARGE_COUNT - count_large());
        if (step % 16 == 0) {
            check_marks();
        }
    }
    exchange_table_clear(&table);
}

/* 40 bits of a token are random: the slot alone, or a bit less than all of it, leads nowhere. */
static void test_tokens_lead_to_their_exchange_alone(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    assert_int_equal(exchange_table_init(&table, CAPACITY, LARGE_BYTES, 1), 0);
    for (uint32_t i = 0; i < CAPACITY; i++) {
        struct exchange *exchange = exchange_new(&table, 100);
        assert_non_null(exchange);
        exchange->state = EXCHANGE_sent;
        exchange_set_token(exchange, test_random(&random));
        uint8_t token[EXCHANGE_TOKEN_LEN + 1];
        memcpy(token, exchange->token, EXCHANGE_TOKEN_LEN);
        token[EXCHANGE_TOKEN_LEN] = 0;
        assert_ptr_equal(exchange_by_token(&table, (struct bytes){token, EXCHANGE_TOKEN_LEN}),
                         exchange);
        for (size_t len = 0; len <= EXCHANGE_TOKEN_LEN + 1; len++) {
            if (len != EXCHANGE_TOKEN_LEN) {
                assert_null(exchange_by_token(&table, (struct bytes){token, len}));
            }
        }
        for (unsigned bit = 0; bit < 8 * EXCHANGE_TOKEN_LEN; bit++) {
            token[bit / 8] = (uint8_t)(token[bit / 8] ^ 1u << bit % 8);
            assert_null(exchange_by_token(&table, (struct bytes){token, EXCHANGE_TOKEN_LEN}));
            token[bit / 8] = (uint8_t)(token[bit / 8] ^ 1u << bit % 8);
        }
    }
    exchange_table_clear(&table);
}

/* Answers that wait for their acknowledgement: in the order in which they began to wait. */
static void test_delivering_is_a_queue(void **state)
{
    (void)state;
    struct exchange *all[5];
    assert_int_equal(exchange_table_init(&table, CAPACITY, LARGE_BYTES, 1), 0);
    for (size_t i = 0; i < 5; i++) {
        all[i] = exchange_new(&table, 1);
        assert_non_null(all[i]);
        exchange_deliver(&table, all[i]);
    }
    static const size_t order[] = {2, 0, 4, 1, 3};
    static const size_t first_after[] = {0, 1, 1, 3, 5};
    for (size_t i = 0; i < 5; i++) {
        exchange_free(&table, all[order[i]]);
        assert_ptr_equal(table.delivering.first, first_after[i] < 5 ? all[first_after[i]] : NULL);
    }
    assert_null(table.delivering.last);
    exchange_table_clear(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slots_and_memory_are_never_shared),
        cmocka_unit_test(test_tokens_lead_to_their_exchange_alone),
        cmocka_unit_test(test_delivering_is_a_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
