/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/http_exchange.h"

#include "client/leg.h"
#include "coap/block.h"
#include "coap/option.h"
#include "conf/config.h"

#include <cri/cri.h>
#include <cri/uri.h>
#include <stdlib.h>

/* The target as a URI, which a Location is relative to; "/" of our own paths; "" where it has none.
 */
static size_t target_text(const struct http_ask *ask, char text[HTTP_URI_MAX])
{
    const struct cri_slice encoded = {(const uint8_t *)ask->uri.text, ask->uri.len};
    struct cri cri;
    size_t len = 0;
    if (ask->uri.kind == HTTP_URI_OWN) {
        text[0] = '/';
        return 1;
    }
    if (ask->uri.kind == HTTP_URI_TARGET) {
        memcpy(text, ask->uri.text, ask->uri.len);
        return ask->uri.len;
    }
    bool has_uri =
        ask->uri.kind == HTTP_URI_CRI && cri_decode(encoded, NULL, &cri, NULL) == CRI_OK &&
        cri_uri_format(&cri, &ask->config->scheme_table, text, HTTP_URI_MAX, &len, NULL) == CRI_OK;
    return has_uri ? len : 0;
}

struct http_exchange *http_exchange_new(const struct http_ask *ask)
{
    uint8_t buffer[HTTP_OPTIONS_MAX];
    struct bytes options = http_ask_options(ask, http_ask_has_body(ask), buffer);
    char target[HTTP_URI_MAX];
    size_t target_len = target_text(ask, target), origin_len = strlen(ask->origin);
    if (options.len == 0) {
        return NULL;
    }
    struct http_exchange *exchange =
        malloc(sizeof(*exchange) + options.len + target_len + origin_len + 2);
    if (exchange == NULL) {
        return NULL;
    }
    *exchange = (struct http_exchange){
        .code = ask->code,
        .is_head = ask->is_head,
        .is_1_0 = ask->line.is_1_0,
        .wants_events = ask->wants_events && ask->uri.kind != HTTP_URI_CORE,
        .keeps_alive = ask->line.keeps_alive,
        .is_absolute = ask->uri.is_absolute,
        .cache_wish =
            (uint8_t)((ask->no_cache ? LEG_NO_CACHE : 0) | (ask->no_store ? LEG_NO_STORE : 0) |
                      (ask->only_if_cached ? LEG_ONLY_IF_CACHED : 0)),
        .options_len = options.len,
    };
    memcpy(exchange->options, options.data, options.len);
    exchange->target = (char *)exchange->options + options.len;
    memcpy(exchange->target, target, target_len);
    exchange->target[target_len] = '\0';
    exchange->origin = exchange->target + target_len + 1;
    memcpy(exchange->origin, ask->origin, origin_len + 1);
    return exchange;
}

/* Nothing of a first request that the one for a later block, or to a group, does not have. */
static bool is_kept_for_block(uint16_t number)
{
    return number != OPTION_observe && number != OPTION_etag && number != OPTION_block2;
}

struct bytes http_exchange_options(const struct http_exchange *exchange, const struct block *block,
                                   uint8_t buffer[HTTP_OPTIONS_MAX])
{
    struct message_writer writer = {.buffer = buffer, .capacity = HTTP_OPTIONS_MAX};
    struct bytes options = {exchange->options, exchange->options_len};
    if (block == NULL && exchange->group_s == 0) {
        return options;
    }
    /* Both are less than 2^24: blocks by their format, seconds by multicast.timeout-max. */
    uint32_t value = block != NULL ? block_value(block) : exchange->group_s;
    const uint8_t number[] = {(uint8_t)(value >> 16), (uint8_t)(value >> 8), (uint8_t)value};
    size_t skip = value > 0xffffu ? 0 : value > 0xffu ? 1 : value > 0 ? 2 : 3;
    const struct option own = {block != NULL ? OPTION_block2 : OPTION_multicast_timeout,
                               {number + skip, sizeof(number) - skip}};
    message_writer_options(&writer, options, is_kept_for_block, &own);
    return (struct bytes){buffer, writer.overflow ? 0 : writer.len};
}

bool http_reply_block2(const struct reply *reply, struct block *ret_block)
{
    struct bytes value;
    if (reply->has_block2) {
        const uint8_t number[] = {(uint8_t)(reply->block2 >> 16), (uint8_t)(reply->block2 >> 8),
                                  (uint8_t)reply->block2};
        *ret_block = block_of((struct bytes){number, sizeof(number)});
        return true;
    }
    if (!option_find(reply->options, OPTION_block2, &value)) {
        return false;
    }
    *ret_block = block_of(value);
    return true;
}

struct http_tag http_reply_tag(const struct reply *reply)
{
    struct http_tag tag = {.len = 0};
    struct bytes value;
    if (option_find(reply->options, OPTION_etag, &value) && value.len <= HTTP_TAG_LEN) {
        tag.len = (uint8_t)value.len;
        memcpy(tag.bytes, value.data, value.len);
    }
    return tag;
}
