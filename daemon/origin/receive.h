/* SPDX-License-Identifier: BSD-2-Clause */
/* What comes back from origin servers. */
#ifndef CRIPROXY_RECEIVE_H
#define CRIPROXY_RECEIVE_H

#include "net/udp.h"

/** The handler of our source ports; the context is the struct port. */
extern const struct udp_handler receive_handler;

#endif
