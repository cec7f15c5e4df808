/* SPDX-License-Identifier: BSD-2-Clause */
#include "fetch/make.h"

#include "base/log.h"
#include "coap/option.h"
#include "fetch/forward.h"
#include "fetch/side.h"

#include <cri/builder.h>
#include <cri/uri.h>
#include <stdio.h>
#include <string.h>

/* --- naming ------------------------------------------------------------- */

/*
 * Composition of a CRI (draft section 8.1.2) from the normal form of a target, by libcri's
 * builder, which checks what it has built: nothing leaves here that libcri itself would not
 * take. A Proxy-Uri is made from that CRI by libcri's formatter.
 */

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
        char ip[ADDRESS_IP_TEXT_MAX];
        bool is_ipv6 = target->address.family == ADDRESS_IPV6;
        int len =
            snprintf(room->host, sizeof(room->host), is_ipv6 && !hop->has_bare_ipv6 ? "[%s]" : "%s",
                     address_format_ip(&target->address, ip));
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

/* The form that a naming for a parent proxy has come to; kept in @p naming, cannot fail. */
static enum config_route_form naming_form(const struct naming *naming)
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

/*
 * The client's request is gone by the time the answer comes. Our own is there still, and
 * has everything: all of its options go along again but those that name the target.
 */

/* The parent may be replaced by one that takes other forms. */
#define REMEMBERED_MS 600000u

/*
 * Requests to a parent that may be asked in every form in vain within a time. Refusals may be of
 * the target, and in a chain of proxies each would ask the next one three times: past this only
 * what has helped before is used.
 */
#define IN_VAIN_MAX 16u
#define IN_VAIN_MS 10000u

/* The forms of RFC 7252, the first to be tried first. */
static const enum config_route_form known_forms[] = {ROUTE_FORM_PROXY_SCHEME, ROUTE_FORM_PROXY_URI};

#define KNOWN_FORM_COUNT (sizeof(known_forms) / sizeof(known_forms[0]))

static unsigned form_bit(unsigned form)
{
    return 1u << form;
}

/* --- what is known about parents ---------------------------------------- */

/*
 * The form to begin with towards the parent at @p hop: @p form, which is configured, unless the
 * parent has refused it lately. Cannot fail.
 */
static enum config_route_form rename_form(const struct fetch_side *side, const struct next_hop *hop,
                                          enum config_route_form form)
{
    const struct parent_memory *memory = &side->parents;
    const struct parent_habits *habits = &memory->parents[hop->parent_index];
    if (memory->epoch != side->context.policy_epoch || (habits->refused & form_bit(form)) == 0 ||
        context_now_ms(&side->context) >= habits->refused_until_ms) {
        return form;
    }
    for (size_t i = 0; i < KNOWN_FORM_COUNT; i++) {
        if ((habits->taken & form_bit(known_forms[i])) != 0) {
            return known_forms[i];
        }
    }
    return form;
}

/*
 * Whether the parent at @p hop takes IPv6 addresses in Uri-Host without brackets; false while that
 * is not known.
 */
static bool rename_host_is_bare(const struct fetch_side *side, const struct next_hop *hop)
{
    const struct parent_memory *memory = &side->parents;
    return memory->epoch == side->context.policy_epoch &&
           context_now_ms(&side->context) < memory->parents[hop->parent_index].bare_until_ms;
}

/* NULL where the fetch is from before a reload: its index says nothing any more. */
static struct parent_habits *habits_of(struct fetch_side *side, const struct fetch *fetch)
{
    struct parent_memory *memory = &side->parents;
    if (fetch->route_epoch != side->context.policy_epoch) {
        return NULL;
    }
    if (memory->epoch != side->context.policy_epoch) {
        *memory = (struct parent_memory){.epoch = side->context.policy_epoch};
    }
    return &memory->parents[fetch->hop.parent_index];
}

