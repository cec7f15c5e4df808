/* SPDX-License-Identifier: BSD-2-Clause */
/* What a scenario leaves in the proxy: ended where it may stay, else named in words. */
#include "engine_stage.h"

#include "coap/method.h"

#include <stdio.h>
#include <string.h>

#define DRAIN_S 200u     /* more than any exchange takes */
#define NAMED_MAX 5u     /* of a table */
#define TARGET_SHOWN 200 /* bytes of a target */

/* --- what may stay ---------------------------------------------------------- */

static bool is_address(const char *text, const struct address *address)
{
    struct address parsed;
    return address_parse(text, strlen(text), 0, &parsed) && address_equal(&parsed, address);
}

/* Of a datagram to an address where no actor is, or was; NULL: there is none. */
static const char *find_stray(struct engine_stage *engine)
{
    struct fake_datagram stray;
    fake_net_run(0);
    while (fake_net_take(&stray)) {
        const struct endpoint *endpoint = engine->endpoints;
        while (endpoint != NULL &&
               !(endpoint->has_left && is_address(endpoint->address, &stray.to))) {
            endpoint = endpoint->next;
        }
        if (endpoint == NULL) {
            char text[ADDRESS_TEXT_MAX];
            return pool_format(&engine->pool, "a datagram of %zu bytes to %s, where nothing is",
                               stray.len, address_format(&stray.to, text));
        }
    }
    return NULL;
}

/* Clients acknowledge, servers answer 2.05 without Observe: whatever comes. */
static void answer_all(struct engine_stage *engine)
{
    struct fake_datagram datagram;
    for (struct endpoint *endpoint = engine->endpoints; endpoint != NULL;
         endpoint = endpoint->next) {
        while (endpoint->peer != NULL && fake_peer_take(endpoint->peer, &datagram)) {
            bool is_con = datagram.len >= 4 && (datagram.data[0] >> 4 & 3) == 0;
            bool is_request = is_con && datagram.data[1] != 0 && datagram.data[1] < 32;
            if (is_con) {
                fake_peer_reply(endpoint->peer, &datagram,
                                is_request ? "6T 45 MID TOKEN" : "60 00 MID");
            }
        }
    }
}

/* What is still observed is not left: the proxy ends it, as it does when it stops. */
static void end_observations(struct engine_stage *engine)
{
    uint64_t count = 0;
    for (unsigned i = 1; i <= engine->workers; i++) {
        count += metric_get(&engine_metrics(replay_worker(&engine->replay, i))->observations);
    }
    if (count == 0) {
        return;
    }
    for (unsigned i = 1; i <= engine->workers; i++) {
        engine_drain(replay_worker(&engine->replay, i));
    }
    for (unsigned i = 0; i < DRAIN_S; i++) {
        answer_all(engine);
        fake_net_run(1000);
    }
}

/* Those that devices have over UDP, which would hold for hours. */
static void end_registrations(struct engine *engine)
{
    struct origin_side *side = &engine->origin;
    struct hash_node *node;
    uint64_t cursor = 0;
    while ((node = hash_map_walk(&side->devices.by_number, &cursor)) != NULL) {
        struct device *device = HASH_ENTRY(node, struct device, by_number);
        if (device->line.transport == TRANSPORT_UDP) {
            device_end(side, device, "the scenario is over");
        }
    }
}

/* --- what may not ----------------------------------------------------------- */

/* What is named so far. */
struct left {
    struct engine_stage *engine;
    const char *text;
    uint32_t count; /* of the table that is looked at */
};

/* One more: "1 request (...)", the next one of its table "; (...)". */
static void name_one(struct left *left, const char *words)
{
    if (left->count++ < NAMED_MAX) {
        left->text = pool_format(&left->engine->pool, "%s%s%s", left->text,
                                 left->count > 1 ? "; " : "", words);
    }
}

/* The end of a table; @p before is what was named when it began. */
static void name_table(struct left *left, const char *before, const char *noun)
{
    struct pool *pool = &left->engine->pool;
    if (left->count > 0) {
        const char *more = left->count > NAMED_MAX
                               ? pool_format(pool, "; and %u more", left->count - NAMED_MAX)
                               : "";
        left->text =
            pool_format(pool, "%s%s%u %s%s %s%s", before, before[0] != '\0' ? ", and " : "",
                        left->count, noun, left->count > 1 ? "s" : "", left->text, more);
    } else {
        left->text = before;
    }
    left->count = 0;
}

/* The name of the actor with that address, or the address. */
static const char *who_is_at(struct engine_stage *engine, const struct address *address)
{
    char text[ADDRESS_TEXT_MAX];
    for (const struct endpoint *endpoint = engine->endpoints; endpoint != NULL;
         endpoint = endpoint->next) {
        if (endpoint->address[0] != '\0' && is_address(endpoint->address, address)) {
            return endpoint->name;
        }
    }
    return pool_format(&engine->pool, "%s", address_format(address, text));
}

/* "GET coap://h/x" */
static const char *show_question(struct engine_stage *engine, const struct fetch *fetch)
{
    char target[TARGET_SHOWN];
    const struct sending *sending = &fetch->sending;
    bool has_code = sending->datagram != NULL && sending->datagram_len >= MESSAGE_HEADER_LEN;
    return pool_format(&engine->pool, "%s%s%s", has_code ? method_name(sending->datagram[1]) : "",
                       has_code ? " " : "", target_format(&fetch->target, target, sizeof(target)));
}

