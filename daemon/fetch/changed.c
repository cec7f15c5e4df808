/* SPDX-License-Identifier: BSD-2-Clause */
#include "fetch/changed.h"

#include "coap/option.h"
#include "fetch/body.h"
#include "fetch/cached.h"
#include "fetch/forward.h"
#include "fetch/shared.h"
#include "fetch/side.h"

#include <stdlib.h>
#include <string.h>

/* Changes with a number of which answers may wait. */
#define CHANGED_MAX 1024u

/* For so long an answer waits at most: for a worker that has much to do. */
#define CONFIRM_MS 1000u

/* Stands for a change that no replica confirms; more than any number. */
#define CHANGED_UNTOLD UINT64_MAX

/* A change that was told, until another one has its place. */
struct told_change {
    uint64_t number; /* 0: none yet */
    bool is_passed_on;
    uint64_t receivers;  /* when it was passed on, */
    uint64_t confirmed;  /* and those that have said that they know */
    struct fetch *fetch; /* its answer waits: NULL, none does */
    struct reply reply;  /* that answer, with its bytes, */
    struct body body;    /* here: options, then the payload */
};

struct changed {
    uint64_t last; /* number */
    bool is_hasty; /* one was not confirmed in time, nor any since then */
    struct told_change told[CHANGED_MAX];
};

bool changed_open(struct fetch_side *side)
{
    side->changed = calloc(1, sizeof(*side->changed));
    return side->changed != NULL;
}

void changed_close(struct fetch_side *side)
{
    for (unsigned i = 0; side->changed != NULL && i < CHANGED_MAX; i++) {
        body_free(&side->bodies, &side->changed->told[i].body);
    }
    free(side->changed);
    side->changed = NULL;
}

/* --- changes ------------------------------------------------------------ */

/* The next number; those whose place has an answer that waits are left out. */
static uint64_t take_number(struct fetch_side *side)
{
    struct changed *changed = side->changed;
    if (changed == NULL) {
        return 0;
    }
    for (unsigned i = 1; i <= CHANGED_MAX && shared_is_ready(side); i++) {
        struct told_change *told = &changed->told[(changed->last + i) % CHANGED_MAX];
        if (told->fetch == NULL) {
            changed->last += i;
            *told = (struct told_change){.number = changed->last};
            return told->number;
        }
    }
    return CHANGED_UNTOLD;
}

