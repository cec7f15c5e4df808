/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The two OpenSSL contexts of the credentials: which versions, suites and
 * checks, and the callbacks a handshake makes.
 *
 * Ticket keys are the context's own, made with it: a resumed session began with the same
 * credentials, and after a reload none can be resumed. Replicas with one secret have keys that
 * follow from it and from all that decides which clients are accepted: of a session that is resumed
 * the same holds, wherever it began.
 */
#include "net/credentials_internal.h"

#include "net/derive.h"
#include "net/dtls_record.h"
#include "net/session_facts.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- certificates by the name that is asked for ---- */

/*
 * Several certificates of one listener: the choice for a client that asks for a server by name
 * (SNI, RFC 7252 section 9.1.3, SEC-8).
 *
 * The first certificate is in the contexts themselves: for clients that ask for its name, for no
 * name, or for a name without a certificate. Each of the others is kept in a context of its own
 * that no handshake uses; the handshake borrows from it.
 *
 * The first pair of files is in the OpenSSL contexts of the listeners; further ones are in
 * contexts of their own that no handshake uses. In the callback for SNI the handshake drops the
 * certificates of its context and borrows each that has the name, so that an ECDSA and an RSA
 * certificate can serve one host.
 */

struct certificate_table {
    size_t count;
    SSL_CTX *holders[];
};

void certificate_table_free(struct certificate_table *table)
{
    if (table == NULL) {
        return;
    }
    for (size_t i = 0; i < table->count; i++) {
        SSL_CTX_free(table->holders[i]);
    }
    free(table);
}

static bool is_for(const SSL_CTX *holder, const char *name)
{
    X509 *certificate = SSL_CTX_get0_certificate(holder);

    return certificate != NULL && X509_check_host(certificate, name, strlen(name),
                                                  X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS, NULL) == 1;
}

/* With @p is_first all that the context gave goes, so that none of it is chosen instead. */
static bool borrow(SSL *ssl, const SSL_CTX *holder, bool is_first)
{
    STACK_OF(X509) *chain = NULL;

    if (is_first) {
        SSL_certs_clear(ssl);
    }
    SSL_CTX_get0_chain_certs((SSL_CTX *)(uintptr_t)holder, &chain);
    return SSL_use_cert_and_key(ssl, SSL_CTX_get0_certificate(holder),
                                SSL_CTX_get0_privatekey(holder), chain, 1) == 1;
}

/*
 * In a handshake: the certificates for the name that the client has asked for, if there
 * are such, in place of the first one. Takes NULL.
 *
 * @return false where there was no memory
 */
static bool certificate_table_choose(const struct certificate_table *table, SSL *ssl)
{
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    bool is_first = true;

    if (table == NULL || name == NULL || is_for(SSL_get_SSL_CTX(ssl), name)) {
        return true;
    }
    /* All that have the name: they may be of different kinds, ECDSA and RSA. */
    for (size_t i = 0; i < table->count; i++) {
        if (is_for(table->holders[i], name)) {
            if (!borrow(ssl, table->holders[i], is_first)) {
                ERR_clear_error();
                return false;
            }
            is_first = false;
        }
    }
    return true;
}

/* ---- contexts ---- */

/*
 * Forward secrecy first, long tags before short ones; the last of each kind is
 * what RFC 7252 section 9.1.3 makes mandatory (SEC-4, SEC-5). AEAD only.
 */
#define SUITES                                                                                     \
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:"   \
    "ECDHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-AES256-GCM-SHA384:ECDHE-RSA-CHACHA20-POLY1305:"         \
    "ECDHE-ECDSA-AES128-CCM:ECDHE-ECDSA-AES128-CCM8:"                                              \
    "ECDHE-PSK-CHACHA20-POLY1305:PSK-AES128-GCM-SHA256:PSK-AES256-GCM-SHA384:"                     \
    "PSK-CHACHA20-POLY1305:PSK-AES128-CCM:PSK-AES128-CCM8"

/* Of TLS 1.3. Those with SHA-256 first: with another hash a pre-shared key cannot be taken, and a
 * client that offers both would be shown the certificate instead. */
#define SUITES_1_3 "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384"

/* 112 bits for everything but the two suites of allow_short_tags(). */
#define SECURITY_LEVEL 2

/* Lifetime of a ticket: long enough for a client that sleeps for a day, and so long may an expired
 * certificate be used. */
