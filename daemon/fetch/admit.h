/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether a target, and each of its addresses, may be asked on behalf of a client: the decisions of
 * policy/access.h, with what an engine has at hand.
 */
#ifndef CRIPROXY_ADMIT_H
#define CRIPROXY_ADMIT_H

#include "coap/reason.h"
#include "policy/asker.h"

struct fetch_side;
struct target;

/* The proxy that finds the addresses of a target that is a name. */
enum admit_resolver {
    ADMIT_RESOLVER_BY_ROUTE, /* as the routes say: for a request that has no next hop yet */
    ADMIT_RESOLVER_PROXY,    /* this proxy: admit_address() follows for each address */
    ADMIT_RESOLVER_PARENT,   /* a parent proxy: what is decided about the name is final */
};

/**
 * REASON_none, or why the client may not have the target. Fills in leg->asker.rule.
 *
 * A refusal of a name is put off to admit_address() where a rule allows a range of
 * addresses and @p resolver is the proxy; a parent's addresses are never seen here.
 */
enum reason admit_target(struct fetch_side *side, struct asker *asker, const struct target *target,
                         uint8_t method, enum admit_resolver resolver);

/**
 * Whether an [access] section that allows has a pattern for the target as it is named, and decides:
 * what the configuration has for such requests alone may go along (CH-12). False where the default
 * policy opens it, or a range one of its addresses.
 */
bool admit_is_named(const struct fetch_side *side, const struct asker *asker,
                    const struct target *target, uint8_t method);

/**
 * The same for one address of a target that is a name, before it is used: REASON_none, or the
 * reason of the refusal.
 */
enum reason admit_address(struct fetch_side *side, struct asker *asker, const struct target *target,
                          uint8_t method, const struct address *address);

/**
 * Whether @p asker may have an answer that was fetched for another client: one from the cache, of
 * an equal fetch, or of an observation. The one place that judges that (SEC-20, CACHE-22).
 *
 * @param source the address it came from; NULL or of no family where it is not known, or a parent
 *               proxy resolves the name.
 * @return REASON_none, or why a rule refuses it.
 */
enum reason admit_answer(struct fetch_side *side, struct asker *asker, const struct target *target,
                         uint8_t method, const struct address *source);

#endif
