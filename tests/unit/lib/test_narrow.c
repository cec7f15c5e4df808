/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CRI-40 where size_t has 32 bits, on any machine: the linker puts the function below in the
 * place of libcbor's decoder (--wrap). It takes the counts and lengths of eight bytes for
 * what libcbor makes of them on a 32-bit machine, their lower half.
 */
#include "hex.h"

#include <cri/aif.h>
#include <cri/cori.h>
#include <cri/standin.h>

#include <cbor.h>

#define INFO_8_BYTES 27u
#define SHORT_INPUT_MAX 64u

struct cbor_decoder_result __real_cbor_stream_decode(cbor_data source, size_t len,
                                                     const struct cbor_callbacks *callbacks,
                                                     void *context);
struct cbor_decoder_result __wrap_cbor_stream_decode(cbor_data source, size_t len,
                                                     const struct cbor_callbacks *callbacks,
                                                     void *context);

struct cbor_decoder_result __wrap_cbor_stream_decode(cbor_data source, size_t len,
                                                     const struct cbor_callbacks *callbacks,
                                                     void *context)
{
    static uint8_t narrowed[SHORT_INPUT_MAX]; /* Strings are borrowed from it. */
    unsigned major = len > 0 ? (unsigned)source[0] >> 5 : 0;

    if (len < 9 || len > sizeof narrowed || major < 2 || major > 5 ||
        (source[0] & 0x1fu) != INFO_8_BYTES) {
        return __real_cbor_stream_decode(source, len, callbacks, context);
    }
    memcpy(narrowed, source, len);
    memset(narrowed + 1, 0, 4);
    return __real_cbor_stream_decode(narrowed, len, callbacks, context);
}

/* Each holds a count or a length of 2^32 and more, whose lower half would be right. */
static const struct {
    const char *id;
    const char *hex;
} rows[] = {
    {"labels", "82209b00000001000000016161"},
    {"sections", "9b00000001000000022081"
                 "6161"},
    {"segments", "83208161689b00000001000000016161"},
    {"no segments", "83208161689b0000000100000000"},
    {"parameters", "8420816168809b00000001000000016161"},
    {"label", "8220817b000000010000000161"},
    {"empty label", "8220817b0000000100000000"},
    {"scheme name", "827b000000010000000161816168"},
    {"address", "8220815b0000000100000004c0000201"},
    {"pieces", "83208161688"
               "19b000000010000000141ff"},
    {"fragment", "8401f6f67b000000010000000161"},
    {"map", "bb00000001000000016161f6"},
};

static void assert_truncated(const char *id, enum cri_error error)
{
    if (error != CRI_ERR_TRUNCATED) {
        fail_msg("%s: %s", id, cri_strerror(error));
    }
}

static void test_counts_and_lengths_are_judged_before_they_are_narrowed(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROW_COUNT(rows); i++) {
        struct bytes bytes = bytes_from_hex(rows[i].hex);
        struct cri_slice encoded = bytes_slice(&bytes);
        struct cri cri;
        size_t len;
        uint8_t out[64];
        if (encoded.data[0] >> 5 == 4) {
            assert_truncated(rows[i].id, cri_decode(encoded, NULL, &cri, NULL));
        }
        assert_truncated(rows[i].id, cri_skip(encoded, &len, NULL));
        assert_truncated(rows[i].id, cri_decode_next(&encoded, NULL, &cri, NULL, NULL));
        assert_truncated(rows[i].id, cri_expand_stand_ins(encoded, 0, out, sizeof out, &len, NULL));
        bytes_free(&bytes);
    }
}

static void test_the_older_form_is_judged_alike(void **state)
{
    struct bytes bytes = bytes_from_hex("9b0000000100000002016161");
    struct cri_cori cori;
    (void)state;
    assert_truncated("cori", cri_cori_decode(bytes_slice(&bytes), &cori, NULL));
    bytes_free(&bytes);
}

static void test_access_rules_are_judged_alike(void **state)
{
    struct bytes bytes = bytes_from_hex("9b0000000100000001828181616101");
    struct cri_aif aif;
    (void)state;
    assert_truncated("aif", cri_aif_init(&aif, bytes_slice(&bytes), false, NULL));
    bytes_free(&bytes);
}

static void test_eight_bytes_for_what_follows_are_fine(void **state)
{
    struct bytes bytes;
    struct cri cri;
    (void)state;
    decode_hex("83209b00000000000000017b000000000000000161"
               "9b0000000000000001616"
               "2",
               &bytes, &cri);
    assert_int_equal(cri.labels.count, 1);
    assert_int_equal(cri.path.count, 1);
    bytes_free(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_and_lengths_are_judged_before_they_are_narrowed),
        cmocka_unit_test(test_the_older_form_is_judged_alike),
        cmocka_unit_test(test_access_rules_are_judged_alike),
        cmocka_unit_test(test_eight_bytes_for_what_follows_are_fine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
