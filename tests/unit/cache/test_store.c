/* SPDX-License-Identifier: BSD-2-Clause */
/* The store against a model that forgets nothing, and what it promises about memory. */
#include "support/test.h"

#include "cache/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUDGET (256u * 1024u)
#define RESOURCES 3000u
#define ETAGS 3u

static const struct scheme coap = {.name = "coap", .number = 0, .default_port = 5683};

struct fixture {
    struct cache_store store;
    uint64_t random;
};

static uint64_t next(struct fixture *fixture, uint64_t below)
{
    return test_random_below(&fixture->random, below);
}

/* The key of coap://h/N, or of a block of it. */
static struct cache_key key_of(uint32_t number, uint32_t block, uint8_t bytes[128])
{
    uint8_t path[5] = {4};
    uint8_t option[3] = {0xd1, 23 - 13, (uint8_t)(block << 4)};
    struct target target = {.scheme = &coap, .is_name = true, .name_len = 1, .port = 5683};
    struct cache_key key;
    target.name[0] = 'h';
    memcpy(path + 1, &number, sizeof(number));
    target.path = (struct segments){path, sizeof(path), 1};
    struct cache_key_source source = {
        .target = &target,
        .code = CODE_GET,
        .options = {option, block > 0 ? sizeof(option) : 0},
    };
    assert_true(cache_key_make(&source, bytes, 128, 7, &key));
    return key;
}

/* What a resource's representation is: @p len bytes that follow from number and version. */
static struct cache_item item_of(const struct cache_key *key, uint32_t number, uint8_t etag,
                                 size_t len, uint8_t options[2], uint8_t *payload)
{
    options[0] = 0x41;
    options[1] = etag;
    memset(payload, (int)(number * 31 + etag), len);
    const struct bytes encoded = {options, etag > 0 ? 2 : 0};
    return (struct cache_item){
        .key = key,
        .representation = {.code = CODE(2, 5),
                           .options = encoded,
                           .payload = {payload, len},
                           .max_age_s = 60},
        .facts = freshness_facts(CODE(2, 5), encoded, 0),
    };
}

/* Whether an entry holds what was once put under its key, byte for byte. */
static void check_entry(const struct cache_store *store, const struct cache_entry *entry,
                        uint32_t number)
{
    struct representation kept = cache_entry_get(store, entry);
    struct bytes etag = freshness_etag(kept.options);
    uint8_t expected = (uint8_t)(number * 31 + (etag.len > 0 ? etag.data[0] : 0));
    for (size_t i = 0; i < kept.payload.len; i++) {
        assert_int_equal(kept.payload.data[i], expected);
    }
}

/* Every entry that the maps lead to, and no other, is counted; none is found twice. */
static void check_all(const struct cache_store *store)
{
    uint32_t found = 0;
    for (uint32_t number = 0; number < RESOURCES; number++) {
        uint8_t bytes[128];
        struct cache_key key = key_of(number, 0, bytes);
        uint32_t representations = 0, served = 0;
        struct cache_entry *entry = cache_store_find(store, &key);
        for (; entry != NULL; entry = cache_store_find_next(store, entry)) {
            check_entry(store, entry, number);
            representations++;
            served += !entry->is_superseded;
        }
        assert_true(representations <= CACHE_REPRESENTATIONS_MAX);
        assert_true(served <= 1);
        found += representations;
    }
    assert_int_equal(found, cache_store_count(store));
}

static void step(struct fixture *fixture, uint8_t *payload)
{
    struct cache_store *store = &fixture->store;
    uint8_t bytes[128], options[2], scratch[64];
    /* Half of what is asked for is among few. */
    uint32_t number = (uint32_t)next(fixture, next(fixture, 2) == 0 ? 50 : RESOURCES);
    struct cache_key key = key_of(number, 0, bytes);
    struct cache_entry *entry = cache_store_find(store, &key);
    switch (next(fixture, 10)) {
    case 0:
        cache_store_invalidate(store, &key);
        entry = cache_store_find(store, &key);
        assert_true(entry == NULL || entry->is_invalid || entry->is_superseded);
        break;
    case 1:
        if (entry != NULL) {
            cache_store_remove(store, entry);
        }
        break;
    case 2:
        if (entry != NULL && entry->options_len > 0) {
            uint8_t update[8] = {0x41, options[1], 0xe1, 0x06, 0xef, (uint8_t)number};
            struct representation kept = cache_entry_get(store, entry);
            update[1] = freshness_etag(kept.options).data[0];
            (void)cache_store_refresh(store, entry, (struct bytes){update, 6}, 1, scratch,
                                      sizeof(scratch));
        }
        break;
    default: {
        size_t len = (size_t)next(fixture, next(fixture, 20) == 0 ? 20000 : 200);
        struct cache_item item =
            item_of(&key, number, (uint8_t)next(fixture, ETAGS + 1), len, options, payload);
        entry = cache_store_put(store, &item);
        assert_true(entry != NULL);
        assert_ptr_equal(cache_store_find(store, &key), entry);
        break;
    }
    }
    if (entry != NULL && next(fixture, 3) == 0) {
        entry = cache_store_find(store, &key);
        if (entry != NULL) {
            cache_entry_touch(entry);
        }
    }
}

