/* SPDX-License-Identifier: BSD-2-Clause */
/* CONFORMANCE sections 1, 2, 7 and 8: what is a CRI reference, and where it is not. */
#include "hex.h"

enum form { FULL, RELATIVE };

static const struct {
    const char *id;
    const char *hex;
    enum form form;
} valid[] = {
    {"CRI-6 long scheme head", "823800816168", FULL},
    {"CRI-6 long array head", "980220816168", FULL},
    {"CRI-8 discard 127", "81187f", RELATIVE},
    {"CRI-9 scheme name", "8264636f6170816168", FULL},
    {"CRI-10 largest scheme number", "823bffffffffffffffff816168", FULL},
    {"CRI-12 discard form", "82f5816161", RELATIVE},
    {"CRI-14 empty array", "80", RELATIVE},
    {"CRI-15 scheme alone", "8120", FULL},
    {"CRI-15 no scheme", "82f6816168", RELATIVE},
    {"CRI-17 empty userinfo", "822384f460676578616d706c6563636f6d", FULL},
    {"CRI-18 IPv4", "82208144c6336401", FULL},
    {"CRI-19 zone", "82208250fe8000000000000000000000000000016465746830", FULL},
    {"CRI-20 port 65535", "822082616819ffff", FULL},
    {"CRI-21 one empty label", "8261788160", FULL},
    {"CRI-26 empty fragment", "8522816168808060", FULL},
    {"CRI-28 trailing empty path", "832081616880", FULL},
    {"CRI-28 trailing empty query", "842081616881617080", FULL},
    {"CRI-29 query dropped", "8300f680", RELATIVE},
    {"CRI-30 null path", "8420816168f6816171", FULL},
    {"CRI-33 not NFC", "8320816168816365cc81", FULL},
    {"CRI-34 three dots", "832081616881632e2e2e", FULL},
    {"CRI-36 lone empty segment", "836161f68160", FULL},
    {"CRI-37 rootless", "836161f5816162", FULL},
    {"AMB-32 rootless without scheme", "83f6f5816178", RELATIVE},
    {"A37 empty segments without authority", "82f582606162", RELATIVE},
    {"PET-1", "832081616881836161413a6162", FULL},
    {"PET-1 bytes alone",
     "832081616881"
     "81413a",
     FULL},
    {"PET-2 userinfo", "822384f48262632b412b676578616d706c6563636f6d", FULL},
    {"AMB-21 a byte that would be encoded anyway", "8322816168818261614123", FULL},
    {"AMB-12 five numbers are a name",
     "8220856131613161316131613"
     "1",
     FULL},
    {"AMB-12 256 is no octet",
     "8220846332353661306130613"
     "1",
     FULL},
    {"AMB-12 leading zero",
     "82208462303161306130613"
     "1",
     FULL},
    {"NUL in text", "832081616881626100", FULL},
};

static void test_decode_accepts_valid(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROW_COUNT(valid); i++) {
        struct bytes bytes = bytes_from_hex(valid[i].hex);
        struct cri cri;
        struct cri_fault fault = {0, ""};
        if (cri_decode(bytes_slice(&bytes), NULL, &cri, &fault) != CRI_OK) {
            fail_msg("%s: byte %zu: %s", valid[i].id, fault.offset, fault.rule);
        }
        if (cri_is_full(&cri) != (valid[i].form == FULL)) {
            fail_msg("%s: full or relative", valid[i].id);
        }
        bytes_free(&bytes);
    }
}

