/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * URI references and IRI references to CRI references.
 *
 * How it works: the text is cut into the five components of RFC 3986 (section 3);
 * each is checked by the function named after its rule, and measured on the way;
 * then the sections are written. A reference becomes scheme and authority, or a
 * discard section that its dot-segments have gone into.
 */
#include <cri/iri.h>

#include "host.h"
#include "pct.h"
#include "uri_path.h"

#include <string.h>

/* Octets that are raw in a label: a dot would end it. */
#define LABEL_CLASSES (CRI__OTHER_UNRESERVED | CRI__CAPITAL | CRI__SUB_DELIM)

enum host_form { HOST_NAME, HOST_IP };

struct parser {
    struct cri_slice text;
    const struct cri_uri_options *options;
    bool is_iri;
    bool has_pet; /* Some octet needs a byte string. */
    struct cri_fault *ret_fault;

    bool has_scheme;
    bool has_authority;
    bool has_userinfo;
    bool has_query;
    bool has_fragment;
    bool has_port;
    uint16_t port;
    struct cri_slice scheme;
    const struct cri_scheme *known_scheme; /* NULL: by name. */
    struct cri_slice userinfo;
    struct cri_slice host;
    struct cri_slice query;
    struct cri_slice fragment;
    enum host_form host_form;
    bool host_is_plain;  /* All raw. */
    bool query_is_plain; /* All raw. */
    size_t label_count;
    size_t parameter_count;
    uint8_t ip[16];
    uint8_t ip_len;
    struct cri__path path;
};

static enum cri_error fail(struct parser *p, enum cri_error error, const uint8_t *at,
                           const char *rule)
{
    /* An empty input may be a null pointer, whose offset is 0 too. */
    size_t offset = p->text.len == 0 ? 0 : (size_t)(at - p->text.data);
    return cri__fail(p->ret_fault, error, offset, rule);
}

/* Cut text at the first of the delimiters: gives what is in front, leaves the rest in *rest. */
static struct cri_slice cut(struct cri_slice *rest, const char *delimiters)
{
    size_t len = rest->len;
    for (const char *d = delimiters; *d != '\0' && len > 0; d++) {
        const uint8_t *at = memchr(rest->data, *d, len);
        len = at == NULL ? len : (size_t)(at - rest->data);
    }
    struct cri_slice front = cri__slice(rest->data, len);
    rest->data += len;
    rest->len -= len;
    return front;
}

static bool starts_with(struct cri_slice text, char c)
{
    return text.len > 0 && text.data[0] == (uint8_t)c;
}

static void skip(struct cri_slice *rest, size_t len)
{
    rest->data += len;
    rest->len -= len;
}

static enum cri_error check_source(struct parser *p, struct cri_slice source,
                                   enum cri__component component)
{
    size_t offset = 0;
    const char *rule = "";
    enum cri_error error =
        cri__source_check(source, component, p->is_iri, &p->has_pet, &offset, &rule);
    return error == CRI_OK ? error : fail(p, error, source.data + offset, rule);
}

/* scheme = ALPHA *( ALPHA / DIGIT / "+" / "-" / "." ), and the colon behind it. */
static enum cri_error scheme(struct parser *p, struct cri_slice *rest)
{
    struct cri_slice after = *rest;
    struct cri_slice name;

    skip(&after, cri__class_span(after, CRI__UNRESERVED | CRI__SUB_DELIM));
    if (!starts_with(after, ':')) {
        after = *rest;
        cut(&after, ":/?#");
    }
    name = cri__slice(rest->data, rest->len - after.len);
    if (!starts_with(after, ':')) {
        return CRI_OK; /* A relative reference. */
    }
    if (!cri__is_scheme_name(name, true)) {
        /* Nor is it a path-noscheme, whose first segment has no colon. */
        return fail(p, CRI_ERR_URI_SYNTAX, name.data, "not a scheme");
    }
    p->has_scheme = true;
    p->scheme = name;
    p->known_scheme = cri_scheme_by_name(p->options->table, name);
    *rest = after;
    skip(rest, 1);
    return CRI_OK;
}

