/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Block-wise requests of clients (RFC 7959): which pass as they are, which are put
 * together or taken apart because the two hops differ, and which are wrong.
 *
 * Pass-through is the rule: each block is a request of its own, and nothing is buffered.
 * Uploads of different clients get Request-Tags of ours, so that the origin server does
 * not mix them (RFC 9175 section 3.4). Only where a reliable transport in front carries
 * more in one message than a datagram behind (large payloads, BERT) does the proxy
 * transfer the body itself.
 *
 * HTTP has no blocks: an upload to an http or https target is put together first (CH-10).
 *
 * A size of 7 (BERT) becomes 6 on datagrams.
 */
#ifndef CRIPROXY_BLOCKS_H
#define CRIPROXY_BLOCKS_H

#include "client/reply.h"
#include "fetch/encode.h"

/* A request, as far as its blocks are concerned. */
struct block_request {
    const struct leg *leg;
    const struct message *message;
    const struct request_options *options;
    const struct target *target;
    bool is_datagram_hop; /* client on a reliable transport, next hop reached with datagrams,
                             or as if it were: what the client has sent is too long */
    bool is_http_hop;     /* next hop reached over HTTP, which has no blocks */
};

enum block_plan {
    BLOCK_PLAN_PASS,     /* forward the message, with the additions */
    BLOCK_PLAN_TRANSFER, /* hand the payload to transfer_send() */
    BLOCK_PLAN_ANSWER,   /* it has been dealt with: give the reply */
};

/**
 * Whether the block options of a request make sense (BLK-3, BLK-6).
 *
 * @return false with @p ret_problem filled: a size of 7 on datagrams, or a payload that is not a
 *         block.
 */
bool blocks_check(const struct leg *leg, const struct message *message,
                  const struct request_options *options, struct problem *ret_problem);

/**
 * What to do with a request that has been checked.
 *
 * @param additions   block options and Request-Tag are filled in.
 * @param ret_payload for BLOCK_PLAN_TRANSFER: the whole body; valid until the next call.
 * @param ret_reply   for BLOCK_PLAN_ANSWER: 2.31, or words; its options and payload are
 *                    valid until the next call.
 * @param ret_reason  for BLOCK_PLAN_ANSWER: why.
 */
enum block_plan blocks_plan(struct client_side *side, const struct block_request *request,
                            struct additions *additions, struct bytes *ret_payload,
                            struct reply *ret_reply, enum reason *ret_reason);

#endif