static const struct {
    const char *id;
    const char *hex;
    enum cri_error error;
    size_t offset;
} invalid[] = {
    {"no bytes", "", CRI_ERR_TRUNCATED, 0},
    {"CRI-1 number", "00", CRI_ERR_STRUCTURE, 0},
    {"CRI-1 text", "60", CRI_ERR_STRUCTURE, 0},
    {"CRI-1 bytes", "40", CRI_ERR_STRUCTURE, 0},
    {"CRI-1 map", "a0", CRI_ERR_STRUCTURE, 0},
    {"CRI-1 null", "f6", CRI_ERR_STRUCTURE, 0},
    {"CRI-1 float", "f90000", CRI_ERR_STRUCTURE, 0},
    {"CRI-2", "822081616800", CRI_ERR_TRAILING_BYTES, 5},
    {"CRI-3 no items", "82", CRI_ERR_TRUNCATED, 0},
    {"CRI-3 one item", "8220", CRI_ERR_TRUNCATED, 0},
    {"CRI-3 no text", "82208161", CRI_ERR_TRUNCATED, 3},
    {"CRI-3 short text", "8220816268", CRI_ERR_TRUNCATED, 3},
    {"CRI-3 no argument", "98", CRI_ERR_TRUNCATED, 0},
    {"CRI-4 reserved 28", "9c", CRI_ERR_CBOR, 0},
    {"CRI-4 reserved in scheme", "823c816168", CRI_ERR_CBOR, 1},
    {"CRI-4 reserved text", "82207c", CRI_ERR_CBOR, 2},
    {"CRI-5 outer", "9f20816168ff", CRI_ERR_INDEFINITE, 0},
    {"CRI-5 authority", "82209f6168ff", CRI_ERR_INDEFINITE, 2},
    {"CRI-5 text", "8220817f6168ff", CRI_ERR_INDEFINITE, 3},
    {"CRI-5 path", "83208161689f6170ff", CRI_ERR_INDEFINITE, 5},
    {"CRI-5 bytes", "8220815f44c6336401ff", CRI_ERR_INDEFINITE, 3},
    {"break alone", "8220ff", CRI_ERR_CBOR, 2},
    {"CRI-7 false", "81f4", CRI_ERR_STRUCTURE, 1},
    {"CRI-7 bytes", "814100", CRI_ERR_STRUCTURE, 1},
    {"CRI-7 array", "8180", CRI_ERR_STRUCTURE, 1},
    {"CRI-7 map", "81a0", CRI_ERR_STRUCTURE, 1},
    {"CRI-7 undefined", "81f7", CRI_ERR_TAG, 1},
    {"CRI-7 float", "81f90000", CRI_ERR_STRUCTURE, 1},
    {"CRI-7 tag", "81c100", CRI_ERR_TAG, 1},
    {"CRI-8 discard 128", "811880", CRI_ERR_STRUCTURE, 1},
    {"CRI-9 capital", "8264436f6170816168", CRI_ERR_SCHEME, 1},
    {"CRI-9 empty", "8260816168", CRI_ERR_SCHEME, 1},
    {"CRI-9 digit", "82623178816168", CRI_ERR_SCHEME, 1},
    {"CRI-9 underscore", "8265636f5f6170816168", CRI_ERR_SCHEME, 1},
    {"CRI-11 false", "8220f4", CRI_ERR_STRUCTURE, 2},
    {"CRI-11 text", "82206168", CRI_ERR_STRUCTURE, 2},
    {"CRI-11 number", "822000", CRI_ERR_STRUCTURE, 2},
    {"CRI-13 six sections", "8620816168816170816171616600", CRI_ERR_STRUCTURE, 0},
    {"CRI-13 discard form of five", "8500816170816171616600", CRI_ERR_STRUCTURE, 0},
    {"CRI-16 behind port", "82208361681916336178", CRI_ERR_STRUCTURE, 8},
    {"CRI-16 name and address", "8220826168447f000001", CRI_ERR_STRUCTURE, 5},
    {"CRI-16 two zones", "822083447f000001617a6179", CRI_ERR_STRUCTURE, 10},
    {"CRI-17 marker alone", "822381f4", CRI_ERR_STRUCTURE, 4},
    {"CRI-17 true", "822383f561756168", CRI_ERR_AUTHORITY, 3},
    {"CRI-17 marker late", "8223836168f46175", CRI_ERR_STRUCTURE, 5},
    {"CRI-18 three bytes", "82208143c63364", CRI_ERR_HOST, 3},
    {"CRI-18 no bytes", "82208140", CRI_ERR_HOST, 3},
    {"CRI-20 65536", "82208261681a00010000", CRI_ERR_AUTHORITY, 5},
    {"CRI-20 negative", "822082616820", CRI_ERR_STRUCTURE, 5},
    {"CRI-20 float", "8220826168f96400", CRI_ERR_STRUCTURE, 5},
    {"CRI-21 no labels", "822080", CRI_ERR_AUTHORITY, 3},
    {"CRI-21 port alone", "822081191633", CRI_ERR_AUTHORITY, 3},
    {"CRI-21 userinfo alone", "822082f46175", CRI_ERR_AUTHORITY, 6},
    {"CRI-22", "82208163612e62", CRI_ERR_HOST, 5},
    {"CRI-22 behind eight octets", "8220816a6161616161616161612e", CRI_ERR_HOST, 13},
    {"CRI-23", "822082674578616d706c6563636f6d", CRI_ERR_HOST, 4},
    {"CRI-23 Z",
     "82208161"
     "5a",
     CRI_ERR_HOST, 4},
    {"CRI-24 IPv4", "82208463313237613061306131", CRI_ERR_HOST, 3},
    {"CRI-24 IPv6", "822081655b3a3a315d", CRI_ERR_HOST, 3},
    {"CRI-24 long head", "8220847803313237613061306131", CRI_ERR_HOST, 3},
    {"AMB-12 mixed notation of four labels",
     "822084645b3a3a3161306130623"
     "15d",
     CRI_ERR_HOST, 3},
    {"CRI-25 text path", "83208161686170", CRI_ERR_STRUCTURE, 5},
    {"CRI-25 number segment", "83208161688101", CRI_ERR_STRUCTURE, 6},
    {"CRI-25 text query", "84208161688161706171", CRI_ERR_STRUCTURE, 8},
    {"CRI-25 null parameter", "842081616881617081f6", CRI_ERR_STRUCTURE, 9},
    {"fragment of bytes",
     "85208161688080416"
     "6",
     CRI_ERR_STRUCTURE, 7},
    {"CRI-27 authority", "8220f6", CRI_ERR_TRAILING_DEFAULT, 2},
    {"CRI-27 path", "8320816168f6", CRI_ERR_TRAILING_DEFAULT, 5},
    {"CRI-27 fragment", "8520816168816170816171f6", CRI_ERR_TRAILING_DEFAULT, 11},
    {"CRI-27 discard form", "8200f6", CRI_ERR_TRAILING_DEFAULT, 2},
    {"CRI-27 null alone", "81f6", CRI_ERR_TRAILING_DEFAULT, 1},
    {"CRI-31", "83f6f6816170", CRI_ERR_STRUCTURE, 2},
    {"CRI-32 ff", "82208161ff", CRI_ERR_UTF8, 4},
    {"CRI-32 overlong", "82208162c080", CRI_ERR_UTF8, 4},
    {"CRI-32 overlong of three", "83208161688163e08080", CRI_ERR_UTF8, 7},
    {"CRI-32 overlong of four", "83208161688164f0808080", CRI_ERR_UTF8, 7},
    {"CRI-32 surrogate", "82208163eda080", CRI_ERR_UTF8, 4},
    {"CRI-32 over U+10FFFF", "83208161688164f4908080", CRI_ERR_UTF8, 7},
    {"CRI-32 cut short",
     "83208161688162c3"
     "61",
     CRI_ERR_UTF8, 7},
    {"CRI-32 cut at the end",
     "83208161688163e282"
     "41",
     CRI_ERR_UTF8, 7},
    {"CRI-32 behind good text", "8320816168816a616161616161616161ff", CRI_ERR_UTF8, 16},
    {"CRI-32 zone", "82208250fe80000000000000000000000000000161ff", CRI_ERR_UTF8, 21},
    {"CRI-34 two dots", "8320816168826161622e2e", CRI_ERR_PATH, 8},
    {"CRI-34 dot in a reference", "820181612e", CRI_ERR_PATH, 3},
    {"CRI-34 long head",
     "8201817801"
     "2e",
     CRI_ERR_PATH, 3},
    {"CRI-35", "836161f682606162", CRI_ERR_PATH, 4},
    {"CRI-35 long head", "836161f68278006162", CRI_ERR_PATH, 4},
    {"CRI-37 no path", "826161f5", CRI_ERR_PATH, 0},
    {"CRI-37 empty segment", "836161f58160", CRI_ERR_PATH, 4},
    {"CRI-37 leading empty segment", "836161f582606162", CRI_ERR_PATH, 4},
    {"CRI-39 tag 99", "d8638220816168", CRI_ERR_TAG, 0},
    {"CRI-39 tag inside", "822081c16168", CRI_ERR_TAG, 3},
    {"CRI-40 2^32", "9affffffff", CRI_ERR_TRUNCATED, 0},
    {"CRI-40 2^64", "9bffffffffffffffff", CRI_ERR_TRUNCATED, 0},
    {"CRI-40 authority", "82209affffffff", CRI_ERR_TRUNCATED, 2},
    {"CRI-40 text", "8220817affffffff", CRI_ERR_TRUNCATED, 3},
    {"text of 2^63", "8220817b8000000000000000", CRI_ERR_TRUNCATED, 3},
    {"FEAT-7", "832081616881816161", CRI_ERR_PET, 6},
    {"PET-1 two texts", "8320816168818261616162", CRI_ERR_PET, 9},
    {"PET-1 empty", "83208161688180", CRI_ERR_PET, 6},
    {"PET-1 empty bytes", "83208161688182406162", CRI_ERR_PET, 7},
    {"PET-1 two bytes", "83208161688182413a413a", CRI_ERR_PET, 9},
    {"PET-1 number", "83208161688182413a01", CRI_ERR_STRUCTURE, 9},
    {"PET-1 nested", "83208161688182413a80", CRI_ERR_STRUCTURE, 9},
    {"PET-3 digit", "8325f581836a7765623a616c6963653a42373a67312d62616c756e", CRI_ERR_PET, 17},
    {"PET-3 second octet", "8325f581836b7765623a616c6963653a37423a31662d62616c756e", CRI_ERR_PET,
     19},
    {"PET-3 character", "8325f58182617842c3a9", CRI_ERR_PET, 8},
    {"PET-4", "822381836161412e6162", CRI_ERR_PET, 7},
    {"PET-5", "83238161688181422e2e", CRI_ERR_PET, 8},
    {"PET label with a dot in its text",
     "822381"
     "8262612e413b",
     CRI_ERR_HOST, 6},
    {"STI-1", "822081d54168", CRI_ERR_TAG, 3},
    {"STI-2 undefined", "8220f7", CRI_ERR_TAG, 2},
    {"STI-2 simple", "8220e0", CRI_ERR_TAG, 2},
    {"STI-2 simple of two bytes", "8220f820", CRI_ERR_TAG, 2},
    {"simple of two bytes cut short", "8220f8", CRI_ERR_TRUNCATED, 2},
    {"simple value under 32 in two bytes", "8220f810", CRI_ERR_CBOR, 2},
};

