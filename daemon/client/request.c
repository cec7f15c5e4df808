/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How requests are answered and end: towards the fetch by part_from_fetch(), towards the client by
 * request_finish().
 */
#include "client/request.h"

#include "client/directory.h"
#include "client/echo.h"
#include "client/observation.h"
#include "client/observer.h"
#include "client/reply.h"
#include "client/serve.h"
#include "client/side.h"
#include "client/stream.h"
#include "client/trace.h"
#include "context/capture.h"
#include "fetch/cached.h"
#include "fetch/coalesce.h"
#include "fetch/forward.h"
#include "fetch/published.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const struct waiter_calls request_waiter_calls;

/* --- slots and memory ---------------------------------------------------------- */

int request_table_init(struct request_table *table, uint32_t capacity, uint64_t seed)
{
    struct request_table made = {.slots = NULL};
    made.slots = calloc(capacity, sizeof(*made.slots));
    made.memory = malloc((size_t)capacity * REQUEST_MEMORY_BYTES);
    if (made.slots == NULL || made.memory == NULL || free_slots_init(&made.free, capacity) != 0 ||
        hash_map_init(&made.map, (size_t)capacity * 2, seed) != 0 ||
        hash_map_init_of_hashes(&made.tokens, capacity, seed) != 0 ||
        account_book_init(&made.accounts, capacity, capacity, ACCOUNT_IPV6_BITS, seed) != 0) {
        request_table_clear(&made);
        return -ENOMEM;
    }
    hash_map_begin_small(&made.map);
    hash_map_begin_small(&made.tokens);
    *table = made;
    return 0;
}

void request_table_clear(struct request_table *table)
{
    for (uint32_t i = 0; i < table->free.used; i++) {
        identity_release(table->slots[i].leg.asker.identity);
    }
    hash_map_clear(&table->map);
    hash_map_clear(&table->tokens);
    account_book_clear(&table->accounts);
    free(table->slots);
    free_slots_clear(&table->free);
    free(table->memory);
    *table = (struct request_table){0};
}

bool request_table_is_full(const struct request_table *table)
{
    return free_slots_next(&table->free) == NO_SLOT;
}

/*
 * Charge the large block that its fetch or its answer is in to its client's source; once, until
 * it is freed.
 */
static void charge_large(struct client_side *side, struct request *request)
{
    if (request->large.account == NULL) {
        account_charge(&side->fetch.large.accounts, &request->large,
                       &request->leg.asker.path.remote, 1);
    }
}

static struct request *request_new(struct client_side *side, const struct leg *leg)
{
    struct request_table *table = &side->requests;
    struct memory memory;
    uint32_t slot = free_slots_next(&table->free);
    if (slot == NO_SLOT) {
        return NULL;
    }
    uint8_t *own = table->memory + (size_t)slot * REQUEST_MEMORY_BYTES;
    if (!memory_take(&side->fetch.large, &memory, own, REQUEST_MEMORY_BYTES, leg->token.len)) {
        return NULL;
    }
    struct request *request = &table->slots[slot];
    memset(request, 0, offsetof(struct request, trail)); /* in place: nothing is copied about */
    request->slot = slot;
    request->is_used = true;
    request->waiter.calls = &request_waiter_calls;
    request->waiter.owner = request;
    request->memory = memory;
    uint8_t *token = memory_alloc(&request->memory, leg->token.len);
    if (leg->token.len > 0) {
        memcpy(token, leg->token.data, leg->token.len);
    }
    request->leg = *leg;
    request->leg.token.data = token;
    (void)identity_acquire(request->leg.asker.identity);
    (void)free_slots_take(&table->free);
    account_charge_key(&table->accounts, &request->holding, &leg->asker.path.remote,
                       leg->peer->source_key, 1);
    if (memory.is_large) {
        charge_large(side, request);
    }
    return request;
}

void request_deliver(struct request_table *table, struct request *request)
{
    request->is_delivering = true;
    list_add(&table->delivering, &request->waiting);
    table->delivering_count++;
}

