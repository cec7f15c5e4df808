/* SPDX-License-Identifier: BSD-2-Clause */
/* The head of an answer (RFC 8075 section 7; docs/CONFORMANCE.md, HC-7 and HC-8). */
#include "base/base64.h"
#include "client/http_front.h"
#include "client/http_status.h"
#include "coap/media.h"
#include "coap/option.h"
#include "conf/config.h"
#include "net/entropy.h"

#include <cri/cri.h>
#include <cri/uri.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define DEFAULT_MAX_AGE_S 60u

void http_put(struct http_text *text, const char *format, ...)
{
    va_list values;
    size_t room = sizeof(text->data) - text->len;
    va_start(values, format);
    int len = vsnprintf(text->data + text->len, room, format, values);
    va_end(values);
    if (len < 0 || (size_t)len >= room) {
        text->is_full = true;
    } else {
        text->len += (size_t)len;
    }
}

void http_put_start(struct http_text *text, const struct config *config, const char *date,
                    int status, const char *phrase, const char *origin)
{
    text->len = 0;
    text->is_full = false;
    http_put(text, "HTTP/1.1 %d %s\r\nDate: %s\r\nVia: 1.1 %s (criproxyd %s)\r\n", status, phrase,
             date, config->proxy_name, process_token());
    /* What a device sends is never a page of the proxy's own. */
    http_put(text, "X-Content-Type-Options: nosniff\r\n"
                   "Content-Security-Policy: default-src 'none'; sandbox\r\n");
    if (origin[0] != '\0') {
        http_put(text,
                 "Access-Control-Allow-Origin: %s\r\nAccess-Control-Expose-Headers: ETag, "
                 "Location, Retry-After\r\nVary: Origin, Accept\r\n",
                 origin);
    } else {
        /* Where pages are served, a cache must not give them what was asked for without a page. */
        http_put(text, "Cross-Origin-Resource-Policy: same-origin\r\nVary: %s\r\n",
                 config->http_origins.count > 0 ? "Origin, Accept" : "Accept");
    }
}

/* --- of the CoAP answer ------------------------------------------------------ */

/* The Content-Format of an answer; MEDIA_NONE if it has none. */
static uint32_t http_format_of(const struct reply *reply)
{
    struct bytes value;
    return option_find(reply->options, OPTION_content_format, &value) ? option_uint(value)
                                                                      : MEDIA_NONE;
}

/* Max-Age of an answer in seconds, less its age; 60 where it has none (RFC 7252 section 5.10.5).
 */
static uint32_t http_max_age_of(const struct reply *reply)
{
    struct bytes value;
    if (reply->is_aged || reply->max_age_s > 0) {
        return reply->max_age_s;
    }
    return option_find(reply->options, OPTION_max_age, &value) ? option_uint(value)
                                                               : DEFAULT_MAX_AGE_S;
}

/* "Content-Type", and "Content-Encoding" where there is one. */
static void put_media_fields(struct http_text *text, const struct config *config,
                             const struct reply *reply)
{
    uint32_t format = http_format_of(reply);
    const struct media_row *row = media_by_number(config->media_own, format);
    if (row != NULL) {
        http_put(text, "Content-Type: %s\r\n", row->type);
        if (row->coding[0] != '\0') {
            http_put(text, "Content-Encoding: %s\r\n", row->coding);
        }
    } else if (format != MEDIA_NONE) {
        http_put(text, "Content-Type: application/coap-payload;cf=%" PRIu32 "\r\n", format);
    } else if (CODE_CLASS(reply->code) != 2) {
        http_put(text, "Content-Type: text/plain;charset=utf-8\r\n"); /* a diagnostic payload */
    }
}

static void put_etag(struct http_text *text, const struct reply *reply)
{
    struct bytes tag;
    if (CODE_CLASS(reply->code) != 2 || !option_find(reply->options, OPTION_etag, &tag)) {
        return;
    }
    http_put(text, "ETag: \"");
    for (size_t i = 0; i < tag.len; i++) {
        http_put(text, "%02x", tag.data[i]);
    }
    http_put(text, "\"\r\n");
}

/* How long it may be used. 2.01, 2.02 and 2.04 are not stored (RFC 7252 section 5.9.1), nor is what
 * the proxy itself says: it may be otherwise the next time. */
static void put_freshness(struct http_text *text, const struct http_exchange *exchange,
                          const struct reply *reply, int status)
{
    bool is_stored = reply->code == CODE(2, 5) || reply->code == CODE(2, 3);
    uint32_t max_age_s = http_max_age_of(reply);
    if (status == 429 || status == 503) {
        http_put(text, "Retry-After: %" PRIu32 "\r\nCache-Control: no-store\r\n", max_age_s);
    } else if (reply->is_own || (CODE_CLASS(reply->code) == 2 && !is_stored)) {
        http_put(text, "Cache-Control: no-store\r\n");
    } else {
        http_put(text, "Cache-Control: %smax-age=%" PRIu32 "\r\n",
                 exchange->is_private || !is_stored ? "private, " : "", max_age_s);
    }
}

