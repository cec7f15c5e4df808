/* SPDX-License-Identifier: BSD-2-Clause */
#include "coap/http_request.h"

#include "coap/media.h"
#include "coap/option.h"

#include <stdio.h>

/* More validators than this are left out: a client that has them gets the representation. */
#define TAGS_SENT_MAX 16u

struct request_text {
    char *at;
    size_t left; /* the NUL included */
    bool is_full;
};

/* No printf here: it would take most of the time of a request. */
static void put_request_bytes(struct request_text *text, const char *bytes, size_t len)
{
    if (len >= text->left) {
        text->is_full = true;
        return;
    }
    memcpy(text->at, bytes, len);
    text->at += len;
    text->left -= len;
}

static void request_put(struct request_text *text, const char *words)
{
    put_request_bytes(text, words, strlen(words));
}

static void put_request_number(struct request_text *text, uint32_t number)
{
    char digits[10];
    size_t at = sizeof(digits);
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    put_request_bytes(text, digits + at, sizeof(digits) - at);
}

static void put_url_byte(struct request_text *text, uint8_t byte)
{
    if (text->left < 2) {
        text->is_full = true;
        return;
    }
    *text->at++ = (char)byte;
    text->left--;
}

/* --- the URL -------------------------------------------------------------- */

/* Percent-encoded but for unreserved characters and those of @p also. */
static void put_encoded(struct request_text *text, struct bytes bytes, const char *also)
{
    for (size_t i = 0; i < bytes.len; i++) {
        uint8_t c = bytes.data[i];
        bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        (c >= '0' && c <= '9') ||
                        (c != '\0' && c < 0x80 && strchr(also, c) != NULL);
        if (is_plain) {
            put_url_byte(text, c);
        } else {
            const char encoded[] = {'%', "0123456789ABCDEF"[c >> 4], "0123456789ABCDEF"[c & 15]};
            put_request_bytes(text, encoded, sizeof(encoded));
        }
    }
}

/* As "." and "..", or with path parameters behind, as "..;a": some servers drop those first. */
static bool is_dot_part(struct bytes part)
{
    size_t dots = 0;
    while (dots < part.len && part.data[dots] == '.') {
        dots++;
    }
    return (dots == 1 || dots == 2) && (dots == part.len || part.data[dots] == ';');
}

/*
 * Whether a server may take the segment for several, although it is percent-encoded: many decode
 * %2F before they look for dot-segments, take a backslash for a slash, and end at a NUL. Access
 * rules have judged the segment as it is.
 */
static bool is_misread(struct bytes segment, bool may_have_slash)
{
    size_t begin = 0;
    for (size_t i = 0; i <= segment.len; i++) {
        bool is_end = i == segment.len || segment.data[i] == '/';
        if (is_end && is_dot_part((struct bytes){segment.data + begin, i - begin})) {
            return true;
        }
        if (i < segment.len &&
            (segment.data[i] == '\0' || segment.data[i] == '\\' || (is_end && !may_have_slash))) {
            return true;
        }
        begin = is_end ? i + 1 : begin;
    }
    return false;
}

static bool has_misread_path(const struct http_request_source *source)
{
    struct option_iter iter;
    struct option option;
    option_iter_init(&iter, source->message->options);
    while (option_iter_next(&iter, &option) && option.number <= OPTION_uri_path) {
        if (option.number == OPTION_uri_path &&
            is_misread(option.value, source->may_have_slashes)) {
            return true;
        }
    }
    return false;
}

static void put_authority(struct request_text *text, const struct http_request_source *source)
{
    char ip[ADDRESS_IP_TEXT_MAX];
    bool is_ipv6 = source->address->family == ADDRESS_IPV6;
    if (source->host != NULL) {
        put_encoded(text, (struct bytes){(const uint8_t *)source->host, strlen(source->host)},
                    "-._");
    } else {
        request_put(text, is_ipv6 ? "[" : "");
        request_put(text, address_format_ip(source->address, ip));
        request_put(text, is_ipv6 ? "]" : "");
    }
    if (source->address->port != transport_row(source->scheme->transport)->default_port) {
        request_put(text, ":");
        put_request_number(text, source->address->port);
    }
}

