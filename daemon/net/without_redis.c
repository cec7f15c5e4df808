/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * In place of shared_store.c, shared_seal.c and redis_link.c, where CRI_WITH_REDIS is off. The
 * configuration cannot have cache.shared then, so none of this is called but shared_store_free().
 */
#include "net/shared_seal.h"

#include <errno.h>

int shared_store_new(struct loop *loop, struct resolver *resolver,
                     const struct shared_store_options *options,
                     const struct shared_store_handler *handler, void *context,
                     struct shared_store **ret_store)
{
    (void)loop;
    (void)resolver;
    (void)options;
    (void)handler;
    (void)context;
    (void)ret_store;
    return -ENOTSUP;
}

void shared_store_free(struct shared_store *store)
{
    (void)store;
}

void shared_store_flush(struct shared_store *store)
{
    (void)store;
}

bool shared_store_is_ready(const struct shared_store *store)
{
    (void)store;
    return false;
}

bool shared_store_hears(const struct shared_store *store)
{
    (void)store;
    return false;
}

bool shared_store_look(struct shared_store *store, const uint8_t entry[SHARED_NAME_LEN],
                       const uint8_t target[SHARED_TARGET_LEN], uint64_t number)
{
    (void)store;
    (void)entry;
    (void)target;
    (void)number;
    return false;
}

bool shared_store_put(struct shared_store *store, const uint8_t entry[SHARED_NAME_LEN],
                      struct bytes value, uint64_t ttl_ms)
{
    (void)store;
    (void)entry;
    (void)value;
    (void)ttl_ms;
    return false;
}

void shared_store_change(struct shared_store *store, const uint8_t target[SHARED_TARGET_LEN],
                         struct bytes told, uint32_t tag, uint64_t number)
{
    (void)store;
    (void)target;
    (void)told;
    (void)tag;
    (void)number;
}

const uint8_t *shared_store_id(const struct shared_store *store)
{
    (void)store;
    return NULL;
}

void shared_store_confirm(struct shared_store *store, const uint8_t id[SHARED_ID_LEN],
                          uint64_t number)
{
    (void)store;
    (void)id;
    (void)number;
}

bool shared_keys_derive(struct bytes secret, struct shared_keys *keys)
{
    (void)secret;
    *keys = (struct shared_keys){.has_secret = false};
    return false;
}

void shared_keys_clear(struct shared_keys *keys)
{
    (void)keys;
}

bool shared_name(const struct shared_keys *keys, struct bytes key,
                 uint8_t ret_name[SHARED_NAME_LEN])
{
    (void)keys;
    (void)key;
    (void)ret_name;
    return false;
}

bool shared_target_name(const struct shared_keys *keys, struct bytes key,
                        uint8_t ret_name[SHARED_TARGET_LEN])
{
    (void)keys;
    (void)key;
    (void)ret_name;
    return false;
}

size_t shared_head_len(const struct shared_keys *keys, enum shared_kind kind)
{
    (void)keys;
    (void)kind;
    return 0;
}

bool shared_seal(const struct shared_keys *keys, enum shared_kind kind, struct bytes key,
                 uint8_t *at, size_t len)
{
    (void)keys;
    (void)kind;
    (void)key;
    (void)at;
    (void)len;
    return false;
}

bool shared_unseal(const struct shared_keys *keys, enum shared_kind kind, struct bytes key,
                   struct bytes sealed, struct shared_room room, struct bytes *ret_body)
{
    (void)keys;
    (void)kind;
    (void)key;
    (void)sealed;
    (void)room;
    (void)ret_body;
    return false;
}
