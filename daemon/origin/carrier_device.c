/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests to devices, over the session that they have opened, or to where they have registered
 * from. On DTLS the message layer is that of plain UDP; matching is too (RFC 7252 sections 4.4 and
 * 5.3.2), with the line in place of address and port: what comes over another device's line belongs
 * to none of this one's requests. Where another worker has the line, the request is passed on to
 * that one (origin/relay.h).
 */
#include "conf/config.h"
#include "origin/carrier_udp.h"
#include "origin/device.h"
#include "origin/relay.h"
#include "origin/side.h"
#include "origin/switchboard.h"

#include <errno.h>
#include <string.h>

/* A bit that no key of a source port has. */
static uint64_t key_of_asked(const struct device *device, uint16_t mid)
{
    return UINT64_C(1) << 63 | (uint64_t)device->number << 16 | mid;
}

static bool has_messages(const struct device *device)
{
    return device->line.calls->take_mid != NULL;
}

/* --- sending ------------------------------------------------------------ */

static void take_from_line(struct sending *sending)
{
    hash_map_remove(&sending->by_message);
    if (sending->device != NULL) {
        list_remove(&sending->device->out, &sending->on_device);
        sending->device = NULL;
    }
}

static void carrier_device_cancel(struct origin_side *side, struct sending *sending)
{
    take_from_line(sending);
    relay_cancel(side, sending);
}

static enum carrier_result fail_at_device(struct origin_side *side, struct sending *sending,
                                          enum reason reason)
{
    carrier_device_cancel(side, sending);
    timer_cancel(&side->context.wheel, &sending->timer);
    sending->reason = reason;
    sending->is_sent = false;
    return CARRIER_FAILED;
}

/* Another worker has the line: that one has the queue and the window as well. */
static enum carrier_result send_elsewhere(struct origin_side *side, struct sending *sending,
                                          struct device *device, const struct line_holding *holding)
{
    take_from_line(sending);
    enum reason reason = relay_send(side, sending, device, holding);
    if (reason != REASON_none) {
        return fail_at_device(side, sending, reason);
    }
    sending->line = holding->line;
    sending->again.count = 0;
    sending->is_sent = true; /* it may be, until that one says otherwise */
    sending_event(side, sending, EVENT_passed_on, holding->worker);
    sending_await_end(side, sending);
    return CARRIER_SENT;
}

/* What is sent for another worker is given back: that one waits, or asks on at the right place. */
static enum carrier_result find_no_line(struct origin_side *side, struct sending *sending,
                                        const struct device *device)
{
    carrier_device_cancel(side, sending);
    if (device != NULL && side->context.config->devices_wait > 0 && !sending->is_relayed) {
        return CARRIER_WAITS; /* for the device to come back */
    }
    return fail_at_device(side, sending,
                          device == NULL ? REASON_device_unknown : REASON_device_gone);
}

static enum carrier_result carrier_device_send(struct origin_side *side, struct sending *sending)
{
    struct device *device = device_at(side, &sending->origin->address);
    const struct line_holding holding =
        device != NULL ? holder_read(device->holder) : (struct line_holding){0};
    bool is_elsewhere = holding.is_held && holding.worker != side->context.worker_index;
    uint16_t mid = 0;
    if (is_elsewhere && !sending->is_relayed) {
        return send_elsewhere(side, sending, device, &holding);
    }
    if (!holding.is_held || is_elsewhere || device->line.owner == NULL) {
        return find_no_line(side, sending, device);
    }
    carrier_device_cancel(side, sending); /* what was sent before, under the same token */
    const struct device_line *line = &device->line;
    if (has_messages(device) && !line->calls->take_mid(line->owner, &mid)) {
        metric_add(&side->context.metrics.message_ids_exhausted, 1);
        return CARRIER_WAITS;
    }
    sending->device = device;
    sending->line = device->lines;
    list_add(&device->out, &sending->on_device);
    if (has_messages(device)) {
        carrier_udp_begin(side, sending, mid, key_of_asked(device, mid));
        silence_on_send(&sending->origin->silence, sending->datagram_len,
                        context_now_ms(&side->context));
    } else {
        sending->again.count = 0;
        sending->is_sent = true;
        sending_event(side, sending, EVENT_session, 0);
        sending_await_end(side, sending);
    }
    enum reason reason = line->calls->send(line->owner, sending->datagram, sending->datagram_len);
    return reason == REASON_none ? CARRIER_SENT : fail_at_device(side, sending, reason);
}

static void send_empty_to(const struct device *device, enum message_type type, uint16_t mid)
{
    uint8_t empty[MESSAGE_HEADER_LEN];
    message_write_empty(empty, type, mid);
    (void)device->line.calls->send(device->line.owner, empty, sizeof(empty));
}

static void carrier_device_ping(struct origin_side *side, struct origin *origin)
{
    const struct device *device = device_at(side, &origin->address);
    if (device == NULL || device->line.owner == NULL) {
        silence_on_heard(&origin->silence); /* a request will find out */
        return;
    }
    if (!has_messages(device)) {
        metric_add(&side->context.metrics.upstream_pings, 1);
        silence_on_send(&origin->silence, MESSAGE_HEADER_LEN, context_now_ms(&side->context));
        device->line.calls->ping(device->line.owner);
    } else if (device->line.calls->take_mid(device->line.owner, &origin->ping_mid)) {
        metric_add(&side->context.metrics.upstream_pings, 1);
        silence_on_send(&origin->silence, MESSAGE_HEADER_LEN, context_now_ms(&side->context));
        send_empty_to(device, MESSAGE_CON, origin->ping_mid);
    }
}

