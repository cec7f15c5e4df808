/* SPDX-License-Identifier: BSD-2-Clause */
/* media.def against other projects' tables, and media types as text (RFC 8075 section 6). */
#include "support/test.h"

#include "coap/media.h"

#include <stdio.h>
#include <stdlib.h>

static struct bytes bytes_of(const char *text)
{
    return (struct bytes){(const uint8_t *)text, strlen(text)};
}

/* Of one source: whether each number of the registry is in it, in the order of media_registry(). */
static void read_source(const char *name, bool *is_listed)
{
    char path[512], line[256], type[128], coding[32];
    size_t count, listed = 0;
    const struct media_row *rows = media_registry(&count);
    snprintf(path, sizeof(path), "%s/%s", MEDIA_VECTORS, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        unsigned number;
        coding[0] = '\0';
        if (line[0] == '#' || sscanf(line, "%u %127s %31s", &number, type, coding) < 2) {
            continue;
        }
        const struct media_row *row = media_by_number(NULL, number);
        if (row == NULL) {
            fail_msg("%s has %u, media.def has not", name, number);
            break;
        }
        assert_string_equal(row->type, type);
        assert_string_equal(row->coding, coding);
        assert_int_equal(media_find(NULL, bytes_of(type), bytes_of(coding)), number);
        is_listed[row - rows] = true;
        listed++;
    }
    fclose(file);
    assert_true(listed > 40);
}

/* One source is as old as 2022; another has what was registered since; the third has all. */
static void test_numbers_are_those_of_two_sources(void **state)
{
    (void)state;
    bool early[256] = {false}, later[256] = {false}, whole[256] = {false};
    size_t count;
    const struct media_row *rows = media_registry(&count);
    assert_in_range(count, 1, 256);
    read_source("aiocoap.txt", early);
    read_source("later.txt", later);
    read_source("riot.txt", whole);
    for (size_t i = 0; i < count; i++) {
        if (!whole[i] || early[i] == later[i]) {
            fail_msg("%u: in which of the sources is it?", (unsigned)rows[i].number);
        }
        assert_true(i == 0 || rows[i - 1].number < rows[i].number);
    }
}

static void test_a_media_type_has_several_spellings(void **state)
{
    (void)state;
    static const struct {
        const char *type, *coding;
        uint32_t number;
    } rows[] = {
        {"text/plain;charset=utf-8", "", 0},
        {"Text/Plain ; Charset=\"UTF-8\"", "", 0},
        {"text/plain", "", 0},
        {"text/plain; charset=us-ascii", "", 0},
        {"text/plain; charset=iso-8859-1", "", MEDIA_NONE},
        {"application/json", "", 50},
        {"application/json; charset=utf-8", "", 50},
        {"application/json; charset=utf-16", "", MEDIA_NONE},
        {"application/json", "identity", 50},
        {"application/json", "deflate", 11050},
        {"application/json", "gzip", MEDIA_NONE},
        {"application/cose; cose-type=cose-mac", "", 97},
        {"application/cose; cose-type=\"cose-mac\"", "", 97},
        {"application/cose", "", MEDIA_NONE},
        {"application/yang-data+cbor", "", 340},
        {"application/yang-data+cbor; id=name", "", 341},
        {"application/yang-data+cbor; id=name; x=y", "", MEDIA_NONE},
        {"application/aif+cbor; toid=CRI-local-part", "", 292},
        {"application/aif+cbor; tperm=oscore-gperm; toid=oscore-gname", "", 297},
        {"application/aif+cbor; toid=oscore-gname", "", MEDIA_NONE},
        {"application/eat+cwt;eat_profile=\"tag:psacertified.org,2023:psa#tfm\"", "", 10003},
        {"text/html", "", MEDIA_NONE},
        {"application/json;", "", 50},
        {"application", "", MEDIA_NONE},
        {"application/", "", MEDIA_NONE},
        {"/json", "", MEDIA_NONE},
        {"application/json; charset", "", MEDIA_NONE},
        {"application/json; charset=\"utf-8", "", MEDIA_NONE},
        {"application/json, text/plain", "", MEDIA_NONE},
        {"", "", MEDIA_NONE},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (media_find(NULL, bytes_of(rows[i].type), bytes_of(rows[i].coding)) != rows[i].number) {
            fail_msg("%s, coding %s", rows[i].type, rows[i].coding);
        }
    }
}

