/* SPDX-License-Identifier: BSD-2-Clause */
/* Answers to HTTP clients: whole, in chunks, and as events. */
#include "client/http_front_internal.h"

#include "client/http_status.h"
#include "client/reply.h"
#include "coap/block.h"
#include "coap/option.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* --- answers ------------------------------------------------------------------ */

static void send_chunk(struct http_front *front, const void *data, size_t len)
{
    char size[24];
    if (len == 0) {
        return; /* that would be the last */
    }
    if (!front->exchange->is_1_0) {
        stream_send_bytes(front->stream, size,
                          (size_t)snprintf(size, sizeof(size), "%zx\r\n", len));
    }
    stream_send_bytes(front->stream, data, len);
    if (!front->exchange->is_1_0) {
        stream_send_bytes(front->stream, "\r\n", 2);
    }
}

void front_end_chunks(struct http_front *front)
{
    if (!front->exchange->is_1_0) {
        stream_send_bytes(front->stream, "0\r\n\r\n", 5);
    }
    front_end_exchange(front, front->exchange->keeps_alive && !front->exchange->is_1_0);
}

void front_cut(struct http_front *front)
{
    metric_add(&front->stream->side->context.metrics.http_cut, 1);
    front_end_exchange(front, false);
}

/* What is behind @p block is asked for at the end of the turn. */
static void want_block_after(struct http_front *front, const struct block *block)
{
    struct http_exchange *exchange = front->exchange;
    exchange->wants_block = true;
    exchange->block_szx = block->szx;
    exchange->block_num = block->num + 1;
    front_make_ready(front);
}

/* The ETag of an answer; of length 0 where it has none. */
static struct http_tag http_reply_tag(const struct reply *reply)
{
    struct http_tag tag = {.len = 0};
    struct bytes value;
    if (option_find(reply->options, OPTION_etag, &value) && value.len <= HTTP_TAG_LEN) {
        tag.len = (uint8_t)value.len;
        memcpy(tag.bytes, value.data, value.len);
    }
    return tag;
}

/* The first block: how long the rest is, is not known. */
static void begin_chunks(struct http_front *front, struct http_text *text,
                         const struct reply *reply, const struct block *block)
{
    struct http_exchange *exchange = front->exchange;
    exchange->is_started = true;
    exchange->etag = http_reply_tag(reply);
    http_put(text, "%s\r\n",
             exchange->is_1_0        ? "Connection: close\r\n"
             : exchange->keeps_alive ? "Transfer-Encoding: chunked\r\n"
                                     : "Transfer-Encoding: chunked\r\nConnection: close\r\n");
    stream_send_bytes(front->stream, text->data, text->len);
    send_chunk(front, reply->payload.data, reply->payload.len);
    want_block_after(front, block);
}

/* Which block of its body an answer has; false where it is whole. */
static bool http_reply_block2(const struct reply *reply, struct block *ret_block)
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

static void give_next_block(struct http_front *front, const struct reply *reply)
{
    const struct http_exchange *exchange = front->exchange;
    struct http_tag tag = http_reply_tag(reply);
    struct block block;
    bool is_it =
        reply->code == CODE(2, 5) && http_reply_block2(reply, &block) &&
        block_offset(&block) == (uint64_t)exchange->block_num << (exchange->block_szx + 4) &&
        tag.len == exchange->etag.len && memcmp(tag.bytes, exchange->etag.bytes, tag.len) == 0 &&
        (reply->payload.len == block_size(&block) || !block.more);
    if (!is_it) {
        front_cut(front); /* the representation has changed, or the origin server failed */
        return;
    }
    send_chunk(front, reply->payload.data, reply->payload.len);
    if (block.more) {
        want_block_after(front, &block);
    } else {
        front_end_chunks(front);
    }
}