/* RFC 7252 section 6.5, for paths and queries. */
static void put_url(struct request_text *text, const struct http_request_source *source)
{
    struct option_iter iter;
    struct option option;
    char mark = '?';
    bool has_path = false;
    request_put(text, transport_row(source->scheme->transport)->scheme);
    request_put(text, "://");
    put_authority(text, source);
    option_iter_init(&iter, source->message->options);
    while (option_iter_next(&iter, &option) && option.number <= OPTION_uri_query) {
        if (option.number == OPTION_uri_path) {
            request_put(text, "/");
            put_encoded(text, option.value, "-._~!$&'()*+,;=:@");
            has_path = true;
        } else if (option.number == OPTION_uri_query) {
            request_put(text, has_path ? "" : "/");
            put_request_bytes(text, &mark, 1);
            put_encoded(text, option.value, "-._~!$'()*+,;=:@/?");
            mark = '&';
            has_path = true;
        }
    }
    request_put(text, has_path ? "" : "/");
    put_request_bytes(text, "", 1);
}

/* --- the fields ------------------------------------------------------------ */

static void begin_field(struct request_text *text, struct http_request *request)
{
    if (request->field_count < HTTP_REQUEST_FIELDS_MAX) {
        request->fields[request->field_count++] = text->at;
    } else {
        text->is_full = true;
    }
}

static void end_field(struct request_text *text)
{
    put_request_bytes(text, "", 1);
}

static void put_field(struct request_text *text, struct http_request *request, const char *name,
                      const char *value)
{
    begin_field(text, request);
    request_put(text, name);
    request_put(text, value);
    end_field(text);
}

/* Accept, and Accept-Encoding: identity unless the format has a coding (CH-8). */
static enum reason put_accept(struct request_text *text, struct http_request *request,
                              const struct http_request_source *source)
{
    struct bytes value;
    const char *type = "*/*", *coding = "identity";
    if (option_find(source->message->options, OPTION_accept, &value)) {
        const struct media_row *row = media_by_number(source->media, option_uint(value));
        if (row == NULL) {
            return REASON_accept_unmapped;
        }
        type = row->type;
        coding = row->coding[0] != '\0' ? row->coding : coding;
    }
    put_field(text, request, "Accept: ", type);
    put_field(text, request, "Accept-Encoding: ", coding);
    return REASON_none;
}

/* Content-Type and Content-Encoding; without a Content-Format there is no guess (CH-9). */
static enum reason put_content_type(struct request_text *text, struct http_request *request,
                                    const struct http_request_source *source)
{
    struct bytes value;
    if (!option_find(source->message->options, OPTION_content_format, &value)) {
        return REASON_none;
    }
    const struct media_row *row = media_by_number(source->media, option_uint(value));
    if (row == NULL) {
        return REASON_content_format_unmapped;
    }
    put_field(text, request, "Content-Type: ", row->type);
    if (row->coding[0] != '\0') {
        put_field(text, request, "Content-Encoding: ", row->coding);
    }
    return REASON_none;
}

/* The tags of all options of @p number, as a list in the field that @p name begins. */
static void put_validators(struct request_text *text, struct http_request *request,
                           const struct http_request_source *source, uint16_t number,
                           const char *name)
{
    struct option_iter iter;
    struct option option;
    char tag[HTTP_TAG_TEXT_MAX];
    unsigned count = 0;
    option_iter_init(&iter, source->message->options);
    while (option_iter_next(&iter, &option) && option.number <= number && count < TAGS_SENT_MAX) {
        bool is_any = number == OPTION_if_match && option.value.len == 0;
        if (option.number != number) {
            continue;
        }
        if (is_any) {
            (void)snprintf(tag, sizeof(tag), "*");
        } else if (!http_tag_give(source->tags, option.value, tag)) {
            if (number != OPTION_if_match) {
                continue; /* the server is not asked about it */
            }
            /* Known no more: a condition that cannot hold, so that nothing is overwritten. */
            (void)snprintf(tag, sizeof(tag), "\"forgotten-by-the-proxy\"");
        }
        if (count == 0) {
            begin_field(text, request);
            request_put(text, name);
        }
        request_put(text, count > 0 ? ", " : "");
        request_put(text, tag);
        count++;
    }
    if (count > 0) {
        end_field(text);
    }
}

