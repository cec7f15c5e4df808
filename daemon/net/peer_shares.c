/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/peer_shares.h"

#include <stdlib.h>
#include <string.h>

bool peer_shares_init(struct peer_shares *shares, unsigned worker_count)
{
    *shares = (struct peer_shares){
        .worker_count = worker_count,
        .counts = calloc((size_t)worker_count * DTLS_SHARES, sizeof *shares->counts),
        .takers = calloc(DTLS_SHARES, 1),
        .used = calloc(worker_count, sizeof *shares->used)};
    return shares->counts != NULL && shares->takers != NULL && shares->used != NULL;
}

void peer_shares_clear(struct peer_shares *shares)
{
    free(shares->counts);
    free(shares->takers);
    free(shares->used);
    *shares = (struct peer_shares){0};
}

static const uint32_t *share_count(const struct peer_shares *shares, unsigned worker,
                                   uint32_t share)
{
    return &shares->counts[(size_t)worker * DTLS_SHARES + share];
}

static uint64_t share_sum(const struct peer_shares *shares, uint32_t share)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < shares->worker_count; i++) {
        sum += *share_count(shares, i, share);
    }
    return sum;
}

uint64_t peer_shares_left(const struct peer_shares *shares)
{
    uint64_t left = 0;

    for (uint32_t share = 0; share < DTLS_SHARES; share++) {
        left += shares->takers[share] == 0 ? share_sum(shares, share) : 0;
    }
    return left;
}

/* Whether each worker of the replica has room for its part, besides what it was chosen for. */
static bool has_room(const struct peer_shares *shares, uint32_t room, uint32_t share)
{
    for (unsigned i = 0; i < shares->worker_count; i++) {
        if (shares->used[i] + *share_count(shares, i, share) > room) {
            return false;
        }
    }
    return true;
}

static void choose_share(struct peer_shares *shares, uint8_t to, uint32_t share)
{
    shares->takers[share] = to;
    for (unsigned i = 0; i < shares->worker_count; i++) {
        shares->used[i] += *share_count(shares, i, share);
    }
}

void peer_shares_choose(struct peer_shares *shares, uint8_t to, uint32_t room, size_t replicas)
{
    uint64_t fair = (peer_shares_left(shares) + replicas - 1) / replicas, chosen = 0;

    memset(shares->used, 0, shares->worker_count * sizeof *shares->used);
    for (uint32_t share = 0; share < DTLS_SHARES; share++) {
        uint64_t sum = shares->takers[share] == 0 ? share_sum(shares, share) : 0;
        if (sum > 0 && (chosen == 0 || chosen + sum <= fair) && has_room(shares, room, share)) {
            choose_share(shares, to, share);
            chosen += sum;
        }
    }
}

void peer_shares_return(struct peer_shares *shares, uint8_t to)
{
    for (uint32_t share = 0; share < DTLS_SHARES; share++) {
        if (shares->takers[share] == to) {
            shares->takers[share] = 0;
        }
    }
}
