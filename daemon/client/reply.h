/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Answers to clients: piggybacked on the ACK, separate, or NON, as the request
 * and the time that has passed ask for (RFC 7252 section 5.2).
 */
#ifndef CRIPROXY_REPLY_H
#define CRIPROXY_REPLY_H

#include "fetch/exchange.h"

/* An answer to send. Where options and payload come from is the caller's. */
struct reply {
    uint8_t code;
    struct bytes options; /* encoded, of the origin server's answer; filtered on the way */
    struct bytes payload;
    uint32_t max_age_s; /* added where not 0 */
    bool is_aged;       /* max_age_s stands in for a Max-Age among the options, 0 too */
    bool has_observe;   /* a notification, or the answer to a registration: */
    uint32_t observe;   /* its sequence number */
    bool has_block1;    /* the request was the last block of an upload: */
    uint32_t block1;    /* its Block1 */
    bool has_block2;    /* the payload is a piece of a body, cut by the proxy: */
    uint32_t block2;    /* the value of Block2, in place of the origin server's; */
    uint32_t size2;     /* the whole body's length, told where not 0 */
    uint32_t size1;     /* with 4.13: the longest body that is taken, told where not 0 */
};

/*
 * What the proxy's own options add to those of the origin server: Observe, Max-Age, Block1,
 * Block2, Size2 and Size1 with their values, and a longer delta each. Leaving options out never
 * makes the rest longer.
 */
#define REPLY_OWN_OPTIONS_MAX 36u

/** The answer for @p reason: its code, Max-Age, and @p text (borrowed) or its own words. */
struct reply reply_of(enum reason reason, const char *text);

/**
 * As reply_of(), with the options that go with some reasons: Size1 where the request was too
 * large (RFC 7959 section 2.9.3), an empty Multicast-Timeout where that is missing
 * (draft-ietf-core-groupcomm-proxy section 5.2.1).
 */
struct reply reply_refusal(const struct engine *engine, enum reason reason, const char *text);

/** The options of an answer, for any framing. */
void reply_write_options(struct message_writer *writer, const struct reply *reply);

/** The answer as a datagram in @p buffer; empty where it does not fit. */
struct bytes reply_encode(uint8_t *buffer, size_t capacity, enum message_type type, uint16_t mid,
                          const struct leg *leg, const struct reply *reply);

/** Whether the client said that it does not want an answer of this class (RFC 7967). */
bool reply_is_unwanted(const struct leg *leg, uint8_t code);

/** Answer a request that has no exchange. */
void reply_at_once(struct engine *engine, struct leg *leg, const struct reply *reply);

/** Answer for @p reason, with the diagnostic @p text or the reason's own. */
void reply_reason_at_once(struct engine *engine, struct leg *leg, enum reason reason,
                          const char *text);

/**
 * Answer the exchange and end it, at once or, where the answer is separate and
 * confirmable, when the client has acknowledged it. What it held towards the
 * origin server must have been released.
 */
void reply_to_exchange(struct engine *engine, struct exchange *exchange, const struct reply *reply);

/**
 * Give the client one of several answers under its token; the exchange goes on. On
 * datagrams it is a NON, of which a RST ends the exchange while it is the latest one.
 * What does not fit is left out.
 */
void reply_one_of_many(struct engine *engine, struct exchange *exchange, const struct reply *reply);

/** As reply_to_exchange(), with the code and words of @p reason, or @p text. */
void reply_reason_to_exchange(struct engine *engine, struct exchange *exchange, enum reason reason,
                              const char *text);

/**
 * Acknowledge a confirmable request that gets no answer, unless that has been done.
 *
 * @return what repetitions are answered with; borrowed until the next message is made.
 */
struct bytes reply_acknowledge_only(struct engine *engine, struct exchange *exchange);

/**
 * End the exchange without an answer; a confirmable request is acknowledged all the
 * same (RFC 7252 section 4.2).
 */
void reply_nothing(struct engine *engine, struct exchange *exchange);

/** Whether @p reply, with the client's token, fits what the client takes. */
bool reply_fits(const struct engine *engine, const struct leg *leg, const struct reply *reply);

/**
 * Whether the message with @p reply has at most @p bytes; @p leg is of kind LEG_DATAGRAM.
 * Where that is close the message is made, in engine->scratch.
 */
bool reply_fits_datagram(const struct engine *engine, const struct leg *leg,
                         const struct reply *reply, size_t bytes);

/** Send the empty ACK that is due (or asked for by a repeated request). */
void reply_acknowledge(struct engine *engine, struct exchange *exchange);

/** Have repetitions of the request answered with @p answer (empty: silence). */
void reply_remember(struct engine *engine, const struct leg *leg, struct bytes answer);

/** The client's ACK (or RST) for a message of ours. */
void reply_on_acknowledged(struct engine *engine, struct exchange *exchange, bool is_reset);

#endif
