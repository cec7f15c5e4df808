/* SPDX-License-Identifier: BSD-2-Clause */
#include "ops/http.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* A range of the request. */
struct text {
    const char *at;
    size_t len;
};

static bool equals(struct text text, const char *word)
{
    return text.len == strlen(word) && memcmp(text.at, word, text.len) == 0;
}

static bool equals_any_case(struct text text, const char *word)
{
    return text.len == strlen(word) && strncasecmp(text.at, word, text.len) == 0;
}

/* Up to the next @p end, which is taken away too; false where there is none. */
static bool cut(struct text *text, char end, struct text *ret_part)
{
    const char *found = memchr(text->at, end, text->len);

    if (found == NULL) {
        return false;
    }
    *ret_part = (struct text){text->at, (size_t)(found - text->at)};
    text->at = found + 1;
    text->len -= ret_part->len + 1;
    return true;
}

static struct text trim(struct text text)
{
    while (text.len > 0 && (text.at[0] == ' ' || text.at[0] == '\t')) {
        text.at++;
        text.len--;
    }
    while (text.len > 0 && (text.at[text.len - 1] == ' ' || text.at[text.len - 1] == '\t')) {
        text.len--;
    }
    return text;
}

/* The next line without its CRLF. A bare LF is refused, and with it control bytes (section 2.2). */
static bool take_line(struct text *head, struct text *ret_line)
{
    if (!cut(head, '\n', ret_line) || ret_line->len == 0 ||
        ret_line->at[ret_line->len - 1] != '\r') {
        return false;
    }
    ret_line->len--;
    for (size_t i = 0; i < ret_line->len; i++) {
        unsigned char c = (unsigned char)ret_line->at[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            return false;
        }
    }
    return true;
}

/* "GET /metrics?x HTTP/1.1" (section 3). */
static bool parse_request_line(struct text line, struct http_request *request)
{
    struct text method, target, path;

    if (!cut(&line, ' ', &method) || !cut(&line, ' ', &target) || method.len == 0 ||
        target.len == 0 || target.at[0] != '/') {
        return false;
    }
    if (!equals(line, "HTTP/1.1") && !equals(line, "HTTP/1.0")) {
        return false;
    }
    request->method = equals(method, "GET")    ? HTTP_GET
                      : equals(method, "HEAD") ? HTTP_HEAD
                                               : HTTP_OTHER;
    request->keep_alive = equals(line, "HTTP/1.1");
    if (!cut(&target, '?', &path)) {
        path = target;
    }
    if (path.len >= sizeof(request->path)) {
        return false;
    }
    memcpy(request->path, path.at, path.len);
    request->path[path.len] = '\0';
    return true;
}

/* Whoever announces a body is refused: it would be taken for the next request. */
static bool parse_field(struct text line, struct http_request *request)
{
    struct text name;

    if (!cut(&line, ':', &name) || name.len == 0 || memchr(name.at, ' ', name.len) != NULL ||
        memchr(name.at, '\t', name.len) != NULL) {
        return false;
    }
    struct text value = trim(line);
    if (equals_any_case(name, "transfer-encoding")) {
        return false;
    }
    if (equals_any_case(name, "content-length")) {
        return equals(value, "0");
    }
    if (equals_any_case(name, "connection") && equals_any_case(value, "close")) {
        request->keep_alive = false;
    }
    return true;
}

enum http_verdict http_parse(const uint8_t *data, size_t len, size_t *ret_used,
                             struct http_request *ret_request)
{
    static const char end[] = "\r\n\r\n";
    size_t seen = len < HTTP_REQUEST_MAX ? len : HTTP_REQUEST_MAX;
    const uint8_t *found = memmem(data, seen, end, sizeof(end) - 1);
    struct http_request request = {.method = HTTP_OTHER};
    struct text line;

    if (found == NULL) {
        return len < HTTP_REQUEST_MAX ? HTTP_MORE : HTTP_BAD;
    }
    struct text head = {(const char *)data, (size_t)(found - data) + 2};
    if (!take_line(&head, &line) || !parse_request_line(line, &request)) {
        return HTTP_BAD;
    }
    while (head.len > 0) {
        if (!take_line(&head, &line) || !parse_field(line, &request)) {
            return HTTP_BAD;
        }
    }
    *ret_used = (size_t)(found - data) + sizeof(end) - 1;
    *ret_request = request;
    return HTTP_OK;
}

static const char *status_text(unsigned status)
{
    switch (status) {
    case 200:
        return "OK";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 500:
        return "Internal Server Error";
    case 503:
        return "Service Unavailable";
    default:
        return "Bad Request";
    }
}

size_t http_format_head(char head[HTTP_HEAD_MAX], unsigned status, const char *type,
                        size_t body_len, bool keep_alive)
{
    int len = snprintf(head, HTTP_HEAD_MAX,
                       "HTTP/1.1 %u %s\r\n"
                       "Content-Type: %s\r\n"
                       "Content-Length: %zu\r\n"
                       "Cache-Control: no-store\r\n"
                       "X-Content-Type-Options: nosniff\r\n"
                       "%s%s\r\n",
                       status, status_text(status), type, body_len,
                       status == 405 ? "Allow: GET, HEAD\r\n" : "",
                       keep_alive ? "" : "Connection: close\r\n");

    return len > 0 && (size_t)len < HTTP_HEAD_MAX ? (size_t)len : 0;
}
