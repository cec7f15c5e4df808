/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests for the proxy itself (RFC 7252 section 5.7.2): its own few resources. */
#ifndef CRIPROXY_LOCAL_H
#define CRIPROXY_LOCAL_H

#include "coap/message.h"
#include "front/leg.h"

struct engine;
struct exchange;
struct segments;

/** Answer @p message, a request for the resource at @p path of the proxy itself. */
void local_answer(struct engine *engine, struct leg *leg, const struct message *message,
                  const struct segments *path);

/** The same for an exchange whose target's name turned out to be the proxy's own (TGT-4). */
void local_answer_exchange(struct engine *engine, struct exchange *exchange);

#endif