/* The slot is free again; the request must be in no map, list or timer, and have no fetch. */
static void request_free(struct client_side *side, struct request *request)
{
    struct request_table *table = &side->requests;
    if (request->is_delivering) {
        list_remove(&table->delivering, &request->waiting);
        table->delivering_count--;
    }
    memory_give_back(&side->fetch.large, &request->memory);
    if (request->large.account != NULL) {
        account_discharge(&side->fetch.large.accounts, &request->large);
    }
    account_discharge(&table->accounts, &request->holding);
    identity_release(request->leg.asker.identity);
    request->leg.asker.identity = NULL;
    request->is_used = false;
    request->is_delivering = false;
    free_slots_give(&table->free, request->slot);
}

bool request_renew_memory(struct client_side *side, struct request *request, size_t bytes)
{
    struct memory *memory = &request->memory;
    if (bytes <= memory->capacity) {
        memory->used = 0;
        return true;
    }
    /* From its own bytes to a large block: what does not fit one of those does not fit at all. */
    if (!memory_take(&side->fetch.large, memory, memory->bytes, REQUEST_MEMORY_BYTES, bytes)) {
        return false;
    }
    charge_large(side, request);
    return true;
}

/* --- its client ----------------------------------------------------------- */

static void on_ack_due(void *context, struct timer *timer, uint64_t now_ms)
{
    (void)now_ms;
    struct client_side *side = context;
    metric_add(&side->context.metrics.acknowledgements, 1);
    reply_acknowledge(side, HASH_ENTRY(timer, struct request, ack_timer));
}

/* Enter it into the maps and into the list of its client; start its clocks. */
static void request_begin(struct client_side *side, struct request *request)
{
    struct request_table *table = &side->requests;
    const struct leg *leg = &request->leg;
    struct peer *peer = leg->peer;
    request->next_of_peer = peer->pending;
    request->link_of_peer = &peer->pending;
    if (peer->pending != NULL) {
        peer->pending->link_of_peer = &request->next_of_peer;
    }
    peer->pending = request;
    peer->in_flight++;
    hash_map_expect(&table->tokens, table->free.used);
    hash_map_expect(&table->map, table->free.used);
    hash_map_add(&table->tokens, &request->by_token, leg_token_key(leg, table->tokens.seed));
    if (leg->kind == LEG_DATAGRAM) {
        hash_map_add(&table->map, &request->by_request,
                     key_of_client(side, KEY_CLIENT_REQUEST, leg->client, leg->mid));
    }
    if (leg->confirmable) {
        timer_set(&side->context.wheel, &request->ack_timer,
                  context_now_ms(&side->context) + side->context.config->proxy_ack_delay,
                  on_ack_due);
    }
}

/*
 * Answers that clients leave unacknowledged hold a slot for 93 s: the oldest of them, sent before,
 * makes room when all slots are in use.
 */
struct request *request_make(struct client_side *side, const struct leg *leg,
                             const struct message *message)
{
    struct request_table *table = &side->requests;
    if (request_table_is_full(table) && table->delivering.first != NULL) {
        metric_add(&side->context.metrics.deliveries_cut, 1);
        request_drop(side, HASH_ENTRY(table->delivering.first, struct request, waiting),
                     REASON_client_unreachable);
    }
    struct request *request = request_new(side, leg);
    if (request != NULL) {
        request->query = message->code == CODE_FETCH ? serve_query(side, message) : 0;
        request_begin(side, request);
    }
    return request;
}

static void leave_peer(struct request *request)
{
    struct peer *peer = request->leg.peer;
    if (peer == NULL) {
        return;
    }
    if (request->fetch != NULL && request->fetch->sending.queued.turn == &peer->turn) {
        request->fetch->sending.queued.turn = NULL;
    }
    *request->link_of_peer = request->next_of_peer;
    if (request->next_of_peer != NULL) {
        request->next_of_peer->link_of_peer = request->link_of_peer;
    }
    request->leg.peer = NULL;
    peer->in_flight--;
}

