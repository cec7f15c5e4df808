/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Decomposing a request CRI (section 8.1.1). The iterator goes through four
 * stages, one per option; what could fail is looked at before the first.
 */
#include <cri/coap.h>

#include "host.h"

#include <string.h>

_Static_assert(CRI_OPTION_VALUE_MAX >= CRI__IP_TEXT_MAX, "an address fits where a name does");

enum stage { STAGE_HOST, STAGE_PORT, STAGE_PATH, STAGE_QUERY, STAGE_END };

static bool is_coap_scheme(const struct cri *cri)
{
    /* Bit n: scheme number n is in Table 3. */
    const uint32_t table3 = 1u << CRI_SCHEME_COAP | 1u << CRI_SCHEME_COAPS |
                            1u << CRI_SCHEME_COAP_TCP | 1u << CRI_SCHEME_COAPS_TCP |
                            1u << CRI_SCHEME_COAP_WS | 1u << CRI_SCHEME_COAPS_WS;
    return cri->scheme == CRI_SCHEME_ID && cri->scheme_number < 32 &&
           (table3 >> cri->scheme_number & 1u) != 0;
}

/* Steps 1 to 3, and what the draft has no step for (C2O-15). */
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
static bool long_list_fits(const struct cri_list *list)
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

/* A lone label stands as it is in the CRI; several are joined in the iterator. */
static enum cri_error join_labels(struct cri_options *options, const struct cri_list *labels,
                                  const char **ret_rule)
{
    size_t len = 0;
    struct cri_iter iter = {labels->encoded};
    struct cri_slice label = {NULL, 0};

    for (size_t i = 0; cri__next_text(&iter, &label); i++) {
        size_t dot = i == 0 ? 0 : 1;
        if (label.len + dot > sizeof options->host - len) {
            *ret_rule = CRI__RULE("host is over 255 bytes");
            return CRI_ERR_OPTION_LENGTH;
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
        *ret_rule = CRI__RULE("host is empty");
        return CRI_ERR_NO_HOST;
    }
    options->host_len = (uint16_t)len;
    options->has_host = true;
    return CRI_OK;
}

/* Step 4. A zone-id never stands in an option, so it has to be the destination's (C2O-17). */
static enum cri_error set_host(struct cri_options *options, const struct cri *cri,
                               const struct cri_destination *destination, const char **ret_rule)
{
    if (cri->authority == CRI_AUTHORITY_HOST_NAME) {
        return join_labels(options, &cri->labels, ret_rule);
    }
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
        *ret_rule = CRI__RULE("zone-id is not the destination's");
        return CRI_ERR_ZONE;
    }
    options->host_len = (uint16_t)cri__ip_format(cri->ip, (char *)options->host);
    options->has_host = true;
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

/* Step 7: a lone empty segment gives no option. */
static bool is_lone_empty(const struct cri_list *path)
{
    struct cri_iter iter = {path->encoded};
    struct cri_slice text;

    return path->count == 1 && cri__next_text(&iter, &text) && text.len == 0;
}

enum cri_error cri_options_init(struct cri_options *options, const struct cri *cri,
                                const struct cri_destination *destination,
                                const struct cri_scheme_table *table, struct cri_fault *ret_fault)
{
    const char *rule = "";

    options->cri = cri;
    options->stage = STAGE_HOST;
    options->port_len = 0;
    options->host_len = 0;
    options->has_host = false;
    options->lone_label = NULL;
    options->has_port = false;
    enum cri_error error = check(cri, &rule);
    if (error == CRI_OK) {
        error = set_host(options, cri, destination, &rule);
    }
    if (error == CRI_OK && !list_fits(&cri->path)) {
        rule = CRI__RULE("path segment is over 255 bytes");
        error = CRI_ERR_OPTION_LENGTH;
    }
    if (error == CRI_OK && !list_fits(&cri->query)) {
        rule = CRI__RULE("query parameter is over 255 bytes");
        error = CRI_ERR_OPTION_LENGTH;
    }
    if (error != CRI_OK) {
        options->stage = STAGE_END;
        return cri__fail(ret_fault, error, 0, rule);
    }
    set_port(options, cri, destination, table);
    options->skips_path = is_lone_empty(&cri->path);
    return CRI_OK;
}

/* Next item of the list in hand as an option. */
static inline bool next_item(struct cri_options *options, uint16_t number,
                             struct cri_option *ret_option)
{
    ret_option->number = number;
    return cri__next_text(&options->iter, &ret_option->value);
}

bool cri_options_next(struct cri_options *options, struct cri_option *ret_option)
{
    if (options->stage == STAGE_HOST) {
        options->stage = STAGE_PORT;
        if (options->has_host) {
            ret_option->number = CRI_OPTION_URI_HOST;
            ret_option->value =
                cri__slice(options->lone_label != NULL ? options->lone_label : options->host,
                           options->host_len);
            return true;
        }
    }
    if (options->stage == STAGE_PORT) {
        options->stage = STAGE_PATH;
        options->iter.rest = options->cri->path.encoded;
        if (options->skips_path) {
            options->iter.rest.len = 0;
        }
        if (options->has_port) {
            ret_option->number = CRI_OPTION_URI_PORT;
            ret_option->value = cri__slice(options->port, options->port_len);
            return true;
        }
    }
    if (options->stage == STAGE_PATH) {
        if (next_item(options, CRI_OPTION_URI_PATH, ret_option)) {
            return true;
        }
        options->stage = STAGE_QUERY;
        options->iter.rest = options->cri->query.encoded;
    }
    if (options->stage == STAGE_QUERY) {
        if (next_item(options, CRI_OPTION_URI_QUERY, ret_option)) {
            return true;
        }
        options->stage = STAGE_END;
    }
    return false;
}
