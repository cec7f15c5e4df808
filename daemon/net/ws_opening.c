/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/ws_opening.h"

#include <openssl/evp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* ---- heads of HTTP/1.1 ---- */

#define WS_PATH "/.well-known/coap" /* RFC 8323 section 8.3 */
#define WS_SUBPROTOCOL "coap"       /* RFC 8323 section 4.1 */
#define WS_VERSION "13"
#define WS_KEY_LEN 24 /* 16 bytes in base64 */

/* Borrowed text of a head. */
struct ws_span {
    const char *text;
    size_t len;
};

/* The values of the header fields; text NULL: absent. */
struct ws_fields {
    struct ws_span host, key, version, accept; /* each may be there once */
    bool has_upgrade;                          /* to websocket */
    bool has_connection;                       /* upgrade */
    bool has_subprotocol;                      /* coap */
    bool has_others;                           /* other subprotocols, or coap twice */
    bool has_extensions;
    bool has_body; /* the bytes after it would be taken for frames */
    bool has_origin;
    bool is_bad; /* one of those that may be there once is there twice */
};

#define GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

static char ws_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

static bool ws_is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (ws_lower(c) >= 'a' && ws_lower(c) <= 'z');
}

/* @p c is one of @p set, and not NUL. */
static bool ws_is_one_of(char c, const char *set)
{
    return c != '\0' && strchr(set, c) != NULL;
}

static bool ws_equals(struct ws_span span, const char *text)
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
static bool ws_split(struct ws_span *rest, char separator, struct ws_span *ret_first)
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
static bool ws_read_line(struct ws_span *rest, struct ws_span *ret_line)
{
    if (!ws_split(rest, '\n', ret_line) || ret_line->len == 0 ||
        ret_line->text[ret_line->len - 1] != '\r') {
        return false;
    }
    ret_line->len--;
    return is_field_value(*ret_line);
}

/* The fields after the first line, and the empty line with nothing behind it; or false. */
static bool ws_read_fields(struct ws_span rest, struct ws_fields *ret_fields)
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

/*
 * Sec-WebSocket-Accept for a key (RFC 6455 section 4.2.2, item 5.4), NUL-terminated.
 *
 * @param key WS_KEY_LEN bytes.
 * @return false where OpenSSL has no memory
 */
static bool ws_make_accept(const char *key, char ret_accept[WS_ACCEPT_LEN + 1])
{
    char text[WS_KEY_LEN + sizeof(GUID)];
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;

    memcpy(text, key, WS_KEY_LEN);
    memcpy(text + WS_KEY_LEN, GUID, sizeof(GUID));
    return EVP_Digest(text, sizeof(text) - 1, digest, &len, EVP_sha1(), NULL) == 1 &&
           EVP_EncodeBlock((unsigned char *)ret_accept, digest, (int)len) == WS_ACCEPT_LEN;
}

/* ---- the side that asks ---- */

/* A name of 255 bytes, percent-encoded, or an address; a port. */
#define HOST_FIELD_MAX (3 * 255 + sizeof ":65535")

/* --- the request -------------------------------------------------------- */

/*
 * The name as the authority of a URI has it (RFC 3986 section 3.2.2): no byte of it ends
 * the field or begins another.
 */
static bool write_name(const char *name, char ret_text[HOST_FIELD_MAX])
{
    static const char digits[] = "0123456789ABCDEF";
    size_t len = 0;

    for (; *name != '\0'; name++) {
        unsigned char c = (unsigned char)*name;
        if (len + 3 >= HOST_FIELD_MAX) {
            return false;
        }
        if (ws_is_alnum(*name) || ws_is_one_of(*name, "-._~!$&'()*+,;=")) {
            ret_text[len++] = *name;
        } else {
            ret_text[len++] = '%';
            ret_text[len++] = digits[c >> 4];
            ret_text[len++] = digits[c & 15];
        }
    }
    ret_text[len] = '\0';
    return true;
}

/* Without the zone, which means something on this host only (RFC 6874 section 3). */
static void write_address(const struct address *address, char ret_text[HOST_FIELD_MAX])
{
    struct address plain = *address;
    char text[ADDRESS_TEXT_MAX];

    plain.scope = 0;
    (void)snprintf(ret_text, HOST_FIELD_MAX, "%s", address_format(&plain, text));
    char *port = strrchr(ret_text, ':');
    if (port != NULL) {
        *port = '\0';
    }
}

