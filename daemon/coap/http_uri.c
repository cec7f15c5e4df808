/* SPDX-License-Identifier: BSD-2-Clause */
#include "coap/http_uri.h"

#include "base/base64.h"

#include <arpa/inet.h>
#include <cri/uri.h>
#include <strings.h>

#define PIECES_MAX 16u

enum variable {
    VARIABLE_tu,  /* the whole target URI */
    VARIABLE_s,   /* its scheme, */
    VARIABLE_hp,  /* host and port, */
    VARIABLE_p,   /* path, */
    VARIABLE_q,   /* query, */
    VARIABLE_qq,  /* query with its question mark */
    VARIABLE_cri, /* the CRI in base64url: ours */
    VARIABLE_COUNT,
    VARIABLE_NONE = VARIABLE_COUNT, /* of a piece: literal text */
};

struct piece {
    enum variable variable;
    struct bytes literal;
};

/* A template taken apart; borrows from it. */
struct pieces {
    struct piece items[PIECES_MAX];
    size_t count;
};

static struct bytes uri_text(const char *text)
{
    return (struct bytes){(const uint8_t *)text, strlen(text)};
}

static bool uri_begins(struct bytes text, struct bytes with)
{
    return text.len >= with.len && (with.len == 0 || memcmp(text.data, with.data, with.len) == 0);
}

static struct bytes text_after(struct bytes text, size_t skip)
{
    return (struct bytes){text.data + skip, text.len - skip};
}

/* Where @p wanted begins; the length of @p text if it does not. */
static size_t find_text(struct bytes text, struct bytes wanted)
{
    const uint8_t *at = text.len > 0 ? memmem(text.data, text.len, wanted.data, wanted.len) : NULL;
    return at != NULL ? (size_t)(at - text.data) : text.len;
}

static size_t find_one_of(struct bytes text, const char *set)
{
    size_t at = 0;
    while (at < text.len && (text.data[at] == '\0' || strchr(set, text.data[at]) == NULL)) {
        at++;
    }
    return at;
}

/* --- templates ------------------------------------------------------------ */

static enum variable variable_by_name(struct bytes name)
{
    static const char *const names[VARIABLE_COUNT] = {
        [VARIABLE_tu] = "{+tu}",  [VARIABLE_s] = "{+s}", [VARIABLE_hp] = "{+hp}",
        [VARIABLE_p] = "{+p}",    [VARIABLE_q] = "{+q}", [VARIABLE_qq] = "{+qq}",
        [VARIABLE_cri] = "{cri}",
    };
    enum variable variable = VARIABLE_tu;
    while (variable < VARIABLE_NONE && !bytes_equal(name, uri_text(names[variable]))) {
        variable++;
    }
    return variable;
}

/* Whether the end of @p first is seen without text between it and @p second. */
static bool may_touch(enum variable first, enum variable second)
{
    return second == VARIABLE_NONE || first == VARIABLE_NONE ||
           (first == VARIABLE_hp && (second == VARIABLE_p || second == VARIABLE_qq)) ||
           (first == VARIABLE_p && second == VARIABLE_qq);
}

static const char *split_template(const char *template, struct pieces *ret_pieces)
{
    struct bytes rest = uri_text(template[0] != '\0' ? template : "{+tu}");
    enum variable before = VARIABLE_NONE;
    ret_pieces->count = 0;
    while (rest.len > 0) {
        struct piece piece = {.variable = VARIABLE_NONE};
        size_t len = find_one_of(rest, "{");
        if (len == 0) {
            len = find_one_of(rest, "}") + 1;
            piece.variable =
                len <= rest.len ? variable_by_name((struct bytes){rest.data, len}) : VARIABLE_NONE;
            if (piece.variable == VARIABLE_NONE) {
                return "the variables are {+tu}, {+s}, {+hp}, {+p}, {+q}, {+qq} and {cri}";
            }
        }
        if (!may_touch(before, piece.variable) || ret_pieces->count == PIECES_MAX) {
            return "two variables need text between them";
        }
        piece.literal = (struct bytes){rest.data, len};
        before = piece.variable;
        ret_pieces->items[ret_pieces->count++] = piece;
        rest = text_after(rest, len);
    }
    return NULL;
}

