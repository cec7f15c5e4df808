/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What makes two requests ask for the same (RFC 7252 section 5.6): the target in its
 * normal form, the method, the options that are part of the cache key and, for FETCH,
 * the payload (RFC 8132 section 2). As plain bytes, so that keys compare with memcmp()
 * and a hash is only ever the way to them. For the cache, for requests that follow
 * another one, and for observations.
 */
#ifndef CRIPROXY_KEY_H
#define CRIPROXY_KEY_H

#include "coap/message.h"
#include "coap/target.h"

#include <string.h>

/* Longest key; a FETCH with a longer body is neither cached nor shared. */
#define CACHE_KEY_MAX 4096u

/*
 * Bytes: the target, which all keys of one target have in common; the rest of the base;
 * the block that is asked for, if one is. Keys of one body's blocks share the base.
 */
struct cache_key {
    const uint8_t *bytes;
    uint32_t len;
    uint32_t target_len, base_len; /* of the leading parts: target_len < base_len <= len */
    uint64_t hash, target_hash;    /* of the whole, and of the target */
};

/* What a key is made from. */
struct cache_key_source {
    const struct target *target;
    uint8_t code;
    struct bytes options;                /* of the client's request, scanned */
    struct bytes payload;                /* part of the key of a FETCH only */
    const struct passed_options *passed; /* as in struct request_options; NULL: not known */
    bool drops_echo;                     /* Echo was for the proxy, and has been dealt with */
    /*
     * The identity that answers are for; empty: for all clients. A part of the key, so that an
     * answer over a secure transport stays with the client it was fetched for (CACHE-20).
     */
    uint8_t audience_kind; /* an enum identity_kind */
    struct bytes audience;
};

/**
 * Make the key of a request.
 *
 * Left out are the options that only name the target or concern one hop, those that are
 * NoCacheKey, and those that the proxy interprets itself: ETag, Hop-Limit, Request-Tag
 * (CACHE-2, CACHE-26, HOP-8). All others are in it, known or not.
 *
 * @param buffer  where its bytes go; @p ret_key borrows them.
 * @param seed    keeps strangers from choosing hashes.
 * @return false where an answer to this request must not be shared with another one: any
 *         method but GET and FETCH (CACHE-4), OSCORE and EDHOC (CACHE-23), an Echo value
 *         (CACHE-27), a body in parts (Block1), a group (Multicast-Timeout); and where the buffer
 * is too small.
 */
bool cache_key_make(const struct cache_key_source *source, uint8_t *buffer, size_t capacity,
                    uint64_t seed, struct cache_key *ret_key);

/**
 * Only the target's part, for any method: len and base_len are target_len, hash is target_hash.
 * Its bytes are in @p buffer, the caller's.
 *
 * @return false where it does not fit.
 */
bool cache_key_of_target(const struct target *target, uint8_t *buffer, size_t capacity,
                         uint64_t seed, struct cache_key *ret_key);

/** The key of a target whose @p bytes another process has made, borrowed, as the last one's. */
struct cache_key cache_key_of_bytes(const uint8_t *bytes, uint32_t len, uint64_t seed);

/**
 * The target of a key that cache_key_make() has made: borrows from it.
 *
 * @param ret_target without its form, and without the row of its scheme,
 * @param ret_scheme whose number this is.
 */
void cache_key_read_target(const struct cache_key *key, struct target *ret_target,
                           uint32_t *ret_scheme);

/** Whether it is for one block. Cannot fail. */
bool cache_key_has_block(const struct cache_key *key);

/** The key of the same request for no particular block; borrows from @p key. */
struct cache_key cache_key_base(const struct cache_key *key);

/**
 * The key of the same request for a block.
 *
 * @param block2 value of Block2, its M bit not set.
 * @param buffer where its bytes go; @p ret_key borrows them. Not those of @p key.
 * @return false where they do not fit.
 */
bool cache_key_of_block(const struct cache_key *key, uint32_t block2, uint8_t *buffer,
                        size_t capacity, struct cache_key *ret_key);

/** A copy of @p key over @p bytes, which has room for key->len. */
struct cache_key cache_key_copy(const struct cache_key *key, uint8_t *bytes);

/** Whether the bytes are equal; false where only the hashes are. */
static inline bool cache_key_equal(const struct cache_key *a, const struct cache_key *b)
{
    return a->hash == b->hash && a->len == b->len && memcmp(a->bytes, b->bytes, a->len) == 0;
}

/**
 * Whether the keys are equal but for the block that is asked for; false where only the hashes are.
 */
bool cache_key_same_base(const struct cache_key *a, const struct cache_key *b);

/** Whether both are for the same target, whatever else differs; false where only the hashes are. */
bool cache_key_same_target(const struct cache_key *a, const struct cache_key *b);

/**
 * Whether the ETag @p etag is among encoded @p options (RFC 7252 section 5.10.6); an invalid one,
 * of a wrong length, is not.
 */
bool etag_is_among(struct bytes options, struct bytes etag);

/**
 * Copy the ETags among encoded @p options, again as encoded options.
 *
 * @return their bytes; at most options.len, and 0 where they do not fit.
 */
size_t etags_copy(struct bytes options, uint8_t *buffer, size_t capacity);

#endif
