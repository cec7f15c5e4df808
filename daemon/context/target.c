/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Order of evaluation (TGT-1): what excludes each other, Proxy-Cri, Proxy-Uri,
 * Proxy-Scheme(-Number) with Uri-*; what is left is for the proxy itself. The
 * first form that is there decides: if it is bad the request fails, it does not
 * fall back to another (PXO-15).
 *
 * A Proxy-Uri becomes a CRI first, so that there is one path from there on.
 */
#include "context/target.h"

#include "coap/option.h"
#include "policy/hostname.h"
#include "policy/pattern.h"

#include <arpa/inet.h>
#include <cri/cri.h>
#include <cri/uri.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

/* The target that is being built, and the parts of the request that it is built from. */
struct builder {
    const struct config *config;
    const struct message *message;
    const struct request_options *options;
    const struct address *local;
    struct target *target;
    struct problem *problem;
    uint8_t *at; /* free memory for segments */
    size_t left;
    bool flatten; /* percent-encoded pieces become plain bytes (RFC 7252 section 6.4) */
};

static bool fail_target(struct builder *builder, enum reason reason)
{
    builder->problem->reason = reason;
    builder->problem->text[0] = '\0';
    return false;
}

static bool target_fail_at(struct builder *builder, enum reason reason, const char *option,
                           const struct cri_fault *fault)
{
    builder->problem->reason = reason;
    snprintf(builder->problem->text, sizeof(builder->problem->text), "%s: byte %zu: %s", option,
             fault->offset, fault->rule);
    return false;
}

#define SCHEME_SHOWN_MAX 32u /* bytes of a name, in a diagnostic */

/* A scheme that is not configured, by the name that it was given with, which is one. */
static bool fail_scheme_name(struct builder *builder, const uint8_t *name, size_t len)
{
    builder->problem->reason = REASON_scheme_unsupported;
    snprintf(builder->problem->text, sizeof(builder->problem->text), "%s: %.*s",
             reason_row(REASON_scheme_unsupported)->diagnostic,
             (int)(len < SCHEME_SHOWN_MAX ? len : SCHEME_SHOWN_MAX), (const char *)name);
    return false;
}

static bool fail_scheme_number(struct builder *builder, uint64_t number)
{
    builder->problem->reason = REASON_scheme_unsupported;
    snprintf(builder->problem->text, sizeof(builder->problem->text), "%s: number %" PRIu64,
             reason_row(REASON_scheme_unsupported)->diagnostic, number);
    return false;
}

static bool is_utf8(struct bytes text)
{
    utf8proc_int32_t code_point;
    for (size_t i = 0; i < text.len;) {
        if (text.data[i] < 0x80) {
            i++;
            continue;
        }
        utf8proc_ssize_t len =
            utf8proc_iterate(text.data + i, (utf8proc_ssize_t)(text.len - i), &code_point);
        if (len <= 0) {
            return false;
        }
        i += (size_t)len;
    }
    return true;
}

/* --- packed segments ---------------------------------------------------- */

/* One plain item; the caller has checked that it is at most 255 bytes. */
static bool segments_add(struct builder *builder, struct segments *segments, struct bytes item)
{
    if (item.len + 1 > builder->left) {
        return fail_target(builder, REASON_request_too_large);
    }
    builder->at[0] = (uint8_t)item.len;
    if (item.len > 0) {
        memcpy(builder->at + 1, item.data, item.len);
    }
    builder->at += 1 + item.len;
    builder->left -= 1 + item.len;
    segments->len += 1 + (uint32_t)item.len;
    segments->count++;
    return true;
}

/* A path of one empty segment is the empty path to CoAP (RFC 7252 section 6.4). */
static void path_finish(struct segments *path)
{
    if (path->count == 1 && path->len == 1) {
        *path = (struct segments){.packed = path->packed};
    }
}

/* --- from a CRI --------------------------------------------------------- */

/* Text of an item with percent-encoded pieces; as item_text(). */
static bool pet_text(struct builder *builder, const struct cri_item *item, uint8_t *room,
                     struct bytes *ret_text)
{
    struct cri_iter iter;
    struct cri_slice piece;
    bool is_bytes;
    size_t len = 0;
    if (!builder->flatten) {
        return fail_target(builder, REASON_cri_pet);
    }
    cri_piece_init(&iter, item);
    while (cri_piece_next(&iter, &is_bytes, &piece)) {
        if (piece.len > TARGET_NAME_MAX - len) {
            return fail_target(builder, REASON_cri_too_long);
        }
        memcpy(room + len, piece.data, piece.len);
        len += piece.len;
    }
    *ret_text = (struct bytes){room, len};
    return is_utf8(*ret_text) || fail_target(builder, REASON_uri_malformed); /* TGT-11 */
}

