/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which clients are let in: the decisions of policy/access.h, remembered where they are asked for
 * often. And what one client may take of the proxy: the section limits, or the first [limit NAME]
 * that is for it, found once for each set of rules (admit_client()) and kept in its peer.
 */
#ifndef CRIPROXY_ADMISSION_H
#define CRIPROXY_ADMISSION_H

#include "client/leg.h"
#include "coap/reason.h"
#include "fetch/body.h"

struct client_side;

/** REASON_none, or the refusal of a client that is not served. Fills in leg->asker.standing. */
enum reason admit_client(const struct client_side *side, struct leg *leg);

/**
 * Requests that @p peer may have in flight: of its [limit NAME], or else of
 * limits.exchanges-per-client. Cannot fail.
 */
uint32_t limit_exchanges(const struct client_side *side, const struct peer *peer);

/**
 * Observations that @p peer may have: of its [limit NAME], or else of observe.per-client. Cannot
 * fail.
 */
uint32_t limit_observations(const struct client_side *side, const struct peer *peer);

/** Bodies that are kept for the client of @p leg, and its serial and address. */
struct body_owner limit_bodies(const struct client_side *side, const struct leg *leg);

/**
 * One more request over @p leg.
 *
 * @return REASON_none, and it is counted; or REASON_client_busy (RFC 8516).
 */
enum reason limit_take(struct client_side *side, const struct leg *leg);

/**
 * Whether a request is taken although its address may be forged (MSG-33).
 *
 * @return false, and counted, where much has been sent to that address already and @p message has
 *         no Echo of ours.
 */
bool limit_may_answer(struct client_side *side, struct leg *leg, const struct message *message);

/* Messages to addresses that may be forged, each kind limited over all addresses together. */
enum limit_rejection {
    LIMIT_RESETS,
    LIMIT_REFUSALS, /* 4.xx */
    LIMIT_CHALLENGES,
    LIMIT_REJECTIONS,
};

/** Whether one more may be sent (AMP-13); it is counted then. */
bool limit_may_reject(struct client_side *side, enum limit_rejection kind);

/**
 * Whether a request that limit_take() refused is met with silence: a client on datagrams
 * that does not heed 4.29 is told so limits.refusals times a second (RATE-3).
 */
bool limit_is_silent(struct client_side *side, const struct leg *leg);

#endif
