/* SPDX-License-Identifier: BSD-2-Clause */
/* Which clients get in, with which suite and identity, and what the others are told. */
#include "tls_fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALERT_HANDSHAKE_FAILURE 40
#define ALERT_CERTIFICATE_EXPIRED 45
#define ALERT_UNKNOWN_CA 48
#define ALERT_DECRYPT_ERROR 51
#define ALERT_PROTOCOL_VERSION 70

static void make_certificates(void)
{
    static const struct certificate_wish wishes[] = {
        {.name = "ca", .common_name = "CA", .is_ca = true, .to_days = 10},
        {.name = "other-ca", .common_name = "Other", .is_ca = true, .to_days = 10},
        {.name = "server", .issuer = "ca", .common_name = "proxy", .to_days = 5},
        {.name = "server-rsa",
         .issuer = "ca",
         .common_name = "proxy",
         .is_rsa = true,
         .to_days = 5},
        {.name = "sensor",
         .issuer = "ca",
         .common_name = "not this",
         .alternative = "DNS:sensor.example",
         .to_days = 5},
        {.name = "urn", .issuer = "ca", .alternative = "URI:urn:dev:1", .to_days = 5},
        {.name = "named", .issuer = "ca", .common_name = "a\"\xc3\xa9\\", .to_days = 5},
        {.name = "nobody", .issuer = "ca", .alternative = "IP:192.0.2.1", .to_days = 5},
        {.name = "old", .issuer = "ca", .common_name = "old", .from_days = -9, .to_days = -1},
        {.name = "early", .issuer = "ca", .common_name = "early", .from_days = 2, .to_days = 5},
        {.name = "stranger", .issuer = "other-ca", .common_name = "stranger", .to_days = 5},
        {.name = "self", .common_name = "self", .to_days = 5},
        {.name = "north",
         .issuer = "ca",
         .common_name = "north",
         .alternative = "DNS:north.example,DNS:*.north.example",
         .to_days = 5},
        {.name = "north-rsa",
         .issuer = "ca",
         .common_name = "north, RSA",
         .alternative = "DNS:north.example",
         .is_rsa = true,
         .to_days = 5},
        {.name = "south",
         .issuer = "ca",
         .common_name = "south",
         .alternative = "DNS:south.example",
         .to_days = 5},
    };

    for (size_t i = 0; i < sizeof wishes / sizeof wishes[0]; i++) {
        certificate_make(&wishes[i]);
    }
}

static int set_up(void **state)
{
    (void)state;
    files_init();
    make_certificates();
    return 0;
}

/* Both a certificate and keys; clients' certificates are asked for where @p ca says so. */
static struct credentials *credentials_all(const char *name, const char *ca, bool required)
{
    char certificate[64];
    char key[64];

    (void)snprintf(certificate, sizeof certificate, "%s.pem", name);
    (void)snprintf(key, sizeof key, "%s.key", name);
    const struct credentials_options options = {
        .certificate_file = file_path(certificate),
        .key_file = file_path(key),
        .client_ca_file = ca == NULL ? NULL : file_path(ca),
        .require_client_certificate = required,
        .psk_file = file_write("psk", "alice:000102030405060708090a0b0c0d0e0f\n"),
    };
    return credentials_must_load(&options);
}

static void test_psk_client_talks(void **state)
{
    struct client client;
    (void)state;

    server_start(credentials_psk());
    client_open(&client, &(struct client_wish){.address = "127.0.0.1:40001"});
    client_must_talk(&client, "hello");
    assert_string_equal(SSL_get_cipher_name(client.ssl), "PSK-AES128-CCM8");
    assert_int_equal(server.identity->kind, IDENTITY_PSK);
    assert_string_equal(identity_name(server.identity), "alice");
    assert_string_equal(identity_server_name(server.identity), "");
    assert_int_equal(dtls_counters(server.listener)->handshakes, 1);
    assert_int_equal(dtls_counters(server.listener)->sessions, 1);
    assert_int_equal(dtls_counters(server.listener)->hellos_without_cookie, 1);
    assert_non_null(strstr(logged(),
                           "dtls_session level=debug client=127.0.0.1:40001 identity=psk:alice "
                           "suite=PSK-AES128-CCM8 resumed=no"));
    client_close(&client);
    server_stop();
    assert_int_equal(server.closes, 1);
    assert_string_equal(server.why, "shutdown");
}