static unsigned variables_of(const struct pieces *pieces, bool *ret_is_twice)
{
    unsigned set = 0;
    *ret_is_twice = false;
    for (size_t i = 0; i < pieces->count; i++) {
        enum variable variable = pieces->items[i].variable;
        if (variable != VARIABLE_NONE) {
            *ret_is_twice = *ret_is_twice || (set & 1u << variable) != 0;
            set |= 1u << variable;
        }
    }
    return set;
}

const char *http_template_error(const char *template)
{
    struct pieces pieces;
    const char *error = split_template(template, &pieces);
    bool is_twice;
    if (error != NULL) {
        return error;
    }
    unsigned set = variables_of(&pieces, &is_twice);
    bool is_whole = set == 1u << VARIABLE_tu || set == 1u << VARIABLE_cri;
    bool is_parts = (set & (1u << VARIABLE_tu | 1u << VARIABLE_cri)) == 0 &&
                    (set & 1u << VARIABLE_hp) != 0 && (set & 1u << VARIABLE_p) != 0;
    if (is_twice || (!is_whole && !is_parts)) {
        return "expected {+tu}, {cri}, or {+hp} and {+p} with others, each once";
    }
    return find_one_of(uri_text(template), "# \"<>") < strlen(template)
               ? "a template is part of a path and query, and of a quoted attribute"
               : NULL;
}

/* --- request-target to URI ------------------------------------------------ */

static int refuse_uri(struct http_uri *uri, int status, const char *why)
{
    uri->why = why;
    return status;
}

/* Where the value of piece @p i ends in @p rest; false where what has to follow does not. */
static bool value_ends(const struct pieces *pieces, size_t i, struct bytes rest, size_t *ret_end)
{
    if (i + 1 == pieces->count) {
        *ret_end = rest.len;
        return true;
    }
    const struct piece *next = &pieces->items[i + 1];
    if (next->variable == VARIABLE_NONE) {
        *ret_end = find_text(rest, next->literal);
        return *ret_end < rest.len;
    }
    *ret_end = find_one_of(rest, next->variable == VARIABLE_p ? "/?" : "?");
    return true;
}

static bool match_template(const struct pieces *pieces, struct bytes rest,
                           struct bytes values[VARIABLE_COUNT])
{
    for (size_t i = 0; i < pieces->count; i++) {
        const struct piece *piece = &pieces->items[i];
        size_t end = piece->literal.len;
        if (piece->variable == VARIABLE_NONE) {
            if (!uri_begins(rest, piece->literal)) {
                return false;
            }
        } else if (!value_ends(pieces, i, rest, &end)) {
            return false;
        } else {
            values[piece->variable] = (struct bytes){rest.data, end};
        }
        rest = text_after(rest, end);
    }
    return rest.len == 0;
}

static bool append_uri(struct http_uri *uri, struct bytes text)
{
    if (text.len > HTTP_URI_MAX - uri->len) {
        return false;
    }
    if (text.len > 0) {
        memcpy(uri->text + uri->len, text.data, text.len);
    }
    uri->len += text.len;
    uri->text[uri->len] = '\0';
    return true;
}

/* The brackets of an IPv6 literal are percent-encoded in a path (RFC 8075 section 5.3.2). */
static bool append_authority(struct http_uri *uri, struct bytes host)
{
    while (host.len > 0) {
        bool is_encoded = host.len >= 3 && host.data[0] == '%' && host.data[1] == '5';
        uint8_t letter = is_encoded ? host.data[2] | 0x20 : '\0';
        struct bytes one = {host.data, 1};
        if (letter == 'b' || letter == 'd') {
            one = uri_text(letter == 'b' ? "[" : "]");
        }
        if (!append_uri(uri, one)) {
            return false;
        }
        host = text_after(host, letter == 'b' || letter == 'd' ? 3 : 1);
    }
    return true;
}

