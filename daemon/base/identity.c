/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/identity.h"

#include "base/escape.h"
#include "base/pack.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SERVER_NAME_MAX 255u /* as long as a host name can be in a CoAP option */

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7f && c != '\\' && c != '"';
}

/* @return how much was written, without the NUL; ret_whole: all that there is. */
static size_t escape_name(const unsigned char *bytes, size_t len, char *text, size_t capacity,
                          bool *ret_whole)
{
    static const char digits[] = "0123456789abcdef";
    size_t used = 0, i = 0;
    for (; i < len; i++) {
        size_t need = is_plain(bytes[i]) ? 1 : 4;
        if (need >= capacity - used) {
            break;
        }
        if (need == 1) {
            text[used] = (char)bytes[i];
        } else {
            text[used] = '\\';
            text[used + 1] = 'x';
            text[used + 2] = digits[bytes[i] >> 4];
            text[used + 3] = digits[bytes[i] & 0x0f];
        }
        used += need;
    }
    text[used] = '\0';
    *ret_whole = i == len;
    return used;
}

size_t identity_name_bytes(const unsigned char *bytes, size_t len)
{
    size_t sum = 1;

    for (size_t i = 0; i < len; i++) {
        sum += is_plain(bytes[i]) ? 1 : 4;
    }
    return sum;
}

/* Where the name to be shown begins: in front of the names, if they may have it there. */
static size_t shown_at(const struct identity *identity)
{
    return identity->names_capacity <= IDENTITY_NAME_MAX ? 0 : identity->names_capacity;
}

const char *identity_name(const struct identity *identity)
{
    return identity->names + shown_at(identity);
}

/* Of the names and of what is shown of them. A NUL is the name that is shown where there are none.
 */
static size_t names_bytes_of(size_t capacity)
{
    return capacity == 0 ? 1 : capacity + (capacity > IDENTITY_NAME_MAX ? IDENTITY_NAME_MAX : 0);
}

const char *identity_server_name(const struct identity *identity)
{
    return identity->has_server_name ? identity->names + names_bytes_of(identity->names_capacity)
                                     : "";
}

/*
 * Zeroed: room for the names, then, where they may be longer than what is shown, for the name that
 * is, then for the server's.
 */
static struct identity *allocate_identity(enum identity_kind kind, size_t capacity,
                                          const char *server_name, size_t server_len)
{
    size_t names_bytes = names_bytes_of(capacity);
    size_t bytes =
        offsetof(struct identity, names) + names_bytes + (server_len > 0 ? server_len + 1 : 0);
    struct identity *identity = calloc(1, bytes > sizeof(*identity) ? bytes : sizeof(*identity));
    if (identity == NULL) {
        return NULL;
    }
    identity->kind = kind;
    identity->holders = 1;
    identity->names_capacity = (uint16_t)capacity;
    identity->has_server_name = server_len > 0;
    if (server_len > 0) {
        memcpy(identity->names + names_bytes, server_name, server_len);
    }
    return identity;
}

struct identity *identity_new(enum identity_kind kind, size_t names_bytes, const char *server_name)
{
    size_t capacity =
        names_bytes < IDENTITY_NAMES_BYTES_MAX ? names_bytes : IDENTITY_NAMES_BYTES_MAX;
    size_t server_len = server_name == NULL ? 0 : strlen(server_name);
    char lower[SERVER_NAME_MAX];
    server_len = server_len > SERVER_NAME_MAX ? 0 : server_len;
    for (size_t i = 0; i < server_len; i++) {
        char c = server_name[i];
        lower[i] = c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
    }
    return allocate_identity(kind, capacity, lower, server_len);
}

void identity_add_name(struct identity *identity, const unsigned char *bytes, size_t len)
{
    size_t left = (size_t)identity->names_capacity - identity->names_len;
    bool is_whole;
    if (identity_name(identity)[0] == '\0' && identity->names_capacity > IDENTITY_NAME_MAX) {
        (void)escape_name(bytes, len, identity->names + shown_at(identity), IDENTITY_NAME_MAX,
                          &is_whole);
    }
    if (len == 0) {
        return;
    }
    if (left == 0) {
        identity->lacks_names = true;
        return;
    }
    size_t used = escape_name(bytes, len, identity->names + identity->names_len, left, &is_whole);
    if (is_whole) {
        identity->names_len = (uint16_t)(identity->names_len + used + 1);
    } else {
        identity->lacks_names = true;
    }
}

