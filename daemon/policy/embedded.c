/* SPDX-License-Identifier: BSD-2-Clause */
#include "policy/embedded.h"

#include <string.h>

/* The addresses found so far. */
struct found {
    struct address *ipv4;
    size_t count;
};

static void embedded_add(struct found *found, const uint8_t ip[4])
{
    if (found->count < EMBEDDED_MAX) {
        address_set_ip(&found->ipv4[found->count], ip, 4, 0);
        found->count++;
    }
}

bool embedded_is_nat64_length(unsigned bits)
{
    return bits == 96 || (bits >= 32 && bits <= 64 && bits % 8 == 0);
}

/*
 * The four bytes behind the prefix; byte 8 is left out, as it is always zero (RFC 6052). The bytes
 * after them should be zero, but some translators ignore them. Four bytes that begin with a zero
 * are no reachable address: the prefix is rather a longer one that begins with this one.
 */
static void add_behind(struct found *found, const struct address *address, unsigned bits)
{
    uint8_t ip[4];
    size_t at = bits / 8;
    for (size_t i = 0; i < sizeof(ip); i++, at++) {
        at += at == 8 && bits != 96;
        ip[i] = address->ip[at];
    }
    if (bits == 96 || ip[0] != 0) {
        embedded_add(found, ip);
    }
}

static bool begins_with(const struct address *address, const uint8_t *bytes, size_t len)
{
    return memcmp(address->ip, bytes, len) == 0;
}

/* ::a.b.c.d (RFC 4291 2.5.5.1), ::ffff:a.b.c.d (2.5.5.2), ::ffff:0:a.b.c.d (RFC 2765). */
static void add_spelled(struct found *found, const struct address *address)
{
    static const uint8_t compatible[12] = {0};
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    static const uint8_t translated[12] = {[8] = 0xff, [9] = 0xff};
    /* :: and ::1 are addresses of their own. */
    static const uint8_t small[15] = {0};
    bool is_own = begins_with(address, small, sizeof(small)) && address->ip[15] <= 1;
    if (!is_own && (begins_with(address, compatible, sizeof(compatible)) ||
                    begins_with(address, mapped, sizeof(mapped)) ||
                    begins_with(address, translated, sizeof(translated)))) {
        embedded_add(found, address->ip + 12);
    }
}

/* 2002:AABB:CCDD::/48 (RFC 3056), 2001:0:SERVER:...:~CLIENT (RFC 4380), ::5efe:a.b.c.d (RFC 5214).
 */
static void add_tunnelled(struct found *found, const struct address *address)
{
    static const uint8_t six_to_four[2] = {0x20, 0x02};
    static const uint8_t teredo[4] = {0x20, 0x01, 0, 0};
    const uint8_t *ip = address->ip;
    if (begins_with(address, six_to_four, sizeof(six_to_four))) {
        embedded_add(found, ip + 2);
    }
    if (begins_with(address, teredo, sizeof(teredo))) {
        uint8_t client[4];
        for (size_t i = 0; i < sizeof(client); i++) {
            client[i] = (uint8_t)~ip[12 + i];
        }
        embedded_add(found, ip + 4);
        embedded_add(found, client);
    }
    if ((ip[8] & 0xfdu) == 0 && ip[9] == 0 && ip[10] == 0x5e && ip[11] == 0xfe) {
        embedded_add(found, ip + 12);
    }
}

size_t embedded_ipv4(const struct address *address, const struct address_prefix *nat64,
                     size_t nat64_count, struct address ret_ipv4[EMBEDDED_MAX])
{
    struct found found = {.ipv4 = ret_ipv4};
    if (address->family != ADDRESS_IPV6) {
        return 0;
    }
    add_spelled(&found, address);
    add_tunnelled(&found, address);
    for (size_t i = 0; i < nat64_count; i++) {
        if (address_prefix_covers(&nat64[i], address)) {
            add_behind(&found, address, nat64[i].bits);
        }
    }
    return found.count;
}
