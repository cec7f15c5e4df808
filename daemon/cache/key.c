/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every variable part of a key has its length in front, so that no two different
 * requests have the same bytes.
 */
#include "cache/key.h"

#include "base/hash.h"
#include "coap/option.h"

#include <string.h>

struct key_writer {
    uint8_t *buffer;
    size_t capacity, len;
    bool overflow;
};

/* Where @p len bytes are to be put; NULL where there is no room. */
static uint8_t *key_room(struct key_writer *writer, size_t len)
{
    if (writer->overflow || len > writer->capacity - writer->len) {
        writer->overflow = true;
        return NULL;
    }
    uint8_t *at = writer->buffer + writer->len;
    writer->len += len;
    return at;
}

static void put_bytes(struct key_writer *writer, const uint8_t *data, size_t len)
{
    uint8_t *at = key_room(writer, len);
    if (at != NULL && len > 0) {
        memcpy(at, data, len);
    }
}

/* The @p width low bytes of @p value; @p at is behind them afterwards. */
static inline void store_uint(uint8_t **at, uint32_t value, size_t width)
{
    for (size_t i = width; i > 0; i--) {
        *(*at)++ = (uint8_t)(value >> (8 * (i - 1)));
    }
}

static inline void put_uint(struct key_writer *writer, uint32_t value, size_t width)
{
    uint8_t *at = key_room(writer, width);
    if (at != NULL) {
        store_uint(&at, value, width);
    }
}

static inline void put_counted(struct key_writer *writer, const uint8_t *data, size_t len,
                               size_t width)
{
    put_uint(writer, (uint32_t)len, width);
    put_bytes(writer, data, len);
}

/* Scheme and port, and an address or the length of a name. */
static void put_endpoint(struct key_writer *writer, const struct target *target)
{
    const size_t ip_len = sizeof(target->address.ip);
    uint8_t *at = key_room(writer, 4 + 2 + 1 + (target->is_name ? 1 : ip_len + 4));
    if (at == NULL) {
        return;
    }
    store_uint(&at, target->scheme->number, 4);
    store_uint(&at, target->port, 2);
    if (target->is_name) {
        store_uint(&at, ADDRESS_NONE, 1);
        store_uint(&at, target->name_len, 1);
    } else {
        store_uint(&at, target->address.family, 1);
        memcpy(at, target->address.ip, ip_len);
        at += ip_len;
        store_uint(&at, target->address.scope, 4);
    }
}

static void put_target(struct key_writer *writer, const struct target *target)
{
    put_endpoint(writer, target);
    if (target->is_name) {
        put_bytes(writer, target->name, target->name_len);
    }
    /* The segments have their own lengths in front already. */
    put_counted(writer, target->path.packed, target->path.len, 4);
    put_counted(writer, target->query.packed, target->query.len, 4);
}

/* Reading back what put_target() wrote: ours, so it is whole. */
static const uint8_t *get(const uint8_t **at, size_t len)
{
    const uint8_t *data = *at;
    *at += len;
    return data;
}

static uint32_t get_uint(const uint8_t **at, size_t width)
{
    return option_uint((struct bytes){get(at, width), width});
}

static struct segments get_segments(const uint8_t **at)
{
    struct segments segments = {.len = get_uint(at, 4)};
    struct bytes item;
    uint32_t offset = 0;
    segments.packed = get(at, segments.len);
    while (segments_next(&segments, &offset, &item)) {
        segments.count++;
    }
    return segments;
}

void cache_key_read_target(const struct cache_key *key, struct target *ret_target,
                           uint32_t *ret_scheme)
{
    const uint8_t *at = key->bytes;
    *ret_target = (struct target){0};
    *ret_scheme = get_uint(&at, 4);
    ret_target->port = (uint16_t)get_uint(&at, 2);
    uint16_t family = (uint16_t)get_uint(&at, 1);
    ret_target->is_name = family == ADDRESS_NONE;
    if (ret_target->is_name) {
        ret_target->name_len = (uint8_t)get_uint(&at, 1);
        memcpy(ret_target->name, get(&at, ret_target->name_len), ret_target->name_len);
    } else {
        struct address *address = &ret_target->address;
        address->family = family;
        address->port = ret_target->port;
        memcpy(address->ip, get(&at, sizeof(address->ip)), sizeof(address->ip));
        address->scope = get_uint(&at, 4);
    }
    ret_target->path = get_segments(&at);
    ret_target->query = get_segments(&at);
}

/* What the proxy acts on itself: where it is well-formed it asks for nothing else. */
static bool is_interpreted(const struct passed_option *option)
{
    const struct option_row *row = option_row(option->number);
    if (option->number != OPTION_etag && option->number != OPTION_hop_limit &&
        option->number != OPTION_request_tag) {
        return false;
    }
    return option_length_is_good(row, option->value) &&
           (row->repeats_in_request || !option->is_repeated);
}

/*
 * The options that are part of the key, in their order. Of the unsafe ones, which have all
 * been understood, only Block2 says what is asked for; it goes to the end.
 */
static bool put_options(struct key_writer *writer, const struct cache_key_source *source,
                        struct passed_option *ret_block2)
{
    struct passed_iter iter;
    struct passed_option option;
    passed_begin(&iter, source->passed, source->options);
    while (passed_next(&iter, &option)) {
        switch (option.number) {
        case OPTION_oscore:
        case OPTION_edhoc:
        case OPTION_block1:
        case OPTION_multicast_timeout:
            return false; /* the answer is for this one request */
        case OPTION_echo:
            if (!source->drops_echo) {
                return false;
            }
            break;
        case OPTION_block2:
            *ret_block2 = option;
            continue;
        default:
            break;
        }
        if (!option_is_unsafe(option.number) && !option_is_no_cache_key(option.number) &&
            !is_interpreted(&option)) {
            put_uint(writer, option.number, 2);
            put_counted(writer, option.value.data, option.value.len, 4);
        }
    }
    return true;
}

