/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether a target, and each of its addresses, may be asked on behalf of a client: the decisions of
 * policy/access.h, with what an engine has at hand.
 */
#ifndef CRIPROXY_ADMIT_H
#define CRIPROXY_ADMIT_H

#include "base/address.h"
#include "coap/reason.h"
#include "coap/transport.h"
#include "policy/asker.h"

struct config;
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

/*
 * Where the proxy itself is: the addresses of its host, and those that it listens on. A request
 * that would be sent there is for the proxy (TGT-3, TGT-4), and rules can close the host to
 * clients (policy.own-host).
 */

#define OWN_ADDRESSES_MAX 1024
#define OWN_ENTRANCES_MAX 128

/* An address that a listener is bound to. */
struct own_entrance {
    struct address bound;
    enum transport transport;
};

struct own_hosts {
    struct own_entrance entrances[OWN_ENTRANCES_MAX];
    uint32_t entrance_count;
    size_t count;
    uint64_t until_ms;
    struct address addresses[OWN_ADDRESSES_MAX]; /* the host's, looked up when needed */
};

/** Whether @p address leads to a listener for @p transport. */
bool own_hosts_has_entrance(struct own_hosts *own, uint64_t now_ms, enum transport transport,
                            const struct address *address);

/** Whether a listener for @p transport has @p port. */
bool own_hosts_has_port(const struct own_hosts *own, enum transport transport, uint16_t port);

/**
 * A listener is open at @p bound, which is copied. With more than OWN_ENTRANCES_MAX, more than
 * there are slots for listeners, it is left out.
 */
void own_hosts_open(struct own_hosts *own, enum transport transport, const struct address *bound);

/** It is closed; another at the same address stays. Cannot fail. */
void own_hosts_close(struct own_hosts *own, enum transport transport, const struct address *bound);

/**
 * Whether the host of @p target is one of proxy.names.
 *
 * @param is_listener_port whether a listener with the transport of the target's scheme has its
 *                         port: the names without a port are for these.
 */
bool admit_is_own_name(const struct config *config, const struct target *target,
                       bool is_listener_port);

/**
 * Whether a request for @p target is for the proxy itself: no form has named a target, or its host
 * is one of proxy.names, or it is the address of a listener (TGT-3).
 */
bool admit_is_own(struct fetch_side *side, const struct target *target);

#endif
