/* SPDX-License-Identifier: BSD-2-Clause */
/* Responses of origin servers: what may be passed on, and how. */
#ifndef CRIPROXY_RECEIVE_H
#define CRIPROXY_RECEIVE_H

#include "conf/config.h"

#include <stdbool.h>

struct fetch_side;
struct fetch;
struct message;

/**
 * A response to the request of @p fetch, whatever transport brought it: checked, and given to its
 * waiter or turned into a failure. The message layer has done its part. The fetch may be freed.
 *
 * @param message borrowed during the call.
 * @param truncated only the beginning of it is here: an error.
 */
void receive_response(struct fetch_side *side, struct fetch *fetch, const struct message *message,
                      bool truncated);

/**
 * Whether a response that came over @p scheme may be given to a client; false where its code or an
 * option is invalid.
 */
bool receive_is_usable(const struct message *message, const struct scheme *scheme);

#endif