/* port = *DIGIT, behind the colon. Empty is absent; leading zeros do not count (U2C-7). */
static enum cri_error port(struct parser *p, struct cri_slice text)
{
    unsigned value = 0;

    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return fail(p, CRI_ERR_URI_SYNTAX, text.data + i, "not a digit in the port");
        }
        value = value * 10 + (unsigned)(text.data[i] - '0');
        if (value > UINT16_MAX) {
            return fail(p, CRI_ERR_NOT_EXPRESSIBLE, text.data, "port over 65535");
        }
    }
    uint16_t default_port = p->known_scheme == NULL ? 0 : p->known_scheme->default_port;
    bool is_default = default_port != 0 && value == default_port;
    p->has_port = text.len > 0 && !(p->options->elide_default_port && is_default);
    p->port = (uint16_t)value;
    return CRI_OK;
}

/* IP-literal = "[" ( IPv6address / IPvFuture ) "]" */
static enum cri_error ip_literal(struct parser *p, struct cri_slice text)
{
    p->host_form = HOST_IP;
    p->ip_len = 16;
    if (cri__ipv6_parse(text, p->ip)) {
        return CRI_OK;
    }
    if (text.len > 0 && (text.data[0] | 0x20u) == 'v') {
        return fail(p, CRI_ERR_NOT_EXPRESSIBLE, text.data, "IP address of a future version");
    }
    if (text.len > 0 && memchr(text.data, '%', text.len) != NULL) {
        return fail(p, CRI_ERR_ZONE, text.data, "zone-id in a URI"); /* U2C-6 */
    }
    return fail(p, CRI_ERR_URI_SYNTAX, text.data, "not an IPv6 address");
}

/*
 * reg-name, percent-decoded (U2C-3, U2C-4): counts the labels, and keeps the start
 * of the text to see whether it spells an address.
 */
static enum cri_error reg_name(struct parser *p)
{
    uint8_t text[CRI__IP_TEXT_MAX];
    size_t len = 0; /* Of the whole name; text has the start. */
    uint8_t last = 0;
    bool has_pet = false;
    struct cri_slice rest = p->host;
    struct cri__unit unit;
    const char *rule = "";

    p->host_form = HOST_NAME;
    p->label_count = 1;
    while (rest.len > 0) {
        enum cri_error error = cri__unit_read(rest, CRI__LABEL, p->is_iri, &unit, &rule);
        if (error != CRI_OK) {
            return fail(p, error, rest.data, rule);
        }
        has_pet = has_pet || unit.is_pet;
        p->label_count += unit.octets[0] == '.' ? 1 : 0;
        for (size_t i = 0; i < unit.len; i++, len++) {
            last = unit.octets[i];
            if (len < sizeof text) {
                text[len] = last;
            }
        }
        skip(&rest, unit.source_len);
    }
    p->has_pet = p->has_pet || has_pet;
    if (len == 0 || has_pet) {
        return CRI_OK;
    }
    if (len <= sizeof text && cri__ipv4_parse(cri__slice(text, len), p->ip)) {
        p->host_form = HOST_IP;
        p->ip_len = 4;
        return CRI_OK;
    }
    /* Brackets that were percent-encoded: such labels are no CRI's (AMB-12). */
    bool is_bracketed = len >= 2 && text[0] == '[' && last == ']';
    if (is_bracketed &&
        (p->label_count == 1 || (len <= sizeof text && p->label_count == 4 &&
                                 cri__ipv6_parse(cri__slice(text + 1, len - 2), p->ip)))) {
        return fail(p, CRI_ERR_NOT_EXPRESSIBLE, p->host.data, "host name spells an IP literal");
    }
    return CRI_OK;
}

/* authority = [ userinfo "@" ] host [ ":" port ] */
static enum cri_error authority(struct parser *p, struct cri_slice text)
{
    struct cri_slice rest = text;
    struct cri_slice front = cut(&rest, "@");

    p->has_authority = true;
    if (rest.len > 0) {
        p->has_userinfo = true;
        p->userinfo = front;
        skip(&rest, 1);
        enum cri_error error = check_source(p, front, CRI__USERINFO);
        if (error != CRI_OK) {
            return error;
        }
    } else {
        rest = text;
    }
    bool is_literal = starts_with(rest, '[');
    enum cri_error error;
    if (is_literal) {
        skip(&rest, 1);
        p->host = cut(&rest, "]");
        if (rest.len == 0) {
            return fail(p, CRI_ERR_URI_SYNTAX, p->host.data, "\"[\" without \"]\"");
        }
        skip(&rest, 1);
        error = ip_literal(p, p->host);
    } else {
        p->host = cut(&rest, ":");
        error = reg_name(p);
    }
    if (error != CRI_OK || rest.len == 0) {
        return error;
    }
    if (!starts_with(rest, ':')) {
        return fail(p, CRI_ERR_URI_SYNTAX, rest.data, "neither port nor end behind the address");
    }
    skip(&rest, 1);
    return port(p, rest);
}