#define TICKET_SECONDS 86400

#define CLIENT_CHAIN_MAX 6

/* OpenSSL's DTLS takes as much for each of eleven messages that a client has only begun, whatever
 * they are, as this or as one whole record takes. */
#define CLIENT_CHAIN_BYTES 16384

/* ---- callbacks, in the thread of the handshake ---- */

static const struct credentials *credentials_of(const SSL *ssl)
{
    return SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
}

static unsigned on_psk(SSL *ssl, const char *identity, unsigned char *key, unsigned capacity)
{
    struct tls_peer *peer = SSL_get_app_data(ssl);
    uint8_t found[PSK_KEY_MAX];
    size_t len = 0;

    if (SSL_version(ssl) == TLS1_3_VERSION) {
        return 0; /* on_psk_session() has been asked */
    }
    bool known = psk_table_find(credentials_of(ssl)->psks, identity, found, &len);
    if (peer != NULL) {
        peer->psk_asked = true;
        peer->psk_unknown = !known;
    }
    len = len > capacity ? 0 : len;
    memcpy(key, found, len);
    OPENSSL_cleanse(found, sizeof found);
    return (unsigned)len;
}

/* A session of TLS 1.3 that begins with @p key. Its hash is SHA-256, as RFC 8446 section 4.2.11 has
 * it for keys that come with none. NULL without memory; free with SSL_SESSION_free(). */
static SSL_SESSION *make_psk_session(SSL *ssl, const char *identity, const uint8_t *key, size_t len)
{
    static const unsigned char aes_128_gcm_sha256[] = {0x13, 0x01};
    SSL_SESSION *session = SSL_SESSION_new();

    if (session == NULL || SSL_SESSION_set1_master_key(session, key, len) != 1 ||
        SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, aes_128_gcm_sha256)) != 1 ||
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) != 1 ||
        SSL_SESSION_set_timeout(session, TICKET_SECONDS) == 0 ||
        !facts_note_psk(session, identity)) {
        SSL_SESSION_free(session);
        return NULL;
    }
    return session;
}

/*
 * TLS 1.3: asked about each pre-shared key that a client offers, tickets among them, until one is
 * taken. OpenSSL does not tell which one that was, so its identity is in the session itself.
 */
static int on_psk_session(SSL *ssl, const unsigned char *identity, size_t len,
                          SSL_SESSION **ret_session)
{
    struct tls_peer *peer = SSL_get_app_data(ssl);
    char name[PSK_IDENTITY_MAX + 1];
    uint8_t key[PSK_KEY_MAX];
    size_t key_len = 0;

    *ret_session = NULL;
    if (len == 0 || len > PSK_IDENTITY_MAX || memchr(identity, '\0', len) != NULL) {
        return 1; /* no line of the file has it: a ticket */
    }
    memcpy(name, identity, len);
    name[len] = '\0';
    bool known = psk_table_find(credentials_of(ssl)->psks, name, key, &key_len);
    if (known) {
        *ret_session = make_psk_session(ssl, name, key, key_len);
    }
    if (peer != NULL) {
        peer->psk_asked = true;
        peer->psk_unknown = !known;
    }
    OPENSSL_cleanse(key, sizeof key);
    return !known || *ret_session != NULL ? 1 : 0;
}

/* The name is acknowledged, and stays in the session. */
static int on_server_name(SSL *ssl, int *ret_alert, void *context)
{
    (void)context;
    if (!certificate_table_choose(credentials_of(ssl)->others, ssl)) {
        *ret_alert = SSL_AD_INTERNAL_ERROR;
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    }
    return SSL_TLSEXT_ERR_OK;
}

/* Without an offer this is not called: whether that will do, the connection decides. */
static int on_alpn(SSL *ssl, const unsigned char **ret_name, unsigned char *ret_len,
                   const unsigned char *offer, unsigned offer_len, void *context)
{
    const struct tls_peer *peer = SSL_get_app_data(ssl);
    size_t len = peer != NULL && peer->alpn != NULL ? strlen(peer->alpn) : 0;

    (void)context;
    for (unsigned at = 0; len > 0 && at < offer_len; at += 1u + offer[at]) {
        if (offer[at] == len && offer_len - at > len &&
            memcmp(offer + at + 1, peer->alpn, len) == 0) {
            *ret_name = offer + at + 1;
            *ret_len = (unsigned char)len;
            return SSL_TLSEXT_ERR_OK;
        }
    }
    return len > 0 ? SSL_TLSEXT_ERR_ALERT_FATAL : SSL_TLSEXT_ERR_NOACK;
}

