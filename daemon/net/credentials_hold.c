/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether the peer of a session would still be accepted after a reload. A session with a key that
 * was removed, or a certificate whose issuers are not trusted any more, has to end.
 */
#include "net/credentials_internal.h"
#include "net/raw_keys.h"
#include "net/session_facts.h"
#include "net/tls.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <string.h>

/* Against the trust anchors of @p context, as in a handshake. */
static bool is_trusted(SSL_CTX *context, const SSL *ssl, X509 *certificate)
{
    X509_STORE_CTX *check = X509_STORE_CTX_new();
    bool is_good = check != NULL &&
                   X509_STORE_CTX_init(check, SSL_CTX_get_cert_store(context), certificate,
                                       SSL_get_peer_cert_chain(ssl)) == 1 &&
                   X509_STORE_CTX_set_default(check, "ssl_client") == 1 &&
                   X509_verify_cert(check) == 1;

    X509_STORE_CTX_free(check);
    ERR_clear_error();
    return is_good;
}

/* A resumed session need not have the chain. */
static bool has_chain(const SSL *ssl)
{
    return SSL_get_peer_cert_chain(ssl) != NULL || SSL_session_reused(ssl) == 0;
}

/* Whether the file of clients' keys has it as before, under the same name. */
static bool has_raw_key_still(const struct credentials *before, const struct credentials *now,
                              const EVP_PKEY *key)
{
    uint8_t digest[RAW_KEY_DIGEST_LEN];

    if (!raw_key_digest(key, digest)) {
        return false;
    }
    const char *name = raw_keys_find(before->client_keys, digest, sizeof digest);
    const char *name_now = raw_keys_find(now->client_keys, digest, sizeof digest);
    return name != NULL && name_now != NULL && strcmp(name, name_now) == 0;
}

static bool digest_anchor(const X509 *certificate, uint8_t ret_anchor[CREDENTIALS_ANCHOR_LEN])
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;

    if (X509_digest(certificate, EVP_sha256(), digest, &len) != 1 || len < CREDENTIALS_ANCHOR_LEN) {
        return false;
    }
    memcpy(ret_anchor, digest, CREDENTIALS_ANCHOR_LEN);
    return true;
}