/* Whether text is over, or the next component begins. */
static bool is_component_end(struct cri_slice text)
{
    return text.len == 0 || text.data[0] == '#' ||
           (cri__octet_classes[text.data[0]] & CRI__SLASH) != 0;
}

/*
 * Most authorities are a name in which nothing is percent-encoded, of letters, digits and
 * hyphens with dots between them, or an IPv4 address, and perhaps a port. Take such a one off the
 * front of *rest; false where it takes a closer look.
 */
static bool take_plain_authority(struct parser *p, struct cri_slice *rest)
{
    struct cri_slice left = *rest;
    struct cri_slice label;

    p->label_count = 0;
    do {
        skip(&left, p->label_count > 0 ? 1 : 0);
        label = left;
        skip(&left, cri__class_span(left, LABEL_CLASSES));
        p->label_count++;
    } while (starts_with(left, '.'));
    p->host = cri__slice(rest->data, rest->len - left.len);
    p->host_form = HOST_NAME;
    /* The last of four labels that begins with a digit may end an address. */
    if (p->label_count == 4 && label.len > 0 && label.data[0] >= '0' && label.data[0] <= '9') {
        if (!cri__ipv4_parse(p->host, p->ip)) {
            return false;
        }
        p->host_form = HOST_IP;
        p->ip_len = 4;
    }
    if (starts_with(left, ':')) {
        skip(&left, 1);
        struct cri_slice digits = left;
        while (left.len > 0 && left.data[0] >= '0' && left.data[0] <= '9') {
            skip(&left, 1);
        }
        if (!is_component_end(left) ||
            port(p, cri__slice(digits.data, digits.len - left.len)) != CRI_OK) {
            return false;
        }
    } else if (!is_component_end(left)) {
        return false;
    }
    p->has_authority = true;
    p->host_is_plain = true;
    *rest = left;
    return true;
}

/* path-abempty, path-absolute, path-rootless, path-noscheme or path-empty */
static enum cri_error path(struct parser *p, struct cri_slice *text)
{
    const bool had_pet = p->has_pet;
    const uint8_t *at = text->data;
    bool is_relative = !p->has_scheme && !p->has_authority && !starts_with(*text, '/');

    if (!cri__path_take_plain(text, is_relative, &p->path)) {
        struct cri_slice source = cut(text, "?#");
        for (struct cri_slice rest = source; rest.len > 0;) {
            struct cri_slice segment = cut(&rest, "/");
            enum cri_error error = check_source(p, segment, CRI__SEGMENT);
            if (error != CRI_OK) {
                return error;
            }
            skip(&rest, rest.len > 0 ? 1 : 0);
        }
        cri__path_scan(source, is_relative, &p->path);
        /* A segment that fell away needs none. */
        p->has_pet =
            had_pet || (p->has_pet && (p->path.is_straight || cri__path_has_pet(&p->path)));
    }
    p->path.has_pet = p->has_pet;
    if (p->has_scheme && !p->has_authority && p->path.is_rooted && p->path.first_is_empty &&
        p->path.count > 1) {
        return fail(p, CRI_ERR_NOT_EXPRESSIBLE, at,
                    "path without authority begins with an empty segment");
    }
    if (is_relative && p->path.surplus + 1 >= CRI_DISCARD_ALL) {
        return fail(p, CRI_ERR_NOT_EXPRESSIBLE, at, "more than 126 times \"..\""); /* AMB-33 */
    }
    return CRI_OK;
}

/* The query behind the "?", up to "#". */
static enum cri_error query(struct parser *p, struct cri_slice *text)
{
    const unsigned raw = cri__raw_classes(CRI__PARAMETER);
    const uint8_t *start = text->data;

    p->has_query = true;
    p->query_is_plain = true;
    for (;;) {
        struct cri_slice parameter = *text;
        p->parameter_count++;
        skip(text, cri__class_span(parameter, raw));
        if (text->len > 0 && text->data[0] != '&' && text->data[0] != '#') {
            p->query_is_plain = false;
            *text = parameter;
            enum cri_error error = check_source(p, cut(text, "&#"), CRI__PARAMETER);
            if (error != CRI_OK) {
                return error;
            }
        }
        if (!starts_with(*text, '&')) {
            break;
        }
        skip(text, 1);
    }
    p->query = cri__slice(start, (size_t)(text->data - start));
    return CRI_OK;
}

