/* SPDX-License-Identifier: BSD-2-Clause */
/* net/shared_seal.h: what opens, and what does not. */
#include "net/shared_seal.h"

#include "support/test.h"

#include <stdio.h>

#define SECRET "0123456789abcdef0123456789abcdef"
#define TEXT "an answer for alice"
#define TEXT_LEN (sizeof(TEXT) - 1)
#define ROOM 256u

static const uint8_t bytes_of_keys[] = "a cache key, of another one";
static const struct bytes key = {bytes_of_keys, 11}, other_key = {bytes_of_keys, 27};

static struct shared_keys keys_of(const char *secret)
{
    struct shared_keys keys = {.has_secret = false};
    assert_true(shared_keys_derive((struct bytes){(const uint8_t *)secret, strlen(secret)}, &keys));
    return keys;
}

/* @return bytes with the head */
static size_t seal_text(const struct shared_keys *keys, enum shared_kind kind, uint8_t at[ROOM])
{
    size_t head = shared_head_len(keys, kind);
    assert_true(head + TEXT_LEN <= ROOM && head <= SHARED_HEAD_MAX);
    memcpy(at + head, TEXT, TEXT_LEN);
    assert_true(shared_seal(keys, kind, key, at, head + TEXT_LEN));
    return head + TEXT_LEN;
}

static bool opens(const struct shared_keys *keys, enum shared_kind kind, struct bytes as,
                  const uint8_t *at, size_t len)
{
    uint8_t room[ROOM];
    struct bytes body;
    return shared_unseal(keys, kind, as, (struct bytes){at, len},
                         (struct shared_room){room, sizeof(room)}, &body) &&
           body.len == TEXT_LEN && memcmp(body.data, TEXT, TEXT_LEN) == 0;
}

static bool has_text(const uint8_t *at, size_t len)
{
    for (size_t i = 0; i + TEXT_LEN <= len; i++) {
        if (memcmp(at + i, TEXT, TEXT_LEN) == 0) {
            return true;
        }
    }
    return false;
}

static void test_what_has_the_secret_opens_it(void **state)
{
    struct shared_keys here = keys_of(SECRET), there = keys_of(SECRET);
    (void)state;
    for (enum shared_kind kind = SHARED_ENTRY; kind < SHARED_KEYS; kind++) {
        uint8_t at[ROOM];
        size_t len = seal_text(&here, kind, at);
        assert_true(opens(&there, kind, key, at, len));
        assert_true(opens(&here, kind, key, at, len));
        assert_int_equal(has_text(at, len), kind == SHARED_ENTRY || kind == SHARED_SIGN);
    }
    shared_keys_clear(&here);
    shared_keys_clear(&there);
}

/* Another secret or none, another cache key, another kind, each byte, each length. */
static void test_nothing_else_opens(void **state)
{
    struct shared_keys keys = keys_of(SECRET), other = keys_of(SECRET "0"), none = keys_of("");
    (void)state;
    for (enum shared_kind kind = SHARED_ENTRY; kind < SHARED_KEYS; kind++) {
        uint8_t at[ROOM];
        size_t len = seal_text(&keys, kind, at);
        assert_false(opens(&other, kind, key, at, len));
        assert_false(opens(&none, kind, key, at, len));
        assert_false(opens(&keys, kind, other_key, at, len));
        for (enum shared_kind as = SHARED_ENTRY; as < SHARED_KEYS; as++) {
            assert_int_equal(opens(&keys, as, key, at, len), as == kind);
        }
        for (size_t i = 0; i < len; i++) {
            at[i] ^= 0x10;
            assert_false(opens(&keys, kind, key, at, len));
            at[i] ^= 0x10;
        }
        for (size_t cut = 0; cut < len; cut++) {
            assert_false(opens(&keys, kind, key, at, cut));
        }
    }
    shared_keys_clear(&keys);
    shared_keys_clear(&other);
    shared_keys_clear(&none);
}

/* The salts, and so the keys, differ each time: also of the same text under the same key. */
static void test_no_key_is_used_twice(void **state)
{
    static uint8_t sealed[200][ROOM];
    struct shared_keys keys = keys_of(SECRET);
    (void)state;
    for (unsigned i = 0; i < 200; i++) {
        size_t len = seal_text(&keys, SHARED_PRIVATE_ENTRY, sealed[i]);
        for (unsigned j = 0; j < i; j++) {
            assert_memory_not_equal(sealed[i] + 1, sealed[j] + 1, SHARED_SALT_LEN);
            assert_memory_not_equal(sealed[i] + len - TEXT_LEN, sealed[j] + len - TEXT_LEN,
                                    TEXT_LEN);
        }
    }
    shared_keys_clear(&keys);
}