static void test_against_a_model(void **state)
{
    struct fixture fixture = {.random = test_seed()};
    uint8_t *payload = malloc(20000);
    (void)state;
    assert_non_null(payload);
    assert_int_equal(cache_store_init(&fixture.store, BUDGET, 65536, fixture.random), 0);
    for (unsigned i = 0; i < 60000; i++) {
        step(&fixture, payload);
        if (i % 5000 == 0) {
            check_all(&fixture.store);
        }
        assert_true(cache_store_bytes(&fixture.store) <= BUDGET);
    }
    check_all(&fixture.store);
    assert_true(fixture.store.counts.evicted > 0);
    cache_store_clear(&fixture.store);
    free(payload);
}

static struct cache_entry *put(struct cache_store *store, uint32_t number, uint32_t block,
                               uint8_t etag, size_t len)
{
    static uint8_t payload[8192];
    uint8_t bytes[128], options[2];
    struct cache_key key = key_of(number, block, bytes);
    struct cache_item item = item_of(&key, number, etag, len, options, payload);
    return cache_store_put(store, &item);
}

static struct cache_entry *find(const struct cache_store *store, uint32_t number)
{
    uint8_t bytes[128];
    struct cache_key key = key_of(number, 0, bytes);
    return cache_store_find(store, &key);
}

/* All that memory has: the tables, the rings, the buffers for moving. */
static void test_budget_is_what_is_allocated(void **state)
{
    static const uint64_t budgets[] = {1, 64 * 1024, 1 << 20, 16 << 20, 64 << 20};
    (void)state;
    for (size_t i = 0; i < sizeof(budgets) / sizeof(budgets[0]); i++) {
        struct cache_store store;
        assert_int_equal(cache_store_init(&store, budgets[i], 65536, 1), 0);
        uint64_t budget = budgets[i] < 65536 ? 65536 : budgets[i];
        uint64_t buckets = ((uint64_t)1 << (64 - store.by_key.shift)) * sizeof(void *) * 2;
        uint64_t taken = store.free.capacity * (sizeof(struct cache_entry) + sizeof(uint32_t)) +
                         buckets + ((uint64_t)sizeof(struct cache_ghost) << store.ghost_bits) +
                         store.rings[CACHE_SMALL].capacity + store.rings[CACHE_MAIN].capacity;
        assert_true(taken <= budget);
        assert_true(taken >= budget / 2);
        cache_store_clear(&store);
    }
}

static void test_off(void **state)
{
    struct cache_store store;
    struct cache_entry *entry;
    (void)state;
    assert_int_equal(cache_store_init(&store, 0, 65536, 1), 0);
    assert_false(cache_store_is_on(&store));
    entry = put(&store, 1, 0, 0, 10);
    assert_null(entry);
    assert_null(find(&store, 1));
    cache_store_clear(&store);
}

static void test_what_is_too_long(void **state)
{
    struct cache_store store;
    (void)state;
    assert_int_equal(cache_store_init(&store, BUDGET, 1000, 1), 0);
    assert_non_null(put(&store, 1, 0, 0, 900));
    assert_null(put(&store, 1, 0, 0, 1000));
    assert_null(find(&store, 1)); /* what it replaces is gone all the same */
    cache_store_clear(&store);
}

