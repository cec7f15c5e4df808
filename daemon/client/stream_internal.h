/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by stream.c, which has the connections, and http_*.c, for those that speak HTTP. */
#ifndef CRIPROXY_STREAM_INTERNAL_H
#define CRIPROXY_STREAM_INTERNAL_H

#include "client/leg.h"
#include "client/stream.h"
#include "coap/endpoint.h"
#include "net/digest.h"

struct device;
struct http_front;

enum stream_state {
    STREAM_OPENING,
    STREAM_OPEN,
    STREAM_LEAVING,  /* idle, told so: what has crossed our Release is answered, then the end */
    STREAM_RELEASED, /* no new requests; those before are answered */
    STREAM_CLOSED,   /* given up: what else arrives is ignored */
};

struct stream {
    struct peer peer;
    struct client_side *side;
    struct stream_listener *listener;
    struct conn *conn;
    struct stream *next, **link; /* of all streams of the engine */
    struct endpoint endpoint;
    struct identity *identity; /* of the bearer token of the HTTP request; acquired; or NULL */
    uint8_t token[DIGEST_LEN]; /* the digest of that token */
    struct http_front *http;   /* it speaks HTTP, and the endpoint is not used; or NULL */
    struct device *device;     /* that it is a session of (origin/device.h); NULL: of none */
    enum stream_state state;
    uint64_t serial;
    const char *why; /* we have closed it; static, NULL: we have not */
    bool is_paused, is_full;
    bool has_crossed; /* a request has come while leaving */
    bool is_pinged;   /* nothing has come since our Ping */
};

/** The client's side of a request that came on @p stream. */
struct leg stream_make_leg(struct stream *stream);

/** Queue bytes, copied. Where that is too much, the stream counts as full until they have left. */
void stream_send_bytes(struct stream *stream, const void *data, size_t len);

/** Read on, or not; for connections that speak HTTP. */
void stream_pause(struct stream *stream, bool is_paused);

/** What is queued is sent, then it is closed. @p why is static. */
void stream_close(struct stream *stream, const char *why);

#endif
