/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

/* "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255%" + an interface name, or a little more. */
#define HOST_TEXT_MAX 80

size_t address_ip_len(const struct address *address)
{
    switch (address->family) {
    case ADDRESS_IPV4:
        return 4;
    case ADDRESS_IPV6:
        return 16;
    default:
        return 0;
    }
}

bool address_is_among(const struct address *addresses, size_t count, const struct address *address)
{
    for (size_t i = 0; i < count; i++) {
        if (address_same_host(&addresses[i], address)) {
            return true;
        }
    }
    return false;
}

/*
 * SipHash-1-3 (Aumasson, Bernstein) over the 24 bytes, of IPv4 over the 8 of family, port and
 * address: keyed well enough for a table that strangers fill, at some 20 ns.
 */
struct sip {
    uint64_t v0, v1, v2, v3;
};

static uint64_t rotate_left(uint64_t value, unsigned bits)
{
    return value << bits | value >> (64 - bits);
}

static inline void sip_round(struct sip *s)
{
    s->v0 += s->v1;
    s->v1 = rotate_left(s->v1, 13) ^ s->v0;
    s->v0 = rotate_left(s->v0, 32);
    s->v2 += s->v3;
    s->v3 = rotate_left(s->v3, 16) ^ s->v2;
    s->v0 += s->v3;
    s->v3 = rotate_left(s->v3, 21) ^ s->v0;
    s->v2 += s->v1;
    s->v1 = rotate_left(s->v1, 17) ^ s->v2;
    s->v2 = rotate_left(s->v2, 32);
}

static inline void sip_word(struct sip *s, uint64_t word)
{
    s->v3 ^= word;
    sip_round(s);
    s->v0 ^= word;
}

uint64_t address_hash(const struct address *address, uint64_t seed)
{
    uint64_t word[sizeof *address / sizeof(uint64_t)];
    size_t count = sizeof word / sizeof word[0];
    uint64_t key1 = ~seed; /* one 64-bit seed is all the key there is */
    struct sip s = {
        .v0 = seed ^ UINT64_C(0x736f6d6570736575),
        .v1 = key1 ^ UINT64_C(0x646f72616e646f6d),
        .v2 = seed ^ UINT64_C(0x6c7967656e657261),
        .v3 = key1 ^ UINT64_C(0x7465646279746573),
    };

    if (address->family == ADDRESS_IPV4) {
        uint32_t ip;
        memcpy(&ip, address->ip, sizeof ip);
        word[0] = (uint64_t)ip << 32 | (uint32_t)address->port << 16 | address->family;
        count = 1;
    } else {
        memcpy(word, address, sizeof word);
    }
    for (size_t i = 0; i < count; i++) {
        sip_word(&s, word[i]);
    }
    sip_word(&s, (uint64_t)(count * sizeof word[0]) << 56);
    s.v2 ^= 0xff;
    sip_round(&s);
    sip_round(&s);
    sip_round(&s);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

void address_set_ip(struct address *address, const uint8_t *ip, size_t ip_len, uint16_t port)
{
    const uint32_t family = ip_len == 4 ? ADDRESS_IPV4 : ADDRESS_IPV6;
    uint64_t words[3] = {0, 0, 0};
    uint32_t ipv4 = 0;
    _Static_assert(sizeof words == sizeof *address, "an address is three words");

    if (ip_len == 4) {
        memcpy(&ipv4, ip, sizeof ipv4);
    } else if (ip_len == 16) {
        memcpy(&words[1], ip, 16);
    }
    if (ip_len == 4 || ip_len == 16) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        words[0] = (uint64_t)port << 16 | family;
        words[1] |= ipv4;
#else
        words[0] = (uint64_t)family << 48 | (uint64_t)port << 32;
        words[1] |= (uint64_t)ipv4 << 32;
#endif
    }
    memcpy(address, words, sizeof words);
}

/* By hand, as printf would take most of the time. */
static size_t put_decimal_digits(char *text, uint16_t number)
{
    size_t len = 1;
    for (unsigned left = number / 10u; left > 0; left /= 10) {
        len++;
    }
    for (size_t at = len; at > 0; number /= 10) {
        text[--at] = (char)('0' + number % 10);
    }
    return len;
}

const char *address_format_ip(const struct address *address, char text[ADDRESS_IP_TEXT_MAX])
{
    size_t len = 0;
    text[0] = '\0';
    if (address->family == ADDRESS_IPV6) {
        (void)inet_ntop(AF_INET6, address->ip, text, ADDRESS_IP_TEXT_MAX);
    } else if (address->family == ADDRESS_IPV4) {
        for (size_t i = 0; i < 4; i++) {
            len += put_decimal_digits(text + len, address->ip[i]);
            text[len++] = i < 3 ? '.' : '\0';
        }
    }
    return text;
}

const char *address_format(const struct address *address, char text[ADDRESS_TEXT_MAX])
{
    char ip[ADDRESS_IP_TEXT_MAX];

    if (address->family == ADDRESS_IPV4) {
        size_t len = strlen(address_format_ip(address, text));
        text[len++] = ':';
        text[len + put_decimal_digits(text + len, address->port)] = '\0';
        return text;
    }
    (void)address_format_ip(address, ip);
    if (address->family == ADDRESS_IPV6) {
        if (address->scope != 0) {
            snprintf(text, ADDRESS_TEXT_MAX, "[%s%%%u]:%u", ip, (unsigned)address->scope,
                     (unsigned)address->port);
        } else {
            snprintf(text, ADDRESS_TEXT_MAX, "[%s]:%u", ip, (unsigned)address->port);
        }
    } else if (address->family == ADDRESS_DEVICE) {
        snprintf(text, ADDRESS_TEXT_MAX, "device:%u", (unsigned)address->scope);
    } else if (address->family == ADDRESS_RECORDING) {
        snprintf(text, ADDRESS_TEXT_MAX, "recording:%u", (unsigned)address->scope);
    } else {
        snprintf(text, ADDRESS_TEXT_MAX, "-");
    }
    return text;
}

