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

struct link_ops {
    int (*renew)(struct link *link, uint32_t client, uint32_t *ret_endpoint);
    void (*send)(struct link *link, uint32_t client, uint32_t endpoint, const uint8_t *data,
                 size_t len);
    int (*wait)(struct link *link, uint64_t timeout_ns);
    int (*deliver)(struct link *link, link_message_fn on_message, void *context);
    void (*close)(struct link *link);
};

struct link {
    const struct link_ops *ops;
    uint64_t refused; /* messages that the system would not send */
    uint64_t foreign; /* datagrams from elsewhere than the peer, ignored */
};

struct link_options {
    union address peer;
    uint32_t clients;
    bool own_sockets; /* a socket per client, even where an address per client would do */
};

enum {
    LINK_CLIENTS_MAX = 1 << 20,
};

/** CoAP over UDP. @return 0 or -errno. */
int link_open_udp(const struct link_options *options, struct link **ret_link);

/** Give @p client an endpoint that it has not had before. @return 0 or -errno. */
static inline int link_renew(struct link *link, uint32_t client, uint32_t *ret_endpoint)
{
    return link->ops->renew(link, client, ret_endpoint);
}

/** Queue one message; link_wait() sends. */
static inline void link_send(struct link *link, uint32_t client, uint32_t endpoint,
                             const uint8_t *data, size_t len)
{
    link->ops->send(link, client, endpoint, data, len);
}

/** Send what is queued, wait for messages at most @p timeout_ns. @return 0 or -errno. */
static inline int link_wait(struct link *link, uint64_t timeout_ns)
{
    return link->ops->wait(link, timeout_ns);
}

/** Deliver a batch of what has been waited for. @return 0 or -errno. */
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
