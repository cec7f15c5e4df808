/* SPDX-License-Identifier: BSD-2-Clause */
/* The request to the next hop, made from the client's request and its target. */
#ifndef CRIPROXY_ENCODE_H
#define CRIPROXY_ENCODE_H

#include "origin/naming.h"

/* Options that the proxy adds of its own. */
struct additions {
    uint8_t hop_limit; /* 0: no Hop-Limit */
    bool has_observe;
    uint32_t observe;
    const struct bytes *etags; /* of representations to be validated */
    size_t etag_count;
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

#endif
