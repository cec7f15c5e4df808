/* SPDX-License-Identifier: BSD-2-Clause */
#include "policy/prefix.h"

#include <string.h>

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