/* Decimal digits and nothing else, at most @p max. */
static bool parse_decimal(const char *text, size_t len, uint32_t max, uint32_t *ret_value)
{
    uint64_t value = 0;

    if (len == 0 || len > 10) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    if (value > max) {
        return false;
    }
    *ret_value = (uint32_t)value;
    return true;
}

/* "" or ":PORT". */
static bool parse_port(const char *text, size_t len, uint16_t default_port, uint16_t *ret_port)
{
    uint32_t port = default_port;
    if (len != 0 && (text[0] != ':' || !parse_decimal(text + 1, len - 1, UINT16_MAX, &port))) {
        return false;
    }
    *ret_port = (uint16_t)port;
    return true;
}

/* An interface's number or name. Names ask the system: for configuration, not for peers' bytes. */
static bool parse_zone(const char *zone, uint32_t *ret_scope)
{
    size_t len = strlen(zone);
    uint32_t scope = 0;

    if (!parse_decimal(zone, len, UINT32_MAX, &scope)) {
        if (len == 0 || len >= IF_NAMESIZE) {
            return false;
        }
        scope = if_nametoindex(zone);
    }
    if (scope == 0) {
        return false;
    }
    *ret_scope = scope;
    return true;
}

/* "IPv6" or "IPv6%ZONE", or "IPv4", NUL-terminated and writable. */
static bool parse_host(char *host, bool is_ipv6, struct address *ret_address)
{
    struct address address = {.family = is_ipv6 ? ADDRESS_IPV6 : ADDRESS_IPV4};

    if (is_ipv6) {
        char *zone = strchr(host, '%');
        if (zone != NULL) {
            *zone++ = '\0';
            if (!parse_zone(zone, &address.scope)) {
                return false;
            }
        }
    }
    if (inet_pton(is_ipv6 ? AF_INET6 : AF_INET, host, address.ip) != 1) {
        return false;
    }
    *ret_address = address;
    return true;
}

bool address_parse(const char *text, size_t len, uint16_t default_port, struct address *ret_address)
{
    bool is_ipv6 = len > 0 && text[0] == '[';
    const char *host_end = len > 0 ? memchr(text, is_ipv6 ? ']' : ':', len) : NULL;
    struct address address;
    char host[HOST_TEXT_MAX];

    if (is_ipv6 && host_end == NULL) {
        return false;
    }
    size_t host_start = is_ipv6 ? 1 : 0;
    size_t host_len = (host_end != NULL ? (size_t)(host_end - text) : len) - host_start;
    if (host_len >= sizeof host || memchr(text + host_start, '\0', host_len) != NULL) {
        return false;
    }
    memcpy(host, text + host_start, host_len);
    host[host_len] = '\0';
    size_t port_start = host_start + host_len + (is_ipv6 ? 1 : 0);
    if (!parse_host(host, is_ipv6, &address) ||
        !parse_port(text + port_start, len - port_start, default_port, &address.port)) {
        return false;
    }
    *ret_address = address;
    return true;
}

/*
 * The IPv4 address that is meant: the address itself, or the one inside an
 * IPv4-mapped IPv6 address (RFC 4291 2.5.5.2), which the kernel treats as IPv4.
 */
static const uint8_t *ipv4_within(const struct address *address)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

    if (address->family == ADDRESS_IPV4) {
        return address->ip;
    }
    if (address->family == ADDRESS_IPV6 && memcmp(address->ip, mapped, sizeof mapped) == 0) {
        return address->ip + sizeof mapped;
    }
    return NULL;
}

bool address_is_loopback(const struct address *address)
{
    static const uint8_t loopback[16] = {[15] = 1};
    const uint8_t *ipv4 = ipv4_within(address);

    if (ipv4 != NULL) {
        return ipv4[0] == 127;
    }
    return address->family == ADDRESS_IPV6 && memcmp(address->ip, loopback, sizeof loopback) == 0;
}

bool address_is_multicast(const struct address *address)
{
    const uint8_t *ipv4 = ipv4_within(address);

    if (ipv4 != NULL) {
        return ipv4[0] >= 224 && ipv4[0] <= 239;
    }
    return address->family == ADDRESS_IPV6 && address->ip[0] == 0xff;
}

bool address_is_ipv6_link_local(const struct address *address)
{
    return address->family == ADDRESS_IPV6 && address->ip[0] == 0xfe &&
           (address->ip[1] & 0xc0) == 0x80;
}

bool address_needs_scope(const struct address *address)
{
    unsigned scope = address->ip[1] & 0x0fu;
    bool is_group = address->family == ADDRESS_IPV6 && address_is_multicast(address);
    return is_group ? scope == 1 || scope == 2 : address_is_ipv6_link_local(address);
}

bool address_is_unspecified(const struct address *address)
{
    static const uint8_t zeros[16];
    const uint8_t *ipv4 = ipv4_within(address);

    if (ipv4 != NULL) {
        return memcmp(ipv4, zeros, 4) == 0;
    }
    return address->family == ADDRESS_IPV6 && memcmp(address->ip, zeros, sizeof zeros) == 0;
}

bool address_is_ipv4_mapped(const struct address *address)
{
    return address->family == ADDRESS_IPV6 && ipv4_within(address) != NULL;
}
