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

static const uint8_t one_label[] = {0x61, 'h'};
static const uint8_t two_segments[] = {0x61, 'a', 0x61, 'b'};
static const uint8_t cut_short[] = {0x61, 'a', 0x62, 'b'};
static const uint8_t number[] = {0x05};
static const uint8_t number_in_pieces[] = {0x82, 0x41, 0xff, 0x05, 0, 0, 0, 0, 0};
static const uint8_t not_utf8[] = {0x61, 0xff};
static const uint8_t dots[] = {0x62, '.', '.'};
static const uint8_t capital[] = {0x61, 'H'};
static const uint8_t address[] = {192, 0, 2};

#define BYTES(bytes)                                                                               \
    {                                                                                              \
        bytes, sizeof(bytes)                                                                       \
    }
#define FULL                                                                                       \
    .scheme = CRI_SCHEME_ID, .authority = CRI_AUTHORITY_HOST_NAME, .discard = CRI_DISCARD_ALL,     \
    .labels = {true, 1, BYTES(one_label)}

/* Each was encoded without a word before: as no CRI, or as another one. */
static const struct {
    const char *name;
    enum cri_error error;
    struct cri cri;
} broken[] = {
    {"a label too few",
     CRI_ERR_STRUCTURE,
     {.scheme = CRI_SCHEME_ID,
      .authority = CRI_AUTHORITY_HOST_NAME,
      .labels = {true, 2, BYTES(one_label)}}},
    {"a segment too many", CRI_ERR_STRUCTURE, {FULL, .path = {true, 1, BYTES(two_segments)}}},
    {"segments that do not count",
     CRI_ERR_STRUCTURE,
     {FULL, .path = {true, 0, BYTES(two_segments)}}},
    {"a path that is not set and has segments",
     CRI_ERR_STRUCTURE,
     {.path = {false, 2, BYTES(two_segments)}}},
    {"a segment that is cut short", CRI_ERR_STRUCTURE, {FULL, .path = {true, 1, BYTES(cut_short)}}},
    {"a number for a parameter", CRI_ERR_STRUCTURE, {FULL, .query = {true, 1, BYTES(number)}}},
    {"a number for a piece", CRI_ERR_STRUCTURE, {FULL, .path = {true, 1, BYTES(number_in_pieces)}}},
    {"a number for a piece of a fragment",
     CRI_ERR_STRUCTURE,
     {FULL, .has_fragment = true, .fragment = {.is_pet = true, .pieces = BYTES(number)}}},
    {"no labels",
     CRI_ERR_AUTHORITY,
     {.scheme = CRI_SCHEME_ID, .authority = CRI_AUTHORITY_HOST_NAME}},
    {"no scheme name",
     CRI_ERR_SCHEME,
     {.scheme = CRI_SCHEME_NAME,
      .authority = CRI_AUTHORITY_HOST_NAME,
      .labels = {true, 1, BYTES(one_label)}}},
    {"a capital letter",
     CRI_ERR_HOST,
     {.scheme = CRI_SCHEME_ID,
      .authority = CRI_AUTHORITY_HOST_NAME,
      .labels = {true, 1, BYTES(capital)}}},
    {"three bytes of an address",
     CRI_ERR_HOST,
     {.scheme = CRI_SCHEME_ID, .authority = CRI_AUTHORITY_HOST_IP, .ip = BYTES(address)}},
    {"text that is not UTF-8", CRI_ERR_UTF8, {FULL, .path = {true, 1, BYTES(not_utf8)}}},
    {"a dot-segment", CRI_ERR_PATH, {FULL, .path = {true, 1, BYTES(dots)}}},
    {"rootless without a path",
     CRI_ERR_PATH,
     {.scheme = CRI_SCHEME_ID, .authority = CRI_AUTHORITY_ROOTLESS}},
    {"a port without a host",
     CRI_ERR_AUTHORITY,
     {.scheme = CRI_SCHEME_ID, .has_port = true, .port = 1}},
    {"userinfo without a host",
     CRI_ERR_AUTHORITY,
     {.scheme = CRI_SCHEME_ID, .authority = CRI_AUTHORITY_ROOTLESS, .has_userinfo = true}},
    {"a zone of a name", CRI_ERR_HOST, {FULL, .has_zone = true, .zone = BYTES(one_label)}},
    {"no such scheme form", CRI_ERR_ARGUMENT, {.scheme = (enum cri_scheme_form)3}},
    {"no such authority", CRI_ERR_ARGUMENT, {.authority = (enum cri_authority_form)4}},
    {"no such discard", CRI_ERR_ARGUMENT, {.discard = CRI_DISCARD_ALL + 1}},
};

static void test_encode_refuses_what_breaks_the_rules(void **state)
{
    uint8_t buffer[64];
    (void)state;
    for (size_t i = 0; i < ROW_COUNT(broken); i++) {
        size_t len = 77;
        enum cri_error error = cri_encode(&broken[i].cri, buffer, sizeof buffer, &len);
        if (error != broken[i].error || len != 77) {
            fail_msg("%s: %s", broken[i].name, cri_strerror(error));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encode_gives_the_canonical_form),
        cmocka_unit_test(test_encode_says_how_much_it_needs),
        cmocka_unit_test(test_encode_takes_a_struct_made_by_hand),
        cmocka_unit_test(test_encode_refuses_what_breaks_the_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