static void test_decode_refuses_invalid_and_says_where(void **state)
{
    unsigned failures = 0;
    (void)state;
    for (size_t i = 0; i < ROW_COUNT(invalid); i++) {
        struct bytes bytes = bytes_from_hex(invalid[i].hex);
        struct cri cri = {.port = 4711};
        struct cri_fault fault = {0, NULL};
        enum cri_error error = cri_decode(bytes_slice(&bytes), NULL, &cri, &fault);
        if (error != invalid[i].error || fault.offset != invalid[i].offset) {
            print_error("%s: %s at byte %zu: %s\n", invalid[i].id, cri_strerror(error),
                        fault.offset, fault.rule == NULL ? "" : fault.rule);
            failures++;
        }
        if (error != CRI_OK) {
            assert_non_null(fault.rule);
            assert_int_equal(cri.port, 4711); /* Untouched. */
            assert_int_equal(cri_decode(bytes_slice(&bytes), NULL, &cri, NULL), error);
        }
        bytes_free(&bytes);
    }
    assert_int_equal(failures, 0);
}

static void test_decode_refuses_every_truncation(void **state)
{
    static const char *const wholes[] = {
        "8523"
        "84f46175"
        "6161"
        "1910e1"
        "82616181"
        "41ff"
        "8161"
        "71"
        "6166",
        "8520"
        "83"
        "50fe800000000000000000000000000001"
        "6465746830"
        "191633"
        "8161"
        "61"
        "80"
        "60",
        "9a00000002"
        "3900ff"
        "816178",
    };
    (void)state;
    for (size_t i = 0; i < ROW_COUNT(wholes); i++) {
        struct bytes whole = bytes_from_hex(wholes[i]);
        struct cri cri;
        assert_int_equal(cri_decode(bytes_slice(&whole), NULL, &cri, NULL), CRI_OK);
        for (size_t len = 0; len < whole.len; len++) {
            char hex[256];
            snprintf(hex, sizeof hex, "%.*s", (int)(2 * len), wholes[i]);
            struct bytes part = bytes_from_hex(hex);
            struct cri_fault fault;
            assert_int_equal(cri_decode(bytes_slice(&part), NULL, &cri, &fault), CRI_ERR_TRUNCATED);
            assert_true(fault.offset <= len);
            bytes_free(&part);
        }
        bytes_free(&whole);
    }
}

