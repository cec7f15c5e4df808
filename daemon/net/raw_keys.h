/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Raw public keys (RFC 7250; the mode RawPublicKey of RFC 7252 section 9.1.3.2): peers without
 * certificates, which are known by their SubjectPublicKeyInfo. OpenSSL has them from 3.2 on; with
 * an older one the keys of the configuration that ask for them are refused.
 *
 * A file has public keys in PEM, as `openssl pkey -pubout` writes them. The line before each is its
 * name, further blank lines and those that begin with # are comments:
 *
 *     meter-7
 *     -----BEGIN PUBLIC KEY-----
 *     MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE...
 *     -----END PUBLIC KEY-----
 *
 * A name may have several keys, as while a device gets a new one; a key has one name. Of a client
 * (tls.client-keys) the name is what rules call it. Of an origin server (upstream.server-keys) it
 * is the host that the key is for, a name or an address, or * for every target of the section: so
 * the key of one device is no use to pose as another.
 *
 *     handshake    OpenSSL has checked that the peer owns the key, and asks tls_on_verify() or
 *                  upstream_verify() whether to trust it: it does where the file has it
 *     identity     tls_identity(): IDENTITY_PUBLIC_KEY and the name
 *     reload       a session ends whose key is gone or has another name (credentials_hold.c)
 */
#ifndef CRIPROXY_RAW_KEYS_H
#define CRIPROXY_RAW_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first OpenSSL that has them: 3.2.0. */
#define RAW_KEYS_OPENSSL 0x30200000L

#define RAW_KEYS_LACK                                                                              \
    "raw public keys need OpenSSL 3.2 or later, and this was built with an older one"

/** Whether the OpenSSL that this was built with has raw public keys. */
bool raw_keys_are_there(void);

#define RAW_KEY_DIGEST_LEN 32u /* SHA-256 of the SubjectPublicKeyInfo */
#define RAW_KEY_NAME_MAX 127u

/* Keys of one file; each takes some 200 bytes. */
#define RAW_KEYS_MAX 100000u

struct raw_keys;

/**
 * Reads a file of public keys, whole or not at all.
 *
 * @param ret_error "FILE:LINE: ..."
 * @return NULL on error. Free with raw_keys_free().
 */
struct raw_keys *raw_keys_load(const char *file, char *ret_error, size_t error_capacity);

/** Takes NULL. */
void raw_keys_free(struct raw_keys *keys);

/**
 * The name of the key whose digest begins with @p len bytes of @p digest, or NULL. Borrowed from
 * @p keys, which may be NULL.
 */
const char *raw_keys_find(const struct raw_keys *keys, const uint8_t *digest, size_t len);

/* An identifier as RFC 7252 section 9.1.3.2.1 asks for: "ni:///sha-256;" (RFC 6920) and its NUL. */
#define RAW_KEY_URI_MAX 64u

/** Writes the identifier of the key with @p digest. Returns @p text. */
const char *raw_key_format(const uint8_t digest[RAW_KEY_DIGEST_LEN], char text[RAW_KEY_URI_MAX]);

struct evp_pkey_st;
struct ssl_st;
struct x509_store_ctx_st;

/** SHA-256 of the SubjectPublicKeyInfo of @p key, in DER. @return false without memory */
bool raw_key_digest(const struct evp_pkey_st *key, uint8_t ret_digest[RAW_KEY_DIGEST_LEN]);

/** The private key in a PEM file without a passphrase. NULL, with an error in OpenSSL's queue. */
struct evp_pkey_st *raw_key_read(const char *file);

/** The raw public key of the peer, once it has shown one; else NULL. Borrowed from @p ssl. */
struct evp_pkey_st *raw_key_of_peer(const struct ssl_st *ssl);

/**
 * In a verification: the raw public key that is asked about, if OpenSSL has no other objection.
 * NULL for a certificate. Borrowed from @p store.
 */
struct evp_pkey_st *raw_key_in_question(struct x509_store_ctx_st *store);

/** Whether @p verdict is that a raw public key is not known. */
bool raw_key_is_unknown(long verdict);

#endif
