/* SPDX-License-Identifier: BSD-2-Clause */
#include "policy/ranges.h"

#include <string.h>

#define IPV4(a, b, c, d, length)                                                                   \
    {                                                                                              \
        {.family = ADDRESS_IPV4, .ip = {a, b, c, d}}, length                                       \
    }
#define IPV6_HEAD(a, b, length)                                                                    \
    {                                                                                              \
        {.family = ADDRESS_IPV6, .ip = {a, b}}, length                                             \
    }

static const struct address_prefix any[] = {IPV4(0, 0, 0, 0, 0), IPV6_HEAD(0, 0, 0)};
static const struct address_prefix loopback[] = {
    IPV4(127, 0, 0, 0, 8),
    {{.family = ADDRESS_IPV6, .ip = {[15] = 1}}, 128},
};
static const struct address_prefix link_local[] = {IPV4(169, 254, 0, 0, 16),
                                                   IPV6_HEAD(0xfe, 0x80, 10)};
static const struct address_prefix private_use[] = {/* RFC 1918 */
                                                    IPV4(10, 0, 0, 0, 8), IPV4(172, 16, 0, 0, 12),
                                                    IPV4(192, 168, 0, 0, 16)};
static const struct address_prefix unique_local[] = {IPV6_HEAD(0xfc, 0, 7)}; /* RFC 4193 */

#define WORD(text, ranges)                                                                         \
    {                                                                                              \
        text, ranges, sizeof(ranges) / sizeof((ranges)[0])                                         \
    }

static const struct {
    const char *word;
    const struct address_prefix *ranges;
    size_t count;
} words[] = {
    WORD("any", any),
    WORD("loopback", loopback),
    WORD("link-local", link_local),
    WORD("private", private_use),
    WORD("unique-local", unique_local),
};

size_t ranges_of_word(const char *word, size_t len, const struct address_prefix **ret_ranges)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strlen(words[i].word) == len && memcmp(words[i].word, word, len) == 0) {
            *ret_ranges = words[i].ranges;
            return words[i].count;
        }
    }
    return 0;
}

static const struct address localhost[RANGES_LOCALHOST_COUNT] = {
    {.family = ADDRESS_IPV4, .ip = {127, 0, 0, 1}},
    {.family = ADDRESS_IPV6, .ip = {[15] = 1}},
};

void ranges_localhost(bool is_ipv6_first, struct address ret_addresses[RANGES_LOCALHOST_COUNT])
{
    ret_addresses[0] = localhost[is_ipv6_first ? 1 : 0];
    ret_addresses[1] = localhost[is_ipv6_first ? 0 : 1];
}

/*
 * Addresses at which clouds serve credentials to any process of the host. 169.254.169.254 is
 * link-local already; these are in no other reserved range.
 */
static const struct address_prefix metadata[] = {
    IPV4(100, 100, 100, 200, 32), /* Alibaba Cloud */
    IPV4(168, 63, 129, 16, 32),   /* Azure's platform */
    IPV4(192, 0, 0, 192, 32),     /* Oracle Cloud */
    /* fd00:ec2::/32: Amazon's services of an instance */
    {{.family = ADDRESS_IPV6, .ip = {0xfd, 0x00, 0x0e, 0xc2}}, 32},
    /* fd20:ce::254: Google Cloud */
    {{.family = ADDRESS_IPV6, .ip = {0xfd, 0x20, 0x00, 0xce, [14] = 0x02, [15] = 0x54}}, 128},
    /* fd00:42::42: Scaleway */
    {{.family = ADDRESS_IPV6, .ip = {0xfd, 0x00, 0x00, 0x42, [15] = 0x42}}, 128},
};

/* Link-local addresses at which clouds serve metadata, to name them so in a verdict. */
static const struct address_prefix link_local_metadata[] = {IPV4(169, 254, 169, 254, 32),
                                                            IPV4(169, 254, 170, 2, 32)};

