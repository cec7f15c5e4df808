/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests: what the cache has for them, and the tickets of those that go on. Then answers and
 * failures: what they change of what is kept, and what is made of it.
 */
#include "fetch/cached.h"

#include "cache/freshness.h"
#include "coap/option.h"
#include "fetch/admit.h"
#include "fetch/ahead.h"
#include "fetch/changed.h"
#include "fetch/coalesce.h"
#include "fetch/group.h"
#include "fetch/hops.h"
#include "fetch/shared.h"
#include "fetch/side.h"
#include "policy/access.h"

#include <string.h>

/* A client without an identity counts by its address or connection: no enum identity_kind. */
#define AUDIENCE_ONE_CLIENT 0xffu

/* --- looking up --------------------------------------------------------- */

/* Nothing is known yet. The key, and what lies behind the counts, is not cleared. */
static void cached_lookup_begin(struct cached_lookup *lookup, uint8_t hop_limit)
{
    lookup->has_key = false;
    lookup->is_unfit = false;
    lookup->answer = CACHE_ANSWER_OFF;
    lookup->sharing = CACHE_SHARING_NONE;
    lookup->hop_limit = hop_limit;
    lookup->candidates.count = 0;
    lookup->etag_count = 0;
}

/*
 * Whether the names belong to this peer alone; false for NULL, for a certificate without a name
 * that is text, and for one with more names than are kept.
 */
static bool identity_is_distinct(const struct identity *identity)
{
    return identity_is_known(identity) && identity->names_len > 0 && !identity->lacks_names;
}

/* What comes from it is protected on the way: by TLS, DTLS or OSCORE. */
static bool target_is_confidential(const struct target *target)
{
    const struct scheme *scheme = target->scheme;
    return transport_is_secure(scheme->transport) || scheme->number == CRI_SCHEME_HTTPS ||
           target->has_oscore;
}

/*
 * For which clients an answer may be kept: what came over a secure transport is not for all
 * (RFC 7252 section 11.2; CACHE-20). False: for none.
 */
static bool set_audience(const struct fetch_side *side, const struct asker *asker,
                         struct cache_key_source *source)
{
    enum config_cache_secure_targets rule = side->context.config->cache_secure_targets;
    if (!target_is_confidential(source->target) || rule == CACHE_SECURE_SHARED) {
        return true;
    }
    if (rule == CACHE_SECURE_OFF) {
        return false;
    }
    if (identity_is_distinct(asker->identity)) {
        source->audience_kind = (uint8_t)asker->identity->kind;
        source->audience =
            (struct bytes){(const uint8_t *)asker->identity->names, asker->identity->names_len};
    } else {
        source->audience_kind = AUDIENCE_ONE_CLIENT;
        source->audience = (struct bytes){(const uint8_t *)&asker->serial, sizeof(asker->serial)};
    }
    return true;
}

/*
 * A request to an HTTP target that a rule names may have had the credentials of the configuration,
 * and others have not: neither is an answer to the other (CH-12).
 */
#define AUDIENCE_NAMED 0x40u

static uint8_t audience_of_rules(const struct fetch_side *side, const struct question *question)
{
    return transport_is_http(question->target->scheme->transport) &&
                   admit_is_named(side, question->asker, question->target, question->message->code)
               ? AUDIENCE_NAMED
               : 0;
}

/*
 * Whether its answer may be kept where other replicas have it: the target and the clients have to
 * mean the same elsewhere. A client without a name has a number of this worker's.
 */
static enum cache_sharing sharing_of(const struct fetch_side *side,
                                     const struct cache_key_source *source)
{
    const struct target *target = source->target;
    bool is_for_all = source->audience_kind == 0 && source->audience.len == 0;
    if ((!target->is_name && address_needs_scope(&target->address)) ||
        (source->audience_kind | AUDIENCE_NAMED) == AUDIENCE_ONE_CLIENT) {
        return CACHE_SHARING_NONE;
    }
    if (is_for_all && !target_is_confidential(target)) {
        return CACHE_SHARING_OPEN;
    }
    return side->context.config->cache_shared_private ? CACHE_SHARING_SEALED : CACHE_SHARING_NONE;
}

