/* SPDX-License-Identifier: BSD-2-Clause */
#include "exchange/cached.h"

#include "coap/option.h"
#include "exchange/coalesce.h"
#include "front/admit.h"
#include "front/serve.h"
#include "front/stream.h"
#include "ops/trace.h"
#include "state.h"

#include <string.h>

#define CODE_CREATED CODE(2, 1)
#define CODE_VALID CODE(2, 3)
#define CODE_CONTENT CODE(2, 5)
#define CODE_HOP_LIMIT_REACHED CODE(5, 8)

/* Who has proved nothing is the address or connection that it is: no enum identity_kind. */
#define AUDIENCE_ONE_CLIENT 0xffu

const char *cache_answer_name(enum cache_answer answer)
{
    switch (answer) {
    case CACHE_ANSWER_OFF:
        break;
    case CACHE_ANSWER_HIT:
        return "hit";
    case CACHE_ANSWER_MISS:
        return "miss";
    case CACHE_ANSWER_STALE:
        return "stale";
    case CACHE_ANSWER_VALIDATED:
        return "validated";
    case CACHE_ANSWER_FOLLOWS:
        return "follows";
    }
    return "none";
}

/* --- looking up --------------------------------------------------------- */

static bool is_secure(const struct config_scheme *scheme)
{
    return scheme->transport == TRANSPORT_DTLS || scheme->transport == TRANSPORT_TLS ||
           scheme->transport == TRANSPORT_WSS || scheme->number == CRI_SCHEME_HTTPS;
}

/*
 * For whom an answer may be kept: what came over a secure transport is not for everybody
 * (RFC 7252 section 11.2; CACHE-20). False: for nobody.
 */
static bool set_audience(const struct engine *engine, const struct leg *leg, uint64_t *serial,
                         struct cache_key_source *source)
{
    enum config_cache_secure_targets rule = engine->config->cache_secure_targets;
    if (!is_secure(source->target->scheme) || rule == CACHE_SECURE_SHARED) {
        return true;
    }
    if (rule == CACHE_SECURE_OFF) {
        return false;
    }
    if (identity_is_known(leg->identity)) {
        source->audience_kind = (uint8_t)leg->identity->kind;
        source->audience =
            (struct bytes){(const uint8_t *)leg->identity->names, leg->identity->names_len};
    } else {
        *serial = leg_serial(engine, leg);
        source->audience_kind = AUDIENCE_ONE_CLIENT;
        source->audience = (struct bytes){(const uint8_t *)serial, sizeof(*serial)};
    }
    return true;
}

static bool make_key(struct engine *engine, const struct cached_request *request,
                     struct cache_key *ret_key)
{
    struct cache_key_source source = {
        .target = request->target,
        .code = request->message->code,
        .options = request->message->options,
        .payload = request->message->payload,
        .drops_echo = request->drops_echo,
    };
    uint64_t serial;
    return set_audience(engine, request->leg, &serial, &source) &&
           cache_key_make(&source, engine->key_memory, sizeof(engine->key_memory),
                          engine->changes->seed, ret_key);
}

static uint32_t max_age_cap_s(const struct engine *engine)
{
    return engine->config->cache_max_age / 1000;
}

/*
 * Whether an unsafe request that went through another worker has changed the target. Those
 * through our own have marked the entry itself, and never hit another target's.
 */
static bool is_changed(const struct engine *engine, const struct cache_entry *entry)
{
    return entry->is_invalid ||
           (engine->has_siblings &&
            changes_happened(engine->changes, entry->by_target.key, entry->changes));
}

/* Whether the entry's answer would be the one to this request, were it fresh. */
static bool is_for(const struct engine *engine, const struct cache_entry *entry, uint8_t hop_limit)
{
    /* A loop that was that long is one for who may go no further (RFC 8768 section 3). */
    bool is_far_enough = entry->code != CODE_HOP_LIMIT_REACHED ||
                         (hop_limit > 0 ? hop_limit <= entry->hop_limit : entry->hop_limit == 0);
    return !entry->is_superseded && !is_changed(engine, entry) && is_far_enough;
}

struct reply cached_reply_of(const struct representation *representation, uint64_t now_ms)
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

