/* SPDX-License-Identifier: BSD-2-Clause */
/* Section 3, CMP-11: what a creator may do to user input. */
#include "hex.h"

#include <cri/normalize.h>

#include <stdlib.h>

static const struct {
    const char *id;
    const char *hex;
    const char *normalized; /* NULL: fails */
    enum cri_error error;
} rows[] = {
    {"scheme name", "8263466f6f816168", "8263666f6f816168", CRI_OK},
    {"host in capitals", "822082674578616d706c6563636f6d", "822082676578616d706c6563636f6d",
     CRI_OK},
    {"dots", "8223816c6578616d706c652e636f6d2e", "822383676578616d706c6563636f6d60", CRI_OK},
    {"dots beside bytes",
     "82238183"
     "62612e41ff632e6262",
     "82238361618141ff626262", CRI_OK},
    {"dots around bytes",
     "82238183"
     "63612e6241ff63632e64",
     "8223836161836162"
     "41ff61636164",
     CRI_OK},
    {"capitals beside bytes",
     "822381"
     "82614141ff",
     "822381"
     "82616141ff",
     CRI_OK},
    {"only dots",
     "8223816"
     "22e2e",
     "822383606060", CRI_OK},
    {"default port", "8420826168191633816339793182623e3060", "8420816168816339793182623e3060",
     CRI_OK},
    {"default port of a name",
     "82"
     "64636f6170"
     "826168191633",
     "82"
     "64636f6170"
     "816168",
     CRI_OK},
    {"other port",
     "82218261681"
     "91633",
     "82218261681"
     "91633",
     CRI_OK},
    {"port of a reference", "82f6826168191633", "82f6826168191633", CRI_OK},
    {"path", "8320816168816365cc81", "83208161688162c3a9", CRI_OK},
    {"query",
     "84208161688081"
     "6365cc81",
     "84208161688081"
     "62c3a9",
     CRI_OK},
    {"fragment",
     "8520816168808063"
     "65cc81",
     "8520816168808062"
     "c3a9",
     CRI_OK},
    {"text beside bytes",
     "832081616881"
     "826365cc8141ff",
     "832081616881"
     "8262c3a941ff",
     CRI_OK},
    {"host", "8220816375cc88", "82208162c3bc", CRI_OK},
    {"Kelvin sign in a host", "82208163e284aa",
     "8220816"
     "16b",
     CRI_OK},
    {"Kelvin sign in a path",
     "832081616881"
     "63e284aa",
     "832081616881"
     "614b",
     CRI_OK},
    {"a capital that composes as a small letter",
     "8220816"
     "354cc88",
     "82208163e1ba97", CRI_OK},
    {"a capital that composes stays what it is composed to", "8220816345cc81", "82208162c389",
     CRI_OK},
    {"the same, composed", "82208162c389", "82208162c389", CRI_OK},
    {"order of marks",
     "832081616881"
     "6561cc81cca3",
     "832081616881"
     "65e1baa1cc81",
     CRI_OK},
    {"Hangul",
     "832081616881"
     "66e18480e185a1",
     "832081616881"
     "63eab080",
     CRI_OK},
    {"userinfo stays", "822083f46365cc816168", "822083f46365cc816168", CRI_OK},
    {"zone stays", "82208250fe8000000000000000000000000000016365cc81",
     "82208250fe8000000000000000000000000000016365cc81", CRI_OK},
    {"trailing empty arrays", "84208161688080", "8220816168", CRI_OK},
    {"long heads", "9802380098016168", "8220816168", CRI_OK},
    {"discard 0", "8100", "80", CRI_OK},
    {"discard true",
     "83f58160"
     "80",
     "82f58160", CRI_OK},
    {"rootless", "836161f5816162", "836161f5816162", CRI_OK},
    {"no authority",
     "846161f6"
     "816162"
     "8161"
     "71",
     "846161f6"
     "816162"
     "8161"
     "71",
     CRI_OK},
    {"null in a reference", "8401f6f66166", "8401f6f66166", CRI_OK},
    {"trailing null", "8220f6", NULL, CRI_ERR_TRAILING_DEFAULT},
    {"dot-segment", "832081616881622e2e", NULL, CRI_ERR_PATH},
    {"an address in one label", "822081693132372e302e302e31", NULL, CRI_ERR_HOST},
    {"no scheme name",
     "82"
     "615f"
     "816168",
     NULL, CRI_ERR_SCHEME},
    {"no CRI", "00", NULL, CRI_ERR_STRUCTURE},
};

static void test_normalize(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROW_COUNT(rows); i++) {
        struct bytes bytes = bytes_from_hex(rows[i].hex);
        uint8_t buffer[128];
        size_t len = 0;
        struct cri_fault fault = {0, NULL};
        enum cri_error error =
            cri_normalize(bytes_slice(&bytes), NULL, buffer, sizeof buffer, &len, &fault);
        const char *got = error == CRI_OK ? hex_of(buffer, len) : "";
        const char *wanted = rows[i].normalized == NULL ? "" : rows[i].normalized;
        if (error != rows[i].error || strcmp(got, wanted) != 0 ||
            (error != CRI_OK && fault.rule == NULL)) {
            fail_msg("%s: %s %s", rows[i].id, cri_strerror(error), got);
        }
        if (error == CRI_OK) {
            size_t needed;
            assert_int_equal(cri_normalize(bytes_slice(&bytes), NULL, NULL, 0, &needed, &fault),
                             CRI_ERR_SPACE);
            assert_int_equal(needed, len);
        }
        bytes_free(&bytes);
    }
}

/* [-1, ["h"], [text]], text being a letter and count times a mark. */
static struct bytes marked(size_t count)
{
    struct bytes front = bytes_from_hex("83208161688179");
    struct bytes bytes = {malloc(front.len + 3 + 2 * count), front.len + 3 + 2 * count};
    assert_non_null(bytes.data);
    memcpy(bytes.data, front.data, front.len);
    bytes.data[front.len] = (uint8_t)((1 + 2 * count) >> 8);
    bytes.data[front.len + 1] = (uint8_t)((1 + 2 * count) & 0xff);
    bytes.data[front.len + 2] = 'q';
    for (size_t i = 0; i < count; i++) {
        memcpy(bytes.data + front.len + 3 + 2 * i, i % 2 == 0 ? "\xcc\x81" : "\xcc\xa3", 2);
    }
    bytes_free(&front);
    return bytes;
}

/* Sorting many marks would not be linear; 31 is one more than Stream-Safe text has. */
static void test_normalize_stops_at_31_marks(void **state)
{
    static uint8_t buffer[4096];
    (void)state;
    for (size_t count = 29; count <= 1000; count += count < 33 ? 1 : 900) {
        struct bytes bytes = marked(count);
        size_t len;
        struct cri cri;
        const struct cri_decode_options strict = {.strict = true};
        enum cri_error error =
            cri_normalize(bytes_slice(&bytes), NULL, buffer, sizeof buffer, &len, NULL);
        assert_int_equal(error, count <= 31 ? CRI_OK : CRI_ERR_NFC);
        assert_int_equal(cri_decode(bytes_slice(&bytes), NULL, &cri, NULL), CRI_OK);
        assert_int_equal(cri_decode(bytes_slice(&bytes), &strict, &cri, NULL),
                         2 * count > 255 ? CRI_ERR_NFC : CRI_ERR_NOT_STRICT);
        bytes_free(&bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_normalize),
        cmocka_unit_test(test_normalize_stops_at_31_marks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
