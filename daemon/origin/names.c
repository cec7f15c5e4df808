/* SPDX-License-Identifier: BSD-2-Clause */
#include "origin/names.h"

#include "origin/side.h"
#include "policy/hostname.h"
#include "policy/ranges.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* As for clients: see client/client.c. */
#define SAMPLE_SIZE 8
#define SAMPLE_MOST 64

/* How long a failure is remembered (ERR-21). */
#define NEGATIVE_MS_MAX 5000u

/*
 * How long servers are not asked again that have just failed, where old addresses help
 * meanwhile: the failure recheck timer of RFC 8767 section 5.
 */
#define RECHECK_MS 30000u

/* Before the configuration is known: limits.ipv6-prefix. */
#define IPV6_BITS 64u

/* Questions looked at to make room for one: some may have passed to another source. */
#define MAKE_ROOM_TRIES 8

#define ADDRESSES_MAX (sizeof(((struct name *)0)->addresses) / sizeof(struct address))

int name_table_init(struct name_table *table, name_result_fn *on_result, uint32_t capacity,
                    uint64_t seed)
{
    struct name_table made = {.on_result = on_result, .capacity = capacity, .random = seed};
    made.slots = calloc(capacity, sizeof(*made.slots));
    if (made.slots == NULL || hash_map_init(&made.map, capacity, seed) != 0 ||
        account_book_init(&made.book, capacity, capacity, IPV6_BITS, seed) != 0) {
        name_table_clear(&made);
        return -ENOMEM;
    }
    *table = made;
    return 0;
}

void name_table_clear(struct name_table *table)
{
    account_book_clear(&table->book);
    hash_map_clear(&table->map);
    free(table->slots);
    *table = (struct name_table){0};
}

static struct name *find_name(const struct name_table *table, struct bytes text, uint64_t key)
{
    struct hash_node *node = hash_map_find(&table->map, key);
    for (; node != NULL; node = hash_map_find_next(node)) {
        struct name *name = HASH_ENTRY(node, struct name, node);
        if (bytes_equal((struct bytes){name->text, name->text_len}, text)) {
            return name;
        }
    }
    return NULL;
}

/* Names without addresses go first: any client can make them up. */
static bool goes_before(const struct name *name, const struct name *other)
{
    bool has_addresses = name->address_count > 0;
    if (has_addresses != (other->address_count > 0)) {
        return !has_addresses;
    }
    return name->expires_ms < other->expires_ms;
}

static struct name *slot_to_use(struct name_table *table)
{
    if (table->used < table->capacity) {
        return &table->slots[table->used++];
    }
    struct name *oldest = NULL;
    for (unsigned i = 0; i < SAMPLE_SIZE || (oldest == NULL && i < SAMPLE_MOST); i++) {
        table->random = hash_mix(table->random, i + 1);
        struct name *name = &table->slots[table->random % table->capacity];
        bool is_free = name->question == NULL && !name->is_given;
        if (is_free && (oldest == NULL || goes_before(name, oldest))) {
            oldest = name;
        }
    }
    if (oldest != NULL) {
        hash_map_remove(&oldest->node);
    }
    return oldest;
}

static struct name *get_name(struct origin_side *side, struct bytes text)
{
    struct name_table *table = &side->names;
    uint64_t key = hash_bytes(text.data, text.len, table->map.seed);
    struct name *name = find_name(table, text, key);
    if (name == NULL) {
        name = slot_to_use(table);
        if (name == NULL) {
            return NULL;
        }
        *name = (struct name){.side = side, .text_len = (uint8_t)text.len};
        memcpy(name->text, text.data, text.len);
        hash_map_add(&table->map, &name->node, key);
    }
    return name;
}

static struct name_wait *wait_of(struct list_node *node)
{
    return HASH_ENTRY(node, struct name_wait, node);
}

/* --- questions and their sources ---------------------------------------- */

static const struct address *client_of(const struct name_wait *wait)
{
    return &wait->client;
}

/* The name of a parent proxy is the operator's: all need it, and it never makes room. */
static bool is_charged(const struct name_wait *wait)
{
    return !wait->is_operators;
}

static bool has_source_of(const struct name_table *table, const struct name *name,
                          const struct name_wait *wait)
{
    struct address source = account_source(client_of(wait), table->book.ipv6_bits);
    const struct account *account = name->holding.account;
    return account != NULL && address_equal(&account->source, &source);
}

