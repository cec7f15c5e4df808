/* SPDX-License-Identifier: BSD-2-Clause */
/* Section 6, by way of RFC 3987 sections 3.1 and 3.2. */
#include "hex.h"

#include <cri/iri.h>

static const struct {
    const char *id;
    const char *hex;
    const char *iri;
} both_ways[] = {
    {"path", "82f58162c3a9", "/\xc3\xa9"},
    {"host", "82208162c3a9", "coap://\xc3\xa9"},
    {"userinfo", "82f683f462c3a96168", "//\xc3\xa9@h"},
    {"query", "8300f68162c3a9", "?\xc3\xa9"},
    {"fragment", "8400f6f662c3a9", "#\xc3\xa9"},
    {"four octets", "82f58164f0908080", "/\xf0\x90\x80\x80"},
    {"space stays encoded",
     "82f58161"
     "20",
     "/%20"},
    {"bytes stay encoded", "82f5818141ff", "/%FF"},
    {"beside bytes", "82f5818262c3a941ff", "/\xc3\xa9%FF"},
    {"private use in a path", "82f58163ee8080", "/%EE%80%80"},
    {"private use in a query", "8300f68163ee8080", "?\xee\x80\x80"},
    {"noncharacter", "82f58163efbfbe", "/%EF%BF%BE"},
    {"plane's last", "8300f68164f3bfbfbe", "?%F3%BF%BF%BE"},
    {"control", "82f58162c280", "/%C2%80"},
    {"direction mark", "82f58163e2808e", "/%E2%80%8E"},
};

static void test_iri_format_and_parse(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROW_COUNT(both_ways); i++) {
        struct bytes bytes;
        struct cri cri;
        char iri[64];
        uint8_t back[64];
        size_t len;
        decode_hex(both_ways[i].hex, &bytes, &cri);
        assert_int_equal(cri_iri_format(&cri, NULL, iri, sizeof iri - 1, &len, NULL), CRI_OK);
        iri[len] = '\0';
        if (strcmp(iri, both_ways[i].iri) != 0) {
            fail_msg("%s: %s", both_ways[i].id, iri);
        }
        struct bytes text = bytes_from_text(iri);
        assert_int_equal(cri_iri_parse(bytes_slice(&text), NULL, back, sizeof back, &len, NULL),
                         CRI_OK);
        assert_string_equal(hex_of(back, len), both_ways[i].hex);
        bytes_free(&text);
        bytes_free(&bytes);
    }
}

static const struct {
    const char *iri;
    size_t offset;
} invalid[] = {
    {"/\xff", 1},         {"/a\xc3", 2},    {"/\xee\x80\x80", 1},
    {"/\xef\xbf\xbe", 1}, {"/\xc2\x80", 1}, {"/a b", 2},
};

static void test_iri_parse_refuses_other_characters(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROW_COUNT(invalid); i++) {
        struct bytes text = bytes_from_text(invalid[i].iri);
        size_t len;
        struct cri_fault fault;
        assert_int_equal(cri_iri_parse(bytes_slice(&text), NULL, NULL, 0, &len, &fault),
                         CRI_ERR_URI_SYNTAX);
        assert_int_equal(fault.offset, invalid[i].offset);
        bytes_free(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_iri_format_and_parse),
        cmocka_unit_test(test_iri_parse_refuses_other_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
