/* SPDX-License-Identifier: BSD-2-Clause */
#include "address.h"

#include "args.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    LOOPBACK_NET = 127,
};

/* Splits "host:port" or "[host]:port"; the host without brackets goes to host. */
static int split(const char *text, char *host, size_t capacity, uint64_t *ret_port)
{
    const char *colon = strrchr(text, ':');
    size_t len;

    if (colon == NULL || args_parse_count(colon + 1, UINT16_MAX, ret_port) != 0) {
        return -EINVAL;
    }
    len = (size_t)(colon - text);
    if (len >= 2 && text[0] == '[' && text[len - 1] == ']') {
        text++;
        len -= 2;
    }
    if (len >= capacity) {
        return -EINVAL;
    }
    memcpy(host, text, len);
    host[len] = '\0';
    return 0;
}

int address_parse(const char *text, union address *ret_address)
{
    union address address;
    char host[ADDRESS_TEXT_MAX];
    uint64_t port;

    if (split(text, host, sizeof(host), &port) != 0) {
        return -EINVAL;
    }
    memset(&address, 0, sizeof(address));
    if (inet_pton(AF_INET, host, &address.v4.sin_addr) == 1) {
        address.v4.sin_family = AF_INET;
        address.v4.sin_port = htons((uint16_t)port);
    } else if (inet_pton(AF_INET6, host, &address.v6.sin6_addr) == 1) {
        address.v6.sin6_family = AF_INET6;
        address.v6.sin6_port = htons((uint16_t)port);
    } else {
        return -EINVAL;
    }
    *ret_address = address;
    return 0;
}

void address_format(const union address *address, char text[static ADDRESS_TEXT_MAX])
{
    char host[INET6_ADDRSTRLEN] = "?";

    if (address->any.sa_family == AF_INET) {
        inet_ntop(AF_INET, &address->v4.sin_addr, host, sizeof(host));
        snprintf(text, ADDRESS_TEXT_MAX, "%s:%u", host, (unsigned)ntohs(address->v4.sin_port));
    } else {
        inet_ntop(AF_INET6, &address->v6.sin6_addr, host, sizeof(host));
        snprintf(text, ADDRESS_TEXT_MAX, "[%s]:%u", host, (unsigned)ntohs(address->v6.sin6_port));
    }
}

socklen_t address_len(const union address *address)
{
    return address->any.sa_family == AF_INET ? sizeof(address->v4) : sizeof(address->v6);
}

bool address_is_loopback(const union address *address)
{
    if (address->any.sa_family == AF_INET) {
        return ntohl(address->v4.sin_addr.s_addr) >> 24 == LOOPBACK_NET;
    }
    return IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr);
}

bool address_equal(const union address *a, const union address *b)
{
    if (a->any.sa_family != b->any.sa_family) {
        return false;
    }
    if (a->any.sa_family == AF_INET) {
        return a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr && a->v4.sin_port == b->v4.sin_port;
    }
    return IN6_ARE_ADDR_EQUAL(&a->v6.sin6_addr, &b->v6.sin6_addr) &&
           a->v6.sin6_port == b->v6.sin6_port;
}

union address address_v4(uint32_t host_order, in_port_t port_be)
{
    union address address;

    memset(&address, 0, sizeof(address));
    address.v4.sin_family = AF_INET;
    address.v4.sin_port = port_be;
    address.v4.sin_addr.s_addr = htonl(host_order);
    return address;
}
