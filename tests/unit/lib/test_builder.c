/* SPDX-License-Identifier: BSD-2-Clause */
/* CRI-44: a CRI reference from its parts, and what happens where they do not make one. */
#include "hex.h"

#include <cri/builder.h>
#include <cri/scheme.h>

#include <stdlib.h>

static struct cri_slice text(const char *chars)
{
    return (struct cri_slice){(const uint8_t *)chars, strlen(chars)};
}

static const uint8_t ipv4[] = {192, 0, 2, 1};
static const uint8_t link_local[16] = {0xfe, 0x80, [15] = 1};

static const struct cri_slice nothing = {NULL, 0};

/*
 * Parts as letters: s<n> scheme, n name, d<n> discard, r rootless, u userinfo, h host name,
 * i IPv4, z IPv6 with a zone, p<n> port, / path, a segment, ? query, q parameter, f fragment;
 * a text goes on to the next blank.
 */
static void give_text(struct cri_builder *builder, char part, struct cri_slice value)
{
    switch (part) {
    case 'n':
        cri_builder_scheme_name(builder, value);
        break;
    case 'u':
        cri_builder_userinfo(builder, value);
        break;
    case 'h':
        cri_builder_host_name(builder, value);
        break;
    case 'a':
        cri_builder_segment(builder, value);
        break;
    case 'q':
        cri_builder_parameter(builder, value);
        break;
    case 'f':
        cri_builder_fragment(builder, value);
        break;
    default:
        fail_msg("no part %c", part);
    }
}

static void give(struct cri_builder *builder, const char *part, size_t len)
{
    struct cri_slice value = {(const uint8_t *)part + 1, len - 1};
    uint64_t number = strtoull(part + 1, NULL, 10);

    switch (part[0]) {
    case 's':
        cri_builder_scheme(builder, number);
        break;
    case 'd':
        cri_builder_discard(builder, (unsigned)number);
        break;
    case 'p':
        cri_builder_port(builder, (uint16_t)number);
        break;
    case 'r':
        cri_builder_rootless(builder);
        break;
    case 'i':
        cri_builder_host_ip(builder, (struct cri_slice){ipv4, sizeof ipv4}, nothing);
        break;
    case 'z':
        cri_builder_host_ip(builder, (struct cri_slice){link_local, sizeof link_local}, value);
        break;
    case '/':
        cri_builder_path(builder);
        break;
    case '?':
        cri_builder_query(builder);
        break;
    default:
        give_text(builder, part[0], value);
    }
}

static void give_all(struct cri_builder *builder, const char *parts)
{
    while (*parts != '\0') {
        size_t len = strcspn(parts, " ");
        give(builder, parts, len);
        parts += len + (parts[len] == ' ' ? 1 : 0);
    }
}

static const struct {
    const char *parts;
    const char *hex;
} good[] = {
    {"", "80"},
    {"d0", "80"},
    {"d1", "8101"},
    {"d128", "81f5"},
    {"d127 aa", "82187f816161"},
    {"s0", "8120"},
    {"s0 hh", "8220816168"},
    {"s0 hExample.ORG", "822082676578616d706c65636f7267"},
    {"s0 hh p61616 aa ab qc fd", "8520826168"
                                 "19f0b082616161628161636164"},
    {"s0 i p5683", "82208244c0000201191633"},
    {"s0 zeth0", "82208250fe8000000000000000000000000000016465746830"},
    {"s0 uu hh", "822083f461756168"},
    {"s0 hh. aa", "83208261686081"
                  "6161"},
    {"s0 hh /", "8220816168"},
    {"s0 hh / ?", "8220816168"},
    {"s0 hh a", "83208161688160"},
    {"s0 hh qa", "842081616880816161"},
    {"s0 hh ff", "8520816168808061"
                 "66"},
    {"s0 hh / ? f", "8520816168808060"},
    {"s0 aa", "8320f6816161"},
    {"s0 r aa", "8320f5816161"},
    {"s0 /", "8120"},
    {"nfoo hh", "8263666f6f816168"},
    {"s18446744073709551615 hh", "823bffffffffffffffff816168"},
    {"hh", "82f6816168"},
    {"hh aa", "83f6816168816161"},
    {"aa", "8200816161"},
    {"/", "820080"},
    {"qa", "8300f6816161"},
    {"?", "8300f680"},
    {"/ ?", "820080"},
    {"/ qa", "830080816161"},
    {"d1 /", "8101"},
    {"d128 aa ?", "82f5816161"},
    {"d1 fa", "8401f6f66161"},
    {"d1 / ? fa", "84018080"
                  "6161"},
};