/* Of a poll (CH-14): the tag that the last answer had. */
static void put_polled_tag(struct request_text *text, struct http_request *request,
                           const struct http_request_source *source)
{
    char tag[HTTP_TAG_TEXT_MAX];
    if (http_tag_give(source->tags, source->known, tag)) {
        put_field(text, request, "If-None-Match: ", tag);
    }
}

/* Where it has come from, and how far it may go on (HC-17). */
static void put_way(struct request_text *text, struct http_request *request,
                    const struct http_request_source *source)
{
    struct bytes value;
    begin_field(text, request);
    request_put(text, "Via: 1.1 ");
    request_put(text, source->proxy_name);
    request_put(text, " (criproxyd ");
    request_put(text, source->via_token);
    request_put(text, ")");
    end_field(text);
    if (option_find(source->message->options, OPTION_hop_limit, &value)) {
        begin_field(text, request);
        request_put(text, "Max-Forwards: ");
        put_request_number(text, option_uint(value));
        end_field(text);
    }
}

/* --- all of it ------------------------------------------------------------- */

static const struct http_method_row {
    uint8_t code;
    const char *name;
    bool is_idempotent, takes_body;
} method_rows[] = {
    {CODE_GET, "GET", true, false},     {CODE_POST, "POST", false, true},
    {CODE_PUT, "PUT", true, true},      {CODE_DELETE, "DELETE", true, false},
    {CODE_PATCH, "PATCH", false, true}, {CODE_IPATCH, "PATCH", true, true},
};

static const struct http_method_row *method_row_of(uint8_t code)
{
    for (size_t i = 0; i < sizeof(method_rows) / sizeof(method_rows[0]); i++) {
        if (method_rows[i].code == code) {
            return &method_rows[i];
        }
    }
    return NULL;
}

size_t http_request_room(const struct message *message)
{
    /* A byte of a path is 3 in the URL; fields of fixed texts, and TAGS_SENT_MAX tags twice. */
    return 3 * message->options.len + 2048 + (size_t)2 * TAGS_SENT_MAX * HTTP_TAG_TEXT_MAX;
}

enum reason http_request_make(const struct http_request_source *source, char *buffer,
                              size_t capacity, struct http_request *ret_request)
{
    struct request_text text = {.at = buffer, .left = capacity};
    struct http_request request = {.url = buffer};
    struct bytes options = source->message->options;
    const struct http_method_row *method = method_row_of(source->message->code);
    if (method == NULL) {
        return REASON_method_unmapped;
    }
    if (has_misread_path(source)) {
        return REASON_path_misread;
    }
    request.method = method->name;
    request.is_idempotent = method->is_idempotent;
    request.takes_body = method->takes_body;
    put_url(&text, source);
    enum reason reason = put_accept(&text, &request, source);
    if (reason == REASON_none && method->takes_body) {
        reason = put_content_type(&text, &request, source);
    }
    if (reason != REASON_none) {
        return reason;
    }
    put_validators(&text, &request, source, OPTION_if_match, "If-Match: ");
    if (options_have(options, OPTION_if_none_match)) {
        put_field(&text, &request, "If-None-Match: ", "*");
    } else if (method->code == CODE_GET && source->known.len > 0) {
        put_polled_tag(&text, &request, source);
    } else if (method->code == CODE_GET) {
        put_validators(&text, &request, source, OPTION_etag, "If-None-Match: ");
    }
    put_way(&text, &request, source);
    if (text.is_full) {
        return REASON_request_too_large;
    }
    *ret_request = request;
    return REASON_none;
}