static struct reply reply_for(struct bytes etags, const struct reply *reply,
                              uint8_t etag_option[ETAG_OPTION_MAX])
{
    struct reply made = *reply;
    struct bytes etag = freshness_etag(reply->options);
    if (reply->code != CODE_CONTENT || reply->has_observe || etag.len == 0 ||
        !etag_is_among(etags, etag)) {
        return made;
    }
    made.code = CODE_VALID;
    made.payload = (struct bytes){0};
    if (!reply->is_aged) {
        uint32_t max_age_s = freshness_max_age_s(reply->options);
        made.is_aged = max_age_s != MAX_AGE_DEFAULT_S;
        made.max_age_s = made.is_aged ? max_age_s : 0;
    }
    made.options = (struct bytes){etag_option, freshness_etag_option(etag, etag_option)};
    return made;
}

struct reply cached_reply_for(const struct exchange *exchange, const struct reply *reply,
                              uint8_t etag_option[ETAG_OPTION_MAX])
{
    return exchange->ticket.has_key ? reply_for(exchange->ticket.etags, reply, etag_option)
                                    : *reply;
}

/*
 * Whether the client may have what came from the origin server at @p address: it was
 * another client that asked then (CACHE-22).
 */
static bool is_admitted(struct engine *engine, struct leg *leg, const struct target *target,
                        uint8_t method, const struct address *address)
{
    return !target->is_name || address->family == ADDRESS_NONE ||
           admit_address(engine, leg, target, method, address) == REASON_none;
}

static bool does_blocks(const struct leg *leg)
{
    return leg->kind != LEG_STREAM || stream_takes_blocks(leg);
}

/* @return false where it is not for this client: its request has to go the long way. */
static bool serve(struct engine *engine, struct cache_entry *entry,
                  const struct cached_request *request)
{
    uint8_t etag_option[ETAG_OPTION_MAX];
    struct leg *leg = request->leg;
    const struct message *message = request->message;
    const struct serve_subject subject = {request->target, message->code, message->options,
                                          serve_query(engine, message)};
    struct representation kept = cache_entry_get(&engine->cache, entry);
    struct reply whole = cached_reply_of(&kept, engine_now_ms(engine)), cut;
    struct reply reply = reply_for(message->options, &whole, etag_option);
    if (!is_admitted(engine, leg, request->target, message->code, &entry->origin) ||
        (freshness_is_partial(kept.options) && !does_blocks(leg))) {
        return false;
    }
    enum reason trouble = serve_cut(engine, leg, &subject, &reply, &cut);
    if (trouble == REASON_response_too_large) {
        return false;
    }
    cache_entry_touch(entry);
    metric_add(&engine->metrics.cache_hits, 1);
    trace_hit(engine, leg, request->target, message, cut.code);
    reply_at_once(engine, leg, &cut);
    return true;
}

/* Stale: to be validated, where it can be, else of no use any more. */
static void consider(struct engine *engine, struct cache_entry *entry,
                     const struct cached_request *request, struct cached_lookup *lookup)
{
    struct representation kept = cache_entry_get(&engine->cache, entry);
    struct bytes etag = freshness_etag(kept.options);
    bool is_kept = freshness_is_usable_stale(&kept, engine->config->cache_stale_if_error,
                                             engine_now_ms(engine));
    if (kept.code != CODE_CONTENT || etag.len == 0) {
        if (!is_kept) {
            cache_store_remove(&engine->cache, entry); /* CACHE-16 */
        }
        return;
    }
    cache_entry_touch(entry);
    if (lookup->candidates.count == CACHE_REPRESENTATIONS_MAX) {
        return;
    }
    lookup->candidates.entries[lookup->candidates.count++] = entry;
    if (!etag_is_among(request->message->options, etag)) {
        lookup->etags[lookup->etag_count++] = etag;
    }
}

enum look { LOOK_ANSWERED, LOOK_NOTHING, LOOK_UNFIT };

