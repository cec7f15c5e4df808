/* SPDX-License-Identifier: BSD-2-Clause */
/* Answers and failures: what they change of what is kept, and what is made of it. */
#include "fetch/cached_internal.h"

#include "coap/option.h"
#include "fetch/coalesce.h"
#include "fetch/side.h"

#include <string.h>

/* --- changes ------------------------------------------------------------ */

bool cached_has_changed(const struct fetch_side *side, const struct fetch *fetch)
{
    const struct cache_ticket *ticket = &fetch->ticket;
    return changes_happened(side->origin.changes, ticket->key.target_hash, ticket->changes);
}

static void change(struct fetch_side *side, const struct target *target)
{
    struct cache_key key;
    if (!cache_key_of_target(target, side->origin.key_memory, sizeof(side->origin.key_memory),
                             side->origin.changes->seed, &key)) {
        return; /* nor has any entry a key that long */
    }
    changes_note(side->origin.changes, key.target_hash);
    cache_store_invalidate(&side->cache, &key);
}

/* The options of one number, packed as the segments of a target. */
static struct segments pack_answer(struct bytes options, uint16_t number, uint8_t *memory,
                                   size_t capacity)
{
    struct segments segments = {.packed = memory};
    struct option_iter iter;
    struct option option;
    option_iter_init(&iter, options);
    while (option_iter_next(&iter, &option) && option.number <= number) {
        if (option.number == number && option.value.len < capacity - segments.len) {
            memory[segments.len] = (uint8_t)option.value.len;
            memcpy(memory + segments.len + 1, option.value.data, option.value.len);
            segments.len += 1 + (uint32_t)option.value.len;
            segments.count++;
        }
    }
    return segments;
}

/* What a 2.01 says was created, on the same server (RFC 7252 section 5.10.7). */
static void change_location(struct fetch_side *side, const struct target *target,
                            struct bytes options)
{
    uint8_t *memory = side->context.target_memory;
    size_t half = side->context.target_memory_bytes / 2;
    struct target location = *target;
    location.path = pack_answer(options, OPTION_location_path, memory, half);
    location.query = pack_answer(options, OPTION_location_query, memory + half, half);
    if (location.path.count + location.query.count > 0) {
        change(side, &location);
    }
}

/*
 * RFC 7252 section 5.9.1: 2.01, 2.02 and 2.04 change the target whatever the method was,
 * and so may any other success of an unsafe one, as 2.31 has begun to (RFC 7959 section 2.10),
 * and some failures.
 */
static void note_change(struct fetch_side *side, struct fetch *fetch, const struct reply *reply)
{
    bool is_change =
        reply->code == CODE(2, 1) || reply->code == CODE(2, 2) || reply->code == CODE(2, 4);
    bool may_be_one = fetch_answer_may_follow_action(fetch, reply->code);
    fetch->sending.is_sent = false; /* the answer tells what became of it */
    if (is_change || (may_be_one && !fetch->is_safe)) {
        change(side, &fetch->target);
    }
    if (reply->code == CODE(2, 1)) {
        change_location(side, &fetch->target, reply->options);
    }
}

/* --- answers ------------------------------------------------------------ */

const struct address *cached_source(const struct fetch *fetch)
{
    if (fetch->ticket.source.family != ADDRESS_NONE) {
        return &fetch->ticket.source;
    }
    /* What a parent proxy has reached is that one's affair. */
    bool is_known = fetch->candidate_count > 0 && !fetch->hop.is_parent;
    return is_known ? &fetch->candidates[fetch->candidate] : NULL;
}

bool cached_may_have(struct fetch_side *side, struct fetch *fetch, const struct address *source)
{
    static const struct address unknown;
    return cached_is_admitted(side, fetch->asker, &fetch->target, fetch->sending.datagram[1],
                              source != NULL ? source : &unknown);
}

