/* SPDX-License-Identifier: BSD-2-Clause */
#include "fetch/zones.h"

#include "fetch/side.h"

#include <stdio.h>
#include <string.h>

/* Interfaces come and go, so the table has to be asked for again; a request may not do it. */
#define ZONES_MS 5000u

_Static_assert(TARGET_ZONE_MAX >= INTERFACE_NAME_MAX, "the target has room for every name");

static void add_zone(struct zone_table *table, const char *text, uint32_t *ret_index)
{
    struct interface_name zone;
    if (interfaces_find(text, &zone)) {
        table->zones[table->count++] = zone;
        *ret_index = zone.index;
    }
}

void zones_look_up(const struct config *config, struct zone_table *ret_zones)
{
    uint32_t index = 0;
    ret_zones->count = 0;
    ret_zones->default_index = 0;
    for (size_t i = 0; i < config->proxy_zones.count && i + 1 < ZONES_MAX; i++) {
        add_zone(ret_zones, config->proxy_zones.items[i], &index);
    }
    if (config->proxy_default_zone[0] != '\0') {
        add_zone(ret_zones, config->proxy_default_zone, &ret_zones->default_index);
    }
}

const struct zone_table *zones_of(struct fetch_side *side)
{
    uint64_t now_ms = context_now_ms(&side->context);
    if (now_ms >= side->zones_until_ms) {
        zones_look_up(side->context.config, &side->zones);
        side->zones_until_ms = now_ms + ZONES_MS;
    }
    return &side->zones;
}

/* A zone-id is the interface's name or its number in decimal. */
static bool is_called(const struct interface_name *zone, const char *text)
{
    char number[11];
    snprintf(number, sizeof(number), "%u", zone->index);
    return strcmp(zone->name, text) == 0 || strcmp(number, text) == 0;
}

static const struct interface_name *find_called(const struct zone_table *zones, const char *text)
{
    for (size_t i = 0; i < zones->count; i++) {
        if (is_called(&zones->zones[i], text)) {
            return &zones->zones[i];
        }
    }
    return NULL;
}

static const struct interface_name *find_index(const struct zone_table *zones, uint32_t index)
{
    for (size_t i = 0; i < zones->count && index != 0; i++) {
        if (zones->zones[i].index == index) {
            return &zones->zones[i];
        }
    }
    return NULL;
}

static bool fail_zone(struct problem *problem, enum reason reason)
{
    *problem = (struct problem){.reason = reason};
    return false;
}

/* The zone in the client's words: nothing that is not plain goes back or into a log. */
static bool fail_unknown(struct problem *problem, const char *zone)
{
    fail_zone(problem, REASON_zone_unknown);
    int len = snprintf(problem->text, sizeof(problem->text), "zone-id \"%s\" not served", zone);
    for (int i = 0; i < len; i++) {
        char c = problem->text[i];
        problem->text[i] = c >= 0x20 && c < 0x7f ? c : '?';
    }
    return false;
}

static const struct interface_name *implied_zone(const struct zone_table *zones,
                                                 const struct address *local,
                                                 const struct target *target)
{
    bool is_uri_host =
        target->form == TARGET_FORM_PROXY_SCHEME || target->form == TARGET_FORM_PROXY_SCHEME_NUMBER;
    const struct interface_name *zone = is_uri_host ? find_index(zones, local->scope) : NULL;
    return zone != NULL ? zone : find_index(zones, zones->default_index);
}

bool zones_apply(const struct zone_table *zones, const struct address *local, struct target *target,
                 struct problem *ret_problem)
{
    bool has_zone = target->zone[0] != '\0';
    if (target->is_name || !address_needs_scope(&target->address)) {
        return !has_zone || fail_zone(ret_problem, REASON_zone_misplaced);
    }
    const struct interface_name *zone =
        has_zone ? find_called(zones, target->zone) : implied_zone(zones, local, target);
    if (zone != NULL) {
        target->address.scope = zone->index;
        memcpy(target->zone, zone->name, sizeof(target->zone));
        return true;
    }
    if (has_zone) {
        return fail_unknown(ret_problem, target->zone);
    }
    return address_is_multicast(&target->address) || fail_zone(ret_problem, REASON_zone_needed);
}

bool zones_admit(const struct zone_table *zones, struct address *address)
{
    if (!address_is_ipv6_link_local(address)) {
        return true;
    }
    if (address->scope == 0) {
        address->scope = zones->default_index;
    }
    return find_index(zones, address->scope) != NULL;
}