/* A URI with scheme and authority, as {+tu} has it. */
static int take_whole(struct bytes value, struct http_uri *uri)
{
    size_t colon = find_one_of(value, ":/?");
    struct bytes after = text_after(value, colon);
    if (colon == 0 || !uri_begins(after, uri_text(":"))) {
        return refuse_uri(uri, 400, "the target URI has no scheme");
    }
    if (!uri_begins(after, uri_text("://"))) {
        return refuse_uri(uri, 400,
                          "the target URI has no // after its scheme; "
                          "a server in front may have merged slashes");
    }
    after = text_after(after, 3);
    size_t end = find_one_of(after, "/?");
    bool fits = append_uri(uri, (struct bytes){value.data, colon + 3}) &&
                append_authority(uri, (struct bytes){after.data, end}) &&
                append_uri(uri, text_after(after, end));
    return fits ? 200 : refuse_uri(uri, 414, "the target URI is too long");
}

static int take_parts(const struct bytes values[VARIABLE_COUNT], struct http_uri *uri)
{
    struct bytes scheme = values[VARIABLE_s], path = values[VARIABLE_p];
    struct bytes query = values[VARIABLE_q], marked = values[VARIABLE_qq];
    if (scheme.data == NULL) {
        scheme = uri_text("coap");
    }
    if (find_one_of(scheme, ":/?&") < scheme.len || scheme.len == 0 ||
        values[VARIABLE_hp].len == 0 ||
        find_one_of(values[VARIABLE_hp], "/?") < values[VARIABLE_hp].len ||
        (path.len > 0 && path.data[0] != '/') || find_one_of(path, "?") < path.len ||
        (marked.len > 0 && marked.data[0] != '?')) {
        return refuse_uri(uri, 400, "the request-target does not match the template");
    }
    bool fits = append_uri(uri, scheme) && append_uri(uri, uri_text("://")) &&
                append_authority(uri, values[VARIABLE_hp]) && append_uri(uri, path) &&
                append_uri(uri, marked) && (query.len == 0 || append_uri(uri, uri_text("?"))) &&
                append_uri(uri, query);
    return fits ? 200 : refuse_uri(uri, 414, "the target URI is too long");
}

static int take_cri(struct bytes value, struct http_uri *uri)
{
    uri->kind = HTTP_URI_CRI;
    if (value.len > BASE64_LEN(HTTP_URI_MAX)) {
        return refuse_uri(uri, 414, "the CRI is too long");
    }
    return base64url_decode(value.data, value.len, (uint8_t *)uri->text, HTTP_URI_MAX, &uri->len) &&
                   uri->len > 0
               ? 200
               : refuse_uri(uri, 400, "the CRI is not base64url");
}

static int take_mapped(const struct http_mapping *mapping, struct bytes rest, struct http_uri *uri)
{
    struct bytes values[VARIABLE_COUNT] = {{NULL, 0}};
    struct pieces pieces;
    if (split_template(mapping->template, &pieces) != NULL ||
        !match_template(&pieces, rest, values)) {
        return refuse_uri(uri, 400, "the request-target does not match the template");
    }
    if (values[VARIABLE_cri].data != NULL) {
        return take_cri(values[VARIABLE_cri], uri);
    }
    return values[VARIABLE_tu].data != NULL ? take_whole(values[VARIABLE_tu], uri)
                                            : take_parts(values, uri);
}

static bool is_path(struct bytes target, const char *path)
{
    return bytes_equal((struct bytes){target.data, find_one_of(target, "?")}, uri_text(path));
}