/* The parent has gone for the target: it takes the form, whatever it said to those before. */
static void learn(struct fetch_side *side, const struct fetch *fetch)
{
    struct parent_habits *habits = habits_of(side, fetch);
    uint64_t now_ms = context_now_ms(&side->context);
    if (habits == NULL) {
        return;
    }
    if (now_ms >= habits->taken_until_ms) {
        habits->taken = 0;
        habits->taken_until_ms = now_ms + REMEMBERED_MS;
    }
    if (fetch->hop.has_bare_ipv6) {
        habits->bare_until_ms = now_ms + REMEMBERED_MS;
    }
    habits->taken |= (uint8_t)form_bit(fetch->form);
    habits->refused &= (uint8_t)~form_bit(fetch->form);
    /* Proxy-Scheme is asked twice where the host was written in two ways. */
    uint8_t tried = (uint8_t)(fetch->forms_tried & ~form_bit(fetch->form));
    if (tried == 0) {
        return;
    }
    if (now_ms >= habits->refused_until_ms) {
        log_event(LOG_WARNING, "parent_takes_another_form", "route=%.*s form=%s",
                  (int)fetch->hop.route.len, (const char *)fetch->hop.route.data,
                  fetch->form == ROUTE_FORM_PROXY_URI ? "proxy-uri" : "proxy-scheme");
        habits->refused = 0;
    }
    habits->refused |= tried;
    habits->taken &= (uint8_t)~tried;
    habits->refused_until_ms = now_ms + REMEMBERED_MS;
    /* A choice that lasts as long as what made it necessary. */
    habits->taken_until_ms = habits->refused_until_ms;
}

/* Whether the parent is known to take the form: what it refuses is then not the form. */
static bool is_known_to_take(struct fetch_side *side, const struct fetch *fetch)
{
    const struct parent_habits *habits = habits_of(side, fetch);
    return habits != NULL && (habits->taken & form_bit(fetch->form)) != 0 &&
           context_now_ms(&side->context) < habits->taken_until_ms;
}

static bool may_be_in_vain(struct fetch_side *side, const struct fetch *fetch)
{
    const struct parent_habits *habits = habits_of(side, fetch);
    return habits == NULL || habits->in_vain < IN_VAIN_MAX ||
           context_now_ms(&side->context) >= habits->in_vain_until_ms;
}

static void note_in_vain(struct fetch_side *side, const struct fetch *fetch)
{
    struct parent_habits *habits = habits_of(side, fetch);
    uint64_t now_ms = context_now_ms(&side->context);
    if (habits == NULL) {
        return;
    }
    if (now_ms >= habits->in_vain_until_ms) {
        habits->in_vain = 0;
        habits->in_vain_until_ms = now_ms + IN_VAIN_MS;
    }
    habits->in_vain++;
}

/* --- another form ------------------------------------------------------- */

/* Codes with which parents refuse the option that names the target. */
static bool may_be_about_form(uint8_t code)
{
    return code == CODE(4, 2) || code == CODE(4, 0) || code == CODE(5, 1) || code == CODE(5, 5);
}

/* Whether to ask in another form: a 4.02 says that nothing was done, the others do not. */
static bool is_refusal(struct fetch_side *side, const struct fetch *fetch, uint8_t code)
{
    return may_be_about_form(code) && may_be_in_vain(side, fetch) &&
           (code == CODE(4, 2) || (fetch->is_safe && !is_known_to_take(side, fetch)));
}

/*
 * Whether the parent has gone for the target. That it has not refused a form is a sign only
 * where it had refused another: else it may have looked no further than at the client.
 */
static bool shows_taken(const struct fetch *fetch, uint8_t code)
{
    return CODE_CLASS(code) == 2 || (fetch->forms_tried != 0 && !may_be_about_form(code));
}

/* The request in another form, in place of the one that was sent; false where it does not fit. */
static bool rename_request(struct fetch_side *side, struct fetch *fetch,
                           enum config_route_form form)
{
    struct message sent;
    struct naming naming;
    struct naming_room room;
    if (message_decode(fetch->sending.datagram, fetch->sending.datagram_len, &sent) != MESSAGE_OK ||
        naming_for_parent(&fetch->target, form, &fetch->hop, &room, &naming) != REASON_none ||
        naming_form(&naming) != form) {
        return false;
    }
    /* A new token: whatever else the old request may still bring is not an answer to this. */
    uint8_t old_token[FETCH_TOKEN_LEN];
    memcpy(old_token, fetch->token, sizeof(old_token));
    fetch_set_token(fetch, entropy_u64(&side->context.entropy));
    size_t at = (size_t)(fetch->sending.datagram - fetch->memory.bytes);
    size_t capacity = fetch->memory.capacity - at;
    if (capacity > side->context.config->limits_datagram_bytes) {
        capacity = (size_t)side->context.config->limits_datagram_bytes;
    }
    size_t len = encode_renamed(&fetch->target, &naming, &sent,
                                (struct bytes){fetch->token, FETCH_TOKEN_LEN},
                                side->context.scratch, capacity);
    if (len == 0) {
        memcpy(fetch->token, old_token, sizeof(old_token));
        return false;
    }
    sending_take_back(&side->origin,
                      &fetch->sending); /* a session may still look at what was sent */
    memcpy(fetch->sending.datagram, side->context.scratch, len);
    fetch->sending.datagram_len = (uint32_t)len;
    fetch->memory.used = (uint32_t)(at + len);
    fetch->form = (uint8_t)form;
    return true;
}

