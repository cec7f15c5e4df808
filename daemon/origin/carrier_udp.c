/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams in the clear (RFC 7252 section 4).
 *
 * Matching (sections 4.4 and 5.3.2): an empty ACK or RST belongs to the request with its message
 * id, a response to the request with its token; always from the address the request went to, at
 * the source port it left from. A piggybacked response has to match in both.
 */
#include "origin/carrier_udp.h"

#include "context/capture.h"
#include "context/faults.h"
#include "origin/faulty.h"
#include "origin/origin.h"
#include "origin/side.h"

#include <errno.h>
#include <string.h>

static uint16_t mid_of(const struct sending *sending)
{
    return (uint16_t)(sending->datagram[2] << 8 | sending->datagram[3]);
}

/* Of what is out: origin servers that share an id at a port are few, and told apart by address.
 * Devices have keys of their own, with a bit that no port has. */
static uint64_t key_of_request(const struct port *port, uint16_t mid)
{
    return (uint64_t)port->family << 32 | (uint64_t)port->index << 16 | mid;
}

static struct bytes token_of_sending(const struct sending *sending)
{
    return (struct bytes){sending->datagram + MESSAGE_HEADER_LEN, sending->datagram[0] & 0x0fu};
}

/* --- sending ------------------------------------------------------------ */

static void deliver_out(void *owner, void *other, const struct udp_path *path, const uint8_t *data,
                        size_t len)
{
    const struct port *port = owner;
    (void)other;
    udp_send(port->socket, path, data, len);
}

/* What is of no request has the fault of the last one that its origin server was sent. */
static struct fault *port_fault_of(struct origin_side *side, struct sending *sending,
                                   const struct address *remote)
{
    if (sending != NULL) {
        return side->origins.calls->find_fault(side, sending);
    }
    const struct origin *origin = origin_find(&side->origins, remote, TRANSPORT_UDP);
    return origin != NULL && origin->fault > 0
               ? faults_by_number(&side->context, origin->fault - 1u)
               : NULL;
}

static struct fault_plan draw_for(struct origin_side *side, struct sending *sending,
                                  struct fault *fault, enum fault_way way, size_t len)
{
    const struct fault_plan plan = fault_draw_message(&side->context, fault, way, len);
    if (sending != NULL) {
        faulty_note(side, sending, &plan);
    }
    return plan;
}

/* What comes and goes at a port; @p sending: the request that it is of, or NULL. */
static void port_capture(struct port *port, const struct address *remote, struct bytes datagram,
                         struct sending *sending, bool is_out)
{
    struct origin_side *side = port->side;
    const struct capture_view view = {
        .is_out = is_out,
        .transport = TRANSPORT_UDP,
        .local = udp_local(port->socket),
        .remote = remote,
        .data = datagram,
        .exchange = sending != NULL ? side->origins.calls->exchange_of(side, sending) : 0};
    capture_add(&side->context, &view);
}

static bool port_send_faulty(struct port *port, const struct address *remote, struct bytes datagram,
                             struct sending *sending)
{
    struct context *context = &port->side->context;
    struct fault *fault = port_fault_of(port->side, sending, remote);
    if (fault == NULL) {
        return false;
    }
    const struct fault_parcel parcel = {.owner = port,
                                        .deliver = deliver_out,
                                        .path = {.remote = *remote},
                                        .data = datagram.data,
                                        .len = datagram.len};
    const struct fault_plan plan =
        draw_for(port->side, sending, fault, FAULT_TO_ORIGIN, datagram.len);
    fault_carry(context, &plan, &parcel);
    return true;
}

/* Whether a fault of a lab has taken it. */
__attribute__((cold, noinline)) static bool port_send_lab(struct port *port,
                                                          const struct address *remote,
                                                          struct bytes datagram,
                                                          struct sending *sending)
{
    if (port->side->context.capture != NULL) {
        port_capture(port, remote, datagram, sending, true);
    }
    return port->side->context.faults != NULL && port_send_faulty(port, remote, datagram, sending);
}