/* --- Location ------------------------------------------------------------------- */

static bool is_path_byte(uint8_t byte)
{
    return (byte >= '0' && byte <= '9') || ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z') ||
           (byte != '\0' && strchr("-._~!$&'()*+,;=:@", byte) != NULL);
}

/* Room is checked by the caller's limit: each byte becomes three at most. */
static size_t put_segment(char *text, char separator, struct bytes segment, bool is_query)
{
    size_t len = 0;
    text[len++] = separator;
    for (size_t i = 0; i < segment.len; i++) {
        uint8_t byte = segment.data[i];
        if (is_path_byte(byte) && !(is_query && byte == '&')) {
            text[len++] = (char)byte;
        } else {
            len += (size_t)snprintf(text + len, 4, "%%%02X", byte);
        }
    }
    return len;
}

/* RFC 7252 section 5.10.7: no Location-Path is one of these. */
static bool is_dots(struct bytes segment)
{
    return (segment.len == 1 || segment.len == 2) && segment.data[0] == '.' &&
           segment.data[segment.len - 1] == '.';
}

/* The target's scheme and authority, if it has one, with the path and query of Location-*; 0: there
 * are none. */
static size_t location_uri(const struct http_exchange *exchange, const struct reply *reply,
                           char uri[HTTP_URI_MAX + 1])
{
    const char *authority = strstr(exchange->target, "://");
    size_t len = authority != NULL ? 3 + (size_t)(authority - exchange->target) : 0;
    len += len > 0 ? strcspn(exchange->target + len, "/?") : 0;
    struct option_iter iter;
    struct option option;
    bool has_path = false, has_query = false, is_own = exchange->target[0] == '/';
    memcpy(uri, exchange->target, len);
    option_iter_init(&iter, reply->options);
    while ((len > 0 || is_own) && option_iter_next(&iter, &option)) {
        bool is_query = option.number == OPTION_location_query;
        if ((option.number != OPTION_location_path && !is_query) ||
            option.value.len * 3 + 8 > HTTP_URI_MAX - len) {
            continue;
        }
        if (!is_query && is_dots(option.value)) {
            return 0; /* an HTTP client would resolve them, to another device perhaps */
        }
        char separator = !is_query ? '/' : has_query ? '&' : '?';
        len += put_segment(uri + len, separator, option.value, is_query);
        has_path = true;
        has_query = has_query || is_query;
    }
    uri[len] = '\0';
    bool is_host = is_own && len > 1 && uri[1] == '/'; /* "//other.example": another origin */
    return has_path && !is_host ? len : 0;
}

static void put_location(struct http_text *text, const struct config *config,
                         const struct http_exchange *exchange, const struct reply *reply)
{
    const struct http_mapping mapping = {.prefix = config->http_prefix,
                                         .template = config->http_template,
                                         .schemes = &config->scheme_table};
    char uri[HTTP_URI_MAX + 1], mapped[HTTP_MAPPED_MAX];
    if (location_uri(exchange, reply, uri) == 0) {
        return;
    }
    /* A query alone is relative to what was asked for, in HTTP as it is here (RFC 9110 10.2.2). */
    if (exchange->is_absolute || uri[0] == '/' || uri[0] == '?') {
        http_put(text, "Location: %s\r\n", uri);
    } else if (http_uri_host(&mapping, uri, mapped) > 0) {
        http_put(text, "Location: %s\r\n", mapped);
    }
}

void http_put_answer(struct http_text *text, const struct config *config, const char *date,
                     const struct http_exchange *exchange, const struct reply *reply, int status)
{
    bool is_method = reply->code == CODE(4, 5); /* RFC 8075 section 7, note 7 */
    http_put_start(text, config, date, status,
                   is_method ? "CoAP server returned 4.05" : http_status_phrase(status),
                   exchange->origin);
    put_etag(text, reply);
    put_freshness(text, exchange, reply, status);
    if (reply->code == CODE(2, 1)) {
        put_location(text, config, exchange, reply);
    }
    if (reply->payload.len > 0 && status != 304) {
        put_media_fields(text, config, reply);
    }
}

/* --- http event --------------------------------------------------------- */

/* An answer as an event of text/event-stream (HTML, "Server-sent events"; HC-11). */

/* Of a scheme and an authority with an address. */
#define MEMBER_URI_MAX 128u

struct event_text {
    char *text; /* NULL: only counted */
    size_t len, capacity;
};

static void event_put(struct event_text *out, const void *data, size_t len)
{
    if (len > 0 && out->text != NULL && len <= out->capacity - out->len) {
        memcpy(out->text + out->len, data, len);
    }
    out->len += len;
}

