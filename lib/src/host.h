/* SPDX-License-Identifier: BSD-2-Clause */
/* IP addresses as text; see host.c. */
#ifndef CRI_HOST_H
#define CRI_HOST_H

#include "internal.h"

/* Longest text of an address, in brackets: "[ffff:...:ffff:255.255.255.255]" and then some. */
#define CRI__IP_TEXT_MAX 64u

/** IPv4address of RFC 3986, in network order; false for other text, with ret_ip untouched. */
bool cri__ipv4_parse(struct cri_slice text, uint8_t ret_ip[4]);

/**
 * IPv6address of RFC 3986, without brackets, in network order; false for other text, with ret_ip
 * untouched.
 */
bool cri__ipv6_parse(struct cri_slice text, uint8_t ret_ip[16]);

/* The address of 4 or 16 bytes as it stands in a URI, not NUL-terminated; gives the length. */
size_t cri__ip_format(struct cri_slice ip, char text[CRI__IP_TEXT_MAX]);

/* Value of a hexadecimal digit, or -1. */
static inline int cri__hex_value(uint8_t digit)
{
    if (digit >= '0' && digit <= '9') {
        return digit - '0';
    }
    uint8_t lower = digit | 0x20u;
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

#endif
