/* SPDX-License-Identifier: BSD-2-Clause */
/* Socket addresses with a port, IPv4 and IPv6, as the command line gives them. */
#ifndef COAPBENCH_ADDRESS_H
#define COAPBENCH_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

enum {
    ADDRESS_TEXT_MAX = 64, /* "[", address, "]:", port, NUL */
};

/** "127.0.0.1:5683" or "[::1]:5683"; no names. @return 0 or -EINVAL. */
int address_parse(const char *text, union address *ret_address);

/** The reverse, for messages. */
void address_format(const union address *address, char text[static ADDRESS_TEXT_MAX]);

socklen_t address_len(const union address *address);
bool address_is_loopback(const union address *address);
bool address_equal(const union address *a, const union address *b);

/** An IPv4 address in host byte order, with @p port_be as it is in sin_port. */
union address address_v4(uint32_t host_order, in_port_t port_be);

#endif