/* All that leaves goes here; @p sending: the request that it is, or NULL. */
static void port_send(struct port *port, const struct address *remote, struct bytes datagram,
                      struct sending *sending)
{
    if (port->side->context.lab == 0 || !port_send_lab(port, remote, datagram, sending)) {
        const struct udp_path path = {.remote = *remote};
        udp_send(port->socket, &path, datagram.data, datagram.len);
    }
}

static void transmit(struct sending *sending, uint64_t now_ms)
{
    if (!sending->is_group) { /* a group does not respond under its address */
        silence_on_send(&sending->origin->silence, sending->datagram_len, now_ms);
    }
    if (sending->device != NULL) {
        const struct device_line *line = &sending->device->line;
        (void)line->calls->send(line->owner, sending->datagram, sending->datagram_len);
        return;
    }
    port_send(sending->port, &sending->origin->address,
              (struct bytes){sending->datagram, sending->datagram_len}, sending);
}

static void udp_on_timer(void *context, struct timer *timer, uint64_t now_ms);

static void await_timeout(struct origin_side *side, struct sending *sending, uint64_t at_ms)
{
    timer_set(&side->context.wheel, &sending->timer,
              at_ms < sending->deadline_ms ? at_ms : sending->deadline_ms, udp_on_timer);
}

static void retransmit(struct origin_side *side, struct sending *sending, uint64_t now_ms)
{
    retransmission_next(&sending->again);
    metric_add(&side->context.metrics.upstream_retransmitted, 1);
    sending->origin->retransmitted++;
    sending_event(side, sending, EVENT_sent_again, mid_of(sending));
    transmit(sending, now_ms);
    await_timeout(side, sending, now_ms + sending->again.timeout_ms);
}

/* When it was last sent: each time-out is twice the one before. */
static uint64_t last_sent_ms(const struct sending *sending)
{
    uint32_t first_ms = sending->again.timeout_ms >> sending->again.count;
    return sending->sent_ms + sending->again.timeout_ms - first_ms;
}

/* Whether there is nothing left to be done for it, when its timer has run out. */
static bool is_over(const struct sending *sending, uint64_t now_ms)
{
    if (now_ms >= sending->deadline_ms) {
        return true;
    }
    return sending->is_confirmable
               ? retransmission_is_over(&sending->again, sending->scheme->max_retransmit)
               : !sending->is_outstanding; /* it has waited for a late answer */
}

static void udp_on_timer(void *context, struct timer *timer, uint64_t now_ms)
{
    struct origin_side *side = context;
    struct sending *sending = HASH_ENTRY(timer, struct sending, timer);
    if (sending->is_outstanding &&
        window_on_loss(&sending->origin->window, last_sent_ms(sending), now_ms)) {
        metric_add(&side->context.metrics.upstream_losses, 1);
    }
    if (is_over(sending, now_ms)) {
        sending_timed_out(side, sending);
    } else if (sending->is_confirmable) {
        retransmit(side, sending, now_ms);
    } else {
        /* A NON that is unanswered when an ACK would be overdue counts as lost, and is no longer
         * outstanding in the window: silence_is_on() sees to the rate (MSG-32). It may still be
         * answered. */
        await_timeout(side, sending, sending->sent_ms + sending->scheme->non_lifetime);
        sending_settle(side, sending, false);
    }
}

static enum carrier_result carrier_udp_send(struct origin_side *side, struct sending *sending)
{
    struct origin *origin = sending->origin;
    uint64_t now_ms = context_now_ms(&side->context);
    struct port *port = sending->port; /* where it was sent before: it is known there by that */
    uint16_t mid;
    if ((port == NULL || !origin_take_mid_of(side, origin, port, &mid)) &&
        !origin_take_mid(side, origin, &port, &mid)) {
        metric_add(&side->context.metrics.message_ids_exhausted, 1);
        return CARRIER_WAITS;
    }
    sending->port = port;
    sending->is_confirmable = sending->is_confirmable && !sending->is_group; /* section 8.1 */
    carrier_udp_begin(side, sending, mid, key_of_request(port, mid));
    transmit(sending, now_ms);
    return CARRIER_SENT;
}

