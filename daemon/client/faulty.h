/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults of a lab (context/faults.h) between clients and the proxy. Only for a side that has
 * faults.
 */
#ifndef CRIPROXY_CLIENT_FAULTY_H
#define CRIPROXY_CLIENT_FAULTY_H

#include "context/faults.h"

struct client_side;
struct leg;
struct message;

/**
 * A message of a client, or to it; carried, perhaps late, twice or not at all.
 *
 * @param client where the client is; it is looked up.
 * @return false where no fault is for it: the caller goes on.
 */
bool faulty_message(struct client_side *side, const struct address *client, enum fault_way way,
                    const struct fault_parcel *parcel);

/**
 * A request of a client, before anything is done about it.
 *
 * @return whether a fault has taken it: it was answered, will never be, or comes later.
 */
bool faulty_request(struct client_side *side, struct leg *leg, const struct message *message,
                    const struct address *local);

#endif