bool identity_unescape(const char *name, char *ret_bytes, size_t capacity)
{
    size_t used = 0;

    for (; *name != '\0'; used++) {
        if (capacity - used <= 1) {
            return false;
        }
        if (*name == '\\') { /* \xHH, the only escape there is */
            ret_bytes[used] = (char)(escape_hex_digit(name[2]) << 4 | escape_hex_digit(name[3]));
            name += 4;
        } else {
            ret_bytes[used] = *name++;
        }
    }
    ret_bytes[used] = '\0';
    return true;
}

void identity_pack(const struct identity *identity, struct pack *out)
{
    const char *server_name = identity_server_name(identity), *name = identity_name(identity);

    pack_uint(out, identity->kind, 1);
    pack_uint(out, identity->lacks_names, 1);
    pack_bytes(out, server_name, strlen(server_name));
    pack_bytes(out, name, strlen(name));
    pack_bytes(out, identity->names, identity->names_len);
}

struct identity *identity_unpack(struct unpack *in)
{
    size_t server_len, name_len, names_len;
    uint64_t kind = unpack_uint(in, 1), lacks_names = unpack_uint(in, 1);
    const uint8_t *server = unpack_bytes(in, &server_len), *name = unpack_bytes(in, &name_len);
    const uint8_t *names = unpack_bytes(in, &names_len);

    if (in->has_failed || kind >= IDENTITY_KINDS || server_len > SERVER_NAME_MAX ||
        name_len >= IDENTITY_NAME_MAX || names_len > IDENTITY_NAMES_BYTES_MAX ||
        (names_len > 0 && names[names_len - 1] != '\0')) {
        in->has_failed = true;
        return NULL;
    }
    struct identity *identity =
        allocate_identity((enum identity_kind)kind, names_len, (const char *)server, server_len);
    if (identity == NULL) {
        return NULL;
    }
    identity->lacks_names = lacks_names != 0;
    identity->names_len = (uint16_t)names_len;
    memcpy(identity->names, names, names_len);
    if (names_len > IDENTITY_NAME_MAX) {
        memcpy(identity->names + shown_at(identity), name, name_len);
    }
    return identity;
}

struct identity *identity_acquire(struct identity *identity)
{
    if (identity != NULL) {
        identity->holders++;
    }
    return identity;
}

void identity_release(struct identity *identity)
{
    if (identity != NULL && --identity->holders == 0) {
        free(identity);
    }
}

bool identity_is_known(const struct identity *identity)
{
    return identity != NULL && identity->kind != IDENTITY_NONE;
}

bool identity_has_name(const struct identity *identity, enum identity_kind kind, const char *name)
{
    if (!identity_is_known(identity) || identity->kind != kind) {
        return false;
    }
    for (size_t at = 0; at < identity->names_len; at += strlen(identity->names + at) + 1) {
        if (strcmp(identity->names + at, name) == 0) {
            return true;
        }
    }
    return false;
}

static const char *const identity_kinds[IDENTITY_KINDS] = {
    [IDENTITY_NONE] = "-",
    [IDENTITY_PSK] = "psk",
    [IDENTITY_CERTIFICATE] = "certificate",
    [IDENTITY_PUBLIC_KEY] = "public-key",
};

const char *identity_take_kind(const char *text, enum identity_kind *ret_kind)
{
    for (unsigned kind = IDENTITY_PSK; kind < IDENTITY_KINDS; kind++) {
        size_t len = strlen(identity_kinds[kind]);
        if (strncmp(text, identity_kinds[kind], len) == 0 && text[len] == ':' &&
            text[len + 1] != '\0') {
            *ret_kind = (enum identity_kind)kind;
            return text + len + 1;
        }
    }
    return NULL;
}

const char *identity_format(const struct identity *identity, char text[IDENTITY_TEXT_MAX])
{
    if (!identity_is_known(identity)) {
        return identity_kinds[IDENTITY_NONE];
    }
    /* The name is escaped already, quotes too; only characters that would end a value without
     * quotes remain. */
    const char *quote = strpbrk(identity_name(identity), " =\\") != NULL ? "\"" : "";
    (void)snprintf(text, IDENTITY_TEXT_MAX, "%s%s:%s%s", quote, identity_kinds[identity->kind],
                   identity_name(identity), quote);
    return text;
}
