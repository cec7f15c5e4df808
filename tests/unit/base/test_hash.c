/* SPDX-License-Identifier: BSD-2-Clause */
/* The hash map against a plain list, and what the hashes promise. */
#include "support/test.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

#define NODES 500
#define KEYS 120 /* fewer than nodes: equal keys happen */

struct item {
    int value;
    bool is_met;
    struct hash_node node;
};

/* The model: which items are in, with their keys, the newest last. */
struct model {
    struct item *items[NODES];
    uint64_t keys[NODES];
    size_t count;
};

static void model_remove(struct model *model, const struct item *item)
{
    size_t at = 0;
    while (at < model->count && model->items[at] != item) {
        at++;
    }
    if (at == model->count) {
        return;
    }
    memmove(model->items + at, model->items + at + 1,
            (model->count - at - 1) * sizeof(model->items[0]));
    memmove(model->keys + at, model->keys + at + 1,
            (model->count - at - 1) * sizeof(model->keys[0]));
    model->count--;
}

/* All nodes with @p key, newest first, are what the map gives, in that order. */
static void check_key(const struct hash_map *map, const struct model *model, uint64_t key)
{
    const struct hash_node *node = hash_map_find(map, key);
    for (size_t i = model->count; i-- > 0;) {
        if (model->keys[i] != key) {
            continue;
        }
        assert_non_null(node);
        assert_ptr_equal(node, &model->items[i]->node);
        node = hash_map_find_next(node);
    }
    assert_null(node);
}

/* Each node once, also where one map has them all in one bucket. */
static void check_walk(const struct hash_map *map, struct model *model)
{
    uint64_t cursor = 0;
    for (size_t i = 0; i < model->count; i++) {
        struct hash_node *node = hash_map_walk(map, &cursor);
        assert_non_null(node);
        struct item *item = HASH_ENTRY(node, struct item, node);
        assert_false(item->is_met);
        item->is_met = true;
    }
    assert_null(hash_map_walk(map, &cursor));
    assert_null(hash_map_walk(map, &cursor));
    for (size_t i = 0; i < model->count; i++) {
        model->items[i]->is_met = false;
    }
}

/* One that begins with few buckets. */
static int init_small(struct hash_map *map, size_t capacity, uint64_t seed)
{
    int error = hash_map_init(map, capacity, seed);
    if (error == 0) {
        hash_map_begin_small(map);
    }
    return error;
}

static int init_small_of_hashes(struct hash_map *map, size_t capacity, uint64_t seed)
{
    int error = hash_map_init_of_hashes(map, capacity, seed);
    if (error == 0) {
        hash_map_begin_small(map);
    }
    return error;
}

static void run_against_model(size_t capacity, uint64_t seed,
                              int (*init)(struct hash_map *, size_t, uint64_t))
{
    static struct item items[NODES];
    static struct model model;
    struct hash_map map;
    uint64_t random = seed;
    memset(items, 0, sizeof(items));
    model.count = 0;
    assert_int_equal(init(&map, capacity, test_random(&random)), 0);
    for (unsigned step = 0; step < 30000; step++) {
        struct item *item = &items[test_random_below(&random, NODES)];
        uint64_t key = test_random_below(&random, KEYS) * UINT64_C(0x100000001);
        if (item->node.link == NULL && test_random_below(&random, 3) != 0) {
            hash_map_expect(&map, model.count + 1);
            hash_map_add(&map, &item->node, key);
            model.items[model.count] = item;
            model.keys[model.count++] = key;
        } else {
            hash_map_remove(&item->node); /* also one that is in no map */
            model_remove(&model, item);
            assert_null(item->node.link);
        }
        check_key(&map, &model, key);
        if (step % 1000 == 0) {
            check_walk(&map, &model);
        }
    }
    for (uint64_t key = 0; key < KEYS; key++) {
        check_key(&map, &model, key * UINT64_C(0x100000001));
    }
    hash_map_clear(&map);
}

static void test_map_is_a_list_that_is_fast(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    run_against_model(1, seed, hash_map_init); /* long chains */
    run_against_model(64, seed + 1, hash_map_init);
    run_against_model(NODES, seed + 2, hash_map_init);
    /* Keys that are no hashes are in one chain. */
    run_against_model(NODES, seed + 3, hash_map_init_of_hashes);
    /* The largest has more buckets than it ever needs, the smallest fewer. */
    run_against_model(1, seed + 4, init_small);
    run_against_model(NODES, seed + 5, init_small);
    run_against_model(64 * NODES, seed + 6, init_small);
    run_against_model(NODES, seed + 7, init_small_of_hashes);
}

