/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests to groups (draft-ietf-core-groupcomm-proxy): sent once, as NON, to a multicast
 * address; the answers of its members that come within the time the client has asked for
 * with Multicast-Timeout go to it one by one, each with Reply-From, which names the member.
 *
 * The client's fetch is in state `collecting` from sending until that time is over. It
 * counts in the window of the group's address as one request to one server (MCAST-12).
 */
#ifndef CRIPROXY_GROUP_H
#define CRIPROXY_GROUP_H

#include "coap/target.h"
#include "fetch/fetch.h"

/**
 * Whether the target and the options of a group request go together, as far as they show
 * it: a name may lead to a group all the same.
 *
 * @return REASON_none, or why not.
 */
enum reason group_check(const struct config *config, const struct target *target,
                        const struct request_options *options);

/**
 * Whether @p address of the next hop may be sent to, as far as groups are concerned.
 *
 * @param is_group whether the request has Multicast-Timeout.
 * @return REASON_none, or why not.
 */
enum reason group_reason_against(const struct config *config, const struct next_hop *hop,
                                 bool is_group, const struct address *address);

/**
 * The request has been sent: wait for answers until the Multicast-Timeout of the client, or
 * multicast.timeout-max, has passed. Cannot fail.
 */
void group_collect(struct fetch_side *side, struct fetch *fetch);

/**
 * A member at @p remote has answered: passed on, or dropped when it is invalid or too long. @p
 * message is borrowed.
 */
void group_on_response(struct fetch_side *side, struct fetch *fetch, const struct message *message,
                       const struct address *remote);

#endif
