/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/ws_upgrade.h"

#include <stdio.h>
#include <string.h>

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

    if (len > WS_REQUEST_MAX) {
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
