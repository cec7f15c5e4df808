/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A request whose body goes to the origin server in blocks (Block1), or whose answer is
 * fetched in blocks (Block2) because the client's side cannot do that: a client on a
 * reliable transport sent in one message what no datagram holds (RFC 7959, RFC 8323
 * section 6). The clients' fetch waits in state `transferring`; each step is a request
 * of our own.
 *
 *                  2.31, more to send              Block2, more to come
 *                     +------+                         +------+
 *                     v      |    last block           v      |
 *   transfer_send --> uploading ------------------> gathering ------> answered
 *                                \________________________________/^
 *                                   an answer in one message, or a failure
 */
#ifndef CRIPROXY_TRANSFER_H
#define CRIPROXY_TRANSFER_H

#include "base/account.h"
#include "base/hash.h"
#include "coap/message.h"
#include "fetch/fetch.h"

struct reply;
struct transfer;

/**
 * Send @p payload in blocks on behalf of @p fetch, whose own datagram has no payload
 * and no block options. May end the fetch at once.
 *
 * @param block1 the client's Block1 option where the body came in blocks; data NULL: it did not.
 */
void transfer_send(struct fetch_side *side, struct fetch *fetch, struct bytes payload,
                   struct bytes block1);

/** The block option @p number of @p reply. @return false where it has none. */
bool transfer_find_block(const struct reply *reply, uint16_t number, struct block *ret_block);

/**
 * @p reply wants the request in blocks, or is the first of several: move that body, for those that
 * wait for @p fetch. @p reply is borrowed. May end the fetch at once.
 */
void transfer_begin(struct fetch_side *side, struct fetch *fetch, const struct reply *reply);

/**
 * The fetch ends: its transfer is freed with its bodies, and the step that is out cancelled. Takes
 * a fetch that has none.
 */
void transfer_cancel(struct fetch_side *side, struct fetch *fetch);

/**
 * The Request-Tag that keeps the uploads of different clients apart (RFC 9175 section 3.4), made
 * of the client's @p serial and of its own tags in @p options. Cannot fail.
 */
uint64_t transfer_tag(const struct fetch_side *side, uint64_t serial, struct bytes options);

/*
 * Bodies that are moved in blocks: those that are being put together, and those that
 * clients fetch piece by piece. They have the only memory of the proxy that grows with
 * what is sent, so all of it comes out of one budget: block.bodies-bytes for each worker,
 * block.body-bytes for each body.
 */

struct fetch;

/* The share of one kept body, or one transfer, in the budget; charged to its client's source. */
struct body_share {
    struct holding holding;
    struct fetch *fetch; /* a transfer's, which ends to give its bytes back; NULL: kept */
    uint64_t bytes;
};

/* Bytes that grow up to a limit. */
struct body {
    uint8_t *data;
    size_t len, capacity;
    struct body_share *share; /* that it is part of; NULL: of none */
};

/* A body kept for its client, under a key that says whose and of what it is. */
struct kept_body {
    struct hash_node node;
    struct kept_body *newer, *older;
    uint64_t expires_ms;
    uint64_t owner;      /* its client: leg_serial() */
    bool is_upload;      /* the client is sending it; else it fetches it */
    struct body key;     /* compared whole; the hash is only the way here */
    struct body options; /* encoded: of the answer without Block2, or of the first block */
    struct body bytes;
    struct body_share share; /* of these three */
    uint8_t code;            /* of the answer */
    uint32_t max_age_s;      /* of the answer, when it came */
    uint64_t made_ms;        /* when that was; uploads: when the first block came */
    size_t last_offset;      /* uploads: where the block that came last began */
    uint64_t begin; /* of an answer: where in it the bytes begin, if they are a part of it */
    bool more;      /* and whether it goes on after them */
};

/* The client of a kept body, and how many such a client may have: past it its oldest goes. */
struct body_owner {
    uint64_t serial;
    uint32_t bodies_max;
    struct address remote; /* where the client is */
};

struct body_store {
    uint64_t bytes, bytes_max; /* capacity of all bodies; the budget */
    uint64_t body_max;
    uint64_t transfer_bytes; /* of those bytes, in transfers: they do not make room by themselves */
    struct account_book kept, transfers;
    struct hash_map map;
    struct kept_body *newest, *oldest;
    uint32_t count, count_max;
    uint64_t seed;
    uint64_t forgotten; /* kept bodies that are no more */
    uint64_t evicted;   /* kept bodies that made room before their time was over */
};

/**
 * @param transfers_max as many transfers as there may be: one for each fetch
 * @return 0 or -ENOMEM
 */
int body_store_init(struct body_store *store, uint64_t bytes_max, uint64_t body_max,
                    uint32_t count_max, uint32_t transfers_max, uint64_t seed);

/** Frees the kept bodies; other bodies are freed by their owners. Takes a zeroed store. */
void body_store_clear(struct body_store *store);

/**
 * Append @p piece. Kept bodies make room, the oldest of the source that has most first, but for
 * @p spared and for one that @p piece is part of.
 *
 * @return false where the body would be longer than its limit or the budget is used up;
 *         nothing has changed then.
 */
bool body_append(struct body_store *store, struct body *body, struct bytes piece,
                 const struct kept_body *spared);

/**
 * Whether transfers leave less of the budget than a newcomer may need, so that an allocation may
 * be refused; false where transfers hold at most seven eighths.
 */
bool body_store_is_short(const struct body_store *store);

/**
 * Keep a body under @p key, in place of one that is there.
 *
 * @return an empty one to fill, until body_forget() or @p expires_ms; NULL without memory.
 */
struct kept_body *body_keep(struct body_store *store, const struct body_owner *owner,
                            struct bytes key, bool is_upload, uint64_t expires_ms);

/** The body that is kept under @p key, or NULL; one that has expired is not found. Borrowed. */
struct kept_body *body_find(struct body_store *store, struct bytes key, bool is_upload,
                            uint64_t now_ms);

/** It is kept no more: freed. */
void body_forget(struct body_store *store, struct kept_body *kept);

#endif