/* A field is a slice of what came: what stands behind it is not looked at. */
static void test_nothing_is_read_behind_a_media_type(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        uint32_t number;
    } rows[] = {
        {"application/json", 50},
        {"application/json ", 50},
        {"application/json;", 50},
        {"application/cose; cose-type=cose-mac", 97},
        {"application/cose; cose-type=\"cose-mac\"", 97},
        {"application/cose; cose-type=\"cose-mac", MEDIA_NONE},
        {"application/cose; cose-type=", MEDIA_NONE},
        {"application/cose; cose-type", MEDIA_NONE},
        {"application/", MEDIA_NONE},
        {"application", MEDIA_NONE},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t len = strlen(rows[i].type);
        uint8_t *exact = malloc(len); /* the address sanitizer sees a byte too many */
        assert_non_null(exact);
        memcpy(exact, rows[i].type, len);
        assert_int_equal(media_find(NULL, (struct bytes){exact, len}, bytes_of("")),
                         rows[i].number);
        free(exact);
        char longer[128];
        snprintf(longer, sizeof(longer), "%sx", rows[i].type);
        assert_int_equal(
            media_find(NULL, (struct bytes){(const uint8_t *)longer, len}, bytes_of("")),
            rows[i].number);
    }
}

/* RFC 8075 section 6.3, table 1, from top to bottom, and the examples of its appendix A. */
static void test_loose_mapping_goes_by_table_1(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        uint32_t number;
    } rows[] = {
        {"application/soap+xml", 41},
        {"application/somesubtype+json", 50},
        {"application/somesubtype+cbor", 60},
        {"application/senml+json", 110}, /* has a number of its own */
        {"text/xml", 41},
        {"text/html", 0},
        {"image/svg+xml", 30000},
        {"model/x+xml", MEDIA_OCTET_STREAM},
        {"application/somesubtype-of-some-sort+format", MEDIA_OCTET_STREAM},
        {"application", MEDIA_NONE},
        {"application /somesubtype", MEDIA_NONE},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (media_find_loosely(NULL, bytes_of(rows[i].type)) != rows[i].number) {
            fail_msg("%s", rows[i].type);
        }
    }
}

static void test_coap_payload_names_a_number(void **state)
{
    (void)state;
    assert_int_equal(media_coap_payload(bytes_of("application/coap-payload;cf=60")), 60);
    assert_int_equal(media_coap_payload(bytes_of("Application/CoAP-payload; CF=\"65535\"")), 65535);
    static const char *const others[] = {
        "application/coap-payload",
        "application/coap-payload;cf=65536",
        "application/coap-payload;cf=-1",
        "application/coap-payload;cf=\"\"",
        "application/coap-payload;cf=1;a=b",
        "application/cbor;cf=60",
        "application/coap-payload;cf=4294967356",
    };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (media_coap_payload(bytes_of(others[i])) != MEDIA_NONE) {
            fail_msg("%s", others[i]);
        }
    }
}

static void test_text_is_text_json_xml_and_links(void **state)
{
    (void)state;
    static const uint32_t text[] = {0, 40, 41, 50, 51, 110, 310, 432, 20000, 30000};
    static const uint32_t other[] = {16, 21, 42, 60, 112, 263, 11050, 12000, 9999, MEDIA_NONE};
    for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++) {
        assert_true(media_is_text(NULL, text[i]));
        assert_false(media_is_text(NULL, other[i]));
    }
}

/* [media N]: a type of the configuration's own is a row like those of the registry. */
static void test_own_types_are_rows(void **state)
{
    (void)state;
    static const struct media_row rows[] = {
        {65001, "application/x.meter+cbor;v=2", ""},
        {65002, "text/x-log;charset=UTF-8", ""},
        {65003, "application/x.meter+cbor;v=2", "deflate"},
    };
    const struct media_own own = {rows, sizeof(rows) / sizeof(rows[0])};
    const struct bytes none = {NULL, 0};
    assert_int_equal(media_find(&own, bytes_of("Application/x.METER+cbor ; V=\"2\""), none), 65001);
    assert_int_equal(media_find(&own, bytes_of(rows[2].type), bytes_of("deflate")), 65003);
    assert_int_equal(media_find(&own, bytes_of("application/x.meter+cbor;v=3"), none), MEDIA_NONE);
    assert_int_equal(media_find_loosely(&own, bytes_of(rows[0].type)), 65001);
    assert_int_equal(media_find_loosely(NULL, bytes_of(rows[0].type)), 60);
    assert_int_equal(media_find(&own, bytes_of("application/json"), none), 50);
    assert_ptr_equal(media_by_number(&own, 65002), &rows[1]);
    assert_null(media_by_number(NULL, 65002));
    assert_null(media_by_number(&own, 65004));
    assert_true(media_is_text(&own, 65002));
    assert_false(media_is_text(&own, 65001));
    assert_true(media_is_type(bytes_of("a/b;c=\"d\"")));
    assert_false(media_is_type(bytes_of("a/b;c")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_are_those_of_two_sources),
        cmocka_unit_test(test_a_media_type_has_several_spellings),
        cmocka_unit_test(test_nothing_is_read_behind_a_media_type),
        cmocka_unit_test(test_loose_mapping_goes_by_table_1),
        cmocka_unit_test(test_coap_payload_names_a_number),
        cmocka_unit_test(test_text_is_text_json_xml_and_links),
        cmocka_unit_test(test_own_types_are_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
