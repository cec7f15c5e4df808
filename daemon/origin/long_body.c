/* SPDX-License-Identifier: BSD-2-Clause */
#include "origin/long_body.h"

#include "coap/http_request.h"
#include "coap/option.h"
#include "conf/config.h"
#include "net/web.h"
#include "origin/carrier.h"
#include "origin/side.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static struct long_body *long_body_of_node(struct list_node *node)
{
    return HASH_ENTRY(node, struct long_body, node);
}

int long_bodies_init(struct long_bodies *bodies, uint32_t max, uint64_t seed)
{
    uint32_t capacity = max > 0 ? max : 1;
    *bodies = (struct long_bodies){.waiting_max = max};
    bool good = hash_map_init(&bodies->map, capacity, seed) == 0 &&
                account_book_init(&bodies->book, capacity, capacity, ACCOUNT_IPV6_BITS, seed) == 0;
    return good ? 0 : -ENOMEM;
}

void long_bodies_clear(struct long_bodies *bodies)
{
    while (bodies->all.first != NULL) {
        long_body_free(bodies, long_body_of_node(bodies->all.first));
    }
    hash_map_clear(&bodies->map);
    account_book_clear(&bodies->book);
}

uint64_t long_body_part_bytes(const struct config *config)
{
    uint64_t bytes = config->http_window / 2;
    bool has_parts = config->http_long_bodies > 0 && bytes <= config->block_body_bytes;
    return has_parts ? bytes - bytes % WEB_PART_UNIT : 0;
}

/* --- whose, and of what --------------------------------------------------------------- */

/* Fields that may differ between requests for parts of one body. */
static bool is_of_one_request(const char *field)
{
    static const char *const names[] = {"If-Match:", "If-None-Match:", "Max-Forwards:", "Via:"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strncasecmp(field, names[i], strlen(names[i])) == 0) {
            return true;
        }
    }
    return false;
}

static uint64_t add_to_key(uint64_t key, const char *text)
{
    return hash_bytes((const uint8_t *)text, strlen(text), key);
}

/* Of the request, whatever it is sent to. */
static uint64_t key_of_http_request(uint64_t key, const struct http_request *request,
                                    const struct carrier_way *way)
{
    key = add_to_key(hash_mix(key, way->client), request->method);
    key = add_to_key(key, request->url);
    for (size_t i = 0; i < request->field_count; i++) {
        key = is_of_one_request(request->fields[i]) ? key : add_to_key(key, request->fields[i]);
    }
    for (size_t i = 0; i < way->line_count; i++) {
        key = add_to_key(key, way->lines[i]);
    }
    return hash_mix(key, way->shows_certificate ? 2 : 1);
}

uint64_t long_body_key(const struct origin_side *side, const struct sending *sending,
                       const struct http_request *request, const struct carrier_way *way)
{
    char place[ADDRESS_TEXT_MAX];
    uint64_t key =
        add_to_key(side->changes->seed, address_format(&sending->origin->address, place));
    return key_of_http_request(key, request, way);
}

uint64_t long_body_upload_key(const struct origin_side *side, const struct message *message,
                              const struct http_request *request, const struct carrier_way *way)
{
    uint64_t key = side->changes->seed;
    struct option_iter iter;
    struct option option;
    option_iter_init(&iter, message->options);
    while (option_iter_next(&iter, &option)) {
        if (option.number == OPTION_request_tag) {
            key = hash_bytes(option.value.data, option.value.len, key);
        }
    }
    return key_of_http_request(key, request, way);
}

/* --- waiting for the client ---------------------------------------------------------------- */

struct long_body *long_body_new(struct long_bodies *bodies, uint64_t key,
                                const struct address *source)
{
    struct long_body *body = calloc(1, sizeof(*body));
    if (body != NULL) {
        body->key = key;
        body->source = *source;
        list_add(&bodies->all, &body->node);
    }
    return body;
}

static bool is_waiting(const struct long_body *body)
{
    return body->web != NULL;
}

static void stop_waiting(struct origin_side *side, struct long_body *body)
{
    struct long_bodies *bodies = &side->long_bodies;
    timer_cancel(&side->context.wheel, &body->timer);
    account_discharge(&bodies->book, &body->holding);
    hash_map_remove(&body->by_key);
    body->web = NULL;
    bodies->waiting--;
    metric_set(&side->context.metrics.upstream_web_waiting, bodies->waiting);
}

void long_body_free(struct long_bodies *bodies, struct long_body *body)
{
    if (body == NULL) {
        return;
    }
    if (is_waiting(body)) { /* the engine ends, and with it the wheel */
        account_discharge(&bodies->book, &body->holding);
        hash_map_remove(&body->by_key);
    }
    list_remove(&bodies->all, &body->node);
    free(body);
}

static void give_up_body(struct origin_side *side, struct long_body *body)
{
    struct web_request *web = body->web;
    stop_waiting(side, body);
    metric_add(&side->context.metrics.upstream_web_given_up, 1);
    web_cancel(side->web, web);
    long_body_free(&side->long_bodies, body);
}

static void on_not_asked_on(void *context, struct timer *timer, uint64_t now_ms)
{
    (void)now_ms;
    give_up_body(context, HASH_ENTRY(timer, struct long_body, timer));
}

/* The oldest of the source that has most; of the newcomer's own, if no source has more. */
static void make_room_for_waiting(struct origin_side *side, const struct long_body *newcomer)
{
    struct long_bodies *bodies = &side->long_bodies;
    bool is_owed;
    while (bodies->waiting >= bodies->waiting_max) {
        struct holding *holding = account_yield(&bodies->book, &newcomer->source, 1, &is_owed);
        if (holding == NULL) {
            return;
        }
        account_note_displaced(holding);
        give_up_body(side, HASH_ENTRY(holding, struct long_body, holding));
    }
}

void long_body_wait(struct origin_side *side, struct long_body *body, struct web_request *web,
                    uint64_t next)
{
    struct long_bodies *bodies = &side->long_bodies;
    make_room_for_waiting(side, body);
    body->web = web;
    body->next = next;
    bodies->waiting++;
    metric_set(&side->context.metrics.upstream_web_waiting, bodies->waiting);
    account_charge(&bodies->book, &body->holding, &body->source, 1);
    hash_map_add(&bodies->map, &body->by_key, body->key);
    timer_set(&side->context.wheel, &body->timer,
              context_now_ms(&side->context) + side->context.config->block_keep_time,
              on_not_asked_on);
}

struct long_body *long_body_take(struct origin_side *side, uint64_t key, uint64_t offset,
                                 struct web_request **ret_web)
{
    if (side->long_bodies.waiting == 0) {
        return NULL;
    }
    struct hash_node *node = hash_map_find(&side->long_bodies.map, key);
    for (; node != NULL; node = hash_map_find_next(node)) {
        struct long_body *body = HASH_ENTRY(node, struct long_body, by_key);
        if (body->next == offset) {
            *ret_web = body->web;
            stop_waiting(side, body);
            return body;
        }
    }
    return NULL;
}

void long_body_give_up(struct origin_side *side, uint64_t key)
{
    struct hash_node *node = NULL;
    while (side->long_bodies.waiting > 0 &&
           (node = hash_map_find(&side->long_bodies.map, key)) != NULL) {
        give_up_body(side, HASH_ENTRY(node, struct long_body, by_key));
    }
}
