/* SPDX-License-Identifier: BSD-2-Clause */
/* The deduplication store (RFC 7252 section 4.5, MSG-15 to MSG-17) against a plain list. */
#include "support/test.h"

#include "coap/dedup.h"

#include <stdlib.h>
#include <string.h>

#define RECORDS_MAX 6000
#define ANSWER_MAX 4096
#define OVERHEAD_MAX 64 /* bytes a record may take beside its answer */

static uint8_t noise[2 * ANSWER_MAX];

static struct bytes bytes_of(const char *text)
{
    return (struct bytes){(const uint8_t *)text, strlen(text)};
}

static void check_answer(const struct dedup *dedup, uint64_t key, uint64_t now_ms,
                         struct bytes expected)
{
    struct bytes answer;
    assert_true(dedup_find(dedup, key, now_ms, &answer));
    assert_int_equal(answer.len, expected.len);
    if (expected.len > 0) {
        assert_memory_equal(answer.data, expected.data, expected.len);
    }
}

static void check_unknown(const struct dedup *dedup, uint64_t key, uint64_t now_ms)
{
    struct bytes answer = {noise, 7};
    assert_false(dedup_find(dedup, key, now_ms, &answer));
    assert_ptr_equal(answer.data, noise); /* outputs are not touched on failure */
}

static void test_gives_back_what_it_was_given(void **state)
{
    (void)state;
    struct dedup dedup;
    assert_int_equal(dedup_init(&dedup, 65536, 1), 0);
    check_unknown(&dedup, 1, 1000);
    dedup_add(&dedup, DEDUP_SAFE, 1, bytes_of("one"), 1000, 247000);
    dedup_add(&dedup, DEDUP_UNSAFE, 2, bytes_of("two"), 1000, 247000);
    dedup_add(&dedup, DEDUP_UNSAFE, 3, (struct bytes){0}, 1000, 247000);
    check_answer(&dedup, 1, 1000, bytes_of("one"));
    check_answer(&dedup, 2, 1000, bytes_of("two"));
    check_answer(&dedup, 3, 1000, (struct bytes){0});
    check_unknown(&dedup, 4, 1000);
    check_unknown(&dedup, 0, 1000);
    assert_int_equal(dedup.evicted, 0);
    dedup_clear(&dedup);
}

/* Whole up to the end of the lifetime; a second later at most it is over. */
static void test_lifetime_is_kept_whole(void **state)
{
    (void)state;
    struct dedup dedup;
    assert_int_equal(dedup_init(&dedup, 65536, 1), 0);
    for (uint64_t start_ms = 1000000; start_ms < 1001000; start_ms += 37) {
        dedup_add(&dedup, DEDUP_SAFE, start_ms, bytes_of("x"), start_ms, 247000);
        check_answer(&dedup, start_ms, start_ms + 246999, bytes_of("x"));
        check_unknown(&dedup, start_ms, start_ms + 248000);
        check_unknown(&dedup, start_ms, start_ms + 1000000);
    }
    dedup_clear(&dedup);
}

/* The same key in a new life, while the old record is still in the ring. */
static void test_key_used_again_after_its_lifetime(void **state)
{
    (void)state;
    struct dedup dedup;
    assert_int_equal(dedup_init(&dedup, 65536, 1), 0);
    dedup_add(&dedup, DEDUP_SAFE, 5, bytes_of("first"), 0, 1000);
    check_unknown(&dedup, 5, 3000);
    dedup_add(&dedup, DEDUP_UNSAFE, 5, bytes_of("second"), 3000, 1000);
    check_answer(&dedup, 5, 3000, bytes_of("second"));
    dedup_clear(&dedup);
}

/* MSG-17: a flood of safe requests never pushes out an unsafe one. */
static void test_unsafe_stay_while_safe_ones_flood(void **state)
{
    (void)state;
    struct dedup dedup;
    assert_int_equal(dedup_init(&dedup, 65536, 1), 0);
    for (uint64_t key = 1; key <= 50; key++) {
        dedup_add(&dedup, DEDUP_UNSAFE, key, (struct bytes){noise + key, 60}, 1000, 247000);
    }
    for (uint64_t key = 1000; key < 50000; key++) {
        dedup_add(&dedup, DEDUP_SAFE, key, (struct bytes){noise, (size_t)(key % 200)}, 1000,
                  247000);
    }
    assert_true(dedup.evicted > 0);
    for (uint64_t key = 1; key <= 50; key++) {
        check_answer(&dedup, key, 1000, (struct bytes){noise + key, 60});
    }
    dedup_clear(&dedup);
}

