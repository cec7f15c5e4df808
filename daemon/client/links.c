/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/links.h"

#include <string.h>

/* The text before the first @p separator; @p rest is what follows it. */
static struct bytes links_split(struct bytes *rest, uint8_t separator)
{
    const uint8_t *end = rest->len > 0 ? memchr(rest->data, separator, rest->len) : NULL;
    struct bytes part = {rest->data, end != NULL ? (size_t)(end - rest->data) : rest->len};
    size_t used = part.len + (end != NULL ? 1 : 0);
    *rest = (struct bytes){used > 0 ? rest->data + used : rest->data, rest->len - used};
    return part;
}

/* The next attribute behind the URI: NAME, NAME=VALUE, NAME="VALUE"; false at the end. */
static bool next_attribute(struct bytes *rest, struct bytes *ret_name, struct bytes *ret_value)
{
    size_t at = 0;
    bool is_quoted = false;
    if (rest->len == 0) {
        return false;
    }
    while (at < rest->len && (is_quoted || rest->data[at] != ';')) {
        is_quoted = is_quoted != (rest->data[at] == '"');
        at++;
    }
    struct bytes value = {rest->data, at};
    at += at < rest->len ? 1 : 0;
    *rest = (struct bytes){rest->data + at, rest->len - at};
    *ret_name = links_split(&value, '=');
    if (value.len >= 2 && value.data[0] == '"') {
        value = (struct bytes){value.data + 1, value.len - 2};
    }
    *ret_value = value;
    return true;
}

static bool is_attribute(struct bytes text, const char *name)
{
    return bytes_equal(text, (struct bytes){(const uint8_t *)name, strlen(name)});
}

static bool value_matches(struct bytes value, struct bytes wanted)
{
    bool is_prefix = wanted.len > 0 && wanted.data[wanted.len - 1] == '*';
    wanted.len -= is_prefix ? 1 : 0;
    if (is_prefix && value.len > wanted.len) {
        value.len = wanted.len;
    }
    return bytes_equal(value, wanted);
}

/* Title and URI are one value; others have values between blanks (RFC 6690 section 4.1). */
static bool attribute_matches(struct bytes name, struct bytes value, struct bytes wanted)
{
    if (is_attribute(name, "title") || is_attribute(name, "href")) {
        return value_matches(value, wanted);
    }
    while (value.len > 0) {
        if (value_matches(links_split(&value, ' '), wanted)) {
            return true;
        }
    }
    return false;
}

static bool parameter_matches(struct bytes parameter, struct bytes link)
{
    struct bytes uri, name, value;
    bool has_value = parameter.len > 0 && memchr(parameter.data, '=', parameter.len) != NULL;
    struct bytes wanted_name = links_split(&parameter, '=');
    (void)links_split(&link, '<');
    uri = links_split(&link, '>');
    if (is_attribute(wanted_name, "href")) {
        return !has_value || attribute_matches(wanted_name, uri, parameter);
    }
    (void)links_split(&link, ';');
    while (next_attribute(&link, &name, &value)) {
        if (bytes_equal(name, wanted_name) &&
            (!has_value || attribute_matches(name, value, parameter))) {
            return true;
        }
    }
    return false;
}

static bool link_matches(const struct segments *query, struct bytes link)
{
    struct bytes parameter;
    for (uint32_t offset = 0; segments_next(query, &offset, &parameter);) {
        if (!parameter_matches(parameter, link)) {
            return false;
        }
    }
    return true;
}

void links_add(struct links *links, struct bytes link)
{
    if (link.len + 1 > links->capacity - links->len || !link_matches(links->query, link)) {
        return;
    }
    if (links->len > 0) {
        links->text[links->len++] = ',';
    }
    memcpy(links->text + links->len, link.data, link.len);
    links->len += link.len;
}