/* RFC 7252 section 10.2: a forward proxy for CoAP URIs, never for those of HTTP. */
static int take_absolute(struct bytes target, struct http_uri *uri)
{
    bool is_http = target.len >= 5 && (strncasecmp((const char *)target.data, "http:", 5) == 0 ||
                                       strncasecmp((const char *)target.data, "https", 5) == 0);
    if (is_http) {
        return refuse_uri(uri, 501, "http and https URIs are not forwarded");
    }
    uri->is_absolute = true;
    return take_whole(target, uri);
}

int http_uri_find(const struct http_mapping *mapping, struct bytes request_target,
                  struct http_uri *ret_uri)
{
    *ret_uri = (struct http_uri){.kind = HTTP_URI_TARGET, .why = ""};
    if (request_target.len == 0 || request_target.data[0] != '/') {
        return take_absolute(request_target, ret_uri);
    }
    if (uri_begins(request_target, uri_text(mapping->prefix))) {
        return take_mapped(mapping, text_after(request_target, strlen(mapping->prefix)), ret_uri);
    }
    if (is_path(request_target, "/.well-known/coap")) {
        ret_uri->kind = HTTP_URI_SOCKET;
        return 200;
    }
    if (is_path(request_target, "/.well-known/core")) {
        ret_uri->kind = HTTP_URI_CORE;
        size_t query = find_one_of(request_target, "?");
        return append_uri(ret_uri, text_after(request_target, query))
                   ? 200
                   : refuse_uri(ret_uri, 414, "the query is too long");
    }
    if (mapping->has_paths) {
        ret_uri->kind = HTTP_URI_OWN;
        return append_uri(ret_uri, request_target)
                   ? 200
                   : refuse_uri(ret_uri, 414, "the path is too long");
    }
    return refuse_uri(ret_uri, 404, "nothing is here: see /.well-known/core");
}

/* --- Host ----------------------------------------------------------------- */

static bool is_hex_digit(uint8_t byte)
{
    return (byte >= '0' && byte <= '9') || ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'f');
}

/* unreserved, or of sub-delims (RFC 3986 section 2). */
static bool is_reg_name_byte(uint8_t byte)
{
    return (byte >= '0' && byte <= '9') || ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z') ||
           (byte != '\0' && strchr("-._~!$&'()*+,;=", byte) != NULL);
}

static bool is_reg_name(struct bytes name)
{
    for (size_t i = 0; i < name.len; i++) {
        bool is_encoded = name.data[i] == '%' && name.len - i > 2 &&
                          is_hex_digit(name.data[i + 1]) && is_hex_digit(name.data[i + 2]);
        bool is_empty = name.data[i] == '.' && (i == 0 || name.data[i - 1] == '.');
        if (is_empty || (!is_encoded && !is_reg_name_byte(name.data[i]))) {
            return false;
        }
    }
    return true;
}

/* What is in the brackets of an IP-literal; IPvFuture is none that anything could have. */
static bool is_ipv6_address(struct bytes text)
{
    char copy[INET6_ADDRSTRLEN];
    struct in6_addr address;
    if (text.len == 0 || text.len >= sizeof(copy)) {
        return false;
    }
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    return inet_pton(AF_INET6, copy, &address) == 1;
}

bool http_uri_host_name(struct bytes host, struct bytes *ret_name)
{
    bool is_literal = host.len > 0 && host.data[0] == '[';
    size_t end = find_one_of(host, is_literal ? "]" : ":");
    bool is_good = is_literal
                       ? end < host.len && is_ipv6_address((struct bytes){host.data + 1, end - 1})
                       : is_reg_name((struct bytes){host.data, end});
    *ret_name = (struct bytes){host.data, end + (is_literal && is_good ? 1 : 0)};
    struct bytes port = text_after(host, ret_name->len);
    for (size_t i = 0; i < port.len; i++) {
        is_good =
            is_good && (i == 0 ? port.data[i] == ':' : port.data[i] >= '0' && port.data[i] <= '9');
    }
    return is_good;
}

