/* SPDX-License-Identifier: BSD-2-Clause */
/* IPv6 addresses that lead to IPv4 ones, and ranges that have names. */
#include "support/test.h"

#include "policy/ranges.h"

#include <stdio.h>
#include <string.h>

static struct address address(const char *text)
{
    struct address made;
    char bracketed[ADDRESS_TEXT_MAX];
    bool is_ipv6 = strchr(text, ':') != NULL;
    snprintf(bracketed, sizeof(bracketed), is_ipv6 ? "[%s]" : "%s", text);
    assert_true(address_parse(bracketed, strlen(bracketed), 0, &made));
    return made;
}

static struct address_prefix prefix(const char *text)
{
    struct address_prefix made;
    assert_null(address_prefix_parse(text, strlen(text), &made));
    return made;
}

struct row {
    const char *nat64; /* prefix of a translator, or NULL */
    const char *address;
    const char *ipv4[3];
};

/* Those with a translator's prefix are the examples of RFC 6052 section 2.4. */
static const struct row rows[] = {
    {NULL, "192.0.2.33", {NULL}},
    {NULL, "2001:db8::1", {NULL}},
    {NULL, "::", {NULL}},
    {NULL, "::1", {NULL}},
    {NULL, "::2", {"0.0.0.2"}},
    {NULL, "::7f00:1", {"127.0.0.1"}},
    {NULL, "::ffff:127.0.0.1", {"127.0.0.1"}},
    {NULL, "::ffff:0:127.0.0.1", {"127.0.0.1"}},
    {NULL, "2002:7f00:1::", {"127.0.0.1"}},
    {NULL, "2002:c000:221:1:2:3:4:5", {"192.0.2.33"}},
    {NULL, "2001:0:c000:221:0:0:80ff:fffe", {"192.0.2.33", "127.0.0.1"}},
    {NULL, "2001:db8::5efe:127.0.0.1", {"127.0.0.1"}},
    {NULL, "fe80::200:5efe:127.0.0.1", {"127.0.0.1"}},
    {NULL, "2001:db8::100:5efe:127.0.0.1", {NULL}},
    {NULL, "64:ff9b::127.0.0.1", {NULL}},
    {"64:ff9b::/96", "64:ff9b::192.0.2.33", {"192.0.2.33"}},
    {"64:ff9b::/96", "64:ff9b:1::192.0.2.33", {NULL}},
    {"2001:db8::/32", "2001:db8:c000:221::", {"192.0.2.33"}},
    {"2001:db8:100::/40", "2001:db8:1c0:2:21::", {"192.0.2.33"}},
    {"2001:db8:122::/48", "2001:db8:122:c000:2:2100::", {"192.0.2.33"}},
    {"2001:db8:122:300::/56", "2001:db8:122:3c0:0:221::", {"192.0.2.33"}},
    {"2001:db8:122:344::/64", "2001:db8:122:344:c0:2:2100::", {"192.0.2.33"}},
    {"2001:db8:122:344::/96", "2001:db8:122:344::192.0.2.33", {"192.0.2.33"}},
    {"64:ff9b:1::/48", "64:ff9b:1::192.0.2.33", {NULL}},
    {"64:ff9b:1::/48", "64:ff9b:1:c000:2:2100:ff:1", {"192.0.2.33"}},
    {"2002::/32", "2002:0:c000:221::", {"0.0.192.0", "192.0.2.33"}},
};

static void test_embedded_addresses_are_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *row = &rows[i];
        struct address at = address(row->address), found[EMBEDDED_MAX];
        struct address_prefix nat64 = {.bits = 0};
        size_t nat64_count = 0, expected = 0;
        print_message("%s behind %s\n", row->address, row->nat64 != NULL ? row->nat64 : "nothing");
        if (row->nat64 != NULL) {
            nat64 = prefix(row->nat64);
            nat64_count = 1;
            assert_true(embedded_is_nat64_length(nat64.bits));
        }
        size_t count = embedded_ipv4(&at, &nat64, nat64_count, found);
        for (; expected < 3 && row->ipv4[expected] != NULL; expected++) {
            struct address wanted = address(row->ipv4[expected]);
            assert_true(expected < count);
            assert_true(address_equal(&found[expected], &wanted));
        }
        assert_int_equal(count, expected);
    }
}

/* The most that one address can be is what the room is for. */
static void test_embedded_forms_fit(void **state)
{
    (void)state;
    struct address_prefix nat64[NAT64_PREFIXES_MAX];
    struct address found[EMBEDDED_MAX];
    struct address at = address("2001:0:101:101::5efe:1.2.3.4");
    for (size_t i = 0; i < NAT64_PREFIXES_MAX; i++) {
        nat64[i] = prefix("2001::/32");
    }
    assert_in_range(embedded_ipv4(&at, nat64, NAT64_PREFIXES_MAX, found), 11, EMBEDDED_MAX);
}

static void test_embedded_lengths_of_translators(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits <= 128; bits++) {
        bool is_one =
            bits == 32 || bits == 40 || bits == 48 || bits == 56 || bits == 64 || bits == 96;
        assert_int_equal(embedded_is_nat64_length(bits), is_one);
    }
}

