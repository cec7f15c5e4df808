/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Composing a request CRI from options (section 8.1.2). One pass sorts out and
 * checks the options, a second one writes them.
 */
#include <cri/coap.h>

#include "host.h"

#include <string.h>

/* The result of the first pass. */
struct parts {
    const struct cri_option *host; /* NULL: none. */
    const struct cri_option *port;
    size_t path_count;
    size_t query_count;
};

static enum cri_error check_text(struct cri_slice value, const char **ret_rule)
{
    if (value.len > CRI_OPTION_VALUE_MAX) {
        *ret_rule = "option value over 255 bytes";
        return CRI_ERR_OPTION_LENGTH;
    }
    if (cri__utf8_span(value.data, value.len) < value.len) {
        *ret_rule = "option value is not valid UTF-8"; /* O2C-11 */
        return CRI_ERR_UTF8;
    }
    return CRI_OK;
}

/* reg-name without percent-encoding, whose meaning differs between CoAP and URIs (O2C-3). */
static bool is_reg_name(struct cri_slice value)
{
    for (size_t i = 0; i < value.len; i++) {
        uint8_t octet = value.data[i];
        if (octet < 0x80 && (cri__octet_classes[octet] & (CRI__UNRESERVED | CRI__SUB_DELIM)) == 0) {
            return false;
        }
    }
    return true;
}

static enum cri_error check_host(const struct parts *parts, struct cri_slice value,
                                 const char **ret_rule)
{
    uint8_t ip[16];

    if (parts->host != NULL) {
        *ret_rule = "Uri-Host twice";
        return CRI_ERR_HOST;
    }
    if (value.len == 0) {
        *ret_rule = "Uri-Host is empty";
        return CRI_ERR_NO_HOST;
    }
    enum cri_error error = check_text(value, ret_rule);
    if (error != CRI_OK) {
        return error;
    }
    bool is_literal = value.data[0] == '[' && value.data[value.len - 1] == ']' &&
                      cri__ipv6_parse(cri__slice(value.data + 1, value.len - 2), ip);
    if (!is_literal && !is_reg_name(value)) {
        *ret_rule = "Uri-Host is neither a name nor an address"; /* O2C-2 */
        return CRI_ERR_HOST;
    }
    return CRI_OK;
}

static enum cri_error check_option(struct parts *parts, const struct cri_option *option,
                                   const char **ret_rule)
{
    enum cri_error error = CRI_OK;

    switch (option->number) {
    case CRI_OPTION_URI_HOST:
        error = check_host(parts, option->value, ret_rule);
        parts->host = option;
        break;
    case CRI_OPTION_URI_PORT:
        if (parts->port != NULL || option->value.len > 2) {
            *ret_rule = parts->port != NULL ? "Uri-Port twice" : "Uri-Port over 2 bytes";
            error = CRI_ERR_OPTION_LENGTH;
        }
        parts->port = option;
        break;
    case CRI_OPTION_URI_PATH:
        error = check_text(option->value, ret_rule);
        if (error == CRI_OK && cri__is_dot_segment(option->value)) {
            *ret_rule = "dot-segment in Uri-Path"; /* O2C-10 */
            error = CRI_ERR_PATH;
        }
        parts->path_count++;
        break;
    case CRI_OPTION_URI_QUERY:
        error = check_text(option->value, ret_rule);
        parts->query_count++;
        break;
    default:
        break;
    }
    return error;
}

/* Step 3; *ret_has_port is false where the port is the scheme's default. */
static uint16_t effective_port(const struct parts *parts, const struct cri_composition *composition,
                               bool *ret_has_port)
{
    const struct cri_scheme *scheme =
        cri_scheme_by_number(composition->table, composition->scheme_number);
    uint16_t default_port = scheme == NULL ? 0 : scheme->default_port;
    unsigned port = default_port;

    if (parts->port != NULL) {
        port = 0;
        for (size_t i = 0; i < parts->port->value.len; i++) {
            port = port << 8 | parts->port->value.data[i];
        }
    } else if (composition->destination != NULL) {
        port = composition->destination->port;
    }
    /* A scheme without a default port has 0 in the table, which does not stand for port 0. */
    *ret_has_port = port != default_port || (default_port == 0 && parts->port != NULL);
    return (uint16_t)port;
}

/* Only there is an address without its zone ambiguous: fe80::/10, and multicast of that scope. */
static bool is_link_local(struct cri_slice ip)
{
    return ip.len == 16 && ((ip.data[0] == 0xfe && (ip.data[1] & 0xc0u) == 0x80) ||
                            (ip.data[0] == 0xff && (ip.data[1] & 0x0fu) == 0x02));
}

