/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/reply.h"

#include "client/echo.h"
#include "client/side.h"
#include "client/stream.h"
#include "coap/option.h"

#include <string.h>

#define OWN_OPTIONS 6u

/* The proxy's own options, in ascending order of their numbers. */
struct own_options {
    struct {
        uint16_t number;
        uint32_t value;
    } list[OWN_OPTIONS];
    size_t count, next; /* how many there are, and which of them is to be written next */
};

static inline void own_add(struct own_options *own, bool is_due, uint16_t number, uint32_t value)
{
    if (is_due) {
        own->list[own->count].number = number;
        own->list[own->count++].value = value;
    }
}

/* Write them up to number @p limit. */
static inline void reply_write_own(struct message_writer *writer, struct own_options *own,
                                   uint32_t limit)
{
    for (; own->next < own->count && own->list[own->next].number <= limit; own->next++) {
        message_writer_option_uint(writer, own->list[own->next].number, own->list[own->next].value);
    }
}

/*
 * Whether an option of the origin server's answer reaches the client (OPT-7, Appendix A): it is
 * not for one hop only, and none of ours stands in for it.
 */
static bool reply_forwards(const struct reply *reply, uint16_t number)
{
    const struct option_row *row = option_row(number);
    switch (number) {
    case OPTION_max_age:
        return !reply->is_aged;
    case OPTION_block2:
    case OPTION_size2:
        return !reply->has_block2;
    default:
        return row == NULL || row->in_response != OPTION_USE_OWN;
    }
}