/* Names as OpenSSL has them; NULL: refused. */
static const struct {
    const char *offered, *certificate, *chosen;
} suites[] = {
    {"PSK-AES128-CCM8", "server", "PSK-AES128-CCM8"},
    {"PSK-AES128-CCM", "server", "PSK-AES128-CCM"},
    {"PSK-AES128-GCM-SHA256", "server", "PSK-AES128-GCM-SHA256"},
    {"PSK-AES256-GCM-SHA384", "server", "PSK-AES256-GCM-SHA384"},
    {"ECDHE-PSK-CHACHA20-POLY1305", "server", "ECDHE-PSK-CHACHA20-POLY1305"},
    {"ECDHE-ECDSA-AES128-CCM8", "server", "ECDHE-ECDSA-AES128-CCM8"},
    {"ECDHE-ECDSA-AES128-CCM", "server", "ECDHE-ECDSA-AES128-CCM"},
    {"ECDHE-ECDSA-AES128-GCM-SHA256", "server", "ECDHE-ECDSA-AES128-GCM-SHA256"},
    {"ECDHE-ECDSA-AES256-GCM-SHA384", "server", "ECDHE-ECDSA-AES256-GCM-SHA384"},
    {"ECDHE-ECDSA-CHACHA20-POLY1305", "server", "ECDHE-ECDSA-CHACHA20-POLY1305"},
    {"ECDHE-RSA-AES128-GCM-SHA256", "server-rsa", "ECDHE-RSA-AES128-GCM-SHA256"},
    {"PSK-AES128-CCM8:PSK-AES128-GCM-SHA256", "server", "PSK-AES128-GCM-SHA256"},
    {"PSK-AES128-CCM8:ECDHE-ECDSA-AES128-CCM8", "server", "ECDHE-ECDSA-AES128-CCM8"},
    {"PSK-AES128-CBC-SHA256", "server", NULL},
    {"PSK-AES256-CCM8", "server", NULL},
    {"PSK-NULL-SHA256", "server", NULL},
    {"ECDHE-ECDSA-AES128-SHA256", "server", NULL},
    {"ECDHE-ECDSA-NULL-SHA", "server", NULL},
    {"AES128-CCM8", "server-rsa", NULL},
    {"AES128-GCM-SHA256", "server-rsa", NULL},
    {"ECDHE-ECDSA-AES128-CCM8", "server-rsa", NULL},
    {"AECDH-AES128-SHA", "server", NULL},
};

/* SEC-4, SEC-5, SEC-7: AEAD suites only, and of those with short tags only the mandatory two. */
static void test_suites(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof suites / sizeof suites[0]; i++) {
        struct client client;
        print_message("%s, %s\n", suites[i].offered, suites[i].certificate);
        server_start(credentials_all(suites[i].certificate, NULL, false));
        client_open(&client, &(struct client_wish){.address = "127.0.0.1:40001",
                                                   .suites = suites[i].offered});
        if (suites[i].chosen != NULL) {
            client_must_talk(&client, "hello");
            assert_string_equal(SSL_get_cipher_name(client.ssl), suites[i].chosen);
        } else {
            assert_false(client_shake(&client));
            assert_int_equal(client.alert, ALERT_HANDSHAKE_FAILURE);
            assert_int_equal(dtls_counters(server.listener)->failed[HANDSHAKE_no_common_suite], 1);
            assert_non_null(strstr(logged(), "reason=no_common_suite"));
        }
        client_close(&client);
        server_stop();
    }
}

static void test_old_versions_are_refused(void **state)
{
    struct client client;
    (void)state;

    server_start(credentials_all("server", NULL, false));
    client_open(&client, &(struct client_wish){.address = "127.0.0.1:40001",
                                               .suites = "ALL",
                                               .version = DTLS1_VERSION});
    assert_false(client_shake(&client));
    assert_int_equal(client.alert, ALERT_PROTOCOL_VERSION);
    assert_non_null(strstr(logged(), "reason=no_common_version"));
    client_close(&client);
    server_stop();
}

/* What a client that fails with @p identity and @p key has seen: datagrams, bytes, time. */
struct failure {
    uint64_t datagrams, ms;
    int alert;
    char log[512];
};

