/* SPDX-License-Identifier: BSD-2-Clause */
#include "origin/queue.h"

#include "base/hash.h"

static uint32_t take_round(const struct queue *queue, uint32_t here, struct queue_turn *turn)
{
    uint32_t round = queue->round;
    if (turn == NULL) {
        return round; /* the proxy itself */
    }
    bool is_ahead = turn->origin == here && (int32_t)(turn->round - round) >= 0; /* rounds wrap */
    turn->origin = here;
    turn->round = is_ahead ? turn->round + 1 : round;
    return turn->round;
}

/* The end of @p round or of the nearest one before it that is known; NULL: of none. */
static struct queued *known_end(struct queue *queue, uint32_t round)
{
    struct queued *nearest = NULL;
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < QUEUE_ENDS; i++) {
        struct queued *end = queue->ends[i];
        uint32_t back = end != NULL ? round - end->round : UINT32_MAX;
        if ((int32_t)back >= 0 && back < least) { /* a later one is far back, as rounds wrap */
            nearest = end;
            least = back;
        }
    }
    return nearest;
}

/* Behind which one of the same round or an earlier one it goes; NULL: to the head. */
static struct list_node *last_before(struct queue *queue, uint32_t round)
{
    struct list_node *last = queue->list.last;
    if (last == NULL || (int32_t)(HASH_ENTRY(last, struct queued, node)->round - round) <= 0) {
        return last;
    }
    struct queued *end = known_end(queue, round);
    struct list_node *before = end != NULL ? &end->node : NULL;
    /* Where a round's end is not known it is searched for. What is last stops the search. */
    struct list_node *at = end != NULL ? end->node.next : queue->list.first;
    for (; (int32_t)(HASH_ENTRY(at, struct queued, node)->round - round) <= 0; at = at->next) {
        before = at;
    }
    return before;
}

void queue_enter(struct queue *queue, uint32_t here, struct queued *queued)
{
    queued->round = take_round(queue, here, queued->turn);
    list_insert(&queue->list, last_before(queue, queued->round), &queued->node);
    queue->ends[queued->round % QUEUE_ENDS] = queued;
    queue->count++;
    queued->is_in = true;
}

void queue_leave(struct queue *queue, struct queued *queued)
{
    struct queued **end = &queue->ends[queued->round % QUEUE_ENDS];
    struct list_node *before = queued->node.previous;
    if (*end == queued) {
        struct queued *last = before != NULL ? HASH_ENTRY(before, struct queued, node) : NULL;
        *end = last != NULL && last->round == queued->round ? last : NULL;
    }
    list_remove(&queue->list, &queued->node);
    queue->count--;
    queued->is_in = false;
}