static bool rename_to_next(struct fetch_side *side, struct fetch *fetch)
{
    fetch->forms_tried |= (uint8_t)form_bit(fetch->form);
    for (size_t i = 0; i < KNOWN_FORM_COUNT; i++) {
        if ((fetch->forms_tried & form_bit(known_forms[i])) == 0 &&
            rename_request(side, fetch, known_forms[i])) {
            return true;
        }
    }
    return false;
}

/*
 * Last, an IPv6 address in Uri-Host without its brackets: so some parents take it, against RFC
 * 7252 section 6.4, and with them in no form (PXO-26).
 */
static bool rename_to_bare(struct fetch_side *side, struct fetch *fetch, uint8_t code)
{
    const struct target *target = &fetch->target;
    bool is_ipv6 = !target->is_name && target->address.family == ADDRESS_IPV6;
    bool was_done = code != CODE(4, 2) && !fetch->is_safe;
    if (!is_ipv6 || fetch->hop.has_bare_ipv6 || !may_be_about_form(code) || was_done ||
        !may_be_in_vain(side, fetch)) {
        return false;
    }
    enum config_route_form form = fetch->form == ROUTE_FORM_PROXY_SCHEME_NUMBER
                                      ? ROUTE_FORM_PROXY_SCHEME_NUMBER
                                      : ROUTE_FORM_PROXY_SCHEME;
    fetch->hop.has_bare_ipv6 = true;
    return rename_request(side, fetch, form);
}

bool rename_and_ask_again(struct fetch_side *side, struct fetch *fetch, uint8_t code)
{
    if (shows_taken(fetch, code)) {
        learn(side, fetch);
    }
    bool is_about_form = is_refusal(side, fetch, code);
    if (!(is_about_form && rename_to_next(side, fetch)) && !rename_to_bare(side, fetch, code)) {
        if (is_about_form || (fetch->hop.has_bare_ipv6 && may_be_about_form(code))) {
            note_in_vain(side, fetch);
        }
        return false;
    }
    metric_add(&side->context.metrics.upstream_renamed, 1);
    trail_event(&side->context, fetch->trail, EVENT_renamed, 0);
    forward_renamed(side, fetch);
    return true;
}

/* --- fetches ------------------------------------------------------------ */

/* How the target is named to the recipe's parent, of which @p ret_parent is what is known. */
static enum reason name_to_parent(const struct fetch_side *side, const struct fetch_recipe *recipe,
                                  struct next_hop *ret_parent, struct naming_room *room,
                                  struct naming *ret_naming)
{
    *ret_parent = *recipe->hop;
    enum config_route_form form = rename_form(side, ret_parent, recipe->route->form);
    ret_parent->has_bare_ipv6 = rename_host_is_bare(side, ret_parent);
    return naming_for_parent(recipe->target, form, ret_parent, room, ret_naming);
}

/* Bytes that a fetch for this request needs: target, way, datagram. */
static size_t memory_needed(const struct fetch_recipe *recipe, const struct naming *naming)
{
    const struct target *target = recipe->target;
    size_t packed = target->path.len + target->query.len;
    /* A head of an option takes at most 5 bytes, Uri-Port 7 with its value. */
    size_t names = naming->value.len + 5 + naming->host.len + 5 + 7;
    /* That of a segment takes at most 3, one of which the segment has already. */
    size_t options = packed + 2 * (size_t)(target->path.count + target->query.count) + names;
    size_t message =
        4 + FETCH_TOKEN_LEN + recipe->message->options.len + recipe->message->payload.len + 1;
    size_t additions = 32;
    for (size_t i = 0; i < recipe->additions.etag_count; i++) {
        additions += 1 + recipe->additions.etags[i].len;
    }
    /* Forwarding drops options, which can lengthen the delta of the next one by 2. */
    size_t texts = recipe->hop->name.len + recipe->hop->route.len;
    return packed + texts + options + message + additions +
           cached_bytes(recipe->lookup, recipe->message) + 64;
}