static const struct {
    const char *id;
    const char *hex;
    enum cri_error error;
} strict[] = {
    {"canonical",
     "83208161688161"
     "70",
     CRI_OK},
    {"CRI-6 scheme head", "823800816168", CRI_ERR_NOT_STRICT},
    {"CRI-6 array head", "980220816168", CRI_ERR_NOT_STRICT},
    {"CRI-6 text head",
     "8220817801"
     "68",
     CRI_ERR_NOT_STRICT},
    {"CRI-6 port",
     "82208261681900"
     "50",
     CRI_ERR_NOT_STRICT},
    {"CRI-28 path", "832081616880", CRI_ERR_TRAILING_DEFAULT},
    {"CRI-28 query", "842081616881617080", CRI_ERR_TRAILING_DEFAULT},
    {"A03", "8100", CRI_ERR_TRAILING_DEFAULT},
    {"A02 discard 1", "820180", CRI_ERR_TRAILING_DEFAULT},
    {"A02 net path", "83f681616880", CRI_ERR_TRAILING_DEFAULT},
    {"A02 path set",
     "8300816"
     "170"
     "80",
     CRI_ERR_TRAILING_DEFAULT},
    {"AMB-5 path", "820080", CRI_OK},
    {"AMB-5 query", "8300f680", CRI_OK},
    {"AMB-25 path", "8320816168816365cc81", CRI_ERR_NFC},
    {"AMB-25 composed",
     "8320816168"
     "8162c3a9",
     CRI_OK},
    {"AMB-25 Kelvin sign",
     "832081616881"
     "63e284aa",
     CRI_ERR_NFC},
    {"AMB-25 order of marks",
     "832081616881"
     "65"
     "61cc81cca3",
     CRI_ERR_NFC},
    {"AMB-25 mark that does not compose",
     "832081616881"
     "65"
     "c3a9cc96"
     "61",
     CRI_OK},
    {"AMB-25 Hangul jamo",
     "832081616881"
     "66"
     "e18480e185a1",
     CRI_ERR_NFC},
    {"AMB-25 composition exclusion",
     "832081616881"
     "63e0a598",
     CRI_ERR_NFC},
};

