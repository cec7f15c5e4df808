/* SPDX-License-Identifier: BSD-2-Clause */
#include "fetch/make.h"

#include "fetch/forward.h"
#include "fetch/naming.h"
#include "fetch/rename.h"
#include "fetch/side.h"

#include <string.h>

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
    /* Of our own: an observation's stays. A client's may have no client any more. */
    fetch->sending.is_kept = recipe->is_own;
    fetch->asker = recipe->asker;
    if (recipe->is_own) {
        fetch->own_asker = *recipe->asker;
        (void)identity_acquire(fetch->own_asker.identity);
        fetch->asker = &fetch->own_asker;
    }
    fetch->sending.queued.turn = recipe->turn;
    fetch->trail = recipe->trail != NULL ? recipe->trail : &fetch->own_trail;
    *fetch->trail = (struct trail){.id = side->fetches.last_id += side->fetches.id_step,
                                   .started_us = context_now_us(&side->context),
                                   .started_ms = context_now_ms(&side->context)};
}

enum reason fetch_make(struct fetch_side *side, const struct fetch_recipe *recipe,
                       struct waiter waiter, struct fetch **ret_fetch)
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
    fetch->waiter = waiter;
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
    fetch->sending.deadline_ms =
        context_now_ms(&side->context) + side->context.config->proxy_request_timeout;
    *ret_fetch = fetch;
    return REASON_none;
}

enum reason fetch_start_own(struct fetch_side *side, const struct fetch_recipe *recipe,
                            struct waiter waiter, struct fetch **ret_fetch)
{
    struct fetch_recipe own = *recipe;
    struct next_hop hop;
    own.hop = &hop;
    own.trail = NULL;
    own.turn = NULL;
    own.is_own = true;
    own.mirrors_non = false;
    own.asks_for_block = false;
    enum reason reason = route_find(side->context.config, recipe->target, &hop, &own.route);
    if (reason != REASON_none) {
        return reason;
    }
    struct fetch *fetch;
    reason = fetch_make(side, &own, waiter, &fetch);
    if (reason != REASON_none) {
        return reason;
    }
    *ret_fetch = fetch;
    forward_start(side, fetch);
    return REASON_none;
}
