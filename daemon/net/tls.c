/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/tls.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <string.h>

/* ---- who ---- */

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7f && c != '\\' && c != '"';
}

void tls_escape(const unsigned char *data, size_t len, char *ret_text, size_t capacity)
{
    static const char digits[] = "0123456789abcdef";
    size_t used = 0;

    for (size_t i = 0; i < len; i++) {
        size_t need = is_plain(data[i]) ? 1 : 4;
        if (need >= capacity - used) {
            break;
        }
        if (need == 1) {
            ret_text[used] = (char)data[i];
        } else {
            ret_text[used] = '\\';
            ret_text[used + 1] = 'x';
            ret_text[used + 2] = digits[data[i] >> 4];
            ret_text[used + 3] = digits[data[i] & 0x0f];
        }
        used += need;
    }
    ret_text[used] = '\0';
}

static void take_string(const ASN1_STRING *string, struct identity *identity)
{
    int len = ASN1_STRING_length(string);

    if (len > 0) {
        tls_escape(ASN1_STRING_get0_data(string), (size_t)len, identity->name,
                   sizeof identity->name);
    }
}

/* Names that are text; addresses and directory names are no name for a log. */
static const ASN1_STRING *text_of(const GENERAL_NAME *name)
{
    int type = 0;
    const ASN1_STRING *string = GENERAL_NAME_get0_value(name, &type);

    return type == GEN_DNS || type == GEN_URI || type == GEN_EMAIL ? string : NULL;
}

static void take_certificate(const X509 *certificate, struct identity *identity)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    const X509_NAME *subject = X509_get_subject_name(certificate);

    identity->kind = IDENTITY_CERTIFICATE;
    for (int i = 0; i < sk_GENERAL_NAME_num(names) && identity->name[0] == '\0'; i++) {
        const ASN1_STRING *string = text_of(sk_GENERAL_NAME_value(names, i));
        if (string != NULL) {
            take_string(string, identity);
        }
    }
    GENERAL_NAMES_free(names);
    int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    if (identity->name[0] == '\0' && at >= 0) {
        take_string(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)), identity);
    }
}

static void take_server_name(const SSL *ssl, struct identity *identity)
{
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);

    if (name == NULL) {
        return;
    }
    tls_escape((const unsigned char *)name, strlen(name), identity->server_name,
               sizeof identity->server_name);
    for (char *at = identity->server_name; *at != '\0'; at++) {
        if (*at >= 'A' && *at <= 'Z') {
            *at = (char)(*at + ('a' - 'A'));
        }
    }
}

void tls_identity(const SSL *ssl, struct identity *ret_identity)
{
    const char *psk = SSL_get_psk_identity(ssl);
    const X509 *certificate = SSL_get0_peer_certificate(ssl);

    memset(ret_identity, 0, sizeof *ret_identity);
    take_server_name(ssl, ret_identity);
    if (certificate != NULL) {
        take_certificate(certificate, ret_identity);
    } else if (psk != NULL) {
        ret_identity->kind = IDENTITY_PSK;
        tls_escape((const unsigned char *)psk, strlen(psk), ret_identity->name,
                   sizeof ret_identity->name);
    }
}

/* ---- why not ---- */

static const char *certificate_failure(long result)
{
    switch (result) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
        return "certificate_expired";
    case X509_V_ERR_CERT_NOT_YET_VALID:
        return "certificate_not_yet_valid";
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
        return "certificate_unknown_ca";
    case X509_V_ERR_INVALID_PURPOSE:
        return "certificate_wrong_purpose";
    default:
        return "certificate_invalid";
    }
}

static const char *protocol_failure(int reason)
{
    switch (reason) {
    case SSL_R_NO_SHARED_CIPHER:
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
        return "no_common_suite";
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_WRONG_SSL_VERSION:
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_VERSION_TOO_LOW:
        return "no_common_version";
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
        return "certificate_missing";
    case SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC:
    case SSL_R_DIGEST_CHECK_FAILED:
        return "finished_not_verified";
    default:
        break;
    }
    /* OpenSSL numbers alerts of the peer so; close_notify is none. */
    return reason > SSL_AD_REASON_OFFSET ? "peer_alert" : "protocol_error";
}

const char *tls_failure(const SSL *ssl, const struct tls_peer *peer, const char **ret_detail)
{
    unsigned long code = ERR_peek_error(); /* the first is the cause, the others follow from it */
    const char *detail = code == 0 ? NULL : ERR_reason_error_string(code);
    long verified = SSL_get_verify_result(ssl);
    int reason = ERR_GET_LIB(code) == ERR_LIB_SSL ? ERR_GET_REASON(code) : 0;
    const char *why = code == 0 ? "finished_not_verified" : protocol_failure(reason);

    ERR_clear_error();
    *ret_detail = detail == NULL ? "" : detail;
    if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED && verified != X509_V_OK) {
        *ret_detail = X509_verify_cert_error_string(verified);
        return certificate_failure(verified);
    }
    if (peer != NULL && peer->psk_asked && strcmp(why, "finished_not_verified") == 0) {
        return peer->psk_unknown ? "psk_unknown_identity" : "psk_wrong_key";
    }
    return why;
}
