/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams from clients: to requests, repetitions, acknowledgements, garbage. */
#ifndef CRIPROXY_DATAGRAM_H
#define CRIPROXY_DATAGRAM_H

#include "net/dtls.h"
#include "net/udp.h"

struct client;
struct client_side;

/* The handler of the listeners; the context is the struct listener. */
extern const struct udp_handler datagram_handler;

/* The same for DTLS listeners. */
extern const struct dtls_handler secure_datagram_handler;

/**
 * The session of @p client is going: its safe requests end, unsafe ones go on without a client to
 * answer, and answers remembered for it are not found any more. The client stays in its table.
 */
void datagram_client_gone(struct client_side *side, struct client *client);

#endif
