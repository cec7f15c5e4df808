/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A transport address: IP address, port, and the interface it is bound to where
 * it is link-local. Plain bytes without padding, so that it can be compared and
 * hashed whole; it becomes a sockaddr only in net/.
 */
#ifndef CRIPROXY_ADDRESS_H
#define CRIPROXY_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* "[ffff:...]%4294967295:65535" and its NUL. */
#define ADDRESS_TEXT_MAX 72

/* "ffff:...", without scope and port, and its NUL. */
#define ADDRESS_IP_TEXT_MAX 46

enum address_family {
    ADDRESS_NONE = 0,  /* not set: a zeroed struct */
    ADDRESS_DEVICE,    /* no IP address: a device by its number, in scope (origin/device.h) */
    ADDRESS_RECORDING, /* no host: a recording, by the number of its route in scope */
    ADDRESS_IPV4 = 4,
    ADDRESS_IPV6 = 6,
};

struct address {
    uint16_t family; /* enum address_family */
    uint16_t port;   /* host order */
    uint32_t scope;  /* interface index; 0 where it does not matter */
    uint8_t ip[16];  /* network order; IPv4 in the first 4 bytes, the rest zero */
};

/* Hashing and comparing take the struct as it lies in memory. */
_Static_assert(sizeof(struct address) == 24, "struct address has no padding");

/* The two ends of a datagram's way. */
struct udp_path {
    struct address remote;
    struct address local; /* family ADDRESS_NONE: not known, or for the kernel to choose */
    uint32_t via; /* the replica that has the datagram from the client, and passes answers on to it
                     (net/peers.h); 0: this one */
};

/** Bytes of the IP address: 4, 16, or 0 when not set. */
size_t address_ip_len(const struct address *address);

/**
 * Whether family, IP address, scope and port are the same; false for an IPv4-mapped address and its
 * IPv4 address.
 */
static inline bool address_equal(const struct address *a, const struct address *b)
{
    const uint8_t *at_a = (const uint8_t *)a, *at_b = (const uint8_t *)b;
    uint64_t a0, a1, a2, b0, b1, b2; /* a word each, as they were written: see address_set_ip() */
    memcpy(&a0, at_a, sizeof a0);
    memcpy(&a1, at_a + 8, sizeof a1);
    memcpy(&a2, at_a + 16, sizeof a2);
    memcpy(&b0, at_b, sizeof b0);
    memcpy(&b1, at_b + 8, sizeof b1);
    memcpy(&b2, at_b + 16, sizeof b2);
    return ((a0 ^ b0) | (a1 ^ b1) | (a2 ^ b2)) == 0;
}

/** Whether IP address and scope are the same; ports are ignored. False for different families. */
static inline bool address_same_host(const struct address *a, const struct address *b)
{
    uint64_t of_a[2], of_b[2];
    memcpy(of_a, a->ip, sizeof of_a);
    memcpy(of_b, b->ip, sizeof of_b);
    return a->family == b->family && a->scope == b->scope &&
           ((of_a[0] ^ of_b[0]) | (of_a[1] ^ of_b[1])) == 0;
}

/**
 * Whether one of the @p count @p addresses has the same IP address and scope; ports are ignored.
 * False for 0 addresses.
 */
bool address_is_among(const struct address *addresses, size_t count, const struct address *address);

/**
 * Hash of all bytes of the address. With a secret @p seed a peer cannot choose addresses that
 * collide; cannot fail.
 */
uint64_t address_hash(const struct address *address, uint64_t seed);

/**
 * From 4 or 16 bytes in network order; an IPv4-mapped IPv6 address stays IPv6. Of another length:
 * ADDRESS_NONE. It is written in whole words, as it is read by those who hash and compare it soon
 * after: a processor that has to put a word together from stores that are under way waits for them.
 */
void address_set_ip(struct address *address, const uint8_t *ip, size_t ip_len, uint16_t port);

/**
 * Formats as "192.0.2.1" or "2001:db8::1", NUL-terminated; "" what is neither. Returns @p text, the
 * caller's buffer.
 */
const char *address_format_ip(const struct address *address, char text[ADDRESS_IP_TEXT_MAX]);

/**
 * Formats as "192.0.2.1:5683" or "[2001:db8::1%2]:5683", NUL-terminated. Returns @p text, the
 * caller's buffer.
 */
const char *address_format(const struct address *address, char text[ADDRESS_TEXT_MAX]);

/**
 * Parse "IPv4:PORT" or "[IPv6]:PORT" or, with the port absent, @p default_port.
 * A zone ("%eth0" or "%2") is accepted inside the brackets. No names.
 *
 * @return false for any other text; @p ret_address is then untouched.
 */
bool address_parse(const char *text, size_t len, uint16_t default_port,
                   struct address *ret_address);

/** Whether it is in 127.0.0.0/8, IPv4-mapped too, or ::1; false for no family. */
bool address_is_loopback(const struct address *address);
/** Whether it is in 224.0.0.0/4, IPv4-mapped too, or ff00::/8; false for no family. */
bool address_is_multicast(const struct address *address);
/** Whether it is in fe80::/10, where an address needs a scope (RFC 4007); false for IPv4. */
bool address_is_ipv6_link_local(const struct address *address);
/**
 * Whether it means something on a link only: link-local IPv6 addresses, and groups of
 * interface-local and link-local scope (RFC 4291 section 2.7); false for all others.
 */
bool address_needs_scope(const struct address *address);

/** Whether it is 0.0.0.0, IPv4-mapped too, or ::; false for no family. */
bool address_is_unspecified(const struct address *address);

/**
 * Whether it is an IPv6 address that stands for an IPv4 one (RFC 4291 section 2.5.5.2); false for
 * IPv4.
 */
bool address_is_ipv4_mapped(const struct address *address);

#endif
