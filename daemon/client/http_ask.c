/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/http_ask.h"

#include "coap/media.h"
#include "coap/option.h"
#include "conf/publish.h"

#include <strings.h>

#define WEIGHT_MAX 1000u
#define BLOCK_OPTIONS_MAX 16u /* bytes of Block1, Block2 and Size1, which are added later */
#define OPTION_TEXT_MAX 255u  /* bytes of a path segment or query parameter */

/* Name, and what a value means. */
struct field_row {
    const char *name;
    void (*take)(struct http_ask *ask, struct bytes value);
};

static struct bytes ask_text(const char *text)
{
    return (struct bytes){(const uint8_t *)text, strlen(text)};
}

static bool is_text(struct bytes value, const char *text)
{
    return value.len == strlen(text) &&
           (value.len == 0 || strncasecmp((const char *)value.data, text, value.len) == 0);
}

static void ask_refuse(struct http_ask *ask, int status, const char *why)
{
    if (ask->status == 0) {
        ask->status = status;
        ask->why = why;
    }
}

/* --- lists (RFC 9110 section 5.6.1) ---------------------------------------- */

static bool is_field_blank(uint8_t byte)
{
    return byte == ' ' || byte == '\t';
}

static struct bytes ask_trim(struct bytes value)
{
    while (value.len > 0 && is_field_blank(value.data[0])) {
        value = (struct bytes){value.data + 1, value.len - 1};
    }
    while (value.len > 0 && is_field_blank(value.data[value.len - 1])) {
        value.len--;
    }
    return value;
}

/* The text before the next @p separator outside of quotes; @p rest is what follows it. */
static struct bytes take_part(struct bytes *rest, uint8_t separator)
{
    size_t at = 0;
    bool is_quoted = false;
    while (at < rest->len && (is_quoted || rest->data[at] != separator)) {
        is_quoted = is_quoted != (rest->data[at] == '"');
        at++;
    }
    struct bytes part = {rest->data, at};
    at += at < rest->len ? 1 : 0;
    *rest = (struct bytes){rest->data + at, rest->len - at};
    return ask_trim(part);
}

/* --- entity-tags ------------------------------------------------------------ */