static void keep_answer(struct fetch_side *side, const struct fetch *fetch,
                        const struct reply *reply)
{
    const struct cache_ticket *ticket = &fetch->ticket;
    const struct address *from = cached_source(fetch);
    /* An answer that is no block is the whole body, also for a client without blocks. */
    struct cache_key whole = cache_key_base(&ticket->key);
    bool is_whole = reply->code == CODE(2, 5) && !freshness_is_partial(reply->options);
    uint32_t max_age_s = freshness_max_age_s(reply->options);
    bool can_be_validated = reply->code == CODE(2, 5) && freshness_etag(reply->options).len > 0;
    if (cached_has_changed(side, fetch) ||
        (max_age_s == 0 && !can_be_validated && side->context.config->cache_stale_if_error == 0)) {
        return;
    }
    const struct cache_item item = {
        .key = is_whole ? &whole : &ticket->key,
        .representation = {.code = reply->code,
                           .options = reply->options,
                           .payload = reply->payload,
                           .max_age_s = max_age_s,
                           .received_ms = context_now_ms(&side->context)},
        .origin = from,
        .hop_limit = ticket->hop_limit,
        .changes = ticket->changes,
    };
    (void)cache_store_put(&side->cache, &item);
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
        if (freshness_use(reply->code, reply->options) == ANSWER_STORABLE) {
            keep_answer(side, fetch, reply);
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

void cached_answer(struct fetch_side *side, struct fetch *fetch, const struct reply *reply)
{
    note_change(side, fetch, reply);
    if (fetch->is_own) {
        fetch_answer(side, fetch, REASON_answered, reply); /* its owner knows better */
        return;
    }
    if (reply->code == CODE(2, 3)) {
        answer_valid(side, fetch, reply);
        return;
    }
    enum answer_use use =
        fetch->ticket.has_key ? freshness_use(reply->code, reply->options) : ANSWER_FOR_ONE;
    if (cached_is_failure(reply->code) && cached_help(side, fetch)) {
        return;
    }
    if (use == ANSWER_FOR_ONE) {
        coalesce_scatter(side, fetch);
    } else if (use == ANSWER_STORABLE) {
        keep_answer(side, fetch, reply);
    }
    fetch_answer(side, fetch, REASON_answered, reply);
}

/* --- failures ----------------------------------------------------------- */

static bool is_usable_stale(const struct fetch_side *side, const struct cache_entry *entry)
{
    struct representation kept = cache_entry_get(&side->cache, entry);
    return entry->code == CODE(2, 5) && !entry->is_superseded && !cached_is_changed(side, entry) &&
           freshness_is_usable_stale(&kept, side->context.config->cache_stale_if_error,
                                     context_now_ms(&side->context));
}

void cached_note_end(struct fetch_side *side, const struct fetch *fetch, enum reason reason)
{
    if (!fetch->is_safe && fetch_may_have_acted(fetch, reason)) {
        change(side, &fetch->target);
    }
}

bool cached_is_failure(uint8_t code)
{
    return code == CODE(5, 0) || code == CODE(5, 2) || code == CODE(5, 3) || code == CODE(5, 4);
}

bool cached_help(struct fetch_side *side, struct fetch *fetch)
{
    struct cache_ticket *ticket = &fetch->ticket;
    /* A part of the proxy that asks is told why, and helps those that wait for it. */
    if (!ticket->has_key || fetch->is_own || side->context.config->cache_stale_if_error == 0) {
        return false;
    }
    struct cache_entry *entry = cache_store_find(&side->cache, &ticket->key);
    while (entry != NULL && !is_usable_stale(side, entry)) {
        entry = cache_store_find_next(&side->cache, entry);
    }
    if (entry == NULL || !cached_may_have(side, fetch, &entry->origin)) {
        return false;
    }
    cache_entry_touch(entry);
    ticket->source = entry->origin;
    metric_add(&side->context.metrics.cache_stale_served, 1);
    struct representation kept = cache_entry_get(&side->cache, entry);
    struct reply reply = cached_reply_of(&kept, context_now_ms(&side->context));
    fetch_answer(side, fetch, REASON_stale, &reply);
    return true;
}
