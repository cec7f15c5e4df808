/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/identity.h"
#include "support/test.h"

#include <stddef.h>
#include <string.h>

static struct identity *identity_of(enum identity_kind kind, const char *bytes, size_t len)
{
    const unsigned char *name = (const unsigned char *)bytes;
    struct identity *identity = identity_new(kind, identity_name_bytes(name, len), NULL);
    assert_non_null(identity);
    identity_add_name(identity, name, len);
    return identity;
}

/* Names come from peers: what they are shown as ends no value of a log line and begins none. */
static void test_format(void **state)
{
    static const struct {
        enum identity_kind kind;
        const char *name, *formatted;
    } rows[] = {
        {IDENTITY_PSK, "alice", "psk:alice"},
        {IDENTITY_CERTIFICATE, "sensor.example", "certificate:sensor.example"},
        {IDENTITY_PUBLIC_KEY, "meter-7", "public-key:meter-7"},
        {IDENTITY_PSK, "two words", "\"psk:two words\""},
        {IDENTITY_PSK, "a\" code=2.05", "\"psk:a\\x22 code=2.05\""},
        {IDENTITY_PSK, "a\\x22", "\"psk:a\\x5cx22\""},
        {IDENTITY_PSK, "a\nb\x7f\xff", "\"psk:a\\x0ab\\x7f\\xff\""},
        {IDENTITY_NONE, "", "-"},
    };
    char text[IDENTITY_TEXT_MAX];
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct identity *identity = identity_of(rows[i].kind, rows[i].name, strlen(rows[i].name));
        assert_string_equal(identity_format(identity, text), rows[i].formatted);
        assert_int_equal(identity_is_known(identity), rows[i].kind != IDENTITY_NONE);
        identity_release(identity);
    }
    assert_string_equal(identity_format(NULL, text), "-");
    assert_false(identity_is_known(NULL));
}