static void test_answer_of_a_quarter_is_kept_a_longer_one_left_out(void **state)
{
    (void)state;
    for (unsigned class = 0; class < DEDUP_CLASSES; class ++) {
        struct dedup dedup;
        assert_int_equal(dedup_init(&dedup, 8192, 1), 0);
        size_t quarter = dedup.rings[class].capacity / 4;
        assert_in_range(quarter, 100, ANSWER_MAX - 1);
        struct bytes fits = {noise, quarter}, too_long = {noise, quarter + 1};
        dedup_add(&dedup, (enum dedup_class) class, 1, fits, 0, 1000);
        check_answer(&dedup, 1, 0, fits);
        dedup_add(&dedup, (enum dedup_class) class, 2, too_long, 0, 1000);
        check_answer(&dedup, 2, 0, (struct bytes){0}); /* known, with nothing to say */
        check_answer(&dedup, 1, 0, fits);
        dedup_clear(&dedup);
    }
}

/* Evicting what has expired is no loss, and is not counted. */
static void test_only_living_records_count_as_evicted(void **state)
{
    (void)state;
    struct dedup dedup;
    uint64_t key = 0;
    assert_int_equal(dedup_init(&dedup, 8192, 1), 0);
    for (uint64_t now_ms = 0; now_ms < 10000000; now_ms += 5000) {
        dedup_add(&dedup, DEDUP_SAFE, ++key, (struct bytes){noise, 100}, now_ms, 2000);
    }
    assert_int_equal(dedup.evicted, 0);
    for (unsigned i = 0; i < 1000; i++) {
        dedup_add(&dedup, DEDUP_SAFE, ++key, (struct bytes){noise, 100}, 10000000, 2000);
    }
    assert_true(dedup.evicted > 900);
    dedup_clear(&dedup);
}

/* --- against a list ----------------------------------------------------- */

struct entry {
    uint64_t key, added_ms;
    uint32_t lifetime_ms;
    struct bytes answer;
    enum dedup_class class;
    bool was_found; /* at the last look */
};

/* Every record ever added, in order. */
struct model {
    struct entry entries[RECORDS_MAX];
    size_t count, first; /* all before first have expired */
    uint64_t evicted;
};

static void add(struct dedup *dedup, struct model *model, uint64_t *random, uint64_t now_ms,
                size_t max)
{
    struct entry *entry = &model->entries[model->count++];
    enum dedup_class class = (enum dedup_class)test_random_below(random, DEDUP_CLASSES);
    if (max > dedup->rings[class].capacity / 2) {
        max = dedup->rings[class].capacity / 2;
    }
    if (max > 40 && test_random_below(random, 4) != 0) {
        max = 40;
    }
    size_t len = (size_t)test_random_below(random, max + 1);
    /* Keys count up within few values of the upper bits, as message ids do. */
    *entry = (struct entry){
        .key = test_random_below(random, 4) << 61 | model->count,
        .added_ms = now_ms,
        .lifetime_ms = (uint32_t)test_random_below(random, 60000),
        .answer = {noise + test_random_below(random, 64), len},
        .class = class,
    };
    dedup_add(dedup, class, entry->key, entry->answer, now_ms, entry->lifetime_ms);
    if (len > dedup->rings[class].capacity / 4) {
        entry->answer.len = 0;
    }
    check_answer(dedup, entry->key, now_ms, entry->answer);
    entry->was_found = true;
}

/* What of each entry is left; an entry that is found has its answer. */
static void look(const struct dedup *dedup, struct model *model, uint64_t now_ms)
{
    size_t kept_bytes[DEDUP_CLASSES] = {0};
    bool is_gone[DEDUP_CLASSES] = {false, false}; /* an older one may not outlive a newer one */
    for (size_t i = model->count; i-- > model->first;) {
        struct entry *entry = &model->entries[i];
        struct bytes answer;
        bool is_over = now_ms >= entry->added_ms + entry->lifetime_ms;
        bool is_found = dedup_find(dedup, entry->key, now_ms, &answer);
        if (is_found) {
            check_answer(dedup, entry->key, now_ms, entry->answer);
            assert_false(is_gone[entry->class]);
            assert_true(entry->was_found); /* what is gone does not come back */
            assert_true(now_ms < entry->added_ms + entry->lifetime_ms + 1000);
        } else if (!is_over) {
            is_gone[entry->class] = true;
        }
        if (!is_gone[entry->class]) { /* one that has expired takes room until its turn */
            kept_bytes[entry->class] += entry->answer.len + OVERHEAD_MAX;
        }
        entry->was_found = is_found;
    }
    for (unsigned class = 0; class < DEDUP_CLASSES; class ++) {
        /* Nothing is pushed out before there is need: a largest record may not
         * fit at the end of the ring, and the next one needs room as well. */
        size_t capacity = dedup->rings[class].capacity;
        bool is_index_full = dedup->count + 1 >= dedup->count_max;
        if (is_gone[class] && !is_index_full) {
            assert_true(kept_bytes[class] + 2 * (capacity / 4 + OVERHEAD_MAX) >= capacity);
        }
    }
}

