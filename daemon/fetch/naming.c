/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Composition of a CRI (draft section 8.1.2) from the normal form of a target, by libcri's
 * builder, which checks what it has built: nothing leaves here that libcri itself would not
 * take. A Proxy-Uri is made from that CRI by libcri's formatter.
 */
#include "fetch/naming.h"

#include "coap/option.h"

#include <arpa/inet.h>
#include <cri/builder.h>
#include <cri/uri.h>
#include <stdio.h>
#include <string.h>

#define SCHEME_NUMBER_MAX 0xffffffu /* Proxy-Scheme-Number has up to 3 bytes */

/* The port that the scheme has by its RFC; 0 for none. Our configuration may differ. */
static uint16_t registered_port(const struct scheme *scheme)
{
    const struct cri_scheme *known = cri_scheme_by_number(NULL, scheme->number);
    return known != NULL ? known->default_port : 0;
}

static void build_host(struct cri_builder *builder, const struct target *target)
{
    if (target->is_name) {
        cri_builder_host_name(builder, (struct cri_slice){target->name, target->name_len});
        return;
    }
    struct cri_slice zone = {(const uint8_t *)target->zone, strlen(target->zone)};
    cri_builder_host_ip(
        builder, (struct cri_slice){target->address.ip, address_ip_len(&target->address)}, zone);
}

bool naming_cri(const struct target *target, uint8_t room[NAMING_CRI_ROOM], size_t *ret_len)
{
    struct cri_builder builder;
    struct bytes item;

    cri_builder_init(&builder, room, NAMING_CRI_ROOM);
    cri_builder_scheme(&builder, target->scheme->number);
    build_host(&builder, target);
    if (target->port != registered_port(target->scheme)) {
        cri_builder_port(&builder, target->port);
    }
    for (uint32_t offset = 0; segments_next(&target->path, &offset, &item);) {
        cri_builder_segment(&builder, (struct cri_slice){item.data, item.len});
    }
    for (uint32_t offset = 0; segments_next(&target->query, &offset, &item);) {
        cri_builder_parameter(&builder, (struct cri_slice){item.data, item.len});
    }
    return cri_builder_finish(&builder, ret_len, NULL) == CRI_OK;
}

/* --- the forms ---------------------------------------------------------- */

static bool as_proxy_cri(const struct target *target, struct naming_room *room,
                         struct naming *ret_naming)
{
    uint8_t encoded[NAMING_CRI_ROOM];
    size_t len = 0;
    if (!naming_cri(target, encoded, &len) || len > NAMING_CRI_MAX) {
        return false;
    }
    memcpy(room->value, encoded, len);
    *ret_naming = (struct naming){.option = OPTION_proxy_cri, .value = {room->value, len}};
    return true;
}

static bool as_proxy_uri(const struct target *target, struct naming_room *room,
                         struct naming *ret_naming)
{
    const struct cri_scheme row = {target->scheme->number, target->scheme->name, 0};
    const struct cri_scheme_table table = {&row, 1};
    uint8_t encoded[NAMING_CRI_ROOM];
    struct cri cri;
    size_t len = 0;
    if (!naming_cri(target, encoded, &len) ||
        cri_decode((struct cri_slice){encoded, len}, NULL, &cri, NULL) != CRI_OK ||
        cri_uri_format(&cri, &table, (char *)room->value, sizeof(room->value), &len, NULL) !=
            CRI_OK) {
        return false;
    }
    *ret_naming = (struct naming){.option = OPTION_proxy_uri, .value = {room->value, len}};
    return true;
}

/*
 * Uri-* options towards a parent. Uri-Host always, also where it is the parent's own
 * address: without one the request would be for the parent itself (TGT-5). Uri-Port unless
 * every reading of a missing one gives the target's (PXO-22): where the parent is asked on
 * the default port of its scheme, and the target's port is the default of its own.
 */
static void add_uri_options(const struct target *target, const struct next_hop *hop,
                            struct naming_room *room, struct naming *naming)
{
    naming->has_uri_options = true;
    if (target->is_name) {
        naming->host = (struct bytes){target->name, target->name_len};
    } else {
        char ip[INET6_ADDRSTRLEN] = "";
        bool is_ipv6 = target->address.family == ADDRESS_IPV6;
        inet_ntop(is_ipv6 ? AF_INET6 : AF_INET, target->address.ip, ip, sizeof(ip));
        int len = snprintf(room->host, sizeof(room->host),
                           is_ipv6 && !hop->has_bare_ipv6 ? "[%s]" : "%s", ip);
        naming->host = (struct bytes){(const uint8_t *)room->host, (size_t)len};
    }
    naming->has_port = hop->port != registered_port(hop->scheme) ||
                       target->port != registered_port(target->scheme);
}

static bool as_proxy_scheme_number(const struct target *target, const struct next_hop *hop,
                                   struct naming_room *room, struct naming *ret_naming)
{
    uint32_t number = target->scheme->number;
    size_t len = 0;
    if (number > SCHEME_NUMBER_MAX) {
        return false;
    }
    for (unsigned shift = 24; shift > 0; shift -= 8) { /* the shortest form; 0 is empty */
        uint8_t byte = (uint8_t)(number >> (shift - 8));
        if (len > 0 || byte != 0) {
            room->value[len++] = byte;
        }
    }
    *ret_naming =
        (struct naming){.option = OPTION_proxy_scheme_number, .value = {room->value, len}};
    add_uri_options(target, hop, room, ret_naming);
    return true;
}

static bool as_proxy_scheme(const struct target *target, const struct next_hop *hop,
                            struct naming_room *room, struct naming *ret_naming)
{
    const char *name = target->scheme->name;
    *ret_naming = (struct naming){.option = OPTION_proxy_scheme,
                                  .value = {(const uint8_t *)name, strlen(name)}};
    add_uri_options(target, hop, room, ret_naming);
    return true;
}

struct naming naming_for_origin(const struct target *target)
{
    struct naming naming = {.has_uri_options = true};
    if (target->is_name) {
        naming.host = (struct bytes){target->name, target->name_len};
    }
    return naming;
}

enum reason naming_for_parent(const struct target *target, enum config_route_form form,
                              const struct next_hop *hop, struct naming_room *room,
                              struct naming *ret_naming)
{
    bool good = false;
    if (!target->is_name && target->address.scope != 0) {
        return REASON_zone_route;
    }
    switch (form) {
    case ROUTE_FORM_PROXY_CRI:
        good = as_proxy_cri(target, room, ret_naming) ||
               as_proxy_scheme_number(target, hop, room, ret_naming);
        break;
    case ROUTE_FORM_PROXY_SCHEME_NUMBER:
        good = as_proxy_scheme_number(target, hop, room, ret_naming) ||
               as_proxy_cri(target, room, ret_naming);
        break;
    case ROUTE_FORM_PROXY_URI:
        good = as_proxy_uri(target, room, ret_naming) ||
               as_proxy_scheme(target, hop, room, ret_naming);
        break;
    case ROUTE_FORM_PROXY_SCHEME:
        good = as_proxy_scheme(target, hop, room, ret_naming);
        break;
    }
    return good ? REASON_none : REASON_route_form;
}

enum config_route_form naming_form(const struct naming *naming)
{
    switch (naming->option) {
    case OPTION_proxy_uri:
        return ROUTE_FORM_PROXY_URI;
    case OPTION_proxy_scheme:
        return ROUTE_FORM_PROXY_SCHEME;
    case OPTION_proxy_scheme_number:
        return ROUTE_FORM_PROXY_SCHEME_NUMBER;
    default:
        return ROUTE_FORM_PROXY_CRI;
    }
}
