/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams between replicas, from one cluster.listen to another: a client's datagram that belongs
 * to a session of the other (PEER_DATAGRAM), what is to be sent to such a client (PEER_ANSWER), and
 * which tags of connection ids a replica has taken over (PEER_HELLO).
 *
 *     magic, worker of the receiver     one byte each: the kernel chooses the worker by the second
 *     kind, from, to, worker of from    one byte each; replicas by their numbers
 *     listener                          two bytes, of the replica that has the client's datagram
 *     run, number                       eight bytes each: against replays, see below
 *     sent                              eight bytes: time of day, ms
 *     the client's address, ours        family, port, scope, IP address: 23 bytes each
 *     body                              the client's datagram, the answer, or tags of two bytes
 *     MAC                               HMAC-SHA-256, its first 16 bytes
 *
 * Numbers are big endian. The key is derived from cluster.secret-file. What is in a body is not
 * encrypted here: it is records of DTLS, or tags. Addresses of clients can be read on the way.
 *
 * A replica counts what it sends, beginning anew with each run, which is the time when it was
 * started. A receiver takes each number once, as DTLS does, and none of a run before the last one.
 */
#ifndef CRIPROXY_PEER_WIRE_H
#define CRIPROXY_PEER_WIRE_H

#include "coap/message.h"
#include "net/peer_refusal.h"
#include "net/udp.h"

#include <stdbool.h>

#define PEER_MAGIC 0xc7u
#define PEER_WORKER_AT 1u /* for udp_steer() */
#define PEER_MAC_LEN 16u
#define PEER_HEAD_LEN 78u
#define PEER_OVERHEAD (PEER_HEAD_LEN + PEER_MAC_LEN)

/* How much the clocks of two hosts may differ, together with the time on the way. */
#define PEER_CLOCK_MS UINT64_C(60000)

enum peer_kind {
    PEER_DATAGRAM = 1,
    PEER_ANSWER,
    PEER_HELLO,
};

struct peer_message {
    enum peer_kind kind;
    uint8_t worker, from, to, from_worker;
    uint16_t listener;
    uint64_t run, number;
    uint64_t sent_ms;
    struct udp_path path; /* without via */
    struct bytes body;    /* borrowed */
};

/* Numbers of one peer that were seen. Zeroed: none. */
#define PEER_WINDOW 1024u
struct peer_window {
    uint64_t run, newest;
    uint64_t seen[PEER_WINDOW / 64]; /* bit n of a ring: number n modulo the window */
};

struct evp_mac_ctx_st;

/** A context for HMAC that keeps the key of @p secret, which is borrowed. @return NULL without
 * memory; free with peer_key_free() */
struct evp_mac_ctx_st *peer_key_new(struct bytes secret);

/** Wipes and frees; takes NULL. */
void peer_key_free(struct evp_mac_ctx_st *key);

/**
 * Writes @p message to @p ret, which has room for its body and PEER_OVERHEAD bytes.
 *
 * @return its length; 0 where OpenSSL has no memory
 */
size_t peer_seal(struct evp_mac_ctx_st *key, const struct peer_message *message, uint8_t *ret);

/**
 * Reads a datagram of an unknown sender. Nothing of it is looked at before its MAC matches.
 *
 * @param ret_message set where it is good; its body borrows from @p data
 * @return PEER_REFUSAL_COUNT, or why it is none
 */
enum peer_refusal peer_open(struct evp_mac_ctx_st *key, const uint8_t *data, size_t len,
                            struct peer_message *ret_message);

/** Whether @p message, which was opened, has not come before; then it has now. Cannot fail. */
bool peer_window_take(struct peer_window *window, const struct peer_message *message);

#endif
