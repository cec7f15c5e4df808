/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Replicas that know each other: datagrams of clients go to the replica whose session they belong
 * to, and its answers go back by the replica that the client has sent to, because a client takes
 * answers from that address only (docs/REPLICAS.md).
 *
 * Connection ids have a tag of the replica that gave them: its number, and a byte that is another
 * one after each start, of which the lowest three bits divide its sessions into shares, so that ids
 * of its sessions that another replica has taken over since can be told from new ones. Whose a tag
 * is says the book, which all workers of a process share; it is the replica with that number unless
 * another one has said that it has taken it over.
 */
#ifndef CRIPROXY_PEERS_H
#define CRIPROXY_PEERS_H

#include "net/peer_wire.h"

struct loop;
struct peer_book;
struct peer_link;

#define PEERS_MAX 32u

struct cluster_peer {
    uint8_t number; /* 1 to 255 */
    struct address address;
};

/* The link's thread writes them, others may read. */
struct peer_counters {
    _Atomic uint64_t passed;     /* clients' datagrams to the replica that has the session */
    _Atomic uint64_t not_passed; /* too many in this second */
    _Atomic uint64_t taken;      /* such datagrams from others, for sessions here */
    _Atomic uint64_t answers;    /* to clients of sessions elsewhere, sent on */
    _Atomic uint64_t refused[PEER_REFUSAL_COUNT];
};

struct peer_handler {
    /*
     * A client's datagram that another replica has, with path.via set; borrowed. @return whether a
     * session here has its id
     */
    bool (*on_passed)(void *context, const struct datagram *datagram);
    /* Records for the client at @p path, which has sent to the listener with this number; borrowed.
     * @return whether that is there */
    bool (*on_answer)(void *context, uint16_t listener, const struct udp_path *path,
                      struct bytes records);
};

/* ---- the book; any thread ---- */

/**
 * @param own the number of this replica, 1 to 255
 * @param peers copied, at most PEERS_MAX
 * @return 0 or -ENOMEM; free with free()
 */
int peer_book_new(uint8_t own, const struct cluster_peer *peers, size_t count,
                  struct peer_book **ret_book);

/** The number of this replica. Cannot fail. */
uint8_t peer_book_own(const struct peer_book *book);

/** Whether @p number is another replica's. Cannot fail. */
bool peer_book_has(const struct peer_book *book, uint8_t number);

/** What the next connection id has: one of a few in turn, so that sessions can be given to several
 * replicas. Cannot fail. */
uint16_t peer_book_tag(struct peer_book *book);

/** Sessions with ids of @p tag are here: the others are told with the next hello. Cannot fail. */
void peer_book_hold(struct peer_book *book, uint16_t tag);

/**
 * Sessions of some tags that were here are with the replica @p number. Cannot fail.
 *
 * @param takers by tag, 65,536 of them: those with @p number
 */
void peer_book_give(struct peer_book *book, const uint8_t *takers, uint8_t number);

/* ---- the link: a worker's socket ---- */

struct peer_link_options {
    struct peer_book *book; /* borrowed */
    struct address listen;
    unsigned worker;
    unsigned worker_count;
    struct bytes secret; /* copied */
};

/** @return 0 or -errno; @p handler and @p context are borrowed */
int peer_link_open(struct loop *loop, const struct peer_link_options *options,
                   const struct peer_handler *handler, void *context, struct peer_link **ret_link);

/** Sends what is queued, wipes its key, closes and frees; takes NULL. */
void peer_link_close(struct peer_link *link);

/** The secret of cluster.secret-file is another one now, copied; without memory nothing is sent or
 * taken. */
void peer_link_set_secret(struct peer_link *link, struct bytes secret);

/**
 * Passes a client's datagram on to the replica that has its session.
 *
 * @param listener what comes back with answers
 * @param cid of 8 bytes: the session's worker, then its tag
 * @return false where it is no other replica's
 */
bool peer_link_pass(struct peer_link *link, uint16_t listener, const uint8_t *cid,
                    const struct datagram *datagram);

/** To the client of @p path by way of the replica path->via; lost where that is not known. Both are
 * borrowed for the call. */
void peer_link_answer(struct peer_link *link, const struct udp_path *path, const uint8_t *data,
                      size_t len);

/** The first worker tells the others what it has taken over. @return when to be called next */
uint64_t peer_link_turn(struct peer_link *link, uint64_t now_ms);

/** Has the next turn tell the others at once. Cannot fail. */
void peer_link_hurry(struct peer_link *link);

/** Sends what is queued; what the kernel does not accept is dropped, and counted as an error. */
void peer_link_flush(struct peer_link *link);

/** Borrowed, as long as the link. */
const struct peer_counters *peer_link_counters(const struct peer_link *link);

#endif
