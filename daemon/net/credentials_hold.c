/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether the peer of a session would still be accepted after a reload. A session with a key that
 * was removed, or a certificate whose issuers are not trusted any more, has to end.
 */
#include "net/credentials_internal.h"
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

/* A resumed session need not have the chain: without it nothing can be known. */
static bool can_check(const SSL *ssl)
{
    return SSL_get_peer_cert_chain(ssl) != NULL || SSL_session_reused(ssl) == 0;
}

bool credentials_still_hold(const struct credentials *before, const struct credentials *now,
                            const SSL *ssl)
{
    X509 *certificate = SSL_get0_peer_certificate(ssl);
    const char *identity = SSL_get_psk_identity(ssl);

    if (before == now) {
        return true;
    }
    if (certificate != NULL) {
        if (memcmp(before->client_ca_digest, now->client_ca_digest,
                   sizeof before->client_ca_digest) == 0) {
            return true; /* do not verify thousands of sessions again without need */
        }
        return !can_check(ssl) || is_trusted(now->tls, ssl, certificate);
    }
    return identity == NULL || psk_tables_agree(before->psks, now->psks, identity);
}
