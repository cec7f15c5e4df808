/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The store's eviction against LRU with the same bytes, on a trace that is made up: requests
 * by Zipf's law, and now and then a scan, in which each of many resources is asked for once.
 *
 *     build/debug/tests/unit/cache/test_hit_ratio
 *
 * prints the hit ratios of the requests that are not of a scan. Seeds are fixed, so the
 * figures are always the same.
 */
#include "support/test.h"

#include "cache/store.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RESOURCES 20000u /* that Zipf's law is about */
#define REQUESTS 400000u
#define SCANNED (RESOURCES + REQUESTS)
#define PAYLOAD 300u
#define NOBODY UINT32_MAX

static const struct scheme coap = {.name = "coap", .number = 0, .default_port = 5683};

/* --- the trace ---------------------------------------------------------- */

struct trace {
    double *shares; /* cumulated */
    uint64_t random;
    uint32_t every, length; /* a scan of so many after so many requests; 0: none */
    uint32_t since, left, next_scanned;
};

static void trace_init(struct trace *trace, double exponent, uint32_t every, uint32_t length)
{
    double sum = 0;
    *trace =
        (struct trace){.random = 42, .every = every, .length = length, .next_scanned = RESOURCES};
    trace->shares = malloc(RESOURCES * sizeof(double));
    assert_non_null(trace->shares);
    for (uint32_t i = 0; i < RESOURCES; i++) {
        sum += 1 / pow(i + 1, exponent);
        trace->shares[i] = sum;
    }
}

