/* SPDX-License-Identifier: BSD-2-Clause */
/* What comes back from origin servers. */
#ifndef CRIPROXY_RECEIVE_H
#define CRIPROXY_RECEIVE_H

#include "conf/config.h"
#include "net/udp.h"

struct engine;
struct fetch;
struct message;

/** The handler of our source ports; the context is the struct port. */
extern const struct udp_handler receive_handler;

/**
 * A response to the request of @p fetch, whatever transport brought it: check it, and
 * give it to whom it is for. The message layer has done its part.
 *
 * @param truncated only the beginning of it is here.
 */
void receive_response(struct engine *engine, struct fetch *fetch, const struct message *message,
                      bool truncated);

/** Whether a response that came over @p transport may be given to a client: its code and options.
 */
bool receive_is_usable(const struct message *message, const struct config_scheme *scheme);

#endif
