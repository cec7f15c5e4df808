/* SPDX-License-Identifier: BSD-2-Clause */
#include "fetch/question.h"

#include "cache/freshness.h"
#include "coap/option.h"
#include "fetch/admit.h"
#include "fetch/group.h"
#include "fetch/hops.h"
#include "fetch/published.h"
#include "fetch/side.h"

/* --- may it be asked ---------------------------------------------------- */

static enum reason check_question(struct fetch_side *side, const struct question *question,
                                  uint8_t *ret_hop_limit)
{
    const struct config *config = side->context.config;
    const struct target *target = question->target;
    if (published_is_own(side, target)) {
        return REASON_local;
    }
    /*
     * A request of our own that came back: its token is one that we have given to a request
     * which is still out, and those are random. Loops by way of other proxies, which give
     * tokens of their own, end by Hop-Limit (ERR-14).
     */
    if (fetch_by_token(&side->fetches, question->message->token) != NULL) {
        return REASON_loop_detected;
    }
    bool is_for_group = question->options->multicast_timeout.data != NULL ||
                        (!target->is_name && address_is_multicast(&target->address));
    enum reason reason =
        is_for_group ? group_check(config, target, question->options) : REASON_none;
    if (reason != REASON_none) {
        return reason;
    }
    reason = hops_take(config, question->options->hop_limit, ret_hop_limit);
    if (reason == REASON_none) {
        reason = admit_target(side, question->asker, target, question->message->code,
                              ADMIT_RESOLVER_BY_ROUTE);
    }
    return reason == REASON_none && question->needs_echo ? REASON_echo_required : reason;
}

enum reason question_ask(struct fetch_side *side, const struct question *question,
                         struct finding *ret_finding)
{
    enum reason reason = check_question(side, question, &ret_finding->hop_limit);
    ret_finding->has_looked = reason == REASON_none && !question->waits && fetch_has_room(side);
    return ret_finding->has_looked ? question_look(side, question, ret_finding) : reason;
}

/* --- is the answer here ------------------------------------------------- */

/* The answer from @p entry; false where it is not for this client. */
static bool take_entry(struct fetch_side *side, const struct question *question,
                       struct cache_entry *entry, struct finding *finding)
{
    const struct message *message = question->message;
    struct representation kept = cache_entry_get(&side->cache, entry);
    if (admit_answer(side, question->asker, question->target, message->code, &entry->origin) !=
            REASON_none ||
        (freshness_is_partial(kept.options) && !question->takes_blocks)) {
        return false;
    }
    cache_entry_touch(entry);
    struct reply whole = cached_reply_of(&kept, context_now_ms(&side->context));
    finding->reply = cached_reply_to(message->options, &whole, finding->etag_option);
    return true;
}

/* Whether its origin server has asked not to be asked this now (RATE-5). */
static bool is_throttled(struct fetch_side *side, const struct question *question,
                         struct finding *finding)
{
    uint8_t method = question->message->code;
    /* What a lookup has made lies where another key would be made. */
    finding->throttled_s =
        finding->lookup.has_key
            ? throttle_left_of_s(&side->origin, finding->lookup.key.target_hash, method)
            : throttle_left_s(&side->origin, question->target, method);
    return finding->throttled_s > 0;
}

static enum reason find_way(struct fetch_side *side, const struct question *question,
                            struct finding *finding)
{
    finding->has_reply = false;
    finding->route = NULL;
    bool is_any_throttled = context_now_ms(&side->context) < side->origin.throttles.latest_ms;
    if (is_any_throttled && is_throttled(side, question, finding)) {
        return REASON_origin_throttles;
    }
    return question->is_only_from_cache
               ? REASON_not_cached
               : route_find(side->context.config, question->target, &finding->hop, &finding->route);
}

enum reason question_look(struct fetch_side *side, const struct question *question,
                          struct finding *finding)
{
    struct cache_entry *entry = cached_look(side, question, finding->hop_limit, &finding->lookup);
    if (entry == NULL) {
        if (question->is_not_stored) {
            finding->lookup = (struct cached_lookup){.hop_limit = finding->hop_limit};
        }
        return find_way(side, question, finding);
    }
    finding->has_reply = take_entry(side, question, entry, finding);
    return finding->has_reply ? REASON_none : question_pass_on(side, question, finding);
}

enum reason question_pass_on(struct fetch_side *side, const struct question *question,
                             struct finding *finding)
{
    cached_note_unfit(side, &finding->lookup);
    return find_way(side, question, finding);
}
