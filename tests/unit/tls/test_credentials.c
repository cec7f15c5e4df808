/* SPDX-License-Identifier: BSD-2-Clause */
/* Files of keys and certificates: taken whole, or refused with the place and the reason. */
#include "tls_fixture.h"

#include "net/credentials_internal.h"

#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char error[512];

static int set_up(void **state)
{
    (void)state;
    files_init();
    certificate_make(
        &(struct certificate_wish){.name = "a", .common_name = "a", .is_ca = true, .to_days = 5});
    certificate_make(&(struct certificate_wish){.name = "b", .common_name = "b", .to_days = 5});
    return 0;
}

static struct credentials *load_psk(const char *text)
{
    const struct credentials_options options = {.psk_file = file_write("psk", text)};

    error[0] = '\0';
    return credentials_load(&options, error, sizeof error);
}

#define A_64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static bool has_key_of(const struct credentials *credentials, const char *identity)
{
    const uint8_t *key;
    size_t key_len;
    return psk_table_look(credentials->psks, identity, &key, &key_len);
}

static const struct {
    const char *text;
    const char *identities[2];
} good_files[] = {
    {"", {NULL}},
    {"# nobody\n\n", {NULL}},
    {"a:00\n", {"a"}},
    {"a:00", {"a"}},
    {" a:00\t\r\nb:FFfe0A\r\n# c:00\n", {"a", "b"}},
    {"with:colon:00\nwith space:00\n", {"with:colon", "with space"}},
    {A_64 A_64 ":" A_64 A_64 "\n", {A_64 A_64}}, /* the longest of both */
};

static const struct {
    const char *text;
    const char *error; /* after the name of the file */
} bad_files[] = {
    {"a:00\nb\n", ":2: expected identity:hex-key"},
    {":00\n", ":1: expected identity:hex-key"},
    {"a:\n", ":1: expected a key of 1 to 64 bytes in hexadecimal after the colon"},
    {"a:0\n", ":1: expected a key of 1 to 64 bytes in hexadecimal after the colon"},
    {"a:0g\n", ":1: expected a key of 1 to 64 bytes in hexadecimal after the colon"},
    {"a:00 11\n", ":1: expected a key of 1 to 64 bytes in hexadecimal after the colon"},
    {"a:" A_64 A_64 "00\n", ":1: expected a key of 1 to 64 bytes in hexadecimal after the colon"},
    {A_64 A_64 "a:00\n", ":1: identity longer than 128 bytes"},
    {"a:00\nb:00\na:01\n", ":3: identity given before"},
    {A_64 A_64 A_64 A_64 A_64 A_64 "\n", ":1: line too long"},
};

static void test_psk_files_that_are_taken(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good_files / sizeof good_files[0]; i++) {
        struct credentials *credentials = load_psk(good_files[i].text);
        if (credentials == NULL) {
            fail_msg("%s", error);
        }
        for (size_t j = 0; j < 2 && good_files[i].identities[j] != NULL; j++) {
            assert_true(has_key_of(credentials, good_files[i].identities[j]));
        }
        assert_int_equal(has_key_of(credentials, "a"), strstr(good_files[i].text, "a:00") != NULL);
        assert_false(has_key_of(credentials, "c") || has_key_of(credentials, "# c"));
        assert_false(has_key_of(credentials, "") || has_key_of(credentials, "# nobody"));
        assert_false(credentials->has_certificate);
        credentials_release(credentials);
    }
}

static void test_psk_files_that_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_files / sizeof bad_files[0]; i++) {
        assert_null(load_psk(bad_files[i].text));
        print_message("%s\n", error);
        size_t path_len = strlen(file_path("psk"));
        assert_memory_equal(error, file_path("psk"), path_len);
        assert_string_equal(error + path_len, bad_files[i].error);
    }
}

#define MANY 100000

static void test_a_hundred_thousand_identities(void **state)
{
    size_t capacity = (size_t)MANY * 32;
    size_t len = 0;
    struct client client;
    (void)state;

    char *text = malloc(capacity);
    assert_non_null(text);
    for (unsigned i = 0; i < MANY; i++) {
        len += (size_t)snprintf(text + len, capacity - len, "device-%u:%08x\n", i, i);
    }
    struct credentials *credentials = load_psk(text);
    free(text);
    assert_non_null(credentials);
    for (unsigned i = 0; i < MANY; i++) {
        char identity[32];
        (void)snprintf(identity, sizeof identity, "device-%u", i);
        assert_true(has_key_of(credentials, identity));
    }
    server_start(credentials);
    client_open(&client, &(struct client_wish){.address = "127.0.0.1:40001",
                                               .psk_identity = "device-99999",
                                               .psk_key = "0001869f"});
    client_must_talk(&client, "hello");
    assert_string_equal(identity_name(server.identity), "device-99999");
    client_close(&client);
    server_stop();
}

