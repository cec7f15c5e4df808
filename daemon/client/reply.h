/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Answers to clients: piggybacked on the ACK, separate, or NON, as the request
 * and the time that has passed ask for (RFC 7252 section 5.2).
 */
#ifndef CRIPROXY_REPLY_H
#define CRIPROXY_REPLY_H

#include "client/request.h"
#include "coap/reply.h"

/*
 * Bytes that the proxy's own options add to those of the origin server: Observe, Max-Age, Block1,
 * Block2, Size2 and Size1 with their values, and a longer delta each. Leaving options out never
 * makes the rest longer.
 */
#define REPLY_OWN_OPTIONS_MAX 36u

/**
 * As reply_of(), with the options that go with some reasons: Size1 where the request was too
 * large (RFC 7959 section 2.9.3), an empty Multicast-Timeout where that is missing
 * (draft-ietf-core-groupcomm-proxy section 5.2.1).
 */
struct reply reply_refusal(const struct client_side *side, enum reason reason, const char *text);

/**
 * Write the options of an answer, for any framing: those of reply->options that are passed on, and
 * the proxy's own. Options that do not fit set the writer's error (overflow).
 */
void reply_write_options(struct message_writer *writer, const struct reply *reply);

/** The answer as a datagram in @p buffer, which the result borrows; empty where it does not fit. */
struct bytes reply_encode(uint8_t *buffer, size_t capacity, enum message_type type, uint16_t mid,
                          const struct leg *leg, const struct reply *reply);

/**
 * Whether the client said that it does not want an answer of this class (RFC 7967); false for a
 * client that did not say so.
 */
bool reply_is_unwanted(const struct leg *leg, uint8_t code);

/**
 * Answer a request that has no struct request. The reply is copied; on datagrams it is kept for
 * repetitions of the request. An answer that is too long for an unverified client is replaced by a
 * challenge.
 */
void reply_at_once(struct client_side *side, struct leg *leg, const struct reply *reply);

/** Answer for @p reason, with the diagnostic @p text or the reason's own. */
void reply_reason_at_once(struct client_side *side, struct leg *leg, enum reason reason,
                          const char *text);

/**
 * Answer the request and end it, at once or, where the answer is separate and
 * confirmable, when the client has acknowledged it. Its fetch must have been
 * left.
 */
void reply_to_request(struct client_side *side, struct request *request, const struct reply *reply);

/**
 * Send @p reply to a client of datagrams as a NON with the id @p mid, which was taken with
 * leg_take_mid(). One that cannot be sent is lost, as on the network.
 */
void reply_send_non(struct client_side *side, const struct leg *leg, uint16_t mid,
                    const struct reply *reply);

/**
 * Give the client one of several answers under its token; the request goes on. On datagrams it is
 * a NON; an RST ends the request while that is the latest one. Nothing is sent where the answer
 * does not fit, is not wanted, or no message id is free. @p reply is borrowed.
 */
void reply_one_of_many(struct client_side *side, struct request *request,
                       const struct reply *reply);

/** As reply_to_request(), with the code and words of @p reason, or @p text. */
void reply_reason_to_request(struct client_side *side, struct request *request, enum reason reason,
                             const char *text);

/**
 * End the request without an answer and free it; a confirmable request is acknowledged all the
 * same (RFC 7252 section 4.2).
 */
void reply_nothing(struct client_side *side, struct request *request);

/** Whether @p reply, with the client's token, fits the client's limit; false where it is too large.
 */
bool reply_fits(const struct client_side *side, const struct leg *leg, const struct reply *reply);

/**
 * Whether the message with @p reply has at most @p bytes; @p leg is of kind LEG_DATAGRAM. Where
 * that is close the message is made in context.scratch, whose bytes are not valid until the next
 * call then.
 */
bool reply_fits_datagram(const struct client_side *side, const struct leg *leg,
                         const struct reply *reply, size_t bytes);

/** Send the empty ACK that is due (or asked for by a repeated request). */
void reply_acknowledge(struct client_side *side, struct request *request);

/**
 * Keep @p answer (empty: silence) for repetitions of the request; copied. Nothing is kept once the
 * lifetime of the message id has passed.
 */
void reply_remember(struct client_side *side, const struct leg *leg, struct bytes answer);

/**
 * The client has acknowledged or, with @p is_reset, rejected a message of ours. A request under
 * delivery, or one that is rejected, is over: freed.
 */
void reply_on_acknowledged(struct client_side *side, struct request *request, bool is_reset);

#endif