void carrier_udp_begin(struct origin_side *side, struct sending *sending, uint16_t mid,
                       uint64_t key)
{
    uint64_t now_ms = context_now_ms(&side->context);
    sending->is_sent = true;
    sending->datagram[2] = (uint8_t)(mid >> 8);
    sending->datagram[3] = (uint8_t)mid;
    if (!sending->is_confirmable) {
        sending->datagram[0] = (uint8_t)((sending->datagram[0] & 0xcfu) | MESSAGE_NON << 4);
    }
    hash_map_add(&side->origins.requests, &sending->by_message, key);
    retransmission_begin(&sending->again, sending->scheme->ack_timeout,
                         sending->scheme->ack_random_factor, entropy_u64(&side->context.entropy));
    if (!sending->is_group) {
        await_timeout(side, sending, now_ms + sending->again.timeout_ms);
    }
    sending_event(side, sending, EVENT_sent, mid);
}

static void carrier_udp_cancel(struct origin_side *side, struct sending *sending)
{
    (void)side;
    hash_map_remove(&sending->by_message);
}

static void carrier_udp_ping(struct origin_side *side, struct origin *origin)
{
    uint8_t empty[MESSAGE_HEADER_LEN];
    struct port *port;
    if (!origin_take_mid(side, origin, &port, &origin->ping_mid)) {
        return; /* the next one is due soon enough */
    }
    origin->ping_port = port;
    message_write_empty(empty, MESSAGE_CON, origin->ping_mid);
    metric_add(&side->context.metrics.upstream_pings, 1);
    silence_on_send(&origin->silence, sizeof(empty), context_now_ms(&side->context));
    port_send(port, &origin->address, (struct bytes){empty, sizeof(empty)}, NULL);
}

const struct carrier carrier_udp = {
    .send = carrier_udp_send,
    .cancel = carrier_udp_cancel,
    .ping = carrier_udp_ping,
};

/* --- what comes back ---------------------------------------------------- */

static struct sending *by_mid(const struct port *port, const struct address *remote, uint16_t mid)
{
    const struct origin_side *side = port->side;
    struct hash_node *node = hash_map_find(&side->origins.requests, key_of_request(port, mid));
    for (; node != NULL; node = hash_map_find_next(node)) {
        struct sending *sending = HASH_ENTRY(node, struct sending, by_message);
        if (address_equal(&sending->origin->address, remote)) {
            return sending;
        }
    }
    return NULL;
}

static struct sending *by_token(const struct port *port, const struct address *remote,
                                struct bytes token)
{
    struct origin_side *side = port->side;
    struct sending *sending = side->origins.calls->by_token(side, token);
    if (sending == NULL || sending->origin == NULL || sending->port != port) {
        return NULL;
    }
    /* The members of a group answer from addresses of their own (RFC 7252 section 8.2). */
    bool is_match = sending->is_group ? !address_is_multicast(remote)
                                      : address_equal(&sending->origin->address, remote);
    return is_match ? sending : NULL;
}

static void send_empty(struct port *port, const struct address *remote, enum message_type type,
                       uint16_t mid)
{
    uint8_t empty[MESSAGE_HEADER_LEN];
    message_write_empty(empty, type, mid);
    port_send(port, remote, (struct bytes){empty, sizeof(empty)}, NULL);
}

/* Whether @p mid is that of a Ping to @p remote: it has been heard of. */
static bool is_pong(struct port *port, const struct address *remote, uint16_t mid)
{
    struct origin_side *side = port->side;
    struct origin *origin = origin_find(&side->origins, remote, TRANSPORT_UDP);
    if (origin == NULL || origin->ping_port != port || origin->ping_mid != mid) {
        return false;
    }
    origin->ping_port = NULL;
    origin_on_heard(side, origin);
    return true;
}

/* ACK and RST: the verdict on a request of ours, perhaps with the answer (MSG-11, MSG-12). */
static void on_verdict(struct port *port, const struct datagram *datagram,
                       const struct message *message)
{
    struct origin_side *side = port->side;
    const struct address *remote = &datagram->path.remote;
    struct sending *sending = by_mid(port, remote, message->mid);
    bool is_empty = message->code == CODE_EMPTY;
    bool is_ack = message->type == MESSAGE_ACK;
    if (sending == NULL && is_empty && is_pong(port, remote, message->mid)) {
        return;
    }
    if (sending == NULL ||
        (!is_empty && (!is_ack || !message_is_response(message) ||
                       !bytes_equal(message->token, token_of_sending(sending))))) {
        metric_add(&side->context.metrics.upstream_unmatched, 1);
    } else if (!is_empty) {
        sending_answered(side, sending, message, datagram->truncated);
    } else if (!is_ack) {
        silence_on_heard(&sending->origin->silence);
        sending_failed(side, sending, REASON_origin_reset, NULL);
    } else if (sending->stage == SENDING_OUT && !sending->is_group) {
        sending_acknowledged(side, sending);
    }
}

