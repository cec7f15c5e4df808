/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/tls.h"

#include "net/raw_keys.h"
#include "net/session_facts.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <string.h>

/* ---- identity ---- */

/* Names that are text; addresses and directory names are no name for a log. */
static const ASN1_STRING *text_of(const GENERAL_NAME *name)
{
    int type = 0;
    const ASN1_STRING *string = GENERAL_NAME_get0_value(name, &type);

    return type == GEN_DNS || type == GEN_URI || type == GEN_EMAIL ? string : NULL;
}

static size_t length_of(const ASN1_STRING *string)
{
    int len = string == NULL ? 0 : ASN1_STRING_length(string);

    return len > 0 ? (size_t)len : 0;
}

static size_t tls_bytes_of(const GENERAL_NAMES *names)
{
    size_t sum = 0;

    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const ASN1_STRING *text = text_of(sk_GENERAL_NAME_value(names, i));
        size_t len = length_of(text);
        sum += len > 0 ? identity_name_bytes(ASN1_STRING_get0_data(text), len) : 0;
    }
    return sum;
}

static void add_names(struct identity *identity, const GENERAL_NAMES *names)
{
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const ASN1_STRING *string = text_of(sk_GENERAL_NAME_value(names, i));
        if (length_of(string) > 0) {
            identity_add_name(identity, ASN1_STRING_get0_data(string), length_of(string));
        }
    }
}

/* With one name; @p len 0: with none. NULL without memory. */
static struct identity *of_name(enum identity_kind kind, const void *name, size_t len,
                                const char *server_name)
{
    struct identity *identity =
        identity_new(kind, len > 0 ? identity_name_bytes(name, len) : 0, server_name);

    if (identity != NULL && len > 0) {
        identity_add_name(identity, name, len);
    }
    return identity;
}

/* The CN, which counts only where there is no SAN (RFC 6125 section 6.4.4). */
static struct identity *of_subject(const X509 *certificate, const char *server_name)
{
    const X509_NAME *subject = X509_get_subject_name(certificate);
    int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    const ASN1_STRING *name =
        at < 0 ? NULL : X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
    size_t len = length_of(name);

    return of_name(IDENTITY_CERTIFICATE, len > 0 ? ASN1_STRING_get0_data(name) : NULL, len,
                   server_name);
}

static struct identity *of_certificate(const X509 *certificate, const char *server_name)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    size_t names_bytes = tls_bytes_of(names);
    struct identity *identity = names_bytes > 0
                                    ? identity_new(IDENTITY_CERTIFICATE, names_bytes, server_name)
                                    : of_subject(certificate, server_name);

    if (identity != NULL && names_bytes > 0) {
        add_names(identity, names);
    }
    GENERAL_NAMES_free(names);
    return identity;
}

/* By the file that the handshake was begun with; NULL where it has no such key. */
static const char *name_of_raw_key(const SSL *ssl, const EVP_PKEY *key)
{
    const struct credentials *credentials = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    uint8_t digest[RAW_KEY_DIGEST_LEN];

    return key != NULL && raw_key_digest(key, digest)
               ? raw_keys_find(credentials_client_keys(credentials), digest, sizeof digest)
               : NULL;
}

struct identity *tls_identity(const SSL *ssl)
{
    const char *raw_key = name_of_raw_key(ssl, raw_key_of_peer(ssl));
    char identity[PSK_IDENTITY_MAX + 1];
    const char *psk = facts_psk_identity(ssl, identity);
    const char *server_name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    const X509 *certificate = SSL_get0_peer_certificate(ssl);

    return raw_key != NULL ? of_name(IDENTITY_PUBLIC_KEY, raw_key, strlen(raw_key), server_name)
           : certificate != NULL ? of_certificate(certificate, server_name)
           : psk != NULL         ? of_name(IDENTITY_PSK, psk, strlen(psk), server_name)
                                 : identity_new(IDENTITY_NONE, 0, server_name);
}

