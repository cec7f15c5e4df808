/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The common part of DTLS (dtls*.c) and TLS (conn*.c) servers, for those files only: it names
 * OpenSSL's types.
 *
 * An SSL made from a context of struct credentials has a struct tls_peer as its app data
 * (SSL_set_app_data()) while it shakes hands, and its maker holds a reference to the credentials
 * until the handshake is done: the callbacks of the context use them, and a reload may release them
 * at any time.
 */
#ifndef CRIPROXY_TLS_H
#define CRIPROXY_TLS_H

#include "base/identity.h"
#include "net/handshake.h"

#include <openssl/ssl.h>
#include <stdbool.h>

struct cid_extension;
struct credentials;
struct raw_keys;

/* Facts about a handshake, from its callbacks. */
struct tls_peer {
    bool psk_asked;    /* a key was looked up */
    bool psk_unknown;  /* its identity is in no file */
    bool ticket_taken; /* the session is one that was before: OpenSSL says so of each
                        * pre-shared key in TLS 1.3, too */
    const char *alpn;  /* set before the handshake: chosen where it is offered; NULL: none is */
    /* The identity in a certificate that was refused, not proved; NULL: none. tls_claimed() hands
     * it over. */
    struct identity *refused;
};

/**
 * For SSL_CTX_set_verify(): remembers the identity in a certificate that is refused, and decides
 * about a raw public key. Returns whether to go on: for a certificate @p is_good unchanged.
 */
int tls_on_verify(int is_good, X509_STORE_CTX *store);

/**
 * The identity that the peer of a failed handshake has claimed, not proved. The caller releases it;
 * NULL if the peer had claimed none, or without memory.
 */
struct identity *tls_claimed(const SSL *ssl, struct tls_peer *peer);

/** Borrowed; the last one is NULL where there is no file of clients' keys. */
SSL_CTX *credentials_dtls(const struct credentials *credentials);
SSL_CTX *credentials_tls(const struct credentials *credentials);
const struct raw_keys *credentials_client_keys(const struct credentials *credentials);

/** What the cookies of all replicas are made from; borrowed. Empty: replicas have none in common.
 */
struct bytes credentials_cookie_secret(const struct credentials *credentials);

/**
 * Whether the peer of @p ssl, accepted with the credentials @p before, would be accepted with @p
 * now: its pre-shared key or the name of its raw public key has not changed, or the issuers of its
 * certificate are trusted still.
 * Of a resumed session, which has no chain, its ticket says where the chain led.
 */
bool credentials_still_hold(const struct credentials *before, const struct credentials *now,
                            const SSL *ssl);

/* What a session on our own records keeps of its peer's certificate. */
#define CREDENTIALS_ANCHOR_LEN 16u

/**
 * Which trust anchor the verified certificate of the peer of @p ssl leads to: the start of its
 * digest; zeros without a certificate. Of a resumed session its ticket says so. Of a raw public key
 * the start of its own digest.
 */
void credentials_note_anchor(const SSL *ssl, uint8_t ret_anchor[CREDENTIALS_ANCHOR_LEN]);

/**
 * As credentials_still_hold(), when the SSL has gone: its pre-shared key has not changed, or @p
 * anchor is trusted still.
 *
 * @param identity borrowed; may be NULL
 */
bool credentials_hold_for(const struct credentials *before, const struct credentials *now,
                          const struct identity *identity,
                          const uint8_t anchor[CREDENTIALS_ANCHOR_LEN]);

#define CREDENTIALS_MARK_LEN 32u

/* Makes the marks of one hand-over, which may have a hundred thousand. */
struct credentials_marker {
    const struct credentials *credentials; /* borrowed */
    struct evp_md_st *digest;
    struct evp_md_ctx_st *context; /* NULL without memory: no pre-shared key has a mark then */
    uint8_t salt[CREDENTIALS_ANCHOR_LEN];
};

/** Cannot fail; to be closed in any case. @p ret_marker is the caller's, @p credentials borrowed.
 */
void credentials_marker_open(struct credentials_marker *ret_marker,
                             const struct credentials *credentials,
                             const uint8_t salt[CREDENTIALS_ANCHOR_LEN]);
void credentials_marker_close(struct credentials_marker *marker);

/**
 * What credentials_hold_mark() compares in the next process: of a pre-shared key the SHA-256 of the
 * salt and the key, of a certificate the digest of the file of client CAs; else zeros.
 *
 * @param identity borrowed; may be NULL
 */
void credentials_mark(const struct credentials_marker *marker, const struct identity *identity,
                      uint8_t ret_mark[CREDENTIALS_MARK_LEN]);

/** As credentials_hold_for(), where what was before is known by its @p mark alone. */
bool credentials_hold_mark(const struct credentials_marker *marker, const struct identity *identity,
                           const uint8_t anchor[CREDENTIALS_ANCHOR_LEN],
                           const uint8_t mark[CREDENTIALS_MARK_LEN]);

/**
 * OpenSSL's callback, in dtls.c, for every DTLS context: writes a cookie and its length in
 * bytes. 1, or 0 on failure.
 */
int dtls_on_cookie_generate(SSL *ssl, unsigned char *cookie, unsigned *ret_len);

/**
 * OpenSSL's callback, in dtls.c, for every DTLS context. 1 for a valid cookie, 0 for an
 * invalid or expired one.
 */
int dtls_on_cookie_verify(SSL *ssl, const unsigned char *cookie, unsigned len);

/* In dtls.c: what every DTLS context does with connection_id (RFC 9146). */
extern const struct cid_extension dtls_cid_extension;

/** The identity of the peer of a finished handshake. The caller releases it; NULL without memory.
 */
struct identity *tls_identity(const SSL *ssl);

/** What is wrong with a certificate or raw public key: @p result is X509_V_ERR_..., not X509_V_OK.
 */
enum handshake tls_verdict(long result);

/**
 * Why a handshake has failed, from @p ssl and the error queue, which is emptied.
 *
 * @param peer may be NULL.
 * @param ret_detail OpenSSL's own text, static, or "".
 */
enum handshake tls_failure(const SSL *ssl, const struct tls_peer *peer, const char **ret_detail);

#endif
