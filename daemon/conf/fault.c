/* SPDX-License-Identifier: BSD-2-Clause */
/* The [fault NAME] sections: which messages they are for, and the code. */
#include "conf/loader.h"

#include "coap/message.h"
#include "conf/value.h"
#include "policy/pattern.h"

#include <stdio.h>
#include <string.h>

static void fault_error(struct loader *loader, const struct named_draft *draft, const char *key,
                        const char *what)
{
    const struct place *place = named_place(CONFIG_NAMED_FAULT, draft, key);
    const struct place *any = named_any_place(CONFIG_NAMED_FAULT, draft);
    named_error(loader, CONFIG_NAMED_FAULT, draft, place->kind != PLACE_PRESET ? place : any, key,
                "%s", what);
}

/* "4.04" to "5.31": what an origin server may answer when something is wrong, or right. */
static bool fault_parse_code(const char *text, uint8_t *ret_code)
{
    bool is_code = strlen(text) >= 4 && text[0] >= '2' && text[0] <= '5' && text[0] != '3' &&
                   text[1] == '.' && text[2] >= '0' && text[2] <= '3' && text[3] >= '0' &&
                   text[3] <= '9';
    unsigned detail = is_code ? (unsigned)(text[2] - '0') * 10 + (unsigned)(text[3] - '0') : 0;
    if (!is_code || detail > 31) {
        return false;
    }
    *ret_code = (uint8_t)CODE((unsigned)(text[0] - '0'), detail);
    return true;
}

/* The code, and behind a colon its probability; without that it is certain. */
static bool take_code(struct config_fault *fault)
{
    static const struct config_row chance = {.type = CONFIG_TYPE_CHANCE, .max = CHANCE_ONE};
    uint64_t value = CHANCE_ONE;
    if (!fault_parse_code(fault->code, &fault->answer)) {
        return false;
    }
    const char *rest = fault->code + 4;
    if (rest[0] != '\0' && (rest[0] != ':' || !value_parse(&chance, rest + 1, &value))) {
        return false;
    }
    fault->answer_chance = (uint32_t)value;
    return true;
}

static bool fault_has_effect(const struct config_fault *fault)
{
    return (fault->loss | fault->duplicate | fault->reorder | fault->corrupt | fault->truncate |
            fault->silence | fault->close) > 0 ||
           fault->delay > 0 || fault->code[0] != '\0';
}

static void check_fault(struct loader *loader, const struct named_draft *draft)
{
    struct config_fault *fault = draft->row;
    fault->patterns = named_patterns(loader, CONFIG_NAMED_FAULT, draft, "target", &fault->target,
                                     false, &fault->pattern_count);
    fault->client_count = loader_take_ranges(loader, CONFIG_NAMED_FAULT, draft, "client",
                                             &fault->client, &fault->clients);
    if (!loader->config->lab_enabled) {
        fault_error(loader, draft, "target", "needs lab.enabled = yes: faults are for labs");
    }
    if (fault->target.count == 0 && fault->client.count == 0) {
        fault_error(loader, draft, "target", "this or client is needed");
    }
    if (!fault_has_effect(fault)) {
        fault_error(loader, draft, "loss",
                    "this, duplicate, reorder, corrupt, truncate, delay, code, silence or close is "
                    "needed: without, the fault does nothing");
    }
    if (fault->jitter > fault->delay) {
        fault_error(loader, draft, "jitter", "longer than delay");
    }
    if (fault->code[0] != '\0' && !take_code(fault)) {
        fault_error(loader, draft, "code",
                    "expected a code of an answer such as 5.03, or with a probability 5.03:0.2");
    }
}

void loader_check_faults(struct loader *loader)
{
    const struct named_drafts *drafts = &loader->named[CONFIG_NAMED_FAULT];

    for (size_t i = 0; i < drafts->count && !loader->no_memory; i++) {
        check_fault(loader, &drafts->items[i]);
    }
}

/* --- keys without effect -------------------------------------------------- */

#define BIT(transport) (UINT32_C(1) << (transport))
#define ALL_TRANSPORTS (BIT(TRANSPORT_COUNT) - 1)

static uint32_t transport_of_scheme(const struct config *config, uint32_t number)
{
    const struct scheme *scheme = config_scheme_by_number(config, number);
    return scheme != NULL ? BIT(scheme->transport) : ALL_TRANSPORTS;
}

/* What requests to the targets of @p fault may be sent over: rather too much than too little. */
static uint32_t transports_to_targets(const struct config *config, const struct config_fault *fault)
{
    uint32_t found = 0;
    for (size_t i = 0; i < fault->pattern_count; i++) {
        uint32_t scheme = fault->patterns[i].scheme;
        found |=
            scheme == PATTERN_SCHEME_ANY ? ALL_TRANSPORTS : transport_of_scheme(config, scheme);
    }
    for (size_t i = 0; i < config->route_count; i++) {
        const struct config_route *route = &config->routes[i];
        if (route->kind == ROUTE_KIND_PARENT) {
            found |= transport_of_scheme(config, route->parent.scheme_number);
        }
    }
    for (size_t i = 0; i < config->upstream_count; i++) { /* OSCORE is a session over UDP */
        found |= config->upstreams[i].oscore[0] != '\0' ? BIT(TRANSPORT_DTLS) : 0;
    }
    return config->devices_zone[0] != '\0' ? ALL_TRANSPORTS : found;
}

static uint32_t transports_of_listeners(const struct config *config)
{
    uint32_t found = 0;
    for (size_t i = 0; i < config->listener_count; i++) {
        found |= BIT(config->listeners[i].transport);
    }
    return found;
}

bool config_fault_is_idle(const struct config *config, const struct config_fault *fault,
                          char *ret_why, size_t capacity)
{
    const struct {
        const char *key;
        uint32_t chance;
    } of_messages[] = {{"loss", fault->loss},
                       {"duplicate", fault->duplicate},
                       {"reorder", fault->reorder},
                       {"corrupt", fault->corrupt},
                       {"truncate", fault->truncate}};
    bool is_of_targets = fault->pattern_count > 0;
    uint32_t found =
        is_of_targets ? transports_to_targets(config, fault) : transports_of_listeners(config);
    uint32_t messages = BIT(TRANSPORT_UDP) | (is_of_targets ? 0 : BIT(TRANSPORT_DTLS));

    for (size_t i = 0; i < sizeof(of_messages) / sizeof(of_messages[0]); i++) {
        if (of_messages[i].chance > 0 && (found & messages) == 0) {
            (void)snprintf(ret_why, capacity, "%s can do nothing: %s", of_messages[i].key,
                           is_of_targets ? "no target of this fault is asked over UDP"
                                         : "no listener has UDP or DTLS");
            return true;
        }
    }
    if (fault->close > 0 && (found & ~messages) == 0) {
        (void)snprintf(ret_why, capacity, "close can do nothing: %s",
                       is_of_targets ? "the targets of this fault are asked over UDP alone"
                                     : "no listener has connections");
        return true;
    }
    return false;
}
