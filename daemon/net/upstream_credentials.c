/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keys and certificates for origin servers. OpenSSL has one object that holds a certificate, its
 * chain, its key and trust anchors together, a context: one is filled when the files are read and
 * is only copied from later, so that a session never meets a file that has changed.
 *
 * libcoap offers anonymous suites, needs files at each handshake, and takes TLS 1.3 with a
 * pre-shared key, where the server may show any certificate instead. So the OpenSSL contexts
 * that coap_new_context() makes get their settings here: the creation of one calls back
 * (SSL_CTX_get_ex_new_index()). Suites, versions, trust anchors and certificate are then the
 * same for DTLS and TLS. With a pre-shared key nothing newer than 1.2 is offered, and no
 * certificate is taken.
 */
#include "net/upstream_internal.h"

#include "base/escape.h"
#include "base/log.h"
#include "net/credentials_internal.h"
#include "net/dtls_record.h"
#include "net/raw_keys.h"
#include "net/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* As for clients (credentials_context.c): AEAD only, forward secrecy first, and what
 * RFC 7252 section 9.1.3 makes mandatory last (SEC-4, SEC-5). libcoap's own list would allow
 * anonymous suites. */
#define SUITES                                                                                     \
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:"   \
    "ECDHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-AES256-GCM-SHA384:ECDHE-RSA-CHACHA20-POLY1305:"         \
    "ECDHE-ECDSA-AES128-CCM:ECDHE-ECDSA-AES128-CCM8"

#define SECURITY_LEVEL 2

/* ---- pre-shared key ---- */

