/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The client's side of a request: where its answer goes, and in which form.
 */
#ifndef CRIPROXY_LEG_H
#define CRIPROXY_LEG_H

#include "base/hash.h"
#include "coap/block.h"
#include "fetch/fetch.h"
#include "net/udp.h"
#include "policy/asker.h"

struct client;
struct client_limits;
struct client_side;
struct dtls_session;
struct request;
struct listener;
struct stream;
struct watcher;

/* The part that all kinds of clients have: a client of datagrams, or a connection. */
struct peer {
    struct request *pending;            /* list of those in flight */
    uint32_t in_flight;                 /* how many */
    uint32_t spent;                     /* of limits.client-burst, in thousandths of a request */
    uint32_t spent_at_ms;               /* when that was so; wraps */
    uint32_t standing_epoch;            /* of context.policy_epoch, when standing was looked up */
    uint64_t source_key;                /* in the book of requests, found with it */
    const struct client_limits *limits; /* found with it; NULL: those of all (client/admission.h) */
    uint32_t refused_s;                 /* the second in which refusals were counted, */
    uint32_t refused;                   /* and how many */
    struct queue_turn turn;             /* towards an origin server where several wait */
    uint8_t standing;                   /* enum access_standing (policy/access.h) */
    uint32_t requests;                  /* so far, for people; wraps */
    struct watcher *watcher;            /* what it observes; NULL: nothing */
};

enum leg_kind {
    LEG_DATAGRAM, /* message layer: client, listener, message id */
    LEG_STREAM,   /* reliable transport (RFC 8323): stream */
    LEG_GONE,     /* the connection was closed; an unsafe request goes on without it */
};

/* Wishes of an HTTP client about the cache (RFC 9111 section 5.2.1), a bit each. */
enum {
    LEG_NO_CACHE = 1,       /* no answer from it */
    LEG_NO_STORE = 2,       /* the answer is not kept */
    LEG_ONLY_IF_CACHED = 4, /* no other answer */
};

/* Registrations of devices over UDP (client/directory.h): asked for their links, then answered. */
enum leg_registers { LEG_REGISTERS_NOT, LEG_REGISTERS_AGAIN, LEG_REGISTERS_NEWLY };

struct leg {
    enum leg_kind kind;
    struct peer *peer; /* of the client or the stream; NULL when gone */
    struct listener *listener;
    struct client *client;
    struct dtls_session *session; /* of a client of datagrams on DTLS, else NULL */
    struct stream *stream;
    struct asker asker; /* the client, for policy and for the log, of any kind */
    struct bytes token; /* in the message at first, in the request's memory later */
    uint16_t mid;
    uint64_t received_ms; /* its message id may be used again a lifetime after */
    bool confirmable;
    bool acknowledged;    /* an empty ACK has left: the answer must be separate (MSG-19) */
    bool is_unverified;   /* its address may be forged (client/echo.h) */
    uint32_t request_len; /* bytes of the request's datagram */
    bool is_safe;         /* the method is: GET or FETCH */
    bool is_published;    /* for a path of our own: its client does not know the target */
    uint8_t registers;    /* enum leg_registers: what is fetched is the client's own answer */
    bool has_block2;      /* the client asks for a block of the answer, or for blocks of a size: */
    struct block block2;  /* which */
    uint8_t route_label;  /* in the metrics, of the route that its request takes; 0: none */
    uint8_t cache_wish;   /* LEG_NO_CACHE and others */
    bool is_late;         /* a fault of a lab has held it back already (client/faulty.h) */
    bool outlives;    /* its request goes on, for the cache, when the client goes: HTTP's (RFC 8075
                         section 8.1) */
    bool is_part;     /* its request is a block with others to follow, which only the client has: it
                         ends with that one, although it is unsafe */
    bool goes_on;     /* it is a further block of an HTTP request, which limits have counted */
    uint8_t unwanted; /* classes of answers the client does not want (RFC 7967): 1 << (class - 1) */
};

/**
 * The host of a request without Uri-Host: the Host field of a WebSocket's handshake, or
 * the name asked for with SNI (RFC 8323 section 8.5; on DTLS as on TLS, AMB-39). Empty
 * where there is neither: then it is the address that the request came to. Borrowed.
 */
struct bytes leg_default_host(const struct leg *leg);

/** Hash of client and token under @p seed. */
uint64_t leg_token_key(const struct leg *leg, uint64_t seed);

/** Whether they are the same client's under the same token. */
static inline bool leg_has_same_token(const struct leg *leg, const struct leg *other)
{
    return leg->peer == other->peer && bytes_equal(leg->token, other->token);
}

/** A number that no other client has had or will have: for what is kept for this one. */
uint64_t leg_serial(const struct client_side *side, const struct leg *leg);

/**
 * Bytes of the longest message that may be sent to the client, which is one of datagrams:
 * limits.datagram-bytes, less what the record of a session takes of them.
 */
size_t leg_message_max(const struct client_side *side, const struct leg *leg);

/** Whether the client does block-wise transfers: on datagrams each does, else its CSM says so. */
bool leg_takes_blocks(const struct leg *leg);

/**
 * A message id for a message that we begin; @p leg is of kind LEG_DATAGRAM.
 *
 * @return false, and counted, where all towards the client are in use (MSG-14).
 */
bool leg_take_mid(struct client_side *side, const struct leg *leg, uint16_t *ret_mid);

/**
 * Send a datagram to the client of @p leg, which is of kind LEG_DATAGRAM. The bytes are copied;
 * one that cannot be sent is lost, as on the network.
 */
void leg_send(const struct leg *leg, const uint8_t *data, size_t len);

/** Send an empty message of type ACK or RST for @p mid to a client of datagrams. Cannot fail. */
void leg_send_empty(const struct leg *leg, enum message_type type, uint16_t mid);

#endif
