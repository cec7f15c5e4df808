/* SPDX-License-Identifier: BSD-2-Clause */
#include "policy/ranges.h"

#include <string.h>

/* --- embedded ----------------------------------------------------------- */

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

size_t embedded_in_ipv6(const struct address *address, const struct address_prefix *nat64,
                        size_t nat64_count, struct address ret_ipv4[EMBEDDED_MAX])
{
    struct found found = {.ipv4 = ret_ipv4};
    add_spelled(&found, address);
    add_tunnelled(&found, address);
    for (size_t i = 0; i < nat64_count; i++) {
        if (address_prefix_covers(&nat64[i], address)) {
            add_behind(&found, address, nat64[i].bits);
        }
    }
    return found.count;
}

/* --- prefix ------------------------------------------------------------- */

/* "[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255%" and an interface's name, or a little more */
#define TEXT_MAX 80

struct address address_truncate(const struct address *address, unsigned bits)
{
    struct address made = {.family = address->family};
    size_t whole = bits / 8;
    memcpy(made.ip, address->ip, whole);
    if (bits % 8 != 0) {
        made.ip[whole] = (uint8_t)(address->ip[whole] & (0xff00u >> (bits % 8)));
    }
    return made;
}

bool address_prefix_covers(const struct address_prefix *prefix, const struct address *address)
{
    if (address->family != prefix->base.family ||
        (prefix->base.scope != 0 && prefix->base.scope != address->scope)) {
        return false;
    }
    size_t whole = prefix->bits / 8u;
    if (whole > 0 && address->ip[0] != prefix->base.ip[0]) {
        return false; /* nearly always, and without a call */
    }
    if (memcmp(address->ip, prefix->base.ip, whole) != 0) {
        return false;
    }
    unsigned rest = prefix->bits % 8u;
    return rest == 0 || ((address->ip[whole] ^ prefix->base.ip[whole]) & (0xff00u >> rest)) == 0;
}

/* A piece of text that is not NUL-terminated. */
struct piece {
    const char *text;
    size_t len;
};

/* Sets @p ret_after to the text after @p mark; false if there is no mark. */
static bool cut(struct piece *whole, char mark, struct piece *ret_after)
{
    for (size_t i = 0; i < whole->len; i++) {
        if (whole->text[i] == mark) {
            *ret_after = (struct piece){whole->text + i + 1, whole->len - i - 1};
            whole->len = i;
            return true;
        }
    }
    return false;
}

static bool parse_bits(struct piece text, unsigned max, uint8_t *ret_bits)
{
    unsigned value = 0;
    if (text.len == 0 || text.len > 3) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (text.text[i] < '0' || text.text[i] > '9') {
            return false;
        }
        value = value * 10 + (unsigned)(text.text[i] - '0');
    }
    *ret_bits = (uint8_t)value;
    return value <= max;
}

/* An address and its zone, which address_parse() wants in brackets. */
static bool parse_address(struct piece host, struct piece zone, struct address *ret_address)
{
    char text[TEXT_MAX];
    bool is_ipv6 = host.len > 0 && memchr(host.text, ':', host.len) != NULL;
    size_t len = 0;
    if (!is_ipv6) {
        return zone.len == 0 && address_parse(host.text, host.len, 0, ret_address);
    }
    if (host.len + zone.len + 3 > sizeof(text) || memchr(host.text, ']', host.len) != NULL ||
        (zone.len > 0 && memchr(zone.text, ']', zone.len) != NULL)) {
        return false;
    }
    text[len++] = '[';
    memcpy(text + len, host.text, host.len);
    len += host.len;
    if (zone.len > 0) {
        text[len++] = '%';
        memcpy(text + len, zone.text, zone.len);
        len += zone.len;
    }
    text[len++] = ']';
    return address_parse(text, len, 0, ret_address);
}

const char *address_prefix_parse(const char *text, size_t len, struct address_prefix *ret_prefix)
{
    struct piece host = {text, len};
    struct piece zone = {text, 0};
    struct piece bits = {text, 0};
    bool has_zone = cut(&host, '%', &zone);
    bool has_bits = cut(has_zone ? &zone : &host, '/', &bits);
    if (has_zone && !has_bits) {
        has_bits = cut(&host, '/', &bits);
    }
    struct address_prefix prefix = {.bits = 0};
    if ((has_zone && zone.len == 0) || !parse_address(host, zone, &prefix.base)) {
        return "expected an IP address or a range such as 192.0.2.0/24 or 2001:db8::/32";
    }
    unsigned max = prefix.base.family == ADDRESS_IPV4 ? 32 : 128;
    prefix.bits = (uint8_t)max;
    if (has_bits && !parse_bits(bits, max, &prefix.bits)) {
        return "expected a prefix length up to 32 for IPv4, 128 for IPv6";
    }
    if (address_is_ipv4_mapped(&prefix.base)) {
        return "an IPv4-mapped address: write it as IPv4";
    }
    struct address cut_off = address_truncate(&prefix.base, prefix.bits);
    if (memcmp(cut_off.ip, prefix.base.ip, sizeof(cut_off.ip)) != 0) {
        return "bits are set behind the prefix length";
    }
    prefix.base.port = 0;
    *ret_prefix = prefix;
    return NULL;
}

/* --- ranges ------------------------------------------------------------- */

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

static size_t find_reserved(const struct address *address)
{
    size_t at = 0;
    /* The first byte is enough for most addresses. */
    uint8_t first = address->ip[0];
    bool may_be = address->family == ADDRESS_IPV6
                      ? first <= 1 || first == 0x5f || first >= 0xfc
                      : first == 0 || first == 100 || first == 127 || first == 168 ||
                            first == 169 || first == 192 || first >= 224;
    if (!may_be) {
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
