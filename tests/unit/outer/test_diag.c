/* SPDX-License-Identifier: BSD-2-Clause */
/* Diagnostic notation: rows of encoding and text, of mistakes and where they are; round trips. */
#include "support/test.h"

#include <cri/diag.h>

#include <stdio.h>
#include <string.h>

#define BYTES_MAX 4096

#define FIFTY_ZEROS "00000000000000000000000000000000000000000000000000"

struct row {
    const char *name;
    const char *hex;
    const char *text;
};

struct error_row {
    const char *name;
    const char *input; /* hex, or notation */
    enum cri_error error;
    size_t offset;
};

static struct cri_slice text_slice(const char *text)
{
    return (struct cri_slice){(const uint8_t *)text, strlen(text)};
}

/* Both ways: the text belongs to the encoding and the encoding to the text. */
static const struct row both_ways[] = {
    {"the draft's figure 3", "83208244c633640119f0b0826b2e77656c6c2d6b6e6f776e64636f7265",
     "[-1, [h'c6336401', 61616], [\".well-known\", \"core\"]]"},
    {"empty array", "80", "[]"},
    {"smallest negative integer", "3bffffffffffffffff", "-18446744073709551616"},
    {"largest integer", "1bffffffffffffffff", "18446744073709551615"},
    {"heads of every length", "8717181818ff19010019ffff1a000100001b0000000100000000",
     "[23, 24, 255, 256, 65535, 65536, 4294967296]"},
    {"simple values", "86f4f5f6f7e0f8ff", "[false, true, null, undefined, simple(0), simple(255)]"},
    {"simple values beside those with a name", "84f3f820e1f8fe",
     "[simple(19), simple(32), simple(1), simple(254)]"},
    {"tag 99", "d8638120", "99([-1])"},
    {"tag in a tag", "c1c200", "1(2(0))"},
    {"map", "a2016161626263a0", "{1: \"a\", \"bc\": {}}"},
    {"empty strings", "824060", "[h'', \"\"]"},
    {"quote and backslash", "63225c61", "\"\\\"\\\\a\""},
    {"controls are escaped", "65000a1f090d", "\"\\u0000\\n\\u001f\\t\\r\""},
    {"DEL is not", "617f", "\"\x7f\""},
    {"C1 controls are", "62c29b", "\"\\u009b\""},
    {"bidirectional override is", "63e280ae", "\"\\u202e\""},
    {"other Unicode is not", "66c3a9f09f9880", "\"\xc3\xa9\xf0\x9f\x98\x80\""},
    {"indefinite array", "9f0102ff", "[_ 1, 2]"},
    {"indefinite array, empty", "9fff", "[_ ]"},
    {"indefinite map", "bf0102ff", "{_ 1: 2}"},
    {"chunks of bytes", "5f41014102ff", "(_ h'01', h'02')"},
    {"chunks of text", "7f6161ff", "(_ \"a\")"},
    {"no chunks at all", "825fff7fff", "[''_, \"\"_]"},
    {"definite around indefinite", "829fff81820102", "[[_ ], [[1, 2]]]"},
};

static void test_notation_and_encoding_belong_together(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(both_ways) / sizeof(both_ways[0]); i++) {
        const struct row *row = &both_ways[i];
        uint8_t encoded[BYTES_MAX];
        uint8_t back[BYTES_MAX];
        char text[BYTES_MAX];
        size_t len = 0;
        struct cri_fault fault = {0};
        const size_t encoded_len = test_hex(row->hex, encoded, sizeof(encoded));
        print_message("%s\n", row->name);
        assert_int_equal(cri_diag_format((struct cri_slice){encoded, encoded_len}, text,
                                         sizeof(text), &len, &fault),
                         CRI_OK);
        assert_int_equal(len, strlen(row->text));
        assert_memory_equal(text, row->text, len);
        assert_int_equal(cri_diag_parse(text_slice(row->text), back, sizeof(back), &len, &fault),
                         CRI_OK);
        assert_int_equal(len, encoded_len);
        assert_memory_equal(back, encoded, len);
    }
}

