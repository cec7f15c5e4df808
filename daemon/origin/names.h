/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Host names and their addresses, for a short time: so that a busy name is asked
 * for once, and requests for the same name wait for the same answer.
 */
#ifndef CRIPROXY_NAMES_H
#define CRIPROXY_NAMES_H

#include "coap/hash.h"
#include "exchange/list.h"
#include "front/target.h"
#include "net/resolve.h"

struct engine;
struct exchange;

struct name {
    struct hash_node node;
    struct engine *engine;
    bool is_asking; /* a question is with the resolver, which holds a pointer here */
    uint8_t text_len;
    uint8_t text[TARGET_NAME_MAX];
    enum resolve_status status;
    uint8_t address_count;
    struct address addresses[4];
    uint64_t expires_ms;
    struct exchange_list waiting; /* for its addresses */
};

struct name_table {
    struct name *slots;
    uint32_t capacity, used;
    struct hash_map map;
    uint64_t random;
};

/** @return 0 or -ENOMEM */
int name_table_init(struct name_table *table, uint32_t capacity, uint64_t seed);

/** Takes a zeroed table. */
void name_table_clear(struct name_table *table);

/**
 * Whether the resolver may be asked for @p name: letters, digits and hyphens, as long as the
 * DNS has them (C2O-18). It has come through policy/hostname.h, so it is no number (TGT-12).
 */
bool name_is_askable(const uint8_t *name, size_t len);

/**
 * Find the addresses of the exchange's next hop, at once or later: then
 * forward_with_addresses() is called, or the exchange ends for a reason. The
 * exchange is in state resolving while it waits.
 */
void names_resolve(struct engine *engine, struct exchange *exchange);

/** It no longer waits for its name. Takes an exchange that does not. */
void names_forget(struct engine *engine, struct exchange *exchange);

#endif