static bool cached_make_key(struct fetch_side *side, const struct question *question,
                            struct cache_key *ret_key, enum cache_sharing *ret_sharing)
{
    struct cache_key_source source = {
        .target = question->target,
        .code = question->message->code,
        .options = question->message->options,
        .payload = question->message->payload,
        .passed = &question->options->passed,
        .drops_echo = question->drops_echo,
    };
    if (!set_audience(side, question->asker, &source)) {
        return false;
    }
    if (side->context.config->has_web_credentials) {
        source.audience_kind ^= audience_of_rules(side, question);
    }
    *ret_sharing = side->shared != NULL ? sharing_of(side, &source) : CACHE_SHARING_NONE;
    return cache_key_make(&source, side->origin.key_memory, sizeof(side->origin.key_memory),
                          side->origin.changes->seed, ret_key);
}

static uint32_t max_age_cap_s(const struct fetch_side *side)
{
    return side->context.config->cache_max_age / 1000;
}

/*
 * Whether an unsafe request has changed the target of @p entry, so that it is not valid any more
 * until it is validated. Those through this worker have marked the entry itself, and never hit
 * another target's.
 */
static bool cached_is_changed(const struct fetch_side *side, const struct cache_entry *entry)
{
    return entry->is_invalid ||
           (side->has_siblings &&
            changes_happened(side->origin.changes, entry->by_target.key, entry->changes));
}

/* Whether the entry's answer would be the one to this request, were it fresh. */
static bool cached_is_for(const struct fetch_side *side, const struct cache_entry *entry,
                          uint8_t hop_limit)
{
    /* A loop of that length stops a request that may go no further (RFC 8768 section 3). */
    bool is_far_enough = entry->code != CODE(5, 8) ||
                         (hop_limit > 0 ? hop_limit <= entry->hop_limit : entry->hop_limit == 0);
    return !entry->is_superseded && !cached_is_changed(side, entry) && is_far_enough;
}

/* A kept answer with the age that it has at @p now_ms; borrowed until the cache changes. */
static struct reply cached_reply_of(const struct representation *representation, uint64_t now_ms)
{
    uint32_t left_s = freshness_left_s(representation, now_ms);
    bool is_implied = left_s == MAX_AGE_DEFAULT_S;
    return (struct reply){
        .code = representation->code,
        .options = representation->options,
        .payload = representation->payload,
        .max_age_s = is_implied ? 0 : left_s,
        .is_aged = !is_implied,
    };
}

bool cached_validates(struct bytes etags, const struct reply *reply)
{
    struct bytes etag = freshness_etag(reply->options);
    return reply->code == CODE(2, 5) && !reply->has_observe && etag.len > 0 &&
           etag_is_among(etags, etag);
}

void cached_make_valid(struct reply *reply, uint8_t etag_option[ETAG_OPTION_MAX])
{
    struct bytes etag = freshness_etag(reply->options);
    reply->code = CODE(2, 3);
    reply->payload = (struct bytes){0};
    if (!reply->is_aged) {
        uint32_t max_age_s = freshness_max_age_s(reply->options);
        reply->is_aged = max_age_s != MAX_AGE_DEFAULT_S;
        reply->max_age_s = reply->is_aged ? max_age_s : 0;
    }
    reply_replace_options(reply,
                          (struct bytes){etag_option, freshness_etag_option(etag, etag_option)});
}

/* Stale, or its client wants it validated: where it can be, else it is of no use any more. */
static void consider(struct fetch_side *side, struct cache_entry *entry,
                     const struct question *question, struct cached_lookup *lookup)
{
    struct representation kept = cache_entry_get(&side->cache, entry);
    struct bytes etag = freshness_etag(kept.options);
    bool is_kept = freshness_is_usable_stale(&kept, side->context.config->cache_stale_if_error,
                                             context_now_ms(&side->context));
    if (kept.code != CODE(2, 5) || etag.len == 0) {
        if (!is_kept) {
            cache_store_remove(&side->cache, entry); /* CACHE-16 */
        }
        return;
    }
    cache_entry_touch(entry);
    if (lookup->candidates.count == CACHE_REPRESENTATIONS_MAX) {
        return;
    }
    lookup->candidates.entries[lookup->candidates.count++] = entry;
    if (!etag_is_among(question->message->options, etag)) {
        lookup->etags[lookup->etag_count++] = etag;
    }
}

