/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Echo challenges of origin servers, to which an HTTP client could say nothing (RFC 9175 section
 * 2.3): the request is sent once more with the value. An unsafe one only while it is known to be
 * fresh, as its connection is new, and while its body is here; else its client is to ask again on
 * another connection.
 */
#include "client/http_front_internal.h"

#include "coap/option.h"

/* A request that comes within so long of the opening of its connection is no older than that. */
#define FRESH_MS 10000u

void front_note_fresh(struct http_front *front, const struct http_ask *ask)
{
    uint64_t now_ms = context_now_ms(&front->stream->side->context);
    bool is_safe = front->exchange->code == CODE_GET || front->exchange->code == CODE_FETCH;
    front->exchange->is_early = ask->is_early;
    front->exchange->may_repeat =
        is_safe || (!ask->is_relayed && now_ms - front->opened_ms <= FRESH_MS);
}

void front_put_echo(const struct http_front *front, uint8_t buffer[HTTP_ECHOED_MAX],
                    struct message *message)
{
    const struct http_exchange *exchange = front->exchange;
    const struct option echo = {OPTION_echo, {exchange->echo, exchange->echo_len}};
    struct message_writer writer = {.buffer = buffer, .capacity = HTTP_ECHOED_MAX};
    if (exchange->echo_len > 0) {
        message_writer_options(&writer, message->options, NULL, &echo);
        message->options = (struct bytes){buffer, writer.len};
    }
}

void front_keep_body(struct http_front *front)
{
    struct http_exchange *exchange = front->exchange;
    bool is_sent_on = exchange->code != CODE_GET && exchange->code != CODE_DELETE;
    exchange->body_len = is_sent_on ? front->body.len : 0;
    if (exchange->may_repeat && exchange->body_len > 0) {
        timer_cancel(&front->stream->side->context.wheel, &front->timer);
        http_body_spare(&front->body, front->stream->side);
    } else {
        front_drop_body(front);
    }
}

static bool has_its_body(const struct http_front *front)
{
    return front->exchange->upload.is_on || front->body.len == front->exchange->body_len;
}

/* The same request, or the same block of it or of its answer, at the end of the turn. */
static void repeat_request(struct http_front *front, struct bytes echo)
{
    struct http_exchange *exchange = front->exchange;
    memcpy(exchange->echo, echo.data, echo.len);
    exchange->echo_len = (uint8_t)echo.len;
    exchange->upload.is_due = exchange->upload.is_on;
    exchange->wants_block = exchange->is_started;
    exchange->is_due = !exchange->upload.is_on && !exchange->is_started;
    http_body_need(&front->body, front->stream->side);
    front_make_ready(front);
}

bool front_take_challenge(struct http_front *front, const struct reply *reply,
                          struct reply *ret_reply)
{
    static const char why[] = "the origin server wants to know whether the request is fresh";
    struct http_exchange *exchange = front->exchange;
    struct bytes echo = {0};
    bool is_challenge = reply->code == CODE(4, 1) && !exchange->has_events &&
                        exchange->group_s == 0 && option_find(reply->options, OPTION_echo, &echo) &&
                        echo.len > 0 && echo.len <= HTTP_ECHO_MAX;
    bool is_second = exchange->echo_len > 0;
    exchange->echo_len = 0;
    *ret_reply = *reply;
    if (!is_challenge) {
        return false;
    }
    if (!is_second && exchange->may_repeat && has_its_body(front)) {
        repeat_request(front, echo);
        return true;
    }
    if (exchange->is_early && !exchange->may_repeat) {
        front_refuse(front, 425, why, exchange->origin, false);
        return true;
    }
    *ret_reply = (struct reply){.code = CODE(5, 3),
                                .is_own = true,
                                .is_aged = true, /* Retry-After: 0 */
                                .payload = {(const uint8_t *)why, sizeof(why) - 1}};
    exchange->keeps_alive = false;
    return false;
}
