/* SPDX-License-Identifier: BSD-2-Clause */
/* Between observation.c, which has the protocol, and registration.c, which has the table. */
#ifndef CRIPROXY_OBSERVATION_INTERNAL_H
#define CRIPROXY_OBSERVATION_INTERNAL_H

#include "client/observation.h"
#include "fetch/make.h"

/**
 * It makes room: ends it at once and frees it. Its observers, and the clients that wait for it, are
 * told so once. Not under a caller that has it.
 */
void observation_displace(struct client_side *side, struct observation *observation);

/**
 * Frees its key and representation, and the slot. It has no fetch, waiting request or observer any
 * more.
 */
void observation_free(struct client_side *side, struct observation *observation);

/**
 * Have room for a latest state of @p len bytes. Where observe.bytes are in use, others may be
 * displaced: of the source that holds most of them, never of the one that @p observation is
 * charged to.
 *
 * @return false past observe.bytes where no source holds more than this one's would, and without
 *         memory; the latest state is as before then.
 */
bool observation_reserve(struct client_side *side, struct observation *observation, size_t len);

/** For observe.retry no registration is made for this key. */
void observation_remember_unobservable(struct client_side *side, const struct cache_key *key);

/** Look at the end of the turn whether the observation is still wanted. It is not freed before. */
void observation_check(struct client_side *side, struct observation *observation);

/** REASON_none, or why a reload has closed the way that its registration went. Cannot fail. */
enum reason observation_reason_against_way(const struct client_side *side,
                                           const struct observation *observation);

/** A 2.xx with Observe has come, or one without in the middle of an observation (OBS-17): it is
 * the latest state, told to all; @p is_registered: in an answer to a registration. Copied. May end
 * it; not freed before the turn's end. */
void observation_take_state(struct client_side *side, struct observation *observation,
                            const struct reply *reply, bool is_registered);

/** It is over: @p reply is the last word, for @p reason. Freed at the end of the turn. */
void observation_end(struct client_side *side, struct observation *observation, enum reason reason,
                     const struct reply *reply);

/** It is registered again in another turn, when the origin server takes requests. Cannot fail. */
void observation_renew(struct client_side *side, struct observation *observation);

/** That look: cancel, free, or leave it. */
void observation_settle(struct client_side *side, struct observation *observation);

/** The origin server's side of the registration: its owner is the observation. */
extern const struct waiter_calls observation_calls;

/**
 * Whether the latest state may be given to a client that asks now.
 *
 * @return false after its Max-Age, and where a request through the proxy has changed the target
 *         since (RFC 7252 section 5.9.1).
 */
bool observation_is_fresh(const struct client_side *side, const struct observation *observation);

/**
 * Register again, with the same token. A failure may end the observation at once: it must not be
 * used after that.
 */
void observation_register_again(struct client_side *side, struct observation *observation);

/**
 * Give the latest state to the client of @p request, and make it an observer; where that is
 * refused it gets a plain answer. The request is over, and freed unless its answer is delivered
 * separately.
 */
void observation_admit(struct client_side *side, struct observation *observation,
                       struct request *request, enum reason reason);

#endif