bool cache_key_of_target(const struct target *target, uint8_t *buffer, size_t capacity,
                         uint64_t seed, struct cache_key *ret_key)
{
    struct key_writer writer = {.buffer = buffer, .capacity = capacity};
    put_target(&writer, target);
    if (writer.overflow) {
        return false;
    }
    uint64_t hash = hash_bytes(buffer, writer.len, seed);
    uint32_t len = (uint32_t)writer.len;
    *ret_key = (struct cache_key){buffer, len, len, len, hash, hash};
    return true;
}

struct cache_key cache_key_of_bytes(const uint8_t *bytes, uint32_t len, uint64_t seed)
{
    uint64_t hash = hash_bytes(bytes, len, seed);
    return (struct cache_key){bytes, len, len, len, hash, hash};
}

/* Which block is asked for. */
static void put_block(struct key_writer *writer, uint32_t block2)
{
    put_uint(writer, OPTION_block2, 2);
    put_uint(writer, block2, 4);
}

static void set_hash(struct cache_key *key)
{
    key->hash =
        hash_bytes(key->bytes + key->target_len, key->len - key->target_len, key->target_hash);
}

bool cache_key_make(const struct cache_key_source *source, uint8_t *buffer, size_t capacity,
                    uint64_t seed, struct cache_key *ret_key)
{
    struct cache_key made;
    struct passed_option block2 = {0};
    if ((source->code != CODE_GET && source->code != CODE_FETCH) ||
        !cache_key_of_target(source->target, buffer, capacity, seed, &made)) {
        return false;
    }
    struct key_writer writer = {.buffer = buffer, .capacity = capacity, .len = made.len};
    put_uint(&writer, source->code, 1);
    put_uint(&writer, source->audience_kind, 1);
    put_counted(&writer, source->audience.data, source->audience.len, 4);
    if (source->code == CODE_FETCH) {
        put_counted(&writer, source->payload.data, source->payload.len, 4);
    }
    if (!passed_is_empty(source->passed, source->options) &&
        !put_options(&writer, source, &block2)) {
        return false;
    }
    made.base_len = (uint32_t)writer.len;
    if (block2.number != 0) {
        /* NUM and SZX: M means nothing in a request (BLK-7). */
        put_block(&writer, option_uint(block2.value) & ~UINT32_C(8));
    }
    if (writer.overflow) {
        return false;
    }
    made.len = (uint32_t)writer.len;
    set_hash(&made);
    *ret_key = made;
    return true;
}

bool cache_key_of_block(const struct cache_key *key, uint32_t block2, uint8_t *buffer,
                        size_t capacity, struct cache_key *ret_key)
{
    struct key_writer writer = {.buffer = buffer, .capacity = capacity, .len = key->base_len};
    if (key->base_len > capacity) {
        return false;
    }
    memcpy(buffer, key->bytes, key->base_len);
    put_block(&writer, block2);
    *ret_key = *key;
    ret_key->bytes = buffer;
    ret_key->len = (uint32_t)writer.len;
    set_hash(ret_key);
    return !writer.overflow;
}

bool cache_key_has_block(const struct cache_key *key)
{
    return key->len > key->base_len;
}

struct cache_key cache_key_base(const struct cache_key *key)
{
    struct cache_key base = *key;
    if (cache_key_has_block(key)) {
        base.len = base.base_len;
        set_hash(&base);
    }
    return base;
}

struct cache_key cache_key_copy(const struct cache_key *key, uint8_t *bytes)
{
    struct cache_key copy = *key;
    memcpy(bytes, key->bytes, key->len);
    copy.bytes = bytes;
    return copy;
}

bool cache_key_same_base(const struct cache_key *a, const struct cache_key *b)
{
    return a->target_hash == b->target_hash && a->base_len == b->base_len &&
           memcmp(a->bytes, b->bytes, a->base_len) == 0;
}

bool cache_key_same_target(const struct cache_key *a, const struct cache_key *b)
{
    return a->target_hash == b->target_hash && a->target_len == b->target_len &&
           memcmp(a->bytes, b->bytes, a->target_len) == 0;
}

/* The next ETag; false at the end. */
static bool next_etag(struct option_iter *iter, struct bytes *ret_etag)
{
    struct option option;
    while (option_iter_next(iter, &option) && option.number <= OPTION_etag) {
        if (option.number == OPTION_etag &&
            option_length_is_good(option_row(OPTION_etag), option.value)) {
            *ret_etag = option.value;
            return true;
        }
    }
    return false;
}

bool etag_is_among(struct bytes options, struct bytes etag)
{
    struct option_iter iter;
    struct bytes own;
    option_iter_init(&iter, options);
    while (next_etag(&iter, &own)) {
        if (bytes_equal(own, etag)) {
            return true;
        }
    }
    return false;
}

size_t etags_copy(struct bytes options, uint8_t *buffer, size_t capacity)
{
    struct option_iter iter;
    struct bytes etag;
    size_t len = 0;
    uint8_t delta = OPTION_etag; /* of the first; then 0. Delta and length fit one byte. */
    option_iter_init(&iter, options);
    while (next_etag(&iter, &etag)) {
        if (1 + etag.len > capacity - len) {
            return 0;
        }
        buffer[len] = (uint8_t)((unsigned)delta << 4 | (unsigned)etag.len);
        memcpy(buffer + len + 1, etag.data, etag.len);
        len += 1 + etag.len;
        delta = 0;
    }
    return len;
}
