/* SPDX-License-Identifier: BSD-2-Clause */
#include "policy/pattern.h"

#include "base/arena.h"
#include "coap/target.h"
#include "policy/hostname.h"

#include <cri/scheme.h>
#include <errno.h>
#include <string.h>

/* The rest of the text, and the place of the result. */
struct parser {
    const char *text;
    size_t len, at;
    struct target_pattern *pattern;
    struct pattern_error *error;
    bool no_memory;
};

static bool fail_at(struct parser *parser, size_t offset, const char *what)
{
    *parser->error = (struct pattern_error){offset, what};
    return false;
}

static bool fail(struct parser *parser, const char *what)
{
    return fail_at(parser, parser->at, what);
}

static bool is_at_end(const struct parser *parser)
{
    return parser->at == parser->len;
}

static bool is_next(const struct parser *parser, char c)
{
    return !is_at_end(parser) && parser->text[parser->at] == c;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static uint8_t to_lower(uint8_t c)
{
    return c >= 'A' && c <= 'Z' ? (uint8_t)(c | 0x20) : c;
}

/* A copy in the arena. */
static const uint8_t *pattern_keep(struct parser *parser, struct config_arena *arena,
                                   const uint8_t *bytes, size_t len)
{
    uint8_t *copy = arena_alloc(arena, len > 0 ? len : 1);
    if (copy == NULL) {
        parser->no_memory = true;
    } else if (len > 0) {
        memcpy(copy, bytes, len);
    }
    return copy;
}

static bool parse_scheme(struct parser *parser, const struct cri_scheme_table *schemes)
{
    static const char mark[] = "://";
    size_t len = 0;
    while (len < parser->len && parser->text[len] != ':') {
        len++;
    }
    if (parser->len - len < sizeof(mark) - 1 ||
        memcmp(parser->text + len, mark, sizeof(mark) - 1) != 0) {
        return fail(parser, "expected SCHEME://HOST");
    }
    parser->at = len + sizeof(mark) - 1;
    if (len == 1 && parser->text[0] == '*') {
        parser->pattern->scheme = PATTERN_SCHEME_ANY;
        return true;
    }
    struct cri_slice name = {(const uint8_t *)parser->text, len};
    const struct cri_scheme *scheme = cri_scheme_by_name(schemes, name);
    if (scheme == NULL || scheme->number >= PATTERN_SCHEME_ANY) {
        return fail_at(parser, 0, "no such scheme");
    }
    parser->pattern->scheme = (uint32_t)scheme->number;
    return true;
}

/* "%41": its byte, or -1. */
static int decode_escape(const char *text, size_t left)
{
    static const char digits[] = "0123456789abcdef";
    int value = 0;
    if (left < 3) {
        return -1;
    }
    for (size_t i = 1; i < 3; i++) {
        const char *digit = text[i] != '\0' ? strchr(digits, to_lower((uint8_t)text[i])) : NULL;
        if (digit == NULL) {
            return -1;
        }
        value = value * 16 + (int)(digit - digits);
    }
    return value;
}

/* One byte of a name or segment, decoded; -1: not one that may stand there. */
static int take_byte(struct parser *parser)
{
    const char *at = parser->text + parser->at;
    if (*at == '%') {
        int value = decode_escape(at, parser->len - parser->at);
        parser->at += value >= 0 ? 3 : 0;
        return value;
    }
    uint8_t c = (uint8_t)*at;
    if (c <= ' ' || c == 0x7f || strchr("?#@[]\\\"<>^`{|}*", c) != NULL) {
        return -1;
    }
    parser->at++;
    return c;
}

/* --- host --------------------------------------------------------------- */

/*
 * "192.0.2.0/24" has the slash that also starts a path: behind an IPv4 address, one to
 * two digits and nothing else up to the next '/', ':' or the end are a length.
 */
static size_t ipv4_host_len(const struct parser *parser, size_t host_len)
{
    const char *text = parser->text + parser->at;
    size_t left = parser->len - parser->at;
    size_t end = host_len + 1;
    if (host_len >= left || text[host_len] != '/') {
        return host_len;
    }
    while (end < left && is_digit(text[end])) {
        end++;
    }
    size_t digits = end - host_len - 1;
    bool is_end = end == left || text[end] == '/' || text[end] == ':';
    return digits >= 1 && digits <= 2 && is_end ? end : host_len;
}

static bool parse_range(struct parser *parser, size_t len)
{
    struct address_prefix *range = &parser->pattern->range;
    parser->pattern->host = PATTERN_HOST_ADDRESS;
    const char *problem = address_prefix_parse(parser->text + parser->at, len, range);
    if (problem != NULL) {
        return fail(parser, problem);
    }
    parser->at += len;
    return true;
}

static bool parse_bracketed(struct parser *parser)
{
    const char *start = parser->text + ++parser->at;
    const char *end = memchr(start, ']', parser->len - parser->at);
    if (end == NULL) {
        return fail(parser, "expected ]");
    }
    size_t at = parser->at;
    if (!parse_range(parser, (size_t)(end - start))) {
        return false;
    }
    if (parser->pattern->range.base.family != ADDRESS_IPV6) {
        return fail_at(parser, at, "only IPv6 addresses stand in brackets");
    }
    parser->at++;
    return true;
}

static const char *name_problem(enum hostname_kind kind)
{
    switch (kind) {
    case HOSTNAME_NAME:
        break;
    case HOSTNAME_EMPTY:
        return "expected a host: a name, an address, a range or *";
    case HOSTNAME_BYTE:
        return "not a byte of a host name";
    case HOSTNAME_IPV4:
    case HOSTNAME_NUMBER:
        return "neither a name nor an address as it is usually written";
    case HOSTNAME_IDNA:
        return "not a host name in UTF-8 that IDNA 2008 knows";
    }
    return NULL;
}

/* The name in its one form, up to the ':' or '/' that ends it, and without a dot at the end. */
static bool take_name(struct parser *parser, uint8_t name[TARGET_NAME_MAX], size_t *ret_len)
{
    struct hostname read = {.text = name};
    size_t len = 0;
    size_t start = parser->at;
    while (!is_at_end(parser) && !is_next(parser, ':') && !is_next(parser, '/')) {
        size_t at = parser->at;
        int c = take_byte(parser);
        if (c <= 0) {
            return fail_at(parser, at, name_problem(HOSTNAME_BYTE));
        }
        if (len == TARGET_NAME_MAX) {
            return fail_at(parser, start, "host name longer than 255 bytes");
        }
        name[len++] = (uint8_t)c;
    }
    const char *problem = name_problem(hostname_read(name, len, &read));
    if (problem != NULL) {
        return fail_at(parser, start, problem);
    }
    /* "h." and "h" are one host. */
    *ret_len = name[read.len - 1] == '.' ? read.len - 1 : read.len;
    return true;
}

static bool parse_name(struct parser *parser, struct config_arena *arena)
{
    uint8_t name[TARGET_NAME_MAX];
    size_t len;
    if (!take_name(parser, name, &len)) {
        return false;
    }
    parser->pattern->name = pattern_keep(parser, arena, name, len);
    parser->pattern->name_len = (uint8_t)len;
    return parser->pattern->name != NULL;
}

static bool pattern_parse_host(struct parser *parser, struct config_arena *arena)
{
    const char *text = parser->text + parser->at;
    size_t left = parser->len - parser->at;
    size_t len = 0;
    struct address address;
    if (is_next(parser, '[')) {
        return parse_bracketed(parser);
    }
    while (len < left && text[len] != ':' && text[len] != '/') {
        len++;
    }
    if (len == 1 && text[0] == '*') {
        parser->at++;
        parser->pattern->host = PATTERN_HOST_ANY;
        return true;
    }
    if (len >= 2 && text[0] == '*' && text[1] == '.') {
        parser->at += 2;
        parser->pattern->host = PATTERN_HOST_SUFFIX;
        return parse_name(parser, arena);
    }
    if (len > 0 && address_parse(text, len, 0, &address)) {
        return parse_range(parser, ipv4_host_len(parser, len));
    }
    parser->pattern->host = PATTERN_HOST_NAME;
    return parse_name(parser, arena);
}

/* --- port --------------------------------------------------------------- */

static bool take_port(struct parser *parser, uint16_t *ret_port)
{
    uint32_t value = 0;
    size_t start = parser->at;
    while (!is_at_end(parser) && is_digit(parser->text[parser->at]) && value <= UINT16_MAX) {
        value = value * 10 + (uint32_t)(parser->text[parser->at++] - '0');
    }
    if (parser->at == start || value == 0 || value > UINT16_MAX) {
        return fail_at(parser, start, "expected a port from 1 to 65535");
    }
    *ret_port = (uint16_t)value;
    return true;
}

static bool parse_ports(struct parser *parser)
{
    struct target_pattern *pattern = parser->pattern;
    pattern->first_port = 1;
    pattern->last_port = UINT16_MAX;
    if (!is_next(parser, ':')) {
        return true;
    }
    size_t start = ++parser->at;
    if (!take_port(parser, &pattern->first_port)) {
        return false;
    }
    pattern->last_port = pattern->first_port;
    if (!is_next(parser, '-')) {
        return true;
    }
    parser->at++;
    if (!take_port(parser, &pattern->last_port)) {
        return false;
    }
    return pattern->first_port <= pattern->last_port ||
           fail_at(parser, start, "the first port is above the last one");
}

/* --- path --------------------------------------------------------------- */

/* One segment up to the next '/' or the end; its length byte and its bytes go to @p packed. */
static bool take_segment(struct parser *parser, uint8_t packed[1 + UINT8_MAX])
{
    size_t start = parser->at;
    size_t len = 0;
    while (!is_at_end(parser) && !is_next(parser, '/')) {
        size_t at = parser->at;
        int c = take_byte(parser);
        if (c < 0) {
            return fail_at(parser, at, "not a byte of a path");
        }
        if (len == UINT8_MAX) {
            return fail_at(parser, start, "path segment longer than 255 bytes");
        }
        packed[1 + len++] = (uint8_t)c;
    }
    packed[0] = (uint8_t)len;
    bool is_dots = (len == 1 || len == 2) && packed[1] == '.' && packed[len] == '.';
    return !is_dots || fail_at(parser, start, "no target has this path segment");
}

static bool parse_path(struct parser *parser, struct config_arena *arena)
{
    struct target_pattern *pattern = parser->pattern;
    uint8_t *path = arena_alloc(arena, parser->len - parser->at + 1);
    if (path == NULL) {
        parser->no_memory = true;
        return false;
    }
    pattern->path = path;
    while (is_next(parser, '/')) {
        uint8_t packed[1 + UINT8_MAX];
        parser->at++;
        if (is_at_end(parser)) {
            break; /* "/a/" is everything below "/a", and itself */
        }
        if (!take_segment(parser, packed)) {
            return false;
        }
        memcpy(path + pattern->path_len, packed, 1u + packed[0]);
        pattern->path_len += 1u + packed[0];
        pattern->path_count++;
    }
    return is_at_end(parser) || fail(parser, "unexpected behind the host");
}

int target_pattern_parse(const char *text, size_t len, const struct cri_scheme_table *schemes,
                         struct config_arena *arena, struct target_pattern *ret_pattern,
                         struct pattern_error *ret_error)
{
    struct target_pattern pattern = {.text = arena_text(arena, text, len)};
    struct parser parser = {.text = text, .len = len, .pattern = &pattern, .error = ret_error};
    if (pattern.text == NULL) {
        return -ENOMEM;
    }
    bool is_good = parse_scheme(&parser, schemes) && pattern_parse_host(&parser, arena) &&
                   parse_ports(&parser) && parse_path(&parser, arena);
    if (!is_good) {
        return parser.no_memory ? -ENOMEM : -EINVAL;
    }
    *ret_pattern = pattern;
    return 0;
}

/* --- matching ----------------------------------------------------------- */

size_t target_name_len(const struct target *target)
{
    size_t len = target->name_len;
    return len > 0 && target->name[len - 1] == '.' ? len - 1 : len;
}

/* A target's name is in lower case already. */
static bool matches_name(const struct target_pattern *pattern, const struct target *target)
{
    size_t len = target_name_len(target);
    if (!target->is_name || len < pattern->name_len) {
        return false;
    }
    size_t skip = len - pattern->name_len;
    if (memcmp(target->name + skip, pattern->name, pattern->name_len) != 0) {
        return false;
    }
    return pattern->host == PATTERN_HOST_NAME ? skip == 0
                                              : skip >= 2 && target->name[skip - 1] == '.';
}

/* The part of a match that has nothing to do with the host: scheme, port, path. */
static bool target_pattern_matches_rest(const struct target_pattern *pattern,
                                        const struct target *target)
{
    if (pattern->scheme != PATTERN_SCHEME_ANY && pattern->scheme != target->scheme->number) {
        return false;
    }
    if (target->port < pattern->first_port || target->port > pattern->last_port) {
        return false;
    }
    /* Packed segments begin with their length: equal bytes are equal whole segments. */
    return pattern->path_len == 0 ||
           (target->path.len >= pattern->path_len &&
            memcmp(target->path.packed, pattern->path, pattern->path_len) == 0);
}

bool target_pattern_matches_address(const struct target_pattern *pattern,
                                    const struct target *target, const struct address *address)
{
    if (!target_pattern_matches_rest(pattern, target)) {
        return false;
    }
    switch (pattern->host) {
    case PATTERN_HOST_ANY:
        return true;
    case PATTERN_HOST_NAME:
    case PATTERN_HOST_SUFFIX:
        return matches_name(pattern, target);
    case PATTERN_HOST_ADDRESS:
        return address_prefix_covers(&pattern->range, address);
    }
    return false;
}

bool target_pattern_matches(const struct target_pattern *pattern, const struct target *target)
{
    static const struct address none;
    return target_pattern_matches_address(pattern, target,
                                          target->is_name ? &none : &target->address);
}
