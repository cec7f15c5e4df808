/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * IP addresses as text: IPv4address and IPv6address of RFC 3986 section 3.2.2 in
 * one direction, RFC 5952 in the other.
 */
#include "host.h"

#include <string.h>

bool cri__ipv4_parse(struct cri_slice text, uint8_t ret_ip[4])
{
    uint8_t ip[4];
    size_t at = 0;

    for (size_t i = 0; i < 4; i++) {
        if (i > 0) {
            if (at == text.len || text.data[at] != '.') {
                return false;
            }
            at++;
        }
        size_t start = at;
        unsigned value = 0;
        while (at < text.len && at - start < 3 && text.data[at] >= '0' && text.data[at] <= '9') {
            value = value * 10 + (unsigned)(text.data[at] - '0');
            at++;
        }
        /* dec-octet has no leading zeros. */
        if (at == start || value > 255 || (at - start > 1 && text.data[start] == '0')) {
            return false;
        }
        ip[i] = (uint8_t)value;
    }
    if (at != text.len) {
        return false;
    }
    memcpy(ret_ip, ip, sizeof ip);
    return true;
}

/* h16 = 1*4HEXDIG; gives its length, 0 when there is none. */
static size_t read_h16(const uint8_t *data, size_t len, unsigned *ret_value)
{
    unsigned value = 0;
    size_t digits = 0;

    while (digits < len && digits < 4 && cri__hex_value(data[digits]) >= 0) {
        value = value << 4 | (unsigned)cri__hex_value(data[digits]);
        digits++;
    }
    *ret_value = value;
    return digits;
}

/*
 * Groups before "::" are collected at the front of ip, the ones behind it follow
 * them and move to the end once their number is known.
 */
bool cri__ipv6_parse(struct cri_slice text, uint8_t ret_ip[16])
{
    uint8_t ip[16] = {0};
    size_t filled = 0;      /* Bytes of ip. */
    size_t gap_at = 16 + 1; /* Bytes before "::"; over 16 when there is none. */
    size_t at = 0;

    if (text.len >= 2 && text.data[0] == ':' && text.data[1] == ':') {
        gap_at = 0;
        at = 2;
    }
    while (at < text.len) {
        unsigned value;
        if (filled == 16) {
            return false;
        }
        size_t digits = read_h16(text.data + at, text.len - at, &value);
        if (digits == 0) {
            return false;
        }
        if (at + digits < text.len && text.data[at + digits] == '.') {
            /* IPv4 at the end stands for two groups. */
            if (filled > 12 ||
                !cri__ipv4_parse(cri__slice(text.data + at, text.len - at), ip + filled)) {
                return false;
            }
            filled += 4;
            break;
        }
        ip[filled] = (uint8_t)(value >> 8);
        ip[filled + 1] = (uint8_t)(value & 0xff);
        filled += 2;
        at += digits;
        if (at == text.len) {
            break;
        }
        if (text.data[at] != ':' || at + 1 == text.len) {
            return false;
        }
        at++;
        if (text.data[at] == ':') {
            if (gap_at <= 16) {
                return false;
            }
            gap_at = filled;
            at++;
        }
    }
    /* "::" stands for at least one group. */
    if (gap_at > 16 ? filled != 16 : filled > 14) {
        return false;
    }
    memset(ret_ip, 0, 16);
    size_t head_len = gap_at > 16 ? filled : gap_at;
    memcpy(ret_ip, ip, head_len);
    memcpy(ret_ip + 16 - (filled - head_len), ip + head_len, filled - head_len);
    return true;
}

static size_t put_decimal(char *text, unsigned value)
{
    size_t len = 0;
    if (value >= 100) {
        text[len++] = (char)('0' + value / 100);
    }
    if (value >= 10) {
        text[len++] = (char)('0' + value / 10 % 10);
    }
    text[len++] = (char)('0' + value % 10);
    return len;
}

static size_t put_ipv4(char *text, const uint8_t *ip)
{
    size_t len = 0;
    for (size_t i = 0; i < 4; i++) {
        if (i > 0) {
            text[len++] = '.';
        }
        len += put_decimal(text + len, ip[i]);
    }
    return len;
}

static size_t put_h16(char *text, unsigned group)
{
    size_t len = 0;
    for (unsigned shift = 16; shift > 0;) {
        shift -= 4;
        unsigned digit = group >> shift & 0xfu;
        if (digit != 0 || len > 0 || shift == 0) {
            text[len++] = "0123456789abcdef"[digit];
        }
    }
    return len;
}

