/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which clients are served, and which targets they may reach: decisions over rules that the
 * configuration has compiled. No state, no I/O; the snapshot owns everything.
 *
 * Three questions, in this order:
 *
 *   access_standing()       is the client served at all?
 *   access_check_target()   may it have this target, as it is named?
 *   access_check_address()  and this one of the addresses of its name? Only where the
 *                           proxy resolves the name: not where a parent proxy does.
 *
 * The first rule that matches decides, in file order, whether it matches by a name or
 * by a range of addresses. Beyond that:
 *
 *   - A rule that allows a host name does not allow addresses: an address of the
 *     name is refused where the first rule with a range that it is in denies, wherever in the file
 * this rule is. The owner of a DNS zone chooses the addresses.
 *   - A rule that denies by a range covers all IPv6 addresses that lead to its IPv4
 *     addresses (policy/ranges.h); one that allows covers only its own range.
 *   - Reserved addresses (policy/ranges.h) are opened only by a rule that allows with a
 *     range, and ports that are not CoAP's only by one that allows with a port.
 *   - Devices (devices.zone) are for clients on loopback; a rule opens them to others only if it
 *     matches by a name.
 *   - A client that is served only because a rule names it may only send requests that rules allow.
 *
 * An allowance by name gives way to any denial by range because otherwise the owner of an
 * allowed zone could lead requests anywhere. While a name is not resolved, a refusal stands
 * only if no rule allows by range, as that rule may open it yet. Where a parent proxy resolves
 * the name, the refusal is final. Requests for localhost go to a parent only if policy allows
 * 127.0.0.1 and ::1.
 */
#ifndef CRIPROXY_ACCESS_H
#define CRIPROXY_ACCESS_H

#include "coap/reason.h"
#include "policy/rules.h"

/* Ports from first to last. */
struct port_range {
    uint16_t first, last;
};

/* Limits of one client; 0: the limit that holds for all clients. */
struct client_limits {
    struct access_rule clients; /* only its selectors of clients count */
    uint32_t rate, burst, exchanges, observations, bodies;
};

/* The access rules of a configuration, compiled. */
struct access {
    const struct access_rule *rules; /* in file order */
    uint32_t rule_count;
    const struct rule_index *index;
    const struct access_rule *admitting; /* the client selectors of rules that allow */
    uint32_t admitting_count;
    const struct rule_index *admission;
    const struct access_rule *clients; /* one: policy.clients */
    const struct rule_index *clients_index;
    const char *device_zone; /* devices.zone; "": none */
    bool is_open;            /* policy.targets = allow */
    bool has_address_allow;  /* some rule allows with a range */
    bool needs_secure_leg;   /* secure targets are for secure clients */
    bool selects_clients;    /* some rule names clients */
    const struct port_range *ports;
    uint32_t port_count;
    const struct client_limits *limits; /* in file order */
    uint32_t limits_count;
    const struct address_prefix *echo_exempt; /* clients whose address is trusted */
    uint32_t echo_exempt_count;
    const struct address_prefix *nat64;
    uint32_t nat64_count;
};

enum access_standing {
    STANDING_UNKNOWN, /* not looked up */
    STANDING_NONE,    /* not served */
    STANDING_BY_RULE, /* a rule that allows names it */
    STANDING_CLIENT,  /* one of policy.clients */
};

struct access_request {
    struct access_client client;
    enum access_standing standing; /* of the client: not UNKNOWN */
    const struct target *target;
    uint8_t method; /* code */
};

struct access_verdict {
    enum reason reason; /* REASON_none: allowed, as far as is known */
    const char *rule;   /* which decided: its name, or "builtin:..." */
    bool is_by_range;   /* a rule that allows a range of addresses has */
    bool is_named;      /* a rule that allows, with a pattern for the target */
    bool may_be_opened; /* a refusal of a name, whose addresses some rule may allow */
};

/* Prefix of names of decisions that no rule of the configuration made. */
#define ACCESS_BUILTIN "builtin:"

/**
 * The client as the functions below need it. @p identity is borrowed by the result and may be NULL.
 * An IPv4-mapped address becomes IPv4.
 */
struct access_client access_client_of(const struct address *address, uint32_t scheme,
                                      const struct identity *identity);

/** Whether clients with this scheme number use DTLS or TLS; false for an unknown number. */
bool access_is_secure_client(uint32_t scheme);

/**
 * The client's ACL class: whether it is served, and why. Never STANDING_UNKNOWN, cannot fail,
 * allocates nothing: cheap enough for every datagram.
 */
enum access_standing access_standing(const struct access *access,
                                     const struct access_client *client);

/**
 * Whether the address of a client on UDP is trusted without a challenge (policy.echo-exempt;
 * client/echo.h). False for an address outside all ranges.
 */
bool access_is_echo_exempt(const struct access *access, const struct address *address);

/**
 * The first limits in file order that match @p client, or NULL if none does. Borrowed from @p
 * access.
 */
const struct client_limits *access_limits(const struct access *access,
                                          const struct access_client *client);

/**
 * The reason for refusing a client that is not served: REASON_client_refused if it has
 * authenticated, else REASON_client_unknown.
 */
enum reason access_refusal(const struct identity *identity);

/**
 * May the client have the target? For an address this is the whole answer. For a name that
 * the proxy itself resolves each address is still to be checked, and a refusal that
 * may_be_opened is for them to decide. Where another proxy resolves the name, its addresses
 * are never seen here: then this is the whole answer as well. "localhost" and names below it are
 * allowed where 127.0.0.1 and ::1 are.
 */
struct access_verdict access_check_target(const struct access *access,
                                          const struct access_request *request);

/**
 * Whether the client may have the target at @p address, one of the addresses of the target's name.
 * The reason in the verdict is REASON_none if it may. The rule's name is borrowed from @p access.
 */
struct access_verdict access_check_address(const struct access *access,
                                           const struct access_request *request,
                                           const struct address *address);

/**
 * The proxy's own host: services there trust requests from it, and a firewall in front of the host
 * does not stop the proxy. So only clients on that host may reach them (SEC-20), in every spelling
 * of the address, unless a rule with a range has allowed it. A refusal by the rules stands.
 *
 * @param own     the host's addresses, @p own_count of them.
 * @param address of the target, or one of the addresses of its name; of no family: not known yet.
 * @param verdict of the rules; may become a refusal.
 */
void access_check_own_host(const struct access *access, const struct access_client *client,
                           const struct address *own, size_t own_count,
                           const struct address *address, struct access_verdict *verdict);

/** The rule of that name, as a text that lives as long as @p access; "-" where it is gone. */
const char *access_rule_name(const struct access *access, const char *name);

#endif
