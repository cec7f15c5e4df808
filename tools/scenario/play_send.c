/* SPDX-License-Identifier: BSD-2-Clause */
#include "play_state.h"

#include <string.h>

bool play_send_bytes(struct play *play, struct actor *actor, const struct play_peer *to,
                     struct wire_bytes bytes, bool is_slow)
{
    struct wire_message *message = play->message;
    if (is_slow && play_framing(actor->way) != WIRE_STREAM) {
        return play_fail(play, "", "slowly: only on TCP and TLS; else a message comes whole");
    }
    const char *fault = wire_decode(play_framing(actor->way), bytes.data, bytes.len, message);
    play_add_rung(play, actor, true,
                  fault == NULL
                      ? spec_show(play->pool, message)
                      : pool_format(play->pool, "bytes %s", spec_show_bytes(play->pool, bytes)));
    actor->last_sent = play_keep(play, bytes);
    actor->last_to = *to;
    if (play_is_datagram(actor) && bytes.len >= 4) {
        actor->last_sent_mid = (uint16_t)((unsigned)bytes.data[2] << 8 | bytes.data[3]);
    }
    return play_check(play, play->stage->send(play->stage->context, actor, to, bytes, is_slow));
}

bool play_send_message(struct play *play, struct actor *actor, const struct play_peer *to,
                       const struct wire_message *message, bool is_slow)
{
    size_t len = wire_encode(message, play->buffer, WIRE_MESSAGE_MAX);
    if (len == 0) {
        return play_fail(play, "", "too long to send");
    }
    return play_send_bytes(play, actor, to, (struct wire_bytes){play->buffer, len}, is_slow);
}

bool play_send_empty(struct play *play, struct actor *actor, const struct play_peer *to,
                     enum wire_type type, uint16_t mid)
{
    struct wire_message *message = play->message;
    message->framing = WIRE_DATAGRAM;
    message->type = type;
    message->code = 0;
    message->mid = mid;
    message->token = message->payload = (struct wire_bytes){NULL, 0};
    message->option_count = 0;
    uint16_t before = actor->last_sent_mid; /* what it is about stays the last message */
    bool is_sent = play_send_message(play, actor, to, message, false);
    actor->last_sent_mid = type == WIRE_CON ? actor->last_sent_mid : before;
    return is_sent;
}

/* What is written, or @p otherwise; a capture that has no value yet gets that. */
static bool take_value(struct play *play, const struct value *value, struct wire_bytes otherwise,
                       struct wire_bytes *ret_bytes)
{
    *ret_bytes = otherwise;
    if (value->kind == VALUE_UNSAID) {
        return true;
    }
    if (value->kind == VALUE_CAPTURE && value->relation == 0 &&
        value_bytes(play->pool, value, &play->captures, ret_bytes) != NULL) {
        return play_check(play,
                          value_match(play->pool, value, &play->captures, otherwise, VALUE_OPAQUE));
    }
    return play_check(play, value_bytes(play->pool, value, &play->captures, ret_bytes));
}

static bool take_mid(struct play *play, uint16_t otherwise, uint16_t *ret_mid)
{
    uint8_t buffer[8];
    struct wire_bytes bytes = {buffer, wire_put_uint(otherwise, buffer)}, taken;
    if (!take_value(play, &play->spec->mid, bytes, &taken)) {
        return false;
    }
    *ret_mid = (uint16_t)wire_uint(taken);
    return true;
}

static bool take_token(struct play *play, struct wire_bytes otherwise, struct wire_bytes *ret_token)
{
    return take_value(play, &play->spec->token, otherwise, ret_token);
}

static struct wire_bytes fresh_token(struct play *play, struct actor *actor)
{
    uint8_t *bytes = pool_alloc(play->pool, 3);
    bytes[0] = (uint8_t)actor->name[0];
    bytes[1] = (uint8_t)actor->next_token;
    bytes[2] = (uint8_t)(actor->next_token >> 8);
    size_t len = actor->next_token > 255 ? 3 : 2;
    actor->next_token++;
    return (struct wire_bytes){bytes, len};
}

/* A label that is known means the same token again, as for the end of an observation. */
static bool send_request(struct play *play, struct actor *actor)
{
    const struct spec *spec = play->spec;
    struct wire_message *message = play->message;
    struct exchange *exchange =
        spec->label != NULL ? exchange_labelled(play, actor, spec->label, true) : NULL;
    struct wire_bytes token = exchange != NULL ? exchange->token : (struct wire_bytes){NULL, 0};
    if (exchange == NULL) {
        exchange = exchange_add(play, actor, spec->label);
        if (exchange == NULL) {
            return false;
        }
        exchange->is_sent = true;
        token = fresh_token(play, actor);
    }
    message->framing = play_framing(actor->way);
    message->type = spec->has_type ? spec->type : WIRE_CON;
    if (!take_token(play, token, &message->token) ||
        !take_mid(play, actor->next_mid, &message->mid)) {
        return false;
    }
    actor->next_mid = (uint16_t)(message->mid + 1);
    exchange->type = message->type;
    exchange->mid = message->mid;
    exchange->token = message->token;
    exchange->is_acknowledged = exchange->is_answered = false;
    static const struct play_peer proxy;
    bool is_sent = play_send_message(play, actor, &proxy, message, spec->is_slow);
    exchange->sent = actor->last_sent;
    return is_sent;
}