/* How many of those found at the last look at @p now_ms this add has pushed out. */
static uint64_t count_lost(const struct dedup *dedup, const struct model *model, uint64_t now_ms)
{
    uint64_t lost = 0;
    struct bytes answer;
    for (size_t i = model->first; i < model->count; i++) {
        const struct entry *entry = &model->entries[i];
        lost += entry->was_found && !dedup_find(dedup, entry->key, now_ms, &answer);
    }
    return lost;
}

struct run {
    uint64_t bytes;
    size_t answer_max;
    unsigned steps;
    uint32_t pace_ms; /* longest pause between two */
};

static void run_against_model(const struct run *run, uint64_t seed)
{
    static struct model model;
    struct dedup dedup;
    uint64_t random = seed, now_ms = test_random_below(&random, 10000000);
    model.count = 0;
    model.first = 0;
    model.evicted = 0;
    assert_int_equal(dedup_init(&dedup, run->bytes, test_random(&random)), 0);
    for (unsigned step = 0; step < run->steps; step++) {
        if (test_random_below(&random, 3) == 0) {
            now_ms += test_random_below(&random, run->pace_ms + 1);
        }
        while (model.first < model.count && model.entries[model.first].added_ms + 62000 < now_ms) {
            model.first++;
        }
        look(&dedup, &model, now_ms);
        add(&dedup, &model, &random, now_ms, run->answer_max);
        model.evicted += count_lost(&dedup, &model, now_ms);
        assert_int_equal(dedup.evicted, model.evicted);
    }
    look(&dedup, &model, now_ms);
    assert_true(model.evicted > 0); /* else it has tested little */
    dedup_clear(&dedup);
}

static void test_store_is_two_queues_of_bounded_bytes(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    static const struct run runs[] = {
        {4096, ANSWER_MAX, 3000, 5000},
        {8192, ANSWER_MAX, 3000, 5000},
        {65536, ANSWER_MAX, RECORDS_MAX, 2000},
        {1 << 18, ANSWER_MAX, RECORDS_MAX, 50},
    };
    for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
        run_against_model(&runs[i], seed + i);
    }
}

/* Many records without much in them: the index sets the limit, not the rings. */
static void test_store_of_small_answers(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    run_against_model(&(struct run){65536, 0, 4000, 50}, seed);
    run_against_model(&(struct run){65536, 8, 4000, 50}, seed + 1);
}

/* However little it is given: it remembers the last record, and never writes past its rings. */
static void test_tiny_stores_work(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    for (uint64_t bytes = 0; bytes < 3000; bytes += 23) {
        run_against_model(&(struct run){bytes, ANSWER_MAX, 300, 1000}, seed + bytes);
    }
}

static void test_clear_takes_a_zeroed_store(void **state)
{
    (void)state;
    struct dedup dedup;
    memset(&dedup, 0, sizeof(dedup));
    dedup_clear(&dedup);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gives_back_what_it_was_given),
        cmocka_unit_test(test_lifetime_is_kept_whole),
        cmocka_unit_test(test_key_used_again_after_its_lifetime),
        cmocka_unit_test(test_unsafe_stay_while_safe_ones_flood),
        cmocka_unit_test(test_answer_of_a_quarter_is_kept_a_longer_one_left_out),
        cmocka_unit_test(test_only_living_records_count_as_evicted),
        cmocka_unit_test(test_store_is_two_queues_of_bounded_bytes),
        cmocka_unit_test(test_store_of_small_answers),
        cmocka_unit_test(test_tiny_stores_work),
        cmocka_unit_test(test_clear_takes_a_zeroed_store),
    };
    uint64_t random = 1;
    for (size_t i = 0; i < sizeof(noise); i++) {
        noise[i] = (uint8_t)test_random(&random);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
