/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine's HTTP client (net/web.h), as carrier_http uses it: a CoAP request becomes an HTTP
 * request (coap/http_request.h), the answer a CoAP answer (coap/http_response.h). Made when the
 * first request needs it. After two connections in a row that an address has refused or not
 * answered, it is left alone for upstream.back-off, doubled with each one more.
 */
#ifndef CRIPROXY_CARRIER_HTTP_H
#define CRIPROXY_CARRIER_HTTP_H

#include <stdint.h>

struct origin_side;

/** What is due. @return when to be called next, or UINT64_MAX. */
uint64_t carrier_http_turn(struct origin_side *side, uint64_t now_ms);

/** The engine's configuration has changed: limits hold from now on, connections stay. Cannot fail.
 */
void carrier_http_set_config(struct origin_side *side);

/** Closes all connections; no call is made. Takes an engine without any. */
void carrier_http_free(struct origin_side *side);

#endif
