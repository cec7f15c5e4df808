/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/test.h"

#include "policy/ranges.h"

#include <string.h>

static struct address_prefix parsed(const char *text)
{
    struct address_prefix prefix;
    const char *problem = address_prefix_parse(text, strlen(text), &prefix);
    if (problem != NULL) {
        fail_msg("%s: %s", text, problem);
    }
    return prefix;
}

static struct address address(const char *text)
{
    struct address made;
    assert_true(address_parse(text, strlen(text), 4711, &made));
    return made;
}

struct row {
    const char *prefix, *address;
    bool is_covered;
};

static const struct row rows[] = {
    {"192.0.2.0/24", "192.0.2.0", true},
    {"192.0.2.0/24", "192.0.2.255", true},
    {"192.0.2.0/24", "192.0.3.0", false},
    {"192.0.2.0/24", "192.0.1.255", false},
    {"192.0.2.128/25", "192.0.2.127", false},
    {"192.0.2.128/25", "192.0.2.128", true},
    {"192.0.2.7", "192.0.2.7", true},
    {"192.0.2.7", "192.0.2.6", false},
    {"192.0.2.7/32", "192.0.2.7", true},
    {"0.0.0.0/0", "255.255.255.255", true},
    {"0.0.0.0/0", "[::]", false},
    {"::/0", "[ffff::1]", true},
    {"::/0", "127.0.0.1", false},
    {"2001:db8::/32", "[2001:db8:ffff::1]", true},
    {"2001:db8::/32", "[2001:db9::]", false},
    {"fe80::/10", "[febf::1]", true},
    {"fe80::/10", "[fec0::1]", false},
    {"fe80::/10", "[fe80::1%7]", true},
    {"fe80::/10%7", "[fe80::1%7]", true},
    {"fe80::%7/10", "[fe80::1%7]", true},
    {"fe80::/10%7", "[fe80::1%8]", false},
    {"fe80::/10%7", "[fe80::1]", false},
    {"::1", "[::1]", true},
    {"::1", "[::2]", false},
};

static void test_prefix_covers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct address_prefix prefix = parsed(rows[i].prefix);
        struct address at = address(rows[i].address);
        print_message("%s %s\n", rows[i].prefix, rows[i].address);
        assert_int_equal(address_prefix_covers(&prefix, &at), rows[i].is_covered);
    }
}

static void test_prefix_bad_text_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "/24",
        "192.0.2.0/",
        "192.0.2.0/33",
        "192.0.2.0/024x",
        "192.0.2/24",
        "192.0.2.1/24",
        "2001:db8::/129",
        "2001:db8::1/64",
        "fe80::/10%",
        "fe80::%",
        "[::1]",
        "::1/-1",
        "localhost",
        "192.0.2.0/24/24",
        "10.0.0.1%1",
        "::ffff:10.0.0.0/104",
        "010.0.0.1",
        "0x7f.0.0.1",
        "192.0.2.0:80/24",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct address_prefix prefix;
        print_message("%s\n", bad[i]);
        assert_non_null(address_prefix_parse(bad[i], strlen(bad[i]), &prefix));
    }
}

static void test_prefix_truncates_at_any_bit(void **state)
{
    (void)state;
    struct address all = address("[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]");
    for (unsigned bits = 0; bits <= 128; bits++) {
        struct address cut = address_truncate(&all, bits);
        unsigned set = 0;
        for (unsigned i = 0; i < 128; i++) {
            bool is_set = (cut.ip[i / 8] & (0x80u >> (i % 8))) != 0;
            assert_int_equal(is_set, i < bits);
            set += is_set;
        }
        assert_int_equal(set, bits);
        assert_int_equal(cut.port, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefix_covers),
        cmocka_unit_test(test_prefix_bad_text_is_refused),
        cmocka_unit_test(test_prefix_truncates_at_any_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
