/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/address.h"
#include "support/test.h"

#include <string.h>

static bool parse(const char *text, struct address *ret_address)
{
    return address_parse(text, strlen(text), 5683, ret_address);
}

static void test_parse_and_format_agree(void **state)
{
    static const struct {
        const char *text, *formatted;
    } rows[] = {
        {"192.0.2.1", "192.0.2.1:5683"},
        {"192.0.2.1:61616", "192.0.2.1:61616"},
        {"0.0.0.0:0", "0.0.0.0:0"},
        {"255.255.255.255:65535", "255.255.255.255:65535"},
        {"[::]", "[::]:5683"},
        {"[2001:db8:0:0:0:0:0:1]:1", "[2001:db8::1]:1"},
        {"[::ffff:192.0.2.1]:7", "[::ffff:192.0.2.1]:7"},
        {"[fe80::1%2]:5683", "[fe80::1%2]:5683"},
        {"[fe80::1%lo]", "[fe80::1%1]:5683"},
        {"[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff%4294967295]:65535",
         "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff%4294967295]:65535"},
    };
    (void)state;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct address address;
        char text[ADDRESS_TEXT_MAX];
        assert_true(parse(rows[i].text, &address));
        assert_string_equal(address_format(&address, text), rows[i].formatted);
        struct address again;
        assert_true(parse(text, &again));
        assert_true(address_equal(&address, &again));
    }
}

static void test_parse_refuses_what_is_no_address(void **state)
{
    static const char *const rows[] = {
        "",
        ":",
        ":5683",
        "[",
        "[]",
        "[::",
        "[::]x",
        "[::]5683",
        "[::]:",
        "[::]:65536",
        "[::]:-1",
        "[::]:+1",
        "[::]: 1",
        "[::1]:1 ",
        "::1",
        "127.1",
        "2130706433",
        "0x7f.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:x",
        "127.0.0.01",
        "127.0.0.1.1",
        "localhost:5683",
        "[127.0.0.1]",
        "[fe80::1%]",
        "[fe80::1%0]:1",
        "[fe80::1%nonesuch0]",
        "[fe80::1%a%b]",
        "127.0.0.1%lo",
        "[fe80::1%this-is-much-too-long-to-be-the-name-of-an-interface-in-any-system-we-know-of]",
        "127.0.0.1:99999999999999999999",
    };
    struct address address = {.family = ADDRESS_IPV4, .port = 42};
    (void)state;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (parse(rows[i], &address)) {
            fail_msg("accepted \"%s\"", rows[i]);
        }
        assert_int_equal(address.port, 42);
    }
    assert_false(address_parse("127.0.0.1\0x", 11, 1, &address));
    assert_false(address_parse("127.0.0.1", 0, 1, &address));
}

static void test_parse_stops_at_the_given_length(void **state)
{
    struct address address;
    (void)state;

    assert_true(address_parse("127.0.0.12", 9, 1, &address));
    assert_int_equal(address.ip[3], 1);
    assert_false(address_parse("[::1]:5", 4, 1, &address));
}

static void test_predicates_see_through_mapped_addresses(void **state)
{
    static const struct {
        const char *text;
        bool loopback, multicast, unspecified;
    } rows[] = {
        {"127.0.0.1", true, false, false},
        {"127.255.255.254", true, false, false},
        {"128.0.0.1", false, false, false},
        {"[::1]", true, false, false},
        {"[::2]", false, false, false},
        {"[::ffff:127.0.0.1]", true, false, false},
        {"224.0.1.187", false, true, false},
        {"239.255.255.255", false, true, false},
        {"240.0.0.1", false, false, false},
        {"[ff02::fd]", false, true, false},
        {"[::ffff:224.0.1.187]", false, true, false},
        {"0.0.0.0", false, false, true},
        {"[::]", false, false, true},
        {"[::ffff:0.0.0.0]", false, false, true},
        {"0.0.0.1", false, false, false},
    };
    struct address none = {0};
    (void)state;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct address address;
        assert_true(parse(rows[i].text, &address));
        assert_int_equal(address_is_loopback(&address), rows[i].loopback);
        assert_int_equal(address_is_multicast(&address), rows[i].multicast);
        assert_int_equal(address_is_unspecified(&address), rows[i].unspecified);
    }
    assert_false(address_is_loopback(&none) || address_is_multicast(&none) ||
                 address_is_unspecified(&none));
    assert_int_equal(address_ip_len(&none), 0);
}