/* Text of an item in at most 255 bytes of @p room; false with the problem set. */
static inline bool item_text(struct builder *builder, const struct cri_item *item, uint8_t *room,
                             struct bytes *ret_text)
{
    if (item->is_pet) {
        return pet_text(builder, item, room, ret_text);
    }
    *ret_text = (struct bytes){item->text.data, item->text.len};
    return ret_text->len <= TARGET_NAME_MAX || fail_target(builder, REASON_cri_too_long);
}

static bool pack_list(struct builder *builder, const struct cri_list *list,
                      struct segments *ret_segments)
{
    struct cri_iter iter;
    struct cri_item item;
    struct bytes text;
    uint8_t room[TARGET_NAME_MAX];
    *ret_segments = (struct segments){.packed = builder->at};
    if (list->count == 0) {
        return true; /* most have no query */
    }
    cri_iter_init(&iter, list);
    while (cri_iter_next(&iter, &item)) {
        if (!item_text(builder, &item, room, &text) || !segments_add(builder, ret_segments, text)) {
            return false;
        }
    }
    return true;
}

static bool set_address(struct builder *builder, const uint8_t *ip, size_t ip_len)
{
    struct target *target = builder->target;
    target->is_name = false;
    address_set_ip(&target->address, ip, ip_len, 0);
    if (address_is_multicast(&target->address) && !builder->config->multicast_enabled) {
        /* There are no groups to serve over anything but UDP (SCH-6). */
        bool is_udp = target->scheme->transport == TRANSPORT_UDP;
        return fail_target(builder, is_udp ? REASON_multicast : REASON_target_refused);
    }
    return !address_is_ipv4_mapped(&target->address) || fail_target(builder, REASON_target_refused);
}

/* A host as text, percent-decoded; may lie in the target's own room for it. */
static bool target_take_name(struct builder *builder, struct bytes host)
{
    struct target *target = builder->target;
    struct hostname name = {.text = target->name};
    switch (hostname_read(host.data, host.len, &name)) {
    case HOSTNAME_NAME:
        target->is_name = true;
        target->name_len = (uint8_t)name.len;
        return true;
    case HOSTNAME_IPV4:
        return set_address(builder, name.ipv4, sizeof(name.ipv4));
    case HOSTNAME_EMPTY:
    case HOSTNAME_BYTE:
    case HOSTNAME_NUMBER:
    case HOSTNAME_IDNA:
        break;
    }
    return fail_target(builder, REASON_target_host);
}

static bool target_join_labels(struct builder *builder, const struct cri_list *labels)
{
    struct target *target = builder->target;
    struct cri_iter iter;
    struct cri_item item;
    struct bytes text;
    uint8_t room[TARGET_NAME_MAX];
    size_t len = 0;
    cri_iter_init(&iter, labels);
    for (bool first = true; cri_iter_next(&iter, &item); first = false) {
        if (!item_text(builder, &item, room, &text)) {
            return false;
        }
        if (text.len + !first > TARGET_NAME_MAX - len) {
            return fail_target(builder, REASON_cri_too_long);
        }
        if (!first) {
            target->name[len++] = '.';
        }
        if (text.len > 0) {
            memcpy(target->name + len, text.data, text.len);
        }
        len += text.len;
    }
    return len > 0 ? target_take_name(builder, (struct bytes){target->name, len})
                   : fail_target(builder, REASON_target_no_host);
}

static bool set_scheme(struct builder *builder, uint64_t number)
{
    const struct scheme *scheme = config_scheme_by_number(builder->config, number);
    /* Whether there is a transport for it is for the route to say: a parent may have one. */
    if (scheme == NULL) {
        return fail_scheme_number(builder, number);
    }
    builder->target->scheme = scheme;
    return true;
}

static bool set_port(struct builder *builder, bool has_port, uint32_t port)
{
    struct target *target = builder->target;
    target->port = (uint16_t)(has_port ? port : target->scheme->default_port);
    target->address.port = target->port;
    return target->port != 0 || fail_target(builder, REASON_port_zero); /* TGT-19 */
}

/* Longer than any interface's name, empty, or with a NUL: none (PXO-12). */
static bool take_zone(struct builder *builder, struct cri_slice zone)
{
    struct target *target = builder->target;
    if (zone.len == 0 || zone.len >= sizeof(target->zone) ||
        memchr(zone.data, '\0', zone.len) != NULL) {
        return fail_target(builder, REASON_zone_unknown);
    }
    memcpy(target->zone, zone.data, zone.len);
    return true;
}

