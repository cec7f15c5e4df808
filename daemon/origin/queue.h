/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What waits for its turn towards an origin server, or towards a device that is away.
 *
 * Rounds make it fair: in each round every client has one request, so that one that sends many
 * waits for itself. A client begins in the round that is under way. The queue is in the order of
 * rounds, and in each in the order of arrival.
 *
 * Most requests go to the end. For the others the queue knows where a few of the rounds end:
 * requests that wait are far apart in memory, and a walk along them would cost more than
 * all else that is done for a request.
 */
#ifndef CRIPROXY_QUEUE_H
#define CRIPROXY_QUEUE_H

#include "base/account.h"
#include "base/list.h"

#include <stdint.h>

/* So many ends of rounds are known: each in the place of its round's number modulo this. */
#define QUEUE_ENDS 8u

/* When a client may send next to an origin server where several wait (sending_start()). */
struct queue_turn {
    uint32_t origin; /* where it queued last: slot and generation mixed, */
    uint32_t round;  /* and in which round */
};

/* What waits in the queue of an origin server; embedded in what is to be sent. */
struct queued {
    struct list_node node;
    struct queue_turn *turn; /* of its client; NULL: the proxy's own */
    struct holding holding;  /* of its client's source, while the queue has a book */
    uint32_t round;
    bool is_in;
};

/* Zeroed: empty. */
struct queue {
    struct list list; /* of struct queued */
    uint32_t count;
    uint32_t round; /* of what was sent last */
    /* The last of a round that is in the queue, at the round's number; NULL: none, or not known. */
    struct queued *ends[QUEUE_ENDS];
};

/**
 * Gives @p queued, which is in no queue, its place, and its turn the round of it. It is borrowed
 * until it leaves; cannot fail.
 *
 * @param here tells this queue from all others for the turn; it is not kept. Not the same for two
 *             of them within the time that a client may wait.
 */
void queue_enter(struct queue *queue, uint32_t here, struct queued *queued);

/** Takes @p queued, which is in @p queue, out of it from anywhere: the caller's again. */
void queue_leave(struct queue *queue, struct queued *queued);

#endif
