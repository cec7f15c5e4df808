/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams from origin servers: what carrier_udp brings back comes in here. And the message layer
 * on the way out, which devices on DTLS share.
 */
#ifndef CRIPROXY_CARRIER_UDP_H
#define CRIPROXY_CARRIER_UDP_H

#include "net/udp.h"

/* The handler of our source ports; the context is the struct port. */
extern const struct udp_handler carrier_udp_handler;

struct origin_side;
struct sending;

/**
 * A request is about to leave for the first time, with that message id: from now on it is in the
 * map of what is out, under @p key, and sent again until its timer is taken back. The caller sends
 * the first copy.
 */
void carrier_udp_begin(struct origin_side *side, struct sending *sending, uint16_t mid,
                       uint64_t key);

#endif
