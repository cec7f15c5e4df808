/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bodies that are moved in blocks: those that are being put together, and those that
 * clients fetch piece by piece. They have the only memory of the proxy that grows with
 * what is sent, so all of it comes out of one budget: block.bodies-bytes for each worker,
 * block.body-bytes for each body.
 */
#ifndef CRIPROXY_BODY_H
#define CRIPROXY_BODY_H

#include "base/account.h"
#include "base/hash.h"
#include "coap/message.h"

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
    uint64_t owner;         /* its client: leg_serial() */
    bool is_upload;         /* the client is sending it; else it fetches it */
    bool goes_on;           /* uploads over HTTP: it has been sent, and further blocks follow it */
    bool has_if_none_match; /* uploads: the first block, where alone it may be (RFC 7959 2.10) */
    struct body key;        /* compared whole; the hash is only the way here */
    struct body options;    /* encoded: of the answer without Block2, or of the first block */
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

/**
 * Charge the bodies of a transfer to the source of @p remote: those that have @p share as theirs
 * from now on. Close it before it is freed.
 *
 * @param fetch ends if its bytes are needed for others.
 */
void body_share_open(struct body_store *store, struct body_share *share,
                     const struct address *remote, struct fetch *fetch);

/** @p body is no longer part of its share, which may be closed before it is freed. */
void body_leave_share(struct body_store *store, struct body *body);

/**
 * Discharge it from its source; the struct is the caller's, and its bodies are part of no share
 * then. Takes one that is not open, too.
 */
void body_share_close(struct body_store *store, struct body_share *share);

/**
 * Free its memory and give it back to the budget; the body is empty then, and its struct the
 * caller's.
 */
void body_free(struct body_store *store, struct body *body);

#endif