/* Encodings that have a notation, but not one that leads back to the same bytes. */
static void test_format_shows_what_it_cannot_read_back(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"long heads look like short ones", "9800", "[]"},
        {"long integer", "1900ff", "255"},
        {"half float", "f93e00", "1.5"},
        {"whole float keeps its point", "f93c00", "1.0"},
        {"smallest half", "f90001", "5.9604644775390625e-08"},
        {"single float", "fa47c35000", "100000.0"},
        {"double float", "fb3ff199999999999a", "1.1"},
        {"whole float of 16 digits", "fad90e09ce", "-2498764191301632.0"},
        {"large double", "fb7e37e43c8800759c", "1e+300"},
        {"negative zero", "f98000", "-0.0"},
        {"infinities", "82f97c00fbfff0000000000000", "[Infinity, -Infinity]"},
        {"not a number", "f97e00", "NaN"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t encoded[BYTES_MAX];
        char text[BYTES_MAX];
        size_t len = 0;
        const size_t encoded_len = test_hex(rows[i].hex, encoded, sizeof(encoded));
        print_message("%s\n", rows[i].name);
        assert_int_equal(cri_diag_format((struct cri_slice){encoded, encoded_len}, text,
                                         sizeof(text), &len, NULL),
                         CRI_OK);
        assert_int_equal(len, strlen(rows[i].text));
        assert_memory_equal(text, rows[i].text, len);
    }
}

static void test_parse_takes_what_format_does_not_write(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"no blanks", "83200102", "[-1,1,2]"},
        {"blanks everywhere", "8201a10203", " [ 1 , { 2 : 3 } ] "},
        {"comments", "820102", "/ one / [1, / two\n/ 2] # end"},
        {"upper-case digits", "42abcd", "h'ABCD'"},
        {"blanks and comments in bytes", "43010203", "h'01 02 / x / 03'"},
        {"bytes as text", "43616227", "'ab\\''"},
        {"URI", "8320816168816178", "cri'coap://h/x'"},
        {"URI reference", "8201816178", "cri'x'"},
        {"IRI", "83208162c3bc816178", "cri'coap://\xc3\xbc/x'"},
        {"tagged URI", "d8638320816168816178", "CRI'coap://h/x'"},
        {"URI with an escape", "83208161688163782779", "cri'coap://h/x\\'y'"},
        {"URIs in an array", "838081a08201816178", "[cri'', [{}], cri'x']"},
        {"other bases", "8318ff0805", "[0xff, 0o10, 0b101]"},
        {"negative in hexadecimal", "3bffffffffffffffff", "-0x10000000000000000"},
        {"minus zero", "00", "-0"},
        {"escapes", "66c3a9412f0c08", "\"\\u00e9\\u0041\\/\\f\\b\""},
        {"surrogates", "64f09f9880", "\"\\ud83d\\ude00\""},
        {"the first and last of two surrogates", "68f0908080f48fbfbf",
         "\"\\ud800\\udc00\\udbff\\udfff\""},
        {"beside the surrogates", "66ed9fbfee8080", "\"\\ud7ff\\ue000\""},
        {"simple values that have a name", "84f4f5f6f7",
         "[simple(20), simple(21), simple(22), simple(23)]"},
        {"floats, the shortest", "83f93e00fa47c35000fb3ff199999999999a", "[1.5, 1e5, 1.1]"},
        {"float with all there is", "f9fc00", "-Infinity"},
        {"largest half", "f97bff", "6.5504E+4"},
        {"above the largest half", "fa477fe100", "65505.0"},
        {"largest single float", "82fa7f7ffffffaff7fffff",
         "[3.4028234663852886e38, -3.4028234663852886e38]"},
        {"next to it", "82fb47efffffdffffffffb47efffffe0000001",
         "[3.4028234663852882e38, 3.402823466385289e38]"},
        {"smallest half", "f90001", "0.000000059604644775390625"},
        {"half of it", "fa33000000", "2.98023223876953125e-8"},
        {"minus zero with a point", "f98000", "-0.0"},
        {"larger than any integer", "fa5f800000", "18446744073709551616.0"},
        {"smallest double", "fb0000000000000001", "5e-324"},
        {"less than that", "f90000", "1e-999999999999"},
        {"a hundred digits", "f93c00",
         "1." FIFTY_ZEROS "000000000000000000000000000000000000000000000000"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t wanted[BYTES_MAX];
        uint8_t got[BYTES_MAX];
        size_t len = 0;
        const size_t wanted_len = test_hex(rows[i].hex, wanted, sizeof(wanted));
        print_message("%s\n", rows[i].name);
        assert_int_equal(cri_diag_parse(text_slice(rows[i].text), got, sizeof(got), &len, NULL),
                         CRI_OK);
        assert_int_equal(len, wanted_len);
        assert_memory_equal(got, wanted, len);
    }
}