static void test_a_kind_is_taken_from_text(void **state)
{
    static const struct {
        const char *text;
        enum identity_kind kind; /* NONE: it is none */
        const char *name;
    } rows[] = {
        {"psk:alice", IDENTITY_PSK, "alice"},
        {"certificate:a:b", IDENTITY_CERTIFICATE, "a:b"},
        {"public-key:meter-7", IDENTITY_PUBLIC_KEY, "meter-7"},
        {"psk:", IDENTITY_NONE, NULL},
        {"psk", IDENTITY_NONE, NULL},
        {"-:a", IDENTITY_NONE, NULL},
        {"public-keys:a", IDENTITY_NONE, NULL},
        {"", IDENTITY_NONE, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        enum identity_kind kind = IDENTITY_NONE;
        const char *name = identity_take_kind(rows[i].text, &kind);
        assert_int_equal(kind, rows[i].kind);
        assert_int_equal(name != NULL, rows[i].name != NULL);
        if (name != NULL) {
            assert_string_equal(name, rows[i].name);
        }
    }
}

/* The bytes that were proved are needed again after a reload, to look for their key. */
static void test_unescape_gives_the_bytes_back(void **state)
{
    char all[256], bytes[256];
    (void)state;
    for (unsigned i = 0; i < 255; i++) {
        all[i] = (char)(i + 1);
    }
    all[255] = '\0';
    struct identity *identity = identity_of(IDENTITY_PSK, all, 255);
    assert_true(identity_unescape(identity->names, bytes, sizeof(bytes)));
    assert_string_equal(bytes, all);
    assert_false(identity_unescape(identity->names, bytes, sizeof(bytes) - 1));
    assert_true(identity_unescape("", bytes, 1));
    assert_string_equal(bytes, "");
    identity_release(identity);
}

/* What is shown may be cut, what is compared is not: no two identities have one name. */
static void test_long_names_are_compared_whole(void **state)
{
    char name[129], text[IDENTITY_TEXT_MAX];
    (void)state;
    memset(name, 'a', sizeof(name));
    name[128] = '\0';
    struct identity *identity = identity_of(IDENTITY_PSK, name, 128);
    assert_true(identity_has_name(identity, IDENTITY_PSK, name));
    assert_int_equal(strlen(identity_format(identity, text)), strlen("psk:") + 127);
    name[127] = '\0';
    assert_false(identity_has_name(identity, IDENTITY_PSK, name));
    identity_release(identity);
    memset(name, '\n', 128);
    identity = identity_of(IDENTITY_PSK, name, 128);
    assert_int_equal(identity->names_len, 4 * 128 + 1);
    assert_true(strlen(identity_format(identity, text)) < IDENTITY_TEXT_MAX);
    identity_release(identity);
}

/* One for each of 100,000 sessions: what is shown is not kept twice. */
static void test_short_names_are_there_once(void **state)
{
    char text[IDENTITY_TEXT_MAX];
    (void)state;
    struct identity *identity = identity_of(IDENTITY_PSK, "sensor-000001", 13);
    assert_int_equal(identity->names_capacity, 14);
    assert_ptr_equal(identity_name(identity), identity->names);
    assert_true(offsetof(struct identity, names) + 14 <= 24); /* the least of malloc() */
    identity_release(identity);
    /* Together they are too long: the first is shown all the same. */
    identity = identity_new(IDENTITY_CERTIFICATE, 2 * 101, NULL);
    assert_non_null(identity);
    char name[101];
    memset(name, 'n', sizeof(name));
    identity_add_name(identity, (const unsigned char *)name, 100);
    identity_add_name(identity, (const unsigned char *)name + 1, 100);
    assert_false(identity->lacks_names);
    assert_int_equal(strlen(identity_name(identity)), 100);
    assert_int_equal(strlen(identity_format(identity, text)), strlen("certificate:") + 100);
    identity_release(identity);
}

static void test_names(void **state)
{
    (void)state;
    struct identity *identity = identity_new(IDENTITY_CERTIFICATE, 12 + 2 + 2, "a.example");
    assert_non_null(identity);
    identity_add_name(identity, (const unsigned char *)"one.example", 11);
    identity_add_name(identity, (const unsigned char *)"2", 1);
    identity_add_name(identity, (const unsigned char *)"three", 5); /* no room: left out whole */
    assert_string_equal(identity_name(identity), "one.example");
    assert_string_equal(identity_server_name(identity), "a.example");
    assert_true(identity_has_name(identity, IDENTITY_CERTIFICATE, "one.example"));
    assert_true(identity_has_name(identity, IDENTITY_CERTIFICATE, "2"));
    assert_false(identity_has_name(identity, IDENTITY_CERTIFICATE, "three"));
    assert_false(identity_has_name(identity, IDENTITY_CERTIFICATE, "th"));
    assert_false(identity_has_name(identity, IDENTITY_CERTIFICATE, ""));
    assert_false(identity_has_name(identity, IDENTITY_PSK, "2"));
    assert_false(identity_has_name(NULL, IDENTITY_PSK, "2"));
    identity_release(identity);
}

/* A NUL inside a name does not end it (a certificate for "good\0.evil"). */
static void test_nul_in_a_name(void **state)
{
    (void)state;
    struct identity *identity = identity_of(IDENTITY_CERTIFICATE, "good\0.evil", 10);
    assert_false(identity_has_name(identity, IDENTITY_CERTIFICATE, "good"));
    assert_true(identity_has_name(identity, IDENTITY_CERTIFICATE, "good\\x00.evil"));
    identity_release(identity);
}

static void test_server_name(void **state)
{
    (void)state;
    char name[257];
    struct identity *identity = identity_new(IDENTITY_NONE, 0, "Proxy.Example");
    assert_non_null(identity);
    assert_string_equal(identity_server_name(identity), "proxy.example");
    assert_false(identity_is_known(identity));
    assert_ptr_equal(identity_acquire(identity), identity);
    identity_release(identity);
    assert_string_equal(identity_name(identity), "");
    identity_release(identity);
    memset(name, 'a', sizeof(name) - 1);
    name[256] = '\0';
    identity = identity_new(IDENTITY_NONE, 0, name); /* a part of a name is another name */
    assert_non_null(identity);
    assert_string_equal(identity_server_name(identity), "");
    identity_release(identity);
    identity_release(NULL);
    assert_null(identity_acquire(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unescape_gives_the_bytes_back),
        cmocka_unit_test(test_format),
        cmocka_unit_test(test_a_kind_is_taken_from_text),
        cmocka_unit_test(test_long_names_are_compared_whole),
        cmocka_unit_test(test_short_names_are_there_once),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_nul_in_a_name),
        cmocka_unit_test(test_server_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