static void test_decode_strict_refuses_what_is_not_canonical(void **state)
{
    const struct cri_decode_options options = {.strict = true};
    (void)state;
    for (size_t i = 0; i < ROW_COUNT(strict); i++) {
        struct bytes bytes = bytes_from_hex(strict[i].hex);
        struct cri cri;
        assert_int_equal(cri_decode(bytes_slice(&bytes), NULL, &cri, NULL), CRI_OK);
        enum cri_error error = cri_decode(bytes_slice(&bytes), &options, &cri, NULL);
#ifdef CRI_FREESTANDING
        if (strict[i].error == CRI_ERR_NFC) {
            assert_int_equal(error, CRI_OK); /* It has no tables of Unicode. */
            bytes_free(&bytes);
            continue;
        }
#endif
        if (error != strict[i].error) {
            fail_msg("%s: %s", strict[i].id, cri_strerror(error));
        }
        bytes_free(&bytes);
    }
}

static const struct {
    const char *hex;
    uint32_t feature;
    size_t offset;
} features[] = {
    {"8264636f6170816168", CRI_FEATURE_SCHEME_NAME, 1},
    {"8325f5816d7765623a616c6963653a626f62", CRI_FEATURE_NO_AUTHORITY, 2},
    {"8320f6816178", CRI_FEATURE_NO_AUTHORITY, 3},
    {"822083f461756168", CRI_FEATURE_USERINFO, 3},
    {"832081616881836161413a6162", CRI_FEATURE_TEXT_OR_PET, 6},
    {"82208250fe8000000000000000000000000000016465746830", CRI_FEATURE_ZONE_ID, 20},
};

