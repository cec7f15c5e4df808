/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Large and hostile input: everything ends, without depth, without much stack, and
 * in time that grows as the input does. Nothing is timed here; what would be
 * quadratic takes minutes at these sizes, and the test's time-out finds it.
 */
#include "hex.h"

#include <cri/compare.h>
#include <cri/iri.h>
#include <cri/normalize.h>
#include <cri/resolve.h>

#include <stdlib.h>

#define LARGE (1u << 20)

static uint8_t *allocate(size_t len)
{
    uint8_t *data = malloc(len);
    assert_non_null(data);
    return data;
}

/* CRI-41 */
static void test_nested_arrays_are_an_error(void **state)
{
    static const size_t depths[] = {1023, 10000, LARGE};
    (void)state;
    for (size_t i = 0; i < ROW_COUNT(depths); i++) {
        uint8_t *data = allocate(depths[i]);
        memset(data, 0x81, depths[i]);
        struct cri_slice encoded = {data, depths[i]};
        struct cri cri;
        size_t extent;
        uint8_t out[16];
        assert_int_not_equal(cri_decode(encoded, NULL, &cri, NULL), CRI_OK);
        assert_int_equal(cri_skip(encoded, &extent, NULL), CRI_ERR_TRUNCATED);
        assert_int_not_equal(cri_normalize(encoded, NULL, out, sizeof out, &extent, NULL), CRI_OK);
        data[depths[i] - 1] = 0x80;
        assert_int_equal(cri_skip(encoded, &extent, NULL), CRI_OK);
        assert_int_equal(extent, depths[i]);
        assert_int_not_equal(cri_decode(encoded, NULL, &cri, NULL), CRI_OK);
        free(data);
    }
}

/* [-1, ["h"], [count times "a"]] */
static struct bytes wide(size_t count)
{
    static const uint8_t front[] = {0x83, 0x20, 0x81, 0x61, 'h', 0x9a};
    struct bytes bytes = {allocate(sizeof front + 4 + 2 * count), sizeof front + 4 + 2 * count};
    memcpy(bytes.data, front, sizeof front);
    for (size_t i = 0; i < 4; i++) {
        bytes.data[sizeof front + i] = (uint8_t)(count >> (24 - 8 * i));
    }
    for (size_t i = 0; i < count; i++) {
        memcpy(bytes.data + sizeof front + 4 + 2 * i, "aa", 2);
        bytes.data[sizeof front + 4 + 2 * i] = 0x61;
    }
    return bytes;
}

static void test_long_lists_are_handled_in_linear_time(void **state)
{
    struct bytes bytes = wide(LARGE);
    struct bytes reference_bytes = bytes_from_hex("82187f8161"
                                                  "62"); /* RES-15 */
    struct cri cri;
    struct cri reference;
    struct cri result;
    const size_t capacity = 4 * bytes.len;
    uint8_t *buffer = allocate(capacity);
    uint8_t *second = allocate(capacity);
    size_t len;
    size_t second_len;
    (void)state;
    assert_int_equal(cri_decode(bytes_slice(&bytes), NULL, &cri, NULL), CRI_OK);
    assert_int_equal(cri.path.count, LARGE);
    assert_int_equal(cri_encode(&cri, buffer, capacity, &len), CRI_OK);
    assert_int_equal(cri_normalize(bytes_slice(&bytes), NULL, buffer, capacity, &len, NULL),
                     CRI_OK);
    assert_int_equal(cri_uri_format(&cri, NULL, (char *)buffer, capacity, &len, NULL), CRI_OK);
    assert_int_equal(
        cri_uri_parse((struct cri_slice){buffer, len}, NULL, second, capacity, &second_len, NULL),
        CRI_OK);
    assert_int_equal(cri_decode(bytes_slice(&reference_bytes), NULL, &reference, NULL), CRI_OK);
    assert_int_equal(cri_resolve(&cri, &reference, buffer, capacity, &len, NULL), CRI_OK);
    assert_int_equal(cri_decode((struct cri_slice){buffer, len}, NULL, &result, NULL), CRI_OK);
    assert_int_equal(result.path.count, LARGE - 126);
    assert_int_equal(cri_relate(&cri, &result, second, capacity, &second_len, NULL), CRI_OK);
    assert_int_equal(second_len, 6);
    assert_true(cri_is_equal(&cri, &cri, true) && cri_is_same_uri(&cri, &cri, NULL, true));
    free(buffer);
    free(second);
    bytes_free(&bytes);
    bytes_free(&reference_bytes);
}

/* prefix, and a piece as often as it fits into len. */
static struct bytes repeated(const char *prefix, const char *piece, size_t len)
{
    struct bytes bytes = {allocate(len), strlen(prefix)};
    memcpy(bytes.data, prefix, bytes.len);
    while (bytes.len + strlen(piece) <= len) {
        memcpy(bytes.data + bytes.len, piece, strlen(piece));
        bytes.len += strlen(piece);
    }
    return bytes;
}

static void test_long_uris_are_parsed_in_linear_time(void **state)
{
    static const char *const pieces[] = {"a/",  "../", "./",   "%2e%2e/", "a/../",   "/",
                                         "%ff", "%c3", "a%ff", "%F0%9F",  "a&",      "a.",
                                         "%2e", "&",   ":",    "@",       "\xc3\xa9"};
    static const char *const prefixes[] = {"", "/", "coap://h/", "coap://", "//u@", "?", "#", "a:"};
    const size_t capacity = 2 * LARGE;
    uint8_t *buffer = allocate(capacity);
    (void)state;
    for (size_t p = 0; p < ROW_COUNT(prefixes); p++) {
        for (size_t i = 0; i < ROW_COUNT(pieces); i++) {
            struct bytes bytes = repeated(prefixes[p], pieces[i], LARGE / 4);
            struct cri cri;
            size_t len;
            enum cri_error error =
                cri_iri_parse(bytes_slice(&bytes), NULL, buffer, capacity, &len, NULL);
            if (error == CRI_OK) {
                assert_int_equal(cri_decode((struct cri_slice){buffer, len}, NULL, &cri, NULL),
                                 CRI_OK);
            }
            bytes_free(&bytes);
        }
    }
    free(buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nested_arrays_are_an_error),
        cmocka_unit_test(test_long_lists_are_handled_in_linear_time),
        cmocka_unit_test(test_long_uris_are_parsed_in_linear_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