/* URI-reference = URI / relative-ref */
static enum cri_error uri_reference(struct parser *p)
{
    struct cri_slice rest = p->text;
    enum cri_error error = scheme(p, &rest);

    if (error == CRI_OK && rest.len >= 2 && rest.data[0] == '/' && rest.data[1] == '/') {
        skip(&rest, 2);
        if (!take_plain_authority(p, &rest)) {
            error = authority(p, cut(&rest, "/?#"));
        }
    }
    if (error == CRI_OK) {
        error = path(p, &rest);
    }
    if (error == CRI_OK && starts_with(rest, '?')) {
        skip(&rest, 1);
        error = query(p, &rest);
    }
    if (error == CRI_OK && rest.len > 0) {
        skip(&rest, 1);
        p->has_fragment = true;
        p->fragment = rest;
        error = check_source(p, rest, CRI__FRAGMENT);
    }
    return error;
}

/* --- Writing --- */

static void put_scheme(struct cri_writer *writer, const struct parser *p)
{
    if (!p->has_scheme) {
        cri__put_null(writer);
    } else if (p->known_scheme != NULL) {
        cri__put_short_head(writer, CRI__MAJOR_NINT, p->known_scheme->number);
    } else {
        cri__put_head(writer, CRI__MAJOR_TEXT, p->scheme.len);
        for (size_t i = 0; i < p->scheme.len; i++) {
            uint8_t c = p->scheme.data[i];
            uint8_t lower = c >= 'A' && c <= 'Z' ? c | 0x20u : c;
            cri__put_raw(writer, &lower, 1);
        }
    }
}

/* The source of the label at the front of *rest, up to a dot in either form. */
static struct cri_slice cut_label(struct cri_slice *rest)
{
    struct cri_slice label = cri__slice(rest->data, 0);
    struct cri__unit unit;
    const char *rule;

    for (;;) {
        size_t raw = cri__class_span(*rest, LABEL_CLASSES);
        label.len += raw;
        skip(rest, raw);
        if (rest->len == 0) {
            break;
        }
        if (cri__unit_read(*rest, CRI__LABEL, true, &unit, &rule) != CRI_OK) {
            unit.source_len = 1; /* Not reached: the host was checked. */
        }
        skip(rest, unit.source_len);
        if (unit.octets[0] == '.') {
            break;
        }
        label.len += unit.source_len;
    }
    return label;
}

static void put_labels(struct cri_writer *writer, const struct parser *p)
{
    struct cri_slice rest = p->host;

    for (size_t i = 0; i < p->label_count; i++) {
        struct cri_slice label = p->host_is_plain ? cut(&rest, ".") : cut_label(&rest);
        if (p->host_is_plain) {
            skip(&rest, rest.len > 0 ? 1 : 0);
        }
        if (p->host_is_plain && cri__is_plain(label, true)) {
            cri__put_plain_text(writer, label);
        } else {
            cri__put_source(writer, label, CRI__LABEL, p->has_pet, !p->options->keep_host_case);
        }
    }
}

static void put_authority(struct cri_writer *writer, const struct parser *p)
{
    if (!p->has_authority) {
        bool is_rootless = p->path.has_segments && !p->path.is_rooted;
        if (is_rootless) {
            cri__put_bool(writer, true);
        } else {
            cri__put_null(writer);
        }
        return;
    }
    bool is_ip = p->host_form == HOST_IP;
    cri__put_short_head(writer, CRI__MAJOR_ARRAY,
                        (p->has_userinfo ? 2u : 0u) + (is_ip ? 1u : p->label_count) +
                            (p->has_port ? 1u : 0u));
    if (p->has_userinfo) {
        cri__put_bool(writer, false);
        cri__put_source(writer, p->userinfo, CRI__USERINFO, p->has_pet, false);
    }
    if (is_ip) {
        cri__put_bytes(writer, cri__slice(p->ip, p->ip_len));
    } else {
        put_labels(writer, p);
    }
    if (p->has_port) {
        cri__put_head(writer, CRI__MAJOR_UINT, p->port);
    }
}

