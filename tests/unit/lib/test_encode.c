/* SPDX-License-Identifier: BSD-2-Clause */
/* CRI-44, CRI-45: the interchange form, out of any spelling and out of a struct by hand. */
#include "hex.h"

static const struct {
    const char *id;
    const char *hex;
    const char *canonical;
} rows[] = {
    {"CRI-6 long heads", "980220816168", "8220816168"},
    {"CRI-6 long lengths",
     "9a00000002"
     "3b0000000000000000"
     "9b0000000000000001"
     "7900"
     "0168",
     "8220816168"},
    {"CRI-14", "8100", "80"},
    {"CRI-28 path", "832081616880", "8220816168"},
    {"CRI-28 both", "84208161688080", "8220816168"},
    {"CRI-29", "8300f680", "8300f680"},
    {"AMB-5 path", "820080", "820080"},
    {"A02 path behind discard 1", "820180", "8101"},
    {"A02 query behind a path",
     "8300816"
     "170"
     "80",
     "82008"
     "16170"},
    {"CRI-30", "8420816168f6816171", "842081616880816171"},
    {"CRI-30 query", "8520816168816170f66166",
     "852081616881617080"
     "6166"},
    {"null stays in references", "8401f6f66166", "8401f6f66166"},
    {"net path", "83f681616880", "82f6816168"},
    {"PET",
     "832081616881"
     "9803"
     "61615801"
     "3a6162",
     "832081616881836161413a6162"},
    {"everything", "852085f461756168616919126782616182616241ff8161716166",
     "852085f461756168616919126782616182616241ff8161716166"},
    {"zone", "82208250fe8000000000000000000000000000016465746830",
     "82208250fe8000000000000000000000000000016465746830"},
    {"rootless", "836161f5816162", "836161f5816162"},
    {"no authority",
     "8461"
     "61f680816171",
     "846161f680816171"},
    {"discard true", "81f5", "81f5"},
    {"scheme alone", "8120", "8120"},
    {"large scheme number", "823bffffffffffffffff816168", "823bffffffffffffffff816168"},
};

static void test_encode_gives_the_canonical_form(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROW_COUNT(rows); i++) {
        struct bytes bytes;
        struct cri cri;
        uint8_t buffer[128];
        size_t len;
        decode_hex(rows[i].hex, &bytes, &cri);
        assert_int_equal(cri_encode(&cri, buffer, sizeof buffer, &len), CRI_OK);
        if (strcmp(hex_of(buffer, len), rows[i].canonical) != 0) {
            fail_msg("%s: %s", rows[i].id, hex_of(buffer, len));
        }
        bytes_free(&bytes);
    }
}

static void test_encode_says_how_much_it_needs(void **state)
{
    struct bytes bytes;
    struct cri cri;
    uint8_t buffer[64];
    size_t len;
    (void)state;
    decode_hex("852085f461756168616919126782616182616241ff8161716166", &bytes, &cri);
    for (size_t capacity = 0; capacity < bytes.len; capacity++) {
        memset(buffer, 0xaa, sizeof buffer);
        assert_int_equal(cri_encode(&cri, capacity == 0 ? NULL : buffer, capacity, &len),
                         CRI_ERR_SPACE);
        assert_int_equal(len, bytes.len);
        assert_int_equal(buffer[capacity], 0xaa); /* Nothing behind the capacity. */
    }
    assert_int_equal(cri_encode(&cri, buffer, bytes.len, &len), CRI_OK);
    bytes_free(&bytes);
}

static void test_encode_takes_a_struct_made_by_hand(void **state)
{
    static const uint8_t label[] = {0x61, 'h'};
    const struct cri cri = {.scheme = CRI_SCHEME_ID,
                            .authority = CRI_AUTHORITY_HOST_NAME,
                            .discard = CRI_DISCARD_ALL,
                            .labels = {true, 1, {label, sizeof label}}};
    uint8_t buffer[16];
    size_t len;
    (void)state;
    assert_int_equal(cri_encode(&cri, buffer, sizeof buffer, &len), CRI_OK);
    assert_string_equal(hex_of(buffer, len), "8220816168");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encode_gives_the_canonical_form),
        cmocka_unit_test(test_encode_says_how_much_it_needs),
        cmocka_unit_test(test_encode_takes_a_struct_made_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
