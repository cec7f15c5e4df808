/* SPDX-License-Identifier: BSD-2-Clause */
/* Slots, memory and tokens of fetches, against a plain list. */
#include "support/test.h"

#include "fetch/fetch.h"

#include <string.h>

#define CAPACITY 100u
#define LARGE_BYTES 5120u
#define LARGE_COUNT 64u /* blocks, whatever the table's capacity */

/* What the test knows of a fetch in use: its memory is filled with its mark. */
struct held {
    struct fetch *fetch;
    uint8_t mark;
    size_t len;
    uint8_t *bytes;
};

static struct fetch_table table;
static struct memory_pool large;
static struct held held[CAPACITY];
static uint32_t held_count;

static uint32_t count_large(void)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < held_count; i++) {
        count += held[i].fetch->memory.capacity > FETCH_MEMORY_BYTES;
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
    one->len = one->fetch->memory.capacity - one->fetch->memory.used;
    one->bytes = memory_alloc(&one->fetch->memory, one->len);
    assert_non_null(one->bytes);
    memset(one->bytes, mark, one->len);
    assert_null(memory_alloc(&one->fetch->memory, 1)); /* that was all of it */
}

static size_t random_bytes(uint64_t *random)
{
    static const size_t edges[] = {
        0, 1, FETCH_MEMORY_BYTES, FETCH_MEMORY_BYTES + 1, LARGE_BYTES, LARGE_BYTES + 1};
    return test_random_below(random, 4) == 0 ? edges[test_random_below(random, 6)]
                                             : (size_t)test_random_below(random, LARGE_BYTES);
}

static bool may_have(size_t bytes, uint32_t large_count)
{
    return bytes <= FETCH_MEMORY_BYTES || (bytes <= LARGE_BYTES && large_count < LARGE_COUNT);
}

static void add(uint64_t *random)
{
    size_t bytes = random_bytes(random);
    bool expected = held_count < CAPACITY && may_have(bytes, count_large());
    struct fetch *fetch = fetch_new(&table, &large, bytes);
    assert_int_equal(fetch != NULL, expected);
    if (fetch == NULL) {
        return;
    }
    for (uint32_t i = 0; i < held_count; i++) {
        assert_ptr_not_equal(held[i].fetch, fetch);
    }
    assert_true(fetch->memory.capacity >= bytes);
    assert_int_equal(fetch->memory.used, 0);
    assert_null(fetch->sending.origin);
    assert_null(fetch->sending.by_message.link);
    assert_false(timer_is_set(&fetch->timer));
    held[held_count].fetch = fetch;
    fetch->state = FETCH_queued;
    fetch_set_token(fetch, test_random(random));
    fill(&held[held_count], (uint8_t)test_random(random));
    held_count++;
}

static void drop(uint32_t at)
{
    uint8_t token[FETCH_TOKEN_LEN];
    struct fetch *fetch = held[at].fetch;
    memcpy(token, fetch->token, sizeof(token));
    fetch_free(&table, &large, fetch);
    held[at] = held[--held_count];
    assert_null(fetch_by_token(&table, (struct bytes){token, sizeof(token)}));
}

static void test_slots_and_memory_are_never_shared(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    held_count = 0;
    assert_int_equal(fetch_table_init(&table, CAPACITY), 0);
    assert_int_equal(memory_pool_init(&large, LARGE_BYTES, 1), 0);
    for (unsigned step = 0; step < 20000; step++) {
        /* Now mostly more, now mostly less, so that both ends are reached. */
        bool grow = step / 500 % 2 == 0;
        if (held_count == 0 || test_random_below(&random, 10) < (grow ? 7u : 2u)) {
            add(&random);
        } else {
            drop((uint32_t)test_random_below(&random, held_count));
        }
        assert_int_equal(free_slots_taken(&table.free), held_count);
        assert_int_equal(fetch_table_is_full(&table), held_count == CAPACITY);
        assert_int_equal(large.free_count, LARGE_COUNT - count_large());
        if (step % 16 == 0) {
            check_marks();
        }
    }
    fetch_table_clear(&table);
    memory_pool_clear(&large);
}

/* 40 bits of a token are random: the slot alone, or a bit less than all of it, leads nowhere. */
static void test_tokens_lead_to_their_exchange_alone(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    assert_int_equal(fetch_table_init(&table, CAPACITY), 0);
    assert_int_equal(memory_pool_init(&large, LARGE_BYTES, 1), 0);
    for (uint32_t i = 0; i < CAPACITY; i++) {
        struct fetch *fetch = fetch_new(&table, &large, 100);
        assert_non_null(fetch);
        fetch->state = FETCH_sent;
        fetch_set_token(fetch, test_random(&random));
        uint8_t token[FETCH_TOKEN_LEN + 1];
        memcpy(token, fetch->token, FETCH_TOKEN_LEN);
        token[FETCH_TOKEN_LEN] = 0;
        assert_ptr_equal(fetch_by_token(&table, (struct bytes){token, FETCH_TOKEN_LEN}), fetch);
        for (size_t len = 0; len <= FETCH_TOKEN_LEN + 1; len++) {
            if (len != FETCH_TOKEN_LEN) {
                assert_null(fetch_by_token(&table, (struct bytes){token, len}));
            }
        }
        for (unsigned bit = 0; bit < 8 * FETCH_TOKEN_LEN; bit++) {
            token[bit / 8] = (uint8_t)(token[bit / 8] ^ 1u << bit % 8);
            assert_null(fetch_by_token(&table, (struct bytes){token, FETCH_TOKEN_LEN}));
            token[bit / 8] = (uint8_t)(token[bit / 8] ^ 1u << bit % 8);
        }
    }
    fetch_table_clear(&table);
    memory_pool_clear(&large);
}

/* Every state can be left, and every state but the first is reached. */
static void test_changes_lead_through_every_state(void **state)
{
    (void)state;
    static const struct {
        enum fetch_state from, to;
    } changes[] = {
#define CHANGE(from, to) {FETCH_##from, FETCH_##to},
#include "fetch/fetch.def"
#undef CHANGE
    };
    uint32_t left = 0, reached = 1u << FETCH_free | 1u << FETCH_prepared;
    uint32_t all = 0;
#define STATE(name, help) all |= 1u << FETCH_##name;
#include "fetch/fetch.def"
#undef STATE
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        assert_int_not_equal(changes[i].from, FETCH_free);
        assert_int_not_equal(changes[i].to, FETCH_free);
        left |= 1u << changes[i].from;
        reached |= 1u << changes[i].to;
        for (size_t k = 0; k < i; k++) { /* each row once */
            assert_false(changes[k].from == changes[i].from && changes[k].to == changes[i].to);
        }
    }
    assert_int_equal(reached, all);
    /* These two end where they are: with the group's time, or with the last block. */
    assert_int_equal(left | 1u << FETCH_free | 1u << FETCH_collecting | 1u << FETCH_transferring,
                     all);
    assert_string_equal(fetch_state_name(FETCH_queued), "queued");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slots_and_memory_are_never_shared),
        cmocka_unit_test(test_tokens_lead_to_their_exchange_alone),
        cmocka_unit_test(test_changes_lead_through_every_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
