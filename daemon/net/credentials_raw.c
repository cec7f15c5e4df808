/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Raw public keys of a listener (RFC 7250). In a handshake the two sides are apart: which kind each
 * shows follows from what the client offers, and both is decided before certificates are chosen.
 *
 *  - A client that takes raw keys of servers gets ours, if there is one; any other the certificate.
 *  - A client that can show a raw key is asked for it, if there is a file of clients' keys. Any
 * other is asked for a certificate as before: if there are client CAs, or one of both is required.
 */
#include "net/credentials_internal.h"
#include "net/raw_keys.h"

#include <errno.h>
#include <openssl/err.h>
#include <string.h>

/* OpenSSL's error is of the first thing that went wrong. */
static bool fail_of_raw_key(const struct error_text *error, const char *file)
{
    unsigned long code = ERR_peek_error();
    const char *what = ERR_SYSTEM_ERROR(code) ? strerror(ERR_GET_REASON(code))
                                              : "not a private key in PEM without a passphrase";

    ERR_clear_error();
    return credentials_fail(error, file, what);
}

bool credentials_load_raw_keys(struct credentials *credentials,
                               const struct credentials_options *options,
                               const struct error_text *error)
{
    bool is_asked_for = options->raw_key_file != NULL || options->client_keys_file != NULL;

    if (is_asked_for && !raw_keys_are_there()) {
        return credentials_fail(error, "tls", RAW_KEYS_LACK);
    }
    if (options->raw_key_file != NULL) {
        ERR_clear_error();
        credentials->raw_key = raw_key_read(options->raw_key_file);
        if (credentials->raw_key == NULL) {
            return fail_of_raw_key(error, options->raw_key_file);
        }
        credentials_check_secrecy(options->raw_key_file);
    }
    if (options->client_keys_file != NULL) {
        credentials->client_keys =
            raw_keys_load(options->client_keys_file, error->text, error->capacity);
    }
    return options->client_keys_file == NULL || credentials->client_keys != NULL;
}

void credentials_free_raw_keys(struct credentials *credentials)
{
    raw_keys_free(credentials->client_keys);
    EVP_PKEY_free(credentials->raw_key);
}

bool credentials_hold_raw_key(const struct credentials *credentials,
                              const struct identity *identity, const uint8_t *anchor,
                              size_t anchor_len)
{
    const char *name = raw_keys_find(credentials->client_keys, anchor, anchor_len);
    char proved[RAW_KEY_NAME_MAX + 1];

    return name != NULL && identity_unescape(identity->names, proved, sizeof proved) &&
           strcmp(name, proved) == 0;
}

#if OPENSSL_VERSION_NUMBER >= RAW_KEYS_OPENSSL
/* OpenSSL's SSL_CTX_set_cert_cb(): both certificate types have been agreed upon. */
static int on_certificate(SSL *ssl, void *context)
{
    const struct credentials *credentials = context;
    bool asks_for_raw = credentials->client_keys != NULL &&
                        SSL_get_negotiated_client_cert_type(ssl) == TLSEXT_cert_type_rpk;

    if (!asks_for_raw && !credentials->has_client_ca && !credentials->requires_client) {
        SSL_set_verify(ssl, SSL_VERIFY_NONE, NULL); /* a certificate would be refused */
    }
    if (SSL_get_negotiated_server_cert_type(ssl) == TLSEXT_cert_type_rpk &&
        credentials->raw_key != NULL) {
        SSL_certs_clear(ssl);
        return SSL_use_PrivateKey(ssl, credentials->raw_key);
    }
    if (!credentials->has_certificate) {
        SSL_certs_clear(ssl); /* pre-shared keys are left */
    }
    return 1;
}

bool credentials_use_raw_keys(const struct credentials *credentials, SSL_CTX *context)
{
    /* In the order of our choice: what is smaller, and is known by itself, first. */
    static const unsigned char both[] = {TLSEXT_cert_type_rpk, TLSEXT_cert_type_x509};

    if (credentials->raw_key == NULL && credentials->client_keys == NULL) {
        return true;
    }
    SSL_CTX_set_cert_cb(context, on_certificate, (void *)(uintptr_t)credentials);
    return (credentials->raw_key == NULL ||
            SSL_CTX_set1_server_cert_type(context, both, sizeof both) == 1) &&
           (credentials->client_keys == NULL ||
            SSL_CTX_set1_client_cert_type(context, both, sizeof both) == 1);
}
#else
bool credentials_use_raw_keys(const struct credentials *credentials, SSL_CTX *context)
{
    (void)credentials;
    (void)context;
    return true;
}
#endif
