/* SPDX-License-Identifier: BSD-2-Clause */
/* struct address to and from the system's socket addresses. */
#ifndef CRIPROXY_SOCKADDR_H
#define CRIPROXY_SOCKADDR_H

#include "base/address.h"

#include <netinet/in.h>
#include <sys/socket.h>

union sockaddr_any {
    struct sockaddr any;
    struct sockaddr_in ipv4;
    struct sockaddr_in6 ipv6;
};

/** @return bytes used of @p ret_name, 0 for an address that is not set. */
socklen_t sockaddr_from_address(const struct address *address, union sockaddr_any *ret_name);

/** @p name may lie anywhere; ADDRESS_NONE where the family is not IP or it is too short. */
void sockaddr_to_address(const void *name, socklen_t name_len, struct address *ret_address);

#endif