static const struct {
    const char *address, *kind;
    bool is_never;
} reserved[] = {
    {"0.0.0.0", "builtin:unspecified", true},
    {"0.1.2.3", "builtin:unspecified", true},
    {"1.0.0.0", NULL, false},
    {"126.255.255.255", NULL, false},
    {"127.0.0.0", "builtin:loopback", false},
    {"127.255.255.255", "builtin:loopback", false},
    {"128.0.0.0", NULL, false},
    {"10.0.0.1", NULL, false},
    {"192.168.0.1", NULL, false},
    {"169.253.255.255", NULL, false},
    {"169.254.0.0", "builtin:link-local", false},
    {"169.254.169.254", "builtin:metadata", false},
    {"169.254.170.2", "builtin:metadata", false},
    {"169.255.0.0", NULL, false},
    {"100.100.100.200", "builtin:metadata", false},
    {"100.100.100.201", NULL, false},
    {"168.63.129.16", "builtin:metadata", false},
    {"192.0.0.192", "builtin:metadata", false},
    {"192.0.0.9", "builtin:protocol", false},
    {"192.0.0.255", "builtin:protocol", false},
    {"191.255.255.255", NULL, false},
    {"192.0.1.0", NULL, false},
    {"192.0.2.1", NULL, false},
    {"198.51.100.1", NULL, false},
    {"223.255.255.255", NULL, false},
    {"224.0.0.1", "builtin:multicast", false},
    {"239.255.255.255", "builtin:multicast", false},
    {"240.0.0.0", "builtin:future-use", false},
    {"255.255.255.254", "builtin:future-use", false},
    {"255.255.255.255", "builtin:broadcast", true},
    {"::", "builtin:unspecified", true},
    {"::1", "builtin:loopback", false},
    {"::2", NULL, false},
    {"::ffff:192.0.2.1", "builtin:ipv4-mapped", true},
    {"fe80::1", "builtin:link-local", false},
    {"fe80::1%7", "builtin:link-local", false},
    {"febf::1", "builtin:link-local", false},
    {"fe7f::1", NULL, false},
    {"fec0::", "builtin:site-local", false},
    {"feff:ffff::1", "builtin:site-local", false},
    {"fe00::1", NULL, false},
    {"100::", "builtin:discard", false},
    {"100::ffff:ffff:ffff:ffff", "builtin:discard", false},
    {"100:0:0:1::1", "builtin:discard", false},
    {"100:0:0:2::1", NULL, false},
    {"101::1", NULL, false},
    {"5eff::1", NULL, false},
    {"5f00::1", "builtin:srv6", false},
    {"5f00:ffff::1", "builtin:srv6", false},
    {"5f01::1", NULL, false},
    {"ff02::1", "builtin:multicast", false},
    {"fc00::1", NULL, false},
    {"fd00:ec2::254", "builtin:metadata", false},
    {"fd00:ec3::254", NULL, false},
    {"fd20:ce::254", "builtin:metadata", false},
    {"fd00:42::42", "builtin:metadata", false},
    {"2001:db8::1", NULL, false},
};

static void test_ranges_reserved(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++) {
        struct address at = address(reserved[i].address);
        bool is_never;
        const char *kind = ranges_reserved(&at, &is_never);
        print_message("%s\n", reserved[i].address);
        if (reserved[i].kind == NULL) {
            assert_null(kind);
        } else {
            assert_non_null(kind);
            assert_string_equal(kind, reserved[i].kind);
        }
        assert_int_equal(is_never, reserved[i].is_never);
    }
}

static void test_ranges_of_words(void **state)
{
    static const struct {
        const char *word, *inside, *outside;
    } words[] = {
        {"any", "203.0.113.1", NULL},
        {"any", "2001:db8::1", NULL},
        {"loopback", "127.1.2.3", "128.0.0.1"},
        {"loopback", "::1", "::2"},
        {"link-local", "169.254.9.9", "10.0.0.1"},
        {"link-local", "fe80::1%3", "fec0::1"},
        {"private", "10.255.255.255", "11.0.0.0"},
        {"private", "172.16.0.1", "172.32.0.0"},
        {"private", "192.168.9.9", "192.169.0.0"},
        {"unique-local", "fd12::1", "fe00::1"},
        {"unique-local", "fc00::1", "2001:db8::1"},
    };
    const struct address_prefix *ranges;
    (void)state;
    assert_int_equal(ranges_of_word("everybody", 9, &ranges), 0);
    assert_int_equal(ranges_of_word("an", 2, &ranges), 0);
    assert_int_equal(ranges_of_word("", 0, &ranges), 0);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        size_t count = ranges_of_word(words[i].word, strlen(words[i].word), &ranges);
        struct address inside = address(words[i].inside);
        bool is_inside = false, is_outside = true;
        for (size_t k = 0; k < count; k++) {
            is_inside = is_inside || address_prefix_covers(&ranges[k], &inside);
            if (words[i].outside != NULL) {
                struct address outside = address(words[i].outside);
                is_outside = is_outside && !address_prefix_covers(&ranges[k], &outside);
            }
        }
        assert_true(is_inside);
        assert_true(is_outside);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_embedded_addresses_are_found),
        cmocka_unit_test(test_embedded_forms_fit),
        cmocka_unit_test(test_embedded_lengths_of_translators),
        cmocka_unit_test(test_ranges_reserved),
        cmocka_unit_test(test_ranges_of_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
