/* SPDX-License-Identifier: BSD-2-Clause */
#include "origin/relay.h"

#include "origin/device.h"
#include "origin/device_wait.h"
#include "origin/origin.h"
#include "origin/side.h"
#include "origin/switchboard.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* As of fetches (fetch/fetch.h), which all begin with their slot and so with a bit that is 0. */
#define TOKEN_LEN 8u
#define TOKEN_BIT UINT64_C(0x80)

/* What an order leaves behind it may be as much again as the requests that are in flight. */
#define PASSED_ON_FACTOR 2u

enum news_kind {
    NEWS_ACKNOWLEDGED,
    NEWS_WAITS,
    NEWS_ANSWER,
    NEWS_FAILURE,
};

/* What the holder tells the asker, on the heap. */
struct news {
    enum news_kind kind;
    uint32_t order;         /* that it follows from */
    enum reason reason;     /* NEWS_FAILURE: why, */
    uint32_t place;         /* NEWS_WAITS: in the queue of a device that is silent */
    bool is_timeout;        /* the device has not answered in time; */
    bool is_sent;           /* a copy may have reached it */
    bool truncated;         /* NEWS_ANSWER: only its beginning; */
    struct message message; /* without a token; in bytes */
    uint8_t bytes[];
};

/* What the asker tells the holder, on the heap. */
struct order {
    struct loop_task task;
    struct relay *relay;
    uint32_t number;
    uint64_t deadline_ms;
    bool is_confirmable, is_kept, is_for_http;
    struct news *spare; /* for what is told without memory */
    uint32_t len;
    uint8_t datagram[];
};

struct relay {
    /* Never changes. */
    struct holder *holder;
    unsigned asker, worker; /* indexes; the second has the session */
    uint32_t line;          /* that it is for */
    uint64_t exchange;      /* the asker's number */
    struct address source;  /* and its client */
    uint32_t turn;

    /* Of both. */
    _Atomic uint32_t references;
    _Atomic(struct news *) mailbox;

    /* The asker's. */
    struct sending *asked; /* NULL: cancelled */
    struct device *device; /* of its list */
    uint32_t last_order;
    bool is_done;              /* the worker has nothing of it any more */
    struct loop_task end_task; /* posted once at most */

    /* The worker's. */
    struct hash_node by_token;
    struct sending sending;
    struct order *order;        /* whose datagram is sent; NULL: it has nothing of it */
    struct loop_task news_task; /* posted while the mailbox is full */
};

static struct relay *relay_of(struct sending *sending)
{
    return HASH_ENTRY(sending, struct relay, sending);
}

static struct switchboard_worker *worker_at(const struct relay *relay, unsigned index)
{
    return &relay->holder->board->each[index];
}

static void free_order(struct order *order)
{
    if (order != NULL) {
        free(order->spare);
        free(order);
    }
}

/* In any thread. */
static void relay_unref(struct relay *relay)
{
    if (atomic_fetch_sub(&relay->references, 1) == 1) {
        atomic_fetch_sub(&worker_at(relay, relay->asker)->passed_on, 1);
        free(atomic_load(&relay->mailbox));
        free_order(relay->order);
        holder_release(relay->holder);
        free(relay);
    }
}

static void drop_relay_task(void *context)
{
    relay_unref(context);
}

static void drop_order_task(void *context)
{
    struct order *order = context;
    struct relay *relay = order->relay;
    free_order(order);
    relay_unref(relay);
}

/* --- the worker with the session: telling ------------------------------------------ */

static void on_news(void *context);

/* @p news is given away. */
static void tell_asker(struct relay *relay, struct news *news)
{
    news->order = relay->order->number;
    struct news *unread = atomic_exchange(&relay->mailbox, news);
    if (unread != NULL) {
        free(unread);
        return; /* its task is under way */
    }
    atomic_fetch_add(&relay->references, 1);
    relay->news_task =
        (struct loop_task){.run = on_news, .drop = drop_relay_task, .context = relay};
    if (loop_post_task(worker_at(relay, relay->asker)->loop, &relay->news_task) != 0) {
        relay_unref(relay);
    }
}

