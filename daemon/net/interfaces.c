/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/interfaces.h"

#include "net/sockaddr.h"

#include <ifaddrs.h>

/* @return false for what has no IP address: an interface of another kind, or without one. */
static bool take(const struct sockaddr *from, struct address *ret_address)
{
    struct address address = {0};

    if (from != NULL && from->sa_family == AF_INET) {
        sockaddr_to_address(from, sizeof(struct sockaddr_in), &address);
    } else if (from != NULL && from->sa_family == AF_INET6) {
        sockaddr_to_address(from, sizeof(struct sockaddr_in6), &address);
    }
    if (address.family == ADDRESS_NONE) {
        return false;
    }
    *ret_address = address;
    return true;
}

size_t interfaces_list(struct address *addresses, size_t max)
{
    struct ifaddrs *list;
    size_t count = 0;
    if (getifaddrs(&list) != 0) {
        return 0;
    }
    for (const struct ifaddrs *at = list; at != NULL && count < max; at = at->ifa_next) {
        count += take(at->ifa_addr, &addresses[count]);
    }
    freeifaddrs(list);
    return count;
}
