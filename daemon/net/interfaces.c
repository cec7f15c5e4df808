/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/interfaces.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <string.h>

static bool take(const struct sockaddr *from, struct address *to)
{
    if (from == NULL) {
        return false;
    }
    if (from->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, from, sizeof(in));
        address_set_ip(to, (const uint8_t *)&in.sin_addr, 4, 0);
        return true;
    }
    if (from->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, from, sizeof(in6));
        address_set_ip(to, in6.sin6_addr.s6_addr, 16, 0);
        to->scope = in6.sin6_scope_id;
        return true;
    }
    return false;
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
