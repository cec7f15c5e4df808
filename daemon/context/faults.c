/* SPDX-License-Identifier: BSD-2-Clause */
#include "context/faults.h"

#include "base/hash.h"
#include "base/list.h"
#include "base/log.h"
#include "conf/schema.h"
#include "context/context.h"
#include "policy/pattern.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is drawn for one message; the order is part of what a seed means. */
enum draw {
    DRAW_LOSS,
    DRAW_DUPLICATE,
    DRAW_REORDER,
    DRAW_CORRUPT,
    DRAW_CORRUPT_AT,
    DRAW_TRUNCATE,
    DRAW_TRUNCATE_TO,
    DRAW_DELAY,
    DRAW_DELAY_SECOND,
    DRAW_CODE,
    DRAW_SILENCE,
    DRAW_CLOSE,
};

struct fault {
    const struct config_fault *rule; /* NULL: the slot is free */
    struct config *config;           /* of one of criproxyctl: owns the rule; NULL: context's */
    uint64_t seed;                   /* as it was set, or chosen */
    uint64_t messages[FAULT_WAYS], requests;
    uint64_t counts[FAULT_KINDS];
};

/* A copy of a message that waits. */
struct held {
    struct list_node node;
    uint64_t at_ms;
    void *owner, *other;
    fault_deliver_fn *deliver;
    struct udp_path path;
    size_t len;
    uint8_t data[];
};

struct faults {
    struct fault slots[FAULTS_MAX]; /* first those of the configuration, then the others */
    struct list held;               /* in the order of at_ms, and of those in which they came */
    uint32_t held_count;
    struct timer timer;
};

/* --- chance --------------------------------------------------------------- */

/* The finaliser of SplitMix64 (Steele, Lea, Flood 2014): every bit depends on every bit. */
static uint64_t fault_mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* One message of a way, or one request. */
struct lot {
    uint64_t key;
};

static struct lot lot_of(const struct context *context, const struct fault *fault, unsigned way,
                         uint64_t serial)
{
    uint64_t key = fault_mix(fault->seed ^ (uint64_t)context->worker_index << 40);
    return (struct lot){fault_mix(fault_mix(key + way) + serial)};
}

static uint64_t fault_draw(struct lot lot, enum draw what)
{
    return fault_mix(lot.key + 1 + (uint64_t)what);
}

static bool is_drawn(struct lot lot, enum draw what, uint32_t chance)
{
    return (fault_draw(lot, what) >> 32) * CHANCE_ONE >> 32 < chance;
}

static uint64_t delay_of(struct lot lot, enum draw what, const struct config_fault *rule)
{
    uint64_t span = 2 * (uint64_t)rule->jitter + 1;
    return rule->delay - rule->jitter + (fault_draw(lot, what) >> 32) * span / (UINT64_C(1) << 32);
}

/* --- which ---------------------------------------------------------------- */

static bool is_of_client(const struct config_fault *rule, const struct address *client)
{
    bool is_any = rule->client_count == 0;
    for (size_t i = 0; i < rule->client_count && !is_any; i++) {
        is_any = address_prefix_covers(&rule->clients[i], client);
    }
    return is_any;
}

struct fault *faults_of_client(const struct context *context, const struct address *client)
{
    struct faults *faults = context->faults;
    for (unsigned i = 0; faults != NULL && i < FAULTS_MAX; i++) {
        const struct config_fault *rule = faults->slots[i].rule;
        if (rule != NULL && rule->pattern_count == 0 && is_of_client(rule, client)) {
            return &faults->slots[i];
        }
    }
    return NULL;
}

static bool is_of_target(const struct config_fault *rule, const struct target *target)
{
    bool is_one = false;
    for (size_t i = 0; i < rule->pattern_count && !is_one; i++) {
        is_one = target_pattern_matches(&rule->patterns[i], target);
    }
    return is_one;
}

struct fault *faults_of_target(const struct context *context, const struct target *target,
                               const struct address *client)
{
    struct faults *faults = context->faults;
    for (unsigned i = 0; faults != NULL && i < FAULTS_MAX; i++) {
        const struct config_fault *rule = faults->slots[i].rule;
        if (rule != NULL && is_of_target(rule, target) && is_of_client(rule, client)) {
            return &faults->slots[i];
        }
    }
    return NULL;
}

struct fault *faults_by_number(const struct context *context, unsigned number)
{
    bool is_there = context->faults != NULL && number < FAULTS_MAX &&
                    context->faults->slots[number].rule != NULL;
    return is_there ? &context->faults->slots[number] : NULL;
}

unsigned fault_number(const struct context *context, const struct fault *fault)
{
    return (unsigned)(fault - context->faults->slots);
}