void request_leave_all(struct client_side *side, struct peer *peer)
{
    observers_leave(side, peer); /* OBS-26 */
    while (peer->pending != NULL) {
        struct request *request = peer->pending;
        bool is_for_cache = request->leg.outlives && request->observation == NULL;
        bool goes_on = (!request->leg.is_safe || is_for_cache) && !request->leg.is_part &&
                       !request->is_delivering;
        leave_peer(request);
        request->leg.kind = LEG_GONE;
        timer_cancel(&side->context.wheel, &request->ack_timer);
        hash_map_remove(&request->by_request);
        hash_map_remove(&request->by_token);
        if (!goes_on) {
            request_drop(side, request, REASON_client_gone);
        }
    }
}

void request_finish(struct client_side *side, struct request *request, struct bytes answer)
{
    const struct leg *leg = &request->leg;
    trace_count(side, leg, request->reason, request->ended_code, request->ended_upstream);
    if (leg->kind == LEG_DATAGRAM) {
        reply_remember(side, leg, answer);
    }
    if (request->is_delivering && side->context.trace) {
        trace_delivered(side, request);
    }
    timer_cancel(&side->context.wheel, &request->ack_timer);
    timer_cancel(&side->context.wheel, &request->timer);
    hash_map_remove(&request->by_request);
    hash_map_remove(&request->by_token);
    hash_map_remove(&request->by_message);
    struct peer *stream = leg->kind == LEG_STREAM ? leg->peer : NULL;
    leave_peer(request);
    request_free(side, request);
    if (stream != NULL) {
        stream_settle(stream);
    }
}

void request_abandon(struct client_side *side, struct request *request)
{
    timer_cancel(&side->context.wheel, &request->ack_timer);
    hash_map_remove(&request->by_request);
    hash_map_remove(&request->by_token);
    leave_peer(request);
    request_free(side, request);
}

/* Options of a 2.01 whose Location is told anew: a message has few others. */
struct own_location {
    uint8_t options[2048]; /* one datagram of options, and a longer path */
};

/* --- its fetch ------------------------------------------------------------ */

bool request_was_sent(const struct request *request)
{
    const struct fetch *fetch = request->fetch;
    return fetch != NULL && fetch->asker == &request->leg.asker && fetch->candidate_count > 0;
}

struct request *request_of_fetch(const struct fetch *fetch)
{
    const struct waiter *waiter = fetch_first_waiter(fetch);
    return waiter != NULL && waiter->calls == &request_waiter_calls ? waiter->owner : NULL;
}

static void on_joined_deadline(void *context, struct timer *timer, uint64_t now_ms)
{
    (void)now_ms;
    struct client_side *side = context;
    struct request *request = HASH_ENTRY(timer, struct request, timer);
    fetch_fail_one(&side->fetch, request->fetch, &request->waiter, REASON_origin_timeout);
}

/* It waits from now on for @p fetch. @return false where its options do not fit its slot. */
static bool join_fetch(struct client_side *side, struct request *request, struct fetch *fetch,
                       const struct fetch_recipe *recipe)
{
    const struct bytes options = recipe->message->options;
    uint8_t *kept = memory_alloc(&request->memory, options.len);
    if (kept == NULL) {
        return false;
    }
    if (options.len > 0) {
        memcpy(kept, options.data, options.len);
    }
    if (request->fetch != NULL) {
        fetch_leave(&side->fetch, request->fetch, &request->waiter, REASON_none);
    }
    request->fetch = fetch;
    request->joined_id = fetch->trail->id;
    request->own = (struct own_question){
        .deadline_ms = context_now_ms(&side->context) +
                       context_patience_ms(&side->context, request->leg.asker.is_http) +
                       (fetch->hop.is_device ? side->context.config->devices_wait : 0),
        .options = {kept, options.len},
        .block2 = recipe->additions.block2,
        .not_local = recipe->not_local,
        .drops_echo = recipe->additions.drops_echo,
    };
    request->waiter.asker = &request->leg.asker;
    request->waiter.etags = request->own.options;
    fetch_add_waiter(fetch, &request->waiter);
    metric_add(&side->context.metrics.requests_coalesced, 1);
    timer_set(&side->context.wheel, &request->timer, request->own.deadline_ms, on_joined_deadline);
    return true;
}

bool request_join(struct client_side *side, struct request *request,
                  const struct fetch_recipe *recipe)
{
    struct fetch *equal = coalesce_find(&side->fetch, recipe);
    return equal != NULL && join_fetch(side, request, equal, recipe);
}