static void test_format_errors_say_where(void **state)
{
    (void)state;
    static const struct error_row rows[] = {
        {"nothing", "", CRI_ERR_TRUNCATED, 0},
        {"missing element", "82 01", CRI_ERR_TRUNCATED, 0},
        {"missing last element", "82 01 82 01", CRI_ERR_TRUNCATED, 2},
        {"cut head", "81 19 00", CRI_ERR_TRUNCATED, 1},
        {"cut text", "81 62 61", CRI_ERR_TRUNCATED, 1},
        {"2^63 elements", "9b8000000000000000", CRI_ERR_TRUNCATED, 0},
        {"2^64 - 1 pairs", "bbffffffffffffffff", CRI_ERR_TRUNCATED, 0},
        {"2^63 bytes", "5b8000000000000000", CRI_ERR_TRUNCATED, 0},
        {"open array", "9f 01", CRI_ERR_TRUNCATED, 2},
        {"reserved additional information", "81 9c", CRI_ERR_CBOR, 1},
        {"two-byte simple value", "f8 18", CRI_ERR_CBOR, 0},
        {"the last of these", "81 f8 1f", CRI_ERR_CBOR, 1},
        {"break", "81 ff", CRI_ERR_CBOR, 1},
        {"break between key and value", "bf 01 ff", CRI_ERR_CBOR, 2},
        {"indefinite integer", "1f", CRI_ERR_CBOR, 0},
        {"indefinite tag", "df", CRI_ERR_CBOR, 0},
        {"number as a chunk", "5f 01 ff", CRI_ERR_CBOR, 1},
        {"text as a chunk of bytes", "5f 61 61 ff", CRI_ERR_CBOR, 1},
        {"indefinite chunk", "5f 5f ff ff", CRI_ERR_CBOR, 1},
        {"bytes behind", "80 00", CRI_ERR_TRAILING_BYTES, 1},
        {"overlong UTF-8", "62 c0 80", CRI_ERR_UTF8, 1},
        {"surrogate in UTF-8", "64 61 ed a0 80", CRI_ERR_UTF8, 2},
        {"above U+10FFFF", "64 f4 90 80 80", CRI_ERR_UTF8, 1},
        {"cut UTF-8", "61 c3", CRI_ERR_UTF8, 1},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t encoded[BYTES_MAX];
        char text[BYTES_MAX];
        size_t len = 0;
        struct cri_fault fault = {0};
        const size_t encoded_len = test_hex(rows[i].input, encoded, sizeof(encoded));
        print_message("%s\n", rows[i].name);
        assert_int_equal(cri_diag_format((struct cri_slice){encoded, encoded_len}, text,
                                         sizeof(text), &len, &fault),
                         rows[i].error);
        assert_int_equal(fault.offset, rows[i].offset);
        assert_non_null(fault.rule);
    }
}

