/* SPDX-License-Identifier: BSD-2-Clause */
/* What Observe in a client's request asks for (RFC 7641 sections 2 and 4.1). */
#ifndef CRIPROXY_REGISTRATION_H
#define CRIPROXY_REGISTRATION_H

#include "client/request.h"
#include "fetch/make.h"

struct request_options;

/**
 * A request has come under the token of @p leg: the observer under that token is removed and
 * freed, unless the request registers again (OBS-4, OBS-24).
 */
void registration_on_request(struct client_side *side, const struct leg *leg,
                             const struct request_options *options);

/** Whether the request is a registration; false where observe.max is 0. */
bool registration_is_one(const struct client_side *side, const struct request_options *options);

/**
 * Deal with @p request, which is a registration.
 *
 * @param recipe what its fetch was made from.
 * @return whether it has been answered, or waits for an answer; if not, it is to be forwarded.
 */
bool registration_take(struct client_side *side, struct request *request,
                       const struct fetch_recipe *recipe);

#endif
