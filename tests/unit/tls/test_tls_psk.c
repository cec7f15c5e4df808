/* SPDX-License-Identifier: BSD-2-Clause */
/* Pre-shared keys over TLS: whose identity a connection has, resumed ones and those of TLS 1.3. */
#include "tls_fixture.h"

#include "base/identity.h"
#include "net/credentials_internal.h"

#include <openssl/err.h>
#include <string.h>

#define ALICE "000102030405060708090a0b0c0d0e0f"
#define BOB "101112131415161718191a1b1c1d1e1f"
#define BOTH "alice:" ALICE "\nbob:" BOB "\n"

/* ---- one connection, in memory ---- */

/* What the client offers. Of TLS 1.3 unless version says otherwise. */
struct wish {
    int version;
    const char *identity, *key; /* NULL: none */
    size_t identity_len;        /* 0: that of the text */
    SSL_SESSION *resume;        /* borrowed; or NULL */
    const char *suites;         /* of TLS 1.3; NULL: all */
};

struct link {
    SSL_CTX *context;
    SSL *client, *server;
    struct tls_peer peer;
    SSL_SESSION *got; /* the client's newest */
};

static const struct wish *wished;

static int on_new_session(SSL *ssl, SSL_SESSION *session)
{
    struct link *link = SSL_get_app_data(ssl);

    SSL_SESSION_free(link->got);
    link->got = session;
    return 1;
}

static int on_use_session(SSL *ssl, const EVP_MD *digest, const unsigned char **ret_identity,
                          size_t *ret_len, SSL_SESSION **ret_session)
{
    static const unsigned char suite[] = {0x13, 0x01};
    uint8_t key[PSK_KEY_MAX];

    *ret_session = NULL;
    if (wished->identity == NULL || (digest != NULL && !EVP_MD_is_a(digest, "SHA256"))) {
        return 1;
    }
    size_t len = test_hex(wished->key, key, sizeof key);
    *ret_session = SSL_SESSION_new();
    assert_int_equal(SSL_SESSION_set1_master_key(*ret_session, key, len), 1);
    assert_int_equal(SSL_SESSION_set_cipher(*ret_session, SSL_CIPHER_find(ssl, suite)), 1);
    assert_int_equal(SSL_SESSION_set_protocol_version(*ret_session, TLS1_3_VERSION), 1);
    *ret_identity = (const unsigned char *)wished->identity;
    *ret_len = wished->identity_len > 0 ? wished->identity_len : strlen(wished->identity);
    return 1;
}

static unsigned on_client_psk(SSL *ssl, const char *hint, char *identity, unsigned capacity,
                              unsigned char *key, unsigned key_capacity)
{
    (void)ssl;
    (void)hint;
    assert_true(strlen(wished->identity) < capacity);
    memcpy(identity, wished->identity, strlen(wished->identity) + 1);
    return (unsigned)test_hex(wished->key, key, key_capacity);
}

static void make_client(struct link *link, const struct wish *wish)
{
    bool is_old = wish->version == TLS1_2_VERSION;

    wished = wish;
    link->context = SSL_CTX_new(TLS_client_method());
    assert_int_equal(SSL_CTX_set_min_proto_version(link->context, wish->version), 1);
    assert_int_equal(SSL_CTX_set_max_proto_version(link->context, wish->version), 1);
    /* What OpenSSL itself keeps cannot be resumed any more when its context has gone. */
    SSL_CTX_set_session_cache_mode(link->context,
                                   SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL_STORE);
    SSL_CTX_sess_set_new_cb(link->context, on_new_session);
    if (is_old) {
        SSL_CTX_set_psk_client_callback(link->context, on_client_psk);
        assert_int_equal(SSL_CTX_set_cipher_list(link->context, "PSK-AES128-GCM-SHA256"), 1);
    } else {
        SSL_CTX_set_psk_use_session_callback(link->context, on_use_session);
    }
    if (wish->suites != NULL) {
        assert_int_equal(SSL_CTX_set_ciphersuites(link->context, wish->suites), 1);
    }
    link->client = SSL_new(link->context);
    SSL_set_app_data(link->client, link);
    if (wish->resume != NULL) {
        assert_int_equal(SSL_set_session(link->client, wish->resume), 1);
    }
}

static void link_make(struct link *link, const struct credentials *credentials,
                      const struct wish *wish)
{
    BIO *ends[2];

    *link = (struct link){.got = NULL};
    make_client(link, wish);
    link->server = SSL_new(credentials_tls(credentials));
    SSL_set_app_data(link->server, &link->peer);
    assert_int_equal(BIO_new_bio_pair(&ends[0], 0, &ends[1], 0), 1);
    SSL_set_bio(link->client, ends[0], ends[0]);
    SSL_set_bio(link->server, ends[1], ends[1]);
    SSL_set_connect_state(link->client);
    SSL_set_accept_state(link->server);
}