/* The question is now for @p wait. */
static void pass_to(struct name_table *table, struct name *name, const struct name_wait *wait)
{
    if (!is_charged(wait)) {
        account_discharge(&table->book, &name->holding);
    } else if (!has_source_of(table, name, wait)) {
        account_discharge(&table->book, &name->holding);
        account_charge(&table->book, &name->holding, client_of(wait), 1);
    }
}

/* The resolver has answered, or does not have to any more. */
static void end_question(struct origin_side *side, struct name *name)
{
    name->question = NULL;
    side->names.asked_count--;
    account_discharge(&side->names.book, &name->holding);
    timer_cancel(&side->context.wheel, &name->timer);
}

/* --- answers ------------------------------------------------------------- */

static bool may_use_stale(const struct name *name, uint64_t now_ms)
{
    return name->address_count > 0 && now_ms < name->stale_until_ms;
}

static void give_addresses(struct origin_side *side, const struct name *name,
                           struct name_wait *wait)
{
    const struct name_result result = {.addresses = name->addresses,
                                       .address_count = name->address_count};
    side->names.on_result(side, wait, &result);
}

static void give_stale(struct origin_side *side, const struct name *name, struct name_wait *wait)
{
    metric_add(&side->context.metrics.names_stale, 1);
    give_addresses(side, name, wait);
}

static enum reason reason_of_status(enum resolve_status status)
{
    switch (status) {
    case RESOLVE_NO_ANSWER:
        return REASON_name_timeout;
    case RESOLVE_FAILED:
        return REASON_name_failed;
    case RESOLVE_SHORTAGE:
        return REASON_proxy_busy;
    case RESOLVE_OK:
    case RESOLVE_NOT_FOUND:
        break;
    }
    return REASON_name_unresolvable;
}

static void give_failure(struct origin_side *side, struct name_wait *wait, enum reason reason)
{
    const struct name_result result = {.reason = reason};
    side->names.on_result(side, wait, &result);
}

static void give_result(struct origin_side *side, const struct name *name, struct name_wait *wait)
{
    if (name->status == RESOLVE_OK) {
        give_addresses(side, name, wait);
    } else if (may_use_stale(name, context_now_ms(&side->context))) {
        give_stale(side, name, wait);
    } else {
        give_failure(side, wait, reason_of_status(name->status));
    }
}

/* The addresses to use, those of the preferred family first; the system's order otherwise. */
static void take_addresses(struct name *name, enum config_resolve_prefer prefer,
                           const struct address *addresses, size_t count)
{
    uint16_t first = prefer == RESOLVE_PREFER_IPV4   ? ADDRESS_IPV4
                     : prefer == RESOLVE_PREFER_IPV6 ? ADDRESS_IPV6
                                                     : ADDRESS_NONE;
    name->address_count = 0;
    for (unsigned round = 0; round < 2; round++) {
        for (size_t i = 0; i < count && name->address_count < ADDRESSES_MAX; i++) {
            bool is_first = first == ADDRESS_NONE || addresses[i].family == first;
            if (is_first == (round == 0)) {
                name->addresses[name->address_count++] = addresses[i];
            }
        }
    }
}

static uint64_t at_most(uint64_t value, uint64_t most)
{
    return value < most ? value : most;
}

/* How long addresses hold: DNS's TTL within the configuration's bounds. */
static uint64_t keep_ms(const struct config *config, uint32_t ttl_s)
{
    uint64_t ttl_ms = ttl_s == RESOLVE_TTL_UNKNOWN ? UINT64_MAX : (uint64_t)ttl_s * 1000;
    if (ttl_ms < config->resolve_cache_time_min) {
        ttl_ms = config->resolve_cache_time_min;
    }
    return at_most(ttl_ms, config->resolve_cache_time);
}

/* RFC 8767 section 4: a failure leaves the old addresses, an answer of any kind replaces them. */
static void take_result(struct name *name, const struct resolve_result *result)
{
    struct origin_side *side = name->side;
    const struct config *config = side->context.config;
    uint64_t now_ms = context_now_ms(&side->context), hold_ms = 0;
    bool has_addresses = result->status == RESOLVE_OK && result->address_count > 0;
    name->status =
        result->status == RESOLVE_OK && !has_addresses ? RESOLVE_NOT_FOUND : result->status;
    if (has_addresses) {
        take_addresses(name, config->resolve_prefer, result->addresses, result->address_count);
        hold_ms = keep_ms(config, result->ttl_s);
        name->stale_until_ms = now_ms + hold_ms + config->resolve_stale_time;
    } else if (name->status == RESOLVE_NOT_FOUND) {
        name->address_count = 0;
        hold_ms = at_most(config->resolve_cache_time, NEGATIVE_MS_MAX);
    } else if (may_use_stale(name, now_ms)) {
        hold_ms = at_most(RECHECK_MS, name->stale_until_ms - now_ms);
    } else if (name->status != RESOLVE_SHORTAGE) { /* that may be over in a moment */
        hold_ms = at_most(config->resolve_cache_time, NEGATIVE_MS_MAX);
    }
    name->expires_ms = now_ms + hold_ms;
}

