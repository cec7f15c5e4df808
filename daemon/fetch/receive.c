/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Matching (RFC 7252 sections 4.4 and 5.3.2): an empty ACK or RST belongs to the
 * request with its message id, a response to the request with its token; always
 * from the address the request went to, at the source port it left from. A
 * piggybacked response has to match in both.
 */
#include "fetch/receive.h"

#include "cache/freshness.h"
#include "coap/block.h"
#include "coap/option.h"
#include "fetch/forward.h"
#include "fetch/group.h"
#include "fetch/hops.h"
#include "fetch/rename.h"
#include "fetch/side.h"
#include "origin/probe.h"

#include <errno.h>

static struct fetch *by_mid(const struct port *port, const struct address *remote, uint16_t mid)
{
    const struct fetch_side *side = fetch_side_of(port->side);
    const struct origin *origin = origin_find(&side->origin.origins, remote);
    if (origin == NULL) {
        return NULL;
    }
    struct hash_node *node =
        hash_map_find(&side->fetches.map, key_of_origin(KEY_ORIGIN_REQUEST, origin, port, mid));
    return node != NULL ? HASH_ENTRY(node, struct fetch, by_message) : NULL;
}

static struct fetch *by_token(const struct port *port, const struct address *remote,
                              struct bytes token)
{
    struct fetch *fetch = fetch_by_token(&fetch_side_of(port->side)->fetches, token);
    if (fetch == NULL || fetch->origin == NULL || fetch->port != port) {
        return NULL;
    }
    /* The members of a group answer from addresses of their own (RFC 7252 section 8.2). */
    bool is_match = fetch->state == FETCH_collecting
                        ? !address_is_multicast(remote)
                        : address_equal(&fetch->origin->address, remote);
    return is_match ? fetch : NULL;
}

static uint16_t mid_of(const struct fetch *fetch)
{
    return (uint16_t)(fetch->datagram[2] << 8 | fetch->datagram[3]);
}

static void send_empty(struct port *port, const struct address *remote, enum message_type type,
                       uint16_t mid)
{
    uint8_t empty[MESSAGE_HEADER_LEN];
    struct udp_path path = {.remote = *remote};
    message_write_empty(empty, type, mid);
    udp_send(port->socket, &path, empty, sizeof(empty));
}

/*
 * RFC 7959 section 2.2: size 7 is for reliable transports, and a block that more follow is
 * whole. What the client would make of another one nobody knows (BLK-3, BLK-6).
 */
static bool is_good_block(const struct message *message, const struct option *option,
                          const struct scheme *scheme)
{
    const struct block block = block_of(option->value);
    if (config_is_datagram(scheme) && block.szx == BLOCK_SZX_BERT) {
        return false;
    }
    return option->number == OPTION_block1 || CODE_CLASS(message->code) != 2 || !block.more ||
           block_fits_payload(&block, message->payload.len);
}

/* An unsafe option that is not recognised makes an answer unusable (OPT-8, OPT-9). */
static bool has_bad_option(const struct message *message, const struct scheme *scheme)
{
    struct option_iter iter;
    struct option option;
    const struct option_row *last = NULL;
    option_iter_init(&iter, message->options);
    while (option_iter_next(&iter, &option)) {
        const struct option_row *row = option_row(option.number);
        bool is_recognised = row != NULL && row->in_response != OPTION_USE_NONE &&
                             option_length_is_good(row, option.value) &&
                             (row != last || row->repeats_in_response);
        last = row;
        bool is_block = option.number == OPTION_block1 || option.number == OPTION_block2;
        if (!is_recognised && option_is_unsafe(option.number)) {
            return true;
        }
        if (is_block && !is_good_block(message, &option, scheme)) {
            return true;
        }
    }
    return false;
}

/* Codes that may go to the client (MSG-40, MSG-41). */
static bool is_good_code(const struct message *message)
{
    unsigned class = CODE_CLASS(message->code);
    if (message->code == CODE(2, 31)) {
        return message_has_option(message, OPTION_block1);
    }
    return class == 2 || class == 4 || class == 5;
}