static int tag_digit(uint8_t byte)
{
    if (byte >= '0' && byte <= '9') {
        return byte - '0';
    }
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

/* An entity-tag as we give them: an ETag in hexadecimal. Others are not the origin server's. */
static bool parse_tag(struct bytes text, struct http_tag *ret_tag)
{
    if (text.len < 4 || text.len > 2 + (size_t)2 * HTTP_TAG_LEN || text.len % 2 != 0 ||
        text.data[0] != '"' || text.data[text.len - 1] != '"') {
        return false;
    }
    ret_tag->len = (uint8_t)((text.len - 2) / 2);
    for (size_t i = 0; i < ret_tag->len; i++) {
        int high = tag_digit(text.data[1 + 2 * i]), low = tag_digit(text.data[2 + 2 * i]);
        if (high < 0 || low < 0) {
            return false;
        }
        ret_tag->bytes[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static void take_if_none_match(struct http_ask *ask, struct bytes value)
{
    while (value.len > 0) {
        struct bytes part = take_part(&value, ',');
        if (part.len > 2 && part.data[0] == 'W' && part.data[1] == '/') {
            part = (struct bytes){part.data + 2, part.len - 2}; /* compared weakly */
        }
        if (is_text(part, "*")) {
            ask->if_none_match_any = true;
        } else if (ask->if_none_match_count < HTTP_TAGS_MAX &&
                   parse_tag(part, &ask->if_none_match[ask->if_none_match_count])) {
            ask->if_none_match_count++;
        } else {
            ask->has_foreign_tags = ask->has_foreign_tags || part.len > 0;
        }
    }
}

static void take_if_match(struct http_ask *ask, struct bytes value)
{
    ask->has_if_match = true;
    while (value.len > 0) {
        struct bytes part = take_part(&value, ',');
        if (is_text(part, "*")) {
            ask->if_match_any = true;
        } else if (ask->if_match_count < HTTP_TAGS_MAX &&
                   parse_tag(part, &ask->if_match[ask->if_match_count])) {
            ask->if_match_count++;
        }
    }
}

/* --- Accept ----------------------------------------------------------------- */

/* "0.5" as 500; 0 for what is malformed. */
static unsigned parse_weight(struct bytes text)
{
    unsigned weight = 0, unit = WEIGHT_MAX;
    for (size_t i = 0; i < text.len && i < 5; i++) {
        if (i == 1 && text.data[i] == '.') {
            continue;
        }
        if (text.data[i] < '0' || text.data[i] > '9') {
            return 0;
        }
        weight += (unsigned)(text.data[i] - '0') * unit;
        unit /= 10;
    }
    return weight < WEIGHT_MAX ? weight : WEIGHT_MAX;
}

/* A range without its q, and that. */
static struct bytes split_weight(struct bytes range, unsigned *ret_weight)
{
    struct bytes rest = range;
    *ret_weight = WEIGHT_MAX;
    while (rest.len > 0) {
        struct bytes part = take_part(&rest, ';');
        if (part.len > 2 && (part.data[0] | 0x20) == 'q' && part.data[1] == '=') {
            *ret_weight = parse_weight((struct bytes){part.data + 2, part.len - 2});
            struct bytes before = {range.data, (size_t)(part.data - range.data)};
            while (before.len > 0 && (is_field_blank(before.data[before.len - 1]) ||
                                      before.data[before.len - 1] == ';')) {
                before.len--;
            }
            return before;
        }
    }
    return range;
}

static void take_range(struct http_ask *ask, struct bytes range)
{
    unsigned weight;
    range = split_weight(range, &weight);
    if (weight == 0 || range.len == 0) {
        return;
    }
    if (is_text(range, "text/event-stream")) {
        ask->events_weight = weight > ask->events_weight ? weight : ask->events_weight;
        return;
    }
    if (memchr(range.data, '*', range.len) != NULL) {
        ask->accepts_any = true;
        ask->any_weight = weight > ask->any_weight ? weight : ask->any_weight;
        return;
    }
    uint32_t format = media_find(ask->config->media_own, range, (struct bytes){0});
    uint32_t payload = media_coap_payload(range);
    if (payload != MEDIA_NONE) {
        if (!ask->config->http_coap_payload) {
            ask_refuse(ask, 406, "application/coap-payload is not passed on");
        }
        format = payload;
    }
    if (format != MEDIA_NONE && weight > ask->accept_weight) {
        ask->accept = format;
        ask->accept_weight = weight;
    }
}

static void take_accept(struct http_ask *ask, struct bytes value)
{
    while (value.len > 0) {
        take_range(ask, take_part(&value, ','));
    }
}

/* --- other fields ------------------------------------------------------------- */

static void take_cache_control(struct http_ask *ask, struct bytes value)
{
    while (value.len > 0) {
        struct bytes part = take_part(&value, ',');
        ask->no_cache = ask->no_cache || is_text(part, "no-cache") || is_text(part, "max-age=0");
        ask->no_store = ask->no_store || is_text(part, "no-store");
        ask->only_if_cached = ask->only_if_cached || is_text(part, "only-if-cached");
    }
}

static void take_host_field(struct http_ask *ask, struct bytes value)
{
    ask->has_host = true;
    if (!http_uri_host_name(value, &ask->host)) {
        ask_refuse(ask, 400, "Host is no host with a port, or without one");
    }
}

static void take_content_type(struct http_ask *ask, struct bytes value)
{
    ask->content_type = value;
}

static void take_content_encoding(struct http_ask *ask, struct bytes value)
{
    ask->content_encoding = value;
}

static void take_origin(struct http_ask *ask, struct bytes value)
{
    const struct config_list *allowed = &ask->config->http_origins;
    ask->has_origin = true;
    for (size_t i = 0; i < allowed->count && value.len < HTTP_ORIGIN_MAX; i++) {
        if (bytes_equal(value, ask_text(allowed->items[i]))) {
            memcpy(ask->origin, value.data, value.len);
            ask->origin[value.len] = '\0';
        }
    }
}

static void take_sec_fetch_site(struct http_ask *ask, struct bytes value)
{
    ask->is_cross_site = !is_text(value, "none") && !is_text(value, "same-origin");
}

static void take_sec_fetch_dest(struct http_ask *ask, struct bytes value)
{
    ask->is_document = is_text(value, "document");
}

static void take_forwarded(struct http_ask *ask, struct bytes value)
{
    (void)value;
    ask->is_passed_on = true;
    ask->is_relayed = true;
}

static void take_early_data(struct http_ask *ask, struct bytes value)
{
    (void)value; /* "1" alone is valid (RFC 8470 section 5.1) */
    ask->is_relayed = true;
    ask->is_early = true;
}

static void take_expect(struct http_ask *ask, struct bytes value)
{
    if (is_text(value, "100-continue")) {
        ask->wants_continue = true;
    } else {
        ask_refuse(ask, 417, "only 100-continue is expected");
    }
}

static void take_max_forwards(struct http_ask *ask, struct bytes value)
{
    ask->has_max_forwards = value.len > 0;
    ask->max_forwards = 0;
    for (size_t i = 0; i < value.len; i++) {
        if (value.data[i] < '0' || value.data[i] > '9') {
            ask_refuse(ask, 400, "Max-Forwards is not a number");
            return;
        }
        unsigned digit = (unsigned)(value.data[i] - '0');
        ask->max_forwards =
            ask->max_forwards > UINT16_MAX ? UINT16_MAX : ask->max_forwards * 10 + digit;
    }
}

static void take_via(struct http_ask *ask, struct bytes value)
{
    ask->is_passed_on = true;
    ask->is_relayed = true;
    if (value.len > 0 &&
        memmem(value.data, value.len, ask->via_token.data, ask->via_token.len) != NULL) {
        ask_refuse(ask, 508, "the request has been here before");
    }
}

static void take_authorization(struct http_ask *ask, struct bytes value)
{
    static const char bearer[] = "bearer ";
    const size_t len = sizeof(bearer) - 1;
    if (value.len > len && is_text((struct bytes){value.data, len}, bearer)) {
        ask->bearer = ask_trim((struct bytes){value.data + len, value.len - len});
    }
}

static void take_asked_method(struct http_ask *ask, struct bytes value)
{
    (void)value;
    ask->asks_method = true;
}

static const struct field_row fields[] = {
    {"host", take_host_field},
    {"accept", take_accept},
    {"content-type", take_content_type},
    {"content-encoding", take_content_encoding},
    {"if-none-match", take_if_none_match},
    {"if-match", take_if_match},
    {"cache-control", take_cache_control},
    {"origin", take_origin},
    {"sec-fetch-site", take_sec_fetch_site},
    {"sec-fetch-dest", take_sec_fetch_dest},
    {"forwarded", take_forwarded},
    {"x-forwarded-for", take_forwarded},
    {"x-real-ip", take_forwarded},
    {"early-data", take_early_data},
    {"expect", take_expect},
    {"max-forwards", take_max_forwards},
    {"via", take_via},
    {"authorization", take_authorization},
    {"access-control-request-method", take_asked_method},
};

void http_ask_field(void *context, struct bytes name, struct bytes value)
{
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (is_text(name, fields[i].name)) {
            fields[i].take(context, value);
            return;
        }
    }
}

/* --- what it is -------------------------------------------------------------- */

/* RFC 7252 section 10.2: OPTIONS, TRACE and CONNECT are 501, and so is what HTTP adds. */
static void take_method(struct http_ask *ask)
{
    static const struct {
        const char *name;
        uint8_t code;
    } methods[] = {
        {"GET", CODE_GET},     {"HEAD", CODE_GET},      {"POST", CODE_POST},   {"PUT", CODE_PUT},
        {"PATCH", CODE_PATCH}, {"DELETE", CODE_DELETE}, {"QUERY", CODE_FETCH},
    };
    struct bytes method = ask->line.method;
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (bytes_equal(method, ask_text(methods[i].name))) {
            ask->code = methods[i].code;
            ask->is_head = i == 1;
            return;
        }
    }
    ask->is_preflight =
        bytes_equal(method, ask_text("OPTIONS")) && ask->origin[0] != '\0' && ask->asks_method;
    if (!ask->is_preflight) {
        ask_refuse(ask, 501, "the method has no mapping to CoAP");
    }
}

/* A name or address by which only clients on this host reach it: others come by a server. */
static bool is_host_of_loopback(const struct http_ask *ask)
{
    struct address address;
    return address_parse((const char *)ask->host.data, ask->host.len, 80, &address)
               ? address_is_loopback(&address)
               : is_text(ask->host, "localhost");
}

/* DNS rebinding: a name that a page has made lead here is none of ours. */
static bool is_own_host(const struct http_ask *ask)
{
    const struct config_list *hosts = &ask->config->http_hosts;
    struct address address;
    struct bytes name = ask->host;
    if (address_parse((const char *)ask->host.data, ask->host.len, 80, &address) ||
        is_text(name, "localhost")) {
        return true;
    }
    for (size_t i = 0; i < hosts->count; i++) {
        if (is_text(name, hosts->items[i])) {
            return true;
        }
    }
    for (size_t i = 0; i < ask->config->own_name_count; i++) {
        struct bytes own = ask->config->own_names[i].name;
        if (own.len > 0 && own.len == name.len &&
            strncasecmp((const char *)name.data, (const char *)own.data, own.len) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_safe_method_of(const struct http_ask *ask)
{
    return ask->code == CODE_GET || ask->code == CODE_FETCH;
}

static void check_place(struct http_ask *ask)
{
    if (ask->has_origin && ask->origin[0] == '\0') {
        ask_refuse(ask, 403, "web pages of this origin are not served: see http.origins");
    }
    if (!ask->has_origin && ask->is_cross_site && !(is_safe_method_of(ask) && ask->is_document)) {
        ask_refuse(ask, 403, "a page of another site may not use the proxy");
    }
    if (ask->has_host && !ask->uri.is_absolute && ask->host.len == 0) {
        ask_refuse(ask, 400, "Host is empty"); /* RFC 9110 section 4.2.1 */
    }
    if (ask->has_host && !ask->uri.is_absolute && !is_own_host(ask)) {
        ask_refuse(ask, 421, "the host is not served: see http.hosts");
    }
}

/* No open proxy for the web (HC-3): http and https go nowhere, in whatever form. */
static void check_scheme(struct http_ask *ask)
{
    if (ask->uri.kind == HTTP_URI_TARGET && strncasecmp(ask->uri.text, "http", 4) == 0 &&
        (strncasecmp(ask->uri.text + 4, "://", 3) == 0 ||
         strncasecmp(ask->uri.text + 4, "s://", 4) == 0)) {
        ask_refuse(ask, 501, "http and https URIs are not forwarded");
    }
}

static void check_conditions(struct http_ask *ask)
{
    if (ask->has_if_match && !ask->if_match_any && ask->if_match_count == 0) {
        ask_refuse(ask, 412, "no such entity-tag is known");
    }
    bool has_tags = ask->if_none_match_count > 0 || ask->has_foreign_tags;
    if (!is_safe_method_of(ask) && has_tags && !ask->if_none_match_any) {
        ask_refuse(ask, 501, "If-None-Match with entity-tags has no mapping for this method");
    }
}

static uint32_t ask_content_format(const struct http_ask *ask)
{
    bool is_plain = ask->content_encoding.len == 0 || is_text(ask->content_encoding, "identity");
    uint32_t payload = media_coap_payload(ask->content_type);
    if (payload != MEDIA_NONE && is_plain) {
        return ask->config->http_coap_payload ? payload : MEDIA_NONE;
    }
    const struct media_own *own = ask->config->media_own;
    uint32_t format = media_find(own, ask->content_type, ask->content_encoding);
    if (format == MEDIA_NONE && is_plain && payload == MEDIA_NONE && ask->config->http_loose) {
        format = media_find_loosely(own, ask->content_type);
    }
    return format;
}

static bool takes_payload(const struct http_ask *ask)
{
    return ask->code != CODE_GET && ask->code != CODE_DELETE;
}

static void check_content(struct http_ask *ask)
{
    bool is_coded = ask->content_encoding.len > 0 && !is_text(ask->content_encoding, "identity");
    if (http_ask_has_body(ask) && takes_payload(ask) &&
        (ask->content_type.len > 0 ? ask_content_format(ask) == MEDIA_NONE : is_coded)) {
        ask_refuse(ask, 415, "no Content-Format stands for this Content-Type");
    }
}

static struct bytes ask_own_query(struct bytes uri, struct bytes *ret_path)
{
    const uint8_t *mark = uri.len > 0 ? memchr(uri.data, '?', uri.len) : NULL;
    size_t len = mark != NULL ? (size_t)(mark - uri.data) : uri.len;
    *ret_path = (struct bytes){uri.data + 1, len - 1}; /* behind the first / */
    return mark != NULL ? (struct bytes){mark + 1, uri.len - len - 1} : (struct bytes){0};
}

/* The next part of a path or query, percent-decoded in @p room; false where it cannot be. */
static bool next_own_part(struct bytes *rest, uint8_t separator, uint8_t room[OPTION_TEXT_MAX],
                          struct bytes *ret_part)
{
    const uint8_t *end = rest->len > 0 ? memchr(rest->data, separator, rest->len) : NULL;
    size_t at = 0, len = 0, part_len = end != NULL ? (size_t)(end - rest->data) : rest->len;
    while (at < part_len && len < OPTION_TEXT_MAX) {
        uint8_t byte = rest->data[at++];
        if (byte == '%') {
            int high = at + 1 < part_len ? tag_digit(rest->data[at] | 0x20) : -1;
            int low = at + 1 < part_len ? tag_digit(rest->data[at + 1] | 0x20) : -1;
            if (high < 0 || low < 0) {
                return false;
            }
            byte = (uint8_t)(high << 4 | low);
            at += 2;
        }
        room[len++] = byte;
    }
    size_t used = part_len + (end != NULL ? 1 : 0);
    *rest = (struct bytes){end != NULL ? end + 1 : NULL, rest->len - used};
    *ret_part = (struct bytes){room, len};
    return at == part_len;
}

/* Give @p writer the parts of a path or query as options; NULL: only see whether they can be. */
static bool put_own_parts(struct message_writer *writer, uint16_t number, struct bytes rest)
{
    uint8_t separator = number == OPTION_uri_path ? '/' : '&', room[OPTION_TEXT_MAX];
    struct bytes part;
    while (rest.data != NULL) {
        if (!next_own_part(&rest, separator, room, &part)) {
            return false;
        }
        if (writer != NULL) {
            message_writer_option(writer, number, part);
        }
    }
    return true;
}

static bool is_own_path(const struct http_uri *uri)
{
    struct bytes path, query = ask_own_query(ask_text(uri->text), &path);
    return put_own_parts(NULL, OPTION_uri_path, path) &&
           put_own_parts(NULL, OPTION_uri_query, query);
}

bool http_ask_has_body(const struct http_ask *ask)
{
    return ask->line.is_chunked || ask->line.length > 0;
}

void http_ask_finish(struct http_ask *ask, const struct http_line *line)
{
    const struct http_mapping mapping = {.prefix = ask->config->http_prefix,
                                         .template = ask->config->http_template,
                                         .has_paths = ask->config->publish_count > 0};
    ask->line = *line;
    take_method(ask);
    int status = ask->status == 0 ? http_uri_find(&mapping, line->target, &ask->uri) : 200;
    check_place(ask); /* before anything is said about what is here */
    ask->is_passed_on =
        ask->is_passed_on || (ask->has_host && !ask->uri.is_absolute && !is_host_of_loopback(ask));
    if (status != 200) {
        ask_refuse(ask, status, ask->uri.why);
    }
    if (ask->uri.kind == HTTP_URI_OWN && !is_own_path(&ask->uri)) {
        ask_refuse(ask, 400, "percent-encoding, or a part of more than 255 bytes");
    }
    check_scheme(ask);
    check_conditions(ask);
    check_content(ask);
    if (ask->has_max_forwards && ask->max_forwards == 0) {
        ask_refuse(ask, 508, "Max-Forwards is used up");
    }
    /* Where events and the state alone are as welcome, it is events. */
    ask->wants_events = ask->events_weight > 0 && ask->events_weight >= ask->accept_weight &&
                        ask->events_weight >= ask->any_weight && ask->code == CODE_GET &&
                        !ask->is_head;
}

/* --- options ------------------------------------------------------------------- */

static void put_tags(struct message_writer *writer, uint16_t number, const struct http_tag *tags,
                     size_t count)
{
    for (size_t i = 0; i < count; i++) {
        message_writer_option(writer, number, (struct bytes){tags[i].bytes, tags[i].len});
    }
}

static void put_conditions(struct message_writer *writer, const struct http_ask *ask)
{
    bool is_safe = is_safe_method_of(ask);
    put_tags(writer, OPTION_if_match, ask->if_match, ask->if_match_any ? 0 : ask->if_match_count);
    if (ask->if_match_any) {
        message_writer_option(writer, OPTION_if_match, (struct bytes){0});
    }
    put_tags(writer, OPTION_etag, ask->if_none_match, is_safe ? ask->if_none_match_count : 0);
    if (ask->if_none_match_any && !is_safe) {
        message_writer_option(writer, OPTION_if_none_match, (struct bytes){0});
    }
}

/* A path of our own: as it is, or the proxy's link list, with the query's parts as they are (RFC
 * 6690 section 4.1). */
static void put_own(struct message_writer *writer, uint16_t number, const struct http_uri *uri)
{
    if (uri->kind == HTTP_URI_OWN) {
        struct bytes path, own = ask_own_query(ask_text(uri->text), &path);
        (void)put_own_parts(writer, number, number == OPTION_uri_path ? path : own);
        return;
    }
    if (number == OPTION_uri_path) {
        message_writer_option(writer, number, ask_text(".well-known"));
        message_writer_option(writer, number, ask_text("core"));
        return;
    }
    struct bytes query = {(const uint8_t *)uri->text, uri->len};
    if (query.len > 0) {
        query = (struct bytes){query.data + 1, query.len - 1};
    }
    while (query.len > 0) {
        message_writer_option(writer, number, take_part(&query, '&'));
    }
}

static void put_proxy_target(struct message_writer *writer, const struct http_uri *uri)
{
    struct bytes text = {(const uint8_t *)uri->text, uri->len};
    if (uri->kind == HTTP_URI_TARGET) {
        message_writer_option(writer, OPTION_proxy_uri, text);
    } else if (uri->kind == HTTP_URI_CRI) {
        message_writer_option(writer, OPTION_proxy_cri, text);
    }
}

struct bytes http_ask_options(const struct http_ask *ask, bool has_body,
                              uint8_t buffer[HTTP_OPTIONS_MAX])
{
    struct message_writer writer = {.buffer = buffer,
                                    .capacity = HTTP_OPTIONS_MAX - BLOCK_OPTIONS_MAX};
    bool is_core = ask->uri.kind == HTTP_URI_CORE;
    bool is_own = is_core || ask->uri.kind == HTTP_URI_OWN;
    put_conditions(&writer, ask);
    if (ask->wants_events && !is_core) {
        message_writer_option(&writer, OPTION_observe, (struct bytes){0});
    }
    if (is_own) {
        put_own(&writer, OPTION_uri_path, &ask->uri);
    }
    if (has_body && takes_payload(ask) && ask->content_type.len > 0) {
        message_writer_option_uint(&writer, OPTION_content_format, ask_content_format(ask));
    }
    if (is_own) {
        put_own(&writer, OPTION_uri_query, &ask->uri);
    }
    if (ask->has_max_forwards && ask->max_forwards < ask->config->proxy_hop_limit_initial) {
        message_writer_option_uint(&writer, OPTION_hop_limit, ask->max_forwards);
    }
    if (ask->accept != MEDIA_NONE && !ask->accepts_any) {
        message_writer_option_uint(&writer, OPTION_accept, ask->accept);
    }
    put_proxy_target(&writer, &ask->uri);
    return (struct bytes){buffer, writer.overflow ? 0 : writer.len};
}
