/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Text from outside, made safe to show: in a log line, in an error message, on a terminal.
 * Printable ASCII stays, other bytes become \xHH, and longer text is cut with "...".
 */
#ifndef CRIPROXY_ESCAPE_H
#define CRIPROXY_ESCAPE_H

#include <stddef.h>

/** Value of a hexadecimal digit of either case, or -1. */
int escape_hex_digit(char c);

/** @p c as it stands in a JSON string (RFC 8259 section 7). @return its bytes, at most 6. */
size_t escape_json_byte(char piece[8], unsigned char c);

/**
 * Write @p text (at most @p len bytes of it) escaped into @p buffer, always
 * NUL-terminated; quotes and backslashes get a backslash. Needs a capacity of 8.
 *
 * @return @p buffer
 */
const char *escape_text(char *buffer, size_t capacity, const char *text, size_t len);

/**
 * A value for a log line: unchanged if it has only harmless characters, else escaped and in double
 * quotes. Returns @p buffer, of at least 10 bytes; longer text is cut.
 */
const char *escape_value(char *buffer, size_t capacity, const char *text, size_t len);

#endif
