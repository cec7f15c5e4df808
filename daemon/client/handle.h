/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests of clients, after the message layer: to a fetch or an answer. */
#ifndef CRIPROXY_HANDLE_H
#define CRIPROXY_HANDLE_H

#include "client/leg.h"
#include "coap/message.h"
#include "coap/reason.h"

#include <stdbool.h>
#include <stddef.h>

struct address;
struct client_side;

/**
 * Deal with a request that is no repetition: it is answered or refused before this returns, or a
 * struct request waits for its answer.
 *
 * @param leg     where its answer goes; token and method are filled in here; copied where it is
 *                kept.
 * @param message borrowed during the call.
 * @param local   the address and port that it came to.
 */
void request_handle(struct client_side *side, struct leg *leg, const struct message *message,
                    const struct address *local);

/**
 * All requests and observations of the client of @p peer make room for another client: each is told
 * once. None is in flight afterwards. May end and free any of them, and uses the engine's memory
 * for messages.
 */
void request_displace_all(struct client_side *side, struct peer *peer);

/** Answer a request for @p reason without a look at it. */
void request_refuse(struct client_side *side, struct leg *leg, const struct message *message,
                    enum reason reason);

#endif
