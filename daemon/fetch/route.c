/* SPDX-License-Identifier: BSD-2-Clause */
#include "fetch/route.h"

#include "base/escape.h"
#include "conf/device.h"
#include "context/target.h"
#include "fetch/side.h"
#include "origin/switchboard.h"
#include "policy/pattern.h"

#include <stdio.h>
#include <string.h>

static bool route_matches(const struct config_route *route, const struct target *target)
{
    for (size_t i = 0; i < route->pattern_count; i++) {
        if (target_pattern_matches(&route->patterns[i], target)) {
            return true;
        }
    }
    return false;
}

static const struct config_route *first_match(const struct config *config,
                                              const struct target *target)
{
    for (size_t i = 0; i < config->route_count; i++) {
        if (route_matches(&config->routes[i], target)) {
            return &config->routes[i];
        }
    }
    return NULL;
}

static struct bytes route_bytes_of(const char *text)
{
    return (struct bytes){(const uint8_t *)text, strlen(text)};
}

static void go_straight(const struct target *target, struct next_hop *ret_hop)
{
    *ret_hop = (struct next_hop){
        .scheme = target->scheme,
        .is_name = target->is_name,
        .has_oscore = target->has_oscore,
        .port = target->port,
        .address = target->address,
        .name = {target->name, target->is_name ? target->name_len : 0},
    };
}

static void go_to_parent(const struct config *config, const struct config_route *route,
                         struct next_hop *ret_hop)
{
    const struct config_parent *parent = &route->parent;
    *ret_hop = (struct next_hop){
        .scheme = config_scheme_by_number(config, parent->scheme_number),
        .is_parent = true,
        .is_name = parent->name != NULL,
        .port = parent->address.port,
        .address = parent->address,
        .name = parent->name != NULL ? route_bytes_of(parent->name) : (struct bytes){0},
    };
}

/* No transport leads there: messages are those of the plainest. */
static void go_to_recording(const struct config *config, const struct target *target,
                            struct next_hop *ret_hop)
{
    go_straight(target, ret_hop);
    ret_hop->scheme = config_scheme_by_number(config, CRI_SCHEME_COAP);
    ret_hop->has_oscore = false;
    ret_hop->is_recording = true;
}

/* A name in devices.zone names a device or nothing: it is not looked up, and not passed on. */
static enum reason find_device(const struct config *config, const struct target *target,
                               struct bytes name, struct next_hop *ret_hop)
{
    go_straight(target, ret_hop);
    ret_hop->is_device = true;
    ret_hop->has_oscore = false; /* nothing but its session leads there */
    return target->scheme->number == CRI_SCHEME_COAP &&
                   target->port == target->scheme->default_port &&
                   config_device_find(config, name) != NULL
               ? REASON_none
               : REASON_device_unknown;
}

enum reason route_find(const struct config *config, const struct target *target,
                       struct next_hop *ret_hop, const struct config_route **ret_route)
{
    const struct bytes device = config->devices_zone[0] != '\0'
                                    ? target_below(target, config->devices_zone)
                                    : (struct bytes){0};
    if (device.len > 0) {
        *ret_route = NULL;
        return find_device(config, target, device, ret_hop);
    }
    const struct config_route *route = config->route_count > 0 ? first_match(config, target) : NULL;
    *ret_route = route;
    if (route != NULL && route->kind == ROUTE_KIND_REFUSE) {
        return REASON_route_refused;
    }
    if (target->has_oscore && route != NULL && route->kind == ROUTE_KIND_PARENT) {
        return REASON_oscore_route;
    }
    bool is_recorded = route != NULL && route->kind == ROUTE_KIND_RECORDING;
    if (target->has_oscore && !is_recorded &&
        oscore_is_elsewhere(config, target_oscore_section(config, target))) {
        return REASON_oscore_elsewhere;
    }
    if (is_recorded) {
        go_to_recording(config, target, ret_hop);
    } else if (route != NULL && route->kind == ROUTE_KIND_PARENT) {
        go_to_parent(config, route, ret_hop);
    } else {
        go_straight(target, ret_hop);
    }
    if (route != NULL) {
        ret_hop->route = route_bytes_of(route->name);
        ret_hop->parent_index = route->parent_index;
    }
    /* A parent's was checked with the configuration. */
    return ret_hop->is_parent || ret_hop->scheme->transport != TRANSPORT_NONE
               ? REASON_none
               : REASON_scheme_unsupported;
}

enum reason route_take(const struct fetch_side *side, const struct target *target,
                       struct next_hop *ret_hop, const struct config_route **ret_route)
{
    const struct config *config = side->context.config;
    enum reason reason = route_find(config, target, ret_hop, ret_route);
    if (reason == REASON_none && ret_hop->is_device) {
        const struct device *device =
            device_named(&side->origin, target_below(target, config->devices_zone));
        const struct line_holding holding =
            device != NULL ? holder_read(device->holder) : (struct line_holding){0};
        enum transport transport = holding.is_held ? holding.transport : TRANSPORT_DTLS;
        const struct scheme *scheme =
            config_scheme_by_number(config, transport_row(transport)->number);
        ret_hop->scheme = scheme != NULL ? scheme : ret_hop->scheme;
    }
    return reason;
}

bool next_hop_stands_in(const struct next_hop *hop)
{
    return hop->is_parent || hop->is_recording;
}

bool route_stands_in(const struct config *config, const struct target *target)
{
    const struct config_route *route =
        target_below(target, config->devices_zone).len > 0 ? NULL : first_match(config, target);
    return route != NULL &&
           (route->kind == ROUTE_KIND_PARENT || route->kind == ROUTE_KIND_RECORDING);
}

const struct config_route *route_recorded(const struct config *config, const struct next_hop *hop)
{
    for (size_t i = 0; hop->is_recording && i < config->route_count; i++) {
        const struct config_route *route = &config->routes[i];
        if (route->recording != NULL && bytes_equal(route_bytes_of(route->name), hop->route)) {
            return route;
        }
    }
    return NULL;
}

const char *next_hop_format(const struct next_hop *hop, char *buffer, size_t capacity)
{
    char text[TARGET_NAME_MAX * 4 + 1];
    if (hop->is_name) {
        escape_text(text, sizeof(text), (const char *)hop->name.data, hop->name.len);
        snprintf(buffer, capacity, "%s://%s:%u", hop->scheme->name, text, hop->port);
    } else {
        snprintf(buffer, capacity, "%s://%s", hop->scheme->name,
                 address_format(&hop->address, text));
    }
    return buffer;
}