static void on_keylog(const SSL *ssl, const char *line)
{
    char text[512];
    int len = snprintf(text, sizeof text, "%s\n", line);

    if (len > 0 && (size_t)len < sizeof text) {
        ssize_t written = write(credentials_of(ssl)->keylog_fd, text, (size_t)len);
        (void)written; /* a lab's loss */
    }
    OPENSSL_cleanse(text, sizeof text);
}

/* Without this OpenSSL would ask for a passphrase on the terminal. */
static int on_passphrase(char *buffer, int capacity, int writing, void *context)
{
    (void)buffer;
    (void)capacity;
    (void)writing;
    (void)context;
    return -1;
}

/*
 * OpenSSL counts a tag of 8 bytes as 64 bits of strength. These suites are
 * mandatory for CoAP and no reason to lower the level for everything (SEC-6).
 */
/* OpenSSL's own seven parameters. NOLINTNEXTLINE(readability-function-size) */
static int allow_short_tags(const SSL *ssl, const SSL_CTX *context, int operation, int bits,
                            int nid, void *other, void *extra)
{
    const struct credentials *credentials = extra;

    if (operation == SSL_SECOP_CIPHER_SUPPORTED || operation == SSL_SECOP_CIPHER_SHARED ||
        operation == SSL_SECOP_CIPHER_CHECK) {
        const SSL_CIPHER *cipher = other;
        uint16_t id = SSL_CIPHER_get_protocol_id(cipher);
        if (id == 0xC0A8 || id == 0xC0AE) { /* PSK_, ECDHE_ECDSA_WITH_AES_128_CCM_8 */
            return 1;
        }
    }
    return credentials->preset_security(ssl, context, operation, bits, nid, other, NULL);
}

/* ---- set-up ---- */

bool credentials_fail_openssl(const struct error_text *error, const char *place)
{
    unsigned long code = ERR_peek_error(); /* the first is the cause */
    const char *what = ERR_reason_error_string(code);

    if (ERR_SYSTEM_ERROR(code)) {
        what = strerror(ERR_GET_REASON(code));
    } else if (ERR_GET_LIB(code) == ERR_LIB_PEM && ERR_GET_REASON(code) == PEM_R_NO_START_LINE) {
        what = "expected PEM, found no -----BEGIN line of the kind that is needed";
    }
    ERR_clear_error();
    return credentials_fail(error, place, what == NULL ? "not usable" : what);
}

/*
 * Loads both files of a pair into @p context and checks that they belong together. False with a
 * text in @p error.
 */