/* What was asked for again survives a scan that is far longer than the store. */
static void test_a_scan_passes_by(void **state)
{
    struct cache_store store;
    (void)state;
    assert_int_equal(cache_store_init(&store, BUDGET, 65536, 1), 0);
    for (uint32_t number = 0; number < 50; number++) {
        assert_non_null(put(&store, number, 0, 0, 50));
        cache_entry_touch(find(&store, number));
    }
    for (uint32_t number = 1000; number < 101000; number++) {
        assert_non_null(put(&store, number, 0, 0, 50));
    }
    for (uint32_t number = 0; number < 50; number++) {
        assert_non_null(find(&store, number));
    }
    /* What was pushed out lately comes back to the main ring; that is forgotten after as many
     * others as there are places. */
    uint32_t number = 101000, known = 0;
    while (find(&store, --number) != NULL) {
        assert_true(number > 1000);
    }
    for (uint32_t i = 0; i < 50; i++) {
        known += put(&store, number - i, 0, 0, 50)->ring == CACHE_MAIN ? 1u : 0u;
        assert_int_equal(put(&store, 1000 + i, 0, 0, 50)->ring, CACHE_SMALL);
    }
    assert_true(known >= 40); /* some share a place of the table */
    cache_store_clear(&store);
}

/* One that has no ETag cannot be validated: the next representation ends it. */
static void test_no_variants_without_etag(void **state)
{
    struct cache_store store;
    (void)state;
    assert_int_equal(cache_store_init(&store, 1 << 20, 65536, 1), 0);
    assert_non_null(put(&store, 1, 0, 0, 50));
    assert_non_null(put(&store, 1, 0, 1, 50));
    assert_int_equal(cache_store_count(&store), 1);
    assert_non_null(put(&store, 1, 0, 2, 50));
    assert_int_equal(cache_store_count(&store), 2);
    assert_non_null(put(&store, 1, 0, 0, 50));
    assert_int_equal(cache_store_count(&store), 3);
    assert_non_null(put(&store, 1, 0, 3, 50));
    assert_int_equal(cache_store_count(&store), 3);
    cache_store_clear(&store);
}

/* What is pinned stays, whatever comes, until it is unpinned. */
static void test_pins(void **state)
{
    struct cache_store store;
    uint8_t scratch[64];
    (void)state;
    assert_int_equal(cache_store_init(&store, BUDGET, 65536, 1), 0);
    struct cache_entry *entry = put(&store, 1, 0, 1, 50);
    assert_true(cache_entry_pin(entry));
    assert_true(cache_entry_pin(entry));
    for (uint32_t number = 1000; number < 101000; number++) {
        assert_non_null(put(&store, number, 0, 0, 50));
    }
    assert_ptr_equal(find(&store, 1), entry);
    cache_store_remove(&store, entry);
    assert_null(find(&store, 1));
    for (uint32_t number = 1000; number < 101000; number++) {
        assert_non_null(put(&store, number, 0, 0, 50));
    }
    check_entry(&store, entry, 1);
    const uint8_t update[] = {0x41, 1};
    assert_true(cache_store_refresh(&store, entry, (struct bytes){update, 2}, 9, scratch, 64));
    assert_int_equal(entry->received_ms, 9);
    assert_null(find(&store, 1)); /* only for holders of a pin */
    uint32_t count = cache_store_count(&store);
    cache_store_unpin(&store, entry);
    assert_int_equal(cache_store_count(&store), count);
    cache_store_unpin(&store, entry);
    assert_int_equal(cache_store_count(&store), count - 1);
    cache_store_clear(&store);
}

/* Entries that are all pinned leave no room, and that is all that happens. */
static void test_everything_is_pinned(void **state)
{
    struct cache_store store;
    struct cache_entry *pinned[4096];
    uint8_t scratch[64];
    uint32_t count = 0, refused = 0;
    (void)state;
    assert_int_equal(cache_store_init(&store, 64 * 1024, 65536, 1), 0);
    assert_true(store.free.capacity < 4096);
    for (uint32_t number = 0; number < 4096; number++) {
        struct cache_entry *entry = put(&store, number, 0, 1, 700);
        refused += entry == NULL;
        if (entry != NULL) {
            assert_true(cache_entry_pin(entry));
            pinned[count++] = entry;
        }
    }
    assert_true(count > 0);
    /* One more option needs new room: what gets none is lost, also for the next one to ask. */
    const uint8_t update[] = {0x41, 1, 0xe1, 0x06, 0xef, 7};
    uint32_t lost = 0;
    for (uint32_t i = 0; i < count; i++) {
        for (unsigned time = 0; time < 2; time++) {
            bool is_good = cache_store_refresh(&store, pinned[i], (struct bytes){update, 6}, 9,
                                               scratch, sizeof(scratch));
            assert_true(is_good == (pinned[i]->record_len > 0));
            lost += !is_good;
        }
    }
    assert_true(lost >= 2 && lost % 2 == 0);
    for (uint32_t i = 0; i < count; i++) {
        cache_store_unpin(&store, pinned[i]);
    }
    assert_non_null(put(&store, 5000, 0, 1, 700));
    assert_true(refused > 0 || store.counts.evicted > 0);
    cache_store_clear(&store);
}