static void count_result(struct origin_side *side, enum resolve_status status)
{
    struct metrics *metrics = &side->context.metrics;
    switch (status) {
    case RESOLVE_NO_ANSWER:
        metric_add(&metrics->names_unanswered, 1);
        break;
    case RESOLVE_FAILED:
    case RESOLVE_SHORTAGE:
        metric_add(&metrics->names_failed, 1);
        break;
    case RESOLVE_NOT_FOUND:
        metric_add(&metrics->names_not_found, 1);
        break;
    case RESOLVE_OK:
        break;
    }
}

/* The question has its answer: give it to all that wait. */
static void settle_name(struct name *name, const struct resolve_result *result)
{
    struct origin_side *side = name->side;
    end_question(side, name);
    take_result(name, result);
    count_result(side, name->status);
    name->is_given = true;
    while (name->waiting.first != NULL) {
        struct name_wait *wait = wait_of(name->waiting.first);
        names_forget(side, wait);
        give_result(side, name, wait);
    }
    name->is_given = false;
}

static void on_result(void *context, const struct resolve_result *result)
{
    settle_name(context, result);
}

/* The question is given up, for @p status. */
static void give_up(struct name *name, enum resolve_status status)
{
    resolver_withdraw(name->question);
    settle_name(name, &(struct resolve_result){.status = status});
}

/* --- questions ----------------------------------------------------------- */

static void on_question_late(void *context, struct timer *timer, uint64_t now_ms)
{
    struct origin_side *side = context;
    struct name *name = HASH_ENTRY(timer, struct name, timer);
    uint64_t end_ms = name->asked_ms + side->context.config->resolve_timeout;
    if (now_ms >= end_ms) {
        give_up(name, RESOLVE_NO_ANSWER);
        return;
    }
    name->is_slow = true;
    metric_add(&side->context.metrics.names_slow, 1);
    timer_set(&side->context.wheel, timer, end_ms, on_question_late);
    name->is_given = true;
    while (name->waiting.first != NULL && may_use_stale(name, now_ms)) {
        struct name_wait *wait = wait_of(name->waiting.first);
        names_forget(side, wait);
        give_stale(side, name, wait);
    }
    name->is_given = false;
}

/* A request of another source that waits for the name, or NULL. */
static const struct name_wait *other_waiting(const struct name_table *table,
                                             const struct name *name)
{
    struct list_node *node = name->waiting.first;
    while (node != NULL && has_source_of(table, name, wait_of(node))) {
        node = node->next;
    }
    return node != NULL ? wait_of(node) : NULL;
}

/*
 * Whether one more question may be asked, for @p wait. Where the table is full, the source
 * that has most makes room; a question that requests of other sources wait for becomes theirs
 * instead. The few of the operator's are asked in any case.
 */
static bool make_room(struct origin_side *side, const struct name_wait *wait)
{
    struct name_table *table = &side->names;
    uint32_t most = (uint32_t)at_most(side->context.config->resolve_queue, table->capacity / 2);
    table->book.ipv6_bits = side->context.config->limits_ipv6_prefix;
    for (unsigned i = 0; i < MAKE_ROOM_TRIES && table->asked_count >= most; i++) {
        bool is_owed;
        struct holding *holding = account_yield(&table->book, client_of(wait), 1, &is_owed);
        if (holding == NULL) {
            break;
        }
        struct name *name = HASH_ENTRY(holding, struct name, holding);
        if (!is_owed && !has_source_of(table, name, wait)) {
            break; /* all is fairly divided */
        }
        const struct name_wait *other = other_waiting(table, name);
        if (other != NULL) {
            pass_to(table, name, other);
        } else {
            metric_add(&side->context.metrics.names_evicted, 1);
            account_note_displaced(holding);
            give_up(name, RESOLVE_SHORTAGE);
        }
    }
    return table->asked_count < most || !is_charged(wait);
}

