/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A request whose body goes to the origin server in blocks (Block1), or whose answer is
 * fetched in blocks (Block2) because the client's side cannot do that: a client on a
 * reliable transport sent in one message what no datagram holds (RFC 7959, RFC 8323
 * section 6). The clients' fetch waits in state `transferring`; each step is a request
 * of our own.
 *
 *                  2.31, more to send              Block2, more to come
 *                     +------+                         +------+
 *                     v      |    last block           v      |
 *   transfer_send --> uploading ------------------> gathering ------> answered
 *                                \________________________________/^
 *                                   an answer in one message, or a failure
 */
#ifndef CRIPROXY_TRANSFER_H
#define CRIPROXY_TRANSFER_H

#include "fetch/fetch.h"

struct block;
struct reply;
struct transfer;

/**
 * Send @p payload in blocks on behalf of @p fetch, whose own datagram has no payload
 * and no block options. May end the fetch at once.
 *
 * @param block1   the client's Block1 option where the body came in blocks; data NULL: it did not.
 * @param is_piece over HTTP: the payload is a piece of the body, which goes along with that option.
 */
void transfer_send(struct fetch_side *side, struct fetch *fetch, struct bytes payload,
                   struct bytes block1, bool is_piece);

/** The block option @p number of @p reply. @return false where it has none. */
bool transfer_find_block(const struct reply *reply, uint16_t number, struct block *ret_block);

/**
 * @p reply wants the request in blocks, or is the first of several: move that body, for those that
 * wait for @p fetch. @p reply is borrowed. May end the fetch at once.
 */
void transfer_begin(struct fetch_side *side, struct fetch *fetch, const struct reply *reply);

/**
 * The fetch ends: its transfer is freed with its bodies, and the step that is out cancelled. Takes
 * a fetch that has none.
 */
void transfer_cancel(struct fetch_side *side, struct fetch *fetch);

/**
 * The Request-Tag that keeps the uploads of different clients apart (RFC 9175 section 3.4), made
 * of the client's @p serial and of its own tags in @p options. Cannot fail.
 */
uint64_t transfer_tag(const struct fetch_side *side, uint64_t serial, struct bytes options);

#endif
