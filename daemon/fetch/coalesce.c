/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Answering a follower may close its connection, and with it end other exchanges, of this
 * leader too. So followers are taken off the list one by one, and the leader outlives the
 * last of them (is_fanning_out).
 */
#include "fetch/coalesce.h"

#include "client/reply.h"
#include "client/stream.h"
#include "client/trace.h"
#include "engine/state.h"
#include "fetch/internal.h"
#include "origin/forward.h"

int coalesce_init(struct hash_map *leaders, uint32_t capacity, uint64_t seed)
{
    return hash_map_init(leaders, capacity, seed);
}

/* --- who follows whom --------------------------------------------------- */

/*
 * What left as NON may be lost without a word (MSG-37). A request that would go as CON does
 * not rely on that, nor does any when an answer is overdue: a client that asks again because
 * it heard nothing would have nothing sent.
 */
static bool is_reliable_for(const struct exchange *leader, const struct exchange *exchange)
{
    bool is_overdue = leader->state == EXCHANGE_sent && !leader->is_outstanding;
    return leader->is_confirmable || (!exchange->is_confirmable && !is_overdue);
}

/*
 * Whether the leader's answer will be one for this request as well. A leader that asks to
 * validate what only its client has may get an answer that means nothing to others. And a
 * request that comes back to us in a loop must not wait for itself: its Hop-Limit tells.
 */
static bool can_follow(const struct engine *engine, const struct exchange *leader,
                       const struct exchange *exchange)
{
    const struct cache_ticket *ticket = &leader->ticket;
    return cache_key_equal(&ticket->key, &exchange->ticket.key) &&
           ticket->hop_limit == exchange->ticket.hop_limit &&
           ticket->follower_count < engine->config->cache_followers &&
           is_reliable_for(leader, exchange) && !cached_has_changed(engine, leader) &&
           (!ticket->has_foreign_etags || bytes_equal(ticket->etags, exchange->ticket.etags));
}

static struct exchange *find_leader(const struct engine *engine, const struct exchange *exchange)
{
    uint64_t hash = exchange->ticket.key.hash;
    struct hash_node *node = hash_map_find(&engine->leaders, hash);
    for (; node != NULL; node = hash_map_find_next(node)) {
        struct exchange *leader = HASH_ENTRY(node, struct exchange, ticket.by_key);
        if (can_follow(engine, leader, exchange)) {
            return leader;
        }
    }
    return NULL;
}

static void follow(struct engine *engine, struct exchange *leader, struct exchange *exchange)
{
    struct cache_ticket *ticket = &leader->ticket;
    exchange->state = EXCHANGE_following;
    exchange->ticket.leader = leader;
    exchange->ticket.answer = CACHE_ANSWER_FOLLOWS;
    exchange->ticket.leader_id = leader->id;
    exchange_list_add(&ticket->followers, exchange);
    ticket->follower_count++;
    metric_add(&engine->metrics.requests_coalesced, 1);
    exchange_set_deadline(engine, exchange);
}

bool coalesce_enter(struct engine *engine, struct exchange *exchange)
{
    if (!exchange->ticket.has_key || exchange->ticket.is_alone || !engine->config->cache_coalesce) {
        return false;
    }
    struct exchange *leader = find_leader(engine, exchange);
    if (leader != NULL) {
        follow(engine, leader, exchange);
        return true;
    }
    hash_map_add(&engine->leaders, &exchange->ticket.by_key, exchange->ticket.key.hash);
    return false;
}

void coalesce_leave(struct exchange *exchange)
{
    if (exchange->ticket.leader == NULL) {
        return;
    }
    struct cache_ticket *ticket = &exchange->ticket.leader->ticket;
    exchange_list_remove(&ticket->followers, exchange);
    ticket->follower_count--;
    exchange->ticket.leader = NULL;
}

void coalesce_close(struct exchange *exchange)
{
    hash_map_remove(&exchange->ticket.by_key);
}

bool coalesce_is_awaited(const struct exchange *exchange)
{
    return exchange->ticket.followers.first != NULL || exchange->ticket.is_fanning_out;
}

/* --- fan-out ------------------------------------------------------------ */

static struct exchange *take_follower(struct exchange *leader)
{
    struct exchange *follower = leader->ticket.followers.first;
    if (follower != NULL) {
        coalesce_leave(follower);
    }
    return follower;
}

/* It goes the long way after all. */
static void send_alone(struct engine *engine, struct exchange *follower)
{
    timer_cancel(&engine->wheel, &follower->timer);
    follower->ticket.is_alone = true;
    forward_start(engine, follower);
}

void coalesce_answer(struct engine *engine, struct exchange *leader, enum reason reason,
                     const struct reply *reply)
{
    struct exchange *follower;
    coalesce_close(leader);
    leader->ticket.is_fanning_out = true;
    while ((follower = take_follower(leader)) != NULL) {
        const struct address *source = cached_source(leader);
        if (reason == REASON_local || !cached_may_have(engine, follower, source)) {
            send_alone(engine, follower);
        } else {
            exchange_answer(engine, follower, reason, reply);
        }
    }
    leader->ticket.is_fanning_out = false;
}

void coalesce_end(struct engine *engine, struct exchange *leader, enum reason reason,
                  const char *text)
{
    struct exchange *follower;
    coalesce_close(leader);
    leader->ticket.is_fanning_out = true;
    while ((follower = take_follower(leader)) != NULL) {
        if (reason_is_about_client(reason)) {
            send_alone(engine, follower);
        } else {
            exchange_end(engine, follower, reason, text);
        }
    }
    leader->ticket.is_fanning_out = false;
}

void coalesce_scatter(struct engine *engine, struct exchange *leader)
{
    struct exchange *follower;
    coalesce_close(leader);
    leader->ticket.is_fanning_out = true;
    while ((follower = take_follower(leader)) != NULL) {
        send_alone(engine, follower);
    }
    leader->ticket.is_fanning_out = false;
}

/* --- a leader without its client ---------------------------------------- */

/* The answer is for the followers then, and for the cache. */
void coalesce_abandon(struct engine *engine, struct exchange *leader, enum reason reason)
{
    if (leader->leg.kind == LEG_INTERNAL) {
        return;
    }
    trace_ended(engine, leader, reason, 0);
    exchange_forget_client(engine, leader, reason);
    leader->ticket.is_abandoned = true;
    leader->leg.kind = LEG_INTERNAL;
    leader->leg.handler = &internal_unowned;
}