/* Whether @p context trusts it; no thread changes the store while it is read. */
static bool has_anchor(const SSL_CTX *context, const uint8_t anchor[CREDENTIALS_ANCHOR_LEN])
{
    const STACK_OF(X509_OBJECT) *trusted = X509_STORE_get0_objects(SSL_CTX_get_cert_store(context));

    for (int i = 0; i < sk_X509_OBJECT_num(trusted); i++) {
        const X509 *certificate = X509_OBJECT_get0_X509(sk_X509_OBJECT_value(trusted, i));
        uint8_t other[CREDENTIALS_ANCHOR_LEN];
        if (certificate != NULL && digest_anchor(certificate, other) &&
            memcmp(other, anchor, sizeof other) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- where the certificate of a peer leads to ---- */

/* @return false where no chain was verified: without a certificate, and in a resumed session */
static bool anchor_of_chain(const SSL *ssl, uint8_t ret_anchor[CREDENTIALS_ANCHOR_LEN])
{
    const STACK_OF(X509) *chain = SSL_get0_verified_chain(ssl);
    int count = chain == NULL ? 0 : sk_X509_num(chain);

    return count > 0 && digest_anchor(sk_X509_value(chain, count - 1), ret_anchor);
}

/* OpenSSL keeps the certificate in a ticket, and not where it was verified to lead. */
int credentials_on_ticket(SSL *ssl, void *context)
{
    uint8_t anchor[CREDENTIALS_ANCHOR_LEN];
    (void)context;

    if (anchor_of_chain(ssl, anchor)) { /* else it has one from its last ticket, or needs none */
        (void)facts_note_anchor(SSL_get_session(ssl), anchor);
    }
    ERR_clear_error();
    return 1;
}

SSL_TICKET_RETURN credentials_on_ticket_back(SSL *ssl, SSL_SESSION *session,
                                             const unsigned char *name, size_t name_len,
                                             SSL_TICKET_STATUS status, void *context)
{
    const struct credentials *credentials = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    struct tls_peer *peer = SSL_get_app_data(ssl);
    char identity[PSK_IDENTITY_MAX + 1];
    const uint8_t *key = NULL;
    size_t key_len = 0;
    (void)name;
    (void)name_len;
    (void)context;

    if ((status != SSL_TICKET_SUCCESS && status != SSL_TICKET_SUCCESS_RENEW) ||
        (facts_psk(session, identity) &&
         !psk_table_look(credentials->psks, identity, &key, &key_len))) {
        return SSL_TICKET_RETURN_IGNORE_RENEW;
    }
    if (peer != NULL) {
        peer->ticket_taken = true;
    }
    return status == SSL_TICKET_SUCCESS ? SSL_TICKET_RETURN_USE : SSL_TICKET_RETURN_USE_RENEW;
}

void credentials_note_anchor(const SSL *ssl, uint8_t ret_anchor[CREDENTIALS_ANCHOR_LEN])
{
    const EVP_PKEY *raw_key = raw_key_of_peer(ssl);
    uint8_t digest[RAW_KEY_DIGEST_LEN];

    memset(ret_anchor, 0, CREDENTIALS_ANCHOR_LEN);
    if (raw_key != NULL && raw_key_digest(raw_key, digest)) {
        memcpy(ret_anchor, digest, CREDENTIALS_ANCHOR_LEN);
    } else if (!anchor_of_chain(ssl, ret_anchor)) {
        (void)facts_anchor(SSL_get_session(ssl), ret_anchor);
    }
    ERR_clear_error();
}

/* ---- after a reload ---- */

bool credentials_still_hold(const struct credentials *before, const struct credentials *now,
                            const SSL *ssl)
{
    X509 *certificate = SSL_get0_peer_certificate(ssl);
    char psk[PSK_IDENTITY_MAX + 1];
    const char *identity = facts_psk_identity(ssl, psk);
    const EVP_PKEY *raw_key = raw_key_of_peer(ssl);
    uint8_t anchor[CREDENTIALS_ANCHOR_LEN];

    if (before == now) {
        return true;
    }
    if (raw_key != NULL) {
        return has_raw_key_still(before, now, raw_key);
    }
    if (certificate != NULL) {
        if (memcmp(before->client_ca_digest, now->client_ca_digest,
                   sizeof before->client_ca_digest) == 0) {
            return true; /* do not verify thousands of sessions again without need */
        }
        if (has_chain(ssl)) {
            return is_trusted(now->tls, ssl, certificate);
        }
        credentials_note_anchor(ssl, anchor);
        return has_anchor(now->tls, anchor);
    }
    return identity == NULL || psk_tables_agree(before->psks, now->psks, identity);
}

bool credentials_hold_for(const struct credentials *before, const struct credentials *now,
                          const struct identity *identity,
                          const uint8_t anchor[CREDENTIALS_ANCHOR_LEN])
{
    char psk[PSK_IDENTITY_MAX + 1];

    if (before == now || !identity_is_known(identity)) {
        return true;
    }
    if (identity->kind == IDENTITY_PUBLIC_KEY) {
        return credentials_hold_raw_key(now, identity, anchor, CREDENTIALS_ANCHOR_LEN);
    }
    if (identity->kind == IDENTITY_CERTIFICATE) {
        return memcmp(before->client_ca_digest, now->client_ca_digest,
                      sizeof before->client_ca_digest) == 0 ||
               has_anchor(now->tls, anchor);
    }
    return identity_unescape(identity->names, psk, sizeof psk) &&
           psk_tables_agree(before->psks, now->psks, psk);
}

/* ---- from one process to the next ---- */

/* What EVP_Q_mac() and the like look up anew for each call takes 20,000 instructions. */
void credentials_marker_open(struct credentials_marker *ret_marker,
                             const struct credentials *credentials,
                             const uint8_t salt[CREDENTIALS_ANCHOR_LEN])
{
    *ret_marker = (struct credentials_marker){.credentials = credentials};
    memcpy(ret_marker->salt, salt, sizeof ret_marker->salt);
    ret_marker->digest = EVP_MD_fetch(NULL, "SHA256", NULL);
    ret_marker->context = ret_marker->digest == NULL ? NULL : EVP_MD_CTX_new();
    ERR_clear_error();
}

void credentials_marker_close(struct credentials_marker *marker)
{
    EVP_MD_CTX_free(marker->context);
    EVP_MD_free(marker->digest);
    *marker = (struct credentials_marker){.credentials = NULL};
}

static bool mark_psk(const struct credentials_marker *marker, const struct identity *identity,
                     uint8_t ret_mark[CREDENTIALS_MARK_LEN])
{
    char name[PSK_IDENTITY_MAX + 1];
    const uint8_t *key = NULL;
    size_t key_len = 0;
    unsigned mark_len = 0;

    return marker->context != NULL && identity_unescape(identity->names, name, sizeof name) &&
           psk_table_look(marker->credentials->psks, name, &key, &key_len) &&
           EVP_DigestInit_ex2(marker->context, marker->digest, NULL) == 1 &&
           EVP_DigestUpdate(marker->context, marker->salt, sizeof marker->salt) == 1 &&
           EVP_DigestUpdate(marker->context, key, key_len) == 1 &&
           EVP_DigestFinal_ex(marker->context, ret_mark, &mark_len) == 1 &&
           mark_len == CREDENTIALS_MARK_LEN;
}

void credentials_mark(const struct credentials_marker *marker, const struct identity *identity,
                      uint8_t ret_mark[CREDENTIALS_MARK_LEN])
{
    memset(ret_mark, 0, CREDENTIALS_MARK_LEN);
    if (!identity_is_known(identity) || identity->kind == IDENTITY_PUBLIC_KEY) {
        return; /* of a raw key the anchor says it all */
    }
    if (identity->kind == IDENTITY_CERTIFICATE) {
        memcpy(ret_mark, marker->credentials->client_ca_digest, CREDENTIALS_MARK_LEN);
    } else if (!mark_psk(marker, identity, ret_mark)) {
        memset(ret_mark, 0, CREDENTIALS_MARK_LEN); /* which no key has */
    }
}

bool credentials_hold_mark(const struct credentials_marker *marker, const struct identity *identity,
                           const uint8_t anchor[CREDENTIALS_ANCHOR_LEN],
                           const uint8_t mark[CREDENTIALS_MARK_LEN])
{
    const struct credentials *now = marker->credentials;
    uint8_t ours[CREDENTIALS_MARK_LEN];

    if (!identity_is_known(identity)) {
        return true;
    }
    if (identity->kind == IDENTITY_PUBLIC_KEY) {
        return credentials_hold_raw_key(now, identity, anchor, CREDENTIALS_ANCHOR_LEN);
    }
    if (identity->kind == IDENTITY_CERTIFICATE) {
        return memcmp(mark, now->client_ca_digest, CREDENTIALS_MARK_LEN) == 0 ||
               has_anchor(now->tls, anchor);
    }
    return mark_psk(marker, identity, ours) && CRYPTO_memcmp(ours, mark, CREDENTIALS_MARK_LEN) == 0;
}
