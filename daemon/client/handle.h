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

/** Answer a request for @p reason without a look at it. */
void request_refuse(struct client_side *side, struct leg *leg, const struct message *message,
                    enum reason reason);

#endif
