/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/http_parse.h"

#if CRI_WITH_HTTP

#include <http_parser.h>
#include <stdlib.h>

struct http_parse {
    struct http_parser parser;
    const struct http_parse_calls *calls;
    void *context;
    struct http_line *line; /* while a head is parsed */
    struct bytes name;      /* of the field whose value comes next */
    bool has_head, has_stopped;
};

static struct http_parse *parse_of(struct http_parser *parser)
{
    return parser->data;
}

static int on_target(struct http_parser *parser, const char *at, size_t len)
{
    parse_of(parser)->line->target = (struct bytes){(const uint8_t *)at, len};
    return 0;
}

static int on_field_name(struct http_parser *parser, const char *at, size_t len)
{
    parse_of(parser)->name = (struct bytes){(const uint8_t *)at, len};
    return 0;
}

static int on_field_value(struct http_parser *parser, const char *at, size_t len)
{
    const struct http_parse *parse = parse_of(parser);
    if (parse->line == NULL) {
        return 0; /* a trailer field, which nothing here has a use for (RFC 9112 section 7.1.2) */
    }
    while (len > 0 && (at[len - 1] == ' ' || at[len - 1] == '\t')) {
        len--;
    }
    parse->calls->on_field(parse->context, parse->name, (struct bytes){(const uint8_t *)at, len});
    return 0;
}

static int on_head_complete(struct http_parser *parser)
{
    struct http_parse *parse = parse_of(parser);
    struct http_line *line = parse->line;
    line->is_1_0 = parser->http_major == 1 && parser->http_minor == 0;
    line->is_chunked = (parser->flags & F_CHUNKED) != 0;
    line->length =
        (parser->flags & F_CONTENTLENGTH) != 0 && !line->is_chunked ? parser->content_length : 0;
    /* A proxy keeps no connection of HTTP/1.0, which would have to be told (RFC 9112 9.3). */
    line->keeps_alive = http_should_keep_alive(parser) != 0 && !line->is_1_0;
    line->is_upgrade = parser->upgrade != 0;
    parse->has_head = true;
    parser->upgrade = 0; /* its body is parsed all the same; the upgrade is decided later */
    return 0;
}

static int on_body_bytes(struct http_parser *parser, const char *at, size_t len)
{
    struct http_parse *parse = parse_of(parser);
    parse->has_stopped =
        !parse->calls->on_body(parse->context, (struct bytes){(const uint8_t *)at, len});
    return parse->has_stopped ? 1 : 0;
}

static const struct http_parser_settings settings = {
    .on_url = on_target,
    .on_header_field = on_field_name,
    .on_header_value = on_field_value,
    .on_headers_complete = on_head_complete,
    .on_body = on_body_bytes,
};

struct http_parse *http_parse_new(const struct http_parse_calls *calls, void *context)
{
    struct http_parse *parse = calloc(1, sizeof(*parse));
    if (parse != NULL) {
        parse->calls = calls;
        parse->context = context;
    }
    return parse;
}

static bool parse_bytes(struct http_parse *parse, struct bytes bytes)
{
    size_t used =
        http_parser_execute(&parse->parser, &settings, (const char *)bytes.data, bytes.len);
    return used == bytes.len && HTTP_PARSER_ERRNO(&parse->parser) == HPE_OK;
}

static bool is_scheme_byte(uint8_t byte)
{
    return (byte >= '0' && byte <= '9') || ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z') ||
           byte == '+' || byte == '-' || byte == '.';
}

/* "coap+" of "coap+tcp://h/x": the parser takes letters alone for a scheme. 0 without a +. */
static size_t scheme_start_len(struct bytes target)
{
    size_t at = 0, len = 0;
    while (at < target.len && is_scheme_byte(target.data[at])) {
        len = target.data[at++] == '+' ? at : len;
    }
    return at < target.len && target.data[at] == ':' ? len : 0;
}

int http_parse_head(struct http_parse *parse, struct bytes head, struct http_line *ret_line)
{
    static const uint8_t post[] = "POST", query[] = "QUERY";
    const uint8_t *blank = memchr(head.data, ' ', head.len);
    *ret_line = (struct http_line){.is_chunked = false};
    ret_line->method = (struct bytes){head.data, blank != NULL ? (size_t)(blank - head.data) : 0};
    http_parser_init(&parse->parser, HTTP_REQUEST);
    parse->parser.data = parse;
    parse->line = ret_line;
    parse->has_head = false;
    if (bytes_equal(ret_line->method, (struct bytes){query, sizeof(query) - 1})) {
        /* Newer than the parser, which takes it for the method that it is most like. */
        (void)parse_bytes(parse, (struct bytes){post, sizeof(post) - 1});
        head = (struct bytes){head.data + sizeof(query) - 1, head.len - (sizeof(query) - 1)};
    }
    size_t target = blank != NULL ? (size_t)(blank - head.data) + 1 : 0;
    size_t skip = scheme_start_len((struct bytes){head.data + target, head.len - target});
    bool is_good =
        parse_bytes(parse, (struct bytes){head.data, target}) &&
        parse_bytes(parse, (struct bytes){head.data + target + skip, head.len - target - skip}) &&
        parse->has_head;
    parse->line = NULL;
    if (is_good) {
        ret_line->target.data -= skip;
        ret_line->target.len += skip;
        return 0;
    }
    return HTTP_PARSER_ERRNO(&parse->parser) == HPE_INVALID_METHOD ? 501 : 400;
}

bool http_parse_body(struct http_parse *parse, struct bytes piece)
{
    return parse_bytes(parse, piece) && !parse->has_stopped;
}

#else /* the build has no http-parser (CRI_WITH_HTTP=OFF) */

struct http_parse *http_parse_new(const struct http_parse_calls *calls, void *context)
{
    (void)calls;
    (void)context;
    return NULL; /* the connection is refused; the configuration names no such listener */
}

int http_parse_head(struct http_parse *parse, struct bytes head, struct http_line *ret_line)
{
    (void)parse;
    (void)head;
    (void)ret_line;
    return 501;
}

bool http_parse_body(struct http_parse *parse, struct bytes piece)
{
    (void)parse;
    (void)piece;
    return false;
}

#endif
