/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams from origin servers: what carrier_udp brings back comes in here. */
#ifndef CRIPROXY_CARRIER_UDP_H
#define CRIPROXY_CARRIER_UDP_H

#include "net/udp.h"

/* The handler of our source ports; the context is the struct port. */
extern const struct udp_handler carrier_udp_handler;

#endif
