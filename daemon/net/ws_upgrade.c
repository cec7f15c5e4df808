/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/ws_upgrade.h"

#include <openssl/evp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define TARGET "/.well-known/coap"
#define SUBPROTOCOL "coap"
#define VERSION "13"
#define KEY_LEN 24 /* 16 bytes in base64 */
#define GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

enum {
    SWITCHING_PROTOCOLS = 101,
    BAD_REQUEST = 400,
    FORBIDDEN = 403,
    NOT_FOUND = 404,
    METHOD_NOT_ALLOWED = 405,
    UPGRADE_REQUIRED = 426,
    FIELDS_TOO_LARGE = 431,
    INTERNAL_ERROR = 500,
    VERSION_NOT_SUPPORTED = 505,
};

/* Borrowed text of the request. */
struct span {
    const char *text;
    size_t len;
};

/* What the header fields have said. */
struct fields {
    struct span host, key, version; /* text NULL: absent; each may be there once */
    bool has_upgrade, has_connection, has_subprotocol, has_body, has_origin, is_bad;
};

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'z');
}

static bool is_one_of(char c, const char *set)
{
    return c != '\0' && strchr(set, c) != NULL;
}

static bool equals(struct span span, const char *text)
{
    return span.len == strlen(text) && memcmp(span.text, text, span.len) == 0;
}

static bool equals_any_case(struct span span, const char *text)
{
    bool is_equal = span.len == strlen(text);

    for (size_t i = 0; is_equal && i < span.len; i++) {
        is_equal = lower(span.text[i]) == lower(text[i]);
    }
    return is_equal;
}

static struct span trim(struct span span)
{
    while (span.len > 0 && is_one_of(span.text[0], " \t")) {
        span.text++;
        span.len--;
    }
    while (span.len > 0 && is_one_of(span.text[span.len - 1], " \t")) {
        span.len--;
    }
    return span;
}

/* What is before the first @p separator; @p rest is what follows it. */
static bool split(struct span *rest, char separator, struct span *ret_first)
{
    const char *at = rest->len > 0 ? memchr(rest->text, separator, rest->len) : NULL;

    if (at == NULL) {
        return false;
    }
    *ret_first = (struct span){rest->text, (size_t)(at - rest->text)};
    rest->text += ret_first->len + 1;
    rest->len -= ret_first->len + 1;
    return true;
}

/* One element of a comma-separated list; false after the last. */
static bool next_element(struct span *rest, struct span *ret_element)
{
    if (rest->text == NULL) {
        return false;
    }
    if (!split(rest, ',', ret_element)) {
        *ret_element = *rest;
        rest->text = NULL;
        rest->len = 0;
    }
    *ret_element = trim(*ret_element);
    return true;
}

static bool list_has(struct span list, const char *text, bool any_case)
{
    struct span element;
    bool found = false;

    while (next_element(&list, &element)) {
        found = found || (any_case ? equals_any_case(element, text) : equals(element, text));
    }
    return found;
}

/* --- the request -------------------------------------------------------- */

static int read_request_line(struct span line)
{
    struct span method, target;

    if (!split(&line, ' ', &method) || !split(&line, ' ', &target)) {
        return BAD_REQUEST;
    }
    if (!equals(line, "HTTP/1.1")) {
        return line.len > 5 && memcmp(line.text, "HTTP/", 5) == 0 ? VERSION_NOT_SUPPORTED
                                                                  : BAD_REQUEST;
    }
    if (!equals(target, TARGET)) {
        return NOT_FOUND;
    }
    return equals(method, "GET") ? SWITCHING_PROTOCOLS : METHOD_NOT_ALLOWED;
}

static void set_once(struct span *field, struct span value, struct fields *fields)
{
    fields->is_bad = fields->is_bad || field->text != NULL;
    *field = value;
}

static void take_field(struct fields *fields, struct span name, struct span value)
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
        fields->has_subprotocol = fields->has_subprotocol || list_has(value, SUBPROTOCOL, false);
    } else if (equals_any_case(name, "Origin")) {
        fields->has_origin = true;
    } else if (equals_any_case(name, "Transfer-Encoding") ||
               (equals_any_case(name, "Content-Length") && !equals(value, "0"))) {
        fields->has_body = true; /* it would be taken for frames */
    }
}

static bool is_token(struct span span)
{
    bool is_valid = span.len > 0;

    for (size_t i = 0; is_valid && i < span.len; i++) {
        is_valid = is_alnum(span.text[i]) || is_one_of(span.text[i], "!#$%&'*+-.^_`|~");
    }
    return is_valid;
}

static bool is_field_value(struct span span)
{
    bool is_valid = true;

    for (size_t i = 0; is_valid && i < span.len; i++) {
        unsigned char c = (unsigned char)span.text[i];
        is_valid = (c >= 0x20 && c != 0x7f) || c == '\t';
    }
    return is_valid;
}

/* Lines end with CR LF; a line that goes on in the next (RFC 9112 section 5.2) is refused. */
static bool read_line(struct span *rest, struct span *ret_line)
{
    if (!split(rest, '\n', ret_line) || ret_line->len == 0 ||
        ret_line->text[ret_line->len - 1] != '\r') {
        return false;
    }
    ret_line->len--;
    return is_field_value(*ret_line);
}