static struct failure fail_with(const char *identity, const char *key, enum handshake counted)
{
    struct client client;
    struct failure failure = {0};

    server_start(credentials_psk());
    client_open(&client, &(struct client_wish){.address = "127.0.0.1:40001",
                                               .psk_identity = identity,
                                               .psk_key = key});
    uint64_t start_ms = fake_net_now_ms();
    assert_false(client_shake(&client));
    failure.ms = fake_net_now_ms() - start_ms;
    failure.datagrams = fake_net_stats()->delivered;
    failure.alert = client.alert;
    (void)snprintf(failure.log, sizeof failure.log, "%s", logged());
    assert_int_equal(dtls_counters(server.listener)->failed[counted], 1);
    assert_int_equal(dtls_counters(server.listener)->sessions, 0);
    assert_int_equal(server.datagrams, 0);
    client_close(&client);
    server_stop();
    assert_int_equal(server.closes, 0);
    return failure;
}

/* SEC-13: a peer does not learn which identities there are; the log knows. */
static void test_unknown_identity_fails_as_wrong_key_does(void **state)
{
    struct failure wrong =
        fail_with("alice", "ff02030405060708090a0b0c0d0e0f00", HANDSHAKE_psk_wrong_key);
    struct failure unknown =
        fail_with("mallory", "000102030405060708090a0b0c0d0e0f", HANDSHAKE_psk_unknown_identity);
    struct failure too_long =
        fail_with("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
                  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdefX",
                  "00", HANDSHAKE_psk_unknown_identity);
    (void)state;

    assert_int_equal(wrong.alert, ALERT_DECRYPT_ERROR);
    assert_int_equal(unknown.alert, wrong.alert);
    assert_int_equal(unknown.datagrams, wrong.datagrams);
    assert_int_equal(unknown.ms, wrong.ms);
    assert_int_equal(too_long.alert, wrong.alert);
    assert_non_null(
        strstr(wrong.log, "client=127.0.0.1:40001 identity=psk:alice reason=psk_wrong_key"));
    assert_non_null(strstr(
        unknown.log, "client=127.0.0.1:40001 identity=psk:mallory reason=psk_unknown_identity"));
    assert_null(strstr(wrong.log, "0001020304")); /* SEC-25 */
}

static void test_each_psk_identity_has_its_key(void **state)
{
    static const struct {
        const char *address, *identity, *key;
    } rows[] = {
        {"127.0.0.1:40001", "alice", "000102030405060708090a0b0c0d0e0f"},
        {"127.0.0.1:40002", "bob", "ffeeddccbbaa"},
        {"127.0.0.1:40003", "urn:dev:mac:0024befffe804ff1", "00ff"},
    };
    struct client clients[3];
    (void)state;

    server_start(credentials_psk());
    for (size_t i = 0; i < 3; i++) {
        client_open(&clients[i], &(struct client_wish){.address = rows[i].address,
                                                       .psk_identity = rows[i].identity,
                                                       .psk_key = rows[i].key});
        client_must_talk(&clients[i], rows[i].identity);
        assert_string_equal(identity_name(server.identity), rows[i].identity);
    }
    for (size_t i = 0; i < 3; i++) {
        char answer[64];
        assert_int_equal(client_ask(&clients[i], "again", answer, sizeof answer), 5);
        assert_string_equal(identity_name(server.identity), rows[i].identity);
        client_close(&clients[i]);
    }
    server_stop();
}

/* ---- certificates ---- */

static const struct {
    const char *certificate; /* NULL: none */
    const char *name;        /* as which it gets in; NULL: not at all */
    int alert;
    const char *log;
    enum handshake counted;
} certificate_rows[] = {
    {"sensor", "sensor.example", 0, NULL, HANDSHAKE_COUNT},
    {"urn", "urn:dev:1", 0, NULL, HANDSHAKE_COUNT},
    {"named", "a\\x22\\xc3\\xa9\\x5c", 0, NULL, HANDSHAKE_COUNT},
    {"nobody", "", 0, NULL, HANDSHAKE_COUNT},
    {"old", NULL, ALERT_CERTIFICATE_EXPIRED, "certificate_expired", HANDSHAKE_certificate_expired},
    {"early", NULL, 42, "certificate_not_yet_valid", HANDSHAKE_certificate_not_yet_valid},
    {"stranger", NULL, ALERT_UNKNOWN_CA, "certificate_unknown_ca",
     HANDSHAKE_certificate_unknown_ca},
    {"self", NULL, ALERT_UNKNOWN_CA, "certificate_unknown_ca", HANDSHAKE_certificate_unknown_ca},
    {NULL, NULL, ALERT_HANDSHAKE_FAILURE, "certificate_missing", HANDSHAKE_certificate_missing},
};