/* @return whether both ends are done */
static bool link_open(struct link *link, const struct credentials *credentials,
                      const struct wish *wish)
{
    bool is_done = false;
    char byte;

    link_make(link, credentials, wish);
    for (int turns = 0; turns < 10 && !is_done; turns++) {
        bool is_client = SSL_do_handshake(link->client) == 1;
        is_done = SSL_do_handshake(link->server) == 1 && is_client;
    }
    (void)SSL_read(link->client, &byte, 1); /* tickets come after the handshake */
    return is_done;
}

static void link_close(struct link *link)
{
    SSL_set_shutdown(link->client, SSL_SENT_SHUTDOWN); /* or its session could not be resumed */
    SSL_free(link->client);
    SSL_free(link->server);
    SSL_CTX_free(link->context);
    SSL_SESSION_free(link->got);
    identity_release(link->peer.refused);
    ERR_clear_error();
}

/* As text; static. "-": none. */
static const char *identity_of(const struct link *link)
{
    static char text[IDENTITY_TEXT_MAX];
    struct identity *identity = tls_identity(link->server);

    const char *shown = identity_format(identity, text);
    identity_release(identity);
    return shown;
}

/* The newest session of a connection that has begun as @p wish says, with this identity. */
static SSL_SESSION *session_of(const struct credentials *credentials, const struct wish *wish,
                               const char *identity)
{
    struct link link;

    assert_true(link_open(&link, credentials, wish));
    assert_string_equal(identity_of(&link), identity);
    assert_non_null(link.got);
    SSL_SESSION *session = link.got;
    link.got = NULL;
    link_close(&link);
    return session;
}

static struct credentials *load_keys(const char *text, bool has_certificate)
{
    return credentials_must_load(&(struct credentials_options){
        .psk_file = file_write("psk", text),
        .certificate_file = has_certificate ? file_path("server.pem") : NULL,
        .key_file = has_certificate ? file_path("server.key") : NULL});
}

static const struct wish alice = {TLS1_3_VERSION, "alice", ALICE, 0, NULL, NULL};
static const struct wish old_alice = {TLS1_2_VERSION, "alice", ALICE, 0, NULL, NULL};

/* ---- tests ---- */

/* With a certificate, too, whatever the client puts first: the key is what is taken. */
static void test_identity_of_a_key(void **state)
{
    static const char *const suites[] = {
        NULL, "TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256",
        "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256"};
    struct link link;
    (void)state;

    for (int has_certificate = 0; has_certificate < 2; has_certificate++) {
        struct credentials *credentials = load_keys(BOTH, has_certificate == 1);
        for (size_t i = 0; i < sizeof suites / sizeof suites[0]; i++) {
            struct wish wish = alice;
            wish.suites = suites[i];
            assert_true(link_open(&link, credentials, &wish));
            assert_int_equal(SSL_version(link.server), TLS1_3_VERSION);
            assert_string_equal(identity_of(&link), "psk:alice");
            assert_false(link.peer.ticket_taken); /* OpenSSL calls it reused */
            link_close(&link);
        }
        credentials_release(credentials);
    }
}

/* The session that was begun says whose it is, in both versions, and over generations. */
static void test_resumed_sessions_keep_their_identity(void **state)
{
    const struct wish *const wishes[] = {&alice, &old_alice};
    struct credentials *credentials = load_keys(BOTH, true);
    (void)state;

    for (size_t i = 0; i < sizeof wishes / sizeof wishes[0]; i++) {
        SSL_SESSION *session = session_of(credentials, wishes[i], "psk:alice");
        for (int generation = 0; generation < 3; generation++) {
            /* Now as bob: the ticket counts, which only alice has got. */
            const struct wish again = {wishes[i]->version, "bob", BOB, 0, session, NULL};
            struct link link;
            assert_true(link_open(&link, credentials, &again));
            assert_int_equal(SSL_session_reused(link.server), 1);
            assert_true(link.peer.ticket_taken);
            assert_string_equal(identity_of(&link), "psk:alice");
            if (link.got != NULL) { /* TLS 1.2 need not give another */
                SSL_SESSION_free(session);
                session = link.got;
                link.got = NULL;
            }
            link_close(&link);
        }
        SSL_SESSION_free(session);
    }
    credentials_release(credentials);
}

/* Of all that a ClientHello offers the identity is that of what was taken, not of the last that was
 * looked at. */
static void test_a_ticket_that_is_not_ours_gives_nothing(void **state)
{
    struct credentials *others = load_keys("alice:" BOB "\n", true);
    struct credentials *credentials = load_keys(BOTH, true);
    const struct wish theirs = {TLS1_3_VERSION, "alice", BOB, 0, NULL, NULL};
    SSL_SESSION *session = session_of(others, &theirs, "psk:alice");
    struct link link;
    (void)state;

    const struct wish as_bob = {TLS1_3_VERSION, "bob", BOB, 0, session, NULL};
    assert_true(link_open(&link, credentials, &as_bob));
    assert_string_equal(identity_of(&link), "psk:bob");
    link_close(&link);
    const struct wish as_nobody = {TLS1_3_VERSION, NULL, NULL, 0, session, NULL};
    assert_true(link_open(&link, credentials, &as_nobody));
    assert_string_equal(identity_of(&link), "-");
    link_close(&link);
    SSL_SESSION_free(session);
    credentials_release(others);
    credentials_release(credentials);
}