/* Among the entries of @p key, the newest first; only in whole bodies where a block is cut. */
static enum look look_at(struct engine *engine, const struct cache_key *key,
                         const struct cached_request *request, struct cached_lookup *lookup)
{
    bool needs_whole = lookup->key.len > key->len;
    struct cache_entry *next, *entry = cache_store_find(&engine->cache, key);
    for (; entry != NULL; entry = next) {
        next = cache_store_find_next(&engine->cache, entry);
        struct representation kept = cache_entry_get(&engine->cache, entry);
        if (needs_whole && (kept.code != CODE_CONTENT || freshness_is_partial(kept.options))) {
            continue;
        }
        if (is_for(engine, entry, request->hop_limit) &&
            freshness_is_fresh(&kept, max_age_cap_s(engine), engine_now_ms(engine))) {
            return serve(engine, entry, request) ? LOOK_ANSWERED : LOOK_UNFIT;
        }
        consider(engine, entry, request, lookup);
    }
    return LOOK_NOTHING;
}

/* What asks for a block may have it of a body that is here as a whole. */
static enum look look_twice(struct engine *engine, const struct cached_request *request,
                            struct cached_lookup *lookup)
{
    struct cache_key base = cache_key_base(&lookup->key);
    enum look look = LOOK_NOTHING;
    if (lookup->key.len > base.len) {
        look = look_at(engine, &base, request, lookup);
    }
    return look == LOOK_NOTHING ? look_at(engine, &lookup->key, request, lookup) : look;
}

bool cached_look(struct engine *engine, const struct cached_request *request,
                 struct cached_lookup *ret_lookup)
{
    struct cache_key *key = &ret_lookup->key;
    *ret_lookup = (struct cached_lookup){.hop_limit = request->hop_limit};
    bool is_on = cache_store_is_on(&engine->cache);
    bool needs_key = is_on || engine->config->cache_coalesce || request->is_registration;
    if (!needs_key || !make_key(engine, request, key)) {
        return false;
    }
    ret_lookup->has_key = true;
    if (!is_on || request->is_registration) {
        return false;
    }
    switch (look_twice(engine, request, ret_lookup)) {
    case LOOK_ANSWERED:
        return true;
    case LOOK_UNFIT:
        /* What comes for this client is as good for the others, but not the reverse. */
        ret_lookup->is_unfit = true;
        ret_lookup->candidates.count = 0;
        ret_lookup->etag_count = 0;
        break;
    case LOOK_NOTHING:
        break;
    }
    bool is_stale = ret_lookup->candidates.count > 0;
    ret_lookup->answer = is_stale ? CACHE_ANSWER_STALE : CACHE_ANSWER_MISS;
    metric_add(is_stale ? &engine->metrics.cache_stale : &engine->metrics.cache_misses, 1);
    return false;
}

/* --- tickets ------------------------------------------------------------ */

size_t cached_bytes(const struct cached_lookup *lookup, const struct message *message)
{
    bool has_etag = message_has_option(message, OPTION_etag);
    return lookup == NULL || !lookup->has_key
               ? 0
               : lookup->key.len + (has_etag ? message->options.len : 0);
}

static bool keep_etags(struct exchange *exchange, const struct message *message)
{
    if (!message_has_option(message, OPTION_etag)) {
        return true;
    }
    size_t left = exchange->memory_capacity - exchange->memory_used;
    uint8_t *at = exchange->memory + exchange->memory_used;
    size_t len = etags_copy(message->options, at, left);
    exchange->ticket.etags = (struct bytes){at, len};
    return exchange_alloc(exchange, len) != NULL;
}

/* Whether the client has named an ETag that no candidate has. */
static bool has_foreign_etags(const struct engine *engine, const struct exchange *exchange)
{
    const struct cache_ticket *ticket = &exchange->ticket;
    struct option_iter iter;
    struct option option;
    option_iter_init(&iter, ticket->etags);
    while (option_iter_next(&iter, &option)) {
        bool is_here = false;
        for (uint32_t i = 0; i < ticket->candidates.count; i++) {
            struct representation kept =
                cache_entry_get(&engine->cache, ticket->candidates.entries[i]);
            struct bytes etag = freshness_etag(kept.options);
            is_here = is_here || (etag.len == option.value.len &&
                                  memcmp(etag.data, option.value.data, etag.len) == 0);
        }
        if (!is_here) {
            return true;
        }
    }
    return false;
}

