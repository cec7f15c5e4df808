/* SPDX-License-Identifier: BSD-2-Clause */
/* What a sketch promises: nothing that is frequent is missing, and errors are bounded. */
#include "ops/sketch.h"

#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ITEMS 5000u
#define ADDED 200000u

static const struct sketch_slot *find_slot(const struct sketch *sketch, const char *text)
{
    for (uint32_t i = 0; i < sketch->used; i++) {
        if (strcmp(sketch->slots[i].text, text) == 0) {
            return &sketch->slots[i];
        }
    }
    return NULL;
}

static void test_few_are_counted_exactly(void **state)
{
    struct sketch *sketch = calloc(1, sizeof(*sketch));
    (void)state;
    assert_non_null(sketch);
    for (unsigned round = 0; round < 10; round++) {
        for (unsigned i = 0; i < SKETCH_SLOTS; i++) {
            char text[32];
            (void)snprintf(text, sizeof(text), "item %u", i);
            sketch_add(sketch, text);
        }
    }
    assert_int_equal(sketch->used, SKETCH_SLOTS);
    for (unsigned i = 0; i < SKETCH_SLOTS; i++) {
        assert_int_equal(sketch->slots[i].count, 10);
        assert_int_equal(sketch->slots[i].error, 0);
    }
    free(sketch);
}

static void test_frequent_ones_are_there_within_the_error(void **state)
{
    struct sketch *sketch = calloc(1, sizeof(*sketch));
    uint64_t *counts = calloc(ITEMS, sizeof(*counts)), random = 1;
    (void)state;
    assert_non_null(sketch);
    assert_non_null(counts);
    for (unsigned i = 0; i < ADDED; i++) {
        char text[32];
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        /* Half of them are of eight items. */
        uint64_t item = (random >> 33) % 2 == 0 ? (random >> 40) % 8 : (random >> 40) % ITEMS;
        counts[item]++;
        (void)snprintf(text, sizeof(text), "item %u", (unsigned)item);
        sketch_add(sketch, text);
    }
    for (unsigned i = 0; i < ITEMS; i++) {
        char text[32];
        (void)snprintf(text, sizeof(text), "item %u", i);
        const struct sketch_slot *slot = find_slot(sketch, text);
        assert_true(slot != NULL || counts[i] <= ADDED / SKETCH_SLOTS);
        if (slot != NULL) {
            assert_true(slot->count >= counts[i]);
            assert_true(slot->count - slot->error <= counts[i]);
            assert_true(slot->error <= ADDED / SKETCH_SLOTS);
        }
    }
    free(counts);
    free(sketch);
}

static void test_long_text_is_cut(void **state)
{
    struct sketch *sketch = calloc(1, sizeof(*sketch));
    char text[2 * SKETCH_TEXT_MAX];
    (void)state;
    assert_non_null(sketch);
    memset(text, 'a', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    sketch_add(sketch, text);
    text[sizeof(text) - 2] = 'b';
    sketch_add(sketch, text);
    assert_int_equal(sketch->used, 1);
    assert_int_equal(strlen(sketch->slots[0].text), SKETCH_TEXT_MAX - 1);
    free(sketch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few_are_counted_exactly),
        cmocka_unit_test(test_frequent_ones_are_there_within_the_error),
        cmocka_unit_test(test_long_text_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
