/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requests in flight: a fixed array, found by client and token and by client,
 * endpoint and message id.
 *
 * A request's datagram is not kept: everything in it follows from the fields here,
 * so a retransmission is encoded again, to the same bytes.
 */
#ifndef COAPBENCH_PENDING_H
#define COAPBENCH_PENDING_H

#include "form.h"
#include "index.h"
#include "wire.h"

#include <stdbool.h>
#include <stdint.h>

enum pending_state {
    PENDING_IDLE,  /* not in use, or waiting for its turn to send */
    PENDING_SENT,  /* neither acknowledged nor answered */
    PENDING_ACKED, /* CON, empty ACK received */
};

struct pending {
    enum pending_state state;
    enum form form;
    bool confirmable;
    uint8_t method;
    uint8_t target;
    uint8_t retransmits;
    uint16_t mid;
    uint32_t client, endpoint;
    uint32_t next_free;
    uint64_t path; /* number of the resource */
    uint64_t id;   /* of the request, unique in the run */
    uint64_t token_seed, token_key;
    uint64_t timeout_ns;
    uint64_t started_ns;
};

struct pending_table {
    struct pending *requests; /* [capacity] */
    uint32_t capacity;
    unsigned token_len;
    struct index tokens, mids;
};

/** @return 0 or -ENOMEM. */
int pending_init(struct pending_table *table, uint32_t capacity, unsigned token_len);
void pending_clear(struct pending_table *table);

/** The token of @p seed; @p token has room for table->token_len. */
void pending_token(const struct pending_table *table, uint64_t seed, uint8_t *token);

/** Tokens are looked up by their first eight bytes. */
uint64_t pending_token_key(struct view token);

/** Is @p seed's token free for @p client? */
bool pending_token_is_free(const struct pending_table *table, uint32_t client, uint64_t seed);

/** Adds @p number, whose fields are set, to the index, and removes it. */
void pending_add(struct pending_table *table, uint32_t number);
void pending_remove(struct pending_table *table, uint32_t number);

/**
 * The request of @p client with @p token; INDEX_NONE if there is none.
 * @param ret_other set to whether another client has a request with that token.
 */
uint32_t pending_find_token(const struct pending_table *table, uint32_t client, struct view token,
                            bool *ret_other);

uint32_t pending_find_mid(const struct pending_table *table, uint32_t client, uint32_t endpoint,
                          uint16_t mid);

/** One key for a message ID and its scope; a bijection for the values in use. */
static inline uint64_t pending_mid_key(uint32_t client, uint32_t endpoint, uint16_t mid)
{
    return (uint64_t)client << 42 ^ (uint64_t)endpoint << 16 ^ mid;
}

#endif
