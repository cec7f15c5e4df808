/* SPDX-License-Identifier: BSD-2-Clause */
#include "form.h"

#include "args.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

const char *const form_names[FORM_COUNT] = {"cri",    "scheme-number", "uri",
                                            "scheme", "direct",        "mix"};

enum {
    COAP_PORT = 5683,
    CRI_MAX = 512,
    URI_MAX = 512,
    /* CBOR (RFC 8949 section 3): major types in place, and two whole items */
    CBOR_UNSIGNED = 0x00,
    CBOR_BYTES = 0x40,
    CBOR_TEXT = 0x60,
    CBOR_ARRAY = 0x80,
    CBOR_SCHEME_COAP = 0x20, /* -1, which is scheme number 0 */
};

/* A small append-only buffer; bytes that do not fit set overflow. */
struct text {
    uint8_t bytes[CRI_MAX > URI_MAX ? CRI_MAX : URI_MAX];
    size_t len;
    bool overflow;
};

static void append(struct text *text, const void *data, size_t len)
{
    if (len > sizeof(text->bytes) - text->len) {
        text->overflow = true;
        return;
    }
    memcpy(text->bytes + text->len, data, len);
    text->len += len;
}

static void append_byte(struct text *text, unsigned byte)
{
    uint8_t value = (uint8_t)byte;

    append(text, &value, 1);
}

static void append_view(struct text *text, struct view view)
{
    if (view.len > 0) {
        append(text, view.data, view.len);
    }
}

/* Nothing here is longer than 65535. */
static void append_head(struct text *text, unsigned major, size_t value)
{
    if (value < 24) {
        append_byte(text, major | (unsigned)value);
    } else if (value <= UINT8_MAX) {
        append_byte(text, major | 24u);
        append_byte(text, (unsigned)value);
    } else {
        append_byte(text, major | 25u);
        append_byte(text, (unsigned)value >> 8);
        append_byte(text, value & 0xffu);
    }
}

static void append_item(struct text *text, unsigned major, struct view view)
{
    append_head(text, major, view.len);
    append_view(text, view);
}

static unsigned count_labels(const char *host)
{
    unsigned count = 1;

    for (const char *at = host; *at != '\0'; at++) {
        count += *at == '.';
    }
    return count;
}

/* authority = [host-ip or labels, ?port] */
static void append_authority(struct text *text, const struct target *target)
{
    bool with_port = target->port != COAP_PORT;
    const char *label = target->host;

    if (target->address_len > 0) {
        append_head(text, CBOR_ARRAY, 1u + with_port);
        append_item(text, CBOR_BYTES, (struct view){target->address, target->address_len});
    } else {
        append_head(text, CBOR_ARRAY, count_labels(label) + (unsigned)with_port);
        for (size_t len = strcspn(label, ".");; len = strcspn(label, ".")) {
            append_item(text, CBOR_TEXT, (struct view){(const uint8_t *)label, len});
            if (label[len] == '\0') {
                break;
            }
            label += len + 1;
        }
    }
    if (with_port) {
        append_head(text, CBOR_UNSIGNED, target->port);
    }
}

static void make_cri(struct text *text, const struct target *target,
                     const struct resource *resource)
{
    bool with_query = resource->query.len > 0;
    bool with_path = resource->segment_count > 0 || with_query;

    append_head(text, CBOR_ARRAY, 2u + with_path + with_query);
    append_byte(text, CBOR_SCHEME_COAP);
    append_authority(text, target);
    if (with_path) {
        append_head(text, CBOR_ARRAY, resource->segment_count);
        for (unsigned i = 0; i < resource->segment_count; i++) {
            append_item(text, CBOR_TEXT, resource->segments[i]);
        }
    }
    if (with_query) {
        append_head(text, CBOR_ARRAY, 1);
        append_item(text, CBOR_TEXT, resource->query);
    }
}

static void make_uri(struct text *text, const struct target *target,
                     const struct resource *resource)
{
    char authority[HOST_TEXT_MAX + 32];
    bool brackets = target->address_len == sizeof(target->address);

    snprintf(authority, sizeof(authority), "coap://%s%s%s:%u", brackets ? "[" : "", target->host,
             brackets ? "]" : "", (unsigned)target->port);
    append(text, authority, strlen(authority));
    for (unsigned i = 0; i < resource->segment_count; i++) {
        append_byte(text, '/');
        append_view(text, resource->segments[i]);
    }
    if (resource->query.len > 0) {
        append_byte(text, '?');
        append_view(text, resource->query);
    }
}

