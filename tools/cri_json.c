/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A strict reader: RFC 8259, the two known keys in any order, each once.
 * Nothing nests deeper than the shape does, so there is no recursion.
 */
#include "cri_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    struct tool *tool;
    struct cri_slice in;
    size_t pos;
    struct json_request *request;
};

static bool refuse_here(struct reader *r, const char *reason)
{
    return refuse_at(r->tool, r->pos, reason);
}

static void skip_blanks(struct reader *r)
{
    while (r->pos < r->in.len && memchr(" \t\r\n", r->in.data[r->pos], 4) != NULL) {
        r->pos++;
    }
}

/* Blanks, then @p c. */
static bool take(struct reader *r, char c)
{
    skip_blanks(r);
    if (r->pos == r->in.len || r->in.data[r->pos] != (uint8_t)c) {
        return false;
    }
    r->pos++;
    return true;
}

static bool expect(struct reader *r, char c, const char *reason)
{
    return take(r, c) ? true : refuse_here(r, reason);
}

static bool read_hex4(struct reader *r, uint32_t *ret_value)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) {
        const uint8_t c = r->pos < r->in.len ? r->in.data[r->pos] : 0;
        const uint8_t lower = c | 0x20u;
        if (c >= '0' && c <= '9') {
            value = value << 4 | (uint32_t)(c - '0');
        } else if (lower >= 'a' && lower <= 'f') {
            value = value << 4 | (uint32_t)(lower - 'a' + 10);
        } else {
            return refuse_here(r, "\\u needs four hexadecimal digits");
        }
        r->pos++;
    }
    *ret_value = value;
    return true;
}

static void put_utf8(struct buffer *out, uint32_t c)
{
    uint8_t bytes[4];
    size_t len = 0;
    if (c < 0x80) {
        bytes[len++] = (uint8_t)c;
    } else if (c < 0x800) {
        bytes[len++] = (uint8_t)(0xc0u | c >> 6);
    } else if (c < 0x10000) {
        bytes[len++] = (uint8_t)(0xe0u | c >> 12);
        bytes[len++] = (uint8_t)(0x80u | (c >> 6 & 0x3fu));
    } else {
        bytes[len++] = (uint8_t)(0xf0u | c >> 18);
        bytes[len++] = (uint8_t)(0x80u | (c >> 12 & 0x3fu));
        bytes[len++] = (uint8_t)(0x80u | (c >> 6 & 0x3fu));
    }
    if (c >= 0x80) {
        bytes[len++] = (uint8_t)(0x80u | (c & 0x3fu));
    }
    buffer_append(out, bytes, len);
}

/* After "\u". A surrogate takes its other half with it. */
static bool read_unicode_escape(struct reader *r)
{
    uint32_t c = 0;
    if (!read_hex4(r, &c)) {
        return false;
    }
    if (c >= 0xdc00 && c <= 0xdfff) {
        return refuse_here(r, "a surrogate without its other half");
    }
    if (c >= 0xd800 && c < 0xdc00) {
        uint32_t low = 0;
        if (r->in.len - r->pos < 2 || memcmp(r->in.data + r->pos, "\\u", 2) != 0) {
            return refuse_here(r, "a surrogate without its other half");
        }
        r->pos += 2;
        if (!read_hex4(r, &low)) {
            return false;
        }
        if (low < 0xdc00 || low > 0xdfff) {
            return refuse_here(r, "a surrogate without its other half");
        }
        c = 0x10000 + ((c - 0xd800) << 10 | (low - 0xdc00));
    }
    put_utf8(&r->request->text, c);
    return true;
}

static bool read_escape(struct reader *r)
{
    static const char named[] = "b\bf\fn\nr\rt\t\"\"\\\\//";
    const uint8_t c = r->pos < r->in.len ? r->in.data[r->pos] : 0;
    if (c == 'u') {
        r->pos++;
        return read_unicode_escape(r);
    }
    for (size_t i = 0; i + 1 < sizeof(named); i += 2) {
        if (c == (uint8_t)named[i]) {
            r->pos++;
            buffer_append(&r->request->text, &named[i + 1], 1);
            return true;
        }
    }
    return refuse_here(r, "an unknown escape");
}

/* A string, unescaped to the end of request->text. */
static bool read_string(struct reader *r, size_t *ret_offset, size_t *ret_len)
{
    struct buffer *text = &r->request->text;
    const size_t offset = text->len;
    if (!expect(r, '"', "a string was expected")) {
        return false;
    }
    for (;;) {
        const size_t start = r->pos;
        while (r->pos < r->in.len && r->in.data[r->pos] != '"' && r->in.data[r->pos] != '\\' &&
               r->in.data[r->pos] >= 0x20) {
            r->pos++;
        }
        buffer_append(text, r->in.data + start, r->pos - start);
        if (r->pos == r->in.len) {
            return refuse_here(r, "a string does not end");
        }
        const uint8_t c = r->in.data[r->pos];
        if (c < 0x20) {
            return refuse_here(r, "a control character in a string");
        }
        r->pos++;
        if (c == '"') {
            break;
        }
        if (!read_escape(r)) {
            return false;
        }
    }
    *ret_offset = offset;
    *ret_len = text->len - offset;
    return true;
}

