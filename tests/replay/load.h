/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many clients and one origin server that play by RFC 7252, around the proxy of
 * a replay: each client asks, sends again, acknowledges, and asks the next when
 * it has its answer. No request is like another, its answer says which one it
 * was, and each is checked as it comes in.
 *
 * What gets lost is lost here, not in the fake network, so that a test knows of
 * each request what became of its datagrams.
 */
#ifndef CRIPROXY_REPLAY_LOAD_H
#define CRIPROXY_REPLAY_LOAD_H

#include "replay/replay.h"

#define LOAD_CLIENTS_MAX 10240
#define LOAD_REQUESTS_MAX 262144
#define LOAD_PENDING_MAX 4096

struct load_options {
    unsigned clients;
    unsigned requests; /* in all; 0: without end */
    uint32_t origin_delay_ms;
    unsigned loss_percent; /* of each datagram, on both hops */
    bool non_confirmable;
    uint64_t seed;
};

/* Datagrams of one kind for one request: all of them, and those that arrived. */
struct load_count {
    uint8_t sent, heard;
};

/* One request and what became of it. */
struct load_request {
    uint64_t asked_ms, ended_ms; /* ended_ms == 0: not yet */
    uint8_t code;                /* of the answer; 0: the client gave up */
    uint32_t max_age_s;          /* of the answer; UINT32_MAX: none */
    struct load_count asks;      /* client to proxy */
    struct load_count acks;      /* proxy to client, empty ones */
    struct load_count answers;   /* proxy to client */
    struct load_count upstream;  /* proxy to origin server */
    struct load_count replies;   /* origin server to proxy */
};

struct load_client {
    struct load *load;
    struct fake_peer *peer;
    bool is_waiting, is_acknowledged;
    uint32_t request; /* waiting for its answer */
    uint16_t mid;
    uint64_t due_ms; /* send again, or give up */
    uint32_t timeout_ms;
    unsigned transmissions;
    uint8_t datagram[64];
    size_t datagram_len;
};

/* An answer of the origin server that is not due yet. */
struct load_reply {
    uint64_t due_ms;
    struct address to;
    uint32_t request;
    uint8_t datagram[64];
    size_t len;
};

struct load {
    struct replay *replay;
    struct load_options options;
    uint64_t random;
    struct load_client clients[LOAD_CLIENTS_MAX];
    struct load_request requests[LOAD_REQUESTS_MAX];
    uint32_t request_count;
    uint32_t answered;  /* with the origin server's answer */
    uint32_t refused;   /* with another code */
    uint32_t abandoned; /* without an answer */
    uint32_t resets;    /* RST that came to clients */

    bool origin_is_silent; /* hears nothing */
    uint64_t origin_heard; /* requests that came to it, lost ones too */
    uint64_t origin_pings; /* and Pings */
    uint64_t origin_bytes; /* of both */
    void (*on_upstream)(const struct fake_datagram *datagram); /* told of each; or NULL */
    struct load_reply pending[LOAD_PENDING_MAX];
    uint32_t pending_first, pending_count;
};

/** Clients and origin server are the replay's own and further ones; nothing is asked yet. */
void load_start(struct load *load, struct replay *replay, const struct load_options *options);

/** Ask, answer and let @p ms pass. */
void load_run(struct load *load, uint64_t ms);

/** Run until all requests have ended; fails the test where that takes longer than @p ms. */
void load_finish(struct load *load, uint64_t ms);

/** Clients ask nothing new; what they have asked goes on. */
void load_stop_asking(struct load *load);

/** How many requests the origin server has heard and not answered yet. */
static inline uint32_t load_outstanding(const struct load *load)
{
    return load->pending_count;
}

#endif