static void test_client_certificates(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof certificate_rows / sizeof certificate_rows[0]; i++) {
        const char *certificate = certificate_rows[i].certificate;
        struct client client;
        print_message("%s\n", certificate == NULL ? "none" : certificate);
        server_start(credentials_all("server", "ca.pem", true));
        client_open(&client, &(struct client_wish){.address = "127.0.0.1:40001",
                                                   .suites = "ECDHE-ECDSA-AES128-CCM8",
                                                   .ca = "ca",
                                                   .certificate = certificate});
        if (certificate_rows[i].name != NULL) {
            client_must_talk(&client, "hello");
            assert_int_equal(server.identity->kind, IDENTITY_CERTIFICATE);
            assert_string_equal(identity_name(server.identity), certificate_rows[i].name);
        } else {
            assert_false(client_shake(&client));
            assert_int_equal(client.alert, certificate_rows[i].alert);
            assert_non_null(strstr(logged(), certificate_rows[i].log));
        }
        for (unsigned why = 0; why < HANDSHAKE_COUNT; why++) {
            assert_int_equal(dtls_counters(server.listener)->failed[why],
                             why == certificate_rows[i].counted ? 1 : 0);
        }
        client_close(&client);
        server_stop();
    }
}

static void test_certificates_can_be_optional(void **state)
{
    struct client client;
    (void)state;

    server_start(credentials_all("server", "ca.pem", false));
    client_open(&client, &(struct client_wish){.address = "127.0.0.1:40001",
                                               .suites = "ECDHE-ECDSA-AES128-CCM8"});
    client_must_talk(&client, "hello");
    assert_int_equal(server.identity->kind, IDENTITY_NONE);
    assert_string_equal(identity_name(server.identity), "");
    client_close(&client);
    client_open(&client, &(struct client_wish){.address = "127.0.0.1:40002",
                                               .suites = "ECDHE-ECDSA-AES128-CCM8",
                                               .certificate = "stranger"});
    assert_false(client_shake(&client));
    assert_int_equal(client.alert, ALERT_UNKNOWN_CA);
    client_close(&client);
    server_stop();
}

static void test_psk_client_needs_no_certificate(void **state)
{
    struct client client;
    (void)state;

    server_start(credentials_all("server", "ca.pem", true));
    client_open(&client, &(struct client_wish){.address = "127.0.0.1:40001"});
    client_must_talk(&client, "hello");
    assert_int_equal(server.identity->kind, IDENTITY_PSK);
    client_close(&client);
    server_stop();
}

/* SEC-8: the certificates that have the name; of no other, whatever suites are offered. */
static void test_certificate_by_server_name(void **state)
{
    static const struct {
        const char *server_name, *suites, *common_name;
    } rows[] = {
        {NULL, "ECDHE-ECDSA-AES128-CCM8", "proxy"},
        {"other.example", "ECDHE-ECDSA-AES128-CCM8", "proxy"},
        {"north.example", "ECDHE-ECDSA-AES128-CCM8", "north"},
        {"NORTH.Example", "ECDHE-ECDSA-AES128-CCM8", "north"},
        {"a.north.example", "ECDHE-ECDSA-AES128-CCM8", "north"},
        {"north.example", "ECDHE-RSA-AES128-GCM-SHA256", "north, RSA"},
        {"south.example", "ECDHE-ECDSA-AES128-CCM8", "south"},
        {"south.example", "ECDHE-RSA-AES128-GCM-SHA256", NULL},
    };
    const struct credentials_pair others[] = {
        {file_path("north.pem"), file_path("north.key")},
        {file_path("south.pem"), file_path("south.key")},
        {file_path("north-rsa.pem"), file_path("north-rsa.key")},
    };
    const struct credentials_options options = {
        .certificate_file = file_path("server.pem"),
        .key_file = file_path("server.key"),
        .others = others,
        .other_count = sizeof others / sizeof others[0],
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct client client;
        char name[64] = "";
        server_start(credentials_must_load(&options));
        print_message("%s\n", rows[i].server_name == NULL ? "none" : rows[i].server_name);
        client_open(&client, &(struct client_wish){.address = "127.0.0.1:40001",
                                                   .suites = rows[i].suites,
                                                   .ca = "ca",
                                                   .server_name = rows[i].server_name});
        if (rows[i].common_name != NULL) {
            client_must_talk(&client, "hello");
            X509 *certificate = SSL_get0_peer_certificate(client.ssl);
            assert_non_null(certificate);
            assert_true(X509_NAME_get_text_by_NID(X509_get_subject_name(certificate),
                                                  NID_commonName, name, sizeof name) > 0);
            assert_string_equal(name, rows[i].common_name);
        } else {
            assert_false(client_shake(&client));
            assert_int_equal(client.alert, ALERT_HANDSHAKE_FAILURE);
        }
        client_close(&client);
        server_stop();
    }
}

