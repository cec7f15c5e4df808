/* SPDX-License-Identifier: BSD-2-Clause */
/* AIF-CRI documents as tables: the same answers as the library gives entry by entry. */
#include "support/test.h"

#include "base/arena.h"
#include "policy/aif.h"
#include "policy/place.h"

#include <cri/aif.h>
#include <cri/diag.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

struct fixture {
    struct config_arena *arena;
    const struct aif_table *table;
};

static struct fixture table_of(const char *notation)
{
    struct fixture made = {.arena = arena_new()};
    uint8_t document[1024];
    size_t len = 0;
    struct aif_fault fault;
    const struct cri_slice text = {(const uint8_t *)notation, strlen(notation)};
    assert_int_equal(cri_diag_parse(text, document, sizeof(document), &len, NULL), CRI_OK);
    assert_int_equal(aif_table_make(document, len, made.arena, &made.table, &fault), 0);
    return made;
}

static const struct {
    const char *name, *document, *path, *query;
    unsigned methods; /* 1 << (code - 1) */
} rows[] = {
    {"AIF-1", "[[[[\"s\", \"temp\"]], 1]]", "s/temp", NULL, 1},
    {"AIF-3: no prefix", "[[[[\"s\"]], 1]]", "s/temp", NULL, 0},
    {"AIF-3: no parent", "[[[[\"s\", \"temp\"]], 1]]", "s", NULL, 0},
    {"AIF-3: no query added", "[[[[\"s\"]], 1]]", "s", "x", 0},
    {"AIF-3: no query left out", "[[[[\"s\"], [\"x\"]], 1]]", "s", NULL, 0},
    {"AIF-3: order of the query", "[[[[\"s\"], [\"x\", \"y\"]], 1]]", "s", "y&x", 0},
    {"where the path ends counts", "[[[[\"s\", \"x\"]], 1]]", "s", "x", 0},
    {"exact query", "[[[[\"s\"], [\"x\", \"y\"]], 5]]", "s", "x&y", 5},
    {"case counts", "[[[[\"S\"]], 1]]", "s", NULL, 0},
    {"AIF-4", "[[[[\"s\"], []], 2]]", "s", NULL, 2},
    {"AIF-6", "[[[[[\"s\", h'3b']]], 1]]", "s;", NULL, 0},
    {"AIF-7: empty path", "[[[[]], 1]]", "", NULL, 1},
    {"AIF-7: lone empty segment", "[[[[\"\"]], 1]]", "", NULL, 1},
    {"AIF-7: and a query", "[[[[\"\"], [\"q\"]], 1]]", "", "q", 1},
    {"AIF-7: but not two", "[[[[\"\", \"\"]], 1]]", "", NULL, 0},
    {"two empty segments", "[[[[\"\", \"\"]], 1]]", "/", NULL, 1},
    {"AIF-8", "[[[[\"s\"]], 1], [[[\"t\"]], 2], [[[\"s\"]], 4]]", "s", NULL, 5},
    {"AIF-9: unknown bits", "[[[[\"s\"]], 1099511627777]]", "s", NULL, 1},
    {"dynamic bits grant nothing by themselves", "[[[[\"s\"]], 4294967296]]", "s", NULL, 0},
    {"AIF-13", "[]", "s", NULL, 0},
    {"AIF-15", "[_ [_ [[\"s\"]], 127]]", "s", NULL, 127},
    {"AIF-5: a faulty entry", "[[[[\"..\"]], 1], [[[\"s\"]], 2], [[[7]], 4]]", "s", NULL, 2},
};

static void test_aif_table_permits(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fixture made = table_of(rows[i].document);
        struct place place;
        print_message("%s\n", rows[i].name);
        place_set(&place, CRI_SCHEME_COAP, "h", 5683, rows[i].path, rows[i].query);
        for (uint8_t code = 0; code <= 8; code++) {
            bool is_granted = code > 0 && (rows[i].methods >> (code - 1u) & 1u) != 0;
            assert_int_equal(aif_table_permits(made.table, &place.target, code), is_granted);
        }
        arena_free(made.arena);
    }
}

/* Many entries, some of them twice: each is found, and the names between them are not. */
static void test_aif_table_finds_each_of_many(void **state)
{
    (void)state;
    enum { COUNT = 500 };
    static uint8_t document[COUNT * 16];
    size_t len = 0;
    struct config_arena *arena = arena_new();
    const struct aif_table *table;
    struct aif_fault fault;
    document[len++] = 0x9f;
    for (unsigned i = 0; i < COUNT; i++) {
        /* [[["r123"]], 1 << (i % 7)] */
        static const uint8_t head[] = {0x82, 0x81, 0x81, 0x64};
        memcpy(document + len, head, sizeof(head));
        len += sizeof(head);
        document[len++] = 'r';
        document[len++] = (uint8_t)('0' + i * 2 / 100 % 10);
        document[len++] = (uint8_t)('0' + i * 2 / 10 % 10);
        document[len++] = (uint8_t)('0' + i * 2 % 10);
        document[len++] = 0x18;
        document[len++] = (uint8_t)(1u << i % 7);
    }
    document[len++] = 0xff;
    assert_int_equal(aif_table_make(document, len, arena, &table, &fault), 0);
    assert_int_equal(aif_table_count(table), COUNT);
    for (unsigned i = 0; i < 2 * COUNT; i++) {
        char path[8];
        struct place place;
        snprintf(path, sizeof(path), "r%03u", i % 1000);
        place_set(&place, CRI_SCHEME_COAP, "h", 5683, path, NULL);
        for (uint8_t code = 1; code <= 7; code++) {
            bool is_granted = i % 2 == 0 && code - 1u == i / 2 % 7;
            assert_int_equal(aif_table_permits(table, &place.target, code), is_granted);
        }
    }
    arena_free(arena);
}

static void test_aif_table_malformed_is_refused_with_the_offset(void **state)
{
    static const struct {
        const char *hex;
        size_t offset;
    } bad[] = {
        {"", 0}, {"00", 0}, {"818282", 1}, {"8000", 1}, {"818182ff", 2}, {"9f", 1}, {"a0", 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        uint8_t document[32];
        struct aif_fault fault = {99, NULL};
        const struct aif_table *table = NULL;
        struct config_arena *arena = arena_new();
        size_t len = test_hex(bad[i].hex, document, sizeof(document));
        assert_int_equal(aif_table_make(document, len, arena, &table, &fault), -EINVAL);
        print_message("%s: byte %zu: %s\n", bad[i].hex, fault.offset, fault.what);
        assert_non_null(fault.what);
        assert_int_equal(fault.offset, bad[i].offset);
        assert_null(table);
        arena_free(arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_aif_table_permits),
        cmocka_unit_test(test_aif_table_finds_each_of_many),
        cmocka_unit_test(test_aif_table_malformed_is_refused_with_the_offset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
