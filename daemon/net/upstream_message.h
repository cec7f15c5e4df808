/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The message layer of RFC 7252 section 4 on a session of datagrams: message ids, confirmable
 * messages and their retransmission, acknowledgements, Resets, repeated messages. It is that of
 * plain UDP (origin/carrier_udp.c) for a peer that a session has authenticated. What is below it
 * only writes and reads datagrams, so it works in virtual time, too.
 *
 * Every message of an origin server may be anything: it is decoded and checked as over UDP, and
 * answers with unknown options go up as they are.
 */
#ifndef CRIPROXY_UPSTREAM_MESSAGE_H
#define CRIPROXY_UPSTREAM_MESSAGE_H

#include "coap/mid.h"
#include "net/upstream_internal.h"

/* Message ids of confirmable messages that were taken, so that a copy is acknowledged and not
 * handed on. An origin server that has more under way may have a copy of the oldest reset. */
#define MESSAGE_SEEN_MAX 64u

struct message_seen {
    uint32_t until_s; /* 0: none */
    uint16_t mid;
};

/* The state of one session. */
struct message_layer {
    /*
     * Sends one datagram, borrowed for the call. False: @p ret_status says why it has not left;
     * UPSTREAM_CLOSED: the session is dead.
     */
    bool (*write)(struct session *session, struct bytes datagram, enum upstream_status *ret_status);
    uint8_t *room; /* to encode a message in; borrowed, and not kept between two calls */
    size_t room_len;
    struct mid_space mids;
    uint32_t unacknowledged; /* messages that wait for an acknowledgement, a Ping included */
    bool is_pinging;
    uint16_t ping_mid;
    uint8_t seen_next;
    struct message_seen seen[MESSAGE_SEEN_MAX];
};

/** Begins; the layer is the caller's, and session->messages points to it. */
void upstream_message_begin(struct session *session, struct message_layer *layer);

/**
 * Sends a message. One of a request is CON or NON, as its type is, and is watched until an
 * acknowledgement, a response, or request_take_back(); one without is sent once, as NON.
 *
 * @param request NULL: the message has no owner any more
 * @return false: @p ret_status says why it has not left. Where the message ids are used up the
 *         session is leaving, and another one takes the message.
 */
bool upstream_message_send(struct session *session, const struct message *message,
                           struct upstream_request *request, enum upstream_status *ret_status);

/** Sends a Ping, once; session_pong() tells of the answer. @return false: the session is dead */
bool upstream_message_ping(struct session *session);

/** @return whether all confirmable messages were acknowledged */
bool upstream_message_is_acknowledged(const struct session *session);

/** A datagram of the origin server, borrowed for the call. May call handlers. */
void upstream_message_input(struct session *session, const uint8_t *data, size_t len);

#endif
