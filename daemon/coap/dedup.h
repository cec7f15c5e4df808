/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The deduplication store (RFC 7252 section 4.5): messages that have been dealt
 * with, and the answer to give when one is repeated.
 *
 * Two rings of records, one for safe requests and one for unsafe ones, so that
 * a flood of the first never pushes out the second: an unsafe request done twice
 * does harm, a safe one costs a round trip. The oldest record makes room for the
 * newest; a record pushed out before its lifetime is over is counted. All memory
 * is taken at init.
 */
#ifndef CRIPROXY_DEDUP_H
#define CRIPROXY_DEDUP_H

#include "coap/message.h"

enum dedup_class {
    DEDUP_SAFE,
    DEDUP_UNSAFE,
    DEDUP_CLASSES,
};

struct dedup_ring {
    uint8_t *data;
    uint32_t capacity;   /* bytes */
    uint32_t head, tail; /* where the next record goes; the oldest record */
    uint32_t used;       /* bytes between tail and head */
};

struct dedup {
    struct dedup_ring rings[DEDUP_CLASSES];
    uint64_t *index; /* open addressing: half a hash and a reference to a record */
    uint8_t *tags;   /* for each entry of it a byte of its hash; 0: it is empty */
    unsigned index_bits;
    uint32_t count, count_max; /* records; the index is never filled up */
    uint64_t seed;
    uint64_t evicted; /* records pushed out within their lifetime */
};

/**
 * @param bytes for everything: a quarter for unsafe requests, the rest for safe ones;
 *              at the least some 3 KiB are taken.
 * @return 0 or -ENOMEM
 */
int dedup_init(struct dedup *dedup, uint64_t bytes, uint64_t seed);

/** Frees the store's memory; takes a zeroed store. The struct is the caller's. */
void dedup_clear(struct dedup *dedup);

/**
 * Remember a message that has been dealt with.
 *
 * @param key    names the sender and the message id exactly; not in the store yet.
 * @param answer the datagram to send again, copied; empty: silence. One that is
 *               longer than a quarter of its ring is left out: then dedup_find()
 *               gives an empty answer.
 */
void dedup_add(struct dedup *dedup, enum dedup_class class, uint64_t key, struct bytes answer,
               uint64_t now_ms, uint32_t lifetime_ms);

/**
 * @param ret_answer what was given to dedup_add(); borrowed until the next dedup_add().
 * @return whether @p key was remembered and its lifetime is not over; the lifetime is
 *         kept in whole seconds, rounded up.
 */
bool dedup_find(const struct dedup *dedup, uint64_t key, uint64_t now_ms, struct bytes *ret_answer);

/* What a key of the deduplication store or of the maps of requests and fetches is for. */
enum key_kind {
    KEY_CLIENT_REQUEST,  /* a client's message id */
    KEY_CLIENT_RESPONSE, /* ours, towards a client */
    KEY_ORIGIN_RESPONSE, /* an origin server's message id */
    KEY_MEMBER_RESPONSE, /* the same of a group's member */
};

/** Kind, peer (slot and its generation, or the source port), message id: exact; cannot fail. */
uint64_t key_make(enum key_kind kind, uint32_t slot, uint32_t extra, uint16_t mid);

#endif
