/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Answering a follower may close its connection, and with it end other fetches, of this
 * leader too. So followers are taken off the list one by one, and the leader outlives the
 * last of them (is_fanning_out).
 */
#include "fetch/coalesce.h"

#include "fetch/admit.h"
#include "fetch/forward.h"
#include "fetch/side.h"

int coalesce_init(struct hash_map *leaders, uint32_t capacity, uint64_t seed)
{
    return hash_map_init(leaders, capacity, seed);
}

/* --- leaders and followers ---------------------------------------------- */

/*
 * A request that left as NON may be lost without a word (MSG-37). One that would go as CON does
 * not rely on that, nor does any when an answer is overdue: a client that asks again because
 * it heard nothing would have nothing sent.
 */
static bool is_reliable_for(const struct fetch *leader, const struct fetch *fetch)
{
    bool is_overdue = leader->state == FETCH_sent && !leader->sending.is_outstanding;
    return leader->sending.is_confirmable || (!fetch->sending.is_confirmable && !is_overdue);
}

/*
 * Whether the leader's answer will be one for this request as well. A leader that asks to
 * validate what only its client has may get an answer that means nothing to others. And a
 * request that comes back to us in a loop must not wait for itself: its Hop-Limit tells.
 */
static bool can_follow(const struct fetch_side *side, const struct fetch *leader,
                       const struct fetch *fetch)
{
    const struct cache_ticket *ticket = &leader->ticket;
    return cache_key_equal(&ticket->key, &fetch->ticket.key) &&
           ticket->hop_limit == fetch->ticket.hop_limit &&
           ticket->follower_count < side->context.config->cache_followers &&
           is_reliable_for(leader, fetch) && !cached_has_changed(side, leader) &&
           (!ticket->has_foreign_etags || bytes_equal(ticket->etags, fetch->ticket.etags));
}

static struct fetch *find_leader(const struct fetch_side *side, const struct fetch *fetch)
{
    uint64_t hash = fetch->ticket.key.hash;
    struct hash_node *node = hash_map_find(&side->leaders, hash);
    for (; node != NULL; node = hash_map_find_next(node)) {
        struct fetch *leader = HASH_ENTRY(node, struct fetch, ticket.by_key);
        if (can_follow(side, leader, fetch)) {
            return leader;
        }
    }
    return NULL;
}

static void follow(struct fetch_side *side, struct fetch *leader, struct fetch *fetch)
{
    struct cache_ticket *ticket = &leader->ticket;
    fetch_set_state(side, fetch, FETCH_following);
    fetch->ticket.leader = leader;
    fetch->ticket.answer = CACHE_ANSWER_FOLLOWS;
    fetch->ticket.leader_id = leader->trail->id;
    list_add(&ticket->followers, &fetch->waiting);
    ticket->follower_count++;
    metric_add(&side->context.metrics.requests_coalesced, 1);
    fetch_set_deadline(side, fetch);
}

bool coalesce_enter(struct fetch_side *side, struct fetch *fetch)
{
    if (!fetch->ticket.has_key || fetch->ticket.is_alone || !side->context.config->cache_coalesce) {
        return false;
    }
    struct fetch *leader = find_leader(side, fetch);
    if (leader != NULL) {
        follow(side, leader, fetch);
        return true;
    }
    hash_map_add(&side->leaders, &fetch->ticket.by_key, fetch->ticket.key.hash);
    return false;
}

void coalesce_leave(struct fetch *fetch)
{
    if (fetch->ticket.leader == NULL) {
        return;
    }
    struct cache_ticket *ticket = &fetch->ticket.leader->ticket;
    list_remove(&ticket->followers, &fetch->waiting);
    ticket->follower_count--;
    fetch->ticket.leader = NULL;
}

void coalesce_close(struct fetch *fetch)
{
    hash_map_remove(&fetch->ticket.by_key);
}

bool coalesce_is_awaited(const struct fetch *fetch)
{
    return fetch->ticket.followers.first != NULL || fetch->ticket.is_fanning_out;
}

/* --- fan-out ------------------------------------------------------------ */

static struct fetch *take_follower(struct fetch *leader)
{
    struct list_node *node = leader->ticket.followers.first;
    if (node == NULL) {
        return NULL;
    }
    struct fetch *follower = fetch_of_waiting(node);
    coalesce_leave(follower);
    return follower;
}

/* It goes the long way after all. */
static void send_alone(struct fetch_side *side, struct fetch *follower)
{
    timer_cancel(&side->context.wheel, &follower->timer);
    follower->ticket.is_alone = true;
    forward_start(side, follower);
}

static bool may_have_answer(struct fetch_side *side, struct fetch *follower,
                            const struct fetch *leader)
{
    return admit_answer(side, follower->asker, &follower->target, follower->sending.datagram[1],
                        cached_source(leader)) == REASON_none;
}

void coalesce_answer(struct fetch_side *side, struct fetch *leader, enum reason reason,
                     const struct reply *reply)
{
    struct fetch *follower;
    coalesce_close(leader);
    leader->ticket.is_fanning_out = true;
    while ((follower = take_follower(leader)) != NULL) {
        if (reason == REASON_local || !may_have_answer(side, follower, leader)) {
            send_alone(side, follower);
        } else {
            fetch_answer(side, follower, reason, reply);
        }
    }
    leader->ticket.is_fanning_out = false;
}

void coalesce_end(struct fetch_side *side, struct fetch *leader, enum reason reason,
                  const char *text)
{
    struct fetch *follower;
    coalesce_close(leader);
    leader->ticket.is_fanning_out = true;
    while ((follower = take_follower(leader)) != NULL) {
        if (reason_is_about_client(reason)) {
            send_alone(side, follower);
        } else {
            fetch_fail(side, follower, reason, text);
        }
    }
    leader->ticket.is_fanning_out = false;
}

void coalesce_scatter(struct fetch_side *side, struct fetch *leader)
{
    struct fetch *follower;
    coalesce_close(leader);
    leader->ticket.is_fanning_out = true;
    while ((follower = take_follower(leader)) != NULL) {
        send_alone(side, follower);
    }
    leader->ticket.is_fanning_out = false;
}
