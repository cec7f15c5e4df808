/* SPDX-License-Identifier: BSD-2-Clause */
/* The host's own addresses, so that the proxy can tell itself from others. */
#ifndef CRIPROXY_INTERFACES_H
#define CRIPROXY_INTERFACES_H

#include "net/address.h"

/**
 * The addresses of all interfaces, ports 0.
 *
 * @return how many were written, at most @p max.
 */
size_t interfaces_list(struct address *addresses, size_t max);

#endif
