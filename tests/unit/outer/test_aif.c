/* SPDX-License-Identifier: BSD-2-Clause */
/* AIF-CRI: the rows of docs/CONFORMANCE.md (AIF-1 to AIF-9, AIF-13, AIF-15) and hostile documents.
 */
#include "support/test.h"

#include <cri/aif.h>
#include <cri/diag.h>

#include <stdio.h>
#include <string.h>

#define BYTES_MAX 4096
#define VALUES_MAX 8

struct bytes {
    uint8_t data[BYTES_MAX];
    size_t len;
};

static struct cri_slice slice_of(const struct bytes *bytes)
{
    return (struct cri_slice){bytes->data, bytes->len};
}

static void from_notation(const char *text, struct bytes *out)
{
    const struct cri_slice slice = {(const uint8_t *)text, strlen(text)};
    assert_int_equal(cri_diag_parse(slice, out->data, sizeof(out->data), &out->len, NULL), CRI_OK);
}

/* "a/b" to two values, "" to none, "/" to two empty ones; for queries "&" in place of "/". */
static size_t split(const char *text, char separator, struct cri_slice values[VALUES_MAX])
{
    size_t count = 0;
    if (text[0] == '\0') {
        return 0;
    }
    for (const char *start = text;; start++) {
        const char *end = strchr(start, separator);
        const size_t len = end != NULL ? (size_t)(end - start) : strlen(start);
        values[count++] = (struct cri_slice){(const uint8_t *)start, len};
        if (end == NULL) {
            return count;
        }
        start = end;
    }
}

static uint64_t methods_for(const char *document, const char *path, const char *query)
{
    struct bytes encoded;
    struct cri_slice paths[VALUES_MAX];
    struct cri_slice queries[VALUES_MAX];
    from_notation(document, &encoded);
    return cri_aif_methods(slice_of(&encoded), false, paths, split(path, '/', paths), queries,
                           split(query, '&', queries));
}

/* AIF-1, AIF-3, AIF-4, AIF-6, AIF-7, AIF-8, AIF-9, AIF-13 */
static void test_what_is_granted(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *document;
        const char *path;
        const char *query;
        uint64_t methods;
    } rows[] = {
        {"AIF-1: exact path", "[[[[\"s\", \"temp\"]], 1]]", "s/temp", "", CRI_AIF_GET},
        {"AIF-3: no prefix", "[[[[\"s\"]], 1]]", "s/temp", "", 0},
        {"AIF-3: no parent", "[[[[\"s\", \"temp\"]], 1]]", "s", "", 0},
        {"AIF-3: no query added", "[[[[\"s\"]], 1]]", "s", "x", 0},
        {"AIF-3: no query left out", "[[[[\"s\"], [\"x\"]], 1]]", "s", "", 0},
        {"AIF-3: order of the query", "[[[[\"s\"], [\"x\", \"y\"]], 1]]", "s", "y&x", 0},
        {"exact query", "[[[[\"s\"], [\"x\", \"y\"]], 5]]", "s", "x&y", CRI_AIF_GET | CRI_AIF_PUT},
        {"case counts", "[[[[\"S\"]], 1]]", "s", "", 0},
        {"AIF-4: an empty query is none", "[[[[\"s\"], []], 2]]", "s", "", CRI_AIF_POST},
        {"AIF-6: text-pet-sequences are inert", "[[[[[\"s\", h'3b']]], 1]]", "s;", "", 0},
        {"AIF-7: empty path", "[[[[]], 1]]", "", "", CRI_AIF_GET},
        {"AIF-7: lone empty segment", "[[[[\"\"]], 1]]", "", "", CRI_AIF_GET},
        {"AIF-7: but not two", "[[[[\"\", \"\"]], 1]]", "", "", 0},
        {"two empty segments", "[[[[\"\", \"\"]], 1]]", "/", "", CRI_AIF_GET},
        {"empty segment at the end", "[[[[\"s\"]], 1]]", "s/", "", 0},
        {"AIF-8: union of the bits", "[[[[\"s\"]], 1], [[[\"t\"]], 2], [[[\"s\"]], 4]]", "s", "",
         CRI_AIF_GET | CRI_AIF_PUT},
        {"AIF-13: nothing granted", "[]", "s", "", 0},
        {"AIF-15: indefinite outer arrays", "[_ [_ [[\"s\"]], 1]]", "s", "", CRI_AIF_GET},
        {"dynamic bits", "[[[[\"s\"]], 4294967297]]", "s", "",
         CRI_AIF_GET | CRI_AIF_GET << CRI_AIF_DYNAMIC_SHIFT},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        print_message("%s\n", rows[i].name);
        assert_int_equal(methods_for(rows[i].document, rows[i].path, rows[i].query),
                         rows[i].methods);
    }
}

