/* SPDX-License-Identifier: BSD-2-Clause */
#include "fetch/published.h"

#include "coap/option.h"
#include "fetch/self.h"

#include <assert.h>
#include <string.h>

/* --- paths -------------------------------------------------------------- */

/* Packed segments have their lengths in them: equal bytes are equal segments. */
static bool segments_begin(const struct segments *path, const struct segments *prefix)
{
    return prefix->len <= path->len &&
           (prefix->len == 0 || memcmp(path->packed, prefix->packed, prefix->len) == 0);
}

const struct config_publish *published_find(const struct config *config,
                                            const struct segments *path)
{
    const struct config_publish *best = NULL;
    for (size_t i = 0; i < config->publish_count; i++) {
        const struct config_publish *publish = &config->publishes[i];
        if (segments_begin(path, &publish->prefix) &&
            (best == NULL || publish->prefix.len > best->prefix.len)) {
            best = publish;
        }
    }
    bool is_of_proxy =
        self_is_core(path) || (config->device_range_count > 0 && self_is_directory(path));
    return best == NULL || is_of_proxy ? NULL : best;
}

/* @p items behind those of @p list, which end at @p *at; there is room. */
static void append_items(struct segments *list, const uint8_t *packed, struct segments items,
                         uint8_t **at)
{
    if (items.len > 0) {
        assert(packed != NULL);
        memcpy(*at, packed, items.len);
    }
    *at += items.len;
    list->len += items.len;
    list->count += items.count;
}

/* What @p path has behind @p prefix. */
static struct segments rest_of(const struct segments *path, const struct segments *prefix)
{
    return (struct segments){
        .packed = prefix->len < path->len ? path->packed + prefix->len : NULL,
        .len = path->len - prefix->len,
        .count = path->count - prefix->count,
    };
}

enum reason published_take(const struct config_publish *published, uint8_t method,
                           struct target_memory memory, struct target *target)
{
    if (method == CODE_EMPTY || (published->method_set & 1u << (method - 1)) == 0) {
        return REASON_local_method;
    }
    const struct target *leads = published->leads;
    const struct segments rest = rest_of(&target->path, &published->prefix);
    const struct segments query = target->query;
    size_t used = target->path.len + target->query.len;
    size_t needed = leads->path.len + rest.len + leads->query.len + query.len;
    if (used > memory.capacity || needed > memory.capacity - used) {
        return REASON_request_too_large;
    }
    uint8_t *at = memory.bytes + used;
    *target = *leads;
    target->path = (struct segments){.packed = at};
    append_items(&target->path, leads->path.packed, leads->path, &at);
    append_items(&target->path, rest.packed, rest, &at);
    target->query = (struct segments){.packed = at};
    append_items(&target->query, leads->query.packed, leads->query, &at);
    append_items(&target->query, query.packed, query, &at);
    return REASON_none;
}

/* --- Location ----------------------------------------------------------- */

static bool is_same_server(const struct target *a, const struct target *b)
{
    return a->scheme->number == b->scheme->number && a->port == b->port &&
           a->is_name == b->is_name &&
           (a->is_name ? a->name_len == b->name_len && memcmp(a->name, b->name, a->name_len) == 0
                       : memcmp(a->address.ip, b->address.ip, sizeof(a->address.ip)) == 0);
}

/* Location-Path packed in @p room; false where it does not fit. */
static bool pack_location(struct bytes options, uint8_t room[TARGET_NAME_MAX * 4],
                          struct segments *ret_path)
{
    struct option_iter iter;
    struct option option;
    struct segments path = {.packed = room};
    option_iter_init(&iter, options);
    while (option_iter_next(&iter, &option)) {
        if (option.number != OPTION_location_path) {
            continue;
        }
        if (option.value.len + 1 > (size_t)TARGET_NAME_MAX * 4 - path.len ||
            option.value.len > UINT8_MAX) {
            return false;
        }
        room[path.len] = (uint8_t)option.value.len;
        if (option.value.len > 0) {
            memcpy(room + path.len + 1, option.value.data, option.value.len);
        }
        path.len += 1 + (uint32_t)option.value.len;
        path.count++;
    }
    *ret_path = path;
    return true;
}

/* The section under which @p path of the server of @p target is known here; or NULL. */
static const struct config_publish *
find_location(const struct config *config, const struct target *target, const struct segments *path)
{
    const struct config_publish *best = NULL;
    for (size_t i = 0; i < config->publish_count; i++) {
        const struct config_publish *publish = &config->publishes[i];
        if (is_same_server(publish->leads, target) && segments_begin(path, &publish->leads->path) &&
            (best == NULL || publish->leads->path.len > best->leads->path.len)) {
            best = publish;
        }
    }
    return best;
}

static void put_segments(struct message_writer *writer, const struct segments *segments)
{
    struct bytes item;
    for (uint32_t offset = 0; segments_next(segments, &offset, &item);) {
        message_writer_option(writer, OPTION_location_path, item);
    }
}

struct bytes published_location(const struct config *config, const struct target *target,
                                struct bytes options, uint8_t *buffer, size_t capacity)
{
    struct message_writer writer = {.buffer = buffer, .capacity = capacity};
    uint8_t room[TARGET_NAME_MAX * 4];
    struct segments path = {0};
    struct option_iter iter;
    struct option option;
    bool is_written = false;
    const bool is_packed = pack_location(options, room, &path);
    const struct config_publish *publish =
        is_packed && path.count > 0 ? find_location(config, target, &path) : NULL;
    /* A query without a path is relative to the path that the client has asked for. */
    const bool keeps_query = publish != NULL || (is_packed && path.count == 0);
    option_iter_init(&iter, options);
    while (option_iter_next(&iter, &option)) {
        if (option.number == OPTION_location_path && publish != NULL && !is_written) {
            const struct segments rest = rest_of(&path, &publish->leads->path);
            put_segments(&writer, &publish->prefix);
            put_segments(&writer, &rest);
            is_written = true;
        } else if (option.number != OPTION_location_path &&
                   (option.number != OPTION_location_query || keeps_query)) {
            message_writer_option(&writer, option.number, option.value);
        }
    }
    return (struct bytes){buffer, writer.overflow ? 0 : writer.len};
}