static bool write_host(const char *name, const struct address *address, uint16_t default_port,
                       char ret_text[HOST_FIELD_MAX])
{
    if (name == NULL) {
        write_address(address, ret_text);
    } else if (!write_name(name, ret_text)) {
        return false;
    }
    size_t len = strlen(ret_text);
    if (address->port == default_port) {
        return true;
    }
    int more = snprintf(ret_text + len, HOST_FIELD_MAX - len, ":%u", address->port);
    return more > 0 && (size_t)more < HOST_FIELD_MAX - len;
}

size_t ws_opening_write(const char *name, const struct address *address, uint16_t default_port,
                        const uint8_t nonce[WS_NONCE_LEN], char ret_request[WS_OPENING_MAX],
                        char ret_accept[WS_ACCEPT_LEN + 1])
{
    char host[HOST_FIELD_MAX];
    unsigned char key[WS_KEY_LEN + 1];

    if (!write_host(name, address, default_port, host) ||
        EVP_EncodeBlock(key, nonce, WS_NONCE_LEN) != WS_KEY_LEN ||
        !ws_make_accept((const char *)key, ret_accept)) {
        return 0;
    }
    int len = snprintf(ret_request, WS_OPENING_MAX,
                       "GET " WS_PATH " HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\n"
                       "Connection: Upgrade\r\nSec-WebSocket-Key: %s\r\n"
                       "Sec-WebSocket-Version: " WS_VERSION "\r\n"
                       "Sec-WebSocket-Protocol: " WS_SUBPROTOCOL "\r\n\r\n",
                       host, (const char *)key);
    return len > 0 && len < WS_OPENING_MAX ? (size_t)len : 0;
}

/* --- the answer --------------------------------------------------------- */

/* The status of "HTTP/1.1 101 Switching Protocols"; 0 if it is malformed. The text after the number
 * may be missing (RFC 9112 section 4). */
static int read_status_line(struct ws_span line)
{
    static const char version[] = "HTTP/1.1 ";
    const size_t head = sizeof version - 1;
    int status = 0;

    if (line.len < head + 3 || memcmp(line.text, version, head) != 0 ||
        (line.len > head + 3 && line.text[head + 3] != ' ')) {
        return 0;
    }
    for (size_t i = head; i < head + 3; i++) {
        if (line.text[i] < '0' || line.text[i] > '9') {
            return 0;
        }
        status = 10 * status + (line.text[i] - '0');
    }
    return status;
}

static const char *why_of_status(int status)
{
    switch (status) {
    case 400:
        return "HTTP 400: bad request";
    case 401:
        return "HTTP 401: authentication asked for";
    case 403:
        return "HTTP 403: forbidden";
    case 404:
        return "HTTP 404: no CoAP over WebSockets there";
    case 407:
        return "HTTP 407: authentication asked for";
    case 426:
        return "HTTP 426: another version of WebSockets asked for";
    case 429:
        return "HTTP 429: too many requests";
    case 502:
    case 504:
        return "HTTP 502 or 504: a gateway does not reach the origin server";
    case 503:
        return "HTTP 503: not available";
    default:
        break;
    }
    return status / 100 == 3   ? "HTTP 3xx: redirections are not followed"
           : status / 100 == 4 ? "HTTP 4xx"
           : status / 100 == 5 ? "HTTP 5xx"
                               : "not a WebSocket";
}

/* RFC 6455 section 4.1, the list about the answer; NULL: all is well. */
static const char *fault_of(const struct ws_fields *fields, const char *accept)
{
    if (!fields->has_upgrade || !fields->has_connection || fields->has_body) {
        return "upgraded to something else than a WebSocket";
    }
    if (fields->accept.text == NULL || !ws_equals(fields->accept, accept)) {
        return "wrong Sec-WebSocket-Accept";
    }
    if (fields->has_extensions) {
        return "WebSocket extension that was not offered";
    }
    if (!fields->has_subprotocol || fields->has_others) {
        return "no subprotocol coap"; /* RFC 8323 section 4.1 */
    }
    return NULL;
}