enum reason request_ask(struct client_side *side, struct request *request,
                        struct fetch_recipe *recipe, bool may_join)
{
    recipe->asker = &request->leg.asker;
    recipe->trail = &request->trail;
    recipe->turn = &request->leg.peer->turn;
    trail_begin(&side->fetch, &request->trail);
    if (side->context.capture != NULL) {
        capture_note(&side->context, &request->leg.asker.path.remote, request->leg.token,
                     request->trail.id, REASON_none);
    }
    struct fetch *equal = may_join ? coalesce_find(&side->fetch, recipe) : NULL;
    if (equal != NULL && join_fetch(side, request, equal, recipe)) {
        return REASON_none;
    }
    enum reason reason = fetch_make(&side->fetch, recipe, &request->waiter, &request->fetch);
    if (reason == REASON_none && request->fetch->memory.is_large) {
        charge_large(side, request);
    }
    return reason;
}

/* It waits for nothing any more, for @p reason, and is about to be told so with @p code. */
static void part_from_fetch(struct client_side *side, struct request *request, enum reason reason,
                            uint8_t code)
{
    if (request->observation != NULL) {
        observation_end_wait(side, request);
    }
    if (request->joined_id != 0) {
        timer_cancel(&side->context.wheel, &request->timer);
    }
    request->reason = reason;
    trace_ended(side, request, reason, code);
    request->fetch = NULL;
    /* A large block is charged from now on only if the request itself has one. */
    if (request->large.account != NULL && !request->memory.is_large) {
        account_discharge(&side->fetch.large.accounts, &request->large);
    }
}

void request_drop(struct client_side *side, struct request *request, enum reason reason)
{
    struct fetch *fetch = request->fetch;
    part_from_fetch(side, request, reason, 0);
    if (fetch != NULL) {
        fetch_leave(&side->fetch, fetch, &request->waiter, reason);
    }
    reply_nothing(side, request);
}

/*
 * Where a 2.01 has made something, in the words of a client that asked for a path of ours. @p room
 * is for the options that @p ret_own has then.
 */
static bool has_own_location(const struct client_side *side, const struct request *request,
                             const struct reply *reply, struct own_location *room,
                             struct reply *ret_own)
{
    if (reply->code != CODE(2, 1)) {
        return false;
    }
    *ret_own = *reply;
    reply_replace_options(ret_own,
                          published_location(side->context.config, &request->fetch->target,
                                             reply->options, room->options, sizeof(room->options)));
    return true;
}

static enum waiter_wish on_fetch_failure(struct fetch_side *below, void *owner, struct fetch *fetch,
                                         enum reason reason, const char *text)
{
    struct client_side *side = client_side_of(below);
    struct request *request = owner;
    struct device *unheard = directory_unheard(side, request, reason);
    (void)fetch;
    part_from_fetch(side, request, reason, reason_row(reason)->code);
    reply_reason_to_request(side, request, reason, text);
    if (unheard != NULL) {
        device_hold(&side->origin, unheard, 0); /* the fetch is not through yet */
    }
    return WAITER_DONE;
}

static enum waiter_wish on_fetch_answer(struct fetch_side *below, void *owner, struct fetch *fetch,
                                        enum reason reason, const struct reply *reply)
{
    struct client_side *side = client_side_of(below);
    struct request *request = owner;
    struct own_location room;
    struct reply cut, own;
    if (request->leg.registers != LEG_REGISTERS_NOT && reason == REASON_stale) {
        return on_fetch_failure(below, owner, fetch, REASON_origin_timeout, NULL);
    }
    if (request->leg.registers != LEG_REGISTERS_NOT) {
        own = directory_done();
        reply = &own;
    } else if (request->leg.is_published && has_own_location(side, request, reply, &room, &own)) {
        reply = &own;
    }
    enum reason trouble = serve_cut_request(side, request, reply, &cut);
    if (trouble != REASON_none) {
        reason = trouble;
    }
    uint8_t options[ECHO_OPTIONS_MAX];
    struct reply shorter;
    if (request->leg.is_unverified && echo_shorten(side, &request->leg, &cut, options, &shorter)) {
        cut = shorter;
        reason = CODE_CLASS(reply->code) == 2 ? REASON_echo_required : reason;
    }
    part_from_fetch(side, request, reason, cut.code);
    reply_to_request(side, request, &cut);
    return WAITER_DONE;
}