/* Bits of the options that are for one hop in an answer. */
static inline uint64_t consumed_bits(void)
{
    return 0
#define OPTION(number, name, kind, min, max, repeat_request, repeat_response, request, response)   \
    | (OPTION_USE_##response == OPTION_USE_OWN ? reply_bit(number) : 0)
#include "coap/options.def"
#undef OPTION
        ;
}

void reply_write_options(struct message_writer *writer, const struct reply *reply)
{
    struct option_iter iter;
    struct option option;
    struct own_options own;
    own.count = 0;
    own.next = 0;
    own_add(&own, reply->has_observe, OPTION_observe, reply->observe);
    own_add(&own, reply->is_aged || reply->max_age_s > 0, OPTION_max_age, reply->max_age_s);
    own_add(&own, reply->has_block2, OPTION_block2, reply->block2);
    own_add(&own, reply->has_block1, OPTION_block1, reply->block1);
    own_add(&own, reply->size2 > 0, OPTION_size2, reply->size2);
    own_add(&own, reply->size1 > 0, OPTION_size1, reply->size1);
    if (own.count == 0 && (~reply->absent & consumed_bits()) == 0) {
        message_writer_all_options(writer, reply->options);
        return;
    }
    option_iter_init(&iter, reply->options);
    while (option_iter_next(&iter, &option)) {
        if (reply_forwards(reply, option.number)) {
            reply_write_own(writer, &own, option.number);
            message_writer_option(writer, option.number, option.value);
        }
    }
    reply_write_own(writer, &own, UINT32_MAX);
}

struct bytes reply_encode(uint8_t *buffer, size_t capacity, enum message_type type, uint16_t mid,
                          const struct leg *leg, const struct reply *reply)
{
    struct message_writer writer;
    message_writer_init(&writer, buffer, capacity, type, reply->code, mid, leg->token);
    reply_write_options(&writer, reply);
    message_writer_payload(&writer, reply->payload);
    return (struct bytes){buffer, writer.overflow ? 0 : writer.len};
}

struct reply reply_refusal(const struct client_side *side, enum reason reason, const char *text)
{
    struct reply reply = reply_of(reason, text);
    if (reason == REASON_request_too_large) {
        /* In blocks, that is: one message may have to be shorter. */
        uint64_t most = side->fetch.bodies.body_max;
        reply.size1 = most < UINT32_MAX ? (uint32_t)most : UINT32_MAX;
    } else if (reason == REASON_group_timeout) {
        static const uint8_t empty[] = {OPTION_multicast_timeout << 4}; /* MCAST-5 */
        reply.options = (struct bytes){empty, sizeof(empty)};
    }
    return reply;
}

bool reply_fits_datagram(const struct client_side *side, const struct leg *leg,
                         const struct reply *reply, size_t bytes)
{
    size_t at_most = MESSAGE_HEADER_LEN + 2 + leg->token.len + reply->options.len +
                     REPLY_OWN_OPTIONS_MAX + 1 + reply->payload.len;
    return at_most <= bytes ||
           reply_encode(side->context.scratch, bytes, MESSAGE_CON, 0, leg, reply).len > 0;
}

bool reply_fits(const struct client_side *side, const struct leg *leg, const struct reply *reply)
{
    if (leg->kind != LEG_DATAGRAM) {
        return leg->kind != LEG_STREAM || stream_fits(leg, reply);
    }
    return reply_fits_datagram(side, leg, reply, leg_message_max(side, leg));
}

bool reply_is_unwanted(const struct leg *leg, uint8_t code)
{
    return (leg->unwanted & 1u << (CODE_CLASS(code) - 1)) != 0; /* RFC 7967 section 2.1 */
}

/*
 * Send an answer that needs no acknowledgement of its own: piggybacked or NON.
 * Gives what a repetition of the request is to be answered with.
 */
static struct bytes send_plain(struct client_side *side, struct leg *leg, const struct reply *reply)
{
    enum message_type type = leg->confirmable ? MESSAGE_ACK : MESSAGE_NON;
    uint8_t *buffer = side->context.scratch;
    size_t capacity = leg_message_max(side, leg);
    uint16_t mid = leg->mid;
    struct bytes datagram;
    if (leg->unwanted != 0 && reply_is_unwanted(leg, reply->code)) {
        message_write_empty(buffer, MESSAGE_ACK, mid);
        datagram = (struct bytes){buffer, leg->confirmable ? MESSAGE_HEADER_LEN : 0};
    } else {
        if (!leg->confirmable && !leg_take_mid(side, leg, &mid)) {
            return (struct bytes){0}; /* as if the network had lost it */
        }
        datagram = reply_encode(buffer, capacity, type, mid, leg, reply);
        if (datagram.len == 0) {
            struct reply too_large = reply_of(REASON_response_too_large, NULL);
            datagram = reply_encode(buffer, capacity, type, mid, leg, &too_large);
        }
    }
    if (datagram.len > 0) {
        leg_send(leg, datagram.data, datagram.len);
    }
    return leg->confirmable ? datagram : (struct bytes){0};
}

void reply_remember(struct client_side *side, const struct leg *leg, struct bytes answer)
{
    uint64_t now_ms = context_now_ms(&side->context), age_ms = now_ms - leg->received_ms;
    uint32_t lifetime_ms =
        leg->confirmable ? side->context.coap->exchange_lifetime : side->context.coap->non_lifetime;
    if (age_ms >= lifetime_ms) {
        return; /* the message id is free for another request */
    }
    dedup_add(&side->origin.dedup, leg->is_safe ? DEDUP_SAFE : DEDUP_UNSAFE,
              key_of_client(side, KEY_CLIENT_REQUEST, leg->client, leg->mid), answer, now_ms,
              lifetime_ms - (uint32_t)age_ms);
}

/* Refusals are cheap to provoke, and may go to an address that has not asked (AMP-13). */
static bool may_refuse(struct client_side *side, const struct reply *reply)
{
    bool is_challenge = options_have(reply->options, OPTION_echo);
    return limit_may_reject(side, is_challenge ? LIMIT_CHALLENGES : LIMIT_REFUSALS);
}

void reply_at_once(struct client_side *side, struct leg *leg, const struct reply *reply)
{
    uint8_t options[ECHO_OPTIONS_MAX];
    struct reply shorter;
    if (leg->is_unverified && echo_shorten(side, leg, reply, options, &shorter)) {
        reply = &shorter;
    }
    if (leg->kind == LEG_STREAM) {
        stream_reply(side, leg, reply);
        return;
    }
    if (leg->is_unverified && CODE_CLASS(reply->code) == 4 && !may_refuse(side, reply)) {
        return; /* nor is it remembered: a real client asks again */
    }
    reply_remember(side, leg, send_plain(side, leg, reply));
}

void reply_reason_at_once(struct client_side *side, struct leg *leg, enum reason reason,
                          const char *text)
{
    struct reply reply = reply_refusal(side, reason, text);
    reply_at_once(side, leg, &reply);
}

void reply_reason_to_request(struct client_side *side, struct request *request, enum reason reason,
                             const char *text)
{
    struct reply reply = reply_refusal(side, reason, text);
    reply_to_request(side, request, &reply);
}

/* --- separate answers --------------------------------------------------- */

/* The empty ACK that answers repetitions of a request whose answer was separate. */
static void finish_acknowledged(struct client_side *side, struct request *request)
{
    uint8_t ack[MESSAGE_HEADER_LEN];
    message_write_empty(ack, MESSAGE_ACK, request->leg.mid);
    request_finish(side, request, (struct bytes){ack, sizeof(ack)});
}

static void on_retransmit(void *context, struct timer *timer, uint64_t now_ms)
{
    struct client_side *side = context;
    struct request *request = HASH_ENTRY(timer, struct request, timer);
    if (retransmission_is_over(&request->again, side->context.coap->max_retransmit)) {
        request_drop(side, request, REASON_client_unreachable);
        return;
    }
    retransmission_next(&request->again);
    metric_add(&side->context.metrics.responses_retransmitted, 1);
    trail_event(&side->context, &request->trail, EVENT_separate_again,
                (uint32_t)request->datagram[2] << 8 | request->datagram[3]);
    leg_send(&request->leg, request->datagram, request->datagram_len);
    timer_set(&side->context.wheel, &request->timer, now_ms + request->again.timeout_ms,
              on_retransmit);
}

/* Bytes for the answer behind the token, which stays at the start of the memory. */
static struct bytes encode_separate(struct client_side *side, struct request *request, uint16_t mid,
                                    const struct reply *reply)
{
    struct leg *leg = &request->leg;
    uint8_t *scratch = side->context.scratch;
    struct bytes made =
        reply_encode(scratch, leg_message_max(side, leg), MESSAGE_CON, mid, leg, reply);
    if (made.len == 0 || !request_renew_memory(side, request, made.len)) {
        return (struct bytes){0};
    }
    uint8_t *datagram = memory_alloc(&request->memory, made.len);
    memcpy(datagram, made.data, made.len);
    /* The token is in the datagram as well: that copy is the one that lives on. */
    struct message message;
    (void)message_decode(datagram, made.len, &message);
    leg->token = message.token;
    return (struct bytes){datagram, made.len};
}

static void send_separate(struct client_side *side, struct request *request,
                          const struct reply *reply)
{
    uint64_t now_ms = context_now_ms(&side->context);
    const struct leg *leg = &request->leg;
    uint16_t mid;
    if (!leg_take_mid(side, leg, &mid)) {
        request->reason = REASON_proxy_busy;
        finish_acknowledged(side, request);
        return;
    }
    struct bytes datagram = encode_separate(side, request, mid, reply);
    if (datagram.len == 0) { /* no memory to keep it in: see reply_fits() */
        struct reply busy = reply_of(REASON_proxy_busy, NULL);
        request->reason = REASON_proxy_busy;
        datagram = encode_separate(side, request, mid, &busy);
    }
    if (datagram.len == 0) { /* a token as long as the buffer: nothing can be said */
        finish_acknowledged(side, request);
        return;
    }
    request->datagram = request->memory.bytes;
    request->datagram_len = (uint32_t)datagram.len;
    request_deliver(&side->requests, request);
    trail_event(&side->context, &request->trail, EVENT_separate, mid);
    retransmission_begin(&request->again, side->context.coap->ack_timeout,
                         side->context.coap->ack_random_factor,
                         entropy_u64(&side->context.entropy));
    hash_map_remove(&request->by_message); /* one of several answers */
    hash_map_add(&side->requests.map, &request->by_message,
                 key_of_client(side, KEY_CLIENT_RESPONSE, leg->client, mid));
    leg_send(leg, request->datagram, request->datagram_len);
    timer_set(&side->context.wheel, &request->timer, now_ms + request->again.timeout_ms,
              on_retransmit);
}

void reply_send_non(struct client_side *side, const struct leg *leg, uint16_t mid,
                    const struct reply *reply)
{
    struct bytes datagram = reply_encode(side->context.scratch, leg_message_max(side, leg),
                                         MESSAGE_NON, mid, leg, reply);
    leg_send(leg, datagram.data, datagram.len);
}

/* A separate answer that is never sent again: five times the answer is too much (AMP-1). */
static void send_once(struct client_side *side, struct request *request, const struct reply *reply)
{
    const struct leg *leg = &request->leg;
    uint16_t mid;
    if (leg_take_mid(side, leg, &mid)) {
        reply_send_non(side, leg, mid, reply);
    }
    finish_acknowledged(side, request);
}

void reply_to_request(struct client_side *side, struct request *request, const struct reply *reply)
{
    struct leg *leg = &request->leg;
    uint8_t options[ECHO_OPTIONS_MAX];
    struct reply shorter;
    if (leg->is_unverified && echo_shorten(side, leg, reply, options, &shorter)) {
        reply = &shorter;
    }
    timer_cancel(&side->context.wheel, &request->ack_timer);
    if (leg->kind != LEG_DATAGRAM) {
        if (leg->kind == LEG_STREAM) {
            stream_reply(side, leg, reply);
        }
        request_finish(side, request, (struct bytes){0});
    } else if (leg->acknowledged && reply_is_unwanted(leg, reply->code)) {
        finish_acknowledged(side, request);
    } else if (leg->acknowledged && leg->is_unverified) {
        send_once(side, request, reply);
    } else if (leg->acknowledged) {
        send_separate(side, request, reply);
    } else {
        request_finish(side, request, send_plain(side, leg, reply));
    }
}

void reply_one_of_many(struct client_side *side, struct request *request, const struct reply *reply)
{
    struct leg *leg = &request->leg;
    uint16_t mid;
    if (reply_is_unwanted(leg, reply->code) || !reply_fits(side, leg, reply)) {
        return;
    }
    if (leg->kind != LEG_DATAGRAM) {
        if (leg->kind == LEG_STREAM) {
            stream_reply(side, leg, reply);
        }
        return;
    }
    if (leg->confirmable && !leg->acknowledged) {
        reply_acknowledge(side, request);
    }
    if (!leg_take_mid(side, leg, &mid)) {
        return;
    }
    hash_map_remove(&request->by_message);
    hash_map_add(&side->requests.map, &request->by_message,
                 key_of_client(side, KEY_CLIENT_RESPONSE, leg->client, mid));
    reply_send_non(side, leg, mid, reply);
}

void reply_acknowledge(struct client_side *side, struct request *request)
{
    struct leg *leg = &request->leg;
    leg->acknowledged = true;
    timer_cancel(&side->context.wheel, &request->ack_timer);
    trail_event(&side->context, &request->trail, EVENT_empty_ack, 0);
    leg_send_empty(leg, MESSAGE_ACK, leg->mid);
}

/*
 * Acknowledge a confirmable request that gets no answer, unless that has been done.
 *
 * @return what repetitions are answered with; borrowed until the next message is made.
 */
static struct bytes reply_acknowledge_only(struct client_side *side, struct request *request)
{
    struct leg *leg = &request->leg;
    if (leg->kind != LEG_DATAGRAM || !leg->confirmable) {
        return (struct bytes){0};
    }
    if (!leg->acknowledged) {
        reply_acknowledge(side, request);
    }
    message_write_empty(side->empty_ack, MESSAGE_ACK, leg->mid);
    return (struct bytes){side->empty_ack, sizeof(side->empty_ack)};
}

void reply_nothing(struct client_side *side, struct request *request)
{
    request_finish(side, request, reply_acknowledge_only(side, request));
}

void reply_on_acknowledged(struct client_side *side, struct request *request, bool is_reset)
{
    trail_event(&side->context, &request->trail, is_reset ? EVENT_rejected : EVENT_confirmed, 0);
    if (is_reset) {
        request_drop(side, request, REASON_client_reset);
    } else if (request->is_delivering) {
        finish_acknowledged(side, request);
    }
}