/* 2.31 asks for the next block (RFC 7959 section 2.9.1): of a request that has one. */
static bool is_stray_continue(const struct fetch *fetch, const struct message *answer)
{
    struct message request;
    struct bytes block1;
    return answer->code == CODE(2, 31) &&
           (message_decode(fetch->datagram, fetch->datagram_len, &request) != MESSAGE_OK ||
            !option_find(request.options, OPTION_block1, &block1) || !block_of(block1).more);
}

/* A diagnostic payload, not a representation (RFC 7252 section 5.5.2). */
static bool is_hop_limit_reached(const struct message *message)
{
    return message->code == CODE(5, 8) && !message_has_option(message, OPTION_content_format);
}

/*
 * A 5.08 on its way back takes our name along (HOP-5). One that has it already is not
 * passed on: the request has come around, and the 5.08 that says so is our own (HOP-6).
 */
static void pass_hop_limit_back(struct fetch_side *side, struct fetch *fetch,
                                const struct reply *reply)
{
    char trail[HOPS_TRAIL_MAX + 1];
    struct reply named = *reply;
    size_t len = 0;
    switch (hops_pass_back(side->context.config, reply->payload, trail, &len)) {
    case HOPS_LOOP:
        trail[len] = '\0';
        fetch_fail(side, fetch, REASON_hop_loop, trail);
        return;
    case HOPS_NAMED:
        named.payload = (struct bytes){(const uint8_t *)trail, len};
        break;
    case HOPS_UNCHANGED:
        break;
    }
    cached_answer(side, fetch, &named);
}

bool receive_is_usable(const struct message *message, const struct scheme *scheme)
{
    return is_good_code(message) && !has_bad_option(message, scheme);
}

/* How long the origin server took, sending again included; of an observation once. */
static void count_answer(struct fetch_side *side, const struct fetch *fetch)
{
    struct origin *origin = fetch->origin;
    uint32_t now_s = (uint32_t)(context_now_ms(&side->context) / 1000);
    bool is_awaited = fetch->state == FETCH_sent || fetch->state == FETCH_acknowledged;
    origin->answers++;
    if (side->origin_labels == NULL || !is_awaited) {
        return;
    }
    if (now_s >= origin->label_until_s) {
        origin->label = (uint8_t)origin_labels_take(side->origin_labels, &origin->address,
                                                    (uint8_t)origin->transport, now_s,
                                                    &origin->label_generation);
        origin->label_until_s = now_s + ORIGIN_LABEL_LOOK_S;
    }
    metrics_count_origin(&side->context.metrics, origin->label, origin->label_generation,
                         context_now_us(&side->context) - fetch->sent_us);
}

void receive_response(struct fetch_side *side, struct fetch *fetch, const struct message *message,
                      bool truncated)
{
    count_answer(side, fetch);
    trail_event(&side->context, fetch->trail, EVENT_answer, (uint32_t)message->payload.len);
    if (fetch->asking.name != NULL) { /* a notification: its address is in use still */
        names_forget(&side->origin, &fetch->asking);
        timer_cancel(&side->context.wheel, &fetch->timer);
    }
    forward_settle(side, fetch, true);
    if (truncated) {
        fetch_fail(side, fetch, REASON_response_too_large, NULL);
        return;
    }
    /* Before anything in it counts: libcoap's 4.02 has the option that it does not know. */
    if (rename_and_ask_again(side, fetch, message->code)) {
        return;
    }
    if (!receive_is_usable(message, fetch->hop.scheme) || is_stray_continue(fetch, message)) {
        fetch_fail(side, fetch, REASON_origin_invalid, NULL);
        return;
    }
    if (message->code == CODE(4, 29)) {
        throttle_note(&side->origin, &fetch->target, fetch->datagram[1],
                      freshness_max_age_s(message->options));
    }
    struct reply reply = {
        .code = message->code,
        .options = message->options,
        .payload = message->payload,
    };
    if (is_hop_limit_reached(message)) {
        pass_hop_limit_back(side, fetch, &reply);
    } else {
        cached_answer(side, fetch, &reply);
    }
}

