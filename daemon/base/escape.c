/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/escape.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char cut_mark[] = "...";

/* Writes @p c, escaped if necessary; at most 4 bytes. */
static size_t escape_byte(char out[4], unsigned char c)
{
    static const char hex[] = "0123456789abcdef";

    if (c == '"' || c == '\\') {
        out[0] = '\\';
        out[1] = (char)c;
        return 2;
    }
    if (c >= 0x20 && c < 0x7f) {
        out[0] = (char)c;
        return 1;
    }
    out[0] = '\\';
    out[1] = 'x';
    out[2] = hex[c >> 4];
    out[3] = hex[c & 15];
    return 4;
}

const char *escape_text(char *buffer, size_t capacity, const char *text, size_t len)
{
    size_t used = 0;
    size_t whole = 0; /* the end of what still leaves room for the mark */

    assert(capacity >= 8);
    for (size_t i = 0; i < len; i++) {
        char piece[4];
        size_t piece_len = escape_byte(piece, (unsigned char)text[i]);
        if (piece_len > capacity - 1 - used) {
            memcpy(buffer + whole, cut_mark, sizeof(cut_mark));
            return buffer;
        }
        memcpy(buffer + used, piece, piece_len);
        used += piece_len;
        if (used <= capacity - sizeof(cut_mark)) {
            whole = used;
        }
    }
    buffer[used] = '\0';
    return buffer;
}

/* Characters that need no quotes after "key=": none that ends the value or begins another. */
static bool is_bare(unsigned char c)
{
    return c > 0x20 && c < 0x7f && c != '"' && c != '\\' && c != '=';
}

const char *escape_value(char *buffer, size_t capacity, const char *text, size_t len)
{
    bool bare = len > 0 && len < capacity;

    assert(capacity >= 10);
    for (size_t i = 0; bare && i < len; i++) {
        bare = is_bare((unsigned char)text[i]);
    }
    if (bare) {
        memcpy(buffer, text, len);
        buffer[len] = '\0';
        return buffer;
    }
    buffer[0] = '"';
    escape_text(buffer + 1, capacity - 2, text, len);
    size_t end = strlen(buffer);
    buffer[end] = '"';
    buffer[end + 1] = '\0';
    return buffer;
}

int escape_hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

size_t escape_json_byte(char piece[8], unsigned char c)
{
    if (c == '"' || c == '\\') {
        piece[0] = '\\';
        piece[1] = (char)c;
        return 2;
    }
    if (c >= 0x20 && c < 0x7f) {
        piece[0] = (char)c;
        return 1;
    }
    (void)snprintf(piece, 8, "\\u%04x", c);
    return 6;
}