bool cached_begin(struct engine *engine, struct exchange *exchange,
                  const struct cached_lookup *lookup, const struct message *message)
{
    struct cache_ticket *ticket = &exchange->ticket;
    if (lookup == NULL || !lookup->has_key) {
        return true;
    }
    uint8_t *bytes = exchange_alloc(exchange, lookup->key.len);
    if (bytes == NULL || !keep_etags(exchange, message)) {
        return false;
    }
    ticket->has_key = true;
    ticket->key = cache_key_copy(&lookup->key, bytes);
    ticket->answer = lookup->answer;
    ticket->hop_limit = lookup->hop_limit;
    ticket->is_alone = lookup->is_unfit;
    ticket->changes = changes_count(engine->changes);
    for (uint32_t i = 0; i < lookup->candidates.count; i++) {
        if (cache_entry_pin(lookup->candidates.entries[i])) {
            ticket->candidates.entries[ticket->candidates.count++] = lookup->candidates.entries[i];
        }
    }
    ticket->has_foreign_etags = has_foreign_etags(engine, exchange);
    return true;
}

void cached_release(struct engine *engine, struct exchange *exchange)
{
    struct cache_ticket *ticket = &exchange->ticket;
    coalesce_leave(exchange);
    coalesce_close(exchange);
    for (uint32_t i = 0; i < ticket->candidates.count; i++) {
        cache_store_unpin(&engine->cache, ticket->candidates.entries[i]);
    }
    ticket->candidates.count = 0;
    ticket->has_key = false;
}

/* --- changes ------------------------------------------------------------ */

bool cached_has_changed(const struct engine *engine, const struct exchange *exchange)
{
    const struct cache_ticket *ticket = &exchange->ticket;
    return changes_happened(engine->changes, ticket->key.target_hash, ticket->changes);
}

static void change(struct engine *engine, const struct target *target)
{
    struct cache_key key;
    if (!cache_key_of_target(target, engine->key_memory, sizeof(engine->key_memory),
                             engine->changes->seed, &key)) {
        return; /* nor has any entry a key that long */
    }
    changes_note(engine->changes, key.target_hash);
    cache_store_invalidate(&engine->cache, &key);
}

/* The options of one number, packed as the segments of a target. */
static struct segments pack(struct bytes options, uint16_t number, uint8_t *memory, size_t capacity)
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
static void change_location(struct engine *engine, const struct target *target,
                            struct bytes options)
{
    uint8_t *memory = engine->target_memory;
    size_t half = engine->target_memory_bytes / 2;
    struct target location = *target;
    location.path = pack(options, OPTION_location_path, memory, half);
    location.query = pack(options, OPTION_location_query, memory + half, half);
    if (location.path.count + location.query.count > 0) {
        change(engine, &location);
    }
}

/*
 * RFC 7252 section 5.9.1: 2.01, 2.02 and 2.04 change the target whatever the method was,
 * and so may any other success of an unsafe one; 2.31 has begun to (RFC 7959 section 2.10).
 */
static void note_change(struct engine *engine, const struct exchange *exchange,
                        const struct reply *reply)
{
    bool is_change =
        reply->code == CODE_CREATED || reply->code == CODE(2, 2) || reply->code == CODE(2, 4);
    bool is_success = CODE_CLASS(reply->code) == 2 && !exchange->leg.is_safe;
    if (is_change || is_success) {
        change(engine, &exchange->target);
    }
    if (reply->code == CODE_CREATED) {
        change_location(engine, &exchange->target, reply->options);
    }
}

/* --- answers ------------------------------------------------------------ */

const struct address *cached_source(const struct exchange *exchange)
{
    if (exchange->ticket.source.family != ADDRESS_NONE) {
        return &exchange->ticket.source;
    }
    /* What a parent proxy has reached is that one's affair. */
    bool is_known = exchange->candidate_count > 0 && !exchange->hop.is_parent;
    return is_known ? &exchange->candidates[exchange->candidate] : NULL;
}

bool cached_may_have(struct engine *engine, struct exchange *exchange, const struct address *source)
{
    return source == NULL ||
           is_admitted(engine, &exchange->leg, &exchange->target, exchange->datagram[1], source);
}

