/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Host names to addresses, asynchronously, on one loop: c-ares asks the DNS servers, as many
 * questions at once as the caller likes (origin/names.h has the caps and the shares). Names
 * that only the system knows (mDNS, other sources of nsswitch.conf) go to a pool of threads,
 * net/system_names.h, which no other name ever waits for. "localhost" and names below it have the
 * addresses of loopback, without a question (RFC 6761 section 6.3).
 * Only names that target_find() let through come here.
 */
#ifndef CRIPROXY_RESOLVE_H
#define CRIPROXY_RESOLVE_H

#include "base/address.h"

#include <stdbool.h>
#include <stdint.h>

struct loop;
struct resolve_question;
struct resolver;
struct system_names;

/* More addresses of one name than this are not looked at. */
#define RESOLVE_ADDRESSES_MAX 8

/* Longest host name that is asked for, RFC 1035's limit. */
#define RESOLVE_NAME_MAX 253

/* For addresses that do not come from DNS. */
#define RESOLVE_TTL_UNKNOWN UINT32_MAX

enum resolve_status {
    RESOLVE_OK,
    RESOLVE_NOT_FOUND, /* final: the name does not exist or has no address */
    RESOLVE_NO_ANSWER, /* no server answered in time */
    RESOLVE_FAILED,    /* servers refused, failed, or sent an invalid answer */
    RESOLVE_SHORTAGE,  /* this process ran out of descriptors or memory */
};

struct resolve_result {
    enum resolve_status status;
    uint32_t ttl_s; /* the shortest of the answer, or RESOLVE_TTL_UNKNOWN */
    size_t address_count;
    struct address addresses[RESOLVE_ADDRESSES_MAX]; /* with port 0 */
};

/** Called once for a question, in its loop's thread. @p result is borrowed. */
typedef void (*resolve_fn)(void *context, const struct resolve_result *result);

/* A query. All borrowed for the call. */
struct resolve_query {
    const char *name;
    size_t name_len; /* bytes */
    uint64_t source; /* the source that causes the query; sources share the system's threads */
    const char *const *servers; /* "ADDRESS:PORT" each; none: those of resolv.conf */
    size_t server_count;
    uint32_t timeout_ms; /* the tries are spread over this time; the caller withdraws a query that
                            takes longer */
    bool may_ask_system; /* for names that DNS does not know */
};

/**
 * @param system the threads for names that only the system knows, borrowed; NULL: there are none.
 * @return 0 or -errno. Free with resolver_free(), in the loop's thread or when it has ended.
 */
int resolver_new(struct loop *loop, struct system_names *system, struct resolver **ret_resolver);

/**
 * Withdraws every query, without a call of on_result, and frees the resolver; takes NULL. Before
 * loop_free().
 */
void resolver_free(struct resolver *resolver);

/**
 * Ask for the addresses of a name. In the loop's thread.
 *
 * @param ret_question for resolver_withdraw(); no longer valid once @p on_result is called.
 * @return 0, and @p on_result is called once, never from inside this call (not at all
 *         after resolver_withdraw() or resolver_free());
 *         -EINVAL for a text that is no host name (resolve_is_host_name());
 *         -ENOMEM, -EMFILE or another -errno when the process has no memory or descriptors.
 */
int resolver_ask(struct resolver *resolver, const struct resolve_query *query, resolve_fn on_result,
                 void *context, struct resolve_question **ret_question);

/** The answer is not wanted any more: nothing is held for it afterwards. Takes NULL. */
void resolver_withdraw(struct resolve_question *question);

/**
 * Whether @p name is letters, digits, '-', '_' in labels of 1 to 63 bytes, and its last label
 * nothing that a lax resolver takes for the number of an IPv4 address ("127.1", "0x7f000001").
 */
bool resolve_is_host_name(const char *name, size_t len);

#endif