/* One that cannot be read is an error of all: no client is to get another's certificate. */
static void test_further_certificates_are_checked(void **state)
{
    const struct credentials_pair wrong[] = {
        {file_path("north.pem"), file_path("south.key")},
        {file_path("missing.pem"), file_path("south.key")},
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char error[256] = "";
        const struct credentials_options options = {
            .certificate_file = file_path("server.pem"),
            .key_file = file_path("server.key"),
            .others = &wrong[i],
            .other_count = 1,
        };
        assert_null(credentials_load(&options, error, sizeof error));
        assert_non_null(strstr(error, i == 0 ? "south.key" : "missing.pem"));
    }
    const struct credentials_options alone = {
        .psk_file = file_write("psk", "a:00\n"), .others = &wrong[0], .other_count = 1};
    char error[256] = "";
    assert_null(credentials_load(&alone, error, sizeof error));
    assert_non_null(strstr(error, "need a first one"));
}

static void test_server_name_is_recorded(void **state)
{
    struct client client;
    (void)state;

    server_start(credentials_psk());
    client_open(&client, &(struct client_wish){.address = "127.0.0.1:40001",
                                               .server_name = "Proxy.Example"});
    client_must_talk(&client, "hello");
    assert_string_equal(identity_server_name(server.identity), "proxy.example");
    client_restart(&client); /* the ticket has it too */
    client_must_talk(&client, "hello");
    assert_int_equal(SSL_session_reused(client.ssl), 1);
    assert_string_equal(identity_server_name(server.identity), "proxy.example");
    client_close(&client);
    server_stop();
}

/* ---- resumption, reload ---- */

static void test_tickets_resume_with_the_same_identity(void **state)
{
    static const char *const wanted[] = {"alice", "sensor.example"};
    struct client clients[2];
    (void)state;

    server_start(credentials_all("server", "ca.pem", true));
    client_open(&clients[0], &(struct client_wish){.address = "127.0.0.1:40001"});
    client_open(&clients[1], &(struct client_wish){.address = "127.0.0.1:40002",
                                                   .suites = "ECDHE-ECDSA-AES128-CCM8",
                                                   .certificate = "sensor"});
    for (size_t i = 0; i < 2; i++) {
        client_must_talk(&clients[i], "hello");
        assert_non_null(clients[i].resume);
        client_restart(&clients[i]);
        client_must_talk(&clients[i], "again");
        assert_int_equal(SSL_session_reused(clients[i].ssl), 1);
        assert_string_equal(identity_name(server.identity), wanted[i]);
        assert_int_equal(dtls_counters(server.listener)->resumptions, i + 1);
        client_close(&clients[i]);
    }
    assert_int_equal(dtls_counters(server.listener)->handshakes, 4);
    assert_int_equal(dtls_counters(server.listener)->sessions, 2);
    server_stop();
}