static void keep(struct engine *engine, const struct exchange *exchange, const struct reply *reply)
{
    const struct cache_ticket *ticket = &exchange->ticket;
    const struct address *from = cached_source(exchange);
    /* What is not one of several blocks is the whole, for who asks without blocks as well. */
    struct cache_key whole = cache_key_base(&ticket->key);
    bool is_whole = reply->code == CODE_CONTENT && !freshness_is_partial(reply->options);
    uint32_t max_age_s = freshness_max_age_s(reply->options);
    bool can_be_validated = reply->code == CODE_CONTENT && freshness_etag(reply->options).len > 0;
    if (cached_has_changed(engine, exchange) ||
        (max_age_s == 0 && !can_be_validated && engine->config->cache_stale_if_error == 0)) {
        return;
    }
    const struct cache_item item = {
        .key = is_whole ? &whole : &ticket->key,
        .representation = {.code = reply->code,
                           .options = reply->options,
                           .payload = reply->payload,
                           .max_age_s = max_age_s,
                           .received_ms = engine_now_ms(engine)},
        .origin = from,
        .hop_limit = ticket->hop_limit,
        .changes = ticket->changes,
    };
    (void)cache_store_put(&engine->cache, &item);
}

static bool has_etag(const struct engine *engine, const struct cache_entry *entry,
                     struct bytes etag)
{
    struct representation kept = cache_entry_get(&engine->cache, entry);
    struct bytes own = freshness_etag(kept.options);
    return own.len > 0 && own.len == etag.len && memcmp(own.data, etag.data, etag.len) == 0;
}

static struct cache_entry *candidate_with(const struct engine *engine,
                                          const struct exchange *exchange, struct bytes etag)
{
    const struct cache_candidates *candidates = &exchange->ticket.candidates;
    for (uint32_t i = 0; i < candidates->count; i++) {
        struct cache_entry *entry = candidates->entries[i];
        /* Without a record it is lost: there was no room for it. */
        if (entry->record_len > 0 && has_etag(engine, entry, etag)) {
            return entry;
        }
    }
    return NULL;
}

/* The origin server stands by a representation that is here (RFC 7252 section 5.6.2). */
static void answer_validated(struct engine *engine, struct exchange *exchange,
                             struct cache_entry *entry, const struct reply *valid)
{
    uint64_t now_ms = engine_now_ms(engine);
    if (!cache_store_refresh(&engine->cache, entry, valid->options, now_ms, engine->scratch,
                             engine->scratch_bytes)) {
        exchange_end(engine, exchange, REASON_proxy_busy, NULL);
        return;
    }
    entry->changes = exchange->ticket.changes;
    if (cached_has_changed(engine, exchange)) {
        entry->is_invalid = true; /* what it was asked about may be gone by now */
    }
    metric_add(&engine->metrics.cache_validated, 1);
    exchange->ticket.answer = CACHE_ANSWER_VALIDATED;
    struct representation kept = cache_entry_get(&engine->cache, entry);
    struct reply reply = cached_reply_of(&kept, now_ms);
    exchange_answer(engine, exchange, REASON_answered, &reply);
}

/* A 2.03: an ETag that was asked about, and no payload (CACHE-15). */
static void answer_valid(struct engine *engine, struct exchange *exchange,
                         const struct reply *reply)
{
    struct bytes etag = freshness_etag(reply->options);
    struct cache_entry *entry = etag.len > 0 ? candidate_with(engine, exchange, etag) : NULL;
    if (etag.len == 0 || reply->payload.len > 0) {
        exchange_end(engine, exchange, REASON_origin_invalid, NULL);
    } else if (entry != NULL) {
        answer_validated(engine, exchange, entry, reply);
    } else if (!exchange->ticket.has_key || etag_is_among(exchange->ticket.etags, etag)) {
        exchange_answer(engine, exchange, REASON_answered, reply); /* CACHE-14 */
    } else {
        exchange_end(engine, exchange, REASON_origin_invalid, NULL);
    }
}

