/* SPDX-License-Identifier: BSD-2-Clause */
/* CONFORMANCE section 6, without the proxy's part; and copies. */
#include "hex.h"

#include <cri/compare.h>

static const struct {
    const char *id;
    const char *a;
    const char *b;
    bool is_equal;
    bool is_same_uri;
} rows[] = {
    {"CMP-1 long head", "8320816168816170", "833800816168816170", true, true},
    {"CMP-1 long text head", "8220816168",
     "8220817801"
     "68",
     true, true},
    {"CMP-2 port", "8220826168191633", "8220816168", false, false},
    {"CMP-2 path", "83208161688160", "8220816168", false, false},
    {"CMP-3", "8264636f6170816168", "8220816168", false, true},
    {"CMP-3 other name", "8265636f617073816168", "8220816168", false, false},
    {"names",
     "8261"
     "61816168",
     "8261"
     "62816168",
     false, false},
    {"numbers", "8220816168", "8221816168", false, false},
    {"unknown numbers", "823903e7816168", "823903e8816168", false, false},
    {"unknown number and a name", "823903e7816168",
     "8261"
     "61816168",
     false, false},
    {"CMP-8", "8420816168808261616162", "8420816168808261626161", false, false},
    {"prefix of a path", "8320816168816170",
     "832081616882617061"
     "70",
     false, false},
    {"PET-6",
     "842081616880"
     "81836161412361"
     "61",
     "842081616880"
     "816361"
     "2361",
     false, true},
    {"PET and text that differ", "83208161688181413a",
     "8320816168"
     "8161"
     "3a",
     false, false},
    {"PETs that differ",
     "832081616881"
     "82616141ff",
     "832081616881"
     "82616141fe",
     false, false},
    {"PET longer",
     "832081616881"
     "82616141ff",
     "832081616881"
     "83616141ff6162",
     false, false},
    {"PET, other order",
     "832081616881"
     "82616141ff",
     "832081616881"
     "8241ff6161",
     false, false},
    {"PETs alike",
     "832081616881"
     "82616141ff",
     "832081616881"
     "98"
     "02616141ff",
     true, true},
    {"AMB-25", "83208161688162c3a9", "8320816168816365cc81", false, false},
    {"zones", "82208250fe8000000000000000000000000000016465746830",
     "82208250fe8000000000000000000000000000016465746831", false, false},
    {"zone and none", "82208250fe8000000000000000000000000000016465746830",
     "82208150fe800000000000000000000000000001", false, false},
    {"addresses", "82208144c6336401", "82208144c6336402", false, false},
    {"address and name", "82208144c6336401", "8220816168", false, false},
    {"userinfo", "822083f461756168", "822083f461766168", false, false},
    {"userinfo and none", "822083f461756168", "8220816168", false, false},
    {"userinfo, PET",
     "822083f481"
     "41236168",
     "822083f461"
     "236168",
     false, true},
    {"label, PET",
     "822081"
     "8141"
     "3a",
     "8220816"
     "13a",
     false, true},
    {"no authorities", "8320f6816161", "8320f5816161", false, false},
    {"A32 null and empty", "8401f6f66166",
     "8401"
     "80f66166",
     false, false},
    {"A03", "80", "8100", true, true},
    {"discards", "8101", "8102", false, false},
    {"null path in a full CRI", "8420816168f6816171", "842081616880816171", true, true},
};

static void test_compare(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROW_COUNT(rows); i++) {
        struct bytes a_bytes;
        struct bytes b_bytes;
        struct cri a;
        struct cri b;
        decode_hex(rows[i].a, &a_bytes, &a);
        decode_hex(rows[i].b, &b_bytes, &b);
        if (cri_is_equal(&a, &b, true) != rows[i].is_equal ||
            cri_is_equal(&b, &a, false) != rows[i].is_equal ||
            cri_is_same_uri(&a, &b, NULL, true) != rows[i].is_same_uri ||
            cri_is_same_uri(&b, &a, NULL, false) != rows[i].is_same_uri) {
            fail_msg("%s", rows[i].id);
        }
        bytes_free(&a_bytes);
        bytes_free(&b_bytes);
    }
}

/* CMP-4 */
static void test_compare_without_fragment(void **state)
{
    static const char *const fragments[] = {"8220816168", "8520816168808060", "852081616880806166",
                                            "8520816168808081"
                                            "4123",
                                            "85208161688080"
                                            "6123"};
    (void)state;
    for (size_t i = 0; i < ROW_COUNT(fragments); i++) {
        for (size_t k = 0; k < ROW_COUNT(fragments); k++) {
            struct bytes a_bytes;
            struct bytes b_bytes;
            struct cri a;
            struct cri b;
            decode_hex(fragments[i], &a_bytes, &a);
            decode_hex(fragments[k], &b_bytes, &b);
            assert_true(cri_is_equal(&a, &b, false));
            assert_true(cri_is_same_uri(&a, &b, NULL, false));
            assert_int_equal(cri_is_equal(&a, &b, true), i == k);
            /* The last two are "#%23" both. */
            assert_int_equal(cri_is_same_uri(&a, &b, NULL, true), i == k || (i > 2 && k > 2));
            bytes_free(&a_bytes);
            bytes_free(&b_bytes);
        }
    }
}

static void test_copy_outlives_what_it_was_made_of(void **state)
{
    static const char *const hexes[] = {"852085f461756168616919126782616182616241ff8161716166",
                                        "82208250fe8000000000000000000000000000016465746830", "80",
                                        "8561"
                                        "61"
                                        "f5"
                                        "8161"
                                        "61"
                                        "80"
                                        "81"
                                        "41ff"};
    (void)state;
    for (size_t i = 0; i < ROW_COUNT(hexes); i++) {
        struct bytes bytes;
        struct bytes again_bytes;
        struct cri cri;
        struct cri again;
        struct cri *copy = NULL;
        decode_hex(hexes[i], &bytes, &cri);
        assert_int_equal(cri_dup(&cri, &copy), CRI_OK);
        bytes_free(&bytes);
        decode_hex(hexes[i], &again_bytes, &again);
        assert_true(cri_is_equal(copy, &again, true));
        uint8_t buffer[64];
        size_t len;
        assert_int_equal(cri_encode(copy, buffer, sizeof buffer, &len), CRI_OK);
        assert_string_equal(hex_of(buffer, len), hexes[i]);
        cri_free(copy);
        bytes_free(&again_bytes);
    }
    cri_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compare),
        cmocka_unit_test(test_compare_without_fragment),
        cmocka_unit_test(test_copy_outlives_what_it_was_made_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