static void test_parts_become_their_encoding(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROW_COUNT(good); i++) {
        struct cri_builder builder;
        uint8_t buffer[128];
        size_t len = 0;
        struct cri_fault fault = {0, ""};
        cri_builder_init(&builder, buffer, sizeof buffer);
        give_all(&builder, good[i].parts);
        enum cri_error error = cri_builder_finish(&builder, &len, &fault);
        if (error != CRI_OK || strcmp(hex_of(buffer, len), good[i].hex) != 0) {
            fail_msg("%s: %s, %s, %s", good[i].parts, cri_strerror(error), fault.rule,
                     hex_of(buffer, len));
        }
    }
}

/* Each also tells of room that lacks, down to none, and writes nothing behind the room. */
static void test_builder_says_how_much_it_needs(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROW_COUNT(good); i++) {
        for (size_t capacity = 0; capacity < strlen(good[i].hex) / 2; capacity++) {
            struct cri_builder builder;
            uint8_t buffer[128];
            size_t len = 0;
            memset(buffer, 0xaa, sizeof buffer);
            cri_builder_init(&builder, capacity == 0 ? NULL : buffer, capacity);
            give_all(&builder, good[i].parts);
            assert_int_equal(cri_builder_finish(&builder, &len, NULL), CRI_ERR_SPACE);
            assert_int_equal(len, strlen(good[i].hex) / 2);
            assert_int_equal(buffer[capacity], 0xaa);
        }
    }
}

/* A trailing default that is dropped again needs no room. */
static void test_what_is_trimmed_needs_no_room(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROW_COUNT(good); i++) {
        struct cri_builder builder;
        uint8_t buffer[128];
        size_t len = 0;
        cri_builder_init(&builder, buffer, strlen(good[i].hex) / 2);
        give_all(&builder, good[i].parts);
        assert_int_equal(cri_builder_finish(&builder, &len, NULL), CRI_OK);
        assert_string_equal(hex_of(buffer, len), good[i].hex);
    }
}

static const struct {
    const char *parts;
    enum cri_error error;
} bad[] = {
    /* out of order, twice, without place */
    {"s0 s0", CRI_ERR_ARGUMENT},
    {"s0 d1", CRI_ERR_ARGUMENT},
    {"d1 s0 hh", CRI_ERR_ARGUMENT},
    {"d129", CRI_ERR_ARGUMENT},
    {"d1 hh", CRI_ERR_ARGUMENT},
    {"d1 r", CRI_ERR_ARGUMENT},
    {"s0 hh hh", CRI_ERR_ARGUMENT},
    {"s0 hh i", CRI_ERR_ARGUMENT},
    {"s0 hh uu", CRI_ERR_ARGUMENT},
    {"s0 r hh", CRI_ERR_ARGUMENT},
    {"s0 hh r", CRI_ERR_ARGUMENT},
    {"s0 p1", CRI_ERR_ARGUMENT},
    {"p1", CRI_ERR_ARGUMENT},
    {"s0 hh p1 p2", CRI_ERR_ARGUMENT},
    {"s0 uu p1", CRI_ERR_ARGUMENT},
    {"s0 hh aa p1", CRI_ERR_ARGUMENT},
    {"s0 hh aa hh", CRI_ERR_ARGUMENT},
    {"s0 hh aa /", CRI_ERR_ARGUMENT},
    {"s0 hh qa aa", CRI_ERR_ARGUMENT},
    {"s0 hh qa ?", CRI_ERR_ARGUMENT},
    {"s0 hh fa fa", CRI_ERR_ARGUMENT},
    {"s0 hh fa qa", CRI_ERR_ARGUMENT},
    {"s0 hh fa aa", CRI_ERR_ARGUMENT},
    {"hh s0", CRI_ERR_ARGUMENT},
    /* the first error stays */
    {"s0 s0 a..", CRI_ERR_ARGUMENT},
    /* no CRI */
    {"s0 uu", CRI_ERR_AUTHORITY},
    {"s0 h127.0.0.1", CRI_ERR_HOST},
    {"s0 h[::1]", CRI_ERR_HOST},
    {"s0 hh a..", CRI_ERR_PATH},
    {"s0 hh a.", CRI_ERR_PATH},
    {"s0 r", CRI_ERR_PATH},
    {"s0 r a", CRI_ERR_PATH},
    {"s0 a aa", CRI_ERR_PATH},
    {"nFoo hh", CRI_ERR_SCHEME},
    {"n hh", CRI_ERR_SCHEME},
    {"s0 h\xff", CRI_ERR_UTF8},
    {"s0 hh a\xc3", CRI_ERR_UTF8},
    {"s0 hh q\x80", CRI_ERR_UTF8},
    {"s0 hh f\xed\xa0\x80", CRI_ERR_UTF8},
    {"s0 z\xff", CRI_ERR_UTF8},
};

