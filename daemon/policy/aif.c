/* SPDX-License-Identifier: BSD-2-Clause */
#include "policy/aif.h"

#include "base/arena.h"
#include "coap/target.h"

#include <cri/aif.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* One resource: its path and query, packed one after the other. */
struct resource {
    const uint8_t *packed;
    uint32_t path_len, query_len;
    uint64_t methods;
};

struct aif_table {
    struct resource *resources; /* in the order of compare() */
    size_t count;
};

static int compare(const void *a, const void *b)
{
    const struct resource *left = a, *right = b;
    if (left->path_len != right->path_len) {
        return left->path_len < right->path_len ? -1 : 1;
    }
    if (left->query_len != right->query_len) {
        return left->query_len < right->query_len ? -1 : 1;
    }
    size_t len = (size_t)left->path_len + left->query_len;
    return len > 0 ? memcmp(left->packed, right->packed, len) : 0;
}

/* Length of the items when they are packed; SIZE_MAX if one does not fit an option. */
static size_t packed_len(const struct cri_list *list)
{
    struct cri_iter iter;
    struct cri_item item;
    size_t len = 0;
    cri_iter_init(&iter, list);
    while (cri_iter_next(&iter, &item)) {
        /* Percent-encoded bytes are in no CoAP path that the proxy makes (AIF-6). */
        if (item.is_pet || item.text.len > UINT8_MAX) {
            return SIZE_MAX;
        }
        len += 1 + item.text.len;
    }
    return len;
}

static uint8_t *pack(const struct cri_list *list, uint8_t *at)
{
    struct cri_iter iter;
    struct cri_item item;
    cri_iter_init(&iter, list);
    while (cri_iter_next(&iter, &item)) {
        *at++ = (uint8_t)item.text.len;
        if (item.text.len > 0) {
            memcpy(at, item.text.data, item.text.len);
        }
        at += item.text.len;
    }
    return at;
}

/* One more resource; an entry that no CoAP request can match adds none. */
static int aif_add(struct aif_table *table, const struct cri_aif_entry *entry,
                   struct config_arena *arena)
{
    size_t path_len = packed_len(&entry->path), query_len = packed_len(&entry->query);
    if (path_len == SIZE_MAX || query_len == SIZE_MAX) {
        return 0;
    }
    uint8_t *packed = arena_alloc(arena, path_len + query_len + 1);
    if (packed == NULL) {
        return -ENOMEM;
    }
    uint8_t *query = pack(&entry->path, packed);
    (void)pack(&entry->query, query);
    if (path_len == 1) {
        packed++; /* a lone empty segment is no path (AIF-7) */
        path_len = 0;
    }
    table->resources[table->count++] = (struct resource){
        .packed = packed,
        .path_len = (uint32_t)path_len,
        .query_len = (uint32_t)query_len,
        .methods = entry->methods,
    };
    return 0;
}

/* Sorts the entries, and joins those of the same resource (AIF-8). */
static void finish(struct aif_table *table)
{
    size_t kept = 0;
    if (table->count > 0) {
        qsort(table->resources, table->count, sizeof(table->resources[0]), compare);
    }
    for (size_t i = 0; i < table->count; i++) {
        if (kept > 0 && compare(&table->resources[kept - 1], &table->resources[i]) == 0) {
            table->resources[kept - 1].methods |= table->resources[i].methods;
        } else {
            table->resources[kept++] = table->resources[i];
        }
    }
    table->count = kept;
}

static size_t count_entries(struct cri_aif aif)
{
    struct cri_aif_entry entry;
    size_t count = 0;
    while (cri_aif_next(&aif, &entry)) {
        count++;
    }
    return count;
}

int aif_table_make(const uint8_t *document, size_t len, struct config_arena *arena,
                   const struct aif_table **ret_table, struct aif_fault *ret_fault)
{
    struct cri_aif aif;
    struct cri_aif_entry entry;
    struct cri_fault fault = {0, NULL};
    *ret_fault = (struct aif_fault){0, NULL};
    if (cri_aif_init(&aif, (struct cri_slice){document, len}, false, &fault) != CRI_OK) {
        *ret_fault = (struct aif_fault){fault.offset, fault.rule};
        return -EINVAL;
    }
    struct aif_table *table = arena_alloc(arena, sizeof(*table));
    size_t capacity = count_entries(aif);
    if (table != NULL) {
        table->resources = arena_alloc(arena, (capacity + 1) * sizeof(table->resources[0]));
    }
    if (table == NULL || table->resources == NULL) {
        return -ENOMEM;
    }
    while (cri_aif_next(&aif, &entry)) {
        if (entry.error != CRI_OK) {
            if (ret_fault->what == NULL) {
                *ret_fault = (struct aif_fault){entry.fault.offset, entry.fault.rule};
            }
        } else if (aif_add(table, &entry, arena) != 0) {
            return -ENOMEM;
        }
    }
    finish(table);
    *ret_table = table;
    return 0;
}

/* As compare(), against a path and query that are not one after the other. */
static int compare_target(const struct target *target, const struct resource *resource)
{
    if (target->path.len != resource->path_len) {
        return target->path.len < resource->path_len ? -1 : 1;
    }
    if (target->query.len != resource->query_len) {
        return target->query.len < resource->query_len ? -1 : 1;
    }
    int order = 0;
    if (resource->path_len > 0) {
        order = memcmp(target->path.packed, resource->packed, resource->path_len);
    }
    if (order == 0 && resource->query_len > 0) {
        order = memcmp(target->query.packed, resource->packed + resource->path_len,
                       resource->query_len);
    }
    return order;
}

bool aif_table_permits(const struct aif_table *table, const struct target *target, uint8_t code)
{
    size_t low = 0, high = table->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare_target(target, &table->resources[middle]);
        if (order == 0) {
            return cri_aif_permits(table->resources[middle].methods, code);
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return false;
}

size_t aif_table_count(const struct aif_table *table)
{
    return table->count;
}