static void test_parse_errors_say_where(void **state)
{
    (void)state;
    static const struct error_row rows[] = {
        {"nothing", "", CRI_ERR_NOTATION, 0},
        {"blanks", "  ", CRI_ERR_NOTATION, 2},
        {"open array", "[1, [", CRI_ERR_NOTATION, 4},
        {"open tag", "[6(1", CRI_ERR_NOTATION, 1},
        {"missing comma", "[1 2]", CRI_ERR_NOTATION, 3},
        {"trailing comma", "[1,]", CRI_ERR_NOTATION, 3},
        {"leading comma", "[,1]", CRI_ERR_NOTATION, 1},
        {"wrong bracket", "[1}", CRI_ERR_NOTATION, 2},
        {"key without value", "{1}", CRI_ERR_NOTATION, 2},
        {"two items in a tag", "1(2, 3)", CRI_ERR_NOTATION, 3},
        {"nothing in a tag", "1()", CRI_ERR_NOTATION, 2},
        {"negative tag", "-1(2)", CRI_ERR_NOTATION, 2},
        {"something behind", "[] 1", CRI_ERR_NOTATION, 3},
        {"2^64", "[18446744073709551616]", CRI_ERR_NOTATION, 1},
        {"-2^64 - 1", "-18446744073709551617", CRI_ERR_NOTATION, 21},
        {"far too many digits", "-99999999999999999999999", CRI_ERR_NOTATION, 21},
        {"-2^64 and a digit", "-184467440737095516160", CRI_ERR_NOTATION, 22},
        {"no digits", "-x", CRI_ERR_NOTATION, 1},
        {"no digits in hexadecimal", "0x", CRI_ERR_NOTATION, 2},
        {"point without a fraction", "[1.]", CRI_ERR_NOTATION, 2},
        {"fraction without a point before e", "[1.e3]", CRI_ERR_NOTATION, 2},
        {"exponent without digits", "[1e+]", CRI_ERR_NOTATION, 2},
        {"float out of range", "[1e309]", CRI_ERR_NOTATION, 1},
        {"float of 101 digits", "1." FIFTY_ZEROS FIFTY_ZEROS, CRI_ERR_NOTATION, 0},
        {"odd digits", "h'abc'", CRI_ERR_NOTATION, 5},
        {"not a digit", "h'0g'", CRI_ERR_NOTATION, 3},
        {"open bytes", "h'00", CRI_ERR_NOTATION, 0},
        {"open URI", "cri'a", CRI_ERR_NOTATION, 3},
        {"no URI", "[cri'coap://h/ x']", CRI_ERR_NOTATION, 14},
        {"URI with another escape", "cri'a\\n'", CRI_ERR_NOTATION, 6},
        {"URI in chunks", "(_ h'01', cri'a')", CRI_ERR_NOTATION, 10},
        {"open text", "[\"ab", CRI_ERR_NOTATION, 1},
        {"raw control in text", "\"a\nb\"", CRI_ERR_NOTATION, 2},
        {"unknown escape", "\"\\x\"", CRI_ERR_NOTATION, 2},
        {"lone surrogate", "\"\\ud800\"", CRI_ERR_NOTATION, 7},
        {"surrogates the wrong way round", "\"\\udc00\\ud800\"", CRI_ERR_NOTATION, 7},
        {"two first halves", "\"\\ud800\\udbff\"", CRI_ERR_NOTATION, 13},
        {"first half and a character", "\"\\ud800\\ue000\"", CRI_ERR_NOTATION, 13},
        {"first half and a letter", "\"\\ud800a\"", CRI_ERR_NOTATION, 7},
        {"second half alone", "\"\\udc00\"", CRI_ERR_NOTATION, 7},
        {"the last second half alone", "\"\\udfff\"", CRI_ERR_NOTATION, 7},
        {"short escape", "\"\\u12\"", CRI_ERR_NOTATION, 5},
        {"unknown word", "[nil]", CRI_ERR_NOTATION, 1},
        {"reserved simple value", "simple(24)", CRI_ERR_NOTATION, 0},
        {"the last reserved simple value", "simple(31)", CRI_ERR_NOTATION, 0},
        {"simple value of 2^64", "[simple(18446744073709551616)]", CRI_ERR_NOTATION, 1},
        {"open simple value", "simple(1", CRI_ERR_NOTATION, 8},
        {"simple value without a number", "simple()", CRI_ERR_NOTATION, 7},
        {"large simple value", "simple(256)", CRI_ERR_NOTATION, 0},
        {"chunk of another kind", "(_ \"a\", h'')", CRI_ERR_NOTATION, 8},
        {"parenthesis alone", "(1)", CRI_ERR_NOTATION, 0},
        {"open comment", "[1] / x", CRI_ERR_NOTATION, 4},
        {"not UTF-8", "[\"\xc3\"]", CRI_ERR_UTF8, 2},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t got[BYTES_MAX];
        size_t len = 0;
        struct cri_fault fault = {0};
        print_message("%s\n", rows[i].name);
        assert_int_equal(cri_diag_parse(text_slice(rows[i].input), got, sizeof(got), &len, &fault),
                         rows[i].error);
        assert_int_equal(fault.offset, rows[i].offset);
        assert_non_null(fault.rule);
    }
}