/* Among the entries of @p key, the newest first; only in whole bodies where a block is cut. */
static struct cache_entry *cached_look_at(struct fetch_side *side, const struct cache_key *key,
                                          const struct question *question,
                                          struct cached_lookup *lookup)
{
    bool needs_whole = lookup->key.len > key->len;
    struct cache_entry *next, *entry = cache_store_find(&side->cache, key);
    for (; entry != NULL; entry = next) {
        struct representation kept = cache_entry_get(&side->cache, entry);
        bool is_of_use =
            !needs_whole || (kept.code == CODE(2, 5) && !freshness_is_partial(kept.options));
        if (is_of_use && !question->is_not_from_cache &&
            cached_is_for(side, entry, lookup->hop_limit) &&
            freshness_is_fresh(&kept, max_age_cap_s(side), context_now_ms(&side->context))) {
            return entry;
        }
        next = cache_store_find_next(&side->cache, entry); /* it may be removed */
        if (is_of_use) {
            consider(side, entry, question, lookup);
        }
    }
    return NULL;
}

/* The request goes on: count what the cache had. */
static void note_miss(struct fetch_side *side, struct cached_lookup *lookup)
{
    bool is_stale = lookup->candidates.count > 0;
    lookup->answer = is_stale ? CACHE_ANSWER_STALE : CACHE_ANSWER_MISS;
    metric_add(is_stale ? &side->context.metrics.cache_stale : &side->context.metrics.cache_misses,
               1);
}

/*
 * Look for an answer that is fresh, or tell what has to be known to forward the request. Allocates
 * nothing.
 *
 * @param hop_limit towards the next hop; 0: none.
 * @return what answers the request, if its client may have it: borrowed until the cache changes;
 *         else NULL.
 */
static struct cache_entry *cached_look(struct fetch_side *side, const struct question *question,
                                       uint8_t hop_limit, struct cached_lookup *ret_lookup)
{
    struct cache_key *key = &ret_lookup->key;
    cached_lookup_begin(ret_lookup, hop_limit);
    bool is_on = cache_store_is_on(&side->cache);
    bool needs_key = is_on || side->context.config->cache_coalesce || question->is_registration;
    if (!needs_key || !cached_make_key(side, question, key, &ret_lookup->sharing)) {
        return NULL;
    }
    ret_lookup->has_key = true;
    if (!is_on || question->is_registration) {
        return NULL;
    }
    /* What asks for a block may have it of a body that is here as a whole. */
    struct cache_entry *entry = NULL;
    if (cache_key_has_block(key)) {
        const struct cache_key base = cache_key_base(key);
        entry = cached_look_at(side, &base, question, ret_lookup);
    }
    if (entry == NULL) {
        entry = cached_look_at(side, key, question, ret_lookup);
    }
    /* Neither what replicas share nor another worker's answer is for a client that wants none. */
    if (entry == NULL && !question->is_not_from_cache) {
        note_miss(side, ret_lookup);
    }
    return entry;
}

/*
 * The entry that was found is refused to this client, or does not fit its message size: the
 * request goes on, for itself alone.
 */
static void cached_note_unfit(struct fetch_side *side, struct cached_lookup *lookup)
{
    /* What comes for this client is as good for the others, but not the reverse. */
    lookup->is_unfit = true;
    lookup->candidates.count = 0;
    lookup->etag_count = 0;
    note_miss(side, lookup);
}

/* --- tickets ------------------------------------------------------------ */