static bool take_host(struct builder *builder, const struct cri *cri)
{
    if (cri->authority == CRI_AUTHORITY_HOST_NAME) {
        return target_join_labels(builder, &cri->labels);
    }
    if (cri->authority != CRI_AUTHORITY_HOST_IP) {
        return fail_target(builder, REASON_target_no_host);
    }
    return set_address(builder, cri->ip.data, cri->ip.len) &&
           (!cri->has_zone || take_zone(builder, cri->zone));
}

static bool from_cri(struct builder *builder, const struct cri *cri)
{
    struct target *target = builder->target;
    if (cri->has_fragment) {
        return fail_target(builder, REASON_cri_fragment); /* PXO-9, for every scheme */
    }
    if (cri->scheme == CRI_SCHEME_NAME) {
        /* No scheme that is served may be given by name (PXO-8, AMB-13). */
        struct cri_slice name = cri->scheme_name;
        bool is_known = cri_scheme_by_name(&builder->config->scheme_table, name) != NULL;
        return is_known ? fail_target(builder, REASON_cri_scheme_name)
                        : fail_scheme_name(builder, name.data, name.len);
    }
    if (!set_scheme(builder, cri->scheme_number)) {
        return false;
    }
    if (cri->has_userinfo) {
        return fail_target(builder, REASON_target_userinfo);
    }
    if (!take_host(builder, cri) || !set_port(builder, cri->has_port, cri->port) ||
        !pack_list(builder, &cri->path, &target->path) ||
        !pack_list(builder, &cri->query, &target->query)) {
        return false;
    }
    path_finish(&target->path);
    return true;
}

static enum reason target_reason_of(enum cri_error error)
{
    switch (cri_error_class(error)) {
    case CRI_CLASS_INVALID:
        return REASON_cri_invalid;
    case CRI_CLASS_UNSUPPORTED:
        return REASON_cri_unprocessable;
    case CRI_CLASS_OK:
    case CRI_CLASS_MISUSE:
    case CRI_CLASS_RESOURCE:
    case CRI_CLASS_MALFORMED:
    case CRI_CLASS_CONVERSION:
        break;
    }
    return REASON_cri_malformed;
}

static bool from_proxy_cri(struct builder *builder)
{
    struct bytes value = builder->options->proxy_cri;
    struct cri_decode_options how = {
        .strict = builder->config->proxy_strict,
    };
    struct cri cri;
    struct cri_fault fault;
    builder->target->form = TARGET_FORM_PROXY_CRI;
    enum cri_error error =
        cri_decode((struct cri_slice){value.data, value.len}, &how, &cri, &fault);
    if (error != CRI_OK) {
        return target_fail_at(builder, target_reason_of(error), "proxy-cri", &fault);
    }
    if (!cri_is_full(&cri)) {
        return fail_target(builder, REASON_cri_not_full);
    }
    return from_cri(builder, &cri);
}

static bool from_proxy_uri(struct builder *builder)
{
    struct bytes value = builder->options->proxy_uri;
    struct cri_uri_options how = {.table = &builder->config->scheme_table};
    struct cri cri;
    struct cri_fault fault = {0, "not a URI"};
    /* The CRI goes to the end of the memory, the segments made from it to the start. */
    size_t room = builder->left / 2;
    uint8_t *encoded = builder->at + room;
    size_t encoded_len;
    builder->target->form = TARGET_FORM_PROXY_URI;
    builder->flatten = true;
    enum cri_error error = cri_uri_parse((struct cri_slice){value.data, value.len}, &how, encoded,
                                         builder->left - room, &encoded_len, &fault);
    if (error == CRI_OK) {
        error = cri_decode((struct cri_slice){encoded, encoded_len}, NULL, &cri, NULL);
    }
    if (error != CRI_OK) {
        return target_fail_at(builder, REASON_uri_malformed, "proxy-uri", &fault);
    }
    if (!cri_is_full(&cri)) {
        fault = (struct cri_fault){0, "no scheme"};
        return target_fail_at(builder, REASON_uri_malformed, "proxy-uri", &fault);
    }
    builder->left = room;
    return from_cri(builder, &cri);
}

/* --- from Uri-* options ------------------------------------------------- */

static bool is_scheme_name(struct bytes text)
{
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];
        bool is_alpha = (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
        bool is_other = (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
        if (!is_alpha && (i == 0 || !is_other)) {
            return false;
        }
    }
    return text.len > 0;
}

/*
 * An IPv6 address without brackets is no host by RFC 7252 section 6.5, but cannot be anything
 * else either: no name has a colon. Some clients send it so.
 */
