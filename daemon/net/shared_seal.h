/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is given to the server that replicas share, and to its channel (net/shared_store.h): names
 * of entries and targets, which are digests, and a head before what is kept or told. With
 * cluster.secret-file names are keyed, and the head proves that the secret was known: without it
 * nothing can be looked up, made or changed.
 *
 * An entry has a MAC and is not encrypted; a private one (cache.shared-private) and what is told of
 * changes are encrypted by AES-256-GCM. Each of these has a key of its own, made from the secret
 * and a salt of 32 random bytes, so that no key is used twice, however many replicas and workers
 * there are, and the nonce can be zero. The kind and the cache key of the entry, whole, are
 * authenticated with it: what is moved to another name, or another kind, does not open, nor does
 * what has the same name by chance. So names need no collision resistance where there is a secret.
 */
#ifndef CRIPROXY_SHARED_SEAL_H
#define CRIPROXY_SHARED_SEAL_H

#include "net/digest.h"
#include "net/shared_store.h"

/* What is made with a key of its own. */
enum shared_kind {
    SHARED_ENTRY,
    SHARED_PRIVATE_ENTRY, /* sealed; none without a secret */
    SHARED_CHANGE,        /* sealed, where there is a secret */
    SHARED_SIGN,          /* a beat, or that a change is known */
};
#define SHARED_KEYS 4u

#define SHARED_SALT_LEN 32u
#define SHARED_TAG_LEN 16u

/* Bytes of the keys for names. */
#define SHARED_NAMES_KEY_LEN 16u

struct evp_mac_ctx_st;
struct evp_md_ctx_st;
struct evp_cipher_ctx_st;

struct shared_keys {
    bool has_secret;
    struct evp_mac_ctx_st *macs[SHARED_KEYS]; /* contexts that keep their keys; NULL: none */
    struct evp_cipher_ctx_st *cipher;         /* has no key that is used twice */
    struct evp_md_ctx_st *digest;             /* SHA-256, for names without a secret */
    struct evp_mac_ctx_st *names;             /* SipHash, with one of these: */
    uint8_t target_key[SHARED_NAMES_KEY_LEN], entry_key[SHARED_NAMES_KEY_LEN];
};

/* A version, and the MAC, or salt and tag. */
#define SHARED_HEAD_MAX (1u + SHARED_SALT_LEN + SHARED_TAG_LEN)

/**
 * Derive the keys anew; those that @p keys has are freed, so that it has to be zero at first.
 *
 * @param secret empty: none; borrowed for the call
 * @return false where OpenSSL has no memory: then nothing is made or opened
 */
bool shared_keys_derive(struct bytes secret, struct shared_keys *keys);

/** Frees the keys, and forgets them; takes some that are zero. */
void shared_keys_clear(struct shared_keys *keys);

/**
 * Name of an entry: SipHash of 128 bits and zeros, as the entry's MAC has the whole key in it, or
 * SHA-256 where there is no secret.
 *
 * @param key bytes of a cache key
 * @return false where OpenSSL has no memory
 */
bool shared_name(const struct shared_keys *keys, struct bytes key,
                 uint8_t ret_name[SHARED_NAME_LEN]);

/**
 * Name of a target, by SipHash, which costs a fifth: if two targets have one name, which nobody can
 * choose who does not know the secret, a change of one makes answers of the other useless, never
 * wrong.
 *
 * @param key the part of a cache key that is the target
 * @return false where OpenSSL has no memory
 */
bool shared_target_name(const struct shared_keys *keys, struct bytes key,
                        uint8_t ret_name[SHARED_TARGET_LEN]);

/** Bytes of the head of that kind. */
size_t shared_head_len(const struct shared_keys *keys, enum shared_kind kind);

/**
 * Write the head of what stands at @p at from shared_head_len() on, which is encrypted in place
 * where its kind says so.
 *
 * @param key of the cache, whole, for an entry: it opens with no other one; empty: none
 * @param len  with the head
 * @return false where OpenSSL has no memory, or a private entry has no secret: what stands there
 *         is of no use then
 */
bool shared_seal(const struct shared_keys *keys, enum shared_kind kind, struct bytes key,
                 uint8_t *at, size_t len);

/* Where what was encrypted is decrypted to: the caller's. */
struct shared_room {
    uint8_t *at;
    size_t bytes;
};

/**
 * @param ret_body what is behind the head; borrows from @p sealed or @p room
 * @return false: it was made with another secret, with or without one, as another kind, is cut, or
 *         has no room
 */
bool shared_unseal(const struct shared_keys *keys, enum shared_kind kind, struct bytes key,
                   struct bytes sealed, struct shared_room room, struct bytes *ret_body);

#endif