static void test_a_private_entry_needs_a_secret(void **state)
{
    struct shared_keys none = keys_of("");
    uint8_t at[ROOM] = {0};
    (void)state;
    assert_false(shared_seal(&none, SHARED_PRIVATE_ENTRY, key, at, 40));
    at[0] = 1;
    memcpy(at + 1, TEXT, TEXT_LEN);
    assert_false(opens(&none, SHARED_PRIVATE_ENTRY, key, at, 1 + TEXT_LEN));
    assert_true(opens(&none, SHARED_ENTRY, key, at, 1 + TEXT_LEN));
    shared_keys_clear(&none);
}

static void test_what_has_no_room_does_not_open(void **state)
{
    struct shared_keys keys = keys_of(SECRET);
    uint8_t at[ROOM], room[ROOM];
    struct bytes body;
    (void)state;
    size_t len = seal_text(&keys, SHARED_PRIVATE_ENTRY, at);
    assert_false(shared_unseal(&keys, SHARED_PRIVATE_ENTRY, key, (struct bytes){at, len},
                               (struct shared_room){room, TEXT_LEN - 1}, &body));
    assert_true(shared_unseal(&keys, SHARED_PRIVATE_ENTRY, key, (struct bytes){at, len},
                              (struct shared_room){room, TEXT_LEN}, &body));
    shared_keys_clear(&keys);
}

/* Both names of a key, one after the other. */
static void names_of(const struct shared_keys *keys, const char *text,
                     uint8_t ret_names[SHARED_NAME_LEN + SHARED_TARGET_LEN])
{
    const struct bytes bytes = {(const uint8_t *)text, strlen(text)};
    assert_true(shared_name(keys, bytes, ret_names));
    assert_true(shared_target_name(keys, bytes, ret_names + SHARED_NAME_LEN));
}

/* The body begins with what a server chooses: it must not be taken for the end of another key. */
static void test_the_border_of_key_and_body_is_fixed(void **state)
{
    struct shared_keys keys = keys_of(SECRET);
    uint8_t at[ROOM];
    struct bytes body;
    (void)state;
    size_t len = seal_text(&keys, SHARED_ENTRY, at), head = shared_head_len(&keys, SHARED_ENTRY);
    uint8_t longer[64], moved[ROOM];
    memcpy(longer, key.data, key.len);
    memcpy(longer + key.len, TEXT, 4);
    memcpy(moved, at, head);
    memcpy(moved + head, at + head + 4, len - head - 4);
    assert_false(shared_unseal(&keys, SHARED_ENTRY, (struct bytes){longer, key.len + 4},
                               (struct bytes){moved, len - 4}, (struct shared_room){0}, &body));
    shared_keys_clear(&keys);
}

static void test_names_are_those_of_the_secret(void **state)
{
    struct shared_keys here = keys_of(SECRET), there = keys_of(SECRET),
                       other = keys_of(SECRET "another one"), none = keys_of("");
    uint8_t names[SHARED_NAME_LEN + SHARED_TARGET_LEN], same[sizeof(names)], again[sizeof(names)];
    (void)state;
    names_of(&here, "a target", names);
    names_of(&there, "another target", same);
    assert_memory_not_equal(names, same, SHARED_NAME_LEN);
    assert_memory_not_equal(names + SHARED_NAME_LEN, same + SHARED_NAME_LEN, SHARED_TARGET_LEN);
    names_of(&there, "a target", same);
    assert_memory_equal(names, same, sizeof(names));
    struct shared_keys *strange[] = {&other, &none};
    for (unsigned i = 0; i < 2; i++) {
        names_of(strange[i], "a target", again);
        assert_memory_not_equal(names, again, SHARED_NAME_LEN);
        assert_memory_not_equal(names + SHARED_NAME_LEN, again + SHARED_NAME_LEN,
                                SHARED_TARGET_LEN);
        shared_keys_clear(strange[i]);
    }
    shared_keys_clear(&here);
    shared_keys_clear(&there);
}

/* FIPS 180-4's example. */
static void test_names_without_a_secret_are_digests(void **state)
{
    static const uint8_t abc[] = {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40,
                                  0xde, 0x5d, 0xae, 0x22, 0x23, 0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17,
                                  0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad};
    struct shared_keys keys = keys_of("");
    uint8_t names[SHARED_NAME_LEN + SHARED_TARGET_LEN], again[sizeof(names)];
    (void)state;
    names_of(&keys, "abc", names);
    assert_memory_equal(names, abc, sizeof(abc));
    names_of(&keys, "abc", again);
    assert_memory_equal(names, again, sizeof(names));
    shared_keys_clear(&keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_has_the_secret_opens_it),
        cmocka_unit_test(test_nothing_else_opens),
        cmocka_unit_test(test_no_key_is_used_twice),
        cmocka_unit_test(test_a_private_entry_needs_a_secret),
        cmocka_unit_test(test_what_has_no_room_does_not_open),
        cmocka_unit_test(test_the_border_of_key_and_body_is_fixed),
        cmocka_unit_test(test_names_are_those_of_the_secret),
        cmocka_unit_test(test_names_without_a_secret_are_digests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