/* Nothing of it is here any more: frees it, unless the asker has it still. */
static void end_relayed(struct origin_side *side, struct relay *relay)
{
    sending_release(side, &relay->sending);
    hash_map_remove(&relay->by_token);
    side->relays.count--;
    free_order(relay->order);
    relay->order = NULL;
    relay_unref(relay);
}

static struct news *take_spare(struct relay *relay)
{
    struct news *news = relay->order->spare;
    relay->order->spare = NULL;
    return news;
}

static void fail_relayed(struct origin_side *side, struct relay *relay, enum reason reason,
                         bool is_timeout, bool is_sent)
{
    struct news *news = take_spare(relay);
    *news = (struct news){
        .kind = NEWS_FAILURE, .reason = reason, .is_timeout = is_timeout, .is_sent = is_sent};
    tell_asker(relay, news);
    end_relayed(side, relay);
}

static void relayed_on_sent(struct origin_side *side, struct sending *sending)
{
    (void)side;
    (void)sending; /* the asker takes it for sent since it has passed it on */
}

/* What is no end of it: not where there is news that the asker has not read. */
static void tell_meanwhile(struct relay *relay, enum news_kind kind, uint32_t place)
{
    struct news *news =
        atomic_load(&relay->mailbox) == NULL ? calloc(1, sizeof(struct news)) : NULL;
    if (news != NULL) {
        news->kind = kind;
        news->place = place;
        tell_asker(relay, news);
    }
}

static void relayed_on_acknowledged(struct origin_side *side, struct sending *sending)
{
    (void)side;
    tell_meanwhile(relay_of(sending), NEWS_ACKNOWLEDGED, 0);
}

void relay_tell_wait(struct sending *sending)
{
    tell_meanwhile(relay_of(sending), NEWS_WAITS, sending->origin->queue.count);
}

static void relayed_on_response(struct origin_side *side, struct sending *sending,
                                const struct message *response, bool truncated)
{
    struct relay *relay = relay_of(sending);
    size_t len = response->options.len + response->payload.len;
    struct news *news = malloc(sizeof(*news) + len);
    if (news == NULL) {
        fail_relayed(side, relay, REASON_proxy_busy, false, true);
        return;
    }
    *news = (struct news){.kind = NEWS_ANSWER, .truncated = truncated, .message = *response};
    memcpy(news->bytes, response->options.data, response->options.len);
    if (response->payload.len > 0) {
        memcpy(news->bytes + response->options.len, response->payload.data, response->payload.len);
    }
    news->message.token = (struct bytes){0};
    news->message.options.data = news->bytes;
    news->message.payload.data = news->bytes + response->options.len;
    tell_asker(relay, news);
    if (sending->is_kept) {
        sending_keep(side, sending);
    } else {
        end_relayed(side, relay);
    }
}

static void relayed_on_failure(struct origin_side *side, struct sending *sending,
                               enum reason reason, const char *text)
{
    (void)text; /* carrier_device has none */
    fail_relayed(side, relay_of(sending), reason, false, sending->is_sent);
}

static void relayed_on_timeout(struct origin_side *side, struct sending *sending,
                               enum reason reason)
{
    fail_relayed(side, relay_of(sending), reason, true, sending->is_sent);
}

static void relayed_on_event(struct origin_side *side, struct sending *sending,
                             enum event_kind kind, uint32_t number)
{
    (void)side, (void)sending, (void)kind, (void)number; /* its trace is the asker's */
}

static const struct address *source_of_relayed(struct origin_side *side, struct sending *sending)
{
    (void)side;
    return &relay_of(sending)->source;
}

static void each_relayed(struct origin_side *side, void (*visit)(struct sending *sending))
{
    struct hash_node *node;
    uint64_t cursor = 0;
    while (side->relays.by_token.buckets != NULL &&
           (node = hash_map_walk(&side->relays.by_token, &cursor)) != NULL) {
        struct sending *sending = &HASH_ENTRY(node, struct relay, by_token)->sending;
        if (sending->origin != NULL) {
            visit(sending);
        }
    }
}

static bool pass_relayed_on(struct origin_side *side, struct sending *sending)
{
    (void)side, (void)sending;
    return false; /* only the asker knows of others */
}

static bool may_relayed_wait(struct origin_side *side, struct sending *sending)
{
    (void)side, (void)sending;
    return true; /* the asker takes it back where it has an answer */
}

