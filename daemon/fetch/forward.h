/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The way to the origin server: encode, find the address, have it sent there (origin/origin.h),
 * and what comes of that: the answer, another address, or a failure.
 */
#ifndef CRIPROXY_FORWARD_H
#define CRIPROXY_FORWARD_H

#include "coap/message.h"
#include "coap/reason.h"
#include "conf/config.h"
#include "fetch/fetch.h"
#include "fetch/make.h"
#include "origin/origin.h"

#include <stdbool.h>

/** Begin: the fetch has its target and its datagram. A failure may end it, and free it, at once. */
void forward_start(struct fetch_side *side, struct fetch *fetch);

/** How a fetch hears of what it has sent. */
extern const struct sending_calls forward_calls;

/** The addresses of the name of a fetch are known, or will not be; as name_result_fn. */
void forward_on_name(struct origin_side *below, struct name_wait *wait,
                     const struct name_result *result);

/** The fetch stays for further answers: nothing is out, no time runs (state observing). */
void forward_keep(struct fetch_side *side, struct fetch *fetch);

/** It has failed and stays, to be sent again: nothing is held, not even its origin server. */
void forward_park(struct fetch_side *side, struct fetch *fetch);

/**
 * Send the request of a fetch in state observing once more, with the same token: to the same
 * address from the same source port, unless its host name has other addresses by now, none of
 * which is the present one; where it was parked, from the beginning. A failure may end it, and
 * free it, at once.
 */
void forward_again(struct fetch_side *side, struct fetch *fetch);

/**
 * Send it as a deregistration to the address that it was sent to, of a fetch in state
 * observing that is not parked. May end it at once.
 *
 * @return false where it cannot be made one; nothing is sent then.
 */
bool forward_deregister(struct fetch_side *side, struct fetch *fetch);

/**
 * The request was refused and taken back (sending_take_back()): send the datagram that has taken
 * its place, to the same address. May end the fetch, and free it, where the queue is full.
 */
void forward_renamed(struct fetch_side *side, struct fetch *fetch);

/**
 * Let go of queue, window, origin and timer. Others that waited may be sent, but none ends: what
 * is borrowed from a store stays there.
 */
void forward_release(struct fetch_side *side, struct fetch *fetch);

/* Responses of origin servers: what may be passed on, and how. */

/**
 * Whether a response that came over @p scheme may be given to a client; false where its code or an
 * option is invalid. @p ret_absent is set where it may: `absent` of a struct reply with its
 * options.
 */
bool receive_is_usable(const struct message *message, const struct scheme *scheme,
                       uint64_t *ret_absent);

#endif