/* The proxy's own answer to a request that says nothing of how long to wait for a group. */
static bool is_about_group(const struct reply *reply)
{
    return reply->code == CODE(4, 0) && !reply->is_aged &&
           options_have(reply->options, OPTION_multicast_timeout);
}

/*
 * RFC 8075 section 7, note 6: a 4.02 that comes while the request is being looked at is about a
 * field of the client's; an origin server's is not.
 */
static int status_of(const struct http_front *front, const struct reply *reply)
{
    if (reply->code == CODE(4, 2) && front->is_asking && !reply->is_aged) {
        return 400;
    }
    /* REASON_multicast; or, of a group that is served, that no rule names it. */
    bool is_refused =
        reply->code == CODE(5, 1) || (front->exchange->group_s != 0 && reply->code == CODE(5, 5));
    if (is_about_group(reply) || (is_refused && front->is_asking && !reply->is_aged)) {
        return 403; /* RFC 8075 section 8.4 (HC-13) */
    }
    if (reply->code == CODE(2, 5) && front->exchange->wants_none) {
        return 304; /* there is one (RFC 9110 section 13.1.2) */
    }
    bool has_no_body = front->exchange->code == CODE_GET || front->exchange->code == CODE_DELETE;
    if (reply->code == CODE(4, 13) && reply->is_own && has_no_body) {
        return 414; /* then it is the URI, most of all */
    }
    return http_status_of(reply->code, reply->payload.len > 0);
}

/* Whether a 2.03 is about a validator that the client has sent: for others a 304 says nothing. */
static bool is_own_validator(const struct http_exchange *exchange, const struct reply *reply)
{
    struct bytes tag;
    struct option_iter iter;
    struct option option;
    bool is_own = false;
    if (exchange->code != CODE_GET && exchange->code != CODE_FETCH) {
        return false; /* RFC 9110 section 15.4.5 */
    }
    option_iter_init(&iter, (struct bytes){exchange->options, exchange->options_len});
    while (option_find(reply->options, OPTION_etag, &tag) && option_iter_next(&iter, &option)) {
        is_own = is_own || (option.number == OPTION_etag && bytes_equal(option.value, tag));
    }
    return is_own;
}

static void give_answer(struct http_front *front, const struct reply *reply)
{
    struct http_exchange *exchange = front->exchange;
    struct http_text text;
    struct block block;
    if (reply->code == CODE(2, 3) && !is_own_validator(exchange, reply)) {
        front_refuse(front, 502, "the origin server's 2.03 is about no entity-tag of the request",
                     exchange->origin, exchange->keeps_alive);
        return;
    }
    int status = status_of(front, reply);
    exchange->is_private =
        front->stream->identity != NULL || identity_is_known(conn_identity(front->stream->conn));
    http_put_answer(&text, front_config(front), front_date(front), exchange, reply, status);
    bool has_more = http_reply_block2(reply, &block) && block.more && block.num == 0 &&
                    status == 200 && exchange->code == CODE_GET;
    bool has_body = !exchange->is_head && status != 204 && status != 304;
    if (has_more && has_body) {
        begin_chunks(front, &text, reply, &block);
        return;
    }
    if (has_body || (exchange->is_head && !has_more && status == 200)) {
        front_put_length(&text, reply->payload.len, exchange->keeps_alive);
    } else {
        http_put(&text, "%s\r\n", exchange->keeps_alive ? "" : "Connection: close\r\n");
    }
    stream_send_bytes(front->stream, text.data, text.len);
    if (has_body) {
        stream_send_bytes(front->stream, reply->payload.data, reply->payload.len);
    }
    front_end_exchange(front, exchange->keeps_alive);
}

/* --- events ---------------------------------------------------------------------- */

static void on_comment_due(void *context, struct timer *timer, uint64_t now_ms)
{
    static const char comment[] = ":\n\n";
    struct client_side *side = context;
    struct http_front *front = HASH_ENTRY(timer, struct http_front, timer);
    if (!conn_is_behind(front->stream->conn)) {
        send_chunk(front, comment, sizeof(comment) - 1);
    }
    timer_set(&side->context.wheel, timer, now_ms + front_config(front)->http_keep_alive,
              on_comment_due);
}