static bool read_fields(struct span rest, struct fields *ret_fields)
{
    struct span line, name;

    memset(ret_fields, 0, sizeof(*ret_fields));
    while (read_line(&rest, &line)) {
        if (line.len == 0) {
            return rest.len == 0 && !ret_fields->is_bad && !ret_fields->has_body;
        }
        if (!split(&line, ':', &name) || !is_token(name)) {
            return false;
        }
        take_field(ret_fields, name, trim(line));
    }
    return false;
}

/* The host of a Host field (RFC 9110 section 7.2); false where it is none. */
static bool read_host(struct span field, char ret_host[WS_HOST_MAX])
{
    size_t len = 0;
    bool is_literal = field.len > 0 && field.text[0] == '[';

    while (len < field.len && (is_literal ? field.text[len] != ']' : field.text[len] != ':')) {
        bool is_valid = is_alnum(field.text[len]) ||
                        is_one_of(field.text[len], is_literal ? "[:.-" : "-._~%!$&'()*+,;=");
        if (!is_valid || (len > 0 && field.text[len] == '[')) {
            return false;
        }
        len++;
    }
    if (is_literal && len == field.len) {
        return false;
    }
    len += is_literal ? 1 : 0;
    if (len >= WS_HOST_MAX || (len < field.len && field.text[len] != ':')) {
        return false;
    }
    for (size_t i = len + 1; i < field.len; i++) {
        if (field.text[i] < '0' || field.text[i] > '9') {
            return false;
        }
    }
    for (size_t i = 0; i < len; i++) {
        ret_host[i] = lower(field.text[i]);
    }
    ret_host[len] = '\0';
    return true;
}

static bool is_key(struct span key)
{
    bool is_valid =
        key.len == KEY_LEN && key.text[KEY_LEN - 1] == '=' && key.text[KEY_LEN - 2] == '=';

    for (size_t i = 0; is_valid && i < KEY_LEN - 2; i++) {
        is_valid = is_alnum(key.text[i]) || is_one_of(key.text[i], "+/");
    }
    return is_valid;
}

/* RFC 6455 section 4.2.2, item 5.4. */
static bool make_accept(struct span key, char ret_accept[WS_ACCEPT_LEN + 1])
{
    char text[KEY_LEN + sizeof(GUID)];
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;

    memcpy(text, key.text, KEY_LEN);
    memcpy(text + KEY_LEN, GUID, sizeof(GUID));
    return EVP_Digest(text, sizeof(text) - 1, digest, &len, EVP_sha1(), NULL) == 1 &&
           EVP_EncodeBlock((unsigned char *)ret_accept, digest, (int)len) == WS_ACCEPT_LEN;
}

int ws_upgrade_read(const char *text, size_t len, struct ws_request *ret_request)
{
    struct span rest = {text, len}, line;
    struct fields fields;
    struct ws_request request;

    if (len > WS_REQUEST_MAX) {
        return FIELDS_TOO_LARGE;
    }
    if (!read_line(&rest, &line)) {
        return BAD_REQUEST;
    }
    int status = read_request_line(line);
    if (status == BAD_REQUEST || status == VERSION_NOT_SUPPORTED) {
        return status;
    }
    if (!read_fields(rest, &fields) || fields.host.text == NULL ||
        !read_host(fields.host, request.host)) {
        return BAD_REQUEST;
    }
    if (status != SWITCHING_PROTOCOLS) {
        return status;
    }
    if (!fields.has_upgrade || !fields.has_connection || fields.version.text == NULL ||
        !equals(fields.version, VERSION)) {
        return UPGRADE_REQUIRED;
    }
    if (fields.key.text == NULL || !is_key(fields.key) || !fields.has_subprotocol) {
        return BAD_REQUEST;
    }
    if (!make_accept(fields.key, request.accept)) {
        return INTERNAL_ERROR;
    }
    request.has_origin = fields.has_origin;
    *ret_request = request;
    return SWITCHING_PROTOCOLS;
}

/* --- the answer --------------------------------------------------------- */

static const char *phrase_of(int status)
{
    switch (status) {
    case BAD_REQUEST:
        return "Bad Request";
    case FORBIDDEN:
        return "Forbidden";
    case NOT_FOUND:
        return "Not Found";
    case METHOD_NOT_ALLOWED:
        return "Method Not Allowed\r\nAllow: GET";
    case UPGRADE_REQUIRED:
        return "Upgrade Required\r\nUpgrade: websocket\r\nSec-WebSocket-Version: " VERSION;
    case FIELDS_TOO_LARGE:
        return "Request Header Fields Too Large";
    case VERSION_NOT_SUPPORTED:
        return "HTTP Version Not Supported";
    default:
        return "Internal Server Error";
    }
}

size_t ws_upgrade_answer(int status, const struct ws_request *request,
                         char ret_answer[WS_ANSWER_MAX])
{
    int len = status == SWITCHING_PROTOCOLS
                  ? snprintf(ret_answer, WS_ANSWER_MAX,
                             "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                             "Connection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n"
                             "Sec-WebSocket-Protocol: " SUBPROTOCOL "\r\n\r\n",
                             request->accept)
                  : snprintf(ret_answer, WS_ANSWER_MAX,
                             "HTTP/1.1 %d %s\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
                             status, phrase_of(status));

    return len > 0 && len < WS_ANSWER_MAX ? (size_t)len : 0;
}