/* ACK and RST: the verdict on a request of ours, perhaps with the answer (MSG-11, MSG-12). */
static void on_verdict(struct port *port, const struct datagram *datagram,
                       const struct message *message)
{
    struct fetch_side *side = fetch_side_of(port->side);
    const struct address *remote = &datagram->path.remote;
    struct fetch *fetch = by_mid(port, remote, message->mid);
    bool is_empty = message->code == CODE_EMPTY;
    bool is_ack = message->type == MESSAGE_ACK;
    if (fetch == NULL && is_empty && probe_on_response(port, remote, message->mid)) {
        return;
    }
    if (fetch == NULL || (!is_empty && (!is_ack || !message_is_response(message) ||
                                        by_token(port, remote, message->token) != fetch))) {
        metric_add(&side->context.metrics.upstream_unmatched, 1);
    } else if (!is_empty) {
        receive_response(side, fetch, message, datagram->truncated);
    } else if (!is_ack) {
        silence_on_heard(&fetch->origin->silence);
        fetch_fail(side, fetch, REASON_origin_reset, NULL);
    } else if (fetch->state == FETCH_sent) {
        forward_acknowledged(side, fetch);
    }
}

/*
 * Whether a message for a fetch that stays is one that was dealt with already; any other
 * fetch is over after its answer.
 */
static bool is_repeated_notification(const struct fetch_side *side, const struct fetch *fetch,
                                     const struct message *message)
{
    struct bytes answer;
    return fetch->is_own && message->type == MESSAGE_CON &&
           dedup_find(&side->dedup,
                      key_of_origin(KEY_ORIGIN_RESPONSE, fetch->origin, fetch->port, message->mid),
                      context_now_ms(&side->context), &answer);
}

/*
 * A response from a member of a group. One may send several (MCAST-8), but each counts once,
 * CON or NON, however often the network brings it (RFC 7252 section 4.5).
 */
static void on_member(struct port *port, const struct datagram *datagram, struct fetch *fetch,
                      const struct message *message)
{
    struct fetch_side *side = fetch_side_of(port->side);
    const struct address *remote = &datagram->path.remote;
    uint64_t now_ms = context_now_ms(&side->context);
    uint64_t key = key_of_member(fetch, remote, message->mid);
    struct bytes none = {0}, answer;
    if (message->type == MESSAGE_CON) {
        send_empty(port, remote, MESSAGE_ACK, message->mid);
    }
    if (dedup_find(&side->dedup, key, now_ms, &answer)) {
        metric_add(&side->context.metrics.upstream_duplicate, 1);
        return;
    }
    dedup_add(&side->dedup, DEDUP_SAFE, key, none, now_ms, fetch->hop.scheme->exchange_lifetime);
    if (!datagram->truncated) {
        group_on_response(side, fetch, message, remote);
    }
}

/* A separate response; a CON one is acknowledged, as often as it comes (MSG-20). */
static void on_separate(struct port *port, const struct datagram *datagram,
                        const struct message *message)
{
    struct fetch_side *side = fetch_side_of(port->side);
    const struct address *remote = &datagram->path.remote;
    bool is_con = message->type == MESSAGE_CON;
    struct fetch *fetch = by_token(port, remote, message->token);
    if (fetch != NULL && fetch->state == FETCH_collecting) {
        on_member(port, datagram, fetch, message);
        return;
    }
    if (fetch != NULL && !is_repeated_notification(side, fetch, message)) {
        if (is_con) {
            struct bytes none = {0};
            uint64_t key = key_of_origin(KEY_ORIGIN_RESPONSE, fetch->origin, port, message->mid);
            send_empty(port, remote, MESSAGE_ACK, message->mid);
            dedup_add(&side->dedup, DEDUP_SAFE, key, none, context_now_ms(&side->context),
                      fetch->hop.scheme->exchange_lifetime);
        }
        receive_response(side, fetch, message, datagram->truncated);
        return;
    }
    const struct origin *origin = origin_find(&side->origin.origins, remote);
    struct bytes answer;
    bool is_repeated =
        is_con && origin != NULL &&
        dedup_find(&side->dedup, key_of_origin(KEY_ORIGIN_RESPONSE, origin, port, message->mid),
                   context_now_ms(&side->context), &answer);
    metric_add(is_repeated ? &side->context.metrics.upstream_duplicate
                           : &side->context.metrics.upstream_unmatched,
               1);
    if (is_con) {
        send_empty(port, remote, is_repeated ? MESSAGE_ACK : MESSAGE_RST, message->mid);
    }
}