/* Even where the keys of tickets are the same, as replicas have them. */
static void test_a_ticket_of_a_key_that_is_gone(void **state)
{
    struct credentials *before = load_keys(BOTH, true);
    struct credentials *now = load_keys("bob:" BOB "\n", true);
    SSL_SESSION *session = session_of(before, &alice, "psk:alice");
    unsigned char keys[80];
    struct link link;
    (void)state;

    assert_int_equal(SSL_CTX_get_tlsext_ticket_keys(before->tls, keys, sizeof keys), 1);
    assert_int_equal(SSL_CTX_set_tlsext_ticket_keys(now->tls, keys, sizeof keys), 1);
    const struct wish again = {TLS1_3_VERSION, NULL, NULL, 0, session, NULL};
    assert_true(link_open(&link, now, &again)); /* by the certificate */
    assert_int_equal(SSL_session_reused(link.server), 0);
    assert_string_equal(identity_of(&link), "-");
    link_close(&link);
    SSL_SESSION_free(session);
    credentials_release(before);
    credentials_release(now);
}

/* What a reload asks about connections that are open: new ones and resumed ones. */
static void test_whether_a_key_still_holds(void **state)
{
    static const struct {
        const char *text;
        bool holds;
    } reloads[] = {{BOTH, true},
                   {"alice:" ALICE "\n", true},
                   {"bob:" BOB "\n", false},
                   {"alice:" BOB "\n", false},
                   {"", false}};
    struct credentials *before = load_keys(BOTH, true);
    SSL_SESSION *session = session_of(before, &alice, "psk:alice");
    const struct wish again = {TLS1_3_VERSION, NULL, NULL, 0, session, NULL};
    const struct wish *const wishes[] = {&alice, &again};
    (void)state;

    for (size_t i = 0; i < sizeof wishes / sizeof wishes[0]; i++) {
        struct link link;
        assert_true(link_open(&link, before, wishes[i]));
        for (size_t j = 0; j < sizeof reloads / sizeof reloads[0]; j++) {
            struct credentials *now = load_keys(reloads[j].text, true);
            assert_int_equal(credentials_still_hold(before, now, link.server), reloads[j].holds);
            credentials_release(now);
        }
        link_close(&link);
    }
    SSL_SESSION_free(session);
    credentials_release(before);
}

/* Bytes that no line of a file has are no key's: not that of what stands before a NUL either. */
static void test_identities_that_are_no_text(void **state)
{
    char longest[PSK_IDENTITY_MAX + 2];
    struct credentials *credentials = load_keys(BOTH, true);
    struct link link;
    (void)state;

    memset(longest, 'a', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    const struct wish wishes[] = {
        {TLS1_3_VERSION, "alice\0x", ALICE, 7, NULL, NULL},
        {TLS1_3_VERSION, "alice", ALICE, 6, NULL, NULL}, /* with its NUL */
        {TLS1_3_VERSION, longest, ALICE, 0, NULL, NULL},
        {TLS1_3_VERSION, "carol", ALICE, 0, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof wishes / sizeof wishes[0]; i++) {
        assert_true(link_open(&link, credentials, &wishes[i])); /* by the certificate */
        assert_string_equal(identity_of(&link), "-");
        link_close(&link);
    }
    credentials_release(credentials);
}

static void test_a_wrong_key_is_told(void **state)
{
    const struct wish wish = {TLS1_3_VERSION, "alice", BOB, 0, NULL, NULL};
    const struct wish stranger = {TLS1_3_VERSION, "carol", BOB, 0, NULL, NULL};
    struct credentials *credentials = load_keys(BOTH, false);
    const char *detail = "";
    struct link link;
    (void)state;

    link_make(&link, credentials, &wish);
    assert_int_equal(SSL_do_handshake(link.client), -1);
    ERR_clear_error();
    assert_int_equal(SSL_do_handshake(link.server), -1);
    assert_int_equal(tls_failure(link.server, &link.peer, &detail), HANDSHAKE_psk_wrong_key);
    assert_string_equal(identity_of(&link), "-"); /* it has shown nothing */
    link_close(&link);
    assert_false(link_open(&link, credentials, &stranger));
    assert_string_equal(identity_of(&link), "-");
    link_close(&link);
    credentials_release(credentials);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_identity_of_a_key),
        cmocka_unit_test(test_resumed_sessions_keep_their_identity),
        cmocka_unit_test(test_a_ticket_that_is_not_ours_gives_nothing),
        cmocka_unit_test(test_a_ticket_of_a_key_that_is_gone),
        cmocka_unit_test(test_whether_a_key_still_holds),
        cmocka_unit_test(test_identities_that_are_no_text),
        cmocka_unit_test(test_a_wrong_key_is_told),
    };
    return cmocka_run_group_tests(tests, files_set_up_certificates, files_tear_down);
}
