/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams from clients: to requests, repetitions, acknowledgements, garbage. */
#ifndef CRIPROXY_DATAGRAM_H
#define CRIPROXY_DATAGRAM_H

#include "net/dtls.h"
#include "net/udp.h"

struct client;
struct client_side;
struct config_device;
struct leg;

/* The handler of the listeners; the context is the struct listener. */
extern const struct udp_handler datagram_handler;

/* The same for DTLS listeners. */
extern const struct dtls_handler secure_datagram_handler;

/**
 * The session of @p client is going: its safe requests end, unsafe ones go on without a client to
 * answer, and answers remembered for it are not found any more. The client stays in its table.
 * Cannot fail.
 */
void datagram_client_gone(struct client_side *side, struct client *client);

/**
 * The configuration has changed, and device_set_config() was called: sessions that are open may be
 * of devices that it has now. Of several of one device any takes the place. Cannot
 * fail.
 */
void datagram_find_devices(struct client_side *side);

/**
 * The client of @p leg, on UDP in the clear, is the device of @p row for @p lifetime_ms. The caller
 * has asked device_is_taken().
 *
 * @param ret_is_new whether it was not yet
 * @return false without memory
 */
bool datagram_register(struct client_side *side, const struct leg *leg,
                       const struct config_device *row, uint32_t lifetime_ms, bool *ret_is_new);

#endif
