/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The client's side of a request: where its answer goes, and in which form.
 */
#ifndef CRIPROXY_LEG_H
#define CRIPROXY_LEG_H

#include "coap/message.h"
#include "net/udp.h"

struct client;
struct listener;

struct leg {
    struct listener *listener;
    struct client *client;
    struct udp_path path;
    struct bytes token; /* in the datagram at first, in the exchange's memory later */
    uint16_t mid;
    bool confirmable;
    bool acknowledged; /* an empty ACK has left: the answer must be separate (MSG-19) */
    bool is_safe;      /* the method is: GET or FETCH */
    uint8_t unwanted; /* classes of answers the client does not want (RFC 7967): 1 << (class - 1) */
};

#endif
