/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deliberately simple, and nothing of libcri: it is what libcri is checked against.
 * Percent-encoded dots are taken for dots, for both sides are compared in normal form.
 */
#include "rfc3986.h"

#include <stdlib.h>
#include <string.h>

struct parts {
    struct cri_slice scheme;
    struct cri_slice authority;
    struct cri_slice path;
    struct cri_slice query;
    struct cri_slice fragment;
    bool has_scheme;
    bool has_authority;
    bool has_query;
    bool has_fragment;
};

struct text {
    char *data;
    size_t len;
};

static size_t span(struct cri_slice text, const char *stop)
{
    size_t len = 0;
    while (len < text.len && memchr(stop, text.data[len], strlen(stop)) == NULL) {
        len++;
    }
    return len;
}

static struct cri_slice take(struct cri_slice *text, size_t len)
{
    struct cri_slice front = {text->data, len};
    text->data += len;
    text->len -= len;
    return front;
}

static bool begins(struct cri_slice text, const char *prefix)
{
    return text.len >= strlen(prefix) && memcmp(text.data, prefix, strlen(prefix)) == 0;
}

/* Appendix B of RFC 3986. */
static struct parts split(struct cri_slice text)
{
    struct parts parts = {0};
    size_t len = span(text, ":/?#");

    if (len > 0 && len < text.len && text.data[len] == ':') {
        parts.has_scheme = true;
        parts.scheme = take(&text, len);
        take(&text, 1);
    }
    if (begins(text, "//")) {
        take(&text, 2);
        parts.has_authority = true;
        parts.authority = take(&text, span(text, "/?#"));
    }
    parts.path = take(&text, span(text, "?#"));
    if (begins(text, "?")) {
        take(&text, 1);
        parts.has_query = true;
        parts.query = take(&text, span(text, "#"));
    }
    if (text.len > 0) {
        take(&text, 1);
        parts.has_fragment = true;
        parts.fragment = text;
    }
    return parts;
}

static void append(struct text *text, struct cri_slice more)
{
    if (more.len > 0) {
        memcpy(text->data + text->len, more.data, more.len);
    }
    text->len += more.len;
}

static void append_string(struct text *text, const char *more)
{
    append(text, (struct cri_slice){(const uint8_t *)more, strlen(more)});
}

/* "%2e" becomes ".". */
static struct cri_slice decode_dots(struct cri_slice path, char *room)
{
    size_t len = 0;
    for (size_t i = 0; i < path.len; i++) {
        bool is_dot = i + 2 < path.len && path.data[i] == '%' && path.data[i + 1] == '2' &&
                      (path.data[i + 2] == 'e' || path.data[i + 2] == 'E');
        room[len++] = is_dot ? '.' : (char)path.data[i];
        i += is_dot ? 2 : 0;
    }
    return (struct cri_slice){(const uint8_t *)room, len};
}

static void drop_last_segment(struct text *output)
{
    while (output->len > 0 && output->data[output->len - 1] != '/') {
        output->len--;
    }
    output->len -= output->len > 0 ? 1 : 0;
}

static bool equals(struct cri_slice text, const char *other)
{
    return text.len == strlen(other) && begins(text, other);
}

/* Section 5.2.4. A "/" that replaces a prefix is the last byte of that prefix, or owed. */
static struct cri_slice remove_dot_segments(struct cri_slice input, char *room)
{
    static const uint8_t slash[] = "/";
    struct text output = {room, 0};

    while (input.len > 0) {
        if (begins(input, "../")) {
            take(&input, 3);
        } else if (begins(input, "./")) {
            take(&input, 2);
        } else if (begins(input, "/./")) {
            take(&input, 2);
        } else if (equals(input, "/.")) {
            input = (struct cri_slice){slash, 1};
        } else if (begins(input, "/../")) {
            take(&input, 3);
            drop_last_segment(&output);
        } else if (equals(input, "/..")) {
            input = (struct cri_slice){slash, 1};
            drop_last_segment(&output);
        } else if (equals(input, ".") || equals(input, "..")) {
            input.len = 0;
        } else {
            struct cri_slice rest = {input.data + 1, input.len - 1};
            append(&output, take(&input, 1 + span(rest, "/")));
        }
    }
    return (struct cri_slice){(const uint8_t *)room, output.len};
}

static struct cri_slice merge(const struct parts *base, struct cri_slice path, char *room)
{
    struct text merged = {room, 0};
    size_t keep = base->path.len;

    if (base->has_authority && base->path.len == 0) {
        append_string(&merged, "/");
    } else {
        while (keep > 0 && base->path.data[keep - 1] != '/') {
            keep--;
        }
        append(&merged, (struct cri_slice){base->path.data, keep});
    }
    append(&merged, path);
    return (struct cri_slice){(const uint8_t *)room, merged.len};
}

/* Section 5.3 */
static size_t recompose(const struct parts *parts, char *buffer)
{
    struct text text = {buffer, 0};

    append(&text, parts->scheme);
    append_string(&text, ":");
    if (parts->has_authority) {
        append_string(&text, "//");
        append(&text, parts->authority);
    }
    append(&text, parts->path);
    if (parts->has_query) {
        append_string(&text, "?");
        append(&text, parts->query);
    }
    if (parts->has_fragment) {
        append_string(&text, "#");
        append(&text, parts->fragment);
    }
    return text.len;
}

/* Section 5.2.2 */
size_t rfc3986_resolve(struct cri_slice base_text, struct cri_slice reference_text, char *buffer,
                       size_t capacity)
{
    const struct parts base = split(base_text);
    const struct parts reference = split(reference_text);
    const size_t room = base_text.len + reference_text.len + 8;
    char *rooms = malloc(3 * room);
    struct parts target = reference;

    if (rooms == NULL || capacity < room) {
        free(rooms);
        return capacity + 1;
    }
    struct cri_slice path = reference.path;
    bool keeps_path = !reference.has_scheme && !reference.has_authority && path.len == 0;
    bool is_merged = !reference.has_scheme && !reference.has_authority && !begins(path, "/");
    if (keeps_path) {
        path = base.path;
    } else if (is_merged) {
        path = merge(&base, path, rooms);
    }
    if (keeps_path && !reference.has_query) {
        target.query = base.query;
        target.has_query = base.has_query;
    }
    if (!reference.has_scheme) {
        target.scheme = base.scheme;
        if (!reference.has_authority) {
            target.authority = base.authority;
            target.has_authority = base.has_authority;
        }
    }
    target.path = remove_dot_segments(decode_dots(path, rooms + room), rooms + 2 * room);
    size_t len = recompose(&target, buffer);
    free(rooms);
    return len;
}
