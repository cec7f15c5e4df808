/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How it works: the octets of URIs are classed once, in a table. Text is looked at
 * eight bytes at a time as long as it is ASCII; only then is UTF-8 decoded.
 */
#include "internal.h"

#include <string.h>

#ifdef CRI_FREESTANDING
/* A freestanding build uses them so little that a table is not worth its size. */
bool cri__is_unreserved(uint8_t octet)
{
    uint8_t lower = octet | 0x20u;
    return (lower >= 'a' && lower <= 'z') || (octet >= '0' && octet <= '9') || octet == '-' ||
           octet == '.' || octet == '_' || octet == '~';
}
#else
#define U CRI__OTHER_UNRESERVED
#define L CRI__CAPITAL
#define P CRI__DOT
#define D CRI__OTHER_SUB_DELIM
#define M CRI__AMPERSAND
#define C CRI__COLON
#define A CRI__AT
#define S CRI__SLASH

/* RFC 3986 section 2 */
const uint8_t cri__octet_classes[256] = {
    ['!'] = D, ['$'] = D, ['&'] = M, ['\''] = D, ['('] = D, [')'] = D, ['*'] = D, ['+'] = D,
    [','] = D, ['-'] = U, ['.'] = P, ['/'] = S,  ['0'] = U, ['1'] = U, ['2'] = U, ['3'] = U,
    ['4'] = U, ['5'] = U, ['6'] = U, ['7'] = U,  ['8'] = U, ['9'] = U, [':'] = C, [';'] = D,
    ['='] = D, ['?'] = S, ['@'] = A, ['A'] = L,  ['B'] = L, ['C'] = L, ['D'] = L, ['E'] = L,
    ['F'] = L, ['G'] = L, ['H'] = L, ['I'] = L,  ['J'] = L, ['K'] = L, ['L'] = L, ['M'] = L,
    ['N'] = L, ['O'] = L, ['P'] = L, ['Q'] = L,  ['R'] = L, ['S'] = L, ['T'] = L, ['U'] = L,
    ['V'] = L, ['W'] = L, ['X'] = L, ['Y'] = L,  ['Z'] = L, ['_'] = U, ['a'] = U, ['b'] = U,
    ['c'] = U, ['d'] = U, ['e'] = U, ['f'] = U,  ['g'] = U, ['h'] = U, ['i'] = U, ['j'] = U,
    ['k'] = U, ['l'] = U, ['m'] = U, ['n'] = U,  ['o'] = U, ['p'] = U, ['q'] = U, ['r'] = U,
    ['s'] = U, ['t'] = U, ['u'] = U, ['v'] = U,  ['w'] = U, ['x'] = U, ['y'] = U, ['z'] = U,
    ['~'] = U,
};

#undef U
#undef L
#undef P
#undef D
#undef M
#undef C
#undef A
#undef S

#define PCHAR (CRI__UNRESERVED | CRI__SUB_DELIM | CRI__COLON | CRI__AT)

/* By component; an "&" would end a parameter. */
const uint8_t cri__raw_classes_of[5] = {
    [CRI__USERINFO] = CRI__UNRESERVED | CRI__SUB_DELIM | CRI__COLON,
    [CRI__LABEL] = CRI__UNRESERVED | CRI__SUB_DELIM,
    [CRI__SEGMENT] = PCHAR,
    [CRI__PARAMETER] = (PCHAR | CRI__SLASH) & ~CRI__AMPERSAND,
    [CRI__FRAGMENT] = PCHAR | CRI__SLASH,
};

bool cri__stands_for_itself(uint8_t octet, enum cri__component component)
{
    return (cri__octet_classes[octet] & cri__raw_classes(component)) != 0;
}

#endif

static bool is_continuation(uint8_t octet)
{
    return (octet & 0xc0u) == 0x80;
}

/* RFC 3629 section 4: no overlong forms, no surrogates, nothing over U+10FFFF. */
size_t cri__utf8_len(const uint8_t *data, size_t len)
{
    if (len == 0) {
        return 0;
    }
    const uint8_t first = data[0];
    if (first < 0x80) {
        return 1;
    }
    const size_t wanted = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (first < 0xc2 || first > 0xf4 || len < wanted) {
        return 0;
    }
    for (size_t i = 1; i < wanted; i++) {
        if (!is_continuation(data[i])) {
            return 0;
        }
    }
    const bool is_overlong = (first == 0xe0 && data[1] < 0xa0) || (first == 0xf0 && data[1] < 0x90);
    const bool is_surrogate = first == 0xed && data[1] >= 0xa0;
    const bool is_too_large = first == 0xf4 && data[1] >= 0x90;
    return is_overlong || is_surrogate || is_too_large ? 0 : wanted;
}

size_t cri__utf8_span(const uint8_t *data, size_t len)
{
    size_t at = 0;

    for (;;) {
        uint64_t octets;
        while (len - at >= sizeof octets) {
            memcpy(&octets, data + at, sizeof octets);
            if ((octets & 0x8080808080808080u) != 0) {
                break;
            }
            at += sizeof octets;
        }
        while (at < len && data[at] < 0x80) {
            at++;
        }
        if (at == len) {
            return len;
        }
        size_t character_len = cri__utf8_len(data + at, len - at);
        if (character_len == 0) {
            return at;
        }
        at += character_len;
    }
}

bool cri__is_scheme_name(struct cri_slice name, bool any_case)
{
    for (size_t i = 0; i < name.len; i++) {
        uint8_t c = name.data[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (any_case && c >= 'A' && c <= 'Z');
        bool is_other = (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
        if (!is_letter && (i == 0 || !is_other)) {
            return false;
        }
    }
    return name.len > 0;
}

const char *cri__check_full_path(const struct cri *cri)
{
    struct cri_iter iter;
    struct cri_item first;

    cri_iter_init(&iter, &cri->path);
    bool has_first = cri_iter_next(&iter, &first);
    bool first_is_empty = has_first && !first.is_pet && first.text.len == 0;
    if (cri->authority == CRI_AUTHORITY_ROOTLESS) {
        if (!has_first) {
            return CRI__RULE("rootless path is empty"); /* CRI-37 */
        }
        if (first_is_empty) {
            return CRI__RULE("rootless path begins with an empty segment");
        }
    } else if (first_is_empty && iter.rest.len > 0) {
        return CRI__RULE("path without authority begins with an empty segment"); /* CRI-35 */
    }
    return NULL;
}
