/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The client's request is gone by the time the answer comes. Our own is there still, and
 * has everything: all of its options go along again but those that name the target.
 */
#include "origin/rename.h"

#include "coap/option.h"
#include "ops/log.h"
#include "ops/trace.h"
#include "origin/encode.h"
#include "origin/forward.h"
#include "origin/via_session.h"
#include "state.h"

#include <string.h>

/* Somebody may replace the parent by one that knows CRIs. */
#define REMEMBERED_MS 600000u

enum config_route_form rename_form(const struct engine *engine, const struct next_hop *hop,
                                   enum config_route_form form)
{
    const struct parent_memory *memory = &engine->parents;
    bool is_known = memory->epoch == engine->policy_epoch &&
                    engine_now_ms(engine) < memory->knows_uris_only_until_ms[hop->route_index];
    if (is_known && form == ROUTE_FORM_PROXY_CRI) {
        return ROUTE_FORM_PROXY_URI;
    }
    return is_known && form == ROUTE_FORM_PROXY_SCHEME_NUMBER ? ROUTE_FORM_PROXY_SCHEME : form;
}

/* The other form has helped. An exchange from before a reload says nothing: its index is old. */
static void learn(struct engine *engine, const struct exchange *exchange)
{
    struct parent_memory *memory = &engine->parents;
    if (exchange->route_epoch != engine->policy_epoch) {
        return;
    }
    if (memory->epoch != engine->policy_epoch) {
        *memory = (struct parent_memory){.epoch = engine->policy_epoch};
    }
    uint64_t now_ms = engine_now_ms(engine);
    uint64_t *until_ms = &memory->knows_uris_only_until_ms[exchange->hop.route_index];
    if (now_ms >= *until_ms) {
        log_event(LOG_WARNING, "parent_knows_no_cris", "route=%.*s", (int)exchange->hop.route.len,
                  (const char *)exchange->hop.route.data);
    }
    *until_ms = now_ms + REMEMBERED_MS;
}

/* The form of RFC 7252 that stands for the one that was used; false where that was one. */
static bool find_form(const struct message *sent, enum config_route_form *ret_form)
{
    if (message_has_option(sent, OPTION_proxy_cri)) {
        *ret_form = ROUTE_FORM_PROXY_URI;
        return true;
    }
    *ret_form = ROUTE_FORM_PROXY_SCHEME;
    return message_has_option(sent, OPTION_proxy_scheme_number);
}

/* The request in the other form, in place of the one that was sent; false where it does not fit. */
static bool rename_request(struct engine *engine, struct exchange *exchange)
{
    struct message sent;
    struct naming naming;
    struct naming_room room;
    enum config_route_form form;
    if (message_decode(exchange->datagram, exchange->datagram_len, &sent) != MESSAGE_OK ||
        !find_form(&sent, &form) ||
        naming_for_parent(&exchange->target, form, &exchange->hop, &room, &naming) != REASON_none) {
        return false;
    }
    /* A new token: whatever else the old request may still bring is not an answer to this. */
    uint8_t old_token[EXCHANGE_TOKEN_LEN];
    memcpy(old_token, exchange->token, sizeof(old_token));
    exchange_set_token(exchange, entropy_u64(&engine->entropy));
    size_t at = (size_t)(exchange->datagram - exchange->memory);
    size_t capacity = exchange->memory_capacity - at;
    if (capacity > engine->config->limits_datagram_bytes) {
        capacity = (size_t)engine->config->limits_datagram_bytes;
    }
    size_t len = encode_renamed(&exchange->target, &naming, &sent,
                                (struct bytes){exchange->token, EXCHANGE_TOKEN_LEN},
                                engine->scratch, capacity);
    if (len == 0) {
        memcpy(exchange->token, old_token, sizeof(old_token));
        return false;
    }
    via_session_cancel(engine, exchange); /* a session may still look at what was sent */
    memcpy(exchange->datagram, engine->scratch, len);
    exchange->datagram_len = (uint32_t)len;
    exchange->memory_used = (uint32_t)(at + len);
    return true;
}

bool rename_and_ask_again(struct engine *engine, struct exchange *exchange, uint8_t code)
{
    if (exchange->is_renamed && code != CODE(4, 2)) {
        learn(engine, exchange);
    }
    bool may_help = exchange->hop.is_parent && code == CODE(4, 2) && !exchange->is_renamed;
    if (!may_help || !rename_request(engine, exchange)) {
        return false;
    }
    exchange->is_renamed = true;
    metric_add(&engine->metrics.upstream_renamed, 1);
    trace_event(engine, exchange, EVENT_renamed, 0);
    forward_renamed(engine, exchange);
    return true;
}