/* @return its number, 0: nothing here or there can be about it, or CHANGED_UNTOLD */
static uint64_t change(struct fetch_side *side, const struct target *target, bool is_awaited)
{
    struct cache_key key;
    if (!cache_key_of_target(target, side->origin.key_memory, sizeof(side->origin.key_memory),
                             side->origin.changes->seed, &key)) {
        return 0; /* nor has any entry a key that long */
    }
    /* Before other workers see the change: what they ask the server for afterwards counts it. */
    uint64_t number = is_awaited ? take_number(side) : 0;
    shared_change(side, &key, number == CHANGED_UNTOLD ? 0 : number);
    changes_note(side->origin.changes, key.target_hash);
    cache_store_invalidate(&side->cache, &key);
    return number;
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
static uint64_t change_location(struct fetch_side *side, const struct target *target,
                                struct bytes options, bool is_awaited)
{
    uint8_t *memory = side->context.target_memory;
    size_t half = side->context.target_memory_bytes / 2;
    struct target location = *target;
    location.path = pack_answer(options, OPTION_location_path, memory, half);
    location.query = pack_answer(options, OPTION_location_query, memory + half, half);
    return location.path.count + location.query.count > 0 ? change(side, &location, is_awaited) : 0;
}

/*
 * RFC 7252 section 5.9.1: 2.01, 2.02 and 2.04 change the target whatever the method was,
 * and so may any other success of an unsafe one, as 2.31 has begun to (RFC 7959 section 2.10),
 * and some failures.
 */
uint64_t changed_note(struct fetch_side *side, const struct fetch *fetch, const struct reply *reply)
{
    bool is_change =
        reply->code == CODE(2, 1) || reply->code == CODE(2, 2) || reply->code == CODE(2, 4);
    bool may_be_one = !fetch->is_safe && fetch_answer_may_follow_action(fetch, reply->code);
    uint64_t number = 0, further = 0;
    if (is_change || may_be_one) {
        number = change(side, &fetch->target, !fetch->is_own);
    }
    if (reply->code == CODE(2, 1)) {
        further = change_location(side, &fetch->target, reply->options, !fetch->is_own);
    }
    /* A replica that knows of the last knows of those before; CHANGED_UNTOLD is the greatest. */
    return number > further ? number : further;
}

void changed_note_end(struct fetch_side *side, const struct fetch *fetch, enum reason reason)
{
    if (fetch_may_have_acted(fetch, reason)) {
        (void)change(side, &fetch->target, false);
    }
}

/* --- answers that wait -------------------------------------------------- */

/* It waits no more. @p ret_body has the bytes of what is returned, to be freed. */
static struct reply let_told_go(struct fetch *fetch, struct told_change *told,
                                struct body *ret_body)
{
    *ret_body = told->body;
    told->body = (struct body){0};
    told->fetch = NULL;
    fetch->ticket.change_number = 0;
    return told->reply;
}

/* May free the fetch. */
static void answer_change(struct fetch_side *side, struct told_change *told)
{
    struct fetch *fetch = told->fetch;
    struct body body;
    timer_cancel(&side->context.wheel, &fetch->timer);
    const struct reply reply = let_told_go(fetch, told, &body);
    cached_give(side, fetch, &reply);
    body_free(&side->bodies, &body);
}

static struct told_change *find_told(const struct fetch_side *side, uint64_t number)
{
    struct told_change *told = &side->changed->told[number % CHANGED_MAX];
    return told->number == number ? told : NULL;
}

/* That for which the answer of @p fetch waits: its place is not given to another one meanwhile. */
static struct told_change *told_of(const struct fetch_side *side, const struct fetch *fetch)
{
    return &side->changed->told[fetch->ticket.change_number % CHANGED_MAX];
}

static void on_unconfirmed(void *context, struct timer *timer, uint64_t now_ms)
{
    struct fetch_side *side = context;
    struct fetch *fetch = HASH_ENTRY(timer, struct fetch, timer);
    (void)now_ms;
    side->changed->is_hasty = true;
    metric_add(&side->context.metrics.cache_unconfirmed, 1);
    answer_change(side, told_of(side, fetch));
}

/* @return false: there is no room */
static bool keep_told(struct fetch_side *side, struct told_change *told, const struct reply *reply)
{
    struct body *body = &told->body;
    if (!body_append(&side->bodies, body, reply->options, NULL) ||
        !body_append(&side->bodies, body, reply->payload, NULL)) {
        body_free(&side->bodies, body);
        return false;
    }
    told->reply = *reply;
    told->reply.options = (struct bytes){body->data, reply->options.len};
    told->reply.payload = (struct bytes){
        reply->payload.len > 0 ? body->data + reply->options.len : NULL, reply->payload.len};
    return true;
}

static bool is_confirmed(const struct told_change *told)
{
    return told->is_passed_on && told->confirmed >= told->receivers;
}

bool changed_wait(struct fetch_side *side, struct fetch *fetch, uint64_t number,
                  const struct reply *reply)
{
    struct told_change *told = number != CHANGED_UNTOLD ? find_told(side, number) : NULL;
    if (told != NULL && is_confirmed(told)) {
        return false;
    }
    if (told == NULL || !keep_told(side, told, reply)) {
        metric_add(&side->context.metrics.cache_unconfirmed, 1);
        return false;
    }
    forward_release(side, fetch);
    told->fetch = fetch;
    fetch->ticket.change_number = number;
    fetch_set_state(side, fetch, FETCH_confirming);
    uint64_t wait_ms =
        side->changed->is_hasty ? side->context.config->cache_shared_timeout : CONFIRM_MS;
    timer_set(&side->context.wheel, &fetch->timer, context_now_ms(&side->context) + wait_ms,
              on_unconfirmed);
    return true;
}

void changed_let_go(struct fetch_side *side, struct fetch *fetch)
{
    struct body body;
    (void)let_told_go(fetch, told_of(side, fetch), &body);
    body_free(&side->bodies, &body);
}

static void look_at_told(struct fetch_side *side, struct told_change *told)
{
    if (told->fetch != NULL && is_confirmed(told)) {
        side->changed->is_hasty = false;
        answer_change(side, told);
    }
}

void changed_passed_on(struct fetch_side *side, uint32_t number, uint64_t receivers)
{
    struct told_change *told = &side->changed->told[number % CHANGED_MAX];
    if ((uint32_t)told->number == number && !told->is_passed_on) {
        told->is_passed_on = true;
        told->receivers = receivers;
        look_at_told(side, told);
    }
}

void changed_confirmed(struct fetch_side *side, uint64_t number)
{
    struct told_change *told = find_told(side, number);
    if (told != NULL) {
        told->confirmed++;
        look_at_told(side, told);
    }
}
