/* SPDX-License-Identifier: BSD-2-Clause */
#include "fetch/hops.h"

#include "coap/option.h"

#include <string.h>

enum reason hops_take(const struct config *config, struct bytes received, uint8_t *ret_next)
{
    if (received.data == NULL) {
        *ret_next = (uint8_t)(config->proxy_hop_limit ? config->proxy_hop_limit_initial : 0);
        return REASON_none;
    }
    uint32_t value = option_uint(received);
    if (value == 0) {
        return REASON_hop_limit_invalid; /* HOP-2 */
    }
    /* Lowered, never raised: a loop that crosses us ends all the same (HOP-9). */
    value = value - 1 < config->proxy_hop_limit_max ? value - 1 : config->proxy_hop_limit_max;
    *ret_next = (uint8_t)value;
    return value == 0 ? REASON_hop_limit_reached : REASON_none;
}

/* The next name in a list that spaces separate; false at the end. */
static bool hops_next_name(struct bytes *rest, struct bytes *ret_name)
{
    while (rest->len > 0 && rest->data[0] == ' ') {
        rest->data++;
        rest->len--;
    }
    if (rest->len == 0) {
        return false;
    }
    const uint8_t *space = memchr(rest->data, ' ', rest->len);
    size_t len = space == NULL ? rest->len : (size_t)(space - rest->data);
    *ret_name = (struct bytes){rest->data, len};
    rest->data += len;
    rest->len -= len;
    return true;
}

static bool is_name(struct bytes name, const char *ours)
{
    return name.len == strlen(ours) && memcmp(name.data, ours, name.len) == 0;
}

/* Names with a space between them. */
struct hop_names {
    char *text;
    size_t len;
};

static bool add_name(struct hop_names *names, struct bytes name)
{
    size_t separator = names->len > 0 ? 1 : 0;
    if (name.len + separator > HOPS_NAMES_MAX - names->len) {
        return false;
    }
    if (separator > 0) {
        names->text[names->len] = ' ';
        names->len++;
    }
    memcpy(names->text + names->len, name.data, name.len);
    names->len += name.len;
    return true;
}

enum hops_verdict hops_pass_back(const struct config *config, struct bytes payload,
                                 char ret_names[HOPS_NAMES_MAX], size_t *ret_len)
{
    const char *ours = config->proxy_name;
    struct hop_names names = {ret_names, 0};
    struct bytes rest = payload, name;
    bool is_loop = false,
         fits = add_name(&names, (struct bytes){(const uint8_t *)ours, strlen(ours)});
    while (hops_next_name(&rest, &name)) {
        if (is_name(name, ours)) {
            is_loop = true;
        } else if (config->proxy_hop_trail) {
            fits = fits && add_name(&names, name);
        }
    }
    if (!is_loop && !fits) {
        return HOPS_UNCHANGED; /* no room for us (RFC 8768 section 4) */
    }
    *ret_len = names.len;
    return is_loop ? HOPS_LOOP : HOPS_NAMED;
}
