/* SPDX-License-Identifier: BSD-2-Clause */
/* How much comes from one address (RATE-4). */
#include "support/test.h"

#include "client/source.h"

#include <stdio.h>
#include <string.h>

static struct source_table table;

static struct address at(const char *text)
{
    struct address address;
    assert_true(address_parse(text, strlen(text), 0, &address));
    return address;
}

static bool take(const char *text, uint32_t bits, uint32_t per_s, uint64_t now_ms)
{
    const struct address address = at(text);
    return source_take(&table, SOURCE_REQUESTS, &address, bits, per_s, now_ms);
}

static void start(uint32_t capacity)
{
    assert_int_equal(source_table_init(&table, capacity, 7), 0);
}

static void stop(void)
{
    source_table_clear(&table);
    source_table_clear(&table); /* a zeroed one */
}

static void test_ports_of_one_address_share_its_rate(void **state)
{
    (void)state;
    start(64);
    assert_true(take("192.0.2.1:1", 64, 2, 1000));
    assert_true(take("192.0.2.1:2", 64, 2, 1000));
    assert_false(take("192.0.2.1:3", 64, 2, 1000));
    assert_true(take("192.0.2.2:3", 64, 2, 1000)); /* another one */
    assert_false(take("192.0.2.1:3", 64, 2, 1499));
    assert_true(take("192.0.2.1:4", 64, 2, 1500)); /* half a second, half of it */
    assert_false(take("192.0.2.1:4", 64, 2, 1500));
    stop();
}

static void test_prefix_of_an_ipv6_address(void **state)
{
    (void)state;
    start(64);
    assert_true(take("[2001:db8:0:1::1]:1", 64, 1, 0));
    assert_false(take("[2001:db8:0:1:ffff:ffff:ffff:ffff]:1", 64, 1, 0));
    assert_true(take("[2001:db8:0:2::1]:1", 64, 1, 0));
    assert_true(take("[2001:db8:0:8000::]:1", 49, 1, 0));
    assert_false(take("[2001:db8:0:ffff::]:1", 49, 1, 0));
    assert_true(take("[2001:db8:0:7fff::]:1", 49, 1, 0));
    assert_true(take("[2001:db8::1]:1", 128, 1, 0));
    assert_true(take("[2001:db8::2]:1", 128, 1, 0));
    assert_false(take("[2001:db8::2]:2", 128, 1, 0));
    stop();
}

static void test_kinds_are_counted_apart(void **state)
{
    const struct address address = at("192.0.2.1:1");
    (void)state;
    start(64);
    assert_true(source_take(&table, SOURCE_REQUESTS, &address, 64, 1, 0));
    assert_true(source_take(&table, SOURCE_UNVERIFIED, &address, 64, 1, 0));
    assert_false(source_take(&table, SOURCE_REQUESTS, &address, 64, 1, 0));
    assert_false(source_take(&table, SOURCE_UNVERIFIED, &address, 64, 1, 0));
    stop();
}

/* A flood from made-up addresses: the table stays what it is, and a busy address known. */
static void test_busy_address_outlives_many_others(void **state)
{
    char text[32];
    (void)state;
    start(64);
    assert_int_equal(table.capacity, 64);
    for (unsigned i = 0; i < 50; i++) {
        assert_true(take("192.0.2.1:1", 64, 50, 5000));
    }
    for (unsigned i = 0; i < 10000; i++) {
        snprintf(text, sizeof(text), "10.1.%u.%u:1", i / 250, i % 250);
        (void)take(text, 64, 50, 5000);
    }
    assert_true(table.evicted > 9000);
    assert_false(take("192.0.2.1:1", 64, 50, 5000));
    stop();
}

static void test_capacity_is_a_power_of_two(void **state)
{
    (void)state;
    start(65);
    assert_int_equal(table.capacity, 128);
    stop();
    start(1);
    assert_int_equal(table.capacity, 4);
    assert_true(take("192.0.2.1:1", 64, 1, 0));
    assert_true(take("192.0.2.2:1", 64, 1, 0));
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ports_of_one_address_share_its_rate),
        cmocka_unit_test(test_prefix_of_an_ipv6_address),
        cmocka_unit_test(test_kinds_are_counted_apart),
        cmocka_unit_test(test_busy_address_outlives_many_others),
        cmocka_unit_test(test_capacity_is_a_power_of_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
