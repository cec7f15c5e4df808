/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A parent proxy that does not know the options of Constrained Resource Identifiers
 * answers 4.02 to them (RFC 7252 section 5.4.1), and has done nothing. It is told the
 * target once more, in the options of RFC 7252 (PXO-26).
 */
#ifndef CRIPROXY_RENAME_H
#define CRIPROXY_RENAME_H

#include "exchange/exchange.h"

/**
 * Ask the parent again in other words, where that may help.
 *
 * @param code of the response that has come.
 * @return whether the request is on its way again: the response is then nobody's.
 */
bool rename_and_ask_again(struct engine *engine, struct exchange *exchange, uint8_t code);

#endif