static void test_equal_is_about_all_fields_same_host_not_about_ports(void **state)
{
    struct address a, b;
    (void)state;

    assert_true(parse("[fe80::1%2]:1", &a));
    b = a;
    assert_true(address_equal(&a, &b) && address_same_host(&a, &b));
    b.port = 2;
    assert_false(address_equal(&a, &b));
    assert_true(address_same_host(&a, &b));
    b.scope = 3;
    assert_false(address_same_host(&a, &b));
    assert_true(parse("[::]:1", &a));
    assert_true(parse("0.0.0.0:1", &b));
    assert_false(address_same_host(&a, &b));
}

/* One bit of input or of seed changed moves about half of the output. */
static void test_hash_depends_on_every_field_and_the_seed(void **state)
{
    struct address address;
    unsigned moved = 0;
    (void)state;

    assert_true(parse("[2001:db8::7%1]:5683", &address));
    uint64_t hash = address_hash(&address, 1);
    assert_int_equal(hash, address_hash(&address, 1));
    for (size_t bit = 0; bit < 8 * sizeof address; bit++) {
        struct address other = address;
        uint8_t bytes[sizeof other];
        memcpy(bytes, &other, sizeof bytes);
        bytes[bit / 8] = (uint8_t)(bytes[bit / 8] ^ 1u << bit % 8);
        memcpy(&other, bytes, sizeof bytes);
        moved += (unsigned)__builtin_popcountll(hash ^ address_hash(&other, 1));
    }
    assert_in_range(moved / (8 * sizeof address), 28, 36);
    assert_in_range(__builtin_popcountll(hash ^ address_hash(&address, 2)), 16, 48);
}

/* SipHash-1-3 of the bytes 0 to 23, with the key 0 to 7 and its complement, from a model. */
static void test_hash_is_siphash(void **state)
{
    struct address address;
    uint8_t bytes[sizeof address];
    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)i;
    }
    memcpy(&address, bytes, sizeof bytes);
    if (bytes[0] == (address.family & 0xff)) { /* little-endian */
        assert_int_equal(address_hash(&address, UINT64_C(0x0706050403020100)),
                         UINT64_C(0x5f5a5a30bad879c3));
    }
}

/* The same of 192.0.2.1:5683 as the 8 bytes of family, port and address. */
static void test_hash_of_ipv4_is_siphash_of_8_bytes(void **state)
{
    static const uint8_t ip[4] = {192, 0, 2, 1};
    struct address address;
    uint8_t bytes[sizeof address];
    (void)state;
    address_set_ip(&address, ip, sizeof ip, 5683);
    memcpy(bytes, &address, sizeof bytes);
    if (bytes[0] == ADDRESS_IPV4) { /* little-endian */
        assert_int_equal(address_hash(&address, UINT64_C(0x0706050403020100)),
                         UINT64_C(0x7bfcecce23a80bcc));
    }
}

static void test_set_ip_takes_4_or_16_bytes(void **state)
{
    static const uint8_t ip[16] = {192, 0, 2, 1, 5, 6};
    struct address address;
    (void)state;

    address_set_ip(&address, ip, 4, 7);
    assert_int_equal(address.family, ADDRESS_IPV4);
    assert_int_equal(address.ip[4], 0);
    address_set_ip(&address, ip, 16, 7);
    assert_int_equal(address.family, ADDRESS_IPV6);
    assert_int_equal(address_ip_len(&address), 16);
    address_set_ip(&address, ip, 5, 7);
    assert_int_equal(address.family, ADDRESS_NONE);
    assert_int_equal(address.port, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse_and_format_agree),
        cmocka_unit_test(test_parse_refuses_what_is_no_address),
        cmocka_unit_test(test_parse_stops_at_the_given_length),
        cmocka_unit_test(test_predicates_see_through_mapped_addresses),
        cmocka_unit_test(test_equal_is_about_all_fields_same_host_not_about_ports),
        cmocka_unit_test(test_hash_is_siphash),
        cmocka_unit_test(test_hash_of_ipv4_is_siphash_of_8_bytes),
        cmocka_unit_test(test_hash_depends_on_every_field_and_the_seed),
        cmocka_unit_test(test_set_ip_takes_4_or_16_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