size_t cached_bytes(const struct cached_lookup *lookup, const struct message *message)
{
    if (lookup == NULL || !lookup->has_key) {
        return 0;
    }
    return lookup->key.len +
           (options_have(message->options, OPTION_etag) ? message->options.len : 0);
}

static bool keep_etags(struct fetch *fetch, const struct message *message)
{
    struct memory *memory = &fetch->memory;
    uint8_t *at = memory->bytes + memory->used;
    size_t len = etags_copy(message->options, at, memory->capacity - memory->used);
    fetch->ticket.etags = (struct bytes){at, len};
    return memory_alloc(memory, len) != NULL;
}

/* Whether the client has named an ETag that no candidate has. */
static bool has_foreign_etags(const struct fetch_side *side, const struct fetch *fetch)
{
    const struct cache_ticket *ticket = &fetch->ticket;
    struct option_iter iter;
    struct option option;
    option_iter_init(&iter, ticket->etags);
    while (option_iter_next(&iter, &option)) {
        bool is_here = false;
        for (uint32_t i = 0; i < ticket->candidates.count; i++) {
            struct representation kept =
                cache_entry_get(&side->cache, ticket->candidates.entries[i]);
            is_here = is_here || bytes_equal(freshness_etag(kept.options), option.value);
        }
        if (!is_here) {
            return true;
        }
    }
    return false;
}

bool cached_begin(struct fetch_side *side, struct fetch *fetch, const struct cached_lookup *lookup,
                  const struct message *message)
{
    struct cache_ticket *ticket = &fetch->ticket;
    if (lookup == NULL || !lookup->has_key) {
        return true;
    }
    uint8_t *bytes = memory_alloc(&fetch->memory, lookup->key.len);
    if (bytes == NULL ||
        (options_have(message->options, OPTION_etag) && !keep_etags(fetch, message))) {
        return false;
    }
    ticket->has_key = true;
    ticket->key = cache_key_copy(&lookup->key, bytes);
    ticket->answer = lookup->answer;
    ticket->hop_limit = lookup->hop_limit;
    ticket->is_alone = lookup->is_unfit;
    ticket->sharing = lookup->sharing;
    ticket->changes = changes_count(side->origin.changes);
    for (uint32_t i = 0; i < lookup->candidates.count; i++) {
        if (cache_entry_pin(lookup->candidates.entries[i])) {
            ticket->candidates.entries[ticket->candidates.count++] = lookup->candidates.entries[i];
        }
    }
    ticket->has_foreign_etags = ticket->etags.len > 0 && has_foreign_etags(side, fetch);
    return true;
}

void cached_lookup_again(const struct fetch_side *side, const struct fetch *fetch,
                         struct bytes options, struct cached_lookup *ret_lookup)
{
    const struct cache_ticket *ticket = &fetch->ticket;
    *ret_lookup = (struct cached_lookup){.has_key = ticket->has_key,
                                         .is_unfit = true,
                                         .answer = CACHE_ANSWER_FOLLOWS,
                                         .hop_limit = ticket->hop_limit,
                                         .key = ticket->key,
                                         .candidates = ticket->candidates};
    for (uint32_t i = 0; i < ticket->candidates.count; i++) {
        struct representation kept = cache_entry_get(&side->cache, ticket->candidates.entries[i]);
        struct bytes etag = freshness_etag(kept.options);
        if (etag.len > 0 && !etag_is_among(options, etag)) {
            ret_lookup->etags[ret_lookup->etag_count++] = etag;
        }
    }
}

void cached_release(struct fetch_side *side, struct fetch *fetch)
{
    struct cache_ticket *ticket = &fetch->ticket;
    coalesce_close(fetch);
    for (uint32_t i = 0; i < ticket->candidates.count; i++) {
        cache_store_unpin(&side->cache, ticket->candidates.entries[i]);
    }
    ticket->candidates.count = 0;
    ticket->has_key = false;
    if (ticket->change_number != 0) {
        changed_let_go(side, fetch);
    }
}

/* --- answers and failures ------------------------------------------------------ */

/* --- changes ------------------------------------------------------------ */

