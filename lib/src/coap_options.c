/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Decomposing a request CRI (section 8.1.1). All errors are found before the first option. Then the
 * iterator goes through four stages, which are the numbers of the options: host and port come from
 * the iterator itself, a segment or a parameter is the next item of the list in hand. What is rare
 * stands in functions of its own (CRI__APART).
 */
#include <cri/coap.h>

#include "host.h"

#include <string.h>

_Static_assert(CRI_OPTION_VALUE_MAX >= CRI__IP_TEXT_MAX, "an address fits where a name does");

static bool is_coap_scheme(const struct cri *cri)
{
    /* Bit n: scheme number n is in Table 3. */
    const uint32_t table3 = 1u << CRI_SCHEME_COAP | 1u << CRI_SCHEME_COAPS |
                            1u << CRI_SCHEME_COAP_TCP | 1u << CRI_SCHEME_COAPS_TCP |
                            1u << CRI_SCHEME_COAP_WS | 1u << CRI_SCHEME_COAPS_WS;
    return cri->scheme == CRI_SCHEME_ID && cri->scheme_number < 32 &&
           (table3 >> cri->scheme_number & 1u) != 0;
}

/* Steps 1 to 3, and a case without a step in the draft (C2O-15). */
static enum cri_error check(const struct cri *cri, const char **ret_rule)
{
    if (!cri__is_full(cri)) {
        *ret_rule = CRI__RULE("not a full CRI");
        return CRI_ERR_NOT_FULL;
    }
    if (!is_coap_scheme(cri)) {
        *ret_rule = CRI__RULE("scheme is not a CoAP scheme number");
        return CRI_ERR_SCHEME_NOT_COAP;
    }
    if (cri->has_fragment) {
        *ret_rule = CRI__RULE("fragment present");
        return CRI_ERR_FRAGMENT;
    }
    if (cri->authority == CRI_AUTHORITY_NULL || cri->authority == CRI_AUTHORITY_ROOTLESS) {
        *ret_rule = CRI__RULE("no host");
        return CRI_ERR_NO_HOST;
    }
    if (cri->has_userinfo) {
        *ret_rule = CRI__RULE("userinfo has no place in a CoAP request");
        return CRI_ERR_USERINFO;
    }
    if ((cri->features & CRI_FEATURE_TEXT_OR_PET) != 0) {
        *ret_rule = CRI__RULE("text-pet-sequence where CoAP needs text"); /* C2O-5 */
        return CRI_ERR_PET_IN_OPTION;
    }
    return CRI_OK;
}

/* C2O-14 */
CRI__APART static bool long_list_fits(const struct cri_list *list)
{
    struct cri_iter iter = {list->encoded};
    struct cri_slice text;

    while (cri__next_text(&iter, &text)) {
        if (text.len > CRI_OPTION_VALUE_MAX) {
            return false;
        }
    }
    return true;
}

/* An item cannot be too long where all of them together are not. */
static inline bool list_fits(const struct cri_list *list)
{
    return list->encoded.len <= CRI_OPTION_VALUE_MAX || long_list_fits(list);
}

/* Labels that are joined in the iterator, or a lone one that may be empty or too long. */
CRI__APART static enum cri_error
join_labels(struct cri_options *options, const struct cri_list *labels, struct cri_fault *ret_fault)
{
    size_t len = 0;
    struct cri_iter iter = {labels->encoded};
    struct cri_slice label = {NULL, 0};

    for (size_t i = 0; cri__next_text(&iter, &label); i++) {
        size_t dot = i == 0 ? 0 : 1;
        if (label.len + dot > sizeof options->host - len) {
            return cri__fail(ret_fault, CRI_ERR_OPTION_LENGTH, 0, "host is over 255 bytes");
        }
        if (labels->count == 1) {
            options->lone_label = label.data;
        } else {
            if (dot != 0) {
                options->host[len++] = '.';
            }
            if (label.len > 0) {
                memcpy(options->host + len, label.data, label.len);
            }
        }
        len += label.len;
    }
    if (len == 0) {
        return cri__fail(ret_fault, CRI_ERR_NO_HOST, 0, "host is empty");
    }
    options->host_len = (uint16_t)len;
    return CRI_OK;
}

/* A lone label stands as it is in the CRI. */
static inline enum cri_error set_name(struct cri_options *options, const struct cri_list *labels,
                                      struct cri_fault *ret_fault)
{
    struct cri_slice rest = labels->encoded;
    struct cri_slice label;

    if (labels->count == 1 && cri__take_short(&rest, CRI__EMPTY_TEXT, &label) && label.len > 0) {
        options->lone_label = label.data;
        options->host_len = (uint16_t)label.len;
        return CRI_OK;
    }
    return join_labels(options, labels, ret_fault);
}