/* A lone empty Uri-Path is no path: RFC 7252 section 6.5. */
static void test_lone_empty_uri_path_is_none(void **state)
{
    (void)state;
    struct bytes encoded;
    const struct cri_slice empty = {(const uint8_t *)"", 0};
    from_notation("[[[[]], 1]]", &encoded);
    assert_int_equal(cri_aif_methods(slice_of(&encoded), false, &empty, 1, NULL, 0), CRI_AIF_GET);
}

/* AIF-2, AIF-9 */
static void test_methods_are_bits(void **state)
{
    (void)state;
    assert_true(cri_aif_permits(CRI_AIF_GET, 1));
    assert_true(cri_aif_permits(CRI_AIF_IPATCH, 7));
    assert_false(cri_aif_permits(CRI_AIF_GET, 2));
    assert_false(cri_aif_permits(UINT64_MAX, 0));
    assert_false(cri_aif_permits(UINT64_MAX, 32));
    /* Dynamic-GET is no GET, and an unknown bit is no method. */
    assert_false(cri_aif_permits(UINT64_C(1) << 32, 1));
    assert_false(cri_aif_permits(UINT64_C(1) << 40, 1));
}

/* AIF-5: each of these stands between two good entries. */
static void test_a_faulty_entry_counts_for_nothing_and_the_rest_does(void **state)
{
    (void)state;
    static const struct {
        const char *entry;
        enum cri_error error;
        size_t offset; /* from the start of the entry */
    } rows[] = {
        {"[[[\".\"]], 1]", CRI_ERR_PATH, 3},
        {"[[[\"a\"], [1]], 1]", CRI_ERR_STRUCTURE, 6},
        {"[[null], 1]", CRI_ERR_STRUCTURE, 2},
        {"[[[\"a\"], null], 1]", CRI_ERR_STRUCTURE, 5},
        {"[[[\"a\"], [], \"f\"], 1]", CRI_ERR_STRUCTURE, 1},
        {"[[], 1]", CRI_ERR_STRUCTURE, 1},
        {"[\"/a\", 1]", CRI_ERR_STRUCTURE, 1},
        {"[[[\"a\"]], -1]", CRI_ERR_STRUCTURE, 5},
        {"[[[\"a\"]], [1]]", CRI_ERR_STRUCTURE, 5},
        {"[[[\"a\"]]]", CRI_ERR_STRUCTURE, 0},
        {"[[[\"a\"]], 1, 1]", CRI_ERR_STRUCTURE, 0},
        {"[_ [[\"a\"]]]", CRI_ERR_STRUCTURE, 5},
        {"[_ [[\"a\"]], 1, 1]", CRI_ERR_STRUCTURE, 6},
        {"[_ ]", CRI_ERR_CBOR, 1},
        {"[[_ [\"a\"]], 1]", CRI_ERR_INDEFINITE, 1},
        {"[[[_ \"a\"]], 1]", CRI_ERR_INDEFINITE, 2},
        {"[[[(_ \"a\")]], 1]", CRI_ERR_INDEFINITE, 3},
        {"[[[[\"a\"]]], 1]", CRI_ERR_PET, 3},
        {"{1: {2: [3, 99(4)]}}", CRI_ERR_STRUCTURE, 0},
        {"99([[[\"a\"]], 1])", CRI_ERR_STRUCTURE, 0},
        {"18([[[\"a\"]], 1])", CRI_ERR_STRUCTURE, 0},
        {"[[[6(\"a\")]], 1]", CRI_ERR_TAG, 3},
        {"\"text\"", CRI_ERR_STRUCTURE, 0},
        {"0", CRI_ERR_STRUCTURE, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char document[256];
        struct bytes encoded;
        struct cri_aif aif;
        struct cri_aif_entry entry;
        print_message("%s\n", rows[i].entry);
        (void)snprintf(document, sizeof(document), "[[[[\"good\"]], 1], %s, [[[\"last\"]], 2]]",
                       rows[i].entry);
        from_notation(document, &encoded);
        assert_int_equal(cri_aif_init(&aif, slice_of(&encoded), false, NULL), CRI_OK);
        assert_true(cri_aif_next(&aif, &entry));
        assert_int_equal(entry.error, CRI_OK);
        assert_int_equal(entry.offset, 1);
        assert_true(cri_aif_next(&aif, &entry));
        assert_int_equal(entry.error, rows[i].error);
        assert_int_equal(entry.offset, 10);
        assert_int_equal(entry.fault.offset, entry.offset + rows[i].offset);
        assert_non_null(entry.fault.rule);
        assert_false(cri_aif_entry_matches(&entry, NULL, 0, NULL, 0));
        assert_true(cri_aif_next(&aif, &entry));
        assert_int_equal(entry.error, CRI_OK);
        assert_int_equal(entry.methods, CRI_AIF_POST);
        assert_false(cri_aif_next(&aif, &entry));
        assert_int_equal(methods_for(document, "last", ""), CRI_AIF_POST);
    }
}

/* AIF-4 under strict checking */
static void test_strict_refuses_more(void **state)
{
    (void)state;
    static const char *const rows[] = {"8182828161618001", "81828181616118 01", "818281817801 6101",
                                       "8182818163 65cc81 01"};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct bytes encoded;
        struct cri_aif aif;
        struct cri_aif_entry entry;
        encoded.len = test_hex(rows[i], encoded.data, sizeof(encoded.data));
        assert_int_equal(cri_aif_init(&aif, slice_of(&encoded), false, NULL), CRI_OK);
        assert_true(cri_aif_next(&aif, &entry));
        assert_int_equal(entry.error, CRI_OK);
        assert_int_equal(cri_aif_init(&aif, slice_of(&encoded), true, NULL), CRI_OK);
        assert_true(cri_aif_next(&aif, &entry));
        assert_int_not_equal(entry.error, CRI_OK);
    }
}