bool cached_has_changed(const struct fetch_side *side, const struct fetch *fetch)
{
    const struct cache_ticket *ticket = &fetch->ticket;
    return ticket->changes < side->changes_floor ||
           changes_happened(side->origin.changes, ticket->key.target_hash, ticket->changes);
}

/* --- answers ------------------------------------------------------------ */

const struct address *cached_source(const struct fetch *fetch)
{
    if (fetch->ticket.source.family != ADDRESS_NONE) {
        return &fetch->ticket.source;
    }
    /* What a parent proxy has reached is that one's affair. */
    bool is_known = fetch->candidate_count > 0 && !next_hop_stands_in(&fetch->hop);
    return is_known ? &fetch->candidates[fetch->candidate] : NULL;
}

static void keep_answer(struct fetch_side *side, const struct fetch *fetch,
                        const struct reply *reply, const struct answer_facts *facts)
{
    const struct cache_ticket *ticket = &fetch->ticket;
    const struct address *from = cached_source(fetch);
    const struct cache_key *key = &ticket->key;
    struct cache_key whole;
    bool is_whole = reply->code == CODE(2, 5) && !facts->is_partial;
    bool can_be_validated = reply->code == CODE(2, 5) && facts->etag.len > 0;
    if (cached_has_changed(side, fetch) || (facts->max_age_s == 0 && !can_be_validated &&
                                            side->context.config->cache_stale_if_error == 0)) {
        return;
    }
    /* An answer that is no block is the whole body, also for a client without blocks. */
    if (is_whole && cache_key_has_block(key)) {
        whole = cache_key_base(key);
        key = &whole;
    }
    const struct cache_item item = {
        .key = key,
        .representation = {.code = reply->code,
                           .options = reply->options,
                           .payload = reply->payload,
                           .max_age_s = facts->max_age_s,
                           .received_ms = context_now_ms(&side->context)},
        .facts = *facts,
        .origin = from,
        .hop_limit = ticket->hop_limit,
        .changes = ticket->changes,
    };
    struct cache_entry *entry = cache_store_put(&side->cache, &item);
    if (entry != NULL && ticket->has_generation) {
        const struct representation kept = cache_entry_get(&side->cache, entry);
        shared_keep(side, fetch, &kept, from);
    }
}

static bool has_etag(const struct fetch_side *side, const struct cache_entry *entry,
                     struct bytes etag)
{
    struct representation kept = cache_entry_get(&side->cache, entry);
    struct bytes own = freshness_etag(kept.options);
    return own.len > 0 && bytes_equal(own, etag);
}

static struct cache_entry *candidate_with(const struct fetch_side *side, const struct fetch *fetch,
                                          struct bytes etag)
{
    const struct cache_candidates *candidates = &fetch->ticket.candidates;
    for (uint32_t i = 0; i < candidates->count; i++) {
        struct cache_entry *entry = candidates->entries[i];
        /* Without a record it is lost: there was no room for it. */
        if (entry->record_len > 0 && has_etag(side, entry, etag)) {
            return entry;
        }
    }
    return NULL;
}

/* The origin server stands by a representation that is here (RFC 7252 section 5.6.2). */
static void answer_validated(struct fetch_side *side, struct fetch *fetch,
                             struct cache_entry *entry, const struct reply *valid)
{
    uint64_t now_ms = context_now_ms(&side->context);
    if (!cache_store_refresh(&side->cache, entry, valid->options, now_ms, side->context.scratch,
                             side->context.scratch_bytes)) {
        fetch_fail(side, fetch, REASON_proxy_busy, NULL);
        return;
    }
    entry->changes = fetch->ticket.changes;
    if (cached_has_changed(side, fetch)) {
        entry->is_invalid = true; /* what it was asked about may be gone by now */
    }
    metric_add(&side->context.metrics.cache_validated, 1);
    fetch->ticket.answer = CACHE_ANSWER_VALIDATED;
    struct representation kept = cache_entry_get(&side->cache, entry);
    if (!entry->is_invalid && fetch->ticket.has_generation) {
        shared_keep(side, fetch, &kept, &entry->origin);
    }
    struct reply reply = cached_reply_of(&kept, now_ms);
    fetch_answer(side, fetch, REASON_answered, &reply);
}

