/* SPDX-License-Identifier: BSD-2-Clause */
/* Which clients are let in: the decisions of policy/access.h, remembered where they are asked
 * for often. */
#ifndef CRIPROXY_ADMISSION_H
#define CRIPROXY_ADMISSION_H

#include "client/leg.h"
#include "coap/reason.h"

struct client_side;

/**
 * Whether a datagram in the clear from @p remote is looked at; one that is not has been
 * counted, and nothing is sent: its source address may be forged.
 */
bool admit_datagram(struct client_side *side, const struct address *remote);

/**
 * Whether a connection that has just been made may stay; false where policy.clients refuses the
 * client.
 */
bool admit_connection(const struct client_side *side, const struct address *remote, uint32_t scheme,
                      const struct identity *identity);

/** REASON_none, or the refusal of a client that is not served. Fills in leg->asker.standing. */
enum reason admit_client(const struct client_side *side, struct leg *leg);

#endif