static void test_what_is_no_document_grants_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *hex;
        enum cri_error error;
        size_t offset;
    } rows[] = {
        {"", CRI_ERR_TRUNCATED, 0},
        {"00", CRI_ERR_STRUCTURE, 0},
        {"a0", CRI_ERR_STRUCTURE, 0},
        {"bfff", CRI_ERR_STRUCTURE, 0},
        {"5fff", CRI_ERR_STRUCTURE, 0},
        {"d86380", CRI_ERR_STRUCTURE, 0},
        {"81", CRI_ERR_TRUNCATED, 0},
        {"9f", CRI_ERR_TRUNCATED, 1},
        {"8182818161", CRI_ERR_TRUNCATED, 4},
        {"8000", CRI_ERR_TRAILING_BYTES, 1},
        {"9fff00", CRI_ERR_TRAILING_BYTES, 2},
        {"ff", CRI_ERR_CBOR, 0},
        {"81ff", CRI_ERR_CBOR, 1},
        {"811c", CRI_ERR_CBOR, 1},
        {"81bf01ff", CRI_ERR_CBOR, 3},
        {"815f01ff", CRI_ERR_CBOR, 2},
        {"815f6161ff", CRI_ERR_CBOR, 2},
        {"817f7fffff", CRI_ERR_CBOR, 2},
        {"9b8000000000000000", CRI_ERR_TRUNCATED, 0},
        {"81bbffffffffffffffff", CRI_ERR_TRUNCATED, 1},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct bytes encoded;
        struct cri_aif aif;
        struct cri_fault fault = {0};
        print_message("%s\n", rows[i].hex);
        encoded.len = test_hex(rows[i].hex, encoded.data, sizeof(encoded.data));
        assert_int_equal(cri_aif_init(&aif, slice_of(&encoded), false, &fault), rows[i].error);
        assert_int_equal(fault.offset, rows[i].offset);
        assert_non_null(fault.rule);
        assert_int_equal(cri_aif_methods(slice_of(&encoded), false, NULL, 0, NULL, 0), 0);
    }
}

static void test_nesting_is_bounded(void **state)
{
    (void)state;
    static uint8_t encoded[10001];
    static const size_t depths[] = {CRI_AIF_DEPTH_MAX, CRI_AIF_DEPTH_MAX + 1, 10000};
    for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
        struct cri_aif aif;
        struct cri_fault fault = {0};
        memset(encoded, 0x81, depths[i]);
        encoded[depths[i]] = 0x00;
        assert_int_equal(
            cri_aif_init(&aif, (struct cri_slice){encoded, depths[i] + 1}, false, &fault),
            i == 0 ? CRI_OK : CRI_ERR_STRUCTURE);
        assert_int_equal(fault.offset, i == 0 ? 0 : CRI_AIF_DEPTH_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_granted),
        cmocka_unit_test(test_lone_empty_uri_path_is_none),
        cmocka_unit_test(test_methods_are_bits),
        cmocka_unit_test(test_a_faulty_entry_counts_for_nothing_and_the_rest_does),
        cmocka_unit_test(test_strict_refuses_more),
        cmocka_unit_test(test_what_is_no_document_grants_nothing),
        cmocka_unit_test(test_nesting_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
