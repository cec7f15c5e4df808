/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests of clients: from the datagram to an exchange or an answer. */
#ifndef CRIPROXY_REQUEST_H
#define CRIPROXY_REQUEST_H

#include "coap/option.h"
#include "front/target.h"

struct engine;

/* The handler of the listeners; the context is the struct listener. */
extern const struct udp_handler request_handler;

/**
 * Go through the options of a request: collect what the proxy acts on, find what
 * it must not let pass (RFC 7252 sections 5.4 and 5.7.1; OPT-2..OPT-10).
 *
 * @return false with @p ret_problem filled.
 */
bool request_scan(const struct message *message, struct request_options *ret_options,
                  struct problem *ret_problem);

#endif
