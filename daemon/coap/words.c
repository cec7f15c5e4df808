/* SPDX-License-Identifier: BSD-2-Clause */
#include "coap/words.h"

#include "coap/option.h"

#include <stdio.h>
#include <string.h>

/* --- words ---------------------------------------------------------------- */

static bool is_word_blank(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

bool word_next(struct bytes *line, struct bytes *ret_word)
{
    size_t i = 0, begin;
    bool is_quoted = false;
    while (i < line->len && is_word_blank(line->data[i])) {
        i++;
    }
    begin = i;
    if (i == line->len || line->data[i] == '#') {
        line->len = 0;
        return false;
    }
    for (; i < line->len && (is_quoted || !is_word_blank(line->data[i])); i++) {
        if (is_quoted && line->data[i] == '\\' && i + 1 < line->len) {
            i++;
        } else if (line->data[i] == '"') {
            is_quoted = !is_quoted;
        }
    }
    *ret_word = (struct bytes){line->data + begin, i - begin};
    line->data += i;
    line->len -= i;
    return true;
}

bool word_is(struct bytes word, const char *text)
{
    return word.len == strlen(text) && memcmp(word.data, text, word.len) == 0;
}

static bool word_begins(struct bytes word, const char *text)
{
    return word.len >= strlen(text) && memcmp(word.data, text, strlen(text)) == 0;
}

int hex_digit(uint8_t c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* --- values ----------------------------------------------------------------- */

static const char *word_parse_hex(struct bytes digits, uint8_t *bytes, size_t capacity,
                                  size_t *ret_len)
{
    if (digits.len % 2 != 0) {
        return "an odd number of hexadecimal digits";
    }
    if (digits.len / 2 > capacity) {
        return "too long";
    }
    for (size_t i = 0; i < digits.len; i += 2) {
        int high = hex_digit(digits.data[i]), low = hex_digit(digits.data[i + 1]);
        if (high < 0 || low < 0) {
            return "expected hexadecimal digits";
        }
        bytes[i / 2] = (uint8_t)(high << 4 | low);
    }
    *ret_len = digits.len / 2;
    return NULL;
}

/* What stands behind a backslash, and for which byte. */
static const char escapes_from[] = "\"\\nrt", escapes_to[] = "\"\\\n\r\t";

/* The byte of an escape behind a backslash. @return how many bytes of @p text it takes; 0: none */
static size_t parse_escape(struct bytes text, uint8_t *ret_byte)
{
    const char *found =
        text.len > 0 && text.data[0] != '\0' ? strchr(escapes_from, text.data[0]) : NULL;
    if (found != NULL) {
        *ret_byte = (uint8_t)escapes_to[found - escapes_from];
        return 1;
    }
    size_t len = 0;
    struct bytes digits = {text.data + 1, 2};
    bool is_hex = text.len >= 3 && text.data[0] == 'x';
    return is_hex && word_parse_hex(digits, ret_byte, 1, &len) == NULL ? 3 : 0;
}

static const char *parse_text(struct bytes word, uint8_t *bytes, size_t capacity, size_t *ret_len)
{
    size_t len = 0, i = 1;
    while (i < word.len && word.data[i] != '"') {
        uint8_t byte = word.data[i++];
        if (byte == '\\') {
            size_t taken = parse_escape((struct bytes){word.data + i, word.len - i}, &byte);
            if (taken == 0) {
                return "expected \\\" \\\\ \\n \\r \\t or \\x and two hexadecimal digits";
            }
            i += taken;
        }
        if (len == capacity) {
            return "too long";
        }
        bytes[len++] = byte;
    }
    if (i + 1 != word.len) {
        return i >= word.len ? "a text without its last quotation mark"
                             : "something behind a text, without a blank";
    }
    *ret_len = len;
    return NULL;
}

/* Digits only; in its shortest form. */
static const char *word_parse_number(struct bytes digits, struct option_word *option)
{
    uint64_t value = 0;
    for (size_t i = 0; i < digits.len; i++) {
        if (digits.data[i] < '0' || digits.data[i] > '9') {
            return "expected a number";
        }
        value = value * 10 + (uint64_t)(digits.data[i] - '0');
        if (value > UINT32_MAX) {
            return "expected a number of 32 bits";
        }
    }
    if (digits.len == 0) {
        return "expected a number";
    }
    option->len = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        if (value >> shift != 0) {
            option->value[option->len++] = (uint8_t)(value >> shift);
        }
    }
    return NULL;
}

/* --- options ---------------------------------------------------------------- */

/* "max-age" of "max_age". */
static bool is_option_name(struct bytes name, const char *row)
{
    for (size_t i = 0; i < name.len; i++) {
        if (row[i] == '\0' || name.data[i] != (row[i] == '_' ? '-' : (uint8_t)row[i])) {
            return false;
        }
    }
    return row[name.len] == '\0';
}

static bool find_option(struct bytes name, uint16_t *ret_number)
{
    static const uint16_t numbers[] = {
#define OPTION(number, name, kind, min, max, repeat_request, repeat_response, request, response)   \
    number,
#include "coap/options.def"
#undef OPTION
    };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (is_option_name(name, option_row(numbers[i])->name)) {
            *ret_number = numbers[i];
            return true;
        }
    }
    uint32_t number = 0;
    size_t i = 3;
    for (; word_begins(name, "opt") && i < name.len && i < 8 && name.data[i] >= '0' &&
           name.data[i] <= '9';
         i++) {
        number = number * 10 + (uint32_t)(name.data[i] - '0');
    }
    *ret_number = (uint16_t)number;
    return name.len > 3 && i == name.len && number > 0 && number <= UINT16_MAX;
}