/* What it waits for: the server, or what fetch.def says of its state. */
static const char *show_wait(struct engine_stage *engine, const struct fetch *fetch)
{
    static const char *const waits[] = {
#define STATE(name, help) [FETCH_##name] = (help),
#include "fetch/fetch.def"
#undef STATE
    };
    bool is_out = fetch->state == FETCH_sent || fetch->state == FETCH_acknowledged;
    return is_out && fetch->sending.origin != NULL
               ? who_is_at(engine, &fetch->sending.origin->address)
               : waits[fetch->state];
}

/* "a, mid=7" or, on a connection, "t, token=7401" */
static const char *show_leg(struct engine_stage *engine, const struct leg *leg)
{
    const char *name = who_is_at(engine, &leg->asker.path.remote);
    return leg->kind == LEG_DATAGRAM
               ? pool_format(&engine->pool, "%s, mid=%u", name, leg->mid)
               : pool_format(&engine->pool, "%s, token=%s", name,
                             spec_show_bytes(&engine->pool,
                                             (struct wire_bytes){leg->token.data, leg->token.len}));
}

static void name_requests(struct left *left, const struct request_table *table)
{
    struct engine_stage *engine = left->engine;
    const char *before = left->text;
    left->text = "";
    for (uint32_t i = 0; i < table->free.used; i++) {
        const struct request *request = &table->slots[i];
        if (request->is_used && !request->is_delivering) {
            const struct fetch *fetch = request->fetch;
            name_one(left,
                     pool_format(&engine->pool, "(%s%s%s), waits for %s",
                                 show_leg(engine, &request->leg), fetch != NULL ? ", " : "",
                                 fetch != NULL ? show_question(engine, fetch) : "",
                                 fetch != NULL ? show_wait(engine, fetch) : "an observation"));
        }
    }
    name_table(left, before, "request");
    before = left->text;
    left->text = "";
    for (uint32_t i = 0; i < table->free.used; i++) {
        const struct request *request = &table->slots[i];
        if (request->is_used && request->is_delivering) {
            const uint8_t *datagram = request->datagram;
            unsigned mid = datagram != NULL ? (unsigned)datagram[2] << 8 | datagram[3] : 0;
            name_one(left, pool_format(&engine->pool,
                                       "(CON mid=%u, to the request of %s), not acknowledged", mid,
                                       show_leg(engine, &request->leg)));
        }
    }
    name_table(left, before, "answer");
}

/* Those that no request waits for. */
static void name_fetches(struct left *left, const struct fetch_table *table)
{
    struct engine_stage *engine = left->engine;
    const char *before = left->text;
    left->text = "";
    for (uint32_t i = 0; i < table->free.used; i++) {
        const struct fetch *fetch = &table->slots[i];
        if (fetch->state != FETCH_free && request_of_fetch(fetch) == NULL) {
            name_one(left, pool_format(&engine->pool, "(%s), waits for %s",
                                       show_question(engine, fetch), show_wait(engine, fetch)));
        }
    }
    name_table(left, before, "request of the proxy's own");
}

static void name_questions(struct left *left, const struct name_table *table)
{
    const char *before = left->text;
    left->text = "";
    for (uint32_t i = 0; i < table->used; i++) {
        const struct name *name = &table->slots[i];
        if (name->question != NULL) {
            name_one(left, pool_format(&left->engine->pool, "(%.*s), not answered",
                                       (int)name->text_len, (const char *)name->text));
        }
    }
    name_table(left, before, "question to the resolver");
}

static void name_observers(struct left *left, const struct client_side *side)
{
    const char *before = left->text;
    left->text = "";
    for (uint32_t i = 0; i < side->observers.used; i++) {
        const struct observer *observer = &side->observers.slots[i];
        if (observer->is_used) {
            name_one(left,
                     pool_format(&left->engine->pool, "(%s)%s",
                                 show_leg(left->engine, &observer->leg),
                                 observer->is_out ? ", a notification not acknowledged" : ""));
        }
    }
    name_table(left, before, "observer");
}

const char *engine_stage_left(struct engine_stage *engine)
{
    if (!engine->is_started) {
        return NULL;
    }
    const char *stray = find_stray(engine);
    if (stray != NULL) {
        return stray;
    }
    end_observations(engine);
    for (unsigned i = 1; i <= engine->workers; i++) {
        end_registrations(replay_worker(&engine->replay, i));
    }
    fake_net_run(1);
    struct left left = {.engine = engine, .text = ""};
    for (unsigned i = 1; i <= engine->workers; i++) {
        const struct engine *worker = replay_worker(&engine->replay, i);
        name_requests(&left, &worker->client.requests);
        name_fetches(&left, &worker->fetch.fetches);
        name_questions(&left, &worker->origin.names);
        name_observers(&left, &worker->client);
        uint64_t next_ms = timer_wheel_next_ms(&worker->context.wheel);
        if (left.text[0] == '\0' && next_ms != UINT64_MAX) {
            left.text = pool_format(&engine->pool, "a timer, over in %llu ms",
                                    (unsigned long long)(next_ms - fake_net_now_ms()));
        }
    }
    return left.text[0] != '\0' ? left.text : NULL;
}
