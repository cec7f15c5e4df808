/* SPDX-License-Identifier: BSD-2-Clause */
#include "echo.h"

#include <string.h>

enum {
    HASH_DIGITS = 8,
    LINE_END_LEN = 1 + HASH_DIGITS + 1, /* space, hash, newline */
    LINE_TEXT_MAX = ECHO_LINE_MAX - LINE_END_LEN,
};

static void add(struct echo_line *line, const void *data, size_t len)
{
    size_t room = LINE_TEXT_MAX - line->len;
    size_t taken = len < room ? len : room;

    if (taken > 0) {
        memcpy(line->text + line->len, data, taken);
        line->len += taken;
    }
}

static uint32_t fnv1a(struct view bytes)
{
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < bytes.len; i++) {
        hash = (hash ^ bytes.data[i]) * 16777619u;
    }
    return hash;
}

void echo_begin(struct echo_line *line, uint8_t method)
{
    line->len = 0;
    line->text[line->len++] = (char)('0' + method / 10 % 10);
    line->text[line->len++] = (char)('0' + method % 10);
    line->text[line->len++] = ' ';
}

void echo_add_path(struct echo_line *line, struct view segment)
{
    add(line, "/", 1);
    add(line, segment.data, segment.len);
}

void echo_add_query(struct echo_line *line, struct view parameter)
{
    add(line, "?", 1);
    add(line, parameter.data, parameter.len);
}

void echo_end(struct echo_line *line, struct view payload)
{
    static const char digits[] = "0123456789abcdef";
    uint32_t hash = fnv1a(payload);

    line->text[line->len++] = ' ';
    for (unsigned shift = 32; shift > 0; shift -= 4) {
        line->text[line->len++] = digits[hash >> (shift - 4) & 0x0fu];
    }
    line->text[line->len++] = '\n';
}

void echo_of_request(struct echo_line *line, const struct wire_message *request)
{
    struct wire_option_iter iter;
    struct view value;
    uint32_t number;

    echo_begin(line, request->code);
    wire_option_iter_init(&iter, request->options);
    while (wire_option_iter_next(&iter, &number, &value)) {
        if (number == WIRE_URI_PATH) {
            echo_add_path(line, value);
        } else if (number == WIRE_URI_QUERY) {
            echo_add_query(line, value);
        }
    }
    echo_end(line, request->payload);
}

bool echo_matches(const struct echo_line *line, struct view payload)
{
    return payload.len >= line->len && memcmp(payload.data, line->text, line->len) == 0;
}