static void write_text(struct wire_writer *writer, unsigned option, const struct text *text)
{
    writer->overflow = writer->overflow || text->overflow;
    wire_add_option(writer, option, (struct view){text->bytes, text->len});
}

static struct view text_view(const char *text)
{
    return (struct view){(const uint8_t *)text, strlen(text)};
}

static void write_host(struct wire_writer *writer, const struct target *target)
{
    char literal[HOST_TEXT_MAX + 3];
    bool brackets = target->address_len == sizeof(target->address);

    snprintf(literal, sizeof(literal), "%s%s%s", brackets ? "[" : "", target->host,
             brackets ? "]" : "");
    wire_add_option(writer, WIRE_URI_HOST, text_view(literal));
    wire_add_uint(writer, WIRE_URI_PORT, target->port);
}

static void write_format(struct wire_writer *writer, const struct resource *resource)
{
    if (resource->has_format) {
        wire_add_uint(writer, WIRE_CONTENT_FORMAT, resource->format);
    }
}

static void write_resource(struct wire_writer *writer, const struct resource *resource)
{
    for (unsigned i = 0; i < resource->segment_count; i++) {
        wire_add_option(writer, WIRE_URI_PATH, resource->segments[i]);
    }
    write_format(writer, resource);
    if (resource->query.len > 0) {
        wire_add_option(writer, WIRE_URI_QUERY, resource->query);
    }
}

void form_write(struct wire_writer *writer, enum form form, const struct target *target,
                const struct resource *resource)
{
    struct text text;

    text.len = 0;
    text.overflow = false;
    switch (form) {
    case FORM_CRI:
        make_cri(&text, target, resource);
        write_format(writer, resource);
        write_text(writer, WIRE_PROXY_CRI, &text);
        break;
    case FORM_URI:
        make_uri(&text, target, resource);
        write_format(writer, resource);
        write_text(writer, WIRE_PROXY_URI, &text);
        break;
    case FORM_SCHEME_NUMBER:
        write_host(writer, target);
        write_resource(writer, resource);
        wire_add_uint(writer, WIRE_PROXY_SCHEME_NUMBER, 0);
        break;
    case FORM_SCHEME:
        write_host(writer, target);
        write_resource(writer, resource);
        wire_add_option(writer, WIRE_PROXY_SCHEME, text_view("coap"));
        break;
    case FORM_DIRECT:
    case FORM_MIX:
    case FORM_COUNT:
        write_resource(writer, resource);
        break;
    }
}

static const char name_characters[] = "abcdefghijklmnopqrstuvwxyz0123456789-._";

int target_parse(const char *text, struct target *ret_target)
{
    const char *colon = strrchr(text, ':');
    struct target target = {0};
    uint64_t port;
    size_t len;
    bool brackets;

    if (colon == NULL || args_parse_count(colon + 1, UINT16_MAX, &port) != 0 || port == 0) {
        return -EINVAL;
    }
    len = (size_t)(colon - text);
    brackets = len > 2 && text[0] == '[' && text[len - 1] == ']';
    if (brackets) {
        text++;
        len -= 2;
    }
    if (len == 0 || len > HOST_TEXT_MAX) {
        return -EINVAL;
    }
    memcpy(target.host, text, len);
    if (!brackets && strspn(target.host, name_characters) != len) {
        return -EINVAL;
    }
    target.port = (uint16_t)port;
    if (!brackets && inet_pton(AF_INET, target.host, target.address) == 1) {
        target.address_len = 4;
    } else if (brackets && inet_pton(AF_INET6, target.host, target.address) == 1) {
        target.address_len = sizeof(target.address);
    } else if (brackets) {
        return -EINVAL;
    }
    *ret_target = target;
    return 0;
}

struct target target_further(const struct target *target, uint32_t n)
{
    struct target further = *target;
    uint32_t address;

    memcpy(&address, target->address, sizeof(address));
    address = htonl(ntohl(address) + n);
    memcpy(further.address, &address, sizeof(address));
    inet_ntop(AF_INET, further.address, further.host, sizeof(further.host));
    return further;
}
