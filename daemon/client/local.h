/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests for the proxy itself (RFC 7252 section 5.7.2): its own few resources. */
#ifndef CRIPROXY_LOCAL_H
#define CRIPROXY_LOCAL_H

#include "client/leg.h"
#include "coap/message.h"
#include "coap/reason.h"

struct client_side;
struct target;

/**
 * Answer @p message, a request for @p target, which is the proxy itself; with an error where
 * it has no such resource. All arguments are borrowed during the call.
 */
void local_answer(struct client_side *side, struct leg *leg, const struct message *message,
                  const struct target *target);

#endif