static const char *parse_value(struct bytes text, bool is_by_number, struct option_word *option)
{
    enum option_kind kind = is_by_number ? OPTION_KIND_OPAQUE : option_kind(option->number);
    if (kind == OPTION_KIND_UINT) {
        return word_parse_number(text, option);
    }
    if (kind != OPTION_KIND_STRING) {
        return word_parse_hex(text, option->value, sizeof(option->value), &option->len);
    }
    if (text.len > 0 && text.data[0] == '"') {
        return parse_text(text, option->value, sizeof(option->value), &option->len);
    }
    if (text.len > sizeof(option->value)) {
        return "too long";
    }
    memcpy(option->value, text.data, text.len);
    option->len = text.len;
    return NULL;
}

const char *option_word_parse(struct bytes word, struct option_word *ret_option)
{
    size_t name_len = 0;
    while (name_len < word.len && word.data[name_len] != '=') {
        name_len++;
    }
    struct bytes name = {word.data, name_len};
    ret_option->is_any = false;
    ret_option->len = 0;
    if (!find_option(name, &ret_option->number)) {
        return "no such option";
    }
    const struct option_row *row = option_row(ret_option->number);
    if (name_len < word.len) {
        struct bytes text = {word.data + name_len + 1, word.len - name_len - 1};
        ret_option->is_any = word_is(text, "*");
        const char *wrong =
            ret_option->is_any ? NULL : parse_value(text, word_begins(name, "opt"), ret_option);
        if (wrong != NULL) {
            return wrong;
        }
    }
    bool is_good = ret_option->is_any || row == NULL ||
                   option_length_is_good(row, (struct bytes){ret_option->value, ret_option->len});
    return is_good ? NULL : "a value that is too short or too long for this option";
}

static void put_hex_digits(char *text, struct bytes bytes)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < bytes.len; i++) {
        *text++ = digits[bytes.data[i] >> 4];
        *text++ = digits[bytes.data[i] & 15];
    }
    *text = '\0';
}

/* In quotation marks; four bytes a byte at most. */
static size_t put_quoted(char *text, struct bytes bytes)
{
    size_t len = 0;
    text[len++] = '"';
    for (size_t i = 0; i < bytes.len; i++) {
        uint8_t byte = bytes.data[i];
        const char *escaped = byte != '\0' ? strchr(escapes_to, byte) : NULL;
        if (escaped != NULL) {
            text[len++] = '\\';
            text[len++] = escapes_from[escaped - escapes_to];
        } else if (byte >= 0x20 && byte < 0x7f) {
            text[len++] = (char)byte;
        } else {
            text[len++] = '\\';
            text[len++] = 'x';
            put_hex_digits(text + len, (struct bytes){&byte, 1});
            len += 2;
        }
    }
    text[len++] = '"';
    text[len] = '\0';
    return len;
}

size_t option_word_format(const struct option *option, char *text, size_t capacity)
{
    const struct option_row *row = option_row(option->number);
    enum option_kind kind = option_kind(option->number);
    if (capacity < 4 * option->value.len + 32) {
        return 0;
    }
    int len = row != NULL ? snprintf(text, capacity, "%s", row->name)
                          : snprintf(text, capacity, "opt%u", (unsigned)option->number);
    for (int i = 0; row != NULL && i < len; i++) {
        text[i] = text[i] == '_' ? '-' : text[i];
    }
    size_t at = (size_t)len;
    if (kind == OPTION_KIND_UINT) {
        return at + (size_t)snprintf(text + at, capacity - at, "=%u",
                                     (unsigned)option_uint(option->value));
    }
    if (option->value.len == 0) {
        return at;
    }
    text[at++] = '=';
    if (kind == OPTION_KIND_STRING) {
        return at + put_quoted(text + at, option->value);
    }
    put_hex_digits(text + at, option->value);
    return at + 2 * option->value.len;
}

/* --- payloads --------------------------------------------------------------- */

static const char hex_prefix[] = "hex:";

bool payload_word_is(struct bytes word)
{
    return word.data[0] == '"' || word_begins(word, hex_prefix);
}

const char *payload_word_parse(struct bytes word, uint8_t *bytes, size_t capacity, size_t *ret_len)
{
    const size_t prefix = sizeof(hex_prefix) - 1;
    return word.data[0] == '"'
               ? parse_text(word, bytes, capacity, ret_len)
               : word_parse_hex((struct bytes){word.data + prefix, word.len - prefix}, bytes,
                                capacity, ret_len);
}

/* Whether quotation marks show it as well: what takes no more than two bytes there. */
static bool reads_as_text(struct bytes payload)
{
    for (size_t i = 0; i < payload.len; i++) {
        uint8_t byte = payload.data[i];
        bool is_plain = byte >= 0x20 && byte < 0x7f;
        if (!is_plain && byte != '\n' && byte != '\r' && byte != '\t') {
            return false;
        }
    }
    return true;
}

size_t payload_word_format(struct bytes payload, char *text, size_t capacity)
{
    if (capacity < 2 * payload.len + 8) {
        return 0;
    }
    if (reads_as_text(payload)) {
        return put_quoted(text, payload);
    }
    memcpy(text, hex_prefix, sizeof(hex_prefix) - 1);
    put_hex_digits(text + sizeof(hex_prefix) - 1, payload);
    return sizeof(hex_prefix) - 1 + 2 * payload.len;
}