/* A 2.03: an ETag that was asked about, and no payload (CACHE-15). */
static void answer_valid(struct fetch_side *side, struct fetch *fetch, const struct reply *reply)
{
    struct bytes etag = freshness_etag(reply->options);
    struct cache_entry *entry = etag.len > 0 ? candidate_with(side, fetch, etag) : NULL;
    if (etag.len == 0 || reply->payload.len > 0) {
        fetch_fail(side, fetch, REASON_origin_invalid, NULL);
    } else if (entry != NULL) {
        answer_validated(side, fetch, entry, reply);
    } else if (!fetch->ticket.has_key || etag_is_among(fetch->ticket.etags, etag)) {
        fetch_answer(side, fetch, REASON_answered, reply); /* CACHE-14 */
    } else {
        fetch_fail(side, fetch, REASON_origin_invalid, NULL);
    }
}

static bool is_usable_stale(const struct fetch_side *side, const struct cache_entry *entry)
{
    struct representation kept = cache_entry_get(&side->cache, entry);
    return entry->code == CODE(2, 5) && !entry->is_superseded && !cached_is_changed(side, entry) &&
           freshness_is_usable_stale(&kept, side->context.config->cache_stale_if_error,
                                     context_now_ms(&side->context));
}

/* What can stand in for an answer to the fetch that is a failure, or NULL. */
static struct cache_entry *find_help(const struct fetch_side *side, const struct fetch *fetch)
{
    const struct cache_ticket *ticket = &fetch->ticket;
    /* A part of the proxy that asks is told why, and helps those that wait for it. */
    if (!ticket->has_key || fetch->is_own || side->context.config->cache_stale_if_error == 0) {
        return NULL;
    }
    struct cache_entry *entry = cache_store_find(&side->cache, &ticket->key);
    while (entry != NULL && !is_usable_stale(side, entry)) {
        entry = cache_store_find_next(&side->cache, entry);
    }
    return entry;
}

static struct answer_facts facts_of(const struct fetch *fetch, const struct reply *reply)
{
    struct answer_facts facts = freshness_facts(reply->code, reply->options, reply->absent);
    if (!fetch->ticket.has_key || fetch->sending.is_private) {
        facts.use = ANSWER_FOR_ONE;
    }
    if (reply->is_aged) { /* another worker has had it */
        facts.max_age_s = reply->max_age_s;
    }
    return facts;
}

void cached_note(struct fetch_side *side, const struct fetch *fetch, const struct reply *reply)
{
    const struct cache_ticket *ticket = &fetch->ticket;
    if (!ticket->has_key) {
        return;
    }
    /* A failure would push out what may stand in for it. */
    if (cached_is_failure(reply->code) && side->context.config->cache_stale_if_error > 0) {
        return;
    }
    if (reply->code != CODE(2, 3)) {
        const struct answer_facts facts = facts_of(fetch, reply);
        if (facts.use == ANSWER_STORABLE) {
            keep_answer(side, fetch, reply, &facts);
        }
        return;
    }
    struct bytes etag = freshness_etag(reply->options);
    struct cache_entry *entry = cache_store_find(&side->cache, &ticket->key);
    while (entry != NULL && !has_etag(side, entry, etag)) {
        entry = cache_store_find_next(&side->cache, entry);
    }
    if (entry != NULL &&
        cache_store_refresh(&side->cache, entry, reply->options, context_now_ms(&side->context),
                            side->context.scratch, side->context.scratch_bytes)) {
        entry->changes = ticket->changes;
        entry->is_invalid = cached_has_changed(side, fetch);
    }
}