static void test_reload_ends_resumption_but_no_session(void **state)
{
    struct client client;
    struct client shaking;
    char answer[64];
    (void)state;

    server_start(credentials_psk());
    client_open(&client, &(struct client_wish){.address = "127.0.0.1:40001"});
    client_must_talk(&client, "hello");
    /* In the middle of a handshake: the cookie is sent back, the answer not read yet. */
    client_open(&shaking, &(struct client_wish){.address = "127.0.0.1:40002"});
    client_step(&shaking);
    fake_net_run(0);
    client_step(&shaking);
    fake_net_run(0);

    const struct credentials_options fewer = {
        .psk_file = file_write("psk", "alice:000102030405060708090a0b0c0d0e0f\n")};
    struct credentials *credentials = credentials_must_load(&fewer);
    dtls_set_credentials(server.listener, credentials);
    credentials_release(credentials);

    assert_int_equal(client_ask(&client, "still", answer, sizeof answer), 5);
    client_must_talk(&shaking, "began before");
    client_restart(&client);
    assert_true(client_shake(&client));
    assert_int_equal(dtls_counters(server.listener)->resumptions, 0);
    client_close(&client);
    client_close(&shaking);
    server_stop();
}

static void test_reload_that_takes_a_key_ends_its_sessions(void **state)
{
    struct client client;
    struct client shaking;
    (void)state;

    server_start(credentials_psk());
    client_open(&client, &(struct client_wish){.address = "127.0.0.1:40001"});
    client_must_talk(&client, "hello");
    client_open(&shaking, &(struct client_wish){.address = "127.0.0.1:40002"});
    client_step(&shaking);
    fake_net_run(0);
    client_step(&shaking);
    fake_net_run(0);

    const struct credentials_options fewer = {.psk_file = file_write("psk", "bob:ffeeddccbbaa\n")};
    struct credentials *credentials = credentials_must_load(&fewer);
    dtls_set_credentials(server.listener, credentials);
    credentials_release(credentials);

    assert_int_equal(dtls_counters(server.listener)->sessions, 0);
    (void)client_shake(&shaking); /* began with a key that is gone */
    assert_int_equal(dtls_counters(server.listener)->sessions, 0);
    client_restart(&client);
    assert_false(client_shake(&client));
    assert_int_equal(client.alert, ALERT_DECRYPT_ERROR);
    client_close(&client);
    client_close(&shaking);
    server_stop();
}

/* Both authorities in one file. */
static const char *write_both_authorities(void)
{
    static const char *const names[] = {"ca.pem", "other-ca.pem"};
    char text[8192];
    size_t len = 0;

    for (size_t i = 0; i < 2; i++) {
        FILE *file = fopen(file_path(names[i]), "re");
        assert_non_null(file);
        len += fread(text + len, 1, sizeof text - 1 - len, file);
        assert_int_equal(fclose(file), 0);
    }
    text[len] = '\0';
    (void)file_write("both.pem", text);
    return "both.pem";
}

/* A ticket has the certificate, and not the chain that led to its issuer. */
static void test_reload_that_takes_an_issuer_ends_resumed_sessions(void **state)
{
    static const struct {
        const char *authorities; /* from the reload on */
        bool stays;
    } rows[] = {{"ca.pem", true}, {"both.pem", true}, {"other-ca.pem", false}};
    (void)state;

    (void)write_both_authorities();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct client client;
        char answer[64];
        server_start(credentials_all("server", i == 0 ? "both.pem" : "ca.pem", true));
        client_open(&client, &(struct client_wish){.address = "127.0.0.1:40001",
                                                   .suites = "ECDHE-ECDSA-AES128-CCM8",
                                                   .certificate = "sensor"});
        client_must_talk(&client, "hello");
        for (unsigned round = 0; round < 2; round++) { /* by the first ticket, and by its heir */
            client_restart(&client);
            client_must_talk(&client, "again");
            assert_int_equal(SSL_session_reused(client.ssl), 1);
        }
        struct credentials *credentials = credentials_all("server", rows[i].authorities, true);
        dtls_set_credentials(server.listener, credentials);
        credentials_release(credentials);
        assert_int_equal(dtls_counters(server.listener)->sessions, rows[i].stays ? 1 : 0);
        assert_int_equal(client_ask(&client, "still", answer, sizeof answer),
                         rows[i].stays ? 5 : 0);
        client_close(&client);
        server_stop();
    }
}

