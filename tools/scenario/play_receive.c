/* SPDX-License-Identifier: BSD-2-Clause */
#include "play_state.h"

#include <string.h>

#define NOTHING_MS 250u /* of silence are nothing, over real sockets */

#define INPUT_MAX (2u * WIRE_MESSAGE_MAX)

/* The next whole message of @p actor, in play->buffer. */
enum arrival play_next(struct play *play, struct actor *actor, unsigned long long wait_ms,
                       struct wire_bytes *ret_bytes, struct play_peer *ret_from)
{
    const struct stage *stage = play->stage;
    size_t len = 0;
    if (play_framing(actor->way) != WIRE_STREAM) {
        enum arrival arrival = stage->receive(stage->context, actor, wait_ms, play->buffer,
                                              WIRE_MESSAGE_MAX, &len, ret_from);
        *ret_bytes = (struct wire_bytes){play->buffer, len};
        return arrival;
    }
    if (actor->input == NULL) {
        actor->input = pool_alloc(play->pool, INPUT_MAX);
    }
    unsigned long long deadline_ms = stage->now_ms(stage->context) + wait_ms;
    for (;;) {
        size_t frame = wire_frame_len(actor->input, actor->input_len);
        if (frame > 0 && frame <= WIRE_MESSAGE_MAX) {
            memcpy(play->buffer, actor->input, frame);
            memmove(actor->input, actor->input + frame, actor->input_len - frame);
            actor->input_len -= frame;
            *ret_bytes = (struct wire_bytes){play->buffer, frame};
            return ARRIVAL_MESSAGE;
        }
        unsigned long long now_ms = stage->now_ms(stage->context);
        enum arrival arrival = stage->receive(
            stage->context, actor, deadline_ms > now_ms ? deadline_ms - now_ms : 0,
            actor->input + actor->input_len, INPUT_MAX - actor->input_len, &len, ret_from);
        if (arrival != ARRIVAL_MESSAGE) {
            return arrival;
        }
        actor->input_len += len;
    }
}

const char *play_show(struct play *play, const struct actor *actor, struct wire_bytes bytes)
{
    const char *fault = wire_decode(play_framing(actor->way), bytes.data, bytes.len, play->message);
    return fault == NULL ? spec_show(play->pool, play->message)
                         : pool_format(play->pool, "bytes %s (%s)",
                                       spec_show_bytes(play->pool, bytes), fault);
}

/* An Empty ACK for a request or CON of @p actor, which the scenario need not write. */
static bool is_plain_ack(struct play *play, struct actor *actor, const struct wire_message *message)
{
    if (message->framing != WIRE_DATAGRAM || message->type != WIRE_ACK || message->code != 0) {
        return false;
    }
    for (size_t i = play->exchange_count; i-- > 0;) {
        struct exchange *exchange = play->exchanges[i];
        if (exchange->is_sent && exchange->owner == actor && exchange->mid == message->mid) {
            exchange->is_acknowledged = true;
            return true;
        }
    }
    return play_serves(actor) && (message->mid == actor->last_sent_mid || play->stage->is_loose);
}

/* A message that came before: over real sockets it may be sent again at any time. */
static bool is_repeated(struct play *play, struct actor *actor, const struct wire_message *message,
                        struct wire_bytes bytes, const struct play_peer *from)
{
    if (!(play->stage->is_loose || actor->ignores_repetitions) || play->spec->is_again ||
        message->framing != WIRE_DATAGRAM) {
        return false;
    }
    for (size_t i = 0; i < play->exchange_count; i++) {
        struct exchange *exchange = play->exchanges[i];
        if (exchange->owner != actor || exchange->received.data == NULL ||
            exchange->received.len != bytes.len ||
            memcmp(exchange->received.data, bytes.data, bytes.len) != 0) {
            continue;
        }
        if (!play->stage->is_loose) {
            return true;
        }
        if (exchange->is_sent && message->type == WIRE_CON) {
            (void)play_send_empty(play, actor, from, WIRE_ACK, message->mid);
        } else if (!exchange->is_sent && exchange->sent.data != NULL) {
            (void)play_send_bytes(play, actor, from, exchange->sent, false);
        }
        return true;
    }
    return false;
}