static bool take_uri_host(struct builder *builder, struct bytes host)
{
    char text[INET6_ADDRSTRLEN];
    uint8_t ip[16];
    bool is_bracketed = host.len > 2 && host.data[0] == '[' && host.data[host.len - 1] == ']';
    struct bytes inner = is_bracketed ? (struct bytes){host.data + 1, host.len - 2} : host;
    if (inner.len < sizeof(text) && memchr(inner.data, '\0', inner.len) == NULL) {
        bool may_be_ipv6 = is_bracketed || !builder->config->proxy_strict;
        memcpy(text, inner.data, inner.len);
        text[inner.len] = '\0';
        if (!is_bracketed && inet_pton(AF_INET, text, ip) == 1) {
            return set_address(builder, ip, 4);
        }
        if (may_be_ipv6 && memchr(text, ':', inner.len) != NULL &&
            inet_pton(AF_INET6, text, ip) == 1) {
            return set_address(builder, ip, sizeof(ip));
        }
    }
    return target_take_name(builder, host);
}

/* Uri-Path or Uri-Query options as segments. */
static bool pack_options(struct builder *builder, uint16_t number, struct segments *ret_segments)
{
    struct option_iter iter;
    struct option option;
    *ret_segments = (struct segments){.packed = builder->at};
    option_iter_init(&iter, builder->message->options);
    while (option_iter_next(&iter, &option) && option.number <= number) {
        if (option.number != number) {
            continue;
        }
        struct bytes value = option.value;
        bool is_path = number == OPTION_uri_path;
        bool is_dots = is_path && (value.len == 1 || value.len == 2) && value.data[0] == '.' &&
                       value.data[value.len - 1] == '.';
        if (is_dots || !is_utf8(value)) { /* O2C-10, O2C-11 */
            return fail_target(builder, is_path ? REASON_target_path : REASON_target_query);
        }
        if (!segments_add(builder, ret_segments, value)) {
            return false;
        }
    }
    return true;
}

/* Path and query of a request for the proxy itself. */
static bool pack_own(struct builder *builder)
{
    struct target *target = builder->target;
    if (!pack_options(builder, OPTION_uri_path, &target->path) ||
        !pack_options(builder, OPTION_uri_query, &target->query)) {
        return false;
    }
    path_finish(&target->path);
    return true;
}

/* Uri-Port as given; else the port the request came to, read as RFC 7252 section 6.5 does (PXO-22).
 */
static bool take_uri_port(struct builder *builder)
{
    uint16_t local = builder->local->port;
    if (builder->options->uri_port.data != NULL) {
        return set_port(builder, true, option_uint(builder->options->uri_port));
    }
    if (local == 0 || builder->config->proxy_scheme_port == SCHEME_PORT_TARGET_DEFAULT) {
        return set_port(builder, false, 0);
    }
    return set_port(builder, true, local);
}

static bool find_scheme(struct builder *builder)
{
    const struct request_options *options = builder->options;
    if (options->proxy_scheme_number.data != NULL) {
        builder->target->form = TARGET_FORM_PROXY_SCHEME_NUMBER;
        return set_scheme(builder, option_uint(options->proxy_scheme_number));
    }
    struct bytes name = options->proxy_scheme;
    builder->target->form = TARGET_FORM_PROXY_SCHEME;
    if (!is_scheme_name(name)) {
        return fail_target(builder, REASON_scheme_malformed);
    }
    const struct cri_scheme *scheme =
        cri_scheme_by_name(&builder->config->scheme_table, (struct cri_slice){name.data, name.len});
    if (scheme == NULL || config_scheme_by_number(builder->config, scheme->number) == NULL) {
        return fail_scheme_name(builder, name.data, name.len);
    }
    return set_scheme(builder, scheme->number);
}

static bool from_uri_options(struct builder *builder)
{
    struct target *target = builder->target;
    if (!find_scheme(builder)) {
        return false;
    }
    bool is_default = builder->options->uri_host.data == NULL;
    struct bytes host = is_default ? builder->options->default_host : builder->options->uri_host;
    if ((!is_default || host.len > 0) && !take_uri_host(builder, host)) {
        return false;
    }
    if (is_default && !target->is_name) {
        /* No name, or an address it is reached under: the proxy itself (TGT-5). */
        target->form = TARGET_FORM_NONE;
        return pack_own(builder);
    }
    target->is_entrance_name = is_default && builder->options->uri_port.data == NULL;
    if (!take_uri_port(builder) || !pack_options(builder, OPTION_uri_path, &target->path) ||
        !pack_options(builder, OPTION_uri_query, &target->query)) {
        return false;
    }
    path_finish(&target->path);
    return true;
}

