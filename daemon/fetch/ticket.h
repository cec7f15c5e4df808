/* SPDX-License-Identifier: BSD-2-Clause */
/* What a fetch has to do with the cache. */
#ifndef CRIPROXY_TICKET_H
#define CRIPROXY_TICKET_H

#include "cache/store.h"
#include "net/shared_store.h"

/* What the cache said to a request; for the log. */
enum cache_answer {
    CACHE_ANSWER_OFF,       /* not asked: switched off, or the request has no key */
    CACHE_ANSWER_HIT,       /* answered from the cache */
    CACHE_ANSWER_MISS,      /* nothing there */
    CACHE_ANSWER_STALE,     /* only what has to be validated, */
    CACHE_ANSWER_VALIDATED, /* and was: answered from the cache */
    CACHE_ANSWER_SHARED,    /* answered from what replicas share */
    CACHE_ANSWER_FOLLOWS,   /* an equal request was on its way already: of requests */
};

/* Whether replicas may share the answer (fetch/shared.h). */
enum cache_sharing {
    CACHE_SHARING_NONE,
    CACHE_SHARING_OPEN,   /* any client of any replica may have it */
    CACHE_SHARING_SEALED, /* of a secure target, or for some clients: encrypted on the server */
};

/* Representations of a key that the origin server is asked about, with their ETags. */
struct cache_candidates {
    struct cache_entry *entries[CACHE_REPRESENTATIONS_MAX];
    uint32_t count;
};

struct cache_ticket {
    bool has_key;
    bool has_foreign_etags; /* the client asks about representations that are not here */
    bool is_for_one;        /* the answer that has come is for one client */
    bool is_alone;          /* no equal request joins it */
    bool has_generation;    /* the target's was known before it was sent: */
    uint8_t generation[SHARED_GENERATION_LEN];
    uint8_t hop_limit; /* towards the next hop; 0: none */
    enum cache_answer answer;
    enum cache_sharing sharing;
    struct cache_key key;               /* its bytes are in the fetch's memory */
    struct bytes etags;                 /* of the client, as encoded options; there as well */
    struct cache_candidates candidates; /* pinned */
    struct address source;              /* of the blocks of its answer; else not set */
    uint64_t changes;                   /* of targets, counted when the request began */
    uint64_t change_number; /* its answer waits until replicas know of it; 0: it does not */

    struct hash_node by_key; /* of those that equal requests may join */
};

#endif