/*
 * What cannot be read is dropped: it may have been damaged on the way, and a good one
 * may follow. If none does, the acknowledgement tells whose request it was (ERR-11).
 */
static void on_malformed(struct port *port, const struct address *remote,
                         const struct message *message)
{
    metric_add(&port->side->context.metrics.upstream_malformed, 1);
    struct fetch *fetch = message->type == MESSAGE_ACK ? by_mid(port, remote, message->mid) : NULL;
    if (fetch != NULL) {
        fetch->has_malformed = true;
    }
    if (message->type == MESSAGE_CON) {
        send_empty(port, remote, MESSAGE_RST, message->mid);
    }
}

static void receive_on_datagram(void *context, struct udp_socket *socket,
                                const struct datagram *datagram)
{
    (void)socket;
    struct port *port = context;
    struct fetch_side *side = fetch_side_of(port->side);
    struct message message;
    enum message_error error = message_decode(datagram->data, datagram->len, &message);
    if (error == MESSAGE_TOO_SHORT || error == MESSAGE_VERSION) {
        metric_add(&side->context.metrics.upstream_malformed, 1);
        return;
    }
    bool is_verdict = message.type == MESSAGE_ACK || message.type == MESSAGE_RST;
    if (error == MESSAGE_OK && is_verdict) {
        on_verdict(port, datagram, &message);
    } else if (error == MESSAGE_OK && message_is_response(&message)) {
        on_separate(port, datagram, &message);
    } else if (error != MESSAGE_OK) {
        on_malformed(port, &datagram->path.remote, &message);
    } else {
        /* A ping, or a request: this port serves neither. */
        metric_add(&side->context.metrics.upstream_unmatched, 1);
        if (message.type == MESSAGE_CON) {
            send_empty(port, &datagram->path.remote, MESSAGE_RST, message.mid);
        }
    }
}

/* An ICMP error counts only with the token of the request it quotes (MSG-34). */
static void receive_on_error(void *context, struct udp_socket *socket, const struct address *remote,
                             int error, const uint8_t *quoted, size_t quoted_len)
{
    (void)socket;
    struct port *port = context;
    struct fetch_side *side = fetch_side_of(port->side);
    if (quoted_len < 4 + FETCH_TOKEN_LEN) {
        /* Its host is there again: what waits will be told the same. */
        if (quoted_len >= 4 && quoted[1] == CODE_EMPTY) {
            (void)probe_on_response(port, remote, (uint16_t)(quoted[2] << 8 | quoted[3]));
        }
        return;
    }
    struct bytes token = {quoted + 4, FETCH_TOKEN_LEN};
    struct fetch *fetch = by_token(port, remote, token);
    if (fetch == NULL || mid_of(fetch) != (quoted[2] << 8 | quoted[3])) {
        return;
    }
    switch (error) {
    case ECONNREFUSED:
        silence_on_heard(&fetch->origin->silence); /* the host is there, and refuses */
        forward_failed(side, fetch, REASON_origin_refused, NULL);
        break;
    case EMSGSIZE:
        forward_failed(side, fetch, REASON_request_too_large, NULL);
        break;
    default:
        forward_failed(side, fetch, REASON_no_route, NULL);
        break;
    }
}

const struct udp_handler receive_handler = {receive_on_datagram, receive_on_error};