/*
 * Whether a message for a request that is kept is one that was dealt with already; any other
 * request is over after its answer.
 */
static bool is_repeated_notification(const struct origin_side *side, const struct sending *sending,
                                     const struct message *message)
{
    struct bytes answer;
    return sending->is_kept && message->type == MESSAGE_CON &&
           dedup_find(
               &side->dedup,
               key_of_origin(KEY_ORIGIN_RESPONSE, sending->origin, sending->port, message->mid),
               context_now_ms(&side->context), &answer);
}

/* Members have no slots: the request's token and their address, as 61 bits of a hash. */
static uint64_t key_of_member(const struct sending *sending, const struct address *member,
                              uint16_t mid)
{
    struct bytes token = token_of_sending(sending);
    uint64_t hash = hash_mix(address_hash(member, hash_bytes(token.data, token.len, 0)), mid);
    return (uint64_t)KEY_MEMBER_RESPONSE << 61 | hash >> 3;
}

/*
 * A response from a member of a group. One may send several (MCAST-8), but each counts once,
 * CON or NON, however often the network brings it (RFC 7252 section 4.5).
 */
static void on_member(struct port *port, const struct datagram *datagram, struct sending *sending,
                      const struct message *message)
{
    struct origin_side *side = port->side;
    const struct address *remote = &datagram->path.remote;
    uint64_t now_ms = context_now_ms(&side->context);
    uint64_t key = key_of_member(sending, remote, message->mid);
    struct bytes none = {0}, answer;
    if (message->type == MESSAGE_CON) {
        send_empty(port, remote, MESSAGE_ACK, message->mid);
    }
    if (dedup_find(&side->dedup, key, now_ms, &answer)) {
        metric_add(&side->context.metrics.upstream_duplicate, 1);
        return;
    }
    dedup_add(&side->dedup, DEDUP_SAFE, key, none, now_ms, sending->scheme->exchange_lifetime);
    if (!datagram->truncated) {
        side->origins.calls->on_member(side, sending, message, remote);
    }
}

/* A separate response; a CON one is acknowledged, as often as it comes (MSG-20). */
static void on_separate(struct port *port, const struct datagram *datagram,
                        const struct message *message)
{
    struct origin_side *side = port->side;
    const struct address *remote = &datagram->path.remote;
    bool is_con = message->type == MESSAGE_CON;
    struct sending *sending = by_token(port, remote, message->token);
    if (sending != NULL && sending->is_group) {
        on_member(port, datagram, sending, message);
        return;
    }
    if (sending != NULL && !is_repeated_notification(side, sending, message)) {
        if (is_con) {
            struct bytes none = {0};
            uint64_t key = key_of_origin(KEY_ORIGIN_RESPONSE, sending->origin, port, message->mid);
            send_empty(port, remote, MESSAGE_ACK, message->mid);
            dedup_add(&side->dedup, DEDUP_SAFE, key, none, context_now_ms(&side->context),
                      sending->scheme->exchange_lifetime);
        }
        sending_answered(side, sending, message, datagram->truncated);
        return;
    }
    const struct origin *origin = origin_find(&side->origins, remote, TRANSPORT_UDP);
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
    struct sending *sending =
        message->type == MESSAGE_ACK ? by_mid(port, remote, message->mid) : NULL;
    if (sending != NULL) {
        sending->has_malformed = true;
    }
    if (message->type == MESSAGE_CON) {
        send_empty(port, remote, MESSAGE_RST, message->mid);
    }
}

