/* SPDX-License-Identifier: BSD-2-Clause */
/* The request to the next hop, made from the client's request and its target. */
#ifndef CRIPROXY_ENCODE_H
#define CRIPROXY_ENCODE_H

#include "coap/message.h"
#include "coap/target.h"

struct naming;

/* An option of one hop: the client's is passed on, or we have our own, or none. */
struct own_option {
    bool is_ours; /* the client's is not passed on */
    bool is_present;
    uint32_t value;
};

/* Options that the proxy adds of its own. */
struct additions {
    uint8_t hop_limit; /* 0: no Hop-Limit */
    bool has_observe;
    uint32_t observe;
    const struct bytes *etags; /* of representations to be validated */
    size_t etag_count;
    struct own_option block1, block2, size1, no_response;
    bool adds_if_none_match; /* of the first block of what has been joined */
    bool is_later_block;     /* of an upload: If-None-Match went with the first (RFC 7959 2.10) */
    bool drops_echo;         /* the client's Echo was for the proxy (RFC 9175 section 2.3) */
    uint64_t etag_seed;      /* not 0: the proxy's own entity-tags are left out (coap/block.h) */
    uint64_t request_tag;    /* not 0: in place of the client's */
    const struct passed_options
        *passed; /* of the request, borrowed for the call; NULL: not known */
};

/**
 * Encode a confirmable request to the next hop: its message id is 0, for the caller to
 * fill in.
 *
 * @param naming    which options name the target.
 * @param request   the client's request, whose options have been scanned.
 * @return bytes written; 0 where it does not fit.
 */
size_t encode_request(const struct target *target, const struct naming *naming,
                      const struct additions *additions, const struct message *request,
                      struct bytes token, uint8_t *buffer, size_t capacity);

/**
 * Encode a request that was sent before with its target named in another way.
 *
 * @param sent as encode_request() made it: all its options go along but those that name
 *             the target.
 * @return bytes written; 0 where it does not fit.
 */
size_t encode_renamed(const struct target *target, const struct naming *naming,
                      const struct message *sent, struct bytes token, uint8_t *buffer,
                      size_t capacity);

/**
 * Make a registration (Observe 0, which is empty) the deregistration that is otherwise equal
 * (RFC 7641 section 3.6): a byte longer.
 *
 * @param datagram as encode_request() made it.
 * @return its new length; 0 where it is no registration or does not fit @p capacity.
 */
size_t encode_deregistration(uint8_t *datagram, size_t len, size_t capacity);

#endif