const char *faults_name(const struct context *context, unsigned number)
{
    const struct fault *fault = faults_by_number(context, number);
    return fault != NULL ? fault->rule->name : "-";
}

struct fault_view faults_look(const struct context *context, unsigned number)
{
    struct fault_view view = {.rule = NULL};
    const struct fault *fault = faults_by_number(context, number);
    if (fault != NULL) {
        view.rule = fault->rule;
        view.is_added = fault->config != NULL;
        view.seed = fault->seed;
        view.requests = fault->requests;
        memcpy(view.messages, fault->messages, sizeof(view.messages));
        memcpy(view.counts, fault->counts, sizeof(view.counts));
    }
    return view;
}

const char *fault_kinds_format(uint32_t kinds, char *text, size_t capacity)
{
    static const char *const words[] = {
#define FAULT(name, words) words,
#include "context/faults.def"
#undef FAULT
    };
    size_t len = 0;
    text[0] = '\0';
    for (unsigned i = 0; i < FAULT_KINDS && len < capacity; i++) {
        if ((kinds & FAULT_BIT(i)) != 0) {
            len +=
                (size_t)snprintf(text + len, capacity - len, "%s%s", len > 0 ? ", " : "", words[i]);
        }
    }
    return text;
}

/* --- what happens --------------------------------------------------------- */

/* Into the counters of the fault, and the metrics. */
static void fault_count(struct context *context, struct fault *fault, uint32_t kinds)
{
    static const size_t counters[] = {
#define FAULT(name, words) offsetof(struct metrics, faults_##name),
#include "context/faults.def"
#undef FAULT
    };
    for (unsigned i = 0; i < FAULT_KINDS; i++) {
        if ((kinds & FAULT_BIT(i)) != 0) {
            fault->counts[i]++;
            metric_add((_Atomic uint64_t *)(void *)((char *)&context->metrics + counters[i]), 1);
        }
    }
}

static void plan_change(struct lot lot, const struct config_fault *rule, struct fault_plan *plan)
{
    if (plan->len > 0 && is_drawn(lot, DRAW_TRUNCATE, rule->truncate)) {
        plan->kinds |= FAULT_BIT(FAULT_truncated);
        plan->len = (size_t)(fault_draw(lot, DRAW_TRUNCATE_TO) % plan->len);
    }
    if (plan->len > 0 && is_drawn(lot, DRAW_CORRUPT, rule->corrupt)) {
        uint64_t bit = fault_draw(lot, DRAW_CORRUPT_AT) % (8 * (uint64_t)plan->len);
        plan->kinds |= FAULT_BIT(FAULT_corrupted);
        plan->flip_at = (size_t)(bit / 8);
        plan->flip = (uint8_t)(1u << bit % 8);
    }
}

static void plan_times(struct lot lot, const struct config_fault *rule, struct fault_plan *plan)
{
    plan->delay_ms[0] = delay_of(lot, DRAW_DELAY, rule);
    plan->delay_ms[1] = delay_of(lot, DRAW_DELAY_SECOND, rule);
    plan->kinds |= rule->delay > 0 ? FAULT_BIT(FAULT_delayed) : 0;
    if (is_drawn(lot, DRAW_REORDER, rule->reorder)) {
        plan->kinds |= FAULT_BIT(FAULT_reordered);
        plan->delay_ms[0] += FAULTS_REORDER_MS;
    }
    if (is_drawn(lot, DRAW_DUPLICATE, rule->duplicate)) {
        plan->kinds |= FAULT_BIT(FAULT_duplicated);
        plan->copies = 2;
    }
}

struct fault_plan fault_draw_message(struct context *context, struct fault *fault,
                                     enum fault_way way, size_t len)
{
    const struct config_fault *rule = fault->rule;
    struct lot lot = lot_of(context, fault, way, fault->messages[way]++);
    struct fault_plan plan = {
        .number = (uint8_t)fault_number(context, fault), .copies = 1, .len = len};
    if (is_drawn(lot, DRAW_LOSS, rule->loss)) {
        plan.kinds = FAULT_BIT(FAULT_lost);
        plan.copies = 0;
    } else {
        plan_change(lot, rule, &plan);
        plan_times(lot, rule, &plan);
    }
    fault_count(context, fault, plan.kinds);
    return plan;
}