/* RFC 5952 section 4.2: the longest run of at least two zero groups, the first on a tie. */
static void find_zero_run(const unsigned *groups, size_t count, size_t *ret_start, size_t *ret_len)
{
    *ret_start = count;
    *ret_len = 1;
    for (size_t i = 0; i < count; i++) {
        size_t len = 0;
        while (i + len < count && groups[i + len] == 0) {
            len++;
        }
        if (len > *ret_len) {
            *ret_start = i;
            *ret_len = len;
        }
        i += len;
    }
}

static size_t put_ipv6(char *text, const uint8_t *ip)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    bool is_mapped = memcmp(ip, mapped, sizeof mapped) == 0; /* RFC 5952 section 5 */
    size_t count = is_mapped ? 6 : 8;
    unsigned groups[8];
    size_t run_start;
    size_t run_len;
    size_t len = 0;

    for (size_t i = 0; i < 8; i++) {
        groups[i] = (unsigned)ip[2 * i] << 8 | ip[2 * i + 1];
    }
    find_zero_run(groups, count, &run_start, &run_len);
    text[len++] = '[';
    for (size_t i = 0; i < count; i++) {
        if (i == run_start) {
            text[len++] = ':';
            text[len++] = ':';
            i += run_len - 1;
            continue;
        }
        if (i > 0 && text[len - 1] != ':') {
            text[len++] = ':';
        }
        len += put_h16(text + len, groups[i]);
    }
    if (is_mapped) {
        text[len++] = ':';
        len += put_ipv4(text + len, ip + 12);
    }
    text[len++] = ']';
    return len;
}

size_t cri__ip_format(struct cri_slice ip, char text[CRI__IP_TEXT_MAX])
{
    return ip.len == 4 ? put_ipv4(text, ip.data) : put_ipv6(text, ip.data);
}

#ifdef CRI_FREESTANDING
/* dec-octet of RFC 3986: 0 to 255 without leading zeros. */
static bool is_dec_octet(struct cri_slice text)
{
    unsigned value = 0;

    for (size_t i = 0; i < text.len; i++) {
        unsigned digit = text.data[i] - (unsigned)'0';
        if (digit > 9 || i == 3 || (i > 0 && value == 0)) {
            return false;
        }
        value = value * 10 + digit;
    }
    return text.len > 0 && value <= 255;
}

/*
 * AMB-12 in little code: four labels in brackets count as an address without a look inside,
 * which would take 300 bytes; no name has brackets.
 */
bool cri__labels_spell_address(const struct cri_list *labels)
{
    struct cri_iter iter = {labels->encoded};
    struct cri_slice label = {NULL, 0};
    size_t numbers = 0;
    uint8_t first = 0;

    if (labels->count != 1 && labels->count != 4) {
        return false;
    }
    for (size_t i = 0; cri__next_text(&iter, &label); i++) {
        numbers += is_dec_octet(label) ? 1 : 0;
        if (i == 0 && label.len > 1) {
            first = label.data[0];
        }
    }
    return numbers == 4 || (first == '[' && label.len > 0 && label.data[label.len - 1] == ']');
}
#else
/*
 * AMB-12. Only four labels can spell an IPv4 address; what is in brackets is an
 * address when it is one label, or the mixed notation of IPv6, which ends with an
 * IPv4 address and so has four labels too.
 */
bool cri__labels_spell_address(const struct cri_list *labels)
{
    uint8_t text[CRI__IP_TEXT_MAX];
    uint8_t ip[16];
    size_t len = 0;
    bool is_first = true;
    struct cri_iter iter;
    struct cri_item label;

    if (labels->count != 1 && labels->count != 4) {
        return false;
    }
    cri_iter_init(&iter, labels);
    while (cri_iter_next(&iter, &label)) {
        if (label.is_pet) {
            return false;
        }
        if (labels->count == 1) {
            return label.text.len >= 2 && label.text.data[0] == '[' &&
                   label.text.data[label.text.len - 1] == ']';
        }
        if (label.text.len + 1 > sizeof text - len) {
            return false;
        }
        if (!is_first) {
            text[len++] = '.';
        }
        is_first = false;
        if (label.text.len > 0) {
            memcpy(text + len, label.text.data, label.text.len);
        }
        len += label.text.len;
    }
    if (len >= 2 && text[0] == '[' && text[len - 1] == ']') {
        return cri__ipv6_parse(cri__slice(text + 1, len - 2), ip);
    }
    return cri__ipv4_parse(cri__slice(text, len), ip);
}
#endif
