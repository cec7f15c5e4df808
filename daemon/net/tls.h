/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What DTLS (dtls*.c) and TLS (conn*.c) servers have in common, for those files
 * only: it names OpenSSL's types.
 *
 * An SSL made from a context of struct credentials has a struct tls_peer as its
 * app data (SSL_set_app_data()) while it shakes hands, and whoever made it keeps
 * a count of the credentials until the handshake is done: the callbacks of the
 * context use them, and a reload may release them at any time.
 */
#ifndef CRIPROXY_TLS_H
#define CRIPROXY_TLS_H

#include "base/identity.h"
#include "net/handshake.h"

#include <openssl/ssl.h>
#include <stdbool.h>

struct credentials;

/* What callbacks have noted about a handshake. */
struct tls_peer {
    bool psk_asked;   /* a key was looked up */
    bool psk_unknown; /* its identity is in no file */
    const char *alpn; /* set before the handshake: chosen where it is offered; NULL: none is */
    /* Whose certificate was not accepted, unproven; NULL: none was. tls_claimed() gives it away. */
    struct identity *refused;
};

/**
 * For SSL_CTX_set_verify(): remembers the first reason why a certificate is refused. Returns @p
 * is_good unchanged.
 */
int tls_on_verify(int is_good, X509_STORE_CTX *store);

/**
 * Who the peer of a handshake that has failed said it was, held once: nothing of it has been
 * proved. To be released; NULL where it had not said so, or without memory.
 */
struct identity *tls_claimed(const SSL *ssl, struct tls_peer *peer);

/** Borrowed. */
SSL_CTX *credentials_dtls(const struct credentials *credentials);
SSL_CTX *credentials_tls(const struct credentials *credentials);

/**
 * Whether the peer of @p ssl, accepted with the credentials @p before, would be accepted with @p
 * now: its pre-shared key has not changed, or the issuers of its certificate are trusted still.
 * True if that cannot be found out, as for a resumed session without a chain.
 */
bool credentials_still_hold(const struct credentials *before, const struct credentials *now,
                            const SSL *ssl);

/**
 * OpenSSL's callback, in dtls_cookie.c, for every DTLS context: writes a cookie and its length in
 * bytes. 1, or 0 on failure.
 */
int dtls_on_cookie_generate(SSL *ssl, unsigned char *cookie, unsigned *ret_len);

/**
 * OpenSSL's callback, in dtls_cookie.c, for every DTLS context. 1 for a valid cookie, 0 for an
 * invalid or expired one.
 */
int dtls_on_cookie_verify(SSL *ssl, const unsigned char *cookie, unsigned len);

/** Who the peer of a finished handshake is, held once; NULL without memory. */
struct identity *tls_identity(const SSL *ssl);

/**
 * Why a handshake has failed, from what @p ssl and the error queue say; the queue
 * is emptied.
 *
 * @param peer may be NULL.
 * @param ret_detail OpenSSL's own words, static, or "".
 */
enum handshake tls_failure(const SSL *ssl, const struct tls_peer *peer, const char **ret_detail);

#endif
