/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/interfaces.h"

#include "net/sockaddr.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(INTERFACE_NAME_MAX >= IF_NAMESIZE, "every interface's name fits");

/* @return false for an interface without an IP address, or of another kind. */
static bool interfaces_take(const struct sockaddr *from, struct address *ret_address)
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
        count += interfaces_take(at->ifa_addr, &addresses[count]);
    }
    freeifaddrs(list);
    return count;
}

/* Only decimal digits; 0 if it is no number of an interface. */
static uint32_t parse_index(const char *text)
{
    char *end;
    size_t len = strlen(text);
    if (len == 0 || len > 10 || strspn(text, "0123456789") != len) {
        return 0;
    }
    unsigned long number = strtoul(text, &end, 10);
    return number <= INT32_MAX ? (uint32_t)number : 0;
}

bool interfaces_find(const char *zone, struct interface_name *ret_interface)
{
    struct interface_name found = {.index = if_nametoindex(zone)};
    if (found.index == 0) {
        found.index = parse_index(zone);
    }
    if (found.index == 0 || if_indextoname(found.index, found.name) == NULL) {
        return false;
    }
    *ret_interface = found;
    return true;
}