/* FEAT-6: unprocessable, but not malformed; malformed where it is that as well. */
static void test_decode_reports_features_that_are_off(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROW_COUNT(features); i++) {
        struct bytes bytes = bytes_from_hex(features[i].hex);
        const struct cri_decode_options off = {.features_off = features[i].feature};
        struct cri cri;
        struct cri_fault fault;
        assert_int_equal(cri_decode(bytes_slice(&bytes), NULL, &cri, NULL), CRI_OK);
        assert_int_equal(cri.features, features[i].feature);
        assert_int_equal(cri_decode(bytes_slice(&bytes), &off, &cri, &fault), CRI_ERR_FEATURE);
        assert_int_equal(fault.offset, features[i].offset);
        struct cri_slice truncated = {bytes.data, bytes.len - 1};
        assert_int_equal(cri_decode(truncated, &off, &cri, &fault), CRI_ERR_TRUNCATED);
        bytes_free(&bytes);
    }
}

/* One field that is set leaves all others at their default. */
static void test_decode_options_default_to_zero(void **state)
{
    const struct cri_decode_options tag = {.allow_tag99 = true};
    const struct cri_decode_options strictly = {.strict = true};
    (void)state;
    for (size_t i = 0; i < ROW_COUNT(features); i++) {
        struct bytes bytes = bytes_from_hex(features[i].hex);
        struct cri cri;
        assert_int_equal(cri_decode(bytes_slice(&bytes), &tag, &cri, NULL), CRI_OK);
        assert_int_equal(cri_decode(bytes_slice(&bytes), &strictly, &cri, NULL), CRI_OK);
        bytes_free(&bytes);
    }
}

/* A program compiled with another version's header is told where it asks for too much. */
static void test_decode_options_tell_their_size(void **state)
{
    struct {
        struct cri_decode_options known;
        uint64_t later;
    } options = {.known = {.allow_tag99 = true}};
    struct bytes bytes = bytes_from_hex("d8638220816168");
    struct cri_fault fault = {0, NULL};
    struct cri cri;
    (void)state;
    static const struct {
        size_t size;
        uint64_t later;
        enum cri_error error;
    } rows[] = {
        {0, 0, CRI_OK},
        {0, 1, CRI_OK}, /* not a part of the struct */
        {sizeof options.known, 0, CRI_OK},
        {sizeof options.known, 1, CRI_OK},
        {sizeof options, 0, CRI_OK},
        {sizeof options, 1, CRI_ERR_ARGUMENT},
        {sizeof options.known - 1, 0, CRI_ERR_ARGUMENT},
        {1, 0, CRI_ERR_ARGUMENT},
    };
    for (size_t i = 0; i < ROW_COUNT(rows); i++) {
        options.known.size = rows[i].size;
        options.later = rows[i].later;
        assert_int_equal(cri_decode(bytes_slice(&bytes), &options.known, &cri, &fault),
                         rows[i].error);
    }
    assert_non_null(fault.rule);
    bytes_free(&bytes);
}

