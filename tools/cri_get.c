/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `cri get`: one component of a CRI as it stands in the URI, cut out by the first step of RFC 3986
 * (appendix B), so it stays percent-encoded.
 */
#include "cri_tool.h"

#include <string.h>

enum field {
    FIELD_SCHEME,
    FIELD_AUTHORITY,
    FIELD_USERINFO,
    FIELD_HOST,
    FIELD_PORT,
    FIELD_PATH,
    FIELD_QUERY,
    FIELD_FRAGMENT,
    FIELD_COUNT
};

static const char *const field_names[FIELD_COUNT] = {"scheme", "authority", "userinfo", "host",
                                                     "port",   "path",      "query",    "fragment"};

/* Components; data is NULL for one that is not there. */
struct components {
    struct cri_slice part[FIELD_COUNT];
};

static size_t field_index(const char *name)
{
    size_t i = 0;
    while (i < FIELD_COUNT && strcmp(field_names[i], name) != 0) {
        i++;
    }
    return i;
}

bool is_field(const char *name)
{
    return field_index(name) < FIELD_COUNT;
}

static const uint8_t *find(struct cri_slice text, char c)
{
    return text.len == 0 ? NULL : memchr(text.data, c, text.len);
}

/* Takes the text after the first @p c from the end of @p text. */
static struct cri_slice cut_behind(struct cri_slice *text, char c)
{
    const uint8_t *at = find(*text, c);
    struct cri_slice behind = {NULL, 0};
    if (at != NULL) {
        behind = (struct cri_slice){at + 1, text->len - (size_t)(at - text->data) - 1};
        text->len = (size_t)(at - text->data);
    }
    return behind;
}

static void split_authority(struct components *c)
{
    struct cri_slice host = c->part[FIELD_AUTHORITY];
    const uint8_t *at = find(host, '@');
    if (at != NULL) {
        const size_t len = (size_t)(at - host.data);
        c->part[FIELD_USERINFO] = (struct cri_slice){host.data, len};
        host = (struct cri_slice){at + 1, host.len - len - 1};
    }
    /* The port's colon is behind the bracket of an IPv6 address. */
    const uint8_t *bracket = find(host, ']');
    const size_t skipped = bracket == NULL ? 0 : (size_t)(bracket - host.data);
    struct cri_slice rest = {host.data + skipped, host.len - skipped};
    c->part[FIELD_PORT] = cut_behind(&rest, ':');
    c->part[FIELD_HOST] = (struct cri_slice){host.data, skipped + rest.len};
}

static void split(struct cri_slice uri, bool is_full, struct components *c)
{
    *c = (struct components){0};
    c->part[FIELD_FRAGMENT] = cut_behind(&uri, '#');
    c->part[FIELD_QUERY] = cut_behind(&uri, '?');
    if (is_full) {
        c->part[FIELD_SCHEME] = uri;
        const struct cri_slice rest = cut_behind(&c->part[FIELD_SCHEME], ':');
        uri = rest;
    }
    if (uri.len >= 2 && uri.data[0] == '/' && uri.data[1] == '/') {
        uri = (struct cri_slice){uri.data + 2, uri.len - 2};
        const uint8_t *slash = find(uri, '/');
        const size_t len = slash == NULL ? uri.len : (size_t)(slash - uri.data);
        c->part[FIELD_AUTHORITY] = (struct cri_slice){uri.data, len};
        split_authority(c);
        uri = (struct cri_slice){uri.data + len, uri.len - len};
    }
    c->part[FIELD_PATH] = uri;
}

bool run_get(struct tool *tool, struct cri_slice input)
{
    struct cri cri;
    struct components components;

    if (!read_identifier(tool, input, &tool->input, &cri) ||
        !format_uri(tool, &cri, &tool->second)) {
        return false;
    }
    split(buffer_slice(&tool->second), cri_is_full(&cri), &components);
    const struct cri_slice part = components.part[field_index(tool->field)];
    tool->result.len = 0;
    if (part.data == NULL && tool->with_json) {
        buffer_append_text(&tool->result, "null");
        tool->is_json_result = true;
    }
    buffer_append(&tool->result, part.data, part.len);
    return true;
}