/* The request that a message is about, or NULL. */
static struct sending *sending_of(struct port *port, const struct datagram *datagram,
                                  const struct message *message)
{
    const struct address *remote = &datagram->path.remote;
    bool is_verdict = message->type == MESSAGE_ACK || message->type == MESSAGE_RST;
    return is_verdict ? by_mid(port, remote, message->mid) : by_token(port, remote, message->token);
}

/* The request that a datagram is about, or NULL. */
static struct sending *sending_of_datagram(struct port *port, const struct datagram *datagram)
{
    struct message message;
    return message_decode(datagram->data, datagram->len, &message) == MESSAGE_OK
               ? sending_of(port, datagram, &message)
               : NULL;
}

static void port_receive(struct port *port, const struct datagram *datagram)
{
    struct origin_side *side = port->side;
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

/* Past the faults of a lab: a reader of messages sees it. */
static void port_receive_seen(struct port *port, const struct datagram *datagram)
{
    if (port->side->context.capture != NULL) {
        port_capture(port, &datagram->path.remote, (struct bytes){datagram->data, datagram->len},
                     sending_of_datagram(port, datagram), false);
    }
    port_receive(port, datagram);
}

static void deliver_in(void *owner, void *other, const struct udp_path *path, const uint8_t *data,
                       size_t len)
{
    const struct datagram datagram = {.data = data, .len = len, .path = *path};
    (void)other;
    port_receive_seen(owner, &datagram);
}

/* Whether a fault has taken the datagram. */
static bool take_faulty(struct port *port, const struct datagram *datagram)
{
    struct origin_side *side = port->side;
    const struct address *remote = &datagram->path.remote;
    struct sending *sending = sending_of_datagram(port, datagram);
    struct fault *fault = datagram->truncated ? NULL : port_fault_of(side, sending, remote);
    if (fault == NULL) {
        return false;
    }
    const struct fault_parcel parcel = {port,           NULL,           deliver_in,
                                        datagram->path, datagram->data, datagram->len};
    const struct fault_plan plan = draw_for(side, sending, fault, FAULT_FROM_ORIGIN, datagram->len);
    fault_carry(&side->context, &plan, &parcel);
    return true;
}

__attribute__((cold, noinline)) static void take_lab(struct port *port,
                                                     const struct datagram *datagram)
{
    if (port->side->context.faults == NULL || !take_faulty(port, datagram)) {
        port_receive_seen(port, datagram);
    }
}

static void carrier_udp_on_datagram(void *context, struct udp_socket *socket,
                                    const struct datagram *datagram)
{
    (void)socket;
    struct port *port = context;
    if (port->side->context.lab != 0) {
        take_lab(port, datagram);
    } else {
        port_receive(port, datagram);
    }
}

/* An ICMP error counts only with the token of the request it quotes (MSG-34). */
static void carrier_udp_on_error(void *context, struct udp_socket *socket,
                                 const struct address *remote, int error, const uint8_t *quoted,
                                 size_t quoted_len)
{
    (void)socket;
    struct port *port = context;
    struct origin_side *side = port->side;
    struct bytes token = {0};
    if (quoted_len >= MESSAGE_HEADER_LEN) {
        token.data = quoted + MESSAGE_HEADER_LEN;
        token.len = quoted[0] & 0x0fu;
    }
    if (token.len == 0 || quoted_len < MESSAGE_HEADER_LEN + token.len) {
        /* Its host is there again: what waits will be told the same. */
        if (quoted_len >= MESSAGE_HEADER_LEN && quoted[1] == CODE_EMPTY) {
            (void)is_pong(port, remote, (uint16_t)(quoted[2] << 8 | quoted[3]));
        }
        return;
    }
    struct sending *sending = by_token(port, remote, token);
    if (sending == NULL || mid_of(sending) != (quoted[2] << 8 | quoted[3])) {
        return;
    }
    switch (error) {
    case ECONNREFUSED:
        silence_on_heard(&sending->origin->silence); /* the host is there, and refuses */
        sending_failed(side, sending, REASON_origin_refused, NULL);
        break;
    case EMSGSIZE:
        sending_failed(side, sending, REASON_request_too_large, NULL);
        break;
    default:
        sending_failed(side, sending, REASON_no_route, NULL);
        break;
    }
}

const struct udp_handler carrier_udp_handler = {carrier_udp_on_datagram, carrier_udp_on_error};
