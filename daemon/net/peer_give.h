/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sessions that one replica gives to another, over a channel that both ends have authenticated
 * (net/peer_tls.h). A session's keys are with one of them at any time, or with neither:
 *
 *     giver                                  taker
 *     OFFER  what it is to know       ->     looks whether it can take them
 *                                     <-     READY for how many, or REFUSED and why
 *     stops sealing, packs
 *     SESSIONS                        ->     keeps them as bytes: seals nothing
 *                                     <-     HAVE
 *     overwrites its keys
 *     COMMIT                          ->     takes them over, and seals from now on
 *                                     <-     TAKEN how many
 *
 * What follows from a failure:
 *
 *  - Before the giver has HAVE: it goes on with its sessions. The taker has no COMMIT, which is
 * sent later only, and overwrites what it has.
 *  - After it, on the way to the taker: the sessions are gone on both. The giver has overwritten
 *    them before it sends COMMIT, and the taker overwrites what it has where none comes.
 *  - After COMMIT: they are the taker's. The giver does not know how many there are.
 *
 * What was refused, or without HAVE, may be given to another taker. A giver asks all takers before
 * it stops sealing, and then gives each a part of its sessions (net/peer_shares.h).
 */
#ifndef CRIPROXY_PEER_GIVE_H
#define CRIPROXY_PEER_GIVE_H

#include "base/pack.h"
#include "net/peer_refusal.h"

#include <stdbool.h>

/* More than 500,000 sessions. */
#define PEER_SESSIONS_BYTES_MAX (UINT32_C(1) << 28)

/* Bytes in order, to and from the one other end. Both return false for good after a failure or when
 * time is up. */
struct peer_channel {
    void *context;
    bool (*put)(void *context, const uint8_t *data, size_t len);
    bool (*get)(void *context, uint8_t *ret_data, size_t len);
};

/* Of these messages. */
#define PEER_GIVE_VERSION 2u

/* What a taker has to know before. */
struct peer_offer {
    uint32_t version; /* of packed sessions, and PEER_GIVE_VERSION times 65,536 */
    uint8_t from, to; /* numbers of the replicas */
    uint32_t workers;
};

/* How it ended for the giver. */
enum peer_gift {
    PEER_GIFT_KEPT,   /* its sessions are its own */
    PEER_GIFT_GIVEN,  /* and were taken over */
    PEER_GIFT_UNSURE, /* gone here; whether they are there is not known */
};

struct peer_taken {
    uint32_t taken, left_out; /* sessions */
};

struct peer_giver {
    void *context;
    /* Stops sealing, and appends what is given; called once at most. */
    void (*pack)(void *context, struct pack *out);
    /* Overwrites the keys of all that was packed. Cannot fail. */
    void (*forget)(void *context);
};

struct peer_taker {
    void *context;
    /*
     * @param ret_room how many sessions each worker has room for
     * @return PEER_REFUSAL_COUNT, or why not; in the first case finish() follows, at last
     */
    enum peer_refusal (*begin)(void *context, const struct peer_offer *offer, uint32_t *ret_room);
    /* The sessions are this replica's: takes over what giver's pack() has written. @p sessions is
     * wiped afterwards. */
    struct peer_taken (*take)(void *context, struct unpack *sessions);
    /* After begin() has agreed: it is over, in whichever way. */
    void (*finish)(void *context);
};

/**
 * Asks over @p channel whether sessions would be taken; peer_give() follows, or the channel ends.
 *
 * @param ret_room how many each worker takes
 * @return PEER_REFUSAL_COUNT, PEER_REFUSAL_broken or what the taker says
 */
enum peer_refusal peer_offer(const struct peer_channel *channel, const struct peer_offer *offer,
                             uint32_t *ret_room);

/**
 * Gives sessions to the taker that has been asked.
 *
 * @param ret_taken what the taker says, where they were given
 * @return PEER_GIFT_KEPT on failure before HAVE, PEER_GIFT_UNSURE after it
 */
enum peer_gift peer_give(const struct peer_channel *channel, const struct peer_giver *giver,
                         struct peer_taken *ret_taken);

/** The other end. @return PEER_REFUSAL_COUNT, or why nothing was taken */
enum peer_refusal peer_take(const struct peer_channel *channel, const struct peer_taker *taker);

#endif