static bool credentials_use_certificate(SSL_CTX *context, const char *certificate_file,
                                        const char *key_file, const struct error_text *error)
{
    SSL_CTX_set_default_passwd_cb(context, on_passphrase);
    if (SSL_CTX_use_certificate_chain_file(context, certificate_file) != 1) {
        return credentials_fail_openssl(error, certificate_file);
    }
    if (SSL_CTX_use_PrivateKey_file(context, key_file, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(context) != 1) {
        return credentials_fail_openssl(error, key_file);
    }
    return true;
}

struct certificate_table *certificate_table_load(const struct credentials_pair *pairs, size_t count,
                                                 const struct error_text *error)
{
    struct certificate_table *table = calloc(1, sizeof(*table) + count * sizeof(table->holders[0]));

    if (table == NULL) {
        (void)credentials_fail(error, "tls", "out of memory");
        return NULL;
    }
    while (table->count < count) {
        SSL_CTX *holder = SSL_CTX_new(TLS_server_method());
        table->holders[table->count] = holder;
        if (holder == NULL) {
            (void)credentials_fail(error, "tls", "out of memory");
            certificate_table_free(table);
            return NULL;
        }
        table->count++;
        const struct credentials_pair *pair = &pairs[table->count - 1];
        if (!credentials_use_certificate(holder, pair->certificate_file, pair->key_file, error)) {
            certificate_table_free(table);
            return NULL;
        }
    }
    return table;
}

/* Zeros for NULL. A file that cannot be read is reported where its keys are loaded. */
static void digest_of_file(const char *name, uint8_t ret_digest[32])
{
    EVP_MD_CTX *digest = EVP_MD_CTX_new();
    FILE *file = name == NULL ? NULL : fopen(name, "re");
    unsigned char chunk[4096];
    unsigned len = 0;

    memset(ret_digest, 0, 32);
    if (digest != NULL && file != NULL && EVP_DigestInit_ex(digest, EVP_sha256(), NULL) == 1) {
        (void)setvbuf(file, NULL, _IONBF, 0); /* or a copy of keys would stay behind */
        for (size_t got = 1; got > 0;) {
            got = fread(chunk, 1, sizeof chunk, file);
            (void)EVP_DigestUpdate(digest, chunk, got);
        }
        (void)EVP_DigestFinal_ex(digest, ret_digest, &len);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    OPENSSL_cleanse(chunk, sizeof chunk);
    EVP_MD_CTX_free(digest);
}

/* ---- keys that replicas have in common ---- */

/* A name of 16 bytes, and a key of 32 bytes each for the HMAC and for AES. */
#define TICKET_KEYS_LEN 80u

/* Digests of three files, and a flag. */
#define RULES_LEN 97u

/* All that decides which clients are accepted: a resumed session is not asked again. */
static void digest_of_rules(const struct credentials *credentials,
                            const struct credentials_options *options, uint8_t ret_rules[RULES_LEN])
{
    memcpy(ret_rules, credentials->client_ca_digest, 32);
    digest_of_file(options->client_keys_file, ret_rules + 32);
    digest_of_file(options->psk_file, ret_rules + 64);
    ret_rules[96] = options->require_client_certificate ? 1 : 0;
}

/* Without these OpenSSL makes keys of its own with each context. */
static bool share_tickets(SSL_CTX *context, struct bytes secret, const char *label,
                          struct bytes rules)
{
    uint8_t keys[TICKET_KEYS_LEN];
    bool is_good = derive_key(secret, label, rules, keys, sizeof keys) &&
                   SSL_CTX_set_tlsext_ticket_keys(context, keys, sizeof keys) == 1;

    OPENSSL_cleanse(keys, sizeof keys);
    return is_good;
}

/* @return false without memory */
static bool share_secrets(struct credentials *credentials,
                          const struct credentials_options *options)
{
    uint8_t rules[RULES_LEN];

    if (options->cluster_secret.len == 0) {
        return true;
    }
    digest_of_rules(credentials, options, rules);
    const struct bytes bound = {rules, sizeof rules};
    credentials->is_clustered = true;
    return derive_key(options->cluster_secret, "dtls cookies", (struct bytes){0},
                      credentials->cookie_secret, sizeof credentials->cookie_secret) &&
           share_tickets(credentials->dtls, options->cluster_secret, "dtls tickets", bound) &&
           share_tickets(credentials->tls, options->cluster_secret, "tls tickets", bound);
}

static bool use_client_ca(SSL_CTX *context, const struct credentials_options *options,
                          const struct error_text *error)
{
    STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(options->client_ca_file);

    if (names == NULL || SSL_CTX_load_verify_file(context, options->client_ca_file) != 1) {
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        return credentials_fail_openssl(error, options->client_ca_file);
    }
    SSL_CTX_set_client_CA_list(context, names);
    return true;
}

/* Clients are asked for certificates, raw public keys, or either. */
static bool ask_clients(SSL_CTX *context, const struct credentials_options *options,
                        const struct error_text *error)
{
    int mode = SSL_VERIFY_PEER;

    if (options->client_ca_file == NULL && options->client_keys_file == NULL) {
        return true;
    }
    if (options->require_client_certificate) {
        mode |= SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
    }
    SSL_CTX_set_verify(context, mode, tls_on_verify);
    SSL_CTX_set_verify_depth(context, CLIENT_CHAIN_MAX);
    return options->client_ca_file == NULL || use_client_ca(context, options, error);
}

static bool set_strength(SSL_CTX *context, struct credentials *credentials)
{
    /* No const: OpenSSL's macros would cast it away. */
    char groups[] = "P-256:X25519:P-384";
    char signatures[] = "ECDSA+SHA256:ECDSA+SHA384:ed25519:RSA-PSS+SHA256:RSA-PSS+SHA384:"
                        "RSA+SHA256:RSA+SHA384";
    credentials->preset_security = SSL_CTX_get_security_callback(context);
    SSL_CTX_set_security_level(context, SECURITY_LEVEL);
    SSL_CTX_set0_security_ex_data(context, credentials);
    SSL_CTX_set_security_callback(context, allow_short_tags);
    /* P-256 with SHA-256 is RFC 7252's; the others are for peers with more choice. */
    return SSL_CTX_set_cipher_list(context, SUITES) == 1 &&
           SSL_CTX_set_ciphersuites(context, SUITES_1_3) == 1 &&
           SSL_CTX_set1_groups_list(context, groups) == 1 &&
           SSL_CTX_set1_sigalgs_list(context, signatures) == 1;
}

static void set_modes(SSL_CTX *context, struct credentials *credentials)
{
    /* No early data is OpenSSL's preset (SEC-17). The MTU is ours to say: no socket is asked. */
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                     SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_NO_QUERY_MTU |
                                     SSL_OP_PRIORITIZE_CHACHA);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF); /* tickets, not memory */
    SSL_CTX_set_timeout(context, TICKET_SECONDS);
    (void)SSL_CTX_set_session_ticket_cb(context, credentials_on_ticket, credentials_on_ticket_back,
                                        NULL); /* 1, always */
    SSL_CTX_set_app_data(context, credentials);
    SSL_CTX_set_tlsext_servername_callback(context, on_server_name);
    if (credentials->psks != NULL) {
        SSL_CTX_set_psk_server_callback(context, on_psk);
        SSL_CTX_set_psk_find_session_callback(context, on_psk_session);
    }
    if (credentials->keylog_fd >= 0) {
        SSL_CTX_set_keylog_callback(context, on_keylog);
    }
}

