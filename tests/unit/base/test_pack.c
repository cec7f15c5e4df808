/* SPDX-License-Identifier: BSD-2-Clause */
/* What is packed comes back whole or not at all. */
#include "base/pack.h"
#include "support/test.h"

#include <string.h>

static const char *const texts[] = {"192.0.2.7:5683", "[2001:db8::7]:1", "[fe80::1%3]:65535",
                                    "[::ffff:192.0.2.7]:5683"};

#define COUNT (sizeof texts / sizeof texts[0])

static struct address address_of(const char *text)
{
    struct address address;

    assert_true(address_parse(text, strlen(text), 1, &address));
    return address;
}

static void test_addresses_come_back(void **state)
{
    struct pack pack = {0};
    (void)state;

    pack_address(&pack, &(struct address){.family = ADDRESS_NONE});
    for (size_t i = 0; i < COUNT; i++) {
        struct address address = address_of(texts[i]);
        pack_address(&pack, &address);
    }
    struct unpack in = {.at = pack.data, .left = pack.len};
    assert_int_equal(unpack_address(&in).family, ADDRESS_NONE);
    assert_false(in.has_failed);
    for (size_t i = 0; i < COUNT; i++) {
        struct address address = address_of(texts[i]), got = unpack_address(&in);
        assert_memory_equal(&got, &address, sizeof got);
    }
    assert_false(in.has_failed);
    assert_int_equal(in.left, 0);
    pack_clear(&pack);
}

/* Wherever the bytes end there is no address, and nothing after it. */
static void test_cut_addresses_are_none(void **state)
{
    struct pack pack = {0};
    struct address address = address_of(texts[1]);
    (void)state;

    pack_address(&pack, &address);
    for (size_t len = 0; len < pack.len; len++) {
        struct unpack in = {.at = pack.data, .left = len};
        assert_int_equal(unpack_address(&in).family, ADDRESS_NONE);
        assert_true(in.has_failed);
    }
    pack_clear(&pack);
}

/* A family that is not known, and bytes that an IPv4 address does not have. */
static void test_bytes_that_are_no_address(void **state)
{
    struct pack pack = {0};
    struct address address = address_of(texts[0]);
    (void)state;

    pack_address(&pack, &address);
    for (size_t at = 0; at < pack.len; at++) {
        struct unpack in = {.at = pack.data, .left = pack.len};
        uint8_t before = pack.data[at];
        pack.data[at] ^= 0x40;
        bool is_address = unpack_address(&in).family != ADDRESS_NONE;
        assert_int_equal(is_address, at >= 2 && at < 12); /* the port, the scope, the IP address */
        assert_int_equal(in.has_failed, !is_address);
        pack.data[at] = before;
    }
    pack_clear(&pack);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses_come_back),
        cmocka_unit_test(test_cut_addresses_are_none),
        cmocka_unit_test(test_bytes_that_are_no_address),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