/* 64 levels are fine, 65, empty or not, and 10,000 an error, and the stack does not notice. */
static void test_nesting_is_bounded(void **state)
{
    (void)state;
    static const size_t depths[] = {CRI_DIAG_DEPTH_MAX, CRI_DIAG_DEPTH_MAX + 1, 10000};
    static uint8_t encoded[10001];
    static char text[20002];
    static char notation[20002];
    for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
        const size_t depth = depths[i];
        const enum cri_error wanted = depth <= CRI_DIAG_DEPTH_MAX ? CRI_OK : CRI_ERR_CBOR;
        size_t len = 0;
        struct cri_fault fault = {0};
        memset(encoded, 0x81, depth);
        encoded[depth] = 0;
        memset(notation, '[', depth);
        notation[depth] = '0';
        memset(notation + depth + 1, ']', depth);
        assert_int_equal(cri_diag_format((struct cri_slice){encoded, depth + 1}, text, sizeof(text),
                                         &len, &fault),
                         wanted);
        assert_int_equal(fault.offset, wanted == CRI_OK ? 0 : CRI_DIAG_DEPTH_MAX);
        encoded[depth - 1] = 0x80;
        assert_int_equal(
            cri_diag_format((struct cri_slice){encoded, depth}, text, sizeof(text), &len, NULL),
            wanted);
        assert_int_equal(
            cri_diag_parse((struct cri_slice){(const uint8_t *)notation, 2 * depth + 1},
                           (uint8_t *)text, sizeof(text), &len, &fault),
            wanted == CRI_OK ? CRI_OK : CRI_ERR_NOTATION);
    }
}

static void check_float(const uint8_t *encoded, size_t encoded_len, bool is_shortest)
{
    char text[BYTES_MAX];
    char again[BYTES_MAX];
    uint8_t back[BYTES_MAX];
    size_t text_len = 0;
    size_t again_len = 0;
    size_t len = 0;

    assert_int_equal(cri_diag_format((struct cri_slice){encoded, encoded_len}, text, sizeof(text),
                                     &text_len, NULL),
                     CRI_OK);
    assert_int_equal(cri_diag_parse((struct cri_slice){(const uint8_t *)text, text_len}, back,
                                    sizeof(back), &len, NULL),
                     CRI_OK);
    assert_true(len <= encoded_len);
    if (is_shortest) {
        assert_int_equal(len, encoded_len);
        assert_memory_equal(back, encoded, len);
    }
    assert_int_equal(
        cri_diag_format((struct cri_slice){back, len}, again, sizeof(again), &again_len, NULL),
        CRI_OK);
    assert_int_equal(again_len, text_len);
    assert_memory_equal(again, text, text_len);
}

/* Every half, and random ones of the longer kinds: what is written is read as the same number. */
static void test_floats_read_back(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    for (unsigned half = 0; half <= 0xffff; half++) {
        const uint8_t encoded[3] = {0xf9, (uint8_t)(half >> 8), (uint8_t)half};
        const bool is_nan = (half & 0x7c00) == 0x7c00 && (half & 0x3ff) != 0;
        check_float(encoded, sizeof(encoded), !is_nan);
    }
    for (int round = 0; round < 4000; round++) {
        uint8_t encoded[9] = {round % 2 == 0 ? 0xfa : 0xfb};
        for (size_t i = 1; i < sizeof(encoded); i++) {
            encoded[i] = (uint8_t)test_random(&random);
        }
        check_float(encoded, round % 2 == 0 ? 5 : 9, false);
    }
}