/* @return 0 or -errno, with nothing changed */
static int ask_for(struct origin_side *side, struct name *name, const struct name_wait *wait)
{
    const struct config *config = side->context.config;
    struct name_table *table = &side->names;
    struct address source = account_source(client_of(wait), config->limits_ipv6_prefix);
    const struct resolve_query query = {
        .name = (const char *)name->text,
        .name_len = name->text_len,
        .source = address_hash(&source, table->map.seed),
        .servers = config->resolve_servers.items,
        .server_count = config->resolve_servers.count,
        .timeout_ms = config->resolve_timeout,
        .may_ask_system = config->resolve_system == RESOLVE_SYSTEM_AUTO,
    };
    int error = resolver_ask(side->resolver, &query, on_result, name, &name->question);
    if (error != 0) {
        return error;
    }
    table->asked_count++;
    pass_to(table, name, wait);
    metric_add(&side->context.metrics.names_asked, 1);
    name->is_slow = false;
    name->asked_ms = context_now_ms(&side->context);
    timer_set(&side->context.wheel, &name->timer,
              name->asked_ms + at_most(config->resolve_stale_after, config->resolve_timeout),
              on_question_late);
    return 0;
}

/* @return whether it waits: else it has been given old addresses. */
static bool wait_for(struct origin_side *side, struct name *name, struct name_wait *wait)
{
    if (name->is_slow && may_use_stale(name, context_now_ms(&side->context))) {
        give_stale(side, name, wait);
        return false;
    }
    wait->name = name;
    list_add(&name->waiting, &wait->node);
    return true;
}

/*
 * Ask for the name of @p wait. Making room ends other requests, whose callbacks may resolve
 * names too: only then is the name's slot looked up.
 */
static bool ask_and_wait(struct origin_side *side, struct name_wait *wait)
{
    bool has_room = make_room(side, wait);
    struct name *name = get_name(side, wait->text);
    int error = 0;
    if (name == NULL) {
        give_failure(side, wait, REASON_proxy_busy);
        return false;
    }
    if (name->question == NULL) {
        error = has_room ? ask_for(side, name, wait) : -EAGAIN;
    }
    if (error == 0) {
        return wait_for(side, name, wait);
    }
    if (may_use_stale(name, context_now_ms(&side->context))) {
        give_stale(side, name, wait);
    } else {
        give_failure(side, wait, error == -EINVAL ? REASON_name_unresolvable : REASON_proxy_busy);
    }
    return false;
}

/* RFC 6761 section 6.3: no server is asked, as some would answer. */
static void give_localhost(struct origin_side *side, struct name_wait *wait)
{
    struct address addresses[RANGES_LOCALHOST_COUNT];
    ranges_localhost(side->context.config->resolve_prefer == RESOLVE_PREFER_IPV6, addresses);
    const struct name_result result = {.addresses = addresses,
                                       .address_count = RANGES_LOCALHOST_COUNT};
    side->names.on_result(side, wait, &result);
}

bool names_resolve(struct origin_side *side, struct name_wait *wait)
{
    const struct name_table *table = &side->names;
    struct bytes text = wait->text;
    if (!resolve_is_host_name((const char *)text.data, text.len)) {
        give_failure(side, wait, REASON_name_unresolvable);
        return false;
    }
    if (hostname_is_localhost(text.data, text.len)) {
        give_localhost(side, wait);
        return false;
    }
    struct name *name = find_name(table, text, hash_bytes(text.data, text.len, table->map.seed));
    if (name != NULL && name->question != NULL) {
        return wait_for(side, name, wait);
    }
    if (name != NULL && context_now_ms(&side->context) < name->expires_ms) {
        give_result(side, name, wait);
        return false;
    }
    return ask_and_wait(side, wait);
}

void names_forget(struct origin_side *side, struct name_wait *wait)
{
    struct name *name = wait->name;
    if (name == NULL) {
        return;
    }
    list_remove(&name->waiting, &wait->node);
    wait->name = NULL;
    if (name->question == NULL) {
        return;
    }
    if (name->waiting.first != NULL) {
        pass_to(&side->names, name, wait_of(name->waiting.first));
    } else if (!may_use_stale(
                   name, context_now_ms(&side->context))) { /* else it is asked for later ones */
        resolver_withdraw(name->question);
        end_question(side, name);
        metric_add(&side->context.metrics.names_withdrawn, 1);
    }
}

void names_withdraw_all(struct origin_side *side)
{
    struct name_table *table = &side->names;
    for (uint32_t i = 0; i < table->used; i++) {
        if (table->slots[i].question != NULL) {
            resolver_withdraw(table->slots[i].question);
            end_question(side, &table->slots[i]);
        }
    }
}