/* The versions that are spoken. DTLS is 1.2 alone: what follows its handshake is ours to know. */
struct version_range {
    int lowest, highest; /* highest 0: the newest of the library */
};

static SSL_CTX *make_context(struct credentials *credentials, const SSL_METHOD *method,
                             struct version_range versions,
                             const struct credentials_options *options,
                             const struct error_text *error)
{
    static const unsigned char resumable[] = "criproxy";
    SSL_CTX *context = SSL_CTX_new(method);

    if (context == NULL || SSL_CTX_set_min_proto_version(context, versions.lowest) != 1 ||
        SSL_CTX_set_max_proto_version(context, versions.highest) != 1 ||
        !set_strength(context, credentials) ||
        SSL_CTX_set_session_id_context(context, resumable, sizeof resumable - 1) != 1) {
        (void)credentials_fail_openssl(error, "tls");
        goto fail;
    }
    set_modes(context, credentials);
    if (options->certificate_file != NULL &&
        !credentials_use_certificate(context, options->certificate_file, options->key_file,
                                     error)) {
        goto fail;
    }
    if (!ask_clients(context, options, error)) {
        goto fail;
    }
    if (!credentials_use_raw_keys(credentials, context)) {
        (void)credentials_fail_openssl(error, "tls");
        goto fail;
    }
    return context;

fail:
    SSL_CTX_free(context);
    return NULL;
}

bool credentials_make_contexts(struct credentials *credentials,
                               const struct credentials_options *options,
                               const struct error_text *error)
{
    digest_of_file(options->client_ca_file, credentials->client_ca_digest);
    ERR_clear_error();
    credentials->dtls =
        make_context(credentials, DTLS_server_method(),
                     (struct version_range){DTLS1_2_VERSION, DTLS1_2_VERSION}, options, error);
    if (credentials->dtls == NULL) {
        return false;
    }
    SSL_CTX_set_max_cert_list(credentials->dtls, CLIENT_CHAIN_BYTES);
    SSL_CTX_set_cookie_generate_cb(credentials->dtls, dtls_on_cookie_generate);
    SSL_CTX_set_cookie_verify_cb(credentials->dtls, dtls_on_cookie_verify);
    if (!records_add_cid_extension(credentials->dtls, &dtls_cid_extension)) {
        return credentials_fail(error, "tls", "no connection ids");
    }
    credentials->tls = make_context(credentials, TLS_server_method(),
                                    (struct version_range){TLS1_2_VERSION, 0}, options, error);
    if (credentials->tls == NULL) {
        return false;
    }
    SSL_CTX_set_alpn_select_cb(credentials->tls, on_alpn, NULL);
    if (!share_secrets(credentials, options)) {
        return credentials_fail_openssl(error, "cluster");
    }
    return true;
}
