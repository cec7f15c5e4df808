/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Answers that do not fit what their client takes, or that it wants in blocks: cut into
 * Block2 pieces (RFC 7959 section 2.4), the body kept for the pieces that it asks for
 * later. Answers that are a block of the origin server's own pass as they are, unless the client
 * takes less in one message: then it gets a part of that block, and asks for the rest.
 *
 * An answer that came in one piece leaves in one for a client on datagrams, too, up to
 * block.whole-bytes: by default as much as needs no IP fragments anywhere (RFC 7252 section
 * 4.6). OSCORE messages that need no fragments are never cut, because Block options outside of
 * the protection are not known to every endpoint. A kept body has a key of client, target,
 * method and options: a block that another client asks for goes to the origin server.
 */
#ifndef CRIPROXY_SERVE_H
#define CRIPROXY_SERVE_H

#include "client/reply.h"
#include "fetch/body.h"
#include "fetch/encode.h"

/* A body that a client asks for: requests of one client that are equal in this ask for the same. */
struct serve_subject {
    const struct target *target;
    uint8_t code;         /* the method */
    struct bytes options; /* of the client's request; empty where there is */
    uint64_t query;       /* serve_query() of the client's request */
    struct bytes sent;    /* the message to the next hop, read only where its options count */
};

/*
 * An OSCORE message that fits a datagram which every link of IPv6 carries without fragments
 * (RFC 8200 section 5: 1,280 bytes) is not cut: endpoints need not know Block options outside
 * of the protection, and clients of libcoap do not.
 */
#define SERVE_OSCORE_WHOLE_BYTES 1232u

/** Longest key of a kept body. */
#define SERVE_KEY_MAX 2048u

/**
 * A hash of the payload of a FETCH in one message, which says what is asked for (RFC 8132 section
 * 2). 0 for other requests.
 */
uint64_t serve_query(const struct client_side *side, const struct message *request);

/**
 * Cut @p reply for the client of @p leg, where that is needed.
 *
 * @param subject how the client will ask for the rest.
 * @param ret_cut what to send; valid until the next call: @p reply itself, or a piece of
 *                it, or words about what went wrong.
 * @return REASON_none, or why the answer cannot be had (the words are in @p ret_cut).
 */
enum reason serve_cut(struct client_side *side, const struct leg *leg,
                      const struct serve_subject *subject, const struct reply *reply,
                      struct reply *ret_cut);

/** As serve_cut(), with the same errors, for the answer to a request that still has its fetch. */
enum reason serve_cut_request(struct client_side *side, const struct request *request,
                              const struct reply *reply, struct reply *ret_cut);

/**
 * A client asks for a later block of a body that is kept for it.
 *
 * @return false where there is none: the request goes on to the origin server.
 */
bool serve_kept(struct client_side *side, const struct leg *leg,
                const struct serve_subject *subject, struct reply *ret_reply,
                enum reason *ret_reason);

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
 * HTTP has no blocks: an upload to an http or https target is put together first (CH-10), up to
 * half of http.window. A longer one is sent on while it comes (origin/long_body.h): what has been
 * put together so far, and then each block.
 *
 * A size of 7 (BERT) becomes 6 on datagrams.
 */

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
    BLOCK_PLAN_PIECE,    /* likewise: it is a piece of an upload over HTTP */
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
 * @param ret_payload for BLOCK_PLAN_TRANSFER the whole body, for BLOCK_PLAN_PIECE that; valid until
 *                    the next call.
 * @param ret_reply   for BLOCK_PLAN_ANSWER: 2.31, or words; its options and payload are
 *                    valid until the next call.
 * @param ret_reason  for BLOCK_PLAN_ANSWER: why.
 */
enum block_plan blocks_plan(struct client_side *side, const struct block_request *request,
                            struct additions *additions, struct bytes *ret_payload,
                            struct reply *ret_reply, enum reason *ret_reason);

#endif