static void put_query(struct cri_writer *writer, const struct parser *p)
{
    struct cri_slice rest = p->query;

    cri__put_short_head(writer, CRI__MAJOR_ARRAY, p->parameter_count);
    for (size_t i = 0; i < p->parameter_count; i++) {
        struct cri_slice parameter = cut(&rest, "&");
        if (p->query_is_plain) {
            cri__put_plain_text(writer, parameter);
        } else {
            cri__put_source(writer, parameter, CRI__PARAMETER, p->has_pet, false);
        }
        skip(&rest, rest.len > 0 ? 1 : 0);
    }
}

/* Path and query, where they are not the last, as null or []: only full CRIs have no null. */
static void put_empty(struct cri_writer *writer, const struct parser *p)
{
    if (p->has_scheme) {
        cri__put_short_head(writer, CRI__MAJOR_ARRAY, 0);
    } else {
        cri__put_null(writer);
    }
}

/* Sections behind the first ones that are not at their defaults. */
static unsigned local_count(const struct parser *p)
{
    if (p->has_fragment) {
        return 3;
    }
    if (p->has_query) {
        return 2;
    }
    return p->path.has_segments ? 1 : 0;
}

static void put_reference(struct cri_writer *writer, const struct parser *p)
{
    unsigned count = local_count(p);

    if (p->has_scheme || p->has_authority) {
        bool has_second = count > 0 || p->has_authority;
        cri__put_short_head(writer, CRI__MAJOR_ARRAY, 1 + (has_second ? 1u : 0u) + count);
        put_scheme(writer, p);
        if (has_second) {
            put_authority(writer, p);
        }
    } else if (!p->path.has_segments && count == 0) {
        cri__put_short_head(writer, CRI__MAJOR_ARRAY, 0);
        return;
    } else {
        cri__put_short_head(writer, CRI__MAJOR_ARRAY, 1 + count);
        if (p->path.has_segments && !p->path.is_relative) {
            cri__put_bool(writer, true);
        } else {
            cri__put_short_head(writer, CRI__MAJOR_UINT,
                                p->path.has_segments ? p->path.surplus + 1 : 0);
        }
    }
    if (count > 0 && p->path.has_segments) {
        cri__put_short_head(writer, CRI__MAJOR_ARRAY, p->path.count);
        cri__put_path(writer, &p->path);
    } else if (count > 0) {
        put_empty(writer, p);
    }
    if (count > 1 && p->has_query) {
        put_query(writer, p);
    } else if (count > 1) {
        put_empty(writer, p);
    }
    if (count > 2) {
        cri__put_source(writer, p->fragment, CRI__FRAGMENT, p->has_pet, false);
    }
}

static enum cri_error parse(struct cri_slice text, const struct cri_uri_options *options,
                            bool is_iri, struct cri_writer *writer, size_t *ret_len,
                            struct cri_fault *ret_fault)
{
    static const struct cri_uri_options default_options = {0};
    struct parser p = {.text = text, .is_iri = is_iri, .ret_fault = ret_fault};

    p.options = options == NULL ? &default_options : options;
    if (!cri__options_are_known(p.options, p.options->size, sizeof *options)) {
        return cri__fail(ret_fault, CRI_ERR_ARGUMENT, 0, "options of another version");
    }
    enum cri_error error = uri_reference(&p);
    if (error != CRI_OK) {
        return error;
    }
    if (p.has_pet && p.options->plain_only) {
        return fail(&p, CRI_ERR_NOT_EXPRESSIBLE, text.data, "needs a text-pet-sequence");
    }
    put_reference(writer, &p);
    error = cri__writer_finish(writer, ret_len);
    return error == CRI_OK ? error : cri__fail(ret_fault, error, 0, "buffer too small");
}

enum cri_error cri_uri_parse(struct cri_slice uri, const struct cri_uri_options *options,
                             uint8_t *buffer, size_t capacity, size_t *ret_len,
                             struct cri_fault *ret_fault)
{
    struct cri_writer writer = {buffer, capacity, 0};
    return parse(uri, options, false, &writer, ret_len, ret_fault);
}

enum cri_error cri_iri_parse(struct cri_slice iri, const struct cri_uri_options *options,
                             uint8_t *buffer, size_t capacity, size_t *ret_len,
                             struct cri_fault *ret_fault)
{
    struct cri_writer writer = {buffer, capacity, 0};
    return parse(iri, options, true, &writer, ret_len, ret_fault);
}