static void test_parts_that_make_no_cri_are_told(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROW_COUNT(bad); i++) {
        struct cri_builder builder;
        uint8_t buffer[128];
        size_t len = 77;
        struct cri_fault fault = {0, NULL};
        cri_builder_init(&builder, buffer, sizeof buffer);
        give_all(&builder, bad[i].parts);
        enum cri_error error = cri_builder_finish(&builder, &len, &fault);
        if (error != bad[i].error || fault.rule == NULL || len != 77) {
            fail_msg("%s: %s", bad[i].parts, cri_strerror(error));
        }
    }
}

static void test_an_address_has_4_or_16_bytes(void **state)
{
    (void)state;
    for (size_t ip_len = 0; ip_len <= sizeof link_local; ip_len++) {
        struct cri_builder builder;
        uint8_t buffer[64];
        size_t len;
        cri_builder_init(&builder, buffer, sizeof buffer);
        cri_builder_scheme(&builder, CRI_SCHEME_COAP);
        cri_builder_host_ip(&builder, (struct cri_slice){link_local, ip_len}, nothing);
        assert_int_equal(cri_builder_finish(&builder, &len, NULL),
                         ip_len == 4 || ip_len == 16 ? CRI_OK : CRI_ERR_HOST);
    }
}

/* Heads of one, two and three bytes, for labels, segments and parameters at once. */
static void test_many_items(void **state)
{
    static const size_t counts[] = {23, 24, 25, 255, 256, 300};
    static uint8_t buffer[4096];
    static char host[2 * 300];
    (void)state;
    for (size_t i = 0; i < ROW_COUNT(counts); i++) {
        struct cri_builder builder;
        struct cri cri;
        size_t len;
        size_t again;
        static uint8_t encoded[sizeof buffer];
        memset(host, 'h', sizeof host);
        for (size_t k = 1; k < 2 * counts[i] - 1; k += 2) {
            host[k] = '.';
        }
        cri_builder_init(&builder, buffer, sizeof buffer);
        cri_builder_scheme(&builder, CRI_SCHEME_COAP);
        cri_builder_host_name(&builder,
                              (struct cri_slice){(const uint8_t *)host, 2 * counts[i] - 1});
        for (size_t k = 0; k < counts[i]; k++) {
            cri_builder_segment(&builder, text("segment"));
        }
        for (size_t k = 0; k < counts[i]; k++) {
            cri_builder_parameter(&builder, text("a"));
        }
        cri_builder_fragment(&builder, text("f"));
        assert_int_equal(cri_builder_finish(&builder, &len, NULL), CRI_OK);
        assert_int_equal(cri_decode((struct cri_slice){buffer, len}, NULL, &cri, NULL), CRI_OK);
        assert_int_equal(cri.labels.count, counts[i]);
        assert_int_equal(cri.path.count, counts[i]);
        assert_int_equal(cri.query.count, counts[i]);
        assert_int_equal(cri_encode(&cri, encoded, sizeof encoded, &again), CRI_OK);
        assert_int_equal(again, len);
        assert_memory_equal(encoded, buffer, len);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_become_their_encoding),
        cmocka_unit_test(test_builder_says_how_much_it_needs),
        cmocka_unit_test(test_what_is_trimmed_needs_no_room),
        cmocka_unit_test(test_parts_that_make_no_cri_are_told),
        cmocka_unit_test(test_an_address_has_4_or_16_bytes),
        cmocka_unit_test(test_many_items),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