/* File names; "-" is one that is not there. NULL: not asked for. */
static const struct {
    const char *certificate, *key, *ca, *psk;
    bool required;
    const char *error; /* part of it; NULL: good */
} combinations[] = {
    {"a.pem", "a.key", NULL, NULL, false, NULL},
    {"a.pem", "a.key", "a.pem", NULL, true, NULL},
    {"a.pem", "a.key", "a.pem", "psk", true, NULL},
    {NULL, NULL, NULL, NULL, false, "tls: neither a certificate nor a file of keys"},
    {"a.pem", NULL, NULL, NULL, false, "a.pem: a certificate needs its key"},
    {NULL, "a.key", NULL, "psk", false, "a.key: a key needs its certificate"},
    {NULL, NULL, "a.pem", "psk", false, "a.pem: a client CA needs a certificate of our own"},
    {"a.pem", "a.key", NULL, NULL, true, "required, but there is no client CA"},
    {"a.pem", "b.key", NULL, NULL, false, "b.key: key values mismatch"},
    {"-", "a.key", NULL, NULL, false, "-: No such file or directory"},
    {"a.pem", "-", NULL, NULL, false, "-: No such file or directory"},
    {"a.pem", "a.key", "-", NULL, false, "-: No such file or directory"},
    {NULL, NULL, NULL, "-", false, "-: No such file or directory"},
    {"a.key", "a.key", NULL, NULL, false, "a.key: expected PEM, found no -----BEGIN line"},
    {"a.pem", "a.pem", NULL, NULL, false, "a.pem: "},
    {"a.pem", "a.key", "psk", NULL, false, "psk: "},
    {"a.pem", "locked.key", NULL, NULL, false, "locked.key: "},
};

/* Asked for its passphrase on a terminal, a daemon would wait forever. */
static void write_locked_key(void)
{
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    FILE *file = fopen(file_path("locked.key"), "we");
    unsigned char passphrase[] = "secret";

    assert_non_null(key);
    assert_non_null(file);
    assert_int_equal(PEM_write_PrivateKey(file, key, EVP_aes_128_cbc(), passphrase, 6, NULL, NULL),
                     1);
    assert_int_equal(fclose(file), 0);
    EVP_PKEY_free(key);
}

static const char *path_or_null(const char *name)
{
    return name == NULL ? NULL : file_path(name);
}

static void test_what_belongs_together(void **state)
{
    (void)state;
    (void)file_write("psk", "alice:00\n");
    write_locked_key();
    for (size_t i = 0; i < sizeof combinations / sizeof combinations[0]; i++) {
        const struct credentials_options options = {
            .certificate_file = path_or_null(combinations[i].certificate),
            .key_file = path_or_null(combinations[i].key),
            .client_ca_file = path_or_null(combinations[i].ca),
            .require_client_certificate = combinations[i].required,
            .psk_file = path_or_null(combinations[i].psk),
        };
        error[0] = '\0';
        struct credentials *credentials = credentials_load(&options, error, sizeof error);
        print_message("%zu: %s\n", i, error);
        if (combinations[i].error == NULL) {
            assert_non_null(credentials);
            assert_true(credentials->has_certificate);
        } else {
            assert_null(credentials);
            assert_non_null(strstr(error, combinations[i].error));
        }
        credentials_release(credentials);
    }
}

/* SEC-25: said in the log, and no key with it. */
static void test_files_open_to_others_are_told_of(void **state)
{
    (void)state;
    const struct credentials_options options = {
        .psk_file = file_write("psk", "a:0badcafe0badcafe0badcafe0badcafe\n")};
    (void)logged();
    assert_int_equal(chmod(options.psk_file, 0640), 0);
    credentials_release(credentials_must_load(&options));
    assert_string_equal(logged(), "");
    assert_int_equal(chmod(options.psk_file, 0644), 0);
    credentials_release(credentials_must_load(&options));
    const char *log = logged();
    assert_non_null(strstr(log, "key_file_open_to_others level=warning file="));
    assert_non_null(strstr(log, "mode=644"));
    assert_null(strstr(log, "badcafe"));
}

static void test_counts(void **state)
{
    (void)state;
    struct credentials *credentials = load_psk("a:00\n");
    assert_non_null(credentials);
    assert_ptr_equal(credentials_acquire(credentials), credentials);
    credentials_release(credentials);
    assert_true(has_key_of(credentials, "a"));
    credentials_release(credentials);
    credentials_release(NULL);
}

/* SEC-17: what every session of ours begins with, whatever OpenSSL was built with. */
static void test_no_compression_no_early_data(void **state)
{
    (void)state;
    struct credentials *credentials = load_psk("a:00\n");
    assert_non_null(credentials);
    SSL_CTX *const contexts[] = {credentials->dtls, credentials->tls};
    for (size_t i = 0; i < sizeof contexts / sizeof contexts[0]; i++) {
        assert_true((SSL_CTX_get_options(contexts[i]) & SSL_OP_NO_COMPRESSION) != 0);
        assert_true((SSL_CTX_get_options(contexts[i]) & SSL_OP_NO_RENEGOTIATION) != 0);
        assert_int_equal(SSL_CTX_get_max_early_data(contexts[i]), 0);
    }
    credentials_release(credentials);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_psk_files_that_are_taken),
        cmocka_unit_test(test_psk_files_that_are_refused),
        cmocka_unit_test(test_a_hundred_thousand_identities),
        cmocka_unit_test(test_what_belongs_together),
        cmocka_unit_test(test_files_open_to_others_are_told_of),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_no_compression_no_early_data),
    };
    return cmocka_run_group_tests(tests, set_up, files_tear_down);
}
