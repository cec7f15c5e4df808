/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Loops of proxies (RFC 8768): Hop-Limit counts down on the way out, and the names of
 * the proxies come back in the diagnostic payload of 5.08.
 *
 * The proxy's name comes first in the payload of a 5.08. One that has the name already is not
 * passed on (section 4): the request has come around, and a 5.08 of our own has the names of
 * the loop once each.
 */
#ifndef CRIPROXY_HOPS_H
#define CRIPROXY_HOPS_H

#include "coap/message.h"
#include "coap/reason.h"
#include "conf/config.h"

/* Longest list of names that is put together: it has to fit any path (RFC 7252 section 4.6). */
#define HOPS_NAMES_MAX 1024u

enum hops_verdict {
    HOPS_UNCHANGED, /* passes as it is */
    HOPS_NAMED,     /* passes with our name in front */
    HOPS_LOOP,      /* has our name already: the request has come around */
};

/**
 * Hop-Limit towards the next hop (RFC 8768 section 3).
 *
 * @param received value of the request's option; no data where it has none.
 * @param ret_next 0: send none.
 * @return REASON_none; REASON_hop_limit_invalid for a 0; REASON_hop_limit_reached where
 *         the request may go no further.
 */
enum reason hops_take(const struct config *config, struct bytes received, uint8_t *ret_next);

/**
 * The diagnostic payload of a 5.08 on its way back (RFC 8768 section 4).
 *
 * @param payload   as it came; borrowed for the call.
 * @param ret_names NAMED: the payload to pass on. LOOP: names of the proxies in the loop,
 *                  ours first, each as it came. Not NUL-terminated.
 * @param ret_len   bytes of it; untouched for UNCHANGED.
 */
enum hops_verdict hops_pass_back(const struct config *config, struct bytes payload,
                                 char ret_names[HOPS_NAMES_MAX], size_t *ret_len);

#endif