/* Have @p data, of @p len bytes, point to a copy in the memory of @p fetch; false: no room. */
static bool keep_bytes(struct fetch *fetch, const uint8_t **data, size_t len)
{
    uint8_t *copy = memory_alloc(&fetch->memory, len);
    if (copy != NULL && len > 0) {
        memcpy(copy, *data, len);
    }
    *data = copy;
    return copy != NULL;
}

/*
 * What has to outlive the request and the configuration that the way was found in; @p hop is that
 * of the recipe, or the parent with what is known of it.
 */
static bool keep_recipe(struct fetch *fetch, const struct fetch_recipe *recipe,
                        const struct next_hop *hop)
{
    struct target *target = &fetch->target;
    *target = *recipe->target;
    fetch->hop = *hop;
    if (!hop->is_parent && hop->is_name) {
        fetch->hop.name.data = target->name;
    }
    fetch->is_safe = recipe->is_safe;
    fetch->not_local = recipe->not_local;
    fetch->may_stay_unanswered = recipe->may_stay_unanswered;
    fetch->asks_for_block = recipe->asks_for_block;
    fetch->is_group = recipe->is_group;
    fetch->group_timeout_s = recipe->group_timeout_s;
    return keep_bytes(fetch, &target->path.packed, target->path.len) &&
           keep_bytes(fetch, &target->query.packed, target->query.len) &&
           (!hop->is_parent || keep_bytes(fetch, &fetch->hop.name.data, hop->name.len)) &&
           keep_bytes(fetch, &fetch->hop.route.data, hop->route.len);
}

/* On whose behalf, and what the trace knows it by. */
static void keep_asker(struct fetch_side *side, struct fetch *fetch,
                       const struct fetch_recipe *recipe)
{
    fetch->is_own = recipe->is_own;
    side->fetches.own_count += recipe->is_own;
    /* Of our own: an observation's stays. A client's may have no client any more. */
    fetch->sending.is_kept = recipe->is_own;
    fetch->asker = recipe->asker;
    if (recipe->is_own) {
        fetch->own_asker = *recipe->asker;
        (void)identity_acquire(fetch->own_asker.identity);
        fetch->asker = &fetch->own_asker;
    }
    fetch->sending.is_for_http = recipe->asker->is_http;
    fetch->sending.queued.turn = recipe->turn;
    fetch->trail = recipe->trail;
    if (recipe->trail == NULL) {
        fetch->trail = &fetch->own_trail;
        trail_begin(side, fetch->trail);
    }
}

bool fetch_goes_as_con(const struct fetch_recipe *recipe)
{
    return recipe->hop->scheme->upstream_type == UPSTREAM_TYPE_CON || !recipe->mirrors_non;
}

/*
 * Encode the request to the next hop into the fetch's memory.
 *
 * @param naming which options name its target.
 * @return false where it does not fit.
 */
static bool forward_encode(const struct fetch_side *side, struct fetch *fetch,
                           const struct fetch_recipe *recipe, const struct naming *naming)
{
    struct memory *memory = &fetch->memory;
    size_t capacity = memory->capacity - memory->used;
    if (capacity > side->context.config->limits_datagram_bytes) {
        capacity = (size_t)side->context.config->limits_datagram_bytes;
    }
    fetch->sending.is_confirmable = fetch_goes_as_con(recipe);
    fetch->sending.datagram = memory->bytes + memory->used;
    fetch->sending.datagram_len = (uint32_t)encode_request(
        &fetch->target, naming, &recipe->additions, recipe->message,
        (struct bytes){fetch->token, FETCH_TOKEN_LEN}, fetch->sending.datagram, capacity);
    return fetch->sending.datagram_len > 0 &&
           memory_alloc(memory, fetch->sending.datagram_len) != NULL;
}

