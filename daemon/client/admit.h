/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who is let in, and to what: the decisions of policy/access.h for what an engine has
 * at hand, and remembered where they are asked for often.
 */
#ifndef CRIPROXY_ADMIT_H
#define CRIPROXY_ADMIT_H

#include "client/leg.h"
#include "coap/reason.h"

struct engine;
struct target;

/**
 * Whether a datagram in the clear from @p remote is looked at; one that is not has been
 * counted, and nothing is sent: whoever it says it is from may not have sent it.
 */
bool admit_datagram(struct engine *engine, const struct address *remote);

/** Whether a connection may stay that has just been made. */
bool admit_connection(const struct engine *engine, const struct address *remote, uint32_t scheme,
                      const struct identity *identity);

/** REASON_none, or the refusal of a client that is not served. Fills in leg->standing. */
enum reason admit_client(const struct engine *engine, struct leg *leg);

/* What finds the addresses of a target that is a name. */
enum admit_resolver {
    ADMIT_RESOLVER_BY_ROUTE, /* what the routes say: for a request that has no next hop yet */
    ADMIT_RESOLVER_PROXY,    /* this proxy: admit_address() follows for each address */
    ADMIT_RESOLVER_PARENT,   /* a parent proxy: what is decided about the name is final */
};

/**
 * REASON_none, or why the client may not have the target. Fills in leg->rule.
 *
 * A refusal of a name is put off to admit_address() where a rule allows a range of
 * addresses and @p resolver is the proxy; a parent's addresses are never seen here.
 */
enum reason admit_target(struct engine *engine, struct leg *leg, const struct target *target,
                         uint8_t method, enum admit_resolver resolver);

/**
 * The same for one address of a target that is a name. Has to be asked again wherever an
 * answer that came from @p address for one client is about to be given to another.
 */
enum reason admit_address(struct engine *engine, struct leg *leg, const struct target *target,
                          uint8_t method, const struct address *address);

#endif
