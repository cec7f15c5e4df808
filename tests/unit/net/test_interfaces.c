/* SPDX-License-Identifier: BSD-2-Clause */
/* The host's own interfaces: every Linux has lo. */
#include "net/interfaces.h"

#include <net/if.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_an_interface_by_name_and_number(void **state)
{
    struct interface_name by_name = {0}, by_number = {0};
    char number[16];

    (void)state;
    assert_true(interfaces_find("lo", &by_name));
    assert_int_equal(by_name.index, if_nametoindex("lo"));
    assert_string_equal(by_name.name, "lo");
    (void)snprintf(number, sizeof(number), "%u", by_name.index);
    assert_true(interfaces_find(number, &by_number));
    assert_int_equal(by_number.index, by_name.index);
    assert_string_equal(by_number.name, "lo");
}

static void test_what_is_no_interface(void **state)
{
    static const char *const texts[] = {
        "",           "nope0",       "LO",  "lo ",  "-1",
        "+1",         " 1",          "0",   "1x",   "2147483647",
        "4294967296", "99999999999", "0x1", "lo\n", "an-interface-name-that-is-too-long"};
    struct interface_name found = {.index = 4711, .name = "untouched"};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        print_message("\"%s\"\n", texts[i]);
        assert_false(interfaces_find(texts[i], &found));
        assert_int_equal(found.index, 4711);
        assert_string_equal(found.name, "untouched");
    }
}

static void test_own_addresses_have_loopback(void **state)
{
    struct address own[128];
    size_t count = interfaces_list(own, 128);
    bool has_loopback = false;

    (void)state;
    for (size_t i = 0; i < count; i++) {
        has_loopback = has_loopback || address_is_loopback(&own[i]);
        assert_int_equal(own[i].port, 0);
        /* A link-local address is only complete with its interface. */
        assert_true(!address_is_ipv6_link_local(&own[i]) || own[i].scope != 0);
    }
    assert_true(has_loopback);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_interface_by_name_and_number),
        cmocka_unit_test(test_what_is_no_interface),
        cmocka_unit_test(test_own_addresses_have_loopback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