/* A CSM, Ping or Empty message on a connection that is no part of what is checked. */
static bool is_housekeeping(struct play *play, struct actor *actor,
                            const struct wire_message *message)
{
    static const struct play_peer proxy;
    bool is_stream = message->framing == WIRE_STREAM || message->framing == WIRE_WEBSOCKET;
    if (!play->stage->is_loose || !is_stream ||
        (play->spec->code_count > 0 && play->spec->codes[0] >> 5 == 7)) {
        return false;
    }
    if (message->code == WIRE_CODE(7, 2)) { /* Ping wants a Pong */
        struct wire_message *pong = play->message;
        pong->code = WIRE_CODE(7, 3);
        pong->option_count = 0;
        return play_send_message(play, actor, &proxy, pong, false);
    }
    return message->code == 0 || message->code == WIRE_CODE(7, 1);
}

static bool expect_mid(struct play *play, const char *got, uint16_t mid, uint16_t otherwise)
{
    uint8_t bytes[8];
    if (play->spec->mid.kind == VALUE_UNSAID) {
        return mid == otherwise ||
               play_fail(play, got,
                         pool_format(play->pool, "mid: expected %u, got %u", otherwise, mid));
    }
    struct wire_bytes value = {bytes, wire_put_uint(mid, bytes)};
    const char *fault =
        value_match(play->pool, &play->spec->mid, &play->captures, value, VALUE_UINT);
    return fault == NULL || play_fail(play, got, pool_format(play->pool, "mid: %s", fault));
}

static bool expect_token(struct play *play, const char *got, struct wire_bytes token,
                         const struct wire_bytes *otherwise)
{
    struct value value = play->spec->token;
    if (value.kind == VALUE_UNSAID && otherwise != NULL) {
        value = (struct value){.kind = VALUE_EXACT, .bytes = *otherwise};
    }
    const char *fault = value_match(play->pool, &value, &play->captures, token, VALUE_OPAQUE);
    return fault == NULL || play_fail(play, got, pool_format(play->pool, "token: %s", fault));
}

static bool expect_type(struct play *play, const char *got, const struct wire_message *message,
                        unsigned allowed)
{
    static const char *const names[] = {"CON", "NON", "ACK", "RST"};
    if (message->framing != WIRE_DATAGRAM) {
        return true;
    }
    if (play->spec->has_type) {
        allowed = 1u << play->spec->type;
    }
    return (allowed >> message->type & 1u) != 0 ||
           play_fail(play, got,
                     pool_format(play->pool, "%s was not expected", names[message->type]));
}

/* Which types an answer may have whose type is not written (RFC 7252 section 5.2). */
static unsigned types_allowed(const struct play *play, const struct exchange *exchange)
{
    bool is_first = !exchange->is_answered && !exchange->is_acknowledged;
    unsigned separate = 1u << WIRE_CON | 1u << WIRE_NON;
    if (!is_first) {
        return separate;
    }
    if (exchange->type == WIRE_CON) {
        return 1u << WIRE_ACK | (play->stage->is_loose ? separate : 0);
    }
    return play->stage->is_loose ? separate : 1u << WIRE_NON;
}

static bool expect_response(struct play *play, struct actor *actor, const char *got,
                            const struct wire_message *message, struct wire_bytes bytes)
{
    const struct spec *spec = play->spec;
    struct exchange *exchange = exchange_meant(play, actor, spec->label, true);
    uint16_t mid = message->mid;
    bool is_con = message->framing == WIRE_DATAGRAM && message->type == WIRE_CON;
    if (exchange == NULL) {
        return play_fail(play, got, "no request that this could answer");
    }
    bool needs_mid = message->framing == WIRE_DATAGRAM &&
                     (message->type == WIRE_ACK || spec->mid.kind != VALUE_UNSAID);
    if (!expect_token(play, got, message->token, &exchange->token) ||
        !expect_type(play, got, message, types_allowed(play, exchange)) ||
        (needs_mid && !expect_mid(play, got, mid, exchange->mid))) {
        return false;
    }
    const char *fault =
        spec_match(play->pool, spec, &play->captures, message, play->stage->is_loose);
    if (fault != NULL) {
        return play_fail(play, got, fault);
    }
    exchange->is_answered = true;
    exchange->received = play_keep(play, bytes);
    static const struct play_peer proxy;
    return !is_con || spec->has_type || play_send_empty(play, actor, &proxy, WIRE_ACK, mid);
}

/*
 * Uri-Host and Uri-Port that name the server itself may be there where a path is written; Uri-Host
 * has to be, where "//host/path" is written and hosts have the names that a scenario gives them.
 */
