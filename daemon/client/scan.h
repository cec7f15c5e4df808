/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The options of a request, gone through once: what the proxy acts on is
 * collected, what it must not let pass is found (RFC 7252 sections 5.4 and 5.7.1).
 */
#ifndef CRIPROXY_SCAN_H
#define CRIPROXY_SCAN_H

#include "coap/target.h"

/**
 * @param ret_options borrowed from @p message.
 * @return false with @p ret_problem filled (OPT-2..OPT-10).
 */
bool scan_options(const struct message *message, struct request_options *ret_options,
                  struct problem *ret_problem);

/**
 * Write into @p problem its reason and the option, as "WHAT 235 (proxy-cri)" (OPT-4); cut where it
 * is too long.
 */
void scan_name_option(struct problem *problem, enum reason reason, const char *what,
                      uint16_t number);

#endif