static void put_ip(struct cri_writer *writer, struct cri_slice ip, struct cri_slice zone,
                   bool has_port)
{
    size_t zone_count = zone.len > 0 ? 1 : 0;

    cri__put_head(writer, CRI__MAJOR_ARRAY, 1 + zone_count + (has_port ? 1u : 0u));
    cri__put_bytes(writer, ip);
    if (zone_count > 0) {
        cri__put_text(writer, zone);
    }
}

/* Uri-Host split at its dots; lower-cased in a copy, for it has at most 255 bytes. */
static void put_name(struct cri_writer *writer, struct cri_slice value, bool has_port)
{
    uint8_t name[CRI_OPTION_VALUE_MAX] = {0};
    size_t count = 1;

    for (size_t i = 0; i < value.len; i++) {
        uint8_t octet = value.data[i];
        name[i] = octet >= 'A' && octet <= 'Z' ? octet | 0x20u : octet;
        count += octet == '.' ? 1 : 0;
    }
    cri__put_head(writer, CRI__MAJOR_ARRAY, count + (has_port ? 1u : 0u));
    size_t start = 0;
    for (size_t i = 0; i <= value.len; i++) {
        if (i == value.len || name[i] == '.') {
            cri__put_text(writer, cri__slice(name + start, i - start));
            start = i + 1;
        }
    }
}

static void put_authority(struct cri_writer *writer, const struct parts *parts,
                          const struct cri_composition *composition)
{
    const struct cri_destination *destination = composition->destination;
    struct cri_slice zone = destination == NULL ? cri__slice(NULL, 0) : destination->zone;
    bool has_port;
    uint16_t port = effective_port(parts, composition, &has_port);
    uint8_t ip[16];

    if (parts->host == NULL) {
        put_ip(writer, cri__slice(destination->ip, destination->ip_len), zone, has_port);
    } else if (cri__ipv4_parse(parts->host->value, ip)) {
        put_ip(writer, cri__slice(ip, 4), cri__slice(NULL, 0), has_port);
    } else if (parts->host->value.data[0] == '[') {
        struct cri_slice value = parts->host->value;
        (void)cri__ipv6_parse(cri__slice(value.data + 1, value.len - 2), ip);
        struct cri_slice address = cri__slice(ip, sizeof ip);
        put_ip(writer, address, is_link_local(address) ? zone : cri__slice(NULL, 0), has_port);
    } else {
        put_name(writer, parts->host->value, has_port);
    }
    if (has_port) {
        cri__put_head(writer, CRI__MAJOR_UINT, port);
    }
}

static void put_list(struct cri_writer *writer, const struct cri_option *options, size_t count,
                     uint16_t number, size_t item_count)
{
    cri__put_head(writer, CRI__MAJOR_ARRAY, item_count);
    for (size_t i = 0; i < count; i++) {
        if (options[i].number == number) {
            cri__put_text(writer, options[i].value);
        }
    }
}

/* The public signature: input, its length, buffer, capacity and two results, as everywhere.
 * NOLINTNEXTLINE(readability-function-size) */
enum cri_error cri_from_options(const struct cri_composition *composition,
                                const struct cri_option *options, size_t count, uint8_t *buffer,
                                size_t capacity, size_t *ret_len, struct cri_fault *ret_fault)
{
    const struct cri_destination *destination = composition->destination;
    struct cri_writer writer = {buffer, capacity, 0};
    struct parts parts = {NULL, NULL, 0, 0};

    for (size_t i = 0; i < count; i++) {
        const char *rule = "";
        enum cri_error error = check_option(&parts, &options[i], &rule);
        if (error != CRI_OK) {
            return cri__fail(ret_fault, error, i, rule);
        }
    }
    if (parts.host == NULL &&
        (destination == NULL || (destination->ip_len != 4 && destination->ip_len != 16))) {
        return cri__fail(ret_fault, CRI_ERR_NO_HOST, count, "neither Uri-Host nor an address");
    }
    size_t section_count = parts.query_count > 0 ? 4 : parts.path_count > 0 ? 3 : 2;
    cri__put_head(&writer, CRI__MAJOR_ARRAY, section_count);
    cri__put_head(&writer, CRI__MAJOR_NINT, composition->scheme_number);
    put_authority(&writer, &parts, composition);
    if (section_count > 2) {
        put_list(&writer, options, count, CRI_OPTION_URI_PATH, parts.path_count);
    }
    if (section_count > 3) {
        put_list(&writer, options, count, CRI_OPTION_URI_QUERY, parts.query_count);
    }
    return cri__writer_finish(&writer, ret_len);
}