static void begin_events(struct http_front *front)
{
    struct http_exchange *exchange = front->exchange;
    struct http_text text;
    exchange->has_events = true;
    exchange->is_started = true;
    http_put_start(&text, front_config(front), front_date(front), 200, http_status_phrase(200),
                   exchange->origin);
    http_put(&text,
             "Content-Type: text/event-stream\r\nCache-Control: no-store\r\n"
             "X-Accel-Buffering: no\r\n%s\r\n",
             exchange->is_1_0 ? "Connection: close\r\n" : "Transfer-Encoding: chunked\r\n");
    stream_send_bytes(front->stream, text.data, text.len);
    struct client_side *side = front->stream->side;
    timer_set(&side->context.wheel, &front->timer,
              context_now_ms(&side->context) + side->context.config->http_keep_alive,
              on_comment_due);
}

void front_begin_group(struct http_front *front)
{
    char text[32];
    begin_events(front);
    /* A client that comes again by itself is not to ask the group more often than it waits. */
    (void)snprintf(text, sizeof(text), "retry: %" PRIu32 "\n\n",
                   front_config(front)->multicast_timeout_max);
    send_chunk(front, text, strlen(text));
}

static void give_events(struct http_front *front, const struct reply *reply)
{
    bool is_member =
        front->exchange->group_s != 0 && options_have(reply->options, OPTION_reply_from);
    if (is_member && conn_is_behind(front->stream->conn)) {
        return; /* a client that does not read: its memory is bounded */
    }
    if (!front->exchange->has_events) {
        begin_events(front);
    }
    const struct media_own *own = front_config(front)->media_own;
    size_t len = http_event_format(own, reply, is_member, NULL, 0);
    char *text = malloc(len);
    if (text == NULL) {
        front_cut(front);
        return;
    }
    (void)http_event_format(own, reply, is_member, text, len);
    send_chunk(front, text, len);
    free(text);
    if (!reply->has_observe && !is_member) {
        front_end_chunks(front); /* it was the last word */
    }
}

/*
 * HC-13: several answers can be given as events only.
 *
 * @return false where the answer is not about a group, or groups are not served.
 */
static bool take_group(struct http_front *front, const struct reply *reply)
{
    struct http_exchange *exchange = front->exchange;
    const struct config *config = front_config(front);
    if (!is_about_group(reply) || !config->multicast_enabled || exchange->group_s != 0) {
        return false;
    }
    if (!exchange->wants_events) {
        front_refuse(front, 403, "the target is a group: its answers come as text/event-stream",
                     exchange->origin, exchange->keeps_alive);
        return true;
    }
    exchange->group_s = config->multicast_timeout_max / 1000;
    exchange->wants_group = true;
    front_make_ready(front);
    return true;
}

void http_front_reply(struct http_front *front, const struct leg *leg, const struct reply *reply)
{
    const struct http_exchange *exchange = front->exchange;
    struct reply told, answer;
    if (exchange == NULL || front->state != FRONT_WAITING ||
        !bytes_equal(leg->token, (struct bytes){front->token, sizeof(front->token)})) {
        return; /* to a request that was given up */
    }
    if (front_take_challenge(front, reply, &told)) {
        return;
    }
    reply = &told;
    if (exchange->upload.is_on) {
        if (!front_upload_is_answered(front, reply, &answer)) {
            return;
        }
        reply = &answer;
    }
    if (!exchange->is_started && take_group(front, reply)) {
        return;
    }
    if (exchange->has_events || (exchange->wants_events && CODE_CLASS(reply->code) == 2)) {
        give_events(front, reply);
    } else if (exchange->is_started) {
        give_next_block(front, reply);
    } else {
        give_answer(front, reply);
    }
}