static bool drop_own_authority(struct play *play, struct actor *actor, struct wire_message *message)
{
    char host[64];
    unsigned port = 0;
    bool is_known = play->stage->authority(play->stage->context, actor, host, &port);
    const struct spec *spec = play->spec;
    size_t kept = 0, hosts = 0;
    if (!spec->has_path) {
        return true;
    }
    const char *name = is_known ? host : spec->host != NULL ? spec->host : actor->name;
    for (size_t i = 0; i < message->option_count; i++) {
        const struct wire_option *option = &message->options[i];
        bool is_host = option->number == option_number("uri-host", 8, 0) &&
                       option->value.len == strlen(name) &&
                       memcmp(option->value.data, name, option->value.len) == 0;
        bool is_port = is_known && option->number == option_number("uri-port", 8, 0) &&
                       wire_uint(option->value) == port;
        hosts += is_host;
        for (size_t j = 0; j < spec->option_count; j++) {
            is_host = is_host && spec->options[j].number != option->number;
            is_port = is_port && spec->options[j].number != option->number;
        }
        if (!is_host && !is_port) {
            message->options[kept++] = *option;
        }
    }
    message->option_count = kept;
    return is_known || spec->host == NULL || hosts == 1;
}

/* A request, or a Ping, that a server can answer from now on. */
static bool note_request(struct play *play, struct actor *actor, const struct wire_message *message,
                         struct wire_bytes bytes, const struct play_peer *from)
{
    struct exchange *exchange = exchange_add(play, actor, play->spec->label);
    if (exchange == NULL) {
        return false;
    }
    exchange->type = message->framing == WIRE_DATAGRAM ? message->type : WIRE_CON;
    exchange->mid = message->mid;
    exchange->token = play_keep(play, message->token);
    exchange->peer = *from;
    exchange->received = play_keep(play, bytes);
    return true;
}

static bool expect_request(struct play *play, struct actor *actor, const char *got,
                           struct wire_message *message, struct wire_bytes bytes,
                           const struct play_peer *from)
{
    const struct spec *spec = play->spec;
    unsigned allowed = play->stage->is_loose        ? 1u << WIRE_CON | 1u << WIRE_NON
                       : actor->role == ACTOR_GROUP ? 1u << WIRE_NON
                                                    : 1u << WIRE_CON;
    if (!expect_type(play, got, message, allowed) ||
        (spec->mid.kind != VALUE_UNSAID && !expect_mid(play, got, message->mid, 0)) ||
        (spec->token.kind != VALUE_UNSAID && !expect_token(play, got, message->token, NULL))) {
        return false;
    }
    if (!drop_own_authority(play, actor, message)) {
        return play_fail(play, got,
                         pool_format(play->pool, "uri-host: expected \"%s\"", spec->host));
    }
    const char *fault =
        spec_match(play->pool, spec, &play->captures, message, play->stage->is_loose);
    if (fault != NULL) {
        return play_fail(play, got, fault);
    }
    return note_request(play, actor, message, bytes, from);
}

static bool expect_again(struct play *play, struct actor *actor, const char *got,
                         struct wire_bytes bytes)
{
    const char *label = play->spec->label;
    const struct exchange *exchange = exchange_of_label(play, actor, label);
    struct wire_bytes before = exchange != NULL ? exchange->received : actor->last_received;
    if (before.len != bytes.len || before.data == NULL ||
        memcmp(before.data, bytes.data, bytes.len) != 0) {
        return play_fail(play, got, "not the same message again, byte by byte");
    }
    return true;
}

static bool expect_message(struct play *play, struct actor *actor, struct wire_bytes bytes,
                           const struct play_peer *from)
{
    const struct spec *spec = play->spec;
    const char *got = play_show(play, actor, bytes);
    struct wire_message *message = play->message;
    if (spec->is_nothing || spec->is_closed) {
        return play_fail(play, got, "nothing was expected");
    }
    if (spec->is_bytes) {
        return spec_match_bytes((const char *)spec->payload.bytes.data, bytes, false) != SIZE_MAX ||
               play_fail(play,
                         pool_format(play->pool, "bytes %s", spec_show_bytes(play->pool, bytes)),
                         "other bytes");
    }
    if (spec->is_again) {
        return expect_again(play, actor, got, bytes);
    }
    if (wire_decode(play_framing(actor->way), bytes.data, bytes.len, message) != NULL) {
        return play_fail(play, got, "not a CoAP message");
    }
    if (is_response(message->code)) {
        return expect_response(play, actor, got, message, bytes);
    }
    if (is_request(message->code) && play_serves(actor)) {
        return expect_request(play, actor, got, message, bytes, from);
    }
    const char *fault =
        spec_match(play->pool, spec, &play->captures, message, play->stage->is_loose);
    const struct exchange *meant = exchange_of_label(play, actor, spec->label);
    bool is_about_us = message->framing == WIRE_DATAGRAM &&
                       (message->type == WIRE_ACK || message->type == WIRE_RST);
    (void)is_plain_ack(play, actor, message); /* the answer will be separate */
    if (spec->code_count == 0 && message->code != 0) {
        fault = "an Empty message was expected";
    }
    bool is_ping = message->code == 0 && message->framing == WIRE_DATAGRAM &&
                   message->type == WIRE_CON && play_serves(actor);
    return (fault == NULL || play_fail(play, got, fault)) &&
           expect_type(play, got, message, spec->has_type ? 0 : 15) &&
           expect_token(play, got, message->token, NULL) &&
           (!is_about_us || expect_mid(play, got, message->mid,
                                       meant != NULL ? meant->mid : actor->last_sent_mid)) &&
           (!is_ping || note_request(play, actor, message, bytes, from));
}

