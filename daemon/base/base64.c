/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/base64.h"

#include <string.h>

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

void base64_encode(const uint8_t *data, size_t len, char *text)
{
    for (size_t i = 0; i < len; i += 3) {
        uint32_t bits = (uint32_t)data[i] << 16 | (i + 1 < len ? (uint32_t)data[i + 1] << 8 : 0) |
                        (i + 2 < len ? data[i + 2] : 0);
        for (unsigned k = 0; k < 4; k++) {
            uint32_t value = bits >> (18 - 6 * k) & 63u;
            char letter = value < 62 ? letters[value] : value == 62 ? '+' : '/';
            *text++ = i + k > len ? '=' : letter;
        }
    }
}

static int sextet_of(uint8_t letter)
{
    const char *at = letter != '\0' ? strchr(letters, letter) : NULL;
    if (at != NULL) {
        return (int)(at - letters);
    }
    return letter == '-' ? 62 : letter == '_' ? 63 : -1;
}

bool base64url_decode(const uint8_t *text, size_t text_len, uint8_t *data, size_t capacity,
                      size_t *ret_len)
{
    uint32_t bits = 0;
    unsigned count = 0;
    size_t len = 0;
    for (size_t i = 0; i < text_len; i++) {
        int value = sextet_of(text[i]);
        if (value < 0) {
            return false;
        }
        bits = (bits << 6 | (unsigned)value) & 0xfffu;
        count += 6;
        if (count >= 8) {
            count -= 8;
            if (len == capacity) {
                return false;
            }
            data[len++] = (uint8_t)(bits >> count);
        }
    }
    *ret_len = len;
    return count < 6 && (bits & ((1u << count) - 1)) == 0;
}
