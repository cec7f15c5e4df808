/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The end of each request, told once: counted, one access line in the log, and
 * for labs (--trace) a block of lines that says what it became.
 *
 * Never payloads, key material, or bytes that a terminal could take for commands.
 */
#ifndef CRIPROXY_TRACE_H
#define CRIPROXY_TRACE_H

#include "exchange/exchange.h"

struct engine;

/**
 * An exchange ended for @p reason; the client is given @p code (0: nothing). It is
 * counted by exchange_finish(): the delivery of its answer may still fail.
 */
void trace_ended(struct engine *engine, const struct exchange *exchange, enum reason reason,
                 uint8_t code);

/** A request that became no exchange: the proxy itself has given @p code. */
void trace_answered(struct engine *engine, const struct leg *leg, const struct message *request,
                    const struct problem *problem, uint8_t code);

/** The same with the code of the problem's reason. */
void trace_refused(struct engine *engine, const struct leg *leg, const struct message *request,
                   const struct problem *problem);

#endif
