/* SPDX-License-Identifier: BSD-2-Clause */
#include "fetch/body.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CAPACITY_MIN 256u

int body_store_init(struct body_store *store, uint64_t bytes_max, uint64_t body_max,
                    uint32_t count_max, uint32_t transfers_max, uint64_t seed)
{
    uint64_t kept_max = bytes_max + bytes_max / count_max * count_max; /* see holding_amount() */
    *store = (struct body_store){
        .bytes_max = bytes_max,
        .body_max = body_max,
        .count_max = count_max,
        .seed = seed,
    };
    bool good =
        hash_map_init(&store->map, count_max, seed) == 0 &&
        account_book_init(&store->kept, count_max, kept_max, ACCOUNT_IPV6_BITS, seed) == 0 &&
        account_book_init(&store->transfers, transfers_max, bytes_max, ACCOUNT_IPV6_BITS, seed) ==
            0;
    return good ? 0 : -ENOMEM;
}

void body_store_clear(struct body_store *store)
{
    while (store->oldest != NULL) {
        body_forget(store, store->oldest);
    }
    hash_map_clear(&store->map);
    account_book_clear(&store->kept);
    account_book_clear(&store->transfers);
}

/* --- shares ------------------------------------------------------------- */

/* A kept body counts as its part of the number that there may be at least: that is used up, too. */
static uint64_t holding_amount(const struct body_store *store, const struct body_share *share)
{
    uint64_t least = share->fetch == NULL ? store->bytes_max / store->count_max : 0;
    return share->bytes > least ? share->bytes : least;
}

static struct account_book *book_of(struct body_store *store, const struct body_share *share)
{
    return share->fetch == NULL ? &store->kept : &store->transfers;
}

void body_share_open(struct body_store *store, struct body_share *share,
                     const struct address *remote, struct fetch *fetch)
{
    *share = (struct body_share){.fetch = fetch};
    account_charge(book_of(store, share), &share->holding, remote, holding_amount(store, share));
}

/* The share of @p body has so many bytes more, or less. */
static void share_grow(struct body_store *store, const struct body *body, uint64_t more,
                       uint64_t less)
{
    struct body_share *share = body->share;
    if (share == NULL) {
        return;
    }
    share->bytes += more - less;
    if (share->fetch != NULL) {
        store->transfer_bytes += more - less;
    }
    account_resize(book_of(store, share), &share->holding, holding_amount(store, share));
}

void body_leave_share(struct body_store *store, struct body *body)
{
    share_grow(store, body, 0, body->capacity);
    body->share = NULL;
}

void body_share_close(struct body_store *store, struct body_share *share)
{
    account_discharge(book_of(store, share), &share->holding);
}

/* An eighth is left for newcomers until it is known what makes room for them (client/handle.c). */
/* --- bytes -------------------------------------------------------------- */

/* Whether @p piece is part of @p kept: an upload that is handed on. */
static bool holds(const struct kept_body *kept, struct bytes piece)
{
    uintptr_t begin = (uintptr_t)kept->bytes.data, at = (uintptr_t)piece.data;
    return piece.len > 0 && kept->bytes.data != NULL && at >= begin &&
           at - begin < kept->bytes.capacity;
}

/* The next one to be forgotten: of the source that has most; where that is spared, any. */
static struct kept_body *next_to_go(const struct body_store *store, const struct kept_body *spared,
                                    struct bytes piece)
{
    struct holding *holding = account_largest(&store->kept);
    while (holding != NULL) {
        struct kept_body *kept = HASH_ENTRY(holding, struct kept_body, share.holding);
        if (kept != spared && !holds(kept, piece)) {
            return kept;
        }
        holding = account_next(holding); /* two are spared at most */
    }
    struct kept_body *kept = store->oldest;
    while (kept != NULL && (kept == spared || holds(kept, piece))) {
        kept = kept->newer;
    }
    return kept;
}

/* Have @p bytes of the budget left for @p piece, at the cost of what is kept. */
static bool make_room_for_body(struct body_store *store, uint64_t bytes,
                               const struct kept_body *spared, struct bytes piece)
{
    while (store->bytes_max - store->bytes < bytes) {
        struct kept_body *kept = next_to_go(store, spared, piece);
        if (kept == NULL) {
            return false;
        }
        store->evicted++;
        account_note_displaced(&kept->share.holding);
        body_forget(store, kept);
    }
    return true;
}