static void test_keylog_is_written_where_asked_for(void **state)
{
    struct client client;
    char text[256] = "";
    (void)state;

    const char *path = file_path("keylog");
    const struct credentials_options options = {
        .psk_file = file_write("psk", "alice:000102030405060708090a0b0c0d0e0f\n"),
        .keylog_file = path};
    server_start(credentials_must_load(&options));
    client_open(&client, &(struct client_wish){.address = "127.0.0.1:40001"});
    client_must_talk(&client, "hello");
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof text, file));
    (void)fclose(file);
    assert_memory_equal(text, "CLIENT_RANDOM ", 14);
    assert_int_equal(strlen(text), 14 + 64 + 1 + 96 + 1);
    client_close(&client);
    server_stop();
}

/* ---- networks ---- */

/* Wherever a message of the client is cut, its Finished included. */
static void test_fragments_of_every_size(void **state)
{
    static const char *const names[] = {"ECDHE-ECDSA-AES128-CCM8", "ECDHE-ECDSA-AES128-GCM-SHA256",
                                        "ECDHE-ECDSA-CHACHA20-POLY1305"};
    (void)state;

    server_start(credentials_all("server", "ca.pem", true));
    for (long mtu = 256; mtu < 700; mtu += 1) {
        struct client client;
        char address[32];
        (void)snprintf(address, sizeof address, "127.0.0.1:%ld", 40000 + mtu);
        client_open(&client, &(struct client_wish){.address = address,
                                                   .suites = names[mtu % 3],
                                                   .certificate = "sensor",
                                                   .mtu = mtu});
        if (!client_shake(&client)) {
            fail_msg("mtu %ld: alert %d: %s", mtu, client.alert, logged());
        }
        client_close(&client);
    }
    server_stop();
}

static void test_handshake_survives_a_bad_network(void **state)
{
    static const struct fake_link link = {.delay_min_ms = 5,
                                          .delay_max_ms = 40,
                                          .loss_percent = 15,
                                          .duplicate_percent = 10,
                                          .reorder_percent = 10};
    (void)state;

    /* Always the same losses: with others a handshake may well take longer than a client waits. */
    const uint64_t seed = getenv("TEST_SEED") == NULL ? 1 : test_seed();
    for (uint64_t i = 0; i < 20; i++) {
        struct client client;
        const struct dtls_options options = {
            .sessions_max = 10, .handshakes_max = 10, .handshake_ms = 300000};
        server_seed = seed + i;
        server_start_with(credentials_all("server", "ca.pem", true), &options);
        fake_net_set_link(&link);
        client_open(&client, &(struct client_wish){.address = "127.0.0.1:40001",
                                                   .suites = "ECDHE-ECDSA-AES128-CCM8",
                                                   .ca = "ca",
                                                   .certificate = "sensor",
                                                   .mtu = 300});
        if (!client_shake(&client)) {
            fail_msg("alert %d with seed %" PRIu64 ": %s", client.alert, server_seed, logged());
        }
        /* Whose last flight was lost hears it again. */
        fake_net_run(10000);
        fake_net_set_link(&(struct fake_link){0});
        client_must_talk(&client, "hello");
        client_close(&client);
        server_stop();
    }
    server_seed = 1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_psk_client_talks),
        cmocka_unit_test(test_suites),
        cmocka_unit_test(test_old_versions_are_refused),
        cmocka_unit_test(test_unknown_identity_fails_as_wrong_key_does),
        cmocka_unit_test(test_each_psk_identity_has_its_key),
        cmocka_unit_test(test_client_certificates),
        cmocka_unit_test(test_certificates_can_be_optional),
        cmocka_unit_test(test_psk_client_needs_no_certificate),
        cmocka_unit_test(test_server_name_is_recorded),
        cmocka_unit_test(test_certificate_by_server_name),
        cmocka_unit_test(test_further_certificates_are_checked),
        cmocka_unit_test(test_tickets_resume_with_the_same_identity),
        cmocka_unit_test(test_reload_ends_resumption_but_no_session),
        cmocka_unit_test(test_reload_that_takes_a_key_ends_its_sessions),
        cmocka_unit_test(test_reload_that_takes_an_issuer_ends_resumed_sessions),
        cmocka_unit_test(test_keylog_is_written_where_asked_for),
        cmocka_unit_test(test_fragments_of_every_size),
        cmocka_unit_test(test_handshake_survives_a_bad_network),
    };
    return cmocka_run_group_tests(tests, set_up, files_tear_down);
}