static void on_fetch_nothing(struct fetch_side *below, void *owner, struct fetch *fetch,
                             enum reason reason)
{
    struct client_side *side = client_side_of(below);
    (void)fetch;
    part_from_fetch(side, owner, reason, 0);
    reply_nothing(side, owner);
}

/* It waits from now on for @p fetch, in its own time still. */
static void join_rest(struct client_side *side, struct request *request, struct fetch *fetch)
{
    request->fetch = fetch;
    request->joined_id = fetch->trail->id;
    fetch_add_waiter(fetch, &request->waiter);
    timer_set(&side->context.wheel, &request->timer, request->own.deadline_ms, on_joined_deadline);
}

/* What it has joined is not for it: its own fetch, for the rest of its time, or that of another
 * one that was left alone as well. */
static void on_fetch_alone(struct fetch_side *below, void *owner, struct fetch *fetch,
                           bool may_join)
{
    struct client_side *side = client_side_of(below);
    struct request *request = owner;
    struct fetch *equal = may_join ? coalesce_find_rest(below, fetch) : NULL;
    if (equal != NULL) {
        join_rest(side, request, equal);
        return;
    }
    struct leg *leg = &request->leg;
    const struct own_question *own = &request->own;
    const struct message message = {.options = own->options};
    const struct fetch_recipe recipe = {
        .asker = &leg->asker,
        .trail = &request->trail,
        .turn = leg->peer != NULL ? &leg->peer->turn : NULL,
        .deadline_ms = own->deadline_ms,
        .mirrors_non = leg->kind == LEG_DATAGRAM && !leg->confirmable,
        .message = &message,
        .additions = {.block2 = own->block2,
                      .no_response = {.is_ours = true},
                      .drops_echo = own->drops_echo,
                      .etag_seed = side->fetch.bodies.seed},
        .asks_for_block = leg->has_block2,
        .not_local = own->not_local,
    };
    timer_cancel(&side->context.wheel, &request->timer);
    enum reason reason = fetch_make_alone(below, fetch, &recipe, &request->waiter, &request->fetch);
    if (reason != REASON_none) {
        (void)on_fetch_failure(below, request, fetch, reason, NULL);
        return;
    }
    if (request->fetch->memory.is_large) {
        charge_large(side, request);
    }
    if (may_join) {
        coalesce_open_rest(below, request->fetch);
    }
    forward_start(below, request->fetch);
}

/* It may wait for an observation's registration: it goes on alone. The body has its own clock. */
static void on_fetch_blocks(struct fetch_side *below, void *owner)
{
    struct client_side *side = client_side_of(below);
    struct request *request = owner;
    timer_cancel(&side->context.wheel, &request->timer);
    observation_end_wait(side, request);
}

static void on_fetch_member(struct fetch_side *below, void *owner, struct fetch *fetch,
                            const struct reply *reply)
{
    struct client_side *side = client_side_of(below);
    (void)fetch;
    reply_one_of_many(side, owner, reply);
}

static bool takes_block(const void *owner, const struct block *block)
{
    const struct request *request = owner;
    const struct leg *leg = &request->leg;
    /* Parts of a body that an HTTP server sends are cut for each client (client/serve.h). */
    bool is_cut = transport_is_http(request->fetch->hop.scheme->transport);
    if (block->szx == BLOCK_SZX_BERT && !is_cut) {
        return stream_takes_bert(leg);
    }
    return leg_takes_blocks(leg);
}

static bool does_blocks(const void *owner)
{
    return stream_does_blocks(&((const struct request *)owner)->leg);
}

static const struct waiter_calls request_waiter_calls = {
    .on_answer = on_fetch_answer,
    .on_failure = on_fetch_failure,
    .on_nothing = on_fetch_nothing,
    .on_alone = on_fetch_alone,
    .on_member = on_fetch_member,
    .on_blocks = on_fetch_blocks,
    .takes_block = takes_block,
    .does_blocks = does_blocks,
};