static bool upstream_parse_key(struct upstream_credentials *credentials, const char *hex)
{
    size_t len = strlen(hex);
    if (len == 0 || len % 2 != 0 || len / 2 > sizeof credentials->key) {
        return false;
    }
    for (size_t i = 0; i < len / 2; i++) {
        int high = escape_hex_digit(hex[2 * i]), low = escape_hex_digit(hex[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        credentials->key[i] = (uint8_t)(high << 4 | low);
    }
    credentials->key_len = len / 2;
    return true;
}

/* A line of hexadecimal, blanks around it. The buffer with the key is wiped. */
static bool read_key(struct upstream_credentials *credentials, const char *name,
                     const struct error_text *error)
{
    char text[2 * UPSTREAM_PSK_KEY_MAX + 16] = "";
    FILE *file = fopen(name, "re");
    bool is_good = false;

    if (file == NULL) {
        return credentials_fail(error, name, strerror(errno));
    }
    (void)setvbuf(file, NULL, _IONBF, 0); /* or a copy would stay behind */
    size_t len = fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    while (len > 0 && strchr(" \t\r\n", text[len - 1]) != NULL) {
        len--;
    }
    text[len] = '\0';
    is_good = upstream_parse_key(credentials, text + strspn(text, " \t"));
    OPENSSL_cleanse(text, sizeof text);
    credentials_check_secrecy(name);
    return is_good ||
           credentials_fail(error, name, "expected 1 to 64 bytes in hexadecimal on one line");
}

static bool take_psk(struct upstream_credentials *credentials,
                     const struct upstream_credentials_options *options,
                     const struct error_text *error)
{
    const char *identity = options->psk_identity;
    bool has_key = options->psk_key_hex != NULL || options->psk_key_file != NULL;
    if (identity == NULL && !has_key) {
        return true;
    }
    if (identity == NULL || !has_key) {
        return credentials_fail(error, "psk-key", "a key and its identity are needed together");
    }
    size_t len = strlen(identity);
    if (len == 0 || len > UPSTREAM_PSK_IDENTITY_MAX) {
        return credentials_fail(error, "psk-identity", "1 to 128 bytes are expected");
    }
    memcpy(credentials->identity, identity, len + 1);
    if (options->psk_key_file != NULL) {
        return read_key(credentials, options->psk_key_file, error);
    }
    if (!upstream_parse_key(credentials, options->psk_key_hex)) {
        return credentials_fail(error, "psk-key", "1 to 64 bytes in hexadecimal are expected");
    }
    if (credentials->key_len < PSK_KEY_STRONG) {
        char shown[2 * UPSTREAM_PSK_IDENTITY_MAX + 16];
        escape_value(shown, sizeof shown, identity, len);
        log_event(LOG_WARNING, "upstream_psk_weak", "identity=%s bytes=%zu wanted_bytes=%d", shown,
                  credentials->key_len, PSK_KEY_STRONG);
    }
    return true;
}

/* ---- certificates ---- */

/* Without this OpenSSL would ask for a passphrase on the terminal. */
static int upstream_on_passphrase(char *buffer, int capacity, int writing, void *context)
{
    (void)buffer;
    (void)capacity;
    (void)writing;
    (void)context;
    return -1;
}

static bool take_raw_keys(struct upstream_credentials *credentials,
                          const struct upstream_credentials_options *options,
                          const struct error_text *error)
{
    if (options->raw_key_file == NULL && options->server_keys_file == NULL) {
        return true;
    }
    if (!raw_keys_are_there()) {
        return credentials_fail(error, "raw-key", RAW_KEYS_LACK);
    }
    if (options->psk_identity != NULL ||
        (options->raw_key_file != NULL && options->certificate_file != NULL)) {
        return credentials_fail(error, "raw-key",
                                "there is a certificate or a pre-shared key, too");
    }
    if (options->raw_key_file != NULL) {
        EVP_PKEY *key = raw_key_read(options->raw_key_file);
        credentials->has_raw_key =
            key != NULL && SSL_CTX_use_PrivateKey(credentials->holder, key) == 1;
        EVP_PKEY_free(key);
        if (!credentials->has_raw_key) {
            return credentials_fail_openssl(error, options->raw_key_file);
        }
        credentials_check_secrecy(options->raw_key_file);
    }
    if (options->server_keys_file != NULL) {
        credentials->server_keys =
            raw_keys_load(options->server_keys_file, error->text, error->capacity);
    }
    return options->server_keys_file == NULL || credentials->server_keys != NULL;
}

static bool take_files(SSL_CTX *holder, const struct upstream_credentials_options *options,
                       const struct error_text *error)
{
    if ((options->certificate_file == NULL) != (options->key_file == NULL)) {
        return credentials_fail(error, "certificate",
                                "a certificate and its key are needed together");
    }
    SSL_CTX_set_default_passwd_cb(holder, upstream_on_passphrase);
    if (options->certificate_file != NULL) {
        credentials_check_secrecy(options->key_file);
        if (SSL_CTX_use_certificate_chain_file(holder, options->certificate_file) != 1) {
            return credentials_fail_openssl(error, options->certificate_file);
        }
        if (SSL_CTX_use_PrivateKey_file(holder, options->key_file, SSL_FILETYPE_PEM) != 1 ||
            SSL_CTX_check_private_key(holder) != 1) {
            return credentials_fail_openssl(error, options->key_file);
        }
    }
    if (options->ca_file != NULL) {
        return SSL_CTX_load_verify_file(holder, options->ca_file) == 1 ||
               credentials_fail_openssl(error, options->ca_file);
    }
    return options->server_keys_file != NULL || SSL_CTX_set_default_verify_paths(holder) == 1 ||
           credentials_fail_openssl(error, "ca");
}

static void digest_text(EVP_MD_CTX *digest, const char *text)
{
    EVP_DigestUpdate(digest, text != NULL ? text : "", text != NULL ? strlen(text) + 1 : 1);
}

/* If a file changes between this and its reading, the next reload corrects it. */
static void digest_file(EVP_MD_CTX *digest, const char *name)
{
    char chunk[4096];
    FILE *file = name != NULL ? fopen(name, "re") : NULL;

    digest_text(digest, name);
    for (size_t len = 1; file != NULL && len > 0;) {
        len = fread(chunk, 1, sizeof chunk, file);
        EVP_DigestUpdate(digest, chunk, len);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

static bool make_digest(struct upstream_credentials *credentials,
                        const struct upstream_credentials_options *options)
{
    EVP_MD_CTX *digest = EVP_MD_CTX_new();
    unsigned len = 0;

    if (digest == NULL || EVP_DigestInit_ex(digest, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(digest);
        return false;
    }
    digest_file(digest, options->ca_file);
    digest_file(digest, options->certificate_file);
    digest_file(digest, options->key_file);
    digest_file(digest, options->raw_key_file);
    digest_file(digest, options->server_keys_file);
    digest_text(digest, options->psk_identity);
    digest_text(digest, options->psk_key_hex);
    digest_file(digest, options->psk_key_file);
    EVP_DigestFinal_ex(digest, credentials->digest, &len);
    EVP_MD_CTX_free(digest);
    return len == UPSTREAM_DIGEST_LEN;
}

static void upstream_destroy(struct upstream_credentials *credentials)
{
    SSL_CTX_free(credentials->tls);
    SSL_CTX_free(credentials->dtls);
    SSL_CTX_free(credentials->holder);
    raw_keys_free(credentials->server_keys);
    OPENSSL_cleanse(credentials->key, sizeof credentials->key);
    free(credentials);
}

struct upstream_credentials *upstream_credentials_acquire(struct upstream_credentials *credentials)
{
    atomic_fetch_add_explicit(&credentials->count, 1, memory_order_relaxed);
    return credentials;
}

void upstream_credentials_release(struct upstream_credentials *credentials)
{
    if (credentials != NULL &&
        atomic_fetch_sub_explicit(&credentials->count, 1, memory_order_acq_rel) == 1) {
        upstream_destroy(credentials);
    }
}

/* ---- a session's context ---- */

/*
 * The two suites with tags of 8 bytes, which OpenSSL counts as 64 bits of strength, are
 * mandatory for CoAP (SEC-6); all that are not AEAD, which libcoap's list for pre-shared
 * keys has, are left out.
 */
/* OpenSSL's own seven parameters. NOLINTNEXTLINE(readability-function-size) */
static int choose_suites(const SSL *ssl, const SSL_CTX *context, int operation, int bits, int nid,
                         void *other, void *extra)
{
    const struct upstream_credentials *credentials = extra;

    if (operation == SSL_SECOP_CIPHER_SUPPORTED || operation == SSL_SECOP_CIPHER_SHARED ||
        operation == SSL_SECOP_CIPHER_CHECK) {
        const SSL_CIPHER *cipher = other;
        uint16_t id = SSL_CIPHER_get_protocol_id(cipher);
        if (id == 0xC0A8 || id == 0xC0AE) { /* PSK_, ECDHE_ECDSA_WITH_AES_128_CCM_8 */
            return 1;
        }
        if (!SSL_CIPHER_is_aead(cipher)) {
            return 0;
        }
    }
    return credentials->preset_security(ssl, context, operation, bits, nid, other, NULL);
}

static bool use_holder(SSL_CTX *context, SSL_CTX *holder)
{
    X509 *certificate = SSL_CTX_get0_certificate(holder);
    STACK_OF(X509) *chain = NULL;

    SSL_CTX_set1_cert_store(context, SSL_CTX_get_cert_store(holder));
    if (certificate == NULL) { /* a raw key, or none */
        EVP_PKEY *key = SSL_CTX_get0_privatekey(holder);
        return key == NULL || SSL_CTX_use_PrivateKey(context, key) == 1;
    }
    SSL_CTX_get0_chain_certs(holder, &chain);
    return SSL_CTX_use_cert_and_key(context, certificate, SSL_CTX_get0_privatekey(holder), chain,
                                    1) == 1;
}

bool credentials_apply(struct upstream_credentials *credentials, SSL_CTX *context)
{
    /* No const: OpenSSL's macros would cast it away. */
    char groups[] = "P-256:X25519:P-384";
    char signatures[] = "ECDSA+SHA256:ECDSA+SHA384:ed25519:RSA-PSS+SHA256:RSA-PSS+SHA384:"
                        "RSA+SHA256:RSA+SHA384";
    static const unsigned char alpn[] = {4, 'c', 'o', 'a', 'p'};
    bool is_dtls = SSL_CTX_get_ssl_method(context) == DTLS_method();

    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_security_level(context, SECURITY_LEVEL);
    SSL_CTX_set0_security_ex_data(context, credentials);
    SSL_CTX_set_security_callback(context, choose_suites);
    if (!is_dtls) {
        /* 1.3 with a pre-shared key lets the server choose a certificate instead, which would not
         * be checked: the key would prove nothing. */
        int newest = credentials_have_psk(credentials) ? TLS1_2_VERSION : TLS1_3_VERSION;
        if (SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1 ||
            SSL_CTX_set_max_proto_version(context, newest) != 1 ||
            SSL_CTX_set_alpn_protos(context, alpn, sizeof alpn) != 0) { /* 0 is good here */
            return false;
        }
    }
    return SSL_CTX_set_cipher_list(context, SUITES) == 1 &&
           SSL_CTX_set1_groups_list(context, groups) == 1 &&
           SSL_CTX_set1_sigalgs_list(context, signatures) == 1 &&
           use_holder(context, credentials->holder);
}

bool credentials_apply_web(const struct upstream_credentials *credentials, SSL_CTX *context,
                           bool shows_certificate)
{
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_security_level(context, SECURITY_LEVEL);
    if (SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1) {
        return false;
    }
    if (!shows_certificate) {
        SSL_CTX_set1_cert_store(context, SSL_CTX_get_cert_store(credentials->holder));
        return true;
    }
    return use_holder(context, credentials->holder);
}

/* libcoap's sessions have a list of its own. */
#define PSK_SUITES                                                                                 \
    "ECDHE-PSK-CHACHA20-POLY1305:PSK-AES128-GCM-SHA256:PSK-AES256-GCM-SHA384:"                     \
    "PSK-CHACHA20-POLY1305:PSK-AES128-CCM:PSK-AES128-CCM8"

/* OpenSSL's own six parameters. NOLINTNEXTLINE(readability-function-size) */
static unsigned upstream_on_psk(SSL *ssl, const char *hint, char *identity,
                                unsigned identity_capacity, unsigned char *key,
                                unsigned key_capacity)
{
    const struct upstream_credentials *credentials = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    size_t len = strlen(credentials->identity);

    (void)hint;
    if (len >= identity_capacity || credentials->key_len > key_capacity) {
        return 0;
    }
    memcpy(identity, credentials->identity, len + 1);
    memcpy(key, credentials->key, credentials->key_len);
    return (unsigned)credentials->key_len;
}

/* What OpenSSL makes @p context of; it is of @p credentials. */
static bool fill_context(struct upstream_credentials *credentials, SSL_CTX *context)
{
    if (context == NULL || !credentials_apply(credentials, context)) {
        return false;
    }
    SSL_CTX_set_app_data(context, credentials);
    if (credentials_have_psk(credentials)) {
        SSL_CTX_set_psk_client_callback(context, upstream_on_psk);
        return SSL_CTX_set_cipher_list(context, PSK_SUITES) == 1;
    }
    return true;
}

#if OPENSSL_VERSION_NUMBER >= RAW_KEYS_OPENSSL
/* The kinds that each side may show (RFC 7250 section 4.1). */
static bool offer_raw_keys(const struct upstream_credentials *credentials, SSL_CTX *context)
{
    static const unsigned char types[] = {TLSEXT_cert_type_rpk, TLSEXT_cert_type_x509};

    return (credentials->server_keys == NULL ||
            SSL_CTX_set1_server_cert_type(context, types, credentials->has_anchors ? 2 : 1) == 1) &&
           (!credentials->has_raw_key || SSL_CTX_set1_client_cert_type(context, types, 1) == 1);
}
#else
static bool offer_raw_keys(const struct upstream_credentials *credentials, SSL_CTX *context)
{
    (void)credentials;
    (void)context;
    return true;
}
#endif

static bool make_contexts(struct upstream_credentials *credentials)
{
    credentials->tls = SSL_CTX_new(TLS_client_method());
    credentials->dtls = SSL_CTX_new(DTLS_method());
    if (!fill_context(credentials, credentials->tls) ||
        !fill_context(credentials, credentials->dtls) ||
        !offer_raw_keys(credentials, credentials->tls) ||
        !offer_raw_keys(credentials, credentials->dtls)) {
        return false;
    }
    /* Nothing but 1.2: OpenSSL has no 1.3 here yet, and our records are those of 1.2. */
    SSL_CTX_set_options(credentials->dtls, SSL_OP_NO_QUERY_MTU);
    return SSL_CTX_set_min_proto_version(credentials->dtls, DTLS1_2_VERSION) == 1 &&
           SSL_CTX_set_max_proto_version(credentials->dtls, DTLS1_2_VERSION) == 1 &&
           records_add_cid_extension(credentials->dtls, &upstream_cid_extension);
}

struct upstream_credentials *
upstream_credentials_load(const struct upstream_credentials_options *options, char *ret_error,
                          size_t error_capacity)
{
    const struct error_text error = {ret_error, error_capacity};
    struct upstream_credentials *credentials = calloc(1, sizeof *credentials);

    if (credentials == NULL) {
        (void)credentials_fail(&error, "upstream", "out of memory");
        return NULL;
    }
    atomic_init(&credentials->count, 1);
    ERR_clear_error();
    credentials->holder = SSL_CTX_new(TLS_client_method());
    if (credentials->holder == NULL || !make_digest(credentials, options)) {
        (void)credentials_fail_openssl(&error, "tls");
        upstream_destroy(credentials);
        return NULL;
    }
    credentials->preset_security = SSL_CTX_get_security_callback(credentials->holder);
    credentials->has_anchors = options->ca_file != NULL || options->server_keys_file == NULL;
    if (!take_psk(credentials, options, &error) || !take_raw_keys(credentials, options, &error) ||
        !take_files(credentials->holder, options, &error) ||
        (!make_contexts(credentials) && !credentials_fail_openssl(&error, "tls"))) {
        upstream_destroy(credentials);
        return NULL;
    }
    return credentials;
}

struct upstream_credentials *upstream_credentials_late(struct upstream_credentials **slot)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static const struct upstream_credentials_options none;
    char why[256];

    (void)pthread_mutex_lock(&lock);
    if (*slot == NULL) {
        *slot = upstream_credentials_load(&none, why, sizeof why);
    }
    struct upstream_credentials *credentials = *slot;
    (void)pthread_mutex_unlock(&lock);
    return credentials;
}

/* ---- names ---- */

/* A CoAP URI as RFC 7252 section 9.1.3.3 wants it in a certificate: its authority counts. */
static bool uri_matches(const struct upstream_target *target, const ASN1_IA5STRING *uri)
{
    static const struct {
        const char *prefix;
        uint16_t port;
    } schemes[] = {{"coaps://", 5684}, {"coaps+tcp://", 5684}, {"coaps+ws://", 443}};
    const char *text = (const char *)ASN1_STRING_get0_data(uri);
    size_t len = (size_t)ASN1_STRING_length(uri);

    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        size_t prefix = strlen(schemes[i].prefix);
        if (len <= prefix || strncasecmp(text, schemes[i].prefix, prefix) != 0) {
            continue;
        }
        const char *host = text + prefix;
        const char *end = memchr(host, '/', len - prefix);
        size_t host_len = end != NULL ? (size_t)(end - host) : len - prefix;
        char expected[UPSTREAM_HOST_MAX + 16];
        int name_len = target->host != NULL ? (int)strlen(target->host) : 0;
        struct address found;
        if (target->host == NULL) {
            return address_parse(host, host_len, schemes[i].port, &found) &&
                   address_equal(&found, &target->address);
        }
        int with_port =
            snprintf(expected, sizeof expected, "%s:%u", target->host, target->address.port);
        bool is_same = strncasecmp(host, expected, host_len) == 0;
        return is_same &&
               (host_len == (size_t)with_port ||
                (host_len == (size_t)name_len && target->address.port == schemes[i].port));
    }
    return false;
}

static bool some_uri_matches(const struct upstream_target *target, const X509 *certificate)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    bool is_match = false;

    for (int i = 0; names != NULL && i < sk_GENERAL_NAME_num(names) && !is_match; i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        is_match = name->type == GEN_URI && uri_matches(target, name->d.uniformResourceIdentifier);
    }
    GENERAL_NAMES_free(names);
    return is_match;
}

/* Whether the name of a raw key is the host of @p target, without regard to case as hosts have it.
 */
static bool is_key_for(const char *name, const struct upstream_target *target)
{
    struct address address;

    if (strcmp(name, "*") == 0) {
        return true;
    }
    if (target->host != NULL) {
        return strcasecmp(name, target->host) == 0;
    }
    return address_parse(name, strlen(name), target->address.port, &address) &&
           address_equal(&address, &target->address);
}

/* ret_is_wrong_name: the key is in the file, for another host. */
static bool match_raw_key(const struct upstream_target *target, const EVP_PKEY *key,
                          bool *ret_is_wrong_name)
{
    uint8_t digest[RAW_KEY_DIGEST_LEN];
    const char *name = raw_key_digest(key, digest)
                           ? raw_keys_find(target->credentials->server_keys, digest, sizeof digest)
                           : NULL;

    *ret_is_wrong_name = name != NULL && !is_key_for(name, target);
    return name != NULL && !*ret_is_wrong_name;
}

bool credentials_match_name(const struct upstream_target *target, X509 *certificate)
{
    bool is_match = false;

    if (target->host != NULL) {
        /* No wildcards (SEC-10); the common name counts only without other names (SEC-11). */
        unsigned flags = X509_CHECK_FLAG_NO_WILDCARDS;
        if (X509_get_ext_by_NID(certificate, NID_subject_alt_name, -1) >= 0) {
            flags |= X509_CHECK_FLAG_NEVER_CHECK_SUBJECT;
        }
        size_t len = strlen(target->host);
        if (len > 1 && target->host[len - 1] == '.') {
            len--; /* a fully qualified name; certificates have them without the dot */
        }
        is_match = X509_check_host(certificate, target->host, len, flags, NULL) == 1;
    } else {
        is_match = X509_check_ip(certificate, target->address.ip, address_ip_len(&target->address),
                                 0) == 1;
    }
    return is_match || some_uri_matches(target, certificate);
}

int upstream_verify(int is_good, X509_STORE_CTX *store, const struct upstream_target *target,
                    bool *ret_is_wrong_name)
{
    const EVP_PKEY *raw_key = raw_key_in_question(store);
    X509 *certificate = X509_STORE_CTX_get_current_cert(store);

    if (raw_key != NULL && match_raw_key(target, raw_key, ret_is_wrong_name)) {
        X509_STORE_CTX_set_error(store, X509_V_OK);
        return 1;
    }
    if (is_good == 1 && X509_STORE_CTX_get_error_depth(store) == 0 &&
        !credentials_match_name(target, certificate)) {
        *ret_is_wrong_name = true;
        X509_STORE_CTX_set_error(store, X509_V_ERR_HOSTNAME_MISMATCH);
        return 0;
    }
    return is_good;
}

enum upstream_status upstream_certificate_status(long verdict)
{
    enum handshake why = tls_verdict(verdict);

    if (why == HANDSHAKE_certificate_expired || why == HANDSHAKE_certificate_not_yet_valid) {
        return UPSTREAM_CERTIFICATE_EXPIRED;
    }
    return why == HANDSHAKE_certificate_unknown_ca ? UPSTREAM_CERTIFICATE_UNKNOWN
                                                   : UPSTREAM_BAD_CERTIFICATE;
}
