/* SPDX-License-Identifier: BSD-2-Clause */
#include "ask.h"

#include <cri/coap.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/random.h>

#define OPTION_URI 35u
#define OPTION_HOP_LIMIT 16u
/* Elective, safe to forward, part of the cache key, and of the range for experiments: with a
 * value of its own no cache on the way has an answer (RFC 7252 sections 5.4.6 and 12.2). */
#define OPTION_UNCACHED 65000u

#define CODE_GET WIRE_CODE(0, 1)
#define CODE_CSM WIRE_CODE(7, 1)
#define CODE_HOP_LIMIT_REACHED WIRE_CODE(5, 8)
#define REPEAT_MS 2000u /* at first, then twice as long each time (section 4.2) */
#define HEAD_MAX 64u    /* of a request, beside the target */

struct probe {
    struct link *link;
    enum wire_framing framing;
    uint16_t mid;
    uint8_t token[4];
    size_t request_len, come_len;
    uint8_t *request, *come; /* come: WIRE_MESSAGE_MAX */
};

static enum wire_framing framing_of(enum actor_way way)
{
    return way == WAY_TCP ? WIRE_STREAM : way == WAY_WS ? WIRE_WEBSOCKET : WIRE_DATAGRAM;
}

/* Random, so that only a host that sees the request can answer it; false: there is none. */
static bool write_request(struct probe *probe, const struct question *question, unsigned limit)
{
    uint8_t random[10], hops = (uint8_t)limit;
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
        return false;
    }
    memcpy(probe->token, random, sizeof(probe->token));
    memcpy(&probe->mid, random + 4, sizeof(probe->mid));
    struct wire_message message = {
        .framing = probe->framing,
        .type = WIRE_CON,
        .code = CODE_GET,
        .mid = probe->mid,
        .token = {probe->token, sizeof(probe->token)},
        .option_count = 3,
        .options = {
            {OPTION_HOP_LIMIT, {&hops, 1}},
            {question->form == FORM_CRI ? CRI_OPTION_PROXY_CRI : OPTION_URI, question->target},
            {OPTION_UNCACHED, {random + 6, 4}}}};
    probe->request_len = wire_encode(&message, probe->request, question->target.len + HEAD_MAX);
    return probe->request_len > 0;
}

static const char *send_empty(struct probe *probe, enum wire_type type, uint16_t mid)
{
    uint8_t buffer[4];
    struct wire_message message = {.framing = WIRE_DATAGRAM, .type = type, .mid = mid};
    return link_send(probe->link, buffer, wire_encode(&message, buffer, sizeof(buffer)));
}

/* CSM comes first on a connection (RFC 8323 section 5.3). */
static const char *send_settings(struct probe *probe)
{
    uint8_t buffer[8];
    struct wire_message message = {.framing = probe->framing, .code = CODE_CSM};
    return link_send(probe->link, buffer, wire_encode(&message, buffer, sizeof(buffer)));
}

static bool is_answer(const struct probe *probe, const struct wire_message *message)
{
    return message->code >> 5 >= 2 && message->code >> 5 <= 5 &&
           message->token.len == sizeof(probe->token) &&
           memcmp(message->token.data, probe->token, sizeof(probe->token)) == 0;
}

static void keep(const struct wire_message *message, struct reply *reply)
{
    reply->code = message->code;
    if (message->code == CODE_HOP_LIMIT_REACHED) {
        /* The proxy that refused put its name there first; each on the way back puts its own in
         * front: of a list that is too long, the end counts. */
        size_t skipped = message->payload.len > NAMES_MAX ? message->payload.len - NAMES_MAX : 0;
        reply->names_len = message->payload.len - skipped;
        if (reply->names_len > 0) {
            memcpy(reply->names, message->payload.data + skipped, reply->names_len);
        }
    }
}

/* @return true: @p reply is whole, with the answer or a fault. */
static bool take_message(struct probe *probe, const uint8_t *bytes, size_t len, struct reply *reply)
{
    static struct wire_message message;
    bool is_datagram = probe->framing == WIRE_DATAGRAM;
    if (wire_decode(probe->framing, bytes, len, &message) != NULL) {
        return false;
    }
    if (is_answer(probe, &message)) {
        if (is_datagram && message.type == WIRE_CON) {
            (void)send_empty(probe, WIRE_ACK, message.mid);
        }
        keep(&message, reply);
        return true;
    }
    if (is_datagram && message.type == WIRE_RST && message.mid == probe->mid) {
        reply->fault = "reset";
        return true;
    }
    return false;
}

/* What has come of a stream, message by message. */
static bool take_stream(struct probe *probe, struct reply *reply)
{
    size_t len;
    while ((len = wire_frame_len(probe->come, probe->come_len)) > 0 && len <= probe->come_len) {
        if (take_message(probe, probe->come, len, reply)) {
            return true;
        }
        memmove(probe->come, probe->come + len, probe->come_len - len);
        probe->come_len -= len;
    }
    if (probe->come_len == WIRE_MESSAGE_MAX) {
        reply->fault = "a message that is too long";
        return true;
    }
    return false;
}

/* Until @p deadline_ms. @return true: @p reply is whole. */
static bool listen_until(struct probe *probe, unsigned long long deadline_ms, struct reply *reply)
{
    for (;;) {
        size_t len = 0, kept = probe->framing == WIRE_STREAM ? probe->come_len : 0;
        enum arrival arrival = link_receive(probe->link, deadline_ms, probe->come + kept,
                                            WIRE_MESSAGE_MAX - kept, &len);
        if (arrival == ARRIVAL_NOTHING) {
            return false;
        }
        if (arrival == ARRIVAL_CLOSED) {
            reply->fault = "connection closed";
            return true;
        }
        probe->come_len = kept + len;
        if (probe->framing == WIRE_STREAM ? take_stream(probe, reply)
                                          : take_message(probe, probe->come, len, reply)) {
            return true;
        }
    }
}

static void converse(struct probe *probe, unsigned long long end_ms, struct reply *reply)
{
    unsigned long long start_us = link_now_us(), repeat_ms = REPEAT_MS;
    do {
        reply->fault = link_send(probe->link, probe->request, probe->request_len);
        if (reply->fault != NULL) {
            return;
        }
        unsigned long long until_ms = link_now_ms() + repeat_ms;
        if (probe->framing != WIRE_DATAGRAM || until_ms > end_ms) {
            until_ms = end_ms;
        }
        if (listen_until(probe, until_ms, reply)) {
            reply->time_us = link_now_us() - start_us;
            return;
        }
        repeat_ms *= 2;
    } while (link_now_ms() < end_ms);
    reply->fault = "no answer";
    reply->is_silent = true;
}

void ask(const struct question *question, unsigned limit, struct reply *ret_reply)
{
    unsigned long long end_ms = link_now_ms() + question->wait_ms;
    struct probe probe = {.framing = framing_of(question->proxy->way),
                          .request = malloc(question->target.len + HEAD_MAX),
                          .come = malloc(WIRE_MESSAGE_MAX)};
    *ret_reply = (struct reply){.fault = "no memory"};
    if (probe.request != NULL && probe.come != NULL && write_request(&probe, question, limit)) {
        ret_reply->fault = link_open(question->proxy, end_ms, &probe.link);
        if (ret_reply->fault == NULL && probe.framing != WIRE_DATAGRAM) {
            ret_reply->fault = send_settings(&probe);
        }
        if (ret_reply->fault == NULL) {
            converse(&probe, end_ms, ret_reply);
        }
    }
    link_close(probe.link);
    free(probe.request);
    free(probe.come);
}