/* --- which form --------------------------------------------------------- */

bool target_is_mixed(const struct request_options *options)
{
    bool has_full = options->proxy_cri.data != NULL || options->proxy_uri.data != NULL;
    bool has_scheme =
        options->proxy_scheme.data != NULL || options->proxy_scheme_number.data != NULL;
    bool has_uri = options->uri_host.data != NULL || options->uri_port.data != NULL ||
                   options->has_uri_path_or_query;
    return (options->proxy_cri.data != NULL && options->proxy_uri.data != NULL) ||
           (has_full && (has_scheme || has_uri));
}

/* Names the option that says all, and the first that says it again. */
static bool fail_mixed(struct builder *builder)
{
    const struct request_options *options = builder->options;
    bool has_cri = options->proxy_cri.data != NULL;
    const char *other = has_cri && options->proxy_uri.data != NULL  ? "proxy-uri"
                        : options->proxy_scheme.data != NULL        ? "proxy-scheme"
                        : options->proxy_scheme_number.data != NULL ? "proxy-scheme-number"
                        : options->uri_host.data != NULL            ? "uri-host"
                        : options->uri_port.data != NULL            ? "uri-port"
                                                                    : "uri-path or uri-query";
    builder->problem->reason = REASON_forms_mixed;
    snprintf(builder->problem->text, sizeof(builder->problem->text), "%s: %s and %s",
             reason_row(REASON_forms_mixed)->diagnostic, has_cri ? "proxy-cri" : "proxy-uri",
             other);
    return false;
}

const struct config_upstream *target_oscore_section(const struct config *config,
                                                    const struct target *target)
{
    for (size_t i = 0; i < config->upstream_count; i++) {
        const struct config_upstream *upstream = &config->upstreams[i];
        for (size_t j = 0; upstream->oscore[0] != '\0' && j < upstream->pattern_count; j++) {
            if (target->scheme->transport == TRANSPORT_UDP &&
                target_pattern_matches(&upstream->patterns[j], target)) {
                return upstream;
            }
        }
    }
    return NULL;
}

bool oscore_is_elsewhere(const struct config *config, const struct config_upstream *section)
{
    return section->oscore_replica[0] != '\0' &&
           strcmp(section->oscore_replica, config->cluster_replica) != 0;
}

void target_note_oscore(const struct config *config, struct bytes options, struct target *target)
{
    target->has_oscore = target->form != TARGET_FORM_NONE && target->scheme != NULL &&
                         target_oscore_section(config, target) != NULL &&
                         !options_have(options, OPTION_oscore);
}

static bool read_target(struct builder *builder)
{
    const struct request_options *options = builder->options;

    if (options->proxy_scheme.data != NULL && options->proxy_scheme_number.data != NULL) {
        return fail_target(builder, REASON_proxy_scheme_twice); /* PXO-17 */
    }
    if (builder->config->proxy_strict && target_is_mixed(options)) {
        return fail_mixed(builder);
    }
    if (options->proxy_cri.data != NULL) {
        return from_proxy_cri(builder);
    }
    if (options->proxy_uri.data != NULL) {
        return from_proxy_uri(builder);
    }
    if (options->proxy_scheme.data != NULL || options->proxy_scheme_number.data != NULL) {
        return from_uri_options(builder);
    }
    return pack_own(builder);
}

/* Four inputs, memory, two results: a struct for them would have this one user. */
/* NOLINTNEXTLINE(readability-function-size) */
bool target_find(const struct config *config, const struct message *message,
                 const struct request_options *options, const struct address *local,
                 struct target_memory memory, struct target *ret_target,
                 struct problem *ret_problem)
{
    struct builder builder = {
        .config = config,
        .message = message,
        .options = options,
        .local = local,
        .target = ret_target,
        .problem = ret_problem,
        .at = memory.bytes,
        .left = memory.capacity,
    };
    /* Field by field: the name's 255 bytes need no clearing. */
    ret_target->form = TARGET_FORM_NONE;
    ret_target->scheme = NULL;
    ret_target->is_name = false;
    ret_target->is_entrance_name = false;
    ret_target->has_oscore = false;
    ret_target->name_len = 0;
    ret_target->address = (struct address){0};
    memset(ret_target->zone, 0, sizeof(ret_target->zone));
    ret_target->port = 0;
    ret_target->path = (struct segments){.packed = builder.at};
    ret_target->query = (struct segments){.packed = builder.at};
    if (!read_target(&builder)) {
        return false;
    }
    if (config->upstream_count > 0) {
        target_note_oscore(config, message->options, ret_target);
    }
    return true;
}
