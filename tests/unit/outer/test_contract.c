/* SPDX-License-Identifier: BSD-2-Clause */
/* Rows of docs/CONFORMANCE.md that are about calling libcri, which the cri tool cannot show. */
#include "support/test.h"

#include <cri/coap.h>
#include <cri/resolve.h>

#include <stdlib.h>
#include <string.h>

#define BYTES_MAX 4096

struct bytes {
    uint8_t data[BYTES_MAX];
    size_t len;
};

static struct cri_slice from_hex(const char *hex, struct bytes *out)
{
    out->len = test_hex(hex, out->data, sizeof(out->data));
    return (struct cri_slice){out->data, out->len};
}

/* FEAT-6: unsupported, with its own class, and only when the rest is in order. */
static void test_a_feature_that_is_off_is_unsupported(void **state)
{
    (void)state;
    static const struct {
        uint32_t feature;
        const char *uses;     /* it, and nothing else */
        const char *also_bad; /* uses it and is malformed behind that */
    } rows[] = {
        {CRI_FEATURE_SCHEME_NAME, "82 63666f6f 816168", "82 63666f6f 00"},
        {CRI_FEATURE_NO_AUTHORITY, "83 25 f5 816161", "83 25 f5 8101"},
        {CRI_FEATURE_USERINFO, "82 23 83f461756168", "82 23 83f46175612e"},
        {CRI_FEATURE_TEXT_OR_PET, "83 20 816168 81826161413b", "83 20 816168 82826161413b00"},
        {CRI_FEATURE_ZONE_ID, "82 20 8250fe8000000000000000000000000000016161",
         "82 20 8350fe800000000000000000000000000001616100f6"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct bytes bytes;
        struct cri cri;
        struct cri_fault fault = {0};
        const struct cri_decode_options off = {.features_off = rows[i].feature};
        const struct cri_decode_options only = {.features_off = ~rows[i].feature};
        const struct cri_slice uses = from_hex(rows[i].uses, &bytes);
        assert_int_equal(cri_decode(uses, &only, &cri, &fault), CRI_OK);
        assert_int_equal(cri.features, rows[i].feature);
        const enum cri_error error = cri_decode(uses, &off, &cri, &fault);
        assert_int_equal(error, CRI_ERR_FEATURE);
        assert_int_equal(cri_error_class(error), CRI_CLASS_UNSUPPORTED);
        assert_non_null(fault.rule);
        const struct cri_slice also_bad = from_hex(rows[i].also_bad, &bytes);
        assert_int_not_equal(cri_error_class(cri_decode(also_bad, &off, &cri, &fault)),
                             CRI_CLASS_UNSUPPORTED);
    }
}

/* CRI-42, CRI-43: skipped whole; its bytes are known, and no part of it is given out. */
static void test_an_unprocessable_cri_is_skipped_and_stays_opaque(void **state)
{
    (void)state;
    struct bytes bytes;
    struct cri_slice rest = from_hex("82208163612e62 8220816168", &bytes);
    struct cri_slice item = {0};
    struct cri cri;
    struct cri untouched;
    memset(&cri, 0x5a, sizeof(cri));
    memcpy(&untouched, &cri, sizeof(cri));
    assert_int_equal(cri_decode_next(&rest, NULL, &cri, &item, NULL), CRI_ERR_HOST);
    assert_memory_equal(&cri, &untouched, sizeof(cri));
    assert_int_equal(item.len, 7);
    assert_ptr_equal(item.data, bytes.data);
    assert_int_equal(rest.len, 5);
    assert_int_equal(cri_decode_next(&rest, NULL, &cri, &item, NULL), CRI_OK);
    assert_true(cri_is_full(&cri));
    assert_int_equal(rest.len, 0);
}

/* O2C-11: values that are not UTF-8 make no CRI. */
static void test_options_that_are_not_utf8_are_refused(void **state)
{
    (void)state;
    static const uint16_t numbers[] = {CRI_OPTION_URI_HOST, CRI_OPTION_URI_PATH,
                                       CRI_OPTION_URI_QUERY};
    const struct cri_destination destination = {.ip = {192, 0, 2, 1}, .ip_len = 4, .port = 5683};
    const struct cri_composition composition = {.destination = &destination};
    static const uint8_t bad[] = {'a', 0xff};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        const struct cri_option option = {.number = numbers[i], .value = {bad, sizeof(bad)}};
        uint8_t out[64];
        size_t len = 0;
        struct cri_fault fault = {0};
        const enum cri_error error =
            cri_from_options(&composition, &option, 1, out, sizeof(out), &len, &fault);
        assert_int_not_equal(error, CRI_OK);
        assert_int_not_equal(error, CRI_ERR_SPACE);
        assert_non_null(fault.rule);
    }
}

/* RES-15: the result is at most as long as both inputs, 16 bytes more, and the size is exact. */
static void test_resolution_needs_no_more_than_both_inputs(void **state)
{
    (void)state;
    static const char *const references[] = {"81187f", "80", "8200816178", "820181 6178"};
    struct bytes base_bytes = {.data = {0x83, 0x20, 0x81, 0x61, 'h', 0x99, 400 >> 8, 400 & 0xff}};
    base_bytes.len = 8;
    for (int i = 0; i < 400; i++) {
        base_bytes.data[base_bytes.len++] = 0x61;
        base_bytes.data[base_bytes.len++] = 's';
    }
    struct cri base;
    assert_int_equal(
        cri_decode((struct cri_slice){base_bytes.data, base_bytes.len}, NULL, &base, NULL), CRI_OK);
    for (size_t i = 0; i < sizeof(references) / sizeof(references[0]); i++) {
        struct bytes bytes;
        struct cri reference;
        size_t len = 0;
        size_t again = 0;
        const struct cri_slice slice = from_hex(references[i], &bytes);
        assert_int_equal(cri_decode(slice, NULL, &reference, NULL), CRI_OK);
        assert_int_equal(cri_resolve(&base, &reference, NULL, 0, &len, NULL), CRI_ERR_SPACE);
        assert_true(len <= base_bytes.len + slice.len + 16);
        uint8_t *exact = malloc(len);
        assert_non_null(exact);
        assert_int_equal(cri_resolve(&base, &reference, exact, len, &again, NULL), CRI_OK);
        assert_int_equal(again, len);
        free(exact);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_feature_that_is_off_is_unsupported),
        cmocka_unit_test(test_an_unprocessable_cri_is_skipped_and_stays_opaque),
        cmocka_unit_test(test_options_that_are_not_utf8_are_refused),
        cmocka_unit_test(test_resolution_needs_no_more_than_both_inputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