static bool expect_silence(struct play *play, enum arrival arrival)
{
    const struct spec *spec = play->spec;
    if (arrival == ARRIVAL_CLOSED) {
        return spec->is_closed || spec->is_nothing ||
               play_fail(play, "closed", "the proxy has closed the connection");
    }
    return spec->is_nothing ||
           play_fail(play, "nothing",
                     spec->is_closed ? "the connection is still open" : "nothing came in time");
}

static bool is_early(struct play *play, unsigned long long began_ms)
{
    return play->spec->after_ms > 0 &&
           play->stage->now_ms(play->stage->context) - began_ms < play->spec->after_ms;
}

/* Whether @p bytes are passed over; what is expected may still come. */
static bool is_passed_over(struct play *play, struct actor *actor, struct wire_bytes bytes,
                           const struct play_peer *from)
{
    const struct spec *spec = play->spec;
    struct wire_message *message = play->message;
    bool wants_empty = spec->has_type && spec->code_count == 0 && !spec->is_nothing;
    if (wire_decode(play_framing(actor->way), bytes.data, bytes.len, message) != NULL ||
        spec->is_bytes || spec->is_again) {
        return false;
    }
    return (!wants_empty && is_plain_ack(play, actor, message)) ||
           is_repeated(play, actor, message, bytes, from) || is_housekeeping(play, actor, message);
}

/* How long the next message may take. Over real sockets no time that is written is too short. */
static unsigned long long patience_for(const struct play *play)
{
    const struct stage *stage = play->stage;
    const struct spec *spec = play->spec;
    if (spec->is_nothing) {
        return spec->has_time ? spec->within_ms : stage->is_loose ? NOTHING_MS : 0;
    }
    if (!spec->has_time || (stage->is_loose && spec->within_ms < stage->patience_ms)) {
        return stage->patience_ms;
    }
    return spec->within_ms;
}

bool play_receive(struct play *play, struct actor *actor)
{
    const struct stage *stage = play->stage;
    if (!play_open(play, actor) ||
        (actor->role == ACTOR_CLIENT && !play_connect(play, actor, true))) {
        return false;
    }
    unsigned long long began_ms = stage->now_ms(stage->context);
    unsigned long long wait_ms = patience_for(play);
    for (;;) {
        struct wire_bytes bytes = {NULL, 0};
        struct play_peer from = {{0}, 0};
        unsigned long long passed_ms = stage->now_ms(stage->context) - began_ms;
        enum arrival arrival =
            play_next(play, actor, passed_ms < wait_ms ? wait_ms - passed_ms : 0, &bytes, &from);
        if (arrival != ARRIVAL_MESSAGE) {
            return expect_silence(play, arrival);
        }
        bytes = play_keep(play, bytes);
        play_add_arrival(play, actor, &from, play_show(play, actor, bytes));
        if (is_passed_over(play, actor, bytes, &from)) {
            continue;
        }
        if (play_is_datagram(actor) && bytes.len >= 4 && (bytes.data[0] >> 4 & 3) < WIRE_ACK) {
            actor->last_received_mid = (uint16_t)((unsigned)bytes.data[2] << 8 | bytes.data[3]);
        }
        bool is_right = expect_message(play, actor, bytes, &from);
        actor->last_received = bytes;
        return is_right && (!is_early(play, began_ms) ||
                            play_fail(play, play_show(play, actor, bytes), "it came too early"));
    }
}
