/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/ws_head.h"

#include <openssl/evp.h>
#include <stdint.h>
#include <string.h>

#define GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

char ws_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

bool ws_is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (ws_lower(c) >= 'a' && ws_lower(c) <= 'z');
}

bool ws_is_one_of(char c, const char *set)
{
    return c != '\0' && strchr(set, c) != NULL;
}

bool ws_equals(struct ws_span span, const char *text)
{
    return span.len == strlen(text) && memcmp(span.text, text, span.len) == 0;
}

static bool equals_any_case(struct ws_span span, const char *text)
{
    bool is_equal = span.len == strlen(text);

    for (size_t i = 0; is_equal && i < span.len; i++) {
        is_equal = ws_lower(span.text[i]) == ws_lower(text[i]);
    }
    return is_equal;
}

static struct ws_span head_trim(struct ws_span span)
{
    while (span.len > 0 && ws_is_one_of(span.text[0], " \t")) {
        span.text++;
        span.len--;
    }
    while (span.len > 0 && ws_is_one_of(span.text[span.len - 1], " \t")) {
        span.len--;
    }
    return span;
}

/* The text before the first @p separator; @p rest becomes the text behind it. */
bool ws_split(struct ws_span *rest, char separator, struct ws_span *ret_first)
{
    const char *at = rest->len > 0 ? memchr(rest->text, separator, rest->len) : NULL;

    if (at == NULL) {
        return false;
    }
    *ret_first = (struct ws_span){rest->text, (size_t)(at - rest->text)};
    rest->text += ret_first->len + 1;
    rest->len -= ret_first->len + 1;
    return true;
}

/* One element of a comma-separated list; false after the last. */
static bool next_element(struct ws_span *rest, struct ws_span *ret_element)
{
    if (rest->text == NULL) {
        return false;
    }
    if (!ws_split(rest, ',', ret_element)) {
        *ret_element = *rest;
        rest->text = NULL;
        rest->len = 0;
    }
    *ret_element = head_trim(*ret_element);
    return true;
}

static bool list_has(struct ws_span list, const char *text, bool any_case)
{
    struct ws_span element;
    bool found = false;

    while (next_element(&list, &element)) {
        found = found || (any_case ? equals_any_case(element, text) : ws_equals(element, text));
    }
    return found;
}

static void set_once(struct ws_span *field, struct ws_span value, struct ws_fields *fields)
{
    fields->is_bad = fields->is_bad || field->text != NULL;
    *field = value;
}

static void take_field(struct ws_fields *fields, struct ws_span name, struct ws_span value)
{
    if (equals_any_case(name, "Host")) {
        set_once(&fields->host, value, fields);
    } else if (equals_any_case(name, "Sec-WebSocket-Key")) {
        set_once(&fields->key, value, fields);
    } else if (equals_any_case(name, "Sec-WebSocket-Version")) {
        set_once(&fields->version, value, fields);
    } else if (equals_any_case(name, "Upgrade")) {
        fields->has_upgrade = fields->has_upgrade || list_has(value, "websocket", true);
    } else if (equals_any_case(name, "Connection")) {
        fields->has_connection = fields->has_connection || list_has(value, "upgrade", true);
    } else if (equals_any_case(name, "Sec-WebSocket-Protocol")) {
        bool is_coap = list_has(value, WS_SUBPROTOCOL, false);
        fields->has_others =
            fields->has_others || fields->has_subprotocol || !ws_equals(value, WS_SUBPROTOCOL);
        fields->has_subprotocol = fields->has_subprotocol || is_coap;
    } else if (equals_any_case(name, "Sec-WebSocket-Accept")) {
        set_once(&fields->accept, value, fields);
    } else if (equals_any_case(name, "Sec-WebSocket-Extensions")) {
        fields->has_extensions = true;
    } else if (equals_any_case(name, "Origin")) {
        fields->has_origin = true;
    } else if (equals_any_case(name, "Transfer-Encoding") ||
               (equals_any_case(name, "Content-Length") && !ws_equals(value, "0"))) {
        fields->has_body = true; /* it would be taken for frames */
    }
}

static bool is_token(struct ws_span span)
{
    bool is_valid = span.len > 0;

    for (size_t i = 0; is_valid && i < span.len; i++) {
        is_valid = ws_is_alnum(span.text[i]) || ws_is_one_of(span.text[i], "!#$%&'*+-.^_`|~");
    }
    return is_valid;
}

static bool is_field_value(struct ws_span span)
{
    bool is_valid = true;

    for (size_t i = 0; is_valid && i < span.len; i++) {
        unsigned char c = (unsigned char)span.text[i];
        is_valid = (c >= 0x20 && c != 0x7f) || c == '\t';
    }
    return is_valid;
}

/* Lines end with CR LF; a line that goes on in the next (RFC 9112 section 5.2) is refused. */
bool ws_read_line(struct ws_span *rest, struct ws_span *ret_line)
{
    if (!ws_split(rest, '\n', ret_line) || ret_line->len == 0 ||
        ret_line->text[ret_line->len - 1] != '\r') {
        return false;
    }
    ret_line->len--;
    return is_field_value(*ret_line);
}

bool ws_read_fields(struct ws_span rest, struct ws_fields *ret_fields)
{
    struct ws_span line, name;

    memset(ret_fields, 0, sizeof(*ret_fields));
    while (ws_read_line(&rest, &line)) {
        if (line.len == 0) {
            return rest.len == 0 && !ret_fields->is_bad;
        }
        if (!ws_split(&line, ':', &name) || !is_token(name)) {
            return false;
        }
        take_field(ret_fields, name, head_trim(line));
    }
    return false;
}

bool ws_make_accept(const char *key, char ret_accept[WS_ACCEPT_LEN + 1])
{
    char text[WS_KEY_LEN + sizeof(GUID)];
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;

    memcpy(text, key, WS_KEY_LEN);
    memcpy(text + WS_KEY_LEN, GUID, sizeof(GUID));
    return EVP_Digest(text, sizeof(text) - 1, digest, &len, EVP_sha1(), NULL) == 1 &&
           EVP_EncodeBlock((unsigned char *)ret_accept, digest, (int)len) == WS_ACCEPT_LEN;
}
