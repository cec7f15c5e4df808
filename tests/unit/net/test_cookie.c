/* SPDX-License-Identifier: BSD-2-Clause */
/* Cookies (SEC-14, AMP-3): of one process, and of replicas that share a secret. */
#include "net/cookie.h"
#include "net/derive.h"
#include "net/loop.h"
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#define MINUTE_S 60u

static uint64_t wall_s = 1600000020; /* in the middle of a minute */

uint64_t loop_wall_s(const struct loop *loop)
{
    (void)loop;
    return wall_s;
}

static const struct bytes secret = {(const uint8_t *)"0123456789abcdef0123456789abcdef", 32};
static const struct bytes other = {(const uint8_t *)"0123456789abcdef0123456789abcdeF", 32};

static struct cookies *make(struct bytes shared, const char *label)
{
    struct cookies *cookies = NULL;

    assert_int_equal(cookies_new(NULL, 0, shared, label, &cookies), 0);
    return cookies;
}

/* A client, and the address of the replica that it was led to. */
static struct udp_path path_of(uint16_t port, uint8_t replica)
{
    return (struct udp_path){
        .remote = {.family = ADDRESS_IPV4, .port = port, .ip = {192, 0, 2, 7}},
        .local = {.family = ADDRESS_IPV4, .port = 5683, .ip = {198, 51, 100, replica}},
    };
}

/* Whether @p taker accepts what @p giver gives to the same client, @p after_s later. */
static bool is_taken(struct cookies *giver, struct cookies *taker, int after_s)
{
    struct udp_path given = path_of(4000, 11), brought = path_of(4000, 12);
    uint8_t cookie[COOKIE_LEN];

    assert_true(cookie_make(giver, 0, &given, cookie));
    wall_s += (uint64_t)(int64_t)after_s;
    bool is_good = cookie_is_good(taker, 0, &brought, cookie, COOKIE_LEN_MIN);
    wall_s -= (uint64_t)(int64_t)after_s;
    return is_good;
}

static void test_a_cookie_of_one_replica_is_good_at_another(void **state)
{
    struct cookies *a = make(secret, "echo"), *b = make(secret, "echo");
    (void)state;
    assert_true(is_taken(a, b, 0));
    assert_true(is_taken(b, a, 0));
    assert_true(is_taken(a, b, MINUTE_S));
    assert_true(is_taken(a, b, -(int)MINUTE_S)); /* the clock there is a minute behind */
    assert_false(is_taken(a, b, 2 * (int)MINUTE_S));
    assert_false(is_taken(a, b, -2 * (int)MINUTE_S));
    assert_true(is_taken(a, b, 0)); /* whatever the clock did between */
    cookies_free(a);
    cookies_free(b);
}

static void test_another_secret_use_or_client_is_refused(void **state)
{
    struct cookies *a = make(secret, "echo"), *alone = make((struct bytes){0}, "echo"),
                   *alone_too = make((struct bytes){0}, "echo"), *strange = make(other, "echo"),
                   *for_dtls = make(secret, "cookies");
    struct udp_path given = path_of(4000, 11), stranger = path_of(4001, 11);
    uint8_t cookie[COOKIE_LEN];
    (void)state;
    assert_false(is_taken(a, strange, 0));
    assert_false(is_taken(a, for_dtls, 0));
    assert_false(is_taken(a, alone, 0));
    assert_false(is_taken(alone, a, 0));
    assert_false(is_taken(alone, alone_too, 0));
    assert_true(cookie_make(a, 0, &given, cookie));
    assert_false(cookie_is_good(a, 0, &stranger, cookie, COOKIE_LEN));
    assert_false(cookie_is_good(a, 0, &given, cookie, COOKIE_LEN_MIN - 1));
    cookie[0] ^= 1;
    assert_false(cookie_is_good(a, 0, &given, cookie, COOKIE_LEN));
    cookies_free(a);
    cookies_free(alone);
    cookies_free(alone_too);
    cookies_free(strange);
    cookies_free(for_dtls);
}

/* Without a secret of replicas, both addresses are in the cookie, and the loop's time counts. */
static void test_a_cookie_of_one_process(void **state)
{
    struct cookies *alone = make((struct bytes){0}, "echo");
    struct udp_path path = path_of(4000, 11), elsewhere = path_of(4000, 12);
    uint8_t cookie[COOKIE_LEN];
    (void)state;
    assert_true(cookie_make(alone, 0, &path, cookie));
    wall_s += 3600;
    assert_true(cookie_is_good(alone, MINUTE_S * 1000, &path, cookie, COOKIE_LEN));
    wall_s -= 3600;
    assert_false(cookie_is_good(alone, MINUTE_S * 1000, &elsewhere, cookie, COOKIE_LEN));
    assert_false(cookie_is_good(alone, 3 * MINUTE_S * 1000, &path, cookie, COOKIE_LEN));
    cookies_free(alone);
}

/* By Python's hmac: HKDF-Extract with the salt, HKDF-Expand with label, NUL and info. */
static void test_keys_are_those_of_rfc_5869(void **state)
{
    const struct bytes info = {(const uint8_t *)"info", 4};
    uint8_t key[DERIVED_KEY_LEN];
    char hex[2 * DERIVED_KEY_LEN + 1];
    (void)state;
    assert_true(derive_key(secret, "echo", info, key, sizeof key));
    for (size_t i = 0; i < sizeof key; i++) {
        (void)snprintf(hex + 2 * i, 3, "%02x", key[i]);
    }
    assert_string_equal(hex, "655179eaddf2b026f52148e38de2426ed99a9315daaa230f9c3b6a2e99f4b15d");
    uint8_t long_info[129] = {0};
    assert_false(derive_key(secret, "echo", (struct bytes){long_info, 129}, key, sizeof key));
    assert_false(derive_key(secret, "a label of more than 31 characters", info, key, sizeof key));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_cookie_of_one_replica_is_good_at_another),
        cmocka_unit_test(test_another_secret_use_or_client_is_refused),
        cmocka_unit_test(test_a_cookie_of_one_process),
        cmocka_unit_test(test_keys_are_those_of_rfc_5869),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