/* 0.0.0.0/8 is "this network" (RFC 1122 3.2.1.3): Linux takes 0.0.0.0 for the host itself. */
static const struct address_prefix unspecified[] = {IPV4(0, 0, 0, 0, 8),
                                                    {{.family = ADDRESS_IPV6, .ip = {0}}, 128}};
static const struct address_prefix broadcast[] = {IPV4(255, 255, 255, 255, 32)};
static const struct address_prefix multicast[] = {IPV4(224, 0, 0, 0, 4), IPV6_HEAD(0xff, 0, 8)};
static const struct address_prefix mapped[] = {
    {{.family = ADDRESS_IPV6, .ip = {[10] = 0xff, [11] = 0xff}}, 96}};

/*
 * The rest of the IANA's registries of special-purpose addresses (RFC 6890) that no host far away
 * has: what is reached there is the network itself, or nothing. Those for documentation are left
 * out: only laboratories have them.
 */
static const struct address_prefix site_local[] = {IPV6_HEAD(0xfe, 0xc0, 10)}; /* RFC 3879 */
static const struct address_prefix protocol[] = {
    /* of the IETF: a DS-Lite tunnel's ends, the PCP and TURN servers of the network */
    IPV4(192, 0, 0, 0, 24),
};
static const struct address_prefix future[] = {IPV4(240, 0, 0, 0, 4)}; /* RFC 1112 section 4 */
static const struct address_prefix discard[] = {
    {{.family = ADDRESS_IPV6, .ip = {0x01}}, 64},             /* RFC 6666 */
    {{.family = ADDRESS_IPV6, .ip = {0x01, [7] = 0x01}}, 64}, /* RFC 9780 */
};
static const struct address_prefix segments[] = {IPV6_HEAD(0x5f, 0x00, 16)}; /* RFC 9602 */

/* The first that covers an address names it. */
static const struct {
    const char *word;
    const struct address_prefix *ranges;
    size_t count;
    bool is_never;
} reserved[] = {
#define RESERVED(text, ranges, never)                                                              \
    {                                                                                              \
        text, ranges, sizeof(ranges) / sizeof((ranges)[0]), never                                  \
    }
    RESERVED("builtin:loopback", loopback, false), /* the one that is asked for most */
    RESERVED("builtin:unspecified", unspecified, true),
    RESERVED("builtin:broadcast", broadcast, true),
    RESERVED("builtin:multicast", multicast, false),
    RESERVED("builtin:ipv4-mapped", mapped, true),
    RESERVED("builtin:metadata", link_local_metadata, false),
    RESERVED("builtin:link-local", link_local, false),
    RESERVED("builtin:metadata", metadata, false),
    RESERVED("builtin:site-local", site_local, false),
    RESERVED("builtin:protocol", protocol, false),
    RESERVED("builtin:future-use", future, false),
    RESERVED("builtin:discard", discard, false),
    RESERVED("builtin:srv6", segments, false),
#undef RESERVED
};

#define RESERVED_COUNT (sizeof(reserved) / sizeof(reserved[0]))

/* The first byte is enough for most addresses. */
static bool may_be_reserved(const struct address *address)
{
    uint8_t first = address->ip[0];
    if (address->family == ADDRESS_IPV6) {
        return first <= 1 || first == 0x5f || first >= 0xfc;
    }
    return first == 0 || first == 100 || first == 127 || first == 168 || first == 169 ||
           first == 192 || first >= 224;
}

static size_t find_reserved(const struct address *address)
{
    size_t at = 0;
    if (!may_be_reserved(address)) {
        return RESERVED_COUNT;
    }
    for (; at < RESERVED_COUNT; at++) {
        for (size_t i = 0; i < reserved[at].count; i++) {
            if (address_prefix_covers(&reserved[at].ranges[i], address)) {
                return at;
            }
        }
    }
    return at;
}

const char *ranges_reserved(const struct address *address, bool *ret_is_never)
{
    size_t at = find_reserved(address);
    *ret_is_never = at < RESERVED_COUNT && reserved[at].is_never;
    return at < RESERVED_COUNT ? reserved[at].word : NULL;
}
