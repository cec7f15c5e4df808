/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Floating-point numbers of diagnostic notation: from text to the shortest encoding
 * that keeps the value (RFC 8949 section 4.2.2).
 */
#include "diag_internal.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sign, digits, exponent; no double needs more (17 digits name each of them). */
#define FLOAT_TEXT_MAX 128

/* Far outside of what a double has, and small enough to add to. */
#define EXPONENT_MAX 100000

static size_t count_digits(struct cri_slice text, size_t from)
{
    size_t at = from;
    while (at < text.len && text.data[at] >= '0' && text.data[at] <= '9') {
        at++;
    }
    return at - from;
}

/* "e", a sign perhaps, digits; gives their length, 0 when they are not there. */
static size_t read_exponent(struct cri_slice text, size_t from, int *ret_exponent)
{
    size_t at = from;
    if (at == text.len || (text.data[at] != 'e' && text.data[at] != 'E')) {
        return 0;
    }
    at++;
    const bool has_sign = at < text.len && (text.data[at] == '+' || text.data[at] == '-');
    const bool is_negative = has_sign && text.data[at] == '-';
    at += has_sign ? 1 : 0;
    const size_t digits = count_digits(text, at);
    int exponent = 0;
    for (size_t i = 0; i < digits && exponent < EXPONENT_MAX; i++) {
        exponent = exponent * 10 + (text.data[at + i] - '0');
    }
    *ret_exponent = is_negative ? -exponent : exponent;
    return digits == 0 ? 0 : at + digits - from;
}

/*
 * The point is left out and the exponent moved instead, because strtod() wants the
 * point of the program's locale.
 */
size_t cri__float_parse(struct cri_slice text, double *ret_value)
{
    char plain[FLOAT_TEXT_MAX];
    const size_t sign = text.len > 0 && text.data[0] == '-' ? 1 : 0;
    const size_t whole = count_digits(text, sign);
    size_t at = sign + whole;
    size_t fraction = 0;
    int exponent = 0;

    if (whole == 0) {
        return 0;
    }
    if (at < text.len && text.data[at] == '.') {
        fraction = count_digits(text, at + 1);
        at += 1 + fraction;
    }
    const size_t exponent_len = read_exponent(text, at, &exponent);
    if (fraction == 0 && (exponent_len == 0 || text.data[at - 1] == '.')) {
        return 0;
    }
    if (at > CRI__FLOAT_DIGITS_MAX) {
        return CRI__FLOAT_TOO_LONG;
    }
    memcpy(plain, text.data, sign + whole);
    if (fraction > 0) {
        memcpy(plain + sign + whole, text.data + sign + whole + 1, fraction);
    }
    (void)snprintf(plain + sign + whole + fraction, 16, "e%d", exponent - (int)fraction);
    *ret_value = strtod(plain, NULL);
    return at + exponent_len;
}

/* A float as a half, or false when it is none. */
static bool narrow_to_half(uint32_t bits, uint16_t *ret_half)
{
    const uint32_t sign = bits >> 16 & 0x8000u;
    const int exponent = (int)(bits >> 23 & 0xffu) - 127;
    const uint32_t mantissa = bits & 0x7fffffu;
    const bool is_zero = (bits & 0x7fffffffu) == 0;
    const bool is_normal = exponent >= -14 && exponent <= 15;
    /* A subnormal half has fewer digits, down to the last. */
    const bool is_subnormal = exponent >= -24 && exponent < -14;
    const uint32_t shift = is_subnormal ? (uint32_t)(-1 - exponent) : 13;
    const uint32_t whole = is_subnormal ? mantissa | 0x800000u : mantissa;

    if (!is_zero && ((!is_normal && !is_subnormal) || (whole & ((1u << shift) - 1)) != 0)) {
        return false;
    }
    const uint32_t biased = is_normal ? (uint32_t)(exponent + 15) << 10 : 0;
    *ret_half = (uint16_t)(sign | biased | whole >> shift);
    return true;
}

size_t cri__float_encode(double value, uint8_t ret_bytes[CRI__FLOAT_BYTES_MAX])
{
    const bool may_be_float = fabs(value) <= (double)FLT_MAX;
    float narrow = 0.0F;
    uint32_t float_bits;
    uint64_t bits;
    uint16_t half;
    size_t len = 8;
    uint8_t info = 27;

    if (may_be_float) {
        narrow = (float)value;
    }
    memcpy(&bits, &value, sizeof(bits));
    memcpy(&float_bits, &narrow, sizeof(float_bits));
    if (may_be_float && (double)narrow == value) {
        len = 4;
        info = 26;
        bits = float_bits;
        if (narrow_to_half(float_bits, &half)) {
            len = 2;
            info = 25;
            bits = half;
        }
    }
    ret_bytes[0] = (uint8_t)(DIAG_SIMPLE << 5 | info);
    for (size_t i = 0; i < len; i++) {
        ret_bytes[1 + i] = (uint8_t)(bits >> (8 * (len - 1 - i)));
    }
    return 1 + len;
}
