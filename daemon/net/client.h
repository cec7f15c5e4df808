/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Upstream sessions of libcoap: for origin servers that are not reached over
 * plain UDP (coaps, coap+tcp, coaps+tcp, and WebSockets where the linked libcoap
 * has them). This is the only place that knows libcoap.
 *
 * Sessions are pooled by transport, address, port, name for SNI and credentials.
 * Only addresses that were resolved and checked come here, never a host's text as
 * something to resolve.
 */
#ifndef CRIPROXY_CLIENT_UPSTREAM_H
#define CRIPROXY_CLIENT_UPSTREAM_H

#include "coap/message.h"
#include "net/address.h"

struct loop;
struct upstream;

enum upstream_transport {
    UPSTREAM_DTLS,
    UPSTREAM_TCP,
    UPSTREAM_TLS,
    UPSTREAM_WS,
    UPSTREAM_WSS,
};

/* What is used towards an origin server; borrowed for the time of upstream_new(). */
struct upstream_credentials {
    const char *psk_identity; /* or NULL */
    const uint8_t *psk_key;
    size_t psk_key_len;
    const char *ca_file;          /* trust anchors, PEM; or NULL for the system's */
    const char *certificate_file; /* ours, or NULL */
    const char *key_file;
    bool check_names; /* the certificate has to be for the target's host */
};

struct upstream_options {
    uint32_t sessions_max;
    uint32_t idle_ms, handshake_ms, backoff_ms;
};

enum upstream_status {
    UPSTREAM_ANSWERED,
    UPSTREAM_REFUSED, /* nothing listens there */
    UPSTREAM_UNREACHABLE,
    UPSTREAM_HANDSHAKE_FAILED, /* alert, wrong key, certificate not accepted */
    UPSTREAM_NAME_MISMATCH,    /* certificate for another host */
    UPSTREAM_TIMEOUT,
    UPSTREAM_CLOSED, /* the connection went while the request was out */
    UPSTREAM_RESET,
    UPSTREAM_BUSY,        /* sessions_max */
    UPSTREAM_UNSUPPORTED, /* this libcoap has no such transport */
};

/* Where a request goes. */
struct upstream_target {
    enum upstream_transport transport;
    struct address address;
    const char *host;     /* for SNI and the certificate; an IP literal where the host is one */
    uint32_t credentials; /* index of upstream_add_credentials() */
};

/**
 * The end of a request. Never called from inside upstream_send().
 *
 * @param message with UPSTREAM_ANSWERED: code, options (encoded), payload; borrowed.
 */
typedef void (*upstream_fn)(void *context, uint64_t cookie, enum upstream_status status,
                            const struct message *message);

int upstream_new(struct loop *loop, const struct upstream_options *options, upstream_fn on_end,
                 void *context, struct upstream **ret_upstream);

/** Takes NULL. Requests under way get no on_end. */
void upstream_free(struct upstream *upstream);

/** @return the index to use, or -errno with @p ret_error filled. */
int upstream_add_credentials(struct upstream *upstream,
                             const struct upstream_credentials *credentials, char *ret_error,
                             size_t error_capacity);

/**
 * Send a request: on a session that is there, or on a new one.
 *
 * @param request     code, options and payload count; type says CON or NON where that is meant.
 * @param deadline_ms of loop_now_ms(): UPSTREAM_TIMEOUT then.
 * @return 0, and on_end is called exactly once with @p cookie; or -errno.
 */
int upstream_send(struct upstream *upstream, const struct upstream_target *target,
                  const struct message *request, uint64_t cookie, uint64_t deadline_ms);

/** The answer is not wanted any more: no on_end for @p cookie. */
void upstream_cancel(struct upstream *upstream, uint64_t cookie);

/** Which transports the linked libcoap has. */
bool upstream_has(enum upstream_transport transport);

#endif