const struct carrier carrier_device = {
    .send = carrier_device_send,
    .cancel = carrier_device_cancel,
    .ping = carrier_device_ping,
};

/* --- what comes back ---------------------------------------------------- */

static struct sending *sending_of_mid(const struct origin_side *side, const struct device *device,
                                      uint16_t mid)
{
    struct hash_node *node = hash_map_find(&side->origins.requests, key_of_asked(device, mid));
    return node != NULL ? HASH_ENTRY(node, struct sending, by_message) : NULL;
}

/* The request that a response of @p device answers: sent over the line that it has now. */
static struct sending *sending_of_token(struct origin_side *side, const struct device *device,
                                        struct bytes token)
{
    struct sending *relayed = relay_by_token(side, token);
    struct sending *sending =
        relayed != NULL ? relayed : side->origins.calls->by_token(side, token);
    return sending != NULL && sending->device == device ? sending : NULL;
}

/* Whether @p mid is that of a Ping, by either of the two that send them. */
static bool is_pong_of_device(const struct origin_side *side, const struct device *device,
                              uint16_t mid)
{
    const struct address address = {.family = ADDRESS_DEVICE, .scope = device->number};
    const struct origin *origin = origin_find(&side->origins, &address, TRANSPORT_NONE);
    return (device->pings > 0 && mid == device->ping_mid) ||
           (origin != NULL && origin->silence.bytes > 0 && mid == origin->ping_mid);
}

/* An ACK or a Reset, perhaps with the answer. */
static bool take_verdict_of_device(struct origin_side *side, struct device *device,
                                   const struct message *message, bool truncated)
{
    struct sending *sending = sending_of_mid(side, device, message->mid);
    bool is_ack = message->type == MESSAGE_ACK;
    if (sending == NULL) {
        return !is_ack && message->code == CODE_EMPTY &&
               is_pong_of_device(side, device, message->mid);
    }
    if (message->code == CODE_EMPTY && !is_ack) {
        silence_on_heard(&sending->origin->silence);
        sending_failed(side, sending, REASON_origin_reset, NULL);
    } else if (message->code == CODE_EMPTY) {
        if (sending->stage == SENDING_OUT) {
            sending_acknowledged(side, sending);
        }
    } else if (is_ack && message_is_response(message) &&
               sending_of_token(side, device, message->token) == sending) {
        sending_answered(side, sending, message, truncated);
    } else {
        metric_add(&side->context.metrics.upstream_unmatched, 1);
    }
    return true;
}

static bool take_separate_of_device(struct origin_side *side, const struct device *device,
                                    const struct message *message, bool truncated)
{
    struct address address = {.family = ADDRESS_DEVICE, .scope = device->number};
    const struct origin *origin = origin_find(&side->origins, &address, TRANSPORT_NONE);
    struct sending *sending = sending_of_token(side, device, message->token);
    bool is_con = message->type == MESSAGE_CON;
    uint64_t now_ms = context_now_ms(&side->context);
    struct bytes none = {0}, answer;
    if (origin == NULL) {
        return false;
    }
    uint64_t key = key_of_device(KEY_ORIGIN_RESPONSE, origin, device, message->mid);
    bool is_repeated = is_con && dedup_find(&side->dedup, key, now_ms, &answer);
    if (sending == NULL && !is_repeated) {
        return false;
    }
    if (is_con) {
        send_empty_to(device, MESSAGE_ACK, message->mid);
    }
    if (is_repeated) {
        metric_add(&side->context.metrics.upstream_duplicate, 1);
        return true;
    }
    if (is_con) {
        dedup_add(&side->dedup, DEDUP_SAFE, key, none, now_ms, sending->scheme->exchange_lifetime);
    }
    sending_answered(side, sending, message, truncated);
    return true;
}

bool device_take(struct origin_side *side, struct device *device, const struct message *message,
                 bool truncated)
{
    bool is_verdict = message->type == MESSAGE_ACK || message->type == MESSAGE_RST;
    if (!has_messages(device)) {
        struct sending *sending = sending_of_token(side, device, message->token);
        if (sending != NULL && message_is_response(message)) {
            sending_answered(side, sending, message, truncated);
        }
        return sending != NULL;
    }
    if (is_verdict) {
        return take_verdict_of_device(side, device, message, truncated);
    }
    return message_is_response(message) &&
           take_separate_of_device(side, device, message, truncated);
}

void device_on_error(struct origin_side *side, const struct device *device, int error,
                     struct bytes quoted)
{
    struct sending *sending = NULL;
    if (quoted.len >= MESSAGE_HEADER_LEN) {
        sending = sending_of_mid(side, device, (uint16_t)(quoted.data[2] << 8 | quoted.data[3]));
    }
    size_t most = sending != NULL ? sending->datagram_len : 0;
    size_t len = quoted.len < most ? quoted.len : most;
    /* A forger has to know more than a message id: all that is quoted, at least the token. */
    if (sending == NULL || len < MESSAGE_HEADER_LEN + (sending->datagram[0] & 0x0fu) ||
        memcmp(quoted.data, sending->datagram, len) != 0) {
        return;
    }
    if (error == ECONNREFUSED) {
        silence_on_heard(&sending->origin->silence); /* the host is there, and refuses */
    }
    sending_failed(side, sending,
                   error == ECONNREFUSED ? REASON_origin_refused
                   : error == EMSGSIZE   ? REASON_request_too_large
                                         : REASON_no_route,
                   NULL);
}