/* Hashes choose their bucket as they are, and spread. */
static void test_hashes_are_not_mixed_again(void **state)
{
    (void)state;
    static struct item items[1024];
    struct hash_map map;
    memset(items, 0, sizeof(items));
    assert_int_equal(hash_map_init_of_hashes(&map, 1024, 1), 0);
    for (uint64_t i = 0; i < 1024; i++) {
        uint64_t key = hash_bytes((const uint8_t *)&i, sizeof(i), 1);
        hash_map_add(&map, &items[i].node, key);
        assert_ptr_equal(items[i].node.link, &map.buckets[key >> 54]);
        assert_ptr_equal(hash_map_find(&map, key), &items[i].node);
    }
    hash_map_clear(&map);
}

static void test_entry_is_the_struct_around_the_node(void **state)
{
    (void)state;
    struct item item = {.value = 7};
    assert_ptr_equal(HASH_ENTRY(&item.node, struct item, node), &item);
}

static void test_clear_takes_a_zeroed_map(void **state)
{
    (void)state;
    struct hash_map map = {0};
    hash_map_clear(&map);
    assert_null(map.buckets);
}

/* Reads exactly what it is given (a sanitizer watches), wherever it begins. */
static void test_hash_of_bytes_depends_on_the_bytes_alone(void **state)
{
    (void)state;
    static const char text[] = "coap://example.org/a/path/that/is/longer";
    for (size_t len = 0; len < sizeof(text); len++) {
        uint64_t hash = hash_bytes((const uint8_t *)text, len, 1);
        for (size_t shift = 0; shift < 8; shift++) {
            uint8_t *copy = malloc(len + shift + 1);
            assert_non_null(copy);
            memcpy(copy + shift + 1, text, len);
            assert_true(hash_bytes(copy + shift + 1, len, 1) == hash);
            free(copy);
        }
        assert_false(hash_bytes((const uint8_t *)text, len, 2) == hash);
    }
}

/* Computed apart, in whole numbers: where words have 32 bits the product is put together. */
static void test_mix_is_the_same_on_every_machine(void **state)
{
    (void)state;
    assert_true(hash_mix(0, 0) == UINT64_C(0x131d7b8b0fd71ccd));
    assert_true(hash_mix(UINT64_MAX, UINT64_MAX) == UINT64_C(0x9511c65d1a4865b3));
    assert_true(hash_mix(UINT64_C(0x0123456789abcdef), UINT64_C(0xfedcba9876543210)) ==
                UINT64_C(0x793e57671499e470));
    uint64_t word = 1;
    for (uint64_t i = 0; i < 1000000; i++) {
        word = hash_mix(word, word ^ i);
    }
    assert_true(word == UINT64_C(0x140cfa581b52ebad));
}

/* A zero byte more is another string; a token of one zero is not the empty token. */
static void test_hash_of_bytes_counts_zeros(void **state)
{
    (void)state;
    static const uint8_t zeros[32];
    for (size_t a = 0; a <= sizeof(zeros); a++) {
        for (size_t b = 0; b < a; b++) {
            assert_false(hash_bytes(zeros, a, 9) == hash_bytes(zeros, b, 9));
        }
    }
}

/*
 * Keys as the engine makes them (a slot and a message id counting up) spread:
 * over 1024 buckets the longest chain of 1024 keys stays far below what a clump
 * would be. 12 is exceeded by chance less than once in a million.
 */
static void check_spread(uint64_t seed, uint64_t step)
{
    unsigned counts[1024] = {0};
    for (uint64_t i = 0; i < 1024; i++) {
        unsigned bucket = (unsigned)(hash_mix(i * step, seed) >> 54);
        counts[bucket]++;
        assert_true(counts[bucket] <= 12);
    }
}

static void test_keys_that_count_up_spread(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    for (unsigned i = 0; i < 100; i++) {
        uint64_t seed = test_random(&random);
        check_spread(seed, 1);
        check_spread(seed, UINT64_C(1) << 16);
        check_spread(seed, UINT64_C(1) << 37);
        check_spread(seed, UINT64_C(1) << 53);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map_is_a_list_that_is_fast),
        cmocka_unit_test(test_hashes_are_not_mixed_again),
        cmocka_unit_test(test_entry_is_the_struct_around_the_node),
        cmocka_unit_test(test_clear_takes_a_zeroed_map),
        cmocka_unit_test(test_hash_of_bytes_depends_on_the_bytes_alone),
        cmocka_unit_test(test_mix_is_the_same_on_every_machine),
        cmocka_unit_test(test_hash_of_bytes_counts_zeros),
        cmocka_unit_test(test_keys_that_count_up_spread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