struct fault_plan fault_draw_request(struct context *context, struct fault *fault, unsigned may)
{
    const struct config_fault *rule = fault->rule;
    struct lot lot = lot_of(context, fault, FAULT_WAYS, fault->requests++);
    struct fault_plan plan = {.number = (uint8_t)fault_number(context, fault), .copies = 1};
    if (is_drawn(lot, DRAW_SILENCE, rule->silence)) {
        plan.kinds = FAULT_BIT(FAULT_silenced);
    } else if ((may & FAULT_CLOSES) != 0 && is_drawn(lot, DRAW_CLOSE, rule->close)) {
        plan.kinds = FAULT_BIT(FAULT_closed);
    } else if (is_drawn(lot, DRAW_CODE, rule->answer_chance)) {
        plan.kinds = FAULT_BIT(FAULT_answered);
        plan.answer = rule->answer;
    }
    bool goes_on = (plan.kinds & ~FAULT_BIT(FAULT_answered)) == 0;
    if (goes_on && (may & FAULT_WAITS) != 0 && rule->delay > 0) {
        plan.kinds |= FAULT_BIT(FAULT_delayed);
        plan.delay_ms[0] = delay_of(lot, DRAW_DELAY, rule) + delay_of(lot, DRAW_DELAY_SECOND, rule);
        plan.delay_ms[0] += plan.delay_ms[0] == 0; /* it has to wait before it can go on */
    }
    fault_count(context, fault, plan.kinds);
    return plan;
}

/* --- copies that wait ------------------------------------------------------ */

static void faults_on_timer(void *owner, struct timer *timer, uint64_t now_ms);

static void set_timer(struct context *context)
{
    struct faults *faults = context->faults;
    if (faults->held.first == NULL) {
        timer_cancel(&context->wheel, &faults->timer);
        return;
    }
    const struct held *first = HASH_ENTRY(faults->held.first, struct held, node);
    timer_set(&context->wheel, &faults->timer, first->at_ms, faults_on_timer);
}

static struct held *take_first(struct faults *faults)
{
    struct held *held = HASH_ENTRY(faults->held.first, struct held, node);
    list_remove(&faults->held, &held->node);
    faults->held_count--;
    return held;
}

/* Without faults, and what waits for them, there is nothing to be looked at. */
static void faults_trim(struct context *context)
{
    struct faults *faults = context->faults;
    bool is_used = faults != NULL && faults->held.first != NULL;
    for (unsigned i = 0; faults != NULL && i < FAULTS_MAX && !is_used; i++) {
        is_used = faults->slots[i].rule != NULL;
    }
    if (!is_used) {
        free(faults);
        context->faults = NULL;
        context->lab &= (uint8_t)~LAB_FAULTS;
    }
}

/* The timer's context is the engine, which begins with its context. */
static void faults_on_timer(void *owner, struct timer *timer, uint64_t now_ms)
{
    struct context *context = owner;
    struct faults *faults = HASH_ENTRY(timer, struct faults, timer);
    while (faults->held.first != NULL &&
           HASH_ENTRY(faults->held.first, struct held, node)->at_ms <= now_ms) {
        struct held *held = take_first(faults);
        held->deliver(held->owner, held->other, &held->path, held->data, held->len);
        free(held);
    }
    set_timer(context);
    faults_trim(context); /* the last one may have been cleared while this waited */
}

/* Behind all that are due no later: what waits equally long stays in its order. */
static void insert(struct faults *faults, struct held *held)
{
    struct list_node *before = faults->held.last;
    while (before != NULL && HASH_ENTRY(before, struct held, node)->at_ms > held->at_ms) {
        before = before->previous;
    }
    list_insert(&faults->held, before, &held->node);
    faults->held_count++;
}

/* NULL without memory, or room: the message is lost, as on a network whose queue is full. */
static struct held *copy_of(struct context *context, const struct fault_plan *plan,
                            const struct fault_parcel *parcel)
{
    struct held *held =
        context->faults->held_count < FAULTS_HELD_MAX ? malloc(sizeof(*held) + plan->len) : NULL;
    if (held == NULL) {
        metric_add(&context->metrics.faults_lost, 1);
        return NULL;
    }
    *held = (struct held){.owner = parcel->owner,
                          .other = parcel->other,
                          .deliver = parcel->deliver,
                          .path = parcel->path,
                          .len = plan->len};
    memcpy(held->data, parcel->data, plan->len);
    if ((plan->kinds & FAULT_BIT(FAULT_corrupted)) != 0) {
        held->data[plan->flip_at] ^= plan->flip;
    }
    return held;
}

/* @return whether it waits */
static bool carry_copy(struct context *context, const struct fault_plan *plan,
                       const struct fault_parcel *parcel, uint64_t delay_ms)
{
    bool is_changed = (plan->kinds & FAULT_BIT(FAULT_corrupted)) != 0;
    if (delay_ms == 0 && !is_changed) {
        parcel->deliver(parcel->owner, parcel->other, &parcel->path, parcel->data, plan->len);
        return false;
    }
    struct held *held = copy_of(context, plan, parcel);
    if (held != NULL && delay_ms == 0) {
        held->deliver(held->owner, held->other, &held->path, held->data, held->len);
        free(held);
    } else if (held != NULL) {
        held->at_ms = context_now_ms(context) + delay_ms;
        insert(context->faults, held);
        set_timer(context);
    }
    return held != NULL && delay_ms > 0;
}