void cached_give(struct fetch_side *side, struct fetch *fetch, const struct reply *reply)
{
    if (reply->code == CODE(2, 3)) {
        answer_valid(side, fetch, reply);
        return;
    }
    const struct answer_facts facts = facts_of(fetch, reply);
    fetch->ticket.is_for_one = facts.use == ANSWER_FOR_ONE;
    /* A failure would push out what stands in for it; no client has asked for that of a block. */
    bool is_of_no_use = (fetch->is_ahead && reply->code != CODE(2, 5)) ||
                        (cached_is_failure(reply->code) && find_help(side, fetch) != NULL);
    if (facts.use == ANSWER_STORABLE && !is_of_no_use) {
        keep_answer(side, fetch, reply, &facts);
        if (facts.is_partial && facts.max_age_s > 0) {
            ahead_go_on(side, fetch, reply);
        }
    }
    fetch_answer(side, fetch, REASON_answered, reply);
}

void cached_answer(struct fetch_side *side, struct fetch *fetch, const struct reply *reply)
{
    /* 2.05 and 2.03 to a safe request tell of a state and change none. */
    bool tells_state = fetch->is_safe && (reply->code == CODE(2, 5) || reply->code == CODE(2, 3));
    fetch->sending.is_sent = false; /* the answer tells what became of it */
    uint64_t number = tells_state ? 0 : changed_note(side, fetch, reply);
    if (fetch->is_own) {
        fetch_answer(side, fetch, REASON_answered, reply); /* its owner knows better */
    } else if (number == 0 || !changed_wait(side, fetch, number, reply)) {
        cached_give(side, fetch, reply);
    }
}

/* --- failures ----------------------------------------------------------- */

bool cached_is_failure(uint8_t code)
{
    return code == CODE(5, 0) || code == CODE(5, 2) || code == CODE(5, 3) || code == CODE(5, 4);
}

bool cached_help(struct fetch_side *side, const struct fetch *fetch, struct asker *asker,
                 struct reply *ret_reply)
{
    struct cache_entry *entry = find_help(side, fetch);
    if (entry == NULL || admit_answer(side, asker, &fetch->target, fetch->sending.datagram[1],
                                      &entry->origin) != REASON_none) {
        return false;
    }
    cache_entry_touch(entry);
    metric_add(&side->context.metrics.cache_stale_served, 1);
    struct representation kept = cache_entry_get(&side->cache, entry);
    *ret_reply = cached_reply_of(&kept, context_now_ms(&side->context));
    return true;
}

bool cached_can_help(struct fetch_side *side, const struct fetch *fetch)
{
    return find_help(side, fetch) != NULL;
}

/* --- may it be asked ---------------------------------------------------- */

static enum reason check_question(struct fetch_side *side, const struct question *question,
                                  uint8_t *ret_hop_limit)
{
    const struct config *config = side->context.config;
    const struct target *target = question->target;
    if (admit_is_own(side, target)) {
        return REASON_local;
    }
    /*
     * A request of our own that came back: its token is one that we have given to a request
     * which is still out, and those are random. Loops by way of other proxies, which give
     * tokens of their own, end by Hop-Limit (ERR-14).
     */
    if (fetch_by_token(&side->fetches, question->message->token) != NULL ||
        (side->origin.relays.count > 0 &&
         relay_by_token(&side->origin, question->message->token) != NULL)) {
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
    if (reason == REASON_none && !question->is_registrant) {
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
        (!question->takes_blocks && freshness_is_partial(kept.options))) {
        return false;
    }
    cache_entry_touch(entry);
    if (side->shared != NULL && !shared_hears(side)) {
        metric_add(&side->context.metrics.cache_unheard_hits, 1);
    }
    finding->reply = cached_reply_of(&kept, context_now_ms(&side->context));
    if (cached_validates(message->options, &finding->reply)) {
        cached_make_valid(&finding->reply, finding->etag_option);
    }
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
               : route_take(side, question->target, &finding->hop, &finding->route);
}

enum reason question_look(struct fetch_side *side, const struct question *question,
                          struct finding *finding)
{
    struct cache_entry *entry = cached_look(side, question, finding->hop_limit, &finding->lookup);
    if (entry == NULL) {
        if (question->is_not_stored) {
            cached_lookup_begin(&finding->lookup, finding->hop_limit);
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