static uint64_t exchange_of_relayed(struct origin_side *side, struct sending *sending)
{
    (void)side;
    return relay_of(sending)->exchange;
}

static struct fault *fault_of_relayed(struct origin_side *side, struct sending *sending)
{
    (void)side, (void)sending;
    return NULL; /* the asker has drawn it */
}

/* The others are of groups and of HTTP. */
const struct sending_calls relay_calls = {
    .on_sent = relayed_on_sent,
    .on_acknowledged = relayed_on_acknowledged,
    .on_response = relayed_on_response,
    .on_failure = relayed_on_failure,
    .on_timeout = relayed_on_timeout,
    .on_event = relayed_on_event,
    .source_of = source_of_relayed,
    .each = each_relayed,
    .pass_on = pass_relayed_on,
    .may_wait = may_relayed_wait,
    .exchange_of = exchange_of_relayed,
    .find_fault = fault_of_relayed,
};

/* --- the worker with the session: sending -------------------------------------------- */

static uint64_t token_number(const uint8_t token[TOKEN_LEN])
{
    uint64_t number;
    memcpy(&number, token, TOKEN_LEN);
    return number;
}

struct sending *relay_by_token(const struct origin_side *side, struct bytes token)
{
    const struct hash_map *map = &side->relays.by_token;
    if (token.len != TOKEN_LEN || (token.data[0] & TOKEN_BIT) == 0 || map->buckets == NULL) {
        return NULL;
    }
    struct hash_node *node = hash_map_find(map, token_number(token.data));
    return node != NULL ? &HASH_ENTRY(node, struct relay, by_token)->sending : NULL;
}

/* Random, and no other has it; kept for as long as the device may know it. */
static void begin_relayed(struct origin_side *side, struct relay *relay)
{
    uint8_t token[TOKEN_LEN];
    do {
        uint64_t random = entropy_u64(&side->context.entropy);
        memcpy(token, &random, TOKEN_LEN);
        token[0] |= (uint8_t)TOKEN_BIT;
    } while (relay_by_token(side, (struct bytes){token, TOKEN_LEN}) != NULL);
    hash_map_add(&side->relays.by_token, &relay->by_token, token_number(token));
    side->relays.count++;
    hash_map_expect(&side->origins.requests, side->relays.count);
    atomic_fetch_add(&relay->references, 1);
}

/* The message of @p order takes the place of the one before it; its token is this worker's. */
static void take_relay_order(struct origin_side *side, struct relay *relay, struct order *order)
{
    struct sending *sending = &relay->sending;
    if (relay->order == NULL) {
        begin_relayed(side, relay);
    } else {
        sending_take_back(side, sending);
        free_order(relay->order);
    }
    relay->order = order;
    memcpy(order->datagram + MESSAGE_HEADER_LEN, &relay->by_token.key, TOKEN_LEN);
    sending->datagram = order->datagram;
    sending->datagram_len = order->len;
    sending->is_confirmable = order->is_confirmable;
    sending->is_kept = order->is_kept;
    sending->is_for_http = order->is_for_http;
    sending->is_device = true;
    sending->is_relayed = true;
    sending->has_malformed = false;
    sending->deadline_ms = order->deadline_ms;
    sending->queued.turn = &side->relays.turns[relay->turn];
}

/* @return REASON_none, or why it cannot even wait */
static enum reason start_relayed(struct origin_side *side, struct relay *relay)
{
    struct sending *sending = &relay->sending;
    const struct line_holding now = holder_read(relay->holder);
    const struct bytes name = {(const uint8_t *)relay->holder->name, relay->holder->name_len};
    const struct config *config = side->context.config;
    struct address address;
    if (now.line != relay->line) {
        return REASON_device_gone;
    }
    sending->scheme = config_scheme_by_number(config, transport_row(now.transport)->number);
    if (sending->scheme == NULL || !device_address(side, name, &address)) {
        return REASON_proxy_busy;
    }
    enum reason reason =
        sending->origin == NULL ? sending_choose(side, sending, &address) : REASON_none;
    return reason != REASON_none ? reason : sending_start(side, sending);
}

