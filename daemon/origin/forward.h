/* SPDX-License-Identifier: BSD-2-Clause */
/* The way to the origin server: encode, find the address, queue, send, send again. */
#ifndef CRIPROXY_FORWARD_H
#define CRIPROXY_FORWARD_H

#include "fetch/exchange.h"
#include "origin/encode.h"
#include "origin/origin.h"

/**
 * Encode the request to the next hop into the exchange's memory.
 *
 * @param request the client's message.
 * @param naming  which options name its target.
 * @return false where it does not fit.
 */
bool forward_encode(const struct engine *engine, struct exchange *exchange,
                    const struct message *request, const struct naming *naming,
                    const struct additions *additions);

/** Start: the exchange has its target and its datagram. May end it at once. */
void forward_start(struct engine *engine, struct exchange *exchange);

/** The addresses of its name are known. */
void forward_with_addresses(struct engine *engine, struct exchange *exchange,
                            const struct address *addresses, size_t count);

/**
 * The candidate address failed for @p reason: try the next one, or end.
 *
 * @param text diagnostic payload; NULL or "": the reason's own.
 */
void forward_failed(struct engine *engine, struct exchange *exchange, enum reason reason,
                    const char *text);

/** The origin acknowledged or answered: it counts no more in the window. */
void forward_settle(struct engine *engine, struct exchange *exchange, bool is_success);

/** What waits for @p origin may be sent, perhaps. */
void forward_resume(struct engine *engine, struct origin *origin);

/** The exchange stays for further answers: nothing is out, no time runs (state observing). */
void forward_keep(struct engine *engine, struct exchange *exchange);

/** It has failed and stays, to be sent again: nothing is held, not even its origin server. */
void forward_park(struct engine *engine, struct exchange *exchange);

/**
 * Send the request of an exchange in state observing once more, with the same token: to the same
 * address from the same source port, unless its host name has other addresses by now, none of
 * which is the present one; where it was parked, from the beginning. May end it at once.
 */
void forward_again(struct engine *engine, struct exchange *exchange);

/**
 * Send it as a deregistration to the address that it was sent to, of an exchange in state
 * observing that is not parked. May end it at once.
 *
 * @return false where it cannot be made one; nothing is sent then.
 */
bool forward_deregister(struct engine *engine, struct exchange *exchange);

/** What was sent is over: send the datagram that has taken its place, to the same address. */
void forward_renamed(struct engine *engine, struct exchange *exchange);

/** The origin has promised an answer: no more retransmissions. */
void forward_acknowledged(struct engine *engine, struct exchange *exchange);

/**
 * Let go of queue, window, origin and timer. Others that waited may be sent, but none ends: what
 * is borrowed from a store stays there.
 */
void forward_release(struct engine *engine, struct exchange *exchange);

#endif
