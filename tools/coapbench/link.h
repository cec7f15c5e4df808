/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How messages of many clients reach one peer. The load knows clients (numbers from
 * 0) and endpoints (where a client speaks from at the time, also a number), never
 * sockets, so that a record layer or a stream can stand behind the same calls.
 */
#ifndef COAPBENCH_LINK_H
#define COAPBENCH_LINK_H

#include "address.h"

#include <stdint.h>

struct link;

/** A message of the peer's, to @p client at @p endpoint; borrowed until the call returns. */
typedef void (*link_message_fn)(void *context, uint32_t client, uint32_t endpoint,
                                const uint8_t *data, size_t len);

/* Sessions or connections that were brought up. */
struct link_handshakes {
    uint32_t done;    /* all that are up now */
    uint32_t resumed; /* those of them without a key exchange */
    uint32_t failed;  /* clients without one */
    uint64_t ns;
};

struct link_ops {
    /* NULL: there is nothing to bring up. */
    int (*connect)(struct link *link, struct link_handshakes *ret_handshakes);
    int (*renew)(struct link *link, uint32_t client, uint32_t *ret_endpoint);
    /* NULL: there is nothing to open anew. */
    int (*reopen)(struct link *link, uint32_t client, uint64_t since_ns);
    void (*send)(struct link *link, uint32_t client, uint32_t endpoint, const uint8_t *data,
                 size_t len);
    int (*wait)(struct link *link, uint64_t timeout_ns);
    int (*deliver)(struct link *link, link_message_fn on_message, void *context);
    void (*close)(struct link *link);
    /* NULL: not told. */
    int (*descriptor)(const struct link *link, uint32_t client, uint32_t endpoint, bool *ret_is_up);
};

struct link {
    const struct link_ops *ops;
    uint64_t refused;  /* messages that the system would not send */
    uint64_t foreign;  /* datagrams from elsewhere than the peer, ignored */
    uint64_t reopened; /* sessions that were begun anew */
};

enum link_kind {
    LINK_UDP,
    LINK_DTLS,
    LINK_TCP,
    LINK_TLS,
    LINK_KINDS,
};

struct link_options {
    union address peer;
    uint32_t clients;
    bool own_sockets; /* a socket per client, even where an address per client would do */
    enum link_kind kind;
    const char *identity, *key; /* pre-shared, of coaps and coaps+tcp; borrowed */
    bool are_devices;           /* each client's number is behind the identity; none says goodbye */
    const char *suites;
};

enum {
    LINK_CLIENTS_MAX = 1 << 20,
};

/** Opens the transport of options->kind. @return 0 or -errno. */
int link_open(const struct link_options *options, struct link **ret_link);
int link_open_udp(const struct link_options *options, struct link **ret_link);
int link_open_dtls(const struct link_options *options, struct link **ret_link);
int link_open_stream(const struct link_options *options, struct link **ret_link);

/** As many descriptors as we are allowed; too few show as an error when they run out. */
void link_raise_descriptor_limit(void);

/**
 * Bring up the sessions of all clients, some at a time, and wait for them; where they
 * are up already, close them and bring them up again with the tickets they have.
 * Nothing over UDP. Messages that come to those that are up go to the function that link_deliver()
 * was called with last, if it was.
 *
 * @return 0, also where some have failed, or -errno.
 */
static inline int link_connect(struct link *link, struct link_handshakes *ret_handshakes)
{
    *ret_handshakes = (struct link_handshakes){0};
    return link->ops->connect == NULL ? 0 : link->ops->connect(link, ret_handshakes);
}

/**
 * Give @p client an endpoint that it has not had before, over UDP; the only one that it
 * has on a session or connection. @return 0 or -errno.
 */
static inline int link_renew(struct link *link, uint32_t client, uint32_t *ret_endpoint)
{
    return link->ops->renew(link, client, ret_endpoint);
}

/**
 * Begin a new session of @p client, from a new endpoint, in place of the one that it has: the peer
 * may have lost it. What is sent before it is up is lost. A connection is left open, as one that a
 * NAT has forgotten. Nothing where the session is up, or its handshake under way, since a time
 * after @p since_ns, where too many handshakes are under way, or over UDP.
 *
 * @return 0 or -errno.
 */
static inline int link_reopen(struct link *link, uint32_t client, uint64_t since_ns)
{
    return link->ops->reopen == NULL ? 0 : link->ops->reopen(link, client, since_ns);
}

/**
 * For a log.
 *
 * @param ret_is_up whether the client's session is up; true where there are none
 * @return the socket by which it sends, -1: none, or not told
 */
static inline int link_descriptor(const struct link *link, uint32_t client, uint32_t endpoint,
                                  bool *ret_is_up)
{
    *ret_is_up = true;
    return link->ops->descriptor == NULL ? -1
                                         : link->ops->descriptor(link, client, endpoint, ret_is_up);
}

/** Queue one message; link_wait() sends. */
static inline void link_send(struct link *link, uint32_t client, uint32_t endpoint,
                             const uint8_t *data, size_t len)
{
    link->ops->send(link, client, endpoint, data, len);
}

/** Sends queued messages, waits for messages at most @p timeout_ns. @return 0 or -errno. */
static inline int link_wait(struct link *link, uint64_t timeout_ns)
{
    return link->ops->wait(link, timeout_ns);
}

/** Delivers a batch of received messages. @return 0 or -errno. */
static inline int link_deliver(struct link *link, link_message_fn on_message, void *context)
{
    return link->ops->deliver(link, on_message, context);
}

static inline void link_close(struct link *link)
{
    if (link != NULL) {
        link->ops->close(link);
    }
}

#endif