/* A zone-id never stands in an option, so it has to be the destination's (C2O-17). */
CRI__APART static enum cri_error set_address(struct cri_options *options, const struct cri *cri,
                                             const struct cri_destination *destination,
                                             struct cri_fault *ret_fault)
{
    bool is_there = false;
    if (destination != NULL && destination->ip_len <= sizeof destination->ip) {
        struct cri_slice zone = cri->has_zone ? cri->zone : cri__slice(NULL, 0);
        is_there = cri__slice_is_equal(cri->ip, cri__slice(destination->ip, destination->ip_len)) &&
                   cri__slice_is_equal(zone, destination->zone);
    }
    if (is_there) {
        return CRI_OK;
    }
    if (cri->has_zone) {
        return cri__fail(ret_fault, CRI_ERR_ZONE, 0, "zone-id is not the destination's");
    }
    options->host_len = (uint16_t)cri__ip_format(cri->ip, (char *)options->host);
    return CRI_OK;
}

/* Steps 5 and 6; the shortest form of RFC 7252 section 3.2. */
static void set_port(struct cri_options *options, const struct cri *cri,
                     const struct cri_destination *destination,
                     const struct cri_scheme_table *table)
{
    const struct cri_scheme *scheme = cri_scheme_by_number(table, cri->scheme_number);
    uint16_t default_port = scheme == NULL ? 0 : scheme->default_port;
    uint16_t port = cri->has_port ? cri->port : default_port;

    if (port == (destination == NULL ? default_port : destination->port)) {
        return;
    }
    options->has_port = true;
    if (port > UINT8_MAX) {
        options->port[options->port_len++] = (uint8_t)(port >> 8);
    }
    if (port > 0) {
        options->port[options->port_len++] = (uint8_t)(port & 0xff);
    }
}

/* Step 7: a lone empty segment gives no option. Most are one byte; others have a long head. */
CRI__APART static bool is_empty_text(struct cri_slice encoded)
{
    struct cri_iter iter = {encoded};
    struct cri_slice text;

    return cri__next_text(&iter, &text) && text.len == 0;
}

static inline bool is_lone_empty(const struct cri_list *path)
{
    return path->count == 1 && path->encoded.len > 0 &&
           (path->encoded.len == 1 || (path->encoded.data[0] >= CRI__EMPTY_TEXT + CRI__SHORT_MAX &&
                                       is_empty_text(path->encoded)));
}

static inline void begin_path(struct cri_options *options)
{
    options->stage = CRI_OPTION_URI_PATH;
    if (!is_lone_empty(&options->cri->path)) {
        options->iter.rest = options->cri->path.encoded;
    }
}

enum cri_error cri_options_init(struct cri_options *options, const struct cri *cri,
                                const struct cri_destination *destination,
                                const struct cri_scheme_table *table, struct cri_fault *ret_fault)
{
    const char *rule = "";

    options->cri = cri;
    options->iter.rest = cri__slice(NULL, 0);
    options->stage = 0; /* Gives nothing. */
    options->port_len = 0;
    options->host_len = 0;
    options->lone_label = NULL;
    options->has_port = false;
    enum cri_error error = check(cri, &rule);
    if (error != CRI_OK) {
        return cri__fail(ret_fault, error, 0, rule);
    }
    error = cri->authority == CRI_AUTHORITY_HOST_NAME /* Step 4. */
                ? set_name(options, &cri->labels, ret_fault)
                : set_address(options, cri, destination, ret_fault);
    if (error != CRI_OK) {
        return error;
    }
    if (!list_fits(&cri->path)) {
        return cri__fail(ret_fault, CRI_ERR_OPTION_LENGTH, 0, "path segment is over 255 bytes");
    }
    if (!list_fits(&cri->query)) {
        return cri__fail(ret_fault, CRI_ERR_OPTION_LENGTH, 0, "query parameter is over 255 bytes");
    }
    set_port(options, cri, destination, table);
    if (options->host_len > 0) {
        options->stage = CRI_OPTION_URI_HOST;
    } else if (options->has_port) {
        options->stage = CRI_OPTION_URI_PORT;
    } else {
        begin_path(options);
    }
    return CRI_OK;
}

/* The option where the next item of the list in hand is no short text, or there is none. */
CRI__APART static bool next_otherwise(struct cri_options *options, struct cri_option *ret_option)
{
    ret_option->number = options->stage;
    if (options->iter.rest.len > 0 && cri__next_long_text(&options->iter, &ret_option->value)) {
        return true;
    }
    switch (options->stage) {
    case CRI_OPTION_URI_HOST:
        ret_option->value = cri__slice(
            options->lone_label != NULL ? options->lone_label : options->host, options->host_len);
        if (options->has_port) {
            options->stage = CRI_OPTION_URI_PORT;
        } else {
            begin_path(options);
        }
        return true;
    case CRI_OPTION_URI_PORT:
        ret_option->value = cri__slice(options->port, options->port_len);
        begin_path(options);
        return true;
    case CRI_OPTION_URI_PATH:
        options->stage = CRI_OPTION_URI_QUERY;
        options->iter.rest = options->cri->query.encoded;
        ret_option->number = CRI_OPTION_URI_QUERY;
        return cri__next_text(&options->iter, &ret_option->value);
    default:
        return false;
    }
}

bool cri_options_next(struct cri_options *options, struct cri_option *ret_option)
{
    if (cri__take_short(&options->iter.rest, CRI__EMPTY_TEXT, &ret_option->value)) {
        ret_option->number = options->stage;
        return true;
    }
    return next_otherwise(options, ret_option);
}
