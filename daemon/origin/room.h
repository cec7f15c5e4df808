/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Room for a newcomer in what all clients share towards origin servers: places in the queue of one,
 * places and bytes for requests that wait for a device, and the table of origin servers. Where one
 * is full, the source that holds most of it loses its oldest to a newcomer whose source holds less
 * (base/account.h). What loses its place is told REASON_displaced, from a timer.
 *
 * A request that finds room everywhere is charged nothing: the book of a queue is kept from when
 * that was full until it is half empty, and that of the table of origin servers likewise. The bytes
 * that wait for devices are always charged, as such requests wait for long.
 *
 * Which source is charged:
 * - for a place or for bytes: that of the client for which the request is sent, also where others
 *   wait for the same answer, for those have added nothing to what is held;
 * - for an origin server: that of the request that has been there for longest, as far as the book
 *   goes back; when it leaves, the next one's.
 * What should make room, and clients of other sources want it as well, stays and becomes one of
 * theirs instead, as with questions to DNS (origin/names.h): they would lose what they hardly hold.
 */
#ifndef CRIPROXY_ROOM_H
#define CRIPROXY_ROOM_H

#include "origin/origin.h"

/* The book of a full queue; in the list of the table. */
struct queue_book {
    struct account_book accounts;
    struct list_node node;
};

/**
 * Whether @p sending, which is in the queue of its origin server already, may stay there beside
 * @p max others at most. Another may have been displaced for it; it is charged where a book is
 * kept.
 */
bool room_in_queue(struct origin_side *side, struct sending *sending, uint64_t max);

/**
 * Whether @p sending, which is in the queue of its device, may wait there until the device comes
 * back: as room_in_queue(), and charged with the bytes of its message.
 */
bool room_to_wait(struct origin_side *side, struct sending *sending);

/**
 * @p sending has left the queue of its origin server, and gives back what it held: bytes of a wait,
 * a place in a book. Cannot fail.
 */
void room_on_left_queue(struct origin_side *side, struct sending *sending);

/**
 * An origin server whose place @p newcomer may have, as all slots are in use: one that no request
 * has chosen, or else one that makes room, and that none has chosen any more. Borrowed.
 *
 * @return NULL: its source holds as many as any other.
 */
struct origin *room_for_origin(struct origin_side *side, struct sending *newcomer);

/**
 * @p sending has chosen its origin server, or has left @p origin, which may be another source's
 * from now on, or none's. Only while the book of the table is open. Cannot fail.
 */
void room_on_chosen(struct origin_side *side, struct sending *sending);
void room_on_left_origin(struct origin_side *side, struct origin *origin, struct sending *sending);

/** No book is kept any more: the table is about to be freed. */
void room_close_books(struct origin_table *table);

#endif