bool fault_carry(struct context *context, const struct fault_plan *plan,
                 const struct fault_parcel *parcel)
{
    /* What a copy does may end what the other is for: the later one is made first. */
    bool waits = false;
    if (plan->copies > 1) {
        waits = carry_copy(context, plan, parcel, plan->delay_ms[1] + (plan->delay_ms[1] == 0));
    }
    if (plan->copies > 0) {
        waits = carry_copy(context, plan, parcel, plan->delay_ms[0]) || waits;
    }
    return waits;
}

void faults_forget(struct context *context, const void *owner)
{
    struct faults *faults = context->faults;
    struct list_node *node = faults != NULL ? faults->held.first : NULL;
    while (node != NULL) {
        struct held *held = HASH_ENTRY(node, struct held, node);
        node = node->next;
        if (held->owner == owner) {
            list_remove(&faults->held, &held->node);
            faults->held_count--;
            free(held);
        }
    }
    if (faults != NULL) {
        set_timer(context);
    }
}

/* --- coming and going ------------------------------------------------------ */

static bool faults_make(struct context *context)
{
    if (context->faults == NULL) {
        context->faults = calloc(1, sizeof(*context->faults));
        context->lab |= context->faults != NULL ? LAB_FAULTS : 0;
    }
    return context->faults != NULL;
}

static void begin_fault(struct context *context, struct fault *slot,
                        const struct config_fault *rule, struct config *config)
{
    uint32_t seed = rule->seed != 0 ? rule->seed : (uint32_t)entropy_u64(&context->entropy) | 1u;
    *slot = (struct fault){.rule = rule, .config = config, .seed = seed};
}

/* Those of criproxyctl. */
static void remove_fault(struct fault *slot)
{
    config_free(slot->config);
    *slot = (struct fault){.rule = NULL};
}

uint32_t faults_clear(struct context *context, const char *name)
{
    struct faults *faults = context->faults;
    uint32_t count = 0;
    for (unsigned i = 0; faults != NULL && i < FAULTS_MAX; i++) {
        struct fault *slot = &faults->slots[i];
        if (slot->config != NULL && (name[0] == '\0' || strcmp(slot->rule->name, name) == 0)) {
            remove_fault(slot);
            count++;
        }
    }
    faults_trim(context);
    return count;
}

static struct fault *slot_of_name(struct faults *faults, const char *name)
{
    struct fault *free_slot = NULL;
    for (unsigned i = FAULTS_MAX; i-- > 0;) {
        struct fault *slot = &faults->slots[i];
        if (slot->rule != NULL && strcmp(slot->rule->name, name) == 0) {
            return slot;
        }
        /* The first ones are for the configuration. */
        if (slot->rule == NULL && i >= CONFIG_FAULT_MAX) {
            free_slot = slot;
        }
    }
    return free_slot;
}

int faults_add(struct context *context, struct config *config)
{
    if (!faults_make(context)) {
        return -ENOMEM;
    }
    struct fault *slot = slot_of_name(context->faults, config->faults[0].name);
    if (slot == NULL) {
        return -ENOSPC;
    }
    if (slot->rule != NULL && slot->config == NULL) {
        return -EEXIST;
    }
    remove_fault(slot);
    begin_fault(context, slot, &config->faults[0], config);
    return 0;
}

void faults_configure(struct context *context)
{
    const struct config *config = context->config;
    if (!config->lab_enabled) {
        (void)faults_clear(context, "");
    }
    if (context->faults == NULL && (config->fault_count == 0 || !faults_make(context))) {
        if (config->fault_count > 0) {
            log_event(LOG_ERROR, "faults_failed", "worker=%u error=\"out of memory\"",
                      context->worker_index);
        }
        return;
    }
    for (unsigned i = 0; i < CONFIG_FAULT_MAX; i++) {
        struct fault *slot = &context->faults->slots[i];
        *slot = (struct fault){.rule = NULL};
        if (i < config->fault_count) {
            begin_fault(context, slot, &config->faults[i], NULL);
        }
    }
    faults_trim(context);
}

void faults_free(struct context *context)
{
    struct faults *faults = context->faults;
    if (faults == NULL) {
        return;
    }
    for (unsigned i = 0; i < FAULTS_MAX; i++) {
        remove_fault(&faults->slots[i]);
    }
    while (faults->held.first != NULL) {
        free(take_first(faults));
    }
    timer_cancel(&context->wheel, &faults->timer);
    faults_trim(context);
}