static void on_order(void *context)
{
    struct order *order = context;
    struct relay *relay = order->relay;
    struct origin_side *side = worker_at(relay, relay->worker)->side;
    take_relay_order(side, relay, order);
    enum reason reason = start_relayed(side, relay);
    if (reason != REASON_none) {
        fail_relayed(side, relay, reason, false, false);
    }
    relay_unref(relay);
}

static void on_end(void *context)
{
    struct relay *relay = context;
    struct origin_side *side = worker_at(relay, relay->worker)->side;
    if (relay->order != NULL) {
        const struct sending *sending = &relay->sending;
        if (sending->stage == SENDING_OUT &&
            context_now_ms(&side->context) >= sending->deadline_ms) {
            device_note_silence(side, sending, sending->sent_ms); /* the asker's timer was first */
        }
        end_relayed(side, relay);
    }
    relay_unref(relay);
}

/* --- the worker of the client ---------------------------------------------------------- */

/* The sending has nothing elsewhere any more; the reference is the caller's. */
static struct relay *detach(struct sending *sending)
{
    struct relay *relay = sending->relay;
    list_remove(&relay->device->relays, &sending->on_device);
    sending->relay = NULL;
    relay->asked = NULL;
    return relay;
}

void relay_cancel(struct origin_side *side, struct sending *sending)
{
    (void)side;
    if (sending->relay == NULL) {
        return;
    }
    struct relay *relay = detach(sending);
    relay->end_task = (struct loop_task){.run = on_end, .drop = drop_relay_task, .context = relay};
    if (relay->is_done ||
        loop_post_task(worker_at(relay, relay->worker)->loop, &relay->end_task) != 0) {
        relay_unref(relay);
    }
}

void relay_abandon(struct sending *sending)
{
    relay_unref(detach(sending));
}

/* Of the answers awaited: those that the device still owes. */
static void take_failure(struct origin_side *side, struct sending *sending, const struct news *news)
{
    sending->is_sent = news->is_sent;
    relay_unref(detach(sending));
    if (news->is_timeout) {
        sending->has_malformed = news->reason == REASON_origin_invalid;
        sending_timed_out(side, sending);
    } else {
        sending_failed(side, sending, news->reason, NULL);
    }
}

/* It waits there for a device that is silent, as devices.wait says, and so it does here. */
static void wait_there(struct origin_side *side, struct sending *sending, uint32_t place)
{
    if (!sending_may_wait(side, sending)) {
        sending_failed(side, sending, REASON_device_gone, NULL);
        return;
    }
    sending->deadline_ms = context_now_ms(&side->context) + side->context.config->devices_wait +
                           context_patience_ms(&side->context, sending->is_for_http);
    sending_event(side, sending, EVENT_away, place);
    sending_await_end(side, sending);
}

static void take_news(struct origin_side *side, struct sending *sending, struct news *news)
{
    struct relay *relay = sending->relay;
    bool is_of_last_order = news->order == relay->last_order;
    switch (news->kind) {
    case NEWS_ACKNOWLEDGED:
        if (is_of_last_order && sending->stage == SENDING_OUT) {
            sending_acknowledged(side, sending);
        }
        break;
    case NEWS_WAITS:
        if (is_of_last_order && sending->stage == SENDING_OUT) {
            wait_there(side, sending, news->place);
        }
        break;
    case NEWS_ANSWER:
        relay->is_done = !sending->is_kept;
        sending_answered(side, sending, &news->message, news->truncated);
        break;
    case NEWS_FAILURE:
        if (is_of_last_order) {
            take_failure(side, sending, news);
        }
        break;
    }
}

static void on_news(void *context)
{
    struct relay *relay = context;
    struct origin_side *side = worker_at(relay, relay->asker)->side;
    struct news *news = atomic_exchange(&relay->mailbox, NULL);
    if (news != NULL && relay->asked != NULL) {
        take_news(side, relay->asked, news);
    }
    free(news);
    relay_unref(relay);
}