static uint32_t zipf(struct trace *trace)
{
    double unit = (double)(test_random(&trace->random) >> 11) / (double)(UINT64_C(1) << 53);
    double at = unit * trace->shares[RESOURCES - 1];
    uint32_t low = 0, high = RESOURCES - 1;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (trace->shares[middle] < at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* @return which resource; @p ret_is_scan whether it is one of a scan. */
static uint32_t trace_next(struct trace *trace, bool *ret_is_scan)
{
    if (trace->every > 0 && ++trace->since == trace->every) {
        trace->since = 0;
        trace->left = trace->length;
    }
    *ret_is_scan = trace->left > 0;
    if (trace->left > 0) {
        trace->left--;
        trace->since--;
        return trace->next_scanned++;
    }
    return zipf(trace);
}

/* --- LRU ---------------------------------------------------------------- */

struct lru {
    uint32_t *newer, *older; /* by resource; NOBODY at the ends */
    bool *is_in;
    uint32_t newest, oldest;
    uint64_t used, capacity; /* bytes */
};

static void lru_init(struct lru *lru, uint64_t capacity)
{
    *lru = (struct lru){.newest = NOBODY, .oldest = NOBODY, .capacity = capacity};
    lru->newer = malloc(SCANNED * sizeof(uint32_t));
    lru->older = malloc(SCANNED * sizeof(uint32_t));
    lru->is_in = calloc(SCANNED, sizeof(bool));
    assert_true(lru->newer != NULL && lru->older != NULL && lru->is_in != NULL);
}

static void lru_clear(struct lru *lru)
{
    free(lru->newer);
    free(lru->older);
    free(lru->is_in);
}

static void lru_unlink(struct lru *lru, uint32_t resource)
{
    uint32_t newer = lru->newer[resource], older = lru->older[resource];
    *(newer != NOBODY ? &lru->older[newer] : &lru->newest) = older;
    *(older != NOBODY ? &lru->newer[older] : &lru->oldest) = newer;
}

static bool lru_ask(struct lru *lru, uint32_t resource, uint64_t bytes)
{
    bool is_hit = lru->is_in[resource];
    if (is_hit) {
        lru_unlink(lru, resource);
    } else {
        lru->used += bytes;
    }
    lru->newer[resource] = NOBODY;
    lru->older[resource] = lru->newest;
    *(lru->newest != NOBODY ? &lru->newer[lru->newest] : &lru->oldest) = resource;
    lru->newest = resource;
    lru->is_in[resource] = true;
    for (; lru->used > lru->capacity; lru->used -= bytes) {
        uint32_t oldest = lru->oldest;
        lru_unlink(lru, oldest);
        lru->is_in[oldest] = false;
    }
    return is_hit;
}

/* --- the store ---------------------------------------------------------- */

static struct cache_key key_of(uint32_t resource, uint8_t bytes[64])
{
    uint8_t path[5] = {4};
    struct target target = {.scheme = &coap, .is_name = true, .name_len = 1, .port = 5683};
    struct cache_key key;
    memcpy(path + 1, &resource, sizeof(resource));
    target.name[0] = 'h';
    target.path = (struct segments){path, sizeof(path), 1};
    struct cache_key_source source = {.target = &target, .code = CODE_GET};
    assert_true(cache_key_make(&source, bytes, 64, 7, &key));
    return key;
}

static bool store_ask(struct cache_store *store, uint32_t resource)
{
    static const uint8_t payload[PAYLOAD];
    uint8_t bytes[64];
    struct cache_key key = key_of(resource, bytes);
    struct cache_entry *entry = cache_store_find(store, &key);
    if (entry != NULL) {
        cache_entry_touch(entry);
        return true;
    }
    struct cache_item item = {
        .key = &key,
        .representation = {.code = CODE(2, 5), .payload = {payload, PAYLOAD}, .max_age_s = 60},
        .facts = freshness_facts(CODE(2, 5), (struct bytes){0}, 0),
    };
    assert_non_null(cache_store_put(store, &item));
    return false;
}

/* --- both --------------------------------------------------------------- */

struct row {
    const char *name;
    double exponent;
    uint64_t budget;
    uint32_t every, length; /* of scans */
    double least;           /* that the store is better by, of all requests */
};

static void run(const struct row *row)
{
    struct cache_store store;
    struct trace trace;
    struct lru lru;
    uint8_t bytes[64];
    uint32_t asked = 0, store_hits = 0, lru_hits = 0;
    assert_int_equal(cache_store_init(&store, row->budget, 65536, 1), 0);
    uint32_t record = (key_of(0, bytes).len + PAYLOAD + 15) / 8 * 8;
    lru_init(&lru, (uint64_t)store.rings[CACHE_SMALL].capacity + store.rings[CACHE_MAIN].capacity);
    trace_init(&trace, row->exponent, row->every, row->length);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        bool is_scan;
        uint32_t resource = trace_next(&trace, &is_scan);
        bool store_hit = store_ask(&store, resource), lru_hit = lru_ask(&lru, resource, record);
        asked += !is_scan;
        store_hits += !is_scan && store_hit;
        lru_hits += !is_scan && lru_hit;
    }
    double ours = (double)store_hits / asked, theirs = (double)lru_hits / asked;
    print_message("    %-46s LRU %.3f  S3-FIFO %.3f\n", row->name, theirs, ours);
    assert_true(ours >= theirs + row->least);
    free(trace.shares);
    lru_clear(&lru);
    cache_store_clear(&store);
}

static void test_hit_ratio_against_lru(void **state)
{
    static const struct row rows[] = {
        {"Zipf 0.9, 1 MiB, no scan", 0.9, 1 << 20, 0, 0, 0.01},
        {"Zipf 0.9, 1 MiB, a scan of 2,000 every 10,000", 0.9, 1 << 20, 10000, 2000, 0.03},
        {"Zipf 0.9, 1 MiB, a scan of 10,000 every 10,000", 0.9, 1 << 20, 10000, 10000, 0.05},
        {"Zipf 0.7, 1 MiB, a scan of 2,000 every 10,000", 0.7, 1 << 20, 10000, 2000, 0.03},
        {"Zipf 1.1, 256 KiB, a scan of 2,000 every 10,000", 1.1, 1 << 18, 10000, 2000, 0.03},
        {"Zipf 0.9, 4 MiB, a scan of 10,000 every 10,000", 0.9, 4 << 20, 10000, 10000, 0.02},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        run(&rows[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_hit_ratio_against_lru)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
