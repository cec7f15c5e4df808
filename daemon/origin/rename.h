/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A parent proxy that does not know the options of Constrained Resource Identifiers
 * answers 4.02 to them (RFC 7252 section 5.4.1), and has done nothing. It is told the
 * target once more, in the options of RFC 7252 (PXO-26). Where that helped, further
 * requests on the route begin with them, for some minutes or until the next reload.
 */
#ifndef CRIPROXY_RENAME_H
#define CRIPROXY_RENAME_H

#include "conf/schema.h"
#include "exchange/exchange.h"

/* What has been learned about the parents of routes. */
struct parent_memory {
    uint64_t knows_uris_only_until_ms[CONFIG_ROUTE_MAX]; /* by the route's place */
    uint32_t epoch; /* of the configuration that the routes are in: see engine->policy_epoch */
};

/** The form to begin with on a route, where @p form is configured. */
enum config_route_form rename_form(const struct engine *engine, const struct next_hop *hop,
                                   enum config_route_form form);

/**
 * Ask the parent again in other words, where that may help.
 *
 * @param code of the response that has come.
 * @return whether the request is on its way again: the response is then nobody's.
 */
bool rename_and_ask_again(struct engine *engine, struct exchange *exchange, uint8_t code);

#endif
