/* SPDX-License-Identifier: BSD-2-Clause */
#include "coap/target.h"

#include <stdio.h>
#include <string.h>

bool segments_next(const struct segments *segments, uint32_t *offset, struct bytes *ret_item)
{
    if (*offset >= segments->len) {
        return false;
    }
    uint8_t len = segments->packed[*offset];
    *ret_item = (struct bytes){segments->packed + *offset + 1, len};
    *offset += 1u + len;
    return true;
}

struct bytes target_below(const struct target *target, const char *zone)
{
    size_t zone_len = strlen(zone), len = target->is_name ? target->name_len : 0;
    const struct bytes none = {0};
    len -= len > 0 && target->name[len - 1] == '.';
    if (zone_len == 0 || len < zone_len + 2) {
        return none;
    }
    size_t below = len - zone_len - 1;
    bool is_below =
        target->name[below] == '.' && memcmp(target->name + below + 1, zone, zone_len) == 0;
    return is_below ? (struct bytes){target->name, below} : none;
}

/* --- as text, for the log, the trace and --explain --- */

/* Text that never overflows and is always terminated. */
struct text {
    char *at;
    size_t left; /* the NUL included */
};

static void add_char(struct text *text, char c)
{
    if (text->left > 1) {
        *text->at++ = c;
        text->left--;
        *text->at = '\0';
    }
}

static void add_bytes(struct text *text, const char *add, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        add_char(text, add[i]);
    }
}

static void add_text(struct text *text, const char *add)
{
    while (*add != '\0') {
        add_char(text, *add++);
    }
}

/* Percent-encoded wherever it is not unreserved or @p also: printable whatever came in. */
static void add_encoded(struct text *text, const uint8_t *bytes, size_t len, const char *also)
{
    static const char hex[] = "0123456789ABCDEF";
    for (size_t i = 0; i < len; i++) {
        uint8_t c = bytes[i];
        bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        (c >= '0' && c <= '9') ||
                        (c != '\0' && c < 0x80 && strchr(also, c) != NULL);
        if (is_plain) {
            add_char(text, (char)c);
        } else {
            add_char(text, '%');
            add_char(text, hex[c >> 4]);
            add_char(text, hex[c & 15]);
        }
    }
}

static void add_segments(struct text *text, const struct segments *segments, char first, char next,
                         const char *also)
{
    struct bytes item;
    uint32_t offset = 0;
    char before = first;
    while (segments_next(segments, &offset, &item)) {
        add_char(text, before);
        add_encoded(text, item.data, item.len, also);
        before = next;
    }
}

static void add_host(struct text *text, const struct target *target)
{
    char address_text[ADDRESS_TEXT_MAX];
    if (!target->is_name) {
        struct address address = target->address;
        address.port = target->port;
        address.scope = target->zone[0] != '\0' ? 0 : address.scope;
        address_format(&address, address_text);
        size_t before = target->zone[0] != '\0' ? strcspn(address_text, "]") : 0;
        add_bytes(text, address_text, before);
        if (before > 0) { /* the name of the zone, not its number */
            add_char(text, '%');
            add_encoded(text, (const uint8_t *)target->zone, strlen(target->zone), "-._~:@");
        }
        add_text(text, address_text + before);
        return;
    }
    add_encoded(text, target->name, target->name_len, "-._~!$&'()*+,;=");
    if (target->port != target->scheme->default_port) {
        snprintf(address_text, sizeof(address_text), ":%u", target->port);
        add_text(text, address_text);
    }
}

const char *target_format(const struct target *target, char *buffer, size_t capacity)
{
    struct text text = {buffer, capacity};
    buffer[0] = '\0';
    if (target->form == TARGET_FORM_NONE || target->scheme == NULL) {
        add_text(&text, "-");
        return buffer;
    }
    add_text(&text, target->scheme->name);
    add_text(&text, "://");
    add_host(&text, target);
    if (target->path.count == 0) {
        add_char(&text, '/');
    }
    add_segments(&text, &target->path, '/', '/', "-._~!$&'()*+,;=:@");
    add_segments(&text, &target->query, '?', '&', "-._~!$'()*+,;=:@/?");
    return buffer;
}
