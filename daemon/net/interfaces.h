/* SPDX-License-Identifier: BSD-2-Clause */
/* The host's own addresses, so that the proxy can tell itself from others. */
#ifndef CRIPROXY_INTERFACES_H
#define CRIPROXY_INTERFACES_H

#include "base/address.h"

/**
 * The addresses of all interfaces, ports 0.
 *
 * @return how many were written, at most @p max.
 */
size_t interfaces_list(struct address *addresses, size_t max);

/* An interface's name with its NUL (IF_NAMESIZE of the system). */
#define INTERFACE_NAME_MAX 16

struct interface_name {
    uint32_t index;
    char name[INTERFACE_NAME_MAX];
};

/**
 * The interface that @p zone stands for: its name, or its number in decimal.
 *
 * Asks the system, so not for every request.
 *
 * @return false where there is none.
 */
bool interfaces_find(const char *zone, struct interface_name *ret_interface);

#endif