/* --- URI to request-target ------------------------------------------------ */

struct mapped_text {
    char *text;
    size_t len;
    bool is_full;
};

static void map_text(struct mapped_text *out, struct bytes text)
{
    out->is_full = out->is_full || text.len >= HTTP_MAPPED_MAX - out->len;
    if (!out->is_full && text.len > 0) {
        memcpy(out->text + out->len, text.data, text.len);
        out->len += text.len;
    }
}

static void map_authority(struct mapped_text *out, struct bytes host)
{
    for (size_t i = 0; i < host.len; i++) {
        struct bytes one = {host.data + i, 1};
        if (host.data[i] == '[' || host.data[i] == ']') {
            one = uri_text(host.data[i] == '[' ? "%5B" : "%5D");
        }
        map_text(out, one);
    }
}

/* The CRI of the target in base64url, without padding. */
static bool map_cri(struct mapped_text *out, const struct http_mapping *mapping,
                    struct bytes target)
{
    const struct cri_uri_options options = {.table = mapping->schemes, .elide_default_port = true};
    const struct cri_slice uri = {target.data, target.len};
    uint8_t cri[HTTP_URI_MAX];
    char text[BASE64_LEN(HTTP_URI_MAX)];
    size_t cri_len = 0;
    if (cri_uri_parse(uri, &options, cri, sizeof(cri), &cri_len, NULL) != CRI_OK) {
        return false;
    }
    base64_encode(cri, cri_len, text);
    size_t len = (cri_len * 4 + 2) / 3;
    for (size_t i = 0; i < len; i++) {
        text[i] = (char)(text[i] == '+' ? '-' : text[i] == '/' ? '_' : text[i]);
    }
    map_text(out, (struct bytes){(const uint8_t *)text, len});
    return true;
}

static bool map_variable(struct mapped_text *out, enum variable variable, struct bytes target)
{
    size_t colon = find_one_of(target, ":");
    struct bytes after = text_after(target, colon + 3 <= target.len ? colon + 3 : target.len);
    size_t path = find_one_of(after, "/?"), query = find_one_of(after, "?");
    switch (variable) {
    case VARIABLE_tu:
        map_text(out, (struct bytes){target.data, target.len - after.len});
        map_authority(out, (struct bytes){after.data, path});
        map_text(out, text_after(after, path));
        return true;
    case VARIABLE_s:
        map_text(out, (struct bytes){target.data, colon});
        return true;
    case VARIABLE_hp:
        map_authority(out, (struct bytes){after.data, path});
        return true;
    case VARIABLE_p:
        map_text(out, (struct bytes){after.data + path, query - path});
        return true;
    case VARIABLE_q:
        map_text(out, text_after(after, query < after.len ? query + 1 : query));
        return true;
    case VARIABLE_qq:
        map_text(out, text_after(after, query));
        return true;
    case VARIABLE_cri: /* map_cri() */
    case VARIABLE_NONE:
        break;
    }
    return false;
}

size_t http_uri_host(const struct http_mapping *mapping, const char *target,
                     char text[HTTP_MAPPED_MAX])
{
    struct mapped_text out = {.text = text};
    struct pieces pieces;
    if (split_template(mapping->template, &pieces) != NULL) {
        return 0;
    }
    map_text(&out, uri_text(mapping->prefix));
    for (size_t i = 0; i < pieces.count; i++) {
        enum variable variable = pieces.items[i].variable;
        bool is_good = true;
        if (variable == VARIABLE_NONE) {
            map_text(&out, pieces.items[i].literal);
        } else if (variable == VARIABLE_cri) {
            is_good = map_cri(&out, mapping, uri_text(target));
        } else {
            is_good = map_variable(&out, variable, uri_text(target));
        }
        if (!is_good) {
            return 0;
        }
    }
    text[out.is_full ? 0 : out.len] = '\0';
    return out.is_full ? 0 : out.len;
}
