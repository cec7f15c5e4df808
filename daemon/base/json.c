/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/json.h"

#include "base/escape.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- writing ------------------------------------------------------------ */

static void put(struct json_writer *writer, const char *text, size_t len)
{
    if (writer->is_overfull || len > writer->capacity - writer->len) {
        writer->is_overfull = true;
        return;
    }
    memcpy(writer->buffer + writer->len, text, len);
    writer->len += len;
}

static void put_byte(struct json_writer *writer, unsigned char c)
{
    char piece[8];
    size_t len = escape_json_byte(piece, c);
    put(writer, piece, len);
}

static void put_string(struct json_writer *writer, const char *text, size_t len)
{
    put(writer, "\"", 1);
    for (size_t i = 0; i < len; i++) {
        put_byte(writer, (unsigned char)text[i]);
    }
    put(writer, "\"", 1);
}

static void put_key(struct json_writer *writer, const char *key)
{
    if (writer->has_member) {
        put(writer, ",", 1);
    }
    writer->has_member = true;
    put_string(writer, key, strlen(key));
    put(writer, ":", 1);
}

void json_begin(struct json_writer *writer)
{
    writer->line = writer->len;
    writer->has_member = false;
    writer->is_overfull = false;
    put(writer, "{", 1);
}

void json_text_len(struct json_writer *writer, const char *key, const char *text, size_t len)
{
    put_key(writer, key);
    put_string(writer, text, len);
}

void json_uint(struct json_writer *writer, const char *key, uint64_t value)
{
    char text[24];
    int len = snprintf(text, sizeof(text), "%" PRIu64, value);

    put_key(writer, key);
    put(writer, text, (size_t)len);
}

void json_bool(struct json_writer *writer, const char *key, bool value)
{
    put_key(writer, key);
    put(writer, value ? "true" : "false", value ? 4 : 5);
}

bool json_end(struct json_writer *writer)
{
    put(writer, "}\n", 2);
    if (writer->is_overfull) {
        writer->len = writer->line;
        return false;
    }
    return true;
}

/* --- reading ------------------------------------------------------------ */

struct reader {
    const char *at, *end;
    char *memory;
    size_t left; /* of the memory */
};

static void skip_blanks(struct reader *reader)
{
    while (reader->at < reader->end && strchr(" \t\r\n", *reader->at) != NULL &&
           *reader->at != '\0') {
        reader->at++;
    }
}

static bool json_take(struct reader *reader, char c)
{
    skip_blanks(reader);
    if (reader->at == reader->end || *reader->at != c) {
        return false;
    }
    reader->at++;
    return true;
}

static bool keep(struct reader *reader, char c)
{
    if (reader->left == 0) {
        return false;
    }
    *reader->memory++ = c;
    reader->left--;
    return true;
}

static bool keep_utf8(struct reader *reader, uint32_t c)
{
    if (c < 0x80) {
        return c != 0 && keep(reader, (char)c);
    }
    if (c < 0x800) {
        return keep(reader, (char)(0xc0u | c >> 6)) && keep(reader, (char)(0x80u | (c & 0x3fu)));
    }
    /* Surrogates come in pairs, which neither side sends. */
    return (c < 0xd800 || c > 0xdfff) && keep(reader, (char)(0xe0u | c >> 12)) &&
           keep(reader, (char)(0x80u | (c >> 6 & 0x3fu))) &&
           keep(reader, (char)(0x80u | (c & 0x3fu)));
}

static bool read_hex4(struct reader *reader, uint32_t *ret_value)
{
    static const char digits[] = "0123456789abcdef";
    uint32_t value = 0;

    if (reader->end - reader->at < 4) {
        return false;
    }
    for (int i = 0; i < 4; i++) {
        char c = *reader->at++;
        const char *digit = strchr(digits, c >= 'A' && c <= 'F' ? c | 0x20 : c);
        if (c == '\0' || digit == NULL) {
            return false;
        }
        value = value << 4 | (uint32_t)(digit - digits);
    }
    *ret_value = value;
    return true;
}

static bool read_escape(struct reader *reader)
{
    static const char names[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    uint32_t value;

    if (reader->at == reader->end) {
        return false;
    }
    char c = *reader->at++;
    if (c == 'u') {
        return read_hex4(reader, &value) && keep_utf8(reader, value);
    }
    const char *found = c == '\0' ? NULL : strchr(names, c);
    return found != NULL && keep(reader, meanings[found - names]);
}

/* After its first quote. */
static bool read_string(struct reader *reader, const char **ret_text)
{
    *ret_text = reader->memory;
    while (reader->at < reader->end && *reader->at != '"') {
        char c = *reader->at++;
        if ((unsigned char)c < 0x20 || (c == '\\' ? !read_escape(reader) : !keep(reader, c))) {
            return false;
        }
    }
    return json_take(reader, '"') && keep(reader, '\0');
}

static bool is_number(const char *text)
{
    size_t at = text[0] == '-' ? 1 : 0;
    size_t digits = strspn(text + at, "0123456789");

    return digits > 0 && text[at + digits] == '\0' && (text[at] != '0' || digits == 1);
}

/* A whole number, true, false or null, as it was written. */
static bool read_word(struct reader *reader, const char **ret_text)
{
    *ret_text = reader->memory;
    while (reader->at < reader->end &&
           strchr("-0123456789abcdefghijklmnopqrstuvwxyz", *reader->at) != NULL &&
           *reader->at != '\0') {
        if (!keep(reader, *reader->at++)) {
            return false;
        }
    }
    return keep(reader, '\0') &&
           (is_number(*ret_text) || strcmp(*ret_text, "true") == 0 ||
            strcmp(*ret_text, "false") == 0 || strcmp(*ret_text, "null") == 0);
}

static bool read_member(struct reader *reader, struct json_object *object)
{
    struct json_member member = {.is_text = false};

    if (object->count == JSON_MEMBERS_MAX || !json_take(reader, '"') ||
        !read_string(reader, &member.key) || !json_take(reader, ':') ||
        json_get(object, member.key) != NULL) {
        return false;
    }
    member.is_text = json_take(reader, '"');
    if (!(member.is_text ? read_string(reader, &member.value) : read_word(reader, &member.value))) {
        return false;
    }
    object->members[object->count++] = member;
    return true;
}

bool json_read(const char *line, size_t len, char *memory, size_t capacity,
               struct json_object *ret_object)
{
    struct reader reader = {.at = line, .end = line + len, .memory = memory, .left = capacity};
    bool goes_on = true;

    ret_object->count = 0;
    if (!json_take(&reader, '{')) {
        return false;
    }
    while (goes_on) {
        if (!read_member(&reader, ret_object)) {
            return false;
        }
        goes_on = json_take(&reader, ',');
    }
    bool is_whole = json_take(&reader, '}');
    skip_blanks(&reader);
    return is_whole && reader.at == reader.end;
}

const char *json_get(const struct json_object *object, const char *key)
{
    for (size_t i = 0; i < object->count; i++) {
        if (strcmp(object->members[i].key, key) == 0) {
            return object->members[i].value;
        }
    }
    return NULL;
}