enum reason fetch_make(struct fetch_side *side, const struct fetch_recipe *recipe,
                       struct waiter *waiter, struct fetch **ret_fetch)
{
    struct naming_room room; /* a kilobyte, which needs no clearing */
    struct naming naming;
    struct next_hop parent;
    const struct next_hop *hop = recipe->hop;
    if (hop->is_parent) {
        enum reason reason = name_to_parent(side, recipe, &parent, &room, &naming);
        if (reason != REASON_none) {
            return reason;
        }
        hop = &parent;
    } else {
        naming = naming_for_origin(recipe->target);
    }
    size_t needed = memory_needed(recipe, &naming);
    if (needed > side->large.block_bytes) {
        return REASON_request_too_large;
    }
    struct fetch *fetch = fetch_new(&side->fetches, &side->large, needed);
    if (fetch == NULL) {
        return REASON_proxy_busy;
    }
    hash_map_expect(&side->equals, side->fetches.free.used);
    hash_map_expect(&side->origin.origins.requests, side->fetches.free.used);
    fetch_set_token(fetch, entropy_u64(&side->context.entropy));
    keep_asker(side, fetch, recipe);
    fetch->route_epoch = side->context.policy_epoch;
    if (!keep_recipe(fetch, recipe, hop) ||
        !cached_begin(side, fetch, recipe->lookup, recipe->message) ||
        !forward_encode(side, fetch, recipe, &naming)) {
        cached_release(side, fetch);
        fetch_free(&side->fetches, &side->large, fetch);
        return REASON_request_too_large;
    }
    if (hop->is_parent) {
        fetch->form = (uint8_t)naming_form(&naming);
    }
    fetch->sending.body = recipe->body;
    fetch->sending.deadline_ms = recipe->deadline_ms;
    if (recipe->deadline_ms == 0) {
        const struct config *config = side->context.config;
        fetch->sending.deadline_ms = context_now_ms(&side->context) +
                                     (fetch->sending.is_for_http ? config->http_request_timeout
                                                                 : config->proxy_request_timeout);
    }
    waiter->asker = fetch->asker;
    waiter->etags = fetch->ticket.etags;
    fetch_add_waiter(fetch, waiter);
    *ret_fetch = fetch;
    return REASON_none;
}

enum reason fetch_make_alone(struct fetch_side *side, const struct fetch *from,
                             const struct fetch_recipe *recipe, struct waiter *waiter,
                             struct fetch **ret_fetch)
{
    struct fetch_recipe own = *recipe;
    struct next_hop hop;
    struct cached_lookup lookup;
    struct message message = {0};
    enum reason reason = route_take(side, &from->target, &hop, &own.route);
    /* What makes two requests equal is the same in this one's. */
    (void)message_decode(from->sending.datagram, from->sending.datagram_len, &message);
    message.options = recipe->message->options;
    cached_lookup_again(side, from, message.options, &lookup);
    own.is_safe = from->is_safe;
    own.target = &from->target;
    own.hop = &hop;
    own.message = &message;
    own.additions.hop_limit = lookup.hop_limit;
    own.additions.etags = lookup.etags;
    own.additions.etag_count = lookup.etag_count;
    own.lookup = &lookup;
    return reason == REASON_none ? fetch_make(side, &own, waiter, ret_fetch) : reason;
}

enum reason fetch_make_own(struct fetch_side *side, const struct fetch_recipe *recipe,
                           struct waiter *waiter, struct fetch **ret_fetch)
{
    struct fetch_recipe own = *recipe;
    struct next_hop hop;
    own.hop = &hop;
    own.trail = NULL;
    own.turn = NULL;
    own.is_own = true;
    own.mirrors_non = false;
    own.asks_for_block = false;
    enum reason reason = route_take(side, recipe->target, &hop, &own.route);
    return reason == REASON_none ? fetch_make(side, &own, waiter, ret_fetch) : reason;
}

enum reason fetch_start_own(struct fetch_side *side, const struct fetch_recipe *recipe,
                            struct waiter *waiter, struct fetch **ret_fetch)
{
    struct fetch *fetch;
    enum reason reason = fetch_make_own(side, recipe, waiter, &fetch);
    if (reason == REASON_none) {
        *ret_fetch = fetch;
        forward_start(side, fetch);
    }
    return reason;
}