static void test_decode_skips_tag_99_where_allowed(void **state)
{
    const struct cri_decode_options options = {.allow_tag99 = true};
    struct bytes once = bytes_from_hex("d8638220816168");
    struct bytes twice = bytes_from_hex("d863d8638220816168");
    struct bytes bare = bytes_from_hex("8220816168");
    struct cri cri;
    struct cri_fault fault;
    (void)state;
    assert_int_equal(cri_decode(bytes_slice(&once), &options, &cri, NULL), CRI_OK);
    assert_int_equal(cri_decode(bytes_slice(&bare), &options, &cri, NULL), CRI_OK);
    assert_int_equal(cri_decode(bytes_slice(&twice), &options, &cri, &fault), CRI_ERR_TAG);
    assert_int_equal(fault.offset, 2);
    bytes_free(&once);
    bytes_free(&twice);
    bytes_free(&bare);
}

static void test_decode_fills_every_section(void **state)
{
    struct bytes bytes;
    struct cri cri;
    struct cri_iter iter;
    struct cri_item item;
    (void)state;
    /* [-1, [false, "u", "h", "i", 4711], ["a", ["b", h'ff']], ["q"], "f"] */
    decode_hex("852085f461756168616919126782616182616241ff8161716166", &bytes, &cri);
    assert_int_equal(cri.scheme, CRI_SCHEME_ID);
    assert_int_equal(cri.scheme_number, 0);
    assert_int_equal(cri.authority, CRI_AUTHORITY_HOST_NAME);
    assert_true(cri.has_userinfo && cri.has_port && cri.has_fragment && !cri.has_zone);
    assert_int_equal(cri.userinfo.text.len, 1);
    assert_int_equal(cri.port, 4711);
    assert_int_equal(cri.labels.count, 2);
    assert_int_equal(cri.path.count, 2);
    assert_int_equal(cri.query.count, 1);
    assert_int_equal(cri.fragment.text.data[0], 'f');
    assert_int_equal(cri.discard, CRI_DISCARD_ALL);
    cri_iter_init(&iter, &cri.path);
    assert_true(cri_iter_next(&iter, &item));
    assert_false(item.is_pet);
    assert_int_equal(item.text.data[0], 'a');
    assert_true(cri_iter_next(&iter, &item));
    assert_true(item.is_pet);
    struct cri_iter pieces;
    struct cri_slice piece;
    bool is_bytes;
    cri_piece_init(&pieces, &item);
    assert_true(cri_piece_next(&pieces, &is_bytes, &piece));
    assert_false(is_bytes);
    assert_true(cri_piece_next(&pieces, &is_bytes, &piece));
    assert_true(is_bytes);
    assert_int_equal(piece.data[0], 0xff);
    assert_false(cri_piece_next(&pieces, &is_bytes, &piece));
    assert_false(cri_iter_next(&iter, &item));
    assert_false(cri_iter_next(&iter, &item));
    bytes_free(&bytes);
}

/* CRI-42, CMP-6: the bad one is stepped over whole, and its bytes are reported. */
static void test_decode_next_resumes_behind_unprocessable(void **state)
{
    struct bytes bytes = bytes_from_hex("82208163612e62"
                                        "8220d28161c3"
                                        "8220816168");
    struct cri_slice rest = bytes_slice(&bytes);
    struct cri_slice item = {NULL, 0};
    struct cri cri;
    struct cri_fault fault;
    (void)state;
    assert_int_equal(cri_decode_next(&rest, NULL, &cri, &item, &fault), CRI_ERR_HOST);
    assert_int_equal(fault.offset, 5);
    assert_int_equal(item.len, 7);
    /* [-1, 18([text that is not UTF-8])]: a tag has no place there, but an end. */
    assert_int_equal(cri_decode_next(&rest, NULL, &cri, &item, &fault), CRI_ERR_TAG);
    assert_int_equal(item.len, 6);
    assert_int_equal(cri_decode_next(&rest, NULL, &cri, NULL, &fault), CRI_OK);
    assert_int_equal(rest.len, 0);
    assert_int_equal(cri.labels.count, 1);
    assert_int_equal(cri_decode_next(&rest, NULL, &cri, NULL, &fault), CRI_ERR_TRUNCATED);
    bytes_free(&bytes);
}

