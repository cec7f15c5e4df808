/* SPDX-License-Identifier: BSD-2-Clause */
/* The request to the next hop, made from the client's request and its target. */
#ifndef CRIPROXY_ENCODE_H
#define CRIPROXY_ENCODE_H

#include "front/target.h"

/**
 * Encode a confirmable request straight to the origin server (draft section 8.1.1
 * with the origin server's own address as destination): its message id is 0, for
 * the caller to fill in.
 *
 * @param hop_limit value of Hop-Limit; 0: leave it out.
 * @param request   the client's request, whose options have been scanned.
 * @return bytes written; 0 where it does not fit.
 */
size_t encode_request(const struct target *target, uint8_t hop_limit, const struct message *request,
                      struct bytes token, uint8_t *buffer, size_t capacity);

#endif
