/* SPDX-License-Identifier: BSD-2-Clause */
/* Files of raw public keys: taken whole, or refused with the place and the reason. */
#include "tls_fixture.h"

#include "net/raw_keys.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <string.h>

#define BEGIN "-----BEGIN PUBLIC KEY-----\n"
#define END "-----END PUBLIC KEY-----\n"

/* Ed25519, and its SubjectPublicKeyInfo is an example of RFC 8410 section 10.1. */
#define FIRST BEGIN "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n" END
#define FIRST_URI "ni:///sha-256;oekVYFTgT6yJmunydRMs3Ael28TqLCrTof_G4NJTaB8"

/* A key of P-256, and one of RSA with 512 bits. */
#define SECOND                                                                                     \
    BEGIN "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEu1DEIeW8KPJ1Uh95u5jC4iKRsAI4\n"                     \
          "UuH2UPlEfkDeXyLs7eO6lEJvOtdxI1pf9Z3Tt7fH6uotCY9aL2/YLO0y1w==\n" END
#define WEAK                                                                                       \
    BEGIN "MFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBAMQ62zr3SiC60bnaZfpwmUdaf9OV/XTS\n"                     \
          "wqaHjszoloXsuM6uIdxdqOmhgRDF/ZbGSOjE6sCJRK3NYwA46WhTbY0CAwEAAQ==\n" END

static char error[512];

static struct raw_keys *load(const char *text)
{
    error[0] = '\0';
    return raw_keys_load(file_write("keys", text), error, sizeof error);
}

/* The name that @p keys have for the one in @p pem, or "": they do not have it. */
static const char *name_of(const struct raw_keys *keys, const char *pem)
{
    uint8_t digest[RAW_KEY_DIGEST_LEN];
    BIO *bio = BIO_new_mem_buf(pem, -1);
    EVP_PKEY *key = PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL);
    assert_true(raw_key_digest(key, digest));
    EVP_PKEY_free(key);
    BIO_free(bio);
    const char *name = raw_keys_find(keys, digest, sizeof digest);
    return name != NULL ? name : "";
}

static const struct {
    const char *text;
    const char *first, *second; /* names of the keys */
} good_files[] = {
    {"", "", ""},
    {"# nothing\n\n", "", ""},
    {"meter\n" FIRST, "meter", ""},
    {"meter\n\n# of the cellar\n" FIRST "\n\nmeter\n" SECOND, "meter", "meter"},
    {"  with blanks in it \r\n  " FIRST, "with blanks in it", ""},
    {"*\n" FIRST "[2001:db8::1]\n" SECOND, "*", "[2001:db8::1]"},
};

static const struct {
    const char *text;
    const char *error; /* after the name of the file */
} bad_files[] = {
    {FIRST, ":1: expected the key's name on a line before it"},
    {"a\n" FIRST SECOND, ":5: expected the key's name on a line before it"},
    {"a\nb\n" FIRST, ":2: expected -----BEGIN PUBLIC KEY----- after the name"},
    {"a\n", ":1: expected -----BEGIN PUBLIC KEY----- after the name"},
    {"a\n-----BEGIN PRIVATE KEY-----\n", ":2: expected -----BEGIN PUBLIC KEY-----"},
    {"a\n" BEGIN "AAAA\n", ":3: expected -----END PUBLIC KEY-----"},
    {"a\n" BEGIN "AAAA\n" END, ":4: not a public key that OpenSSL can read"},
    {"a\n" BEGIN END, ":3: not a public key that OpenSSL can read"},
    {"a\n" WEAK, ":5: the key has less than 112 bits of strength"},
    {"a\n" FIRST "b\n" FIRST, ": the key of b is there twice"},
    {"a\n" FIRST "a\n" FIRST, ": the key of a is there twice"},
};

static void test_files_of_raw_keys_that_are_taken(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good_files / sizeof good_files[0]; i++) {
        struct raw_keys *keys = load(good_files[i].text);
        if (keys == NULL) {
            fail_msg("%s", error);
        }
        assert_string_equal(name_of(keys, FIRST), good_files[i].first);
        assert_string_equal(name_of(keys, SECOND), good_files[i].second);
        raw_keys_free(keys);
    }
}

static void test_files_of_raw_keys_that_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_files / sizeof bad_files[0]; i++) {
        size_t path_len = strlen(file_path("keys"));
        assert_null(load(bad_files[i].text));
        print_message("%s\n", error);
        assert_memory_equal(error, file_path("keys"), path_len);
        if (strstr(bad_files[i].error, "twice") != NULL) { /* of either name */
            assert_non_null(strstr(error, "is there twice"));
        } else {
            assert_string_equal(error + path_len, bad_files[i].error);
        }
    }
    assert_null(raw_keys_load(file_path("absent"), error, sizeof error));
    assert_non_null(strstr(error, ": No such file"));
}

#define A_64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static void test_names_and_lines_have_an_end(void **state)
{
    static char long_key[6000] = "a\n" BEGIN;
    (void)state;

    assert_null(load(A_64 A_64 "\n" FIRST)); /* one byte too many */
    assert_non_null(strstr(error, ":1: name longer than 127 bytes"));
    assert_null(load("a\n" BEGIN A_64 A_64 A_64 A_64 "\n" END));
    assert_non_null(strstr(error, ":3: line too long"));
    for (size_t len = strlen(long_key); len + sizeof A_64 < sizeof long_key; len += 65) {
        memcpy(long_key + len, A_64 "\n", 66);
    }
    assert_null(load(long_key));
    assert_non_null(strstr(error, ": the key is too long"));
}

static void test_keys_are_found_by_their_digest(void **state)
{
    struct raw_keys *keys = load("one\n" FIRST "two\n" SECOND);
    EVP_PKEY *first = EVP_PKEY_new_raw_public_key(
        EVP_PKEY_ED25519, NULL,
        (const unsigned char *)"\x19\xbf\x44\x09\x69\x84\xcd\xfe\x85\x41\xba\xc1\x67\xdc\x3b\x96"
                               "\xc8\x50\x86\xaa\x30\xb6\xb6\xcb\x0c\x5c\x38\xad\x70\x31\x66\xe1",
        32);
    uint8_t digest[RAW_KEY_DIGEST_LEN];
    char text[RAW_KEY_URI_MAX];
    (void)state;

    assert_non_null(keys);
    assert_non_null(first);
    assert_true(raw_key_digest(first, digest));
    assert_string_equal(raw_key_format(digest, text), FIRST_URI);
    assert_string_equal(raw_keys_find(keys, digest, sizeof digest), "one");
    assert_string_equal(raw_keys_find(keys, digest, 16), "one");
    digest[15] ^= 1;
    assert_null(raw_keys_find(keys, digest, 16));
    assert_null(raw_keys_find(keys, digest, sizeof digest));
    assert_null(raw_keys_find(NULL, digest, sizeof digest));
    EVP_PKEY_free(first);
    raw_keys_free(keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_of_raw_keys_that_are_taken),
        cmocka_unit_test(test_files_of_raw_keys_that_are_refused),
        cmocka_unit_test(test_names_and_lines_have_an_end),
        cmocka_unit_test(test_keys_are_found_by_their_digest),
    };
    return cmocka_run_group_tests(tests, files_set_up, files_tear_down);
}
