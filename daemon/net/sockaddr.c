/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/sockaddr.h"

#include <string.h>

socklen_t sockaddr_from_address(const struct address *address, union sockaddr_any *ret_name)
{
    if (address->family == ADDRESS_IPV4) {
        ret_name->ipv4 =
            (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(address->port)};
        memcpy(&ret_name->ipv4.sin_addr, address->ip, 4);
        return sizeof ret_name->ipv4;
    }
    if (address->family == ADDRESS_IPV6) {
        ret_name->ipv6 = (struct sockaddr_in6){.sin6_family = AF_INET6,
                                               .sin6_port = htons(address->port),
                                               .sin6_scope_id = address->scope};
        memcpy(&ret_name->ipv6.sin6_addr, address->ip, 16);
        return sizeof ret_name->ipv6;
    }
    return 0;
}

void sockaddr_to_address(const void *name, socklen_t name_len, struct address *ret_address)
{
    union sockaddr_any copy;

    if (name_len < sizeof copy.ipv4) { /* too short for either */
        *ret_address = (struct address){.family = ADDRESS_NONE};
        return;
    }
    memcpy(&copy.ipv4, name, sizeof copy.ipv4);
    if (copy.ipv4.sin_family == AF_INET) {
        address_set_ip(ret_address, (const uint8_t *)&copy.ipv4.sin_addr, 4,
                       ntohs(copy.ipv4.sin_port));
    } else if (copy.ipv4.sin_family == AF_INET6 && name_len >= sizeof copy.ipv6) {
        memcpy(&copy.ipv6, name, sizeof copy.ipv6);
        address_set_ip(ret_address, copy.ipv6.sin6_addr.s6_addr, 16, ntohs(copy.ipv6.sin6_port));
        ret_address->scope = copy.ipv6.sin6_scope_id;
    } else {
        *ret_address = (struct address){.family = ADDRESS_NONE};
    }
}
