/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether this process has run out of descriptors. Libraries that open sockets report this like a
 * host that does not answer, although it is not the host's fault.
 */
#ifndef CRIPROXY_SHORTAGE_H
#define CRIPROXY_SHORTAGE_H

#include <stdbool.h>

/** Whether no socket can be had now. Tries it: call it where something has failed already. */
bool shortage_of_sockets(void);

#endif