/* One that is not in the file is shown to the operator as RFC 7252 section 9.1.3.2.1 names it. */
static int verify_raw_key(const SSL *ssl, const EVP_PKEY *key, X509_STORE_CTX *store)
{
    struct tls_peer *peer = SSL_get_app_data(ssl);
    uint8_t digest[RAW_KEY_DIGEST_LEN];
    char text[RAW_KEY_URI_MAX];

    if (name_of_raw_key(ssl, key) != NULL) {
        X509_STORE_CTX_set_error(store, X509_V_OK);
        return 1;
    }
    if (peer != NULL && peer->refused == NULL && raw_key_digest(key, digest)) {
        const char *name = raw_key_format(digest, text);
        peer->refused = of_name(IDENTITY_PUBLIC_KEY, name, strlen(name), NULL);
    }
    return 0;
}

int tls_on_verify(int is_good, X509_STORE_CTX *store)
{
    const SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    struct tls_peer *peer = ssl != NULL ? SSL_get_app_data(ssl) : NULL;
    const X509 *certificate = X509_STORE_CTX_get0_cert(store);
    const EVP_PKEY *raw_key = raw_key_in_question(store);

    if (ssl != NULL && raw_key != NULL) {
        return verify_raw_key(ssl, raw_key, store);
    }
    if (is_good == 0 && peer != NULL && peer->refused == NULL && certificate != NULL) {
        peer->refused = of_certificate(certificate, NULL);
    }
    return is_good;
}

struct identity *tls_claimed(const SSL *ssl, struct tls_peer *peer)
{
    struct identity *refused = peer->refused;

    peer->refused = NULL;
    return refused != NULL ? refused : tls_identity(ssl);
}

/* ---- why not ---- */

enum handshake tls_verdict(long result)
{
    if (raw_key_is_unknown(result)) {
        return HANDSHAKE_public_key_unknown;
    }
    switch (result) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
        return HANDSHAKE_certificate_expired;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        return HANDSHAKE_certificate_not_yet_valid;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
        return HANDSHAKE_certificate_unknown_ca;
    case X509_V_ERR_INVALID_PURPOSE:
        return HANDSHAKE_certificate_wrong_purpose;
    default:
        return HANDSHAKE_certificate_invalid;
    }
}

static enum handshake protocol_failure(int reason)
{
    switch (reason) {
    case SSL_R_NO_SHARED_CIPHER:
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
        return HANDSHAKE_no_common_suite;
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_WRONG_SSL_VERSION:
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_VERSION_TOO_LOW:
        return HANDSHAKE_no_common_version;
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
        return HANDSHAKE_certificate_missing;
    case SSL_R_UNEXPECTED_EOF_WHILE_READING:
        return HANDSHAKE_closed_in_handshake;
    case SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC:
    case SSL_R_DIGEST_CHECK_FAILED:
    case SSL_R_BINDER_DOES_NOT_VERIFY: /* in place of a Finished, in TLS 1.3 */
        return HANDSHAKE_finished_not_verified;
    default:
        break;
    }
    /* OpenSSL's numbers for alerts of the peer; close_notify is not among them. */
    return reason > SSL_AD_REASON_OFFSET ? HANDSHAKE_peer_alert : HANDSHAKE_protocol_error;
}

/*
 * The first error is the cause and the others follow from it; but what libssl says
 * comes before the words of the cipher below it. Empties the queue.
 */
static unsigned long first_error(void)
{
    unsigned long first = ERR_get_error(), code = first;

    while (code != 0 && ERR_GET_LIB(code) != ERR_LIB_SSL) {
        code = ERR_get_error();
    }
    ERR_clear_error();
    return code != 0 ? code : first;
}

enum handshake tls_failure(const SSL *ssl, const struct tls_peer *peer, const char **ret_detail)
{
    unsigned long code = first_error();
    const char *detail = code == 0 ? NULL : ERR_reason_error_string(code);
    long verified = SSL_get_verify_result(ssl);
    int reason = ERR_GET_LIB(code) == ERR_LIB_SSL ? ERR_GET_REASON(code) : 0;
    enum handshake why = code == 0 ? HANDSHAKE_finished_not_verified : protocol_failure(reason);

    *ret_detail = detail == NULL ? "" : detail;
    if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED && verified != X509_V_OK) {
        *ret_detail = X509_verify_cert_error_string(verified);
        return tls_verdict(verified);
    }
    if (peer != NULL && peer->psk_asked && why == HANDSHAKE_finished_not_verified) {
        return peer->psk_unknown ? HANDSHAKE_psk_unknown_identity : HANDSHAKE_psk_wrong_key;
    }
    return why;
}