static const struct {
    const char *hex;
    enum cri_error error;
    size_t extent_or_offset;
} extents[] = {
    {"00", CRI_OK, 1},
    {"8220e0ff", CRI_OK, 3},
    {"a1616182f6f7", CRI_OK, 6},
    {"c1d8638200fb3ff0000000000000", CRI_OK, 14},
    {"84f4f5f9"
     "3c00fa3f80000000",
     CRI_OK, 11},
    {"8241ff1903e800", CRI_OK, 6},
    {"82811b000000010000000000", CRI_OK, 12},
    {"9f00ff", CRI_ERR_INDEFINITE, 0},
    {"bfff", CRI_ERR_INDEFINITE, 0},
    {"82ff00", CRI_ERR_CBOR, 1},
    {"bb8000000000000000", CRI_ERR_TRUNCATED, 0},
    {"8281838200", CRI_ERR_TRUNCATED, 2},
    {"c1", CRI_ERR_TRUNCATED, 0},
    {"82c600d400", CRI_OK, 5}, /* CRI-42: tags that libcbor calls unassigned */
    {"d28441a0a041b041c000", CRI_OK, 9},
    {"ccc7", CRI_ERR_TRUNCATED, 1},
    {"dc00", CRI_ERR_CBOR, 0},
};

static void test_skip_gives_extent_of_any_item(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROW_COUNT(extents); i++) {
        struct bytes bytes = bytes_from_hex(extents[i].hex);
        size_t extent = 0;
        struct cri_fault fault = {0, ""};
        enum cri_error error = cri_skip(bytes_slice(&bytes), &extent, &fault);
        size_t where = error == CRI_OK ? extent : fault.offset;
        if (error != extents[i].error || where != extents[i].extent_or_offset) {
            fail_msg("%s: %s, %zu", extents[i].hex, cri_strerror(error), where);
        }
        bytes_free(&bytes);
    }
}

/* A list that was not decoded but made by hand ends early instead of reading on. */
static void test_iterators_stop_at_nonsense(void **state)
{
    static const char *const nonsense[] = {"78",     "7f",   "6261", "01",  "82",
                                           "826161", "8161", "815c", "9b01"};
    (void)state;
    for (size_t i = 0; i < ROW_COUNT(nonsense); i++) {
        struct bytes bytes = bytes_from_hex(nonsense[i]);
        const struct cri_list list = {true, 1, bytes_slice(&bytes)};
        const struct cri_item pieces = {.is_pet = true, .pieces = bytes_slice(&bytes)};
        struct cri_iter iter;
        struct cri_item item;
        struct cri_slice piece;
        bool is_bytes;
        cri_iter_init(&iter, &list);
        if (cri_iter_next(&iter, &item)) {
            fail_msg("%s is no item", nonsense[i]);
        }
        cri_piece_init(&iter, &pieces);
        while (cri_piece_next(&iter, &is_bytes, &piece)) {
            assert_true(piece.len < bytes.len);
        }
        bytes_free(&bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decode_accepts_valid),
        cmocka_unit_test(test_decode_refuses_invalid_and_says_where),
        cmocka_unit_test(test_decode_refuses_every_truncation),
        cmocka_unit_test(test_decode_strict_refuses_what_is_not_canonical),
        cmocka_unit_test(test_decode_reports_features_that_are_off),
        cmocka_unit_test(test_decode_options_default_to_zero),
        cmocka_unit_test(test_decode_options_tell_their_size),
        cmocka_unit_test(test_decode_skips_tag_99_where_allowed),
        cmocka_unit_test(test_decode_fills_every_section),
        cmocka_unit_test(test_decode_next_resumes_behind_unprocessable),
        cmocka_unit_test(test_skip_gives_extent_of_any_item),
        cmocka_unit_test(test_iterators_stop_at_nonsense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