/* What no longer fits, the room that it is put together in or a record, is lost. */
static void test_a_refresh_that_does_not_fit_ends_it(void **state)
{
    enum { RECORD_MAX = 1000 };
    struct cache_store store;
    uint8_t scratch[64];
    const uint8_t update[] = {0x41, 1, 0xe1, 0x06, 0xef, 7};
    const struct bytes news = {update, sizeof(update)};
    (void)state;
    assert_int_equal(cache_store_init(&store, BUDGET, RECORD_MAX, 1), 0);
    struct cache_entry *entry = put(&store, 1, 0, 1, 50);
    assert_false(cache_store_refresh(&store, entry, news, 9, scratch, 3));
    assert_null(find(&store, 1));
    size_t len = RECORD_MAX;
    do {
        entry = put(&store, 1, 0, 1, --len);
    } while (entry == NULL);
    assert_false(cache_store_refresh(&store, entry, news, 9, scratch, sizeof(scratch)));
    assert_null(find(&store, 1));
    entry = put(&store, 1, 0, 1, len - 4); /* with room for the option */
    assert_true(cache_store_refresh(&store, entry, news, 9, scratch, sizeof(scratch)));
    check_entry(&store, find(&store, 1), 1);
    assert_int_equal(cache_store_count(&store), 1);
    cache_store_clear(&store);
}

/* CACHE-29: a block of another body ends the others; one of a target's variants too many. */
static void test_blocks_and_variants(void **state)
{
    struct cache_store store;
    (void)state;
    assert_int_equal(cache_store_init(&store, 1 << 20, 65536, 1), 0);
    struct cache_entry *first = put(&store, 1, 1, 1, 50), *second = put(&store, 1, 2, 1, 50);
    assert_false(first->is_superseded || second->is_superseded);
    for (uint32_t block = 1; block <= 1000; block++) {
        assert_non_null(put(&store, 1, block % 15 + 1, (uint8_t)(block / 15 + 1), 50));
    }
    assert_true(cache_store_count(&store) <= CACHE_VARIANTS_MAX);
    cache_store_clear(&store);
}

static bool match_odd(void *context, const struct target *target, uint32_t scheme)
{
    uint32_t number;
    (void)context;
    assert_int_equal(scheme, 0);
    assert_int_equal(target->path.count, 1);
    memcpy(&number, target->path.packed + 1, sizeof(number));
    return number % 2 != 0;
}

static void test_flush(void **state)
{
    struct cache_store store;
    (void)state;
    assert_int_equal(cache_store_init(&store, BUDGET, 65536, 1), 0);
    for (uint32_t number = 0; number < 100; number++) {
        assert_non_null(put(&store, number, 0, 1, 50));
    }
    assert_int_equal(cache_flush(&store, match_odd, NULL), 50);
    assert_int_equal(cache_flush(&store, match_odd, NULL), 0);
    assert_int_equal(cache_store_count(&store), 50);
    assert_null(find(&store, 7));
    assert_non_null(find(&store, 8));
    cache_store_clear(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_a_model),
        cmocka_unit_test(test_budget_is_what_is_allocated),
        cmocka_unit_test(test_off),
        cmocka_unit_test(test_what_is_too_long),
        cmocka_unit_test(test_a_scan_passes_by),
        cmocka_unit_test(test_no_variants_without_etag),
        cmocka_unit_test(test_pins),
        cmocka_unit_test(test_everything_is_pinned),
        cmocka_unit_test(test_a_refresh_that_does_not_fit_ends_it),
        cmocka_unit_test(test_blocks_and_variants),
        cmocka_unit_test(test_flush),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