static struct relay *new_relay(struct origin_side *side, struct sending *sending,
                               struct device *device, const struct line_holding *holding)
{
    struct switchboard_worker *own = &side->switchboard->each[side->context.worker_index];
    uint32_t most = PASSED_ON_FACTOR * side->context.config->limits_exchanges;
    struct relay *relay = atomic_load(&own->passed_on) < most ? calloc(1, sizeof(*relay)) : NULL;
    if (relay == NULL) {
        return NULL;
    }
    atomic_fetch_add(&own->passed_on, 1);
    atomic_init(&relay->references, 1);
    relay->holder = holder_hold(device->holder);
    relay->asker = side->context.worker_index;
    relay->worker = holding->worker;
    relay->line = holding->line;
    relay->exchange = side->origins.calls->exchange_of(side, sending);
    relay->source = *sending_source(side, sending);
    relay->turn = (uint32_t)(hash_mix((uintptr_t)sending->queued.turn, relay->asker) % RELAY_TURNS);
    relay->device = device;
    relay->asked = sending;
    sending->relay = relay;
    list_add(&device->relays, &sending->on_device);
    return relay;
}

static struct order *new_order(const struct sending *sending, struct relay *relay)
{
    struct order *order = malloc(sizeof(*order) + sending->datagram_len);
    struct news *spare = malloc(sizeof(*spare));
    if (order == NULL || spare == NULL) {
        free(order);
        free(spare);
        return NULL;
    }
    *order = (struct order){.relay = relay,
                            .number = ++relay->last_order,
                            .deadline_ms = sending->deadline_ms,
                            .is_confirmable = sending->is_confirmable,
                            .is_kept = sending->is_kept,
                            .is_for_http = sending->is_for_http,
                            .spare = spare,
                            .len = sending->datagram_len};
    order->task = (struct loop_task){.run = on_order, .drop = drop_order_task, .context = order};
    memcpy(order->datagram, sending->datagram, sending->datagram_len);
    return order;
}

enum reason relay_send(struct origin_side *side, struct sending *sending, struct device *device,
                       const struct line_holding *holding)
{
    struct relay *relay = sending->relay;
    assert((sending->datagram[0] & 0x0fu) == TOKEN_LEN);
    if (relay != NULL && relay->line != holding->line) {
        relay_cancel(side, sending);
        relay = NULL;
    }
    relay = relay != NULL ? relay : new_relay(side, sending, device, holding);
    struct order *order = relay != NULL ? new_order(sending, relay) : NULL;
    if (order == NULL) {
        relay_cancel(side, sending);
        return REASON_proxy_busy;
    }
    atomic_fetch_add(&relay->references, 1);
    if (loop_post_task(worker_at(relay, relay->worker)->loop, &order->task) != 0) {
        drop_order_task(order);
        relay_cancel(side, sending);
        return REASON_device_gone;
    }
    metric_add(&side->context.metrics.devices_passed, 1);
    return REASON_none;
}

/* --- the table --------------------------------------------------------------------------- */

int relay_table_init(struct relay_table *table, uint64_t seed)
{
    struct relay_table made = {.turns = calloc(RELAY_TURNS, sizeof(struct queue_turn))};
    if (made.turns == NULL || hash_map_init(&made.by_token, RELAY_TURNS, seed) != 0) {
        free(made.turns);
        return -ENOMEM;
    }
    *table = made;
    return 0;
}

void relay_table_clear(struct relay_table *table)
{
    struct hash_node *node;
    uint64_t cursor = 0;
    while (table->by_token.buckets != NULL &&
           (node = hash_map_walk(&table->by_token, &cursor)) != NULL) {
        struct relay *relay = HASH_ENTRY(node, struct relay, by_token);
        hash_map_remove(node);
        relay_unref(relay);
        cursor = 0;
    }
    hash_map_clear(&table->by_token);
    free(table->turns);
    *table = (struct relay_table){0};
}

void relay_set_config(struct origin_side *side)
{
    struct hash_node *node;
    uint64_t cursor = 0;
    while (side->relays.by_token.buckets != NULL &&
           (node = hash_map_walk(&side->relays.by_token, &cursor)) != NULL) {
        struct sending *sending = &HASH_ENTRY(node, struct relay, by_token)->sending;
        const struct scheme *scheme =
            sending->scheme == NULL
                ? NULL
                : config_scheme_by_number(side->context.config, sending->scheme->number);
        sending->scheme = scheme != NULL ? scheme : side->context.coap;
    }
}