bool body_append(struct body_store *store, struct body *body, struct bytes piece,
                 const struct kept_body *spared)
{
    if (piece.len > store->body_max || body->len > store->body_max - piece.len) {
        return false;
    }
    size_t needed = body->len + piece.len;
    if (needed > body->capacity) {
        size_t capacity = body->capacity > 0 ? body->capacity : CAPACITY_MIN;
        while (capacity < needed) {
            capacity *= 2;
        }
        if (capacity > store->body_max) {
            capacity = (size_t)store->body_max;
        }
        if (!make_room_for_body(store, capacity - body->capacity, spared, piece)) {
            return false;
        }
        uint8_t *grown = realloc(body->data, capacity);
        if (grown == NULL) {
            return false;
        }
        store->bytes += capacity - body->capacity;
        share_grow(store, body, capacity, body->capacity);
        body->data = grown;
        body->capacity = capacity;
    }
    if (piece.len > 0) {
        memcpy(body->data + body->len, piece.data, piece.len);
    }
    body->len = needed;
    return true;
}

void body_free(struct body_store *store, struct body *body)
{
    store->bytes -= body->capacity;
    share_grow(store, body, 0, body->capacity);
    free(body->data);
    *body = (struct body){.share = body->share};
}

static uint64_t key_hash(const struct body_store *store, struct bytes key, bool is_upload)
{
    return hash_bytes(key.data, key.len, store->seed ^ (is_upload ? 1u : 0u));
}

static struct kept_body *find_kept_body(const struct body_store *store, struct bytes key,
                                        bool is_upload)
{
    struct hash_node *node = hash_map_find(&store->map, key_hash(store, key, is_upload));
    for (; node != NULL; node = hash_map_find_next(node)) {
        struct kept_body *kept = HASH_ENTRY(node, struct kept_body, node);
        if (kept->is_upload == is_upload &&
            bytes_equal((struct bytes){kept->key.data, kept->key.len}, key)) {
            return kept;
        }
    }
    return NULL;
}

struct kept_body *body_find(struct body_store *store, struct bytes key, bool is_upload,
                            uint64_t now_ms)
{
    struct kept_body *kept = find_kept_body(store, key, is_upload);
    if (kept != NULL && kept->expires_ms <= now_ms) {
        body_forget(store, kept);
        return NULL;
    }
    return kept;
}

/* One client's bodies are few: it is the others' memory, too. */
static void limit_owner(struct body_store *store, const struct body_owner *owner)
{
    struct kept_body *oldest = NULL;
    uint32_t count = 0;
    for (struct kept_body *kept = store->newest; kept != NULL; kept = kept->older) {
        if (kept->owner == owner->serial) {
            oldest = kept;
            count++;
        }
    }
    if (count > 0 && count >= owner->bodies_max) {
        store->evicted++;
        body_forget(store, oldest);
    }
}

struct kept_body *body_keep(struct body_store *store, const struct body_owner *owner,
                            struct bytes key, bool is_upload, uint64_t expires_ms)
{
    struct kept_body *older = find_kept_body(store, key, is_upload);
    if (older != NULL) {
        body_forget(store, older);
    }
    limit_owner(store, owner);
    if (store->count == store->count_max) {
        store->evicted++;
        body_forget(store, next_to_go(store, NULL, (struct bytes){0}));
    }
    struct kept_body *kept = calloc(1, sizeof(*kept));
    if (kept == NULL || !body_append(store, &kept->key, key, NULL)) {
        free(kept);
        return NULL;
    }
    body_share_open(store, &kept->share, &owner->remote, NULL);
    kept->key.share = kept->options.share = kept->bytes.share = &kept->share;
    share_grow(store, &kept->key, kept->key.capacity, 0);
    kept->owner = owner->serial;
    kept->is_upload = is_upload;
    kept->expires_ms = expires_ms;
    kept->older = store->newest;
    if (store->newest != NULL) {
        store->newest->newer = kept;
    } else {
        store->oldest = kept;
    }
    store->newest = kept;
    store->count++;
    hash_map_add(&store->map, &kept->node, key_hash(store, key, is_upload));
    return kept;
}

void body_forget(struct body_store *store, struct kept_body *kept)
{
    store->forgotten++;
    if (kept->newer != NULL) {
        kept->newer->older = kept->older;
    } else {
        store->newest = kept->older;
    }
    if (kept->older != NULL) {
        kept->older->newer = kept->newer;
    } else {
        store->oldest = kept->newer;
    }
    hash_map_remove(&kept->node);
    body_free(store, &kept->key);
    body_free(store, &kept->options);
    body_free(store, &kept->bytes);
    body_share_close(store, &kept->share);
    store->count--;
    free(kept);
}