/* A number without sign, fraction or exponent. */
static bool read_integer(struct reader *r, uint64_t max, uint64_t *ret_value)
{
    skip_blanks(r);
    const size_t start = r->pos;
    uint64_t value = 0;
    while (r->pos < r->in.len && r->in.data[r->pos] >= '0' && r->in.data[r->pos] <= '9') {
        const uint64_t digit = (uint64_t)(r->in.data[r->pos] - '0');
        if (value > (max - digit) / 10) {
            return refuse_at(r->tool, start, "a number is too large");
        }
        value = value * 10 + digit;
        r->pos++;
    }
    if (r->pos == start) {
        return refuse_here(r, "a number was expected");
    }
    if (r->in.data[start] == '0' && r->pos - start > 1) {
        return refuse_at(r->tool, start, "a number begins with 0");
    }
    *ret_value = value;
    return true;
}

static bool add_option(struct reader *r, const struct json_option *option)
{
    struct json_request *request = r->request;
    if (request->count == JSON_OPTIONS_MAX) {
        return refuse_here(r, "too many options");
    }
    if (request->count == request->capacity) {
        const size_t capacity = request->capacity == 0 ? 16 : request->capacity * 2;
        struct json_option *options =
            realloc(request->options, capacity * sizeof(*request->options));
        if (options == NULL) {
            return refuse(r->tool, cri_strerror(CRI_ERR_MEMORY));
        }
        request->options = options;
        request->capacity = capacity;
    }
    request->options[request->count++] = *option;
    return true;
}

/* [NUMBER, VALUE] */
static bool read_option(struct reader *r)
{
    struct json_option option = {0};
    uint64_t number = 0;
    if (!expect(r, '[', "an option is [number, value]") || !read_integer(r, UINT16_MAX, &number) ||
        !expect(r, ',', "an option is [number, value]")) {
        return false;
    }
    option.number = (uint16_t)number;
    skip_blanks(r);
    option.is_number = r->pos < r->in.len && r->in.data[r->pos] >= '0' && r->in.data[r->pos] <= '9';
    const bool is_read = option.is_number ? read_integer(r, UINT32_MAX, &option.integer)
                                          : read_string(r, &option.offset, &option.len);
    return is_read && expect(r, ']', "an option is [number, value]") && add_option(r, &option);
}

static bool read_options(struct reader *r)
{
    if (r->request->has_options) {
        return refuse_here(r, "\"options\" twice");
    }
    r->request->has_options = true;
    if (!expect(r, '[', "\"options\" is an array")) {
        return false;
    }
    if (take(r, ']')) {
        return true;
    }
    do {
        if (!read_option(r)) {
            return false;
        }
    } while (take(r, ','));
    return expect(r, ']', "a comma or a closing bracket was expected");
}

static bool read_scheme(struct reader *r)
{
    if (r->request->has_scheme) {
        return refuse_here(r, "\"scheme\" twice");
    }
    r->request->has_scheme = true;
    return read_string(r, &r->request->scheme_offset, &r->request->scheme_len);
}

static bool read_member(struct reader *r)
{
    size_t offset = 0;
    size_t len = 0;
    if (!read_string(r, &offset, &len) || !expect(r, ':', "a colon was expected")) {
        return false;
    }
    const uint8_t *key = r->request->text.data + offset;
    if (len == strlen("scheme") && memcmp(key, "scheme", len) == 0) {
        return read_scheme(r);
    }
    if (len == strlen("options") && memcmp(key, "options", len) == 0) {
        return read_options(r);
    }
    return refuse_here(r, "the keys are \"scheme\" and \"options\"");
}

bool json_read_request(struct tool *tool, struct cri_slice input, struct json_request *request)
{
    struct reader r = {.tool = tool, .in = input, .request = request};
    request->has_scheme = false;
    request->has_options = false;
    request->count = 0;
    request->text.len = 0;
    buffer_reserve(&request->text, 1); /* so that even an empty string has an address */
    if (!expect(&r, '{', "an object was expected")) {
        return false;
    }
    do {
        if (!read_member(&r)) {
            return false;
        }
    } while (take(&r, ','));
    if (!expect(&r, '}', "a comma or a closing brace was expected")) {
        return false;
    }
    skip_blanks(&r);
    if (r.pos < input.len) {
        return refuse_here(&r, "something follows the object");
    }
    if (!request->has_scheme || !request->has_options) {
        return refuse(tool, "\"scheme\" and \"options\" are both needed");
    }
    return true;
}

void json_request_free(struct json_request *request)
{
    free(request->options);
    buffer_free(&request->text);
    *request = (struct json_request){0};
}

void json_put_string(struct buffer *out, struct cri_slice text)
{
    static const char named[] = "\bb\ff\nn\rr\tt\"\"\\\\";
    buffer_append_text(out, "\"");
    size_t start = 0;
    for (size_t i = 0; i < text.len; i++) {
        const uint8_t c = text.data[i];
        if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) {
            continue;
        }
        buffer_append(out, text.data + start, i - start);
        start = i + 1;
        char escape[8];
        (void)snprintf(escape, sizeof(escape), "\\u%04x", (unsigned)c);
        for (size_t k = 0; k + 1 < sizeof(named); k += 2) {
            if (c == (uint8_t)named[k]) {
                escape[1] = named[k + 1];
                escape[2] = '\0';
            }
        }
        buffer_append_text(out, escape);
    }
    buffer_append(out, text.data + start, text.len - start);
    buffer_append_text(out, "\"");
}