enum ws_opening ws_opening_read(const char *text, size_t len, const char *accept,
                                const char **ret_why)
{
    struct ws_span rest = {text, len}, line;
    struct ws_fields fields;

    int status = len <= WS_HEAD_MAX && ws_read_line(&rest, &line) ? read_status_line(line) : 0;
    if (status < 100 || !ws_read_fields(rest, &fields)) {
        *ret_why = "not an answer of HTTP/1.1";
        return WS_OPENING_REFUSED;
    }
    if (status == 101) {
        const char *fault = fault_of(&fields, accept);
        if (fault != NULL) {
            *ret_why = fault;
        }
        return fault == NULL ? WS_OPENING_DONE : WS_OPENING_REFUSED;
    }
    if (status < 200) {
        return WS_OPENING_AGAIN;
    }
    *ret_why = why_of_status(status);
    return WS_OPENING_REFUSED;
}

/* ---- the side that accepts ---- */

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

/* --- the request -------------------------------------------------------- */

static int read_request_line(struct ws_span line)
{
    struct ws_span method, target;

    if (!ws_split(&line, ' ', &method) || !ws_split(&line, ' ', &target)) {
        return BAD_REQUEST;
    }
    if (!ws_equals(line, "HTTP/1.1")) {
        return line.len > 5 && memcmp(line.text, "HTTP/", 5) == 0 ? VERSION_NOT_SUPPORTED
                                                                  : BAD_REQUEST;
    }
    if (!ws_equals(target, WS_PATH)) {
        return NOT_FOUND;
    }
    return ws_equals(method, "GET") ? SWITCHING_PROTOCOLS : METHOD_NOT_ALLOWED;
}

/* The host of a Host field (RFC 9110 section 7.2); false if it is malformed. */
static bool read_host(struct ws_span field, char ret_host[WS_HOST_MAX])
{
    size_t len = 0;
    bool is_literal = field.len > 0 && field.text[0] == '[';

    while (len < field.len && (is_literal ? field.text[len] != ']' : field.text[len] != ':')) {
        bool is_valid = ws_is_alnum(field.text[len]) ||
                        ws_is_one_of(field.text[len], is_literal ? "[:.-" : "-._~%!$&'()*+,;=");
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
        ret_host[i] = ws_lower(field.text[i]);
    }
    ret_host[len] = '\0';
    return true;
}

static bool is_key(struct ws_span key)
{
    bool is_valid =
        key.len == WS_KEY_LEN && key.text[WS_KEY_LEN - 1] == '=' && key.text[WS_KEY_LEN - 2] == '=';

    for (size_t i = 0; is_valid && i < WS_KEY_LEN - 2; i++) {
        is_valid = ws_is_alnum(key.text[i]) || ws_is_one_of(key.text[i], "+/");
    }
    return is_valid;
}

int ws_upgrade_read(const char *text, size_t len, struct ws_request *ret_request)
{
    struct ws_span rest = {text, len}, line;
    struct ws_fields fields;
    struct ws_request request;

    if (len > WS_HEAD_MAX) {
        return FIELDS_TOO_LARGE;
    }
    if (!ws_read_line(&rest, &line)) {
        return BAD_REQUEST;
    }
    int status = read_request_line(line);
    if (status == BAD_REQUEST || status == VERSION_NOT_SUPPORTED) {
        return status;
    }
    if (!ws_read_fields(rest, &fields) || fields.has_body || fields.host.text == NULL ||
        !read_host(fields.host, request.host)) {
        return BAD_REQUEST;
    }
    if (status != SWITCHING_PROTOCOLS) {
        return status;
    }
    if (!fields.has_upgrade || !fields.has_connection || fields.version.text == NULL ||
        !ws_equals(fields.version, WS_VERSION)) {
        return UPGRADE_REQUIRED;
    }
    if (fields.key.text == NULL || !is_key(fields.key) || !fields.has_subprotocol) {
        return BAD_REQUEST;
    }
    if (!ws_make_accept(fields.key.text, request.accept)) {
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
        return "Upgrade Required\r\nUpgrade: websocket\r\nSec-WebSocket-Version: " WS_VERSION;
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
                             "Sec-WebSocket-Protocol: " WS_SUBPROTOCOL "\r\n\r\n",
                             request->accept)
                  : snprintf(ret_answer, WS_ANSWER_MAX,
                             "HTTP/1.1 %d %s\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
                             status, phrase_of(status));

    return len > 0 && len < WS_ANSWER_MAX ? (size_t)len : 0;
}