void cached_note(struct engine *engine, struct exchange *exchange, const struct reply *reply)
{
    struct cache_ticket *ticket = &exchange->ticket;
    if (!ticket->has_key) {
        return;
    }
    ticket->changes =
        changes_count(engine->changes); /* newer than whatever has changed the target */
    if (reply->code != CODE_VALID) {
        if (freshness_use(reply->code, reply->options) == ANSWER_STORABLE) {
            keep(engine, exchange, reply);
        }
        return;
    }
    struct bytes etag = freshness_etag(reply->options);
    struct cache_entry *entry = cache_store_find(&engine->cache, &ticket->key);
    while (entry != NULL && !has_etag(engine, entry, etag)) {
        entry = cache_store_find_next(&engine->cache, entry);
    }
    if (entry != NULL &&
        cache_store_refresh(&engine->cache, entry, reply->options, engine_now_ms(engine),
                            engine->scratch, engine->scratch_bytes)) {
        entry->changes = ticket->changes;
    }
}

void cached_answer(struct engine *engine, struct exchange *exchange, const struct reply *reply)
{
    note_change(engine, exchange, reply);
    if (exchange->leg.kind == LEG_INTERNAL && !exchange->ticket.is_abandoned) {
        exchange_answer(engine, exchange, REASON_answered, reply); /* its owner knows better */
        return;
    }
    if (reply->code == CODE_VALID) {
        answer_valid(engine, exchange, reply);
        return;
    }
    enum answer_use use =
        exchange->ticket.has_key ? freshness_use(reply->code, reply->options) : ANSWER_FOR_ONE;
    bool is_failure = reply->code == CODE(5, 0) || reply->code == CODE(5, 2) ||
                      reply->code == CODE(5, 3) || reply->code == CODE(5, 4);
    if (is_failure && cached_help(engine, exchange, REASON_answered)) {
        return;
    }
    if (use == ANSWER_FOR_ONE) {
        coalesce_scatter(engine, exchange);
    } else if (use == ANSWER_STORABLE) {
        keep(engine, exchange, reply);
    }
    exchange_answer(engine, exchange, REASON_answered, reply);
}

/* --- failures ----------------------------------------------------------- */

/* Whether the origin server, or the way to it, is what failed. */
static bool is_origins(enum reason reason)
{
    static const enum reason reasons[] = {
        REASON_answered,       REASON_name_unresolvable, REASON_name_timeout,
        REASON_no_route,       REASON_origin_refused,    REASON_origin_reset,
        REASON_origin_timeout, REASON_origin_invalid,    REASON_origin_busy,
    };
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        if (reasons[i] == reason) {
            return true;
        }
    }
    return false;
}

static bool is_usable_stale(const struct engine *engine, const struct cache_entry *entry)
{
    struct representation kept = cache_entry_get(&engine->cache, entry);
    return entry->code == CODE_CONTENT && !entry->is_superseded && !is_changed(engine, entry) &&
           freshness_is_usable_stale(&kept, engine->config->cache_stale_if_error,
                                     engine_now_ms(engine));
}

/* An unsafe request that has failed this way may have been acted on nevertheless. */
static bool may_have_changed(enum reason reason)
{
    return reason == REASON_origin_timeout || reason == REASON_origin_invalid ||
           reason == REASON_response_too_large || reason == REASON_unanswered;
}

void cached_note_failure(struct engine *engine, const struct exchange *exchange, enum reason reason)
{
    if (!exchange->leg.is_safe && may_have_changed(reason)) {
        change(engine, &exchange->target);
    }
}

bool cached_help(struct engine *engine, struct exchange *exchange, enum reason reason)
{
    struct cache_ticket *ticket = &exchange->ticket;
    if (!ticket->has_key || engine->config->cache_stale_if_error == 0 || !is_origins(reason)) {
        return false;
    }
    struct cache_entry *entry = cache_store_find(&engine->cache, &ticket->key);
    while (entry != NULL && !is_usable_stale(engine, entry)) {
        entry = cache_store_find_next(&engine->cache, entry);
    }
    if (entry == NULL || !cached_may_have(engine, exchange, &entry->origin)) {
        return false;
    }
    cache_entry_touch(entry);
    ticket->source = entry->origin;
    metric_add(&engine->metrics.cache_stale_served, 1);
    struct representation kept = cache_entry_get(&engine->cache, entry);
    struct reply reply = cached_reply_of(&kept, engine_now_ms(engine));
    exchange_answer(engine, exchange, REASON_stale, &reply);
    return true;
}
