/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/pack.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#define PACK_FIRST_BYTES 4096u

/* Not realloc(), which leaves a copy behind. */
static bool pack_grow(struct pack *pack, size_t more)
{
    size_t capacity = pack->capacity > 0 ? pack->capacity : PACK_FIRST_BYTES;

    if (pack->has_failed) {
        return false;
    }
    while (capacity - pack->len < more && capacity <= SIZE_MAX / 4) {
        capacity *= 2;
    }
    uint8_t *larger = capacity - pack->len < more ? NULL : malloc(capacity);
    if (larger == NULL) {
        pack->has_failed = true;
        return false;
    }
    if (pack->data != NULL) {
        memcpy(larger, pack->data, pack->len);
        explicit_bzero(pack->data, pack->len);
        free(pack->data);
    }
    pack->data = larger;
    pack->capacity = capacity;
    return true;
}

static bool pack_reserve(struct pack *pack, size_t more)
{
    return !pack->has_failed && (more <= pack->capacity - pack->len || pack_grow(pack, more));
}

void pack_expect(struct pack *pack, size_t len)
{
    (void)pack_reserve(pack, len);
}

void pack_uint(struct pack *pack, uint64_t value, unsigned bytes)
{
    uint64_t text = htobe64(value);

    pack_raw(pack, (const uint8_t *)&text + sizeof text - bytes, bytes);
}

void pack_raw(struct pack *pack, const void *data, size_t len)
{
    if (len > 0 && pack_reserve(pack, len)) {
        memcpy(pack->data + pack->len, data, len);
        pack->len += len;
    }
}

void pack_bytes(struct pack *pack, const void *data, size_t len)
{
    if (len >= UINT32_MAX) {
        pack->has_failed = true;
        return;
    }
    pack_uint(pack, len, 4);
    pack_raw(pack, data, len);
}

size_t pack_open(struct pack *pack)
{
    pack_uint(pack, 0, 4);
    return pack->len;
}

void pack_close(struct pack *pack, size_t at)
{
    size_t len = pack->len - at;

    if (pack->has_failed || len >= UINT32_MAX) {
        pack->has_failed = true;
        return;
    }
    uint32_t text = htobe32((uint32_t)len);
    memcpy(pack->data + at - sizeof text, &text, sizeof text);
}

void pack_address(struct pack *pack, const struct address *address)
{
    pack_uint(pack, address->family, 2);
    pack_uint(pack, address->port, 2);
    pack_uint(pack, address->scope, 4);
    pack_raw(pack, address->ip, sizeof address->ip);
}

void pack_clear(struct pack *pack)
{
    if (pack->data != NULL) {
        explicit_bzero(pack->data, pack->len);
        free(pack->data);
    }
    *pack = (struct pack){0};
}

/* @return where @p len bytes are, or NULL: they are not there, nor is anything after them */
static const uint8_t *take_packed(struct unpack *in, size_t len)
{
    const uint8_t *at = in->at;

    if (in->has_failed || len > in->left) {
        in->has_failed = true;
        return NULL;
    }
    in->at += len;
    in->left -= len;
    return at;
}

uint64_t unpack_uint(struct unpack *in, unsigned bytes)
{
    const uint8_t *at = take_packed(in, bytes);
    uint64_t value = 0;

    for (unsigned i = 0; at != NULL && i < bytes; i++) {
        value = value << 8 | at[i];
    }
    return value;
}

void unpack_raw(struct unpack *in, void *ret, size_t len)
{
    const uint8_t *at = take_packed(in, len);

    if (at != NULL && len > 0) {
        memcpy(ret, at, len);
    } else {
        memset(ret, 0, len);
    }
}

const uint8_t *unpack_bytes(struct unpack *in, size_t *ret_len)
{
    size_t len = (size_t)unpack_uint(in, 4);
    const uint8_t *at = take_packed(in, len);

    *ret_len = at != NULL ? len : 0;
    return at;
}

/* What the family does not have is zero: addresses are compared and hashed whole. */
static bool is_whole_address(const struct address *address)
{
    static const uint8_t zeros[sizeof address->ip];
    size_t len = address_ip_len(address);

    return (address->family == ADDRESS_NONE || len > 0) &&
           memcmp(address->ip + len, zeros, sizeof address->ip - len) == 0;
}

struct address unpack_address(struct unpack *in)
{
    struct address address = {.family = (uint16_t)unpack_uint(in, 2)};

    address.port = (uint16_t)unpack_uint(in, 2);
    address.scope = (uint32_t)unpack_uint(in, 4);
    unpack_raw(in, address.ip, sizeof address.ip);
    if (in->has_failed || !is_whole_address(&address)) {
        in->has_failed = true;
        return (struct address){.family = ADDRESS_NONE};
    }
    return address;
}
