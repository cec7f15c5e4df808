/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Is a client where its datagrams say it is? A sender with a made-up address must not
 * have the proxy send much to it (RFC 7252 section 11.3). A client on UDP in the clear,
 * outside policy.echo-exempt, has to show once that it receives what is sent to it: it is
 * given a cookie in an Echo option with 4.01, and brings it back (RFC 9175 section 2.3).
 *
 *   unverified: a safe request is served; an answer longer than policy.echo-factor times
 *               the request is a challenge instead. A request that changes something or
 *               asks for many answers is challenged before it is forwarded. An answer that comes
 *               late is sent once, as NON.
 *   verified:   for policy.echo-time, as long as the client is remembered.
 *
 * Nothing is remembered of a challenge (net/cookie.h), so with cluster.secret-file another replica
 * may have given it. A session whose record comes from another address than before, by its
 * connection id (RFC 9146 section 6), is as unverified there, until it has brought the cookie back;
 * the answer goes to the new address, all else to the old one.
 */
#ifndef CRIPROXY_ECHO_H
#define CRIPROXY_ECHO_H

#include "client/leg.h"
#include "coap/reply.h"

struct client_side;
struct config;
struct datagram;

/** Bytes of our Echo values. */
#define ECHO_LEN 8u

/** Room for the options of a challenge. */
#define ECHO_OPTIONS_MAX (ECHO_LEN + 3u)

/**
 * Another snapshot is there: values that were given out under another cluster.secret-file than it
 * has are good no longer. @p before is the one that it replaces.
 */
void echo_set_config(struct client_side *side, const struct config *before);

/**
 * For each datagram: note in @p leg its length in bytes, and whether its client has still to show
 * its address. Cannot fail.
 */
void echo_note(const struct client_side *side, struct leg *leg, const struct datagram *datagram);

/**
 * Look at the Echo option of a request.
 *
 * @return whether it is ours, and is to be left out towards the next hop (AMP-6); its client
 *         is verified then.
 */
bool echo_take(struct client_side *side, struct leg *leg, struct bytes echo);

/**
 * Whether @p echo, which may be absent, has been given to the client of @p leg lately, at the
 * address that the request has come from: what echo_take() asks, of exempt clients, too. False
 * without memory.
 */
bool echo_is_good(struct client_side *side, const struct leg *leg, struct bytes echo);

/**
 * The reply to send in place of @p reply to a client that is_unverified, where that is too long for
 * one: a refusal of ours without its words, or the challenge.
 *
 * @return whether it is another one; false: send @p reply.
 */
bool echo_shorten(struct client_side *side, const struct leg *leg, const struct reply *reply,
                  uint8_t buffer[ECHO_OPTIONS_MAX], struct reply *ret_reply);

/**
 * The challenge (AMP-3): 4.01 with Echo. Its options are in @p buffer, which the reply borrows;
 * they are empty where no cookie can be made.
 */
struct reply echo_challenge(struct client_side *side, const struct leg *leg,
                            uint8_t buffer[ECHO_OPTIONS_MAX]);

#endif