static bool send_response(struct play *play, struct actor *actor)
{
    const struct spec *spec = play->spec;
    struct wire_message *message = play->message;
    struct exchange *exchange = exchange_meant(play, actor, spec->label, false);
    if (exchange == NULL) {
        return play_fail(play, "", "no request that this could answer");
    }
    bool is_piggybacked = exchange->type == WIRE_CON && !exchange->is_acknowledged &&
                          !exchange->is_answered && exchange->owner->role != ACTOR_GROUP;
    message->framing = play_framing(actor->way);
    message->type = spec->has_type               ? spec->type
                    : is_piggybacked             ? WIRE_ACK
                    : exchange->type == WIRE_NON ? WIRE_NON
                                                 : WIRE_CON;
    bool is_ack = message->type == WIRE_ACK || message->type == WIRE_RST;
    if (!take_token(play, exchange->token, &message->token) ||
        !take_mid(play, is_ack ? exchange->mid : actor->next_mid, &message->mid)) {
        return false;
    }
    actor->next_mid = (uint16_t)(actor->next_mid + !is_ack);
    exchange->is_answered = true;
    bool is_sent = play_send_message(play, actor, &exchange->peer, message, spec->is_slow);
    exchange->sent = actor->last_sent;
    return is_sent;
}

/* An Empty message: for a server about a request, for a client about the last message it got. */
static bool send_empty_written(struct play *play, struct actor *actor)
{
    const struct spec *spec = play->spec;
    static const struct play_peer proxy;
    const struct play_peer *to = &proxy;
    uint16_t mid = spec->type == WIRE_CON || spec->type == WIRE_NON ? actor->next_mid++
                                                                    : actor->last_received_mid;
    struct exchange *exchange =
        play_serves(actor) ? exchange_meant(play, actor, spec->label, false) : NULL;
    if (exchange != NULL && actor->is_device && spec->label == NULL && exchange->is_answered) {
        exchange = NULL; /* it is a client's: about the last message */
    }
    if (exchange == NULL && spec->label != NULL) {
        return play_fail(play, "", "no request of that name that this is about");
    }
    if (exchange != NULL) {
        to = &exchange->peer;
        if (spec->type == WIRE_ACK || spec->type == WIRE_RST) {
            mid = exchange->mid;
            exchange->is_acknowledged = true;
            exchange->is_answered = exchange->is_answered || spec->type == WIRE_RST;
        }
    }
    return take_mid(play, mid, &mid) && play_send_empty(play, actor, to, spec->type, mid);
}

static bool send_again(struct play *play, struct actor *actor)
{
    const char *label = play->spec->label;
    struct exchange *exchange = exchange_of_label(play, actor, label);
    struct wire_bytes bytes = exchange != NULL ? exchange->sent : actor->last_sent;
    struct play_peer to = exchange != NULL ? exchange->peer : actor->last_to;
    if (bytes.data == NULL || (label != NULL && exchange == NULL)) {
        return play_fail(play, "", "nothing was sent that could be sent again");
    }
    return play_send_bytes(play, actor, &to, bytes, play->spec->is_slow);
}

static bool send_signal(struct play *play, struct actor *actor)
{
    static const struct play_peer proxy;
    struct wire_message *message = play->message;
    message->framing = play_framing(actor->way);
    message->type = play->spec->has_type ? play->spec->type : WIRE_CON;
    message->mid = actor->next_mid++;
    return take_token(play, (struct wire_bytes){NULL, 0}, &message->token) &&
           play_send_message(play, actor, &proxy, message, play->spec->is_slow);
}

/* "MID" and "TOKEN" in @p text become those of the request that it is about. */
static const char *fill_in_hex(struct play *play, const char *text, const struct exchange *exchange)
{
    char *done = pool_text(play->pool, "", 0);
    while (exchange != NULL) {
        size_t len = strcspn(text, "MT");
        done = pool_format(play->pool, "%s%.*s", done, (int)len, text);
        text += len;
        if (strncmp(text, "MID", 3) == 0) {
            done = pool_format(play->pool, "%s%04x", done, exchange->mid);
            text += 3;
        } else if (strncmp(text, "TOKEN", 5) == 0) {
            done =
                pool_format(play->pool, "%s%s", done, spec_show_bytes(play->pool, exchange->token));
            text += 5;
        } else {
            break;
        }
    }
    return pool_format(play->pool, "%s%s", done, text);
}

/* Bytes as they are written; of a server, about the request that they answer or that is named. */
static bool send_written_bytes(struct play *play, struct actor *actor)
{
    const struct spec *spec = play->spec;
    struct wire_bytes bytes;
    struct exchange *exchange =
        play_serves(actor) ? exchange_meant(play, actor, spec->label, false) : NULL;
    struct play_peer to = exchange != NULL ? exchange->peer : (struct play_peer){{0}, 0};
    const char *hex = fill_in_hex(play, (const char *)spec->payload.bytes.data, exchange);
    return play_check(play, spec_hex(play->pool, hex, &bytes)) &&
           play_send_bytes(play, actor, &to, bytes, spec->is_slow);
}

bool play_send(struct play *play, struct actor *actor)
{
    const struct spec *spec = play->spec;
    if (!play_open(play, actor) ||
        (actor->role == ACTOR_CLIENT && !play_connect(play, actor, true))) {
        return false;
    }
    if (spec->is_again) {
        return send_again(play, actor);
    }
    if (spec->is_bytes) {
        return send_written_bytes(play, actor);
    }
    if (!play_check(play, spec_fill(play->pool, spec, &play->captures, play->message))) {
        return false;
    }
    if (spec->code_count == 0 && spec->has_type && play_is_datagram(actor) &&
        spec->token.kind == VALUE_UNSAID) {
        return send_empty_written(play, actor);
    }
    if (spec->code_count > 0 && is_response(spec->codes[0]) && play_serves(actor)) {
        return send_response(play, actor);
    }
    if (is_request(spec->codes[0]) && spec->code_count > 0) {
        return send_request(play, actor);
    }
    return send_signal(play, actor);
}
