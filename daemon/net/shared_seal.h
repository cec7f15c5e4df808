/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is given to the server that replicas share, and to its channel (net/shared_store.h): names
 * of entries and targets, which are digests, and a head before what is kept or told. With
 * cluster.secret-file names are keyed, and the head has a MAC: without the secret nothing can be
 * looked up, made or changed. Contents are not encrypted.
 */
#ifndef CRIPROXY_SHARED_SEAL_H
#define CRIPROXY_SHARED_SEAL_H

#include "net/digest.h"
#include "net/shared_store.h"

/* What is made with a key of its own. */
enum shared_kind {
    SHARED_ENTRY,
    SHARED_CHANGE,
    SHARED_NAME,
};
#define SHARED_KEYS 3u

struct evp_mac_ctx_st;

struct shared_keys {
    bool has_secret;
    struct evp_mac_ctx_st *macs[SHARED_KEYS]; /* contexts that keep their keys; NULL: none */
};

/* A version and the MAC. */
#define SHARED_HEAD_MAX (1u + DIGEST_LEN)

/**
 * Derive the keys anew; those that @p keys has are freed, so that it has to be zero at first.
 *
 * @param secret empty: none; borrowed for the call
 * @return false where OpenSSL has no memory: then nothing is made or opened
 */
bool shared_keys_derive(struct bytes secret, struct shared_keys *keys);

/** Frees the keys, and forgets them; takes some that are zero. */
void shared_keys_clear(struct shared_keys *keys);

/** @param key bytes of a cache key. @return false where OpenSSL has no memory */
bool shared_name(const struct shared_keys *keys, struct bytes key,
                 uint8_t ret_name[SHARED_NAME_LEN]);

/** Bytes of the head. */
size_t shared_head_len(const struct shared_keys *keys);

/**
 * Write the head of what stands at @p at from shared_head_len() on.
 *
 * @param kind SHARED_ENTRY or SHARED_CHANGE
 * @param name of an entry: one that is moved to another name does not open; NULL: none
 * @param len  with the head
 * @return false where OpenSSL has no memory
 */
bool shared_seal(const struct shared_keys *keys, enum shared_kind kind, const uint8_t *name,
                 uint8_t *at, size_t len);

/**
 * @param ret_body what is behind the head; borrows from @p sealed
 * @return false: it was made with another secret, with or without one, or is cut
 */
bool shared_unseal(const struct shared_keys *keys, enum shared_kind kind, const uint8_t *name,
                   struct bytes sealed, struct bytes *ret_body);

#endif