static void event_put_text(struct event_text *out, const char *text)
{
    event_put(out, text, strlen(text));
}

/* Well-formed UTF-8 (RFC 3629 section 4) without NUL, which ends the field for some readers. */
static bool is_utf8_text(struct bytes text)
{
    size_t i = 0;
    while (i < text.len) {
        uint8_t first = text.data[i];
        size_t more = first < 0x80 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
        uint8_t least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
        uint8_t most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
        if (first == 0 || (first >= 0x80 && first < 0xc2) || first > 0xf4 || text.len - i <= more) {
            return false;
        }
        for (size_t k = 1; k <= more; k++) {
            uint8_t byte = text.data[i + k];
            if (byte < (k == 1 ? least : 0x80) || byte > (k == 1 ? most : 0xbf)) {
                return false;
            }
        }
        i += 1 + more;
    }
    return true;
}

/* A line of data for each line of the text, whichever way those end. */
static void put_lines(struct event_text *out, struct bytes text)
{
    size_t at = 0;
    do {
        size_t end = at;
        while (end < text.len && text.data[end] != '\n' && text.data[end] != '\r') {
            end++;
        }
        event_put_text(out, "data: ");
        event_put(out, text.data + at, end - at);
        event_put_text(out, "\n");
        bool is_crlf = end + 1 < text.len && text.data[end] == '\r' && text.data[end + 1] == '\n';
        at = end + (is_crlf ? 2 : 1);
    } while (at <= text.len);
}

static void put_base64(struct event_text *out, struct bytes payload)
{
    char four[4];
    for (size_t i = 0; i < payload.len; i += 3) {
        base64_encode(payload.data + i, payload.len - i < 3 ? payload.len - i : 3, four);
        event_put(out, four, sizeof(four));
    }
}

/* What is no text, as one line of JSON. A media type has no byte but '"' that JSON escapes. */
static void put_binary(struct event_text *out, struct bytes payload, uint32_t format,
                       const struct media_row *row)
{
    char number[16];
    event_put_text(out, "data: {\"media\":\"");
    if (row != NULL) {
        for (const char *at = row->type; *at != '\0'; at++) {
            event_put(out, "\\", *at == '"' ? 1 : 0);
            event_put(out, at, 1);
        }
    } else if (format != MEDIA_NONE) {
        (void)snprintf(number, sizeof(number), "%" PRIu32, format);
        event_put_text(out, "application/coap-payload;cf=");
        event_put_text(out, number);
    }
    if (row != NULL && row->coding[0] != '\0') {
        event_put_text(out, "\",\"coding\":\"");
        event_put_text(out, row->coding);
    }
    event_put_text(out, "\",\"base64\":\"");
    put_base64(out, payload);
    event_put_text(out, "\"}\n");
}

/* "id: coap://192.0.2.5": the member of a group that has answered. */
static void put_member(struct event_text *out, const struct reply *reply)
{
    struct bytes value;
    struct cri cri;
    char uri[MEMBER_URI_MAX];
    size_t len = 0;
    if (!option_find(reply->options, OPTION_reply_from, &value)) {
        return;
    }
    const struct cri_slice encoded = {value.data, value.len};
    if (cri_decode(encoded, NULL, &cri, NULL) == CRI_OK &&
        cri_uri_format(&cri, NULL, uri, sizeof(uri), &len, NULL) == CRI_OK) {
        event_put_text(out, "id: ");
        event_put(out, uri, len);
        event_put_text(out, "\n");
    }
}

size_t http_event_format(const struct media_own *own, const struct reply *reply, bool is_member,
                         char *text, size_t capacity)
{
    struct event_text out = {.text = text, .capacity = capacity};
    uint32_t format = http_format_of(reply);
    bool is_text = format == MEDIA_NONE ? CODE_CLASS(reply->code) != 2 : media_is_text(own, format);
    char head[64];
    (void)snprintf(head, sizeof(head), "event: %u.%02u\n", CODE_CLASS(reply->code),
                   CODE_DETAIL(reply->code));
    event_put_text(&out, head);
    if (is_member) {
        put_member(&out, reply);
    } else if (reply->has_observe) {
        (void)snprintf(head, sizeof(head), "id: %" PRIu32 "\n", reply->observe);
        event_put_text(&out, head);
    } else if (CODE_CLASS(reply->code) == 2) {
        /* Nothing more will come: the client asks again when this is not fresh any more. */
        uint64_t wait_s = http_max_age_of(reply);
        (void)snprintf(head, sizeof(head), "retry: %" PRIu64 "\n",
                       (wait_s > 0 ? wait_s : 1) * 1000u);
        event_put_text(&out, head);
    }
    if (is_text && is_utf8_text(reply->payload)) {
        put_lines(&out, reply->payload);
    } else {
        put_binary(&out, reply->payload, format, media_by_number(own, format));
    }
    event_put_text(&out, "\n");
    return out.len;
}