/* One random item, not deeper than @p depth; always shortest heads, no floats. */
static size_t random_item(uint64_t *random, uint8_t *out, unsigned depth)
{
    const uint64_t kind = test_random_below(random, depth > 0 ? 7 : 4);
    const size_t count = (size_t)test_random_below(random, 4);
    size_t len = 1;
    switch (kind) {
    case 0:
        out[0] = (uint8_t)test_random_below(random, 24);
        return 1;
    case 1:
        out[0] = 0x39;
        out[1] = (uint8_t)(1 + test_random_below(random, 255));
        out[2] = (uint8_t)test_random(random);
        return 3;
    case 2:
        out[0] = (uint8_t)(0x40 + count);
        for (size_t i = 0; i < count; i++) {
            out[len++] = (uint8_t)test_random(random);
        }
        return len;
    case 3:
        out[0] = (uint8_t)(0x60 + count);
        for (size_t i = 0; i < count; i++) {
            out[len++] = (uint8_t)test_random_below(random, 128);
        }
        return len;
    case 4:
        out[0] = 0x9f;
        for (size_t i = 0; i < count; i++) {
            len += random_item(random, out + len, depth - 1);
        }
        out[len++] = 0xff;
        return len;
    case 5:
        out[0] = 0xc6;
        return 1 + random_item(random, out + 1, depth - 1);
    default:
        out[0] = (uint8_t)(0x80 + count);
        for (size_t i = 0; i < count; i++) {
            len += random_item(random, out + len, depth - 1);
        }
        return len;
    }
}

/* Whatever the capacity, the size is right, and nothing is written past it. */
static void test_random_items_read_back_and_fit_exactly(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    for (int round = 0; round < 2000; round++) {
        uint8_t encoded[BYTES_MAX];
        uint8_t back[BYTES_MAX];
        char text[BYTES_MAX];
        size_t len = 0;
        size_t text_len = 0;
        const size_t encoded_len = random_item(&random, encoded, 4);
        const struct cri_slice slice = {encoded, encoded_len};
        assert_int_equal(cri_diag_format(slice, text, sizeof(text), &text_len, NULL), CRI_OK);
        const struct cri_slice written = {(const uint8_t *)text, text_len};
        assert_int_equal(cri_diag_parse(written, back, sizeof(back), &len, NULL), CRI_OK);
        assert_int_equal(len, encoded_len);
        assert_memory_equal(back, encoded, len);

        const size_t capacity = (size_t)test_random_below(&random, encoded_len);
        memset(back, 0xa5, sizeof(back));
        assert_int_equal(cri_diag_parse(written, back, capacity, &len, NULL), CRI_ERR_SPACE);
        assert_int_equal(len, encoded_len);
        assert_int_equal(back[capacity], 0xa5);
        char small[BYTES_MAX];
        const size_t small_capacity = (size_t)test_random_below(&random, text_len);
        memset(small, 0x25, sizeof(small));
        assert_int_equal(cri_diag_format(slice, small, small_capacity, &len, NULL), CRI_ERR_SPACE);
        assert_int_equal(len, text_len);
        assert_memory_equal(small, text, small_capacity);
        assert_int_equal(small[small_capacity], 0x25);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_notation_and_encoding_belong_together),
        cmocka_unit_test(test_format_shows_what_it_cannot_read_back),
        cmocka_unit_test(test_parse_takes_what_format_does_not_write),
        cmocka_unit_test(test_format_errors_say_where),
        cmocka_unit_test(test_parse_errors_say_where),
        cmocka_unit_test(test_nesting_is_bounded),
        cmocka_unit_test(test_floats_read_back),
        cmocka_unit_test(test_random_items_read_back_and_fit_exactly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
