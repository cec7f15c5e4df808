/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which replica is given which of the sessions here: shares of net/dtls.h, each whole to one. No
 * sockets and no sessions, only their numbers.
 */
#ifndef CRIPROXY_PEER_SHARES_H
#define CRIPROXY_PEER_SHARES_H

#include "net/dtls.h"

/* What there is to give. */
struct peer_shares {
    unsigned worker_count;
    uint32_t *counts; /* of sessions, DTLS_SHARES for each worker, in their order */
    uint8_t *takers;  /* DTLS_SHARES: the number of the replica; 0: none yet */
    uint64_t *used;   /* by worker: sessions of the replica that is chosen for now */
};

/** All zero. @return false without memory; free with peer_shares_clear() in any case */
bool peer_shares_init(struct peer_shares *shares, unsigned worker_count);

/** Frees what peer_shares_init() took. Cannot fail. */
void peer_shares_clear(struct peer_shares *shares);

/** How many sessions no replica has been chosen for. Cannot fail. */
uint64_t peer_shares_left(const struct peer_shares *shares);

/**
 * Chooses shares for one of @p replicas that may still be chosen for: as many sessions as make the
 * same for each of them, or one share if that is more, and none that it has no room for. Cannot
 * fail.
 *
 * @param to its number
 * @param room sessions, in each of its workers
 * @param replicas this one and those that follow, at least 1
 */
void peer_shares_choose(struct peer_shares *shares, uint8_t to, uint32_t room, size_t replicas);

/** The replica did not take them: they may be chosen for another one. Cannot fail. */
void peer_shares_return(struct peer_shares *shares, uint8_t to);

#endif
