/* SPDX-License-Identifier: BSD-2-Clause */
#include "cri_json.h"
#include "cri_tool.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUFFER_BYTES_MIN ((size_t)256)
#define PORT_DIGITS_MAX 5

void buffer_reserve(struct buffer *buffer, size_t capacity)
{
    if (capacity <= buffer->capacity) {
        return;
    }
    size_t larger = buffer->capacity > BUFFER_BYTES_MIN ? buffer->capacity : BUFFER_BYTES_MIN;
    while (larger < capacity && larger <= SIZE_MAX / 2) {
        larger *= 2;
    }
    uint8_t *data = larger >= capacity ? realloc(buffer->data, larger) : NULL;
    if (data == NULL) {
        (void)fputs("cri: out of memory\n", stderr);
        exit(EXIT_INPUT);
    }
    buffer->data = data;
    buffer->capacity = larger;
}

void buffer_append(struct buffer *buffer, const void *bytes, size_t len)
{
    if (len == 0) {
        return; /* bytes may be NULL */
    }
    if (len > SIZE_MAX - buffer->len) {
        buffer_reserve(buffer, SIZE_MAX); /* ends the program */
    }
    buffer_reserve(buffer, buffer->len + len);
    memcpy(buffer->data + buffer->len, bytes, len);
    buffer->len += len;
}

void buffer_append_text(struct buffer *buffer, const char *text)
{
    buffer_append(buffer, text, strlen(text));
}

void buffer_set_text(struct buffer *buffer, const char *text)
{
    buffer->len = 0;
    buffer_append_text(buffer, text);
}

void buffer_free(struct buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct buffer){0};
}

struct cri_slice buffer_slice(const struct buffer *buffer)
{
    return (struct cri_slice){buffer->data, buffer->len};
}

bool refuse(struct tool *tool, const char *reason)
{
    buffer_set_text(&tool->result, reason);
    return false;
}

bool refuse_at(struct tool *tool, size_t offset, const char *reason)
{
    char place[32];
    (void)snprintf(place, sizeof(place), "byte %zu: ", offset);
    buffer_set_text(&tool->result, place);
    buffer_append_text(&tool->result, reason);
    return false;
}

bool refuse_error(struct tool *tool, enum cri_error error, const struct cri_fault *fault)
{
    const char *rule =
        fault->rule != NULL && fault->rule[0] != '\0' ? fault->rule : cri_strerror(error);
    /* A value that cannot be converted has no place of the error. */
    const bool has_place = cri_error_class(error) != CRI_CLASS_CONVERSION || fault->offset > 0;
    return has_place ? refuse_at(tool, fault->offset, rule) : refuse(tool, rule);
}

static int hex_value(uint8_t c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    const uint8_t lower = c | 0x20u;
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

static bool refuse_hex(struct tool *tool, size_t position, const char *reason)
{
    char text[80];
    (void)snprintf(text, sizeof(text), "character %zu: %s", position, reason);
    return refuse(tool, text);
}

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Hexadecimal as dumps and other tools have it: "0x" in front, blanks between the digits. */
bool read_hex(struct tool *tool, struct cri_slice text, struct buffer *bytes)
{
    size_t at = 0;
    int high = -1;

    if (tool->is_raw_input) {
        bytes->len = 0;
        buffer_append(bytes, text.data, text.len);
        return text.len > 0 || refuse(tool, "no bytes");
    }
    while (at < text.len && is_blank(text.data[at])) {
        at++;
    }
    if (text.len - at >= 2 && text.data[at] == '0' && (text.data[at + 1] | 0x20u) == 'x') {
        at += 2;
    }
    buffer_reserve(bytes, text.len / 2 + 1);
    bytes->len = 0;
    for (; at < text.len; at++) {
        if (is_blank(text.data[at])) {
            continue;
        }
        const int value = hex_value(text.data[at]);
        if (value < 0) {
            return refuse_hex(tool, at, "not a hexadecimal digit");
        }
        if (high < 0) {
            high = value;
        } else {
            bytes->data[bytes->len++] = (uint8_t)((unsigned)high << 4 | (unsigned)value);
            high = -1;
        }
    }
    if (high >= 0) {
        return refuse_hex(tool, text.len, "an odd number of hexadecimal digits");
    }
    return bytes->len > 0 || refuse(tool, "no hexadecimal digits");
}

bool read_cri(struct tool *tool, struct cri_slice text, struct buffer *bytes, struct cri *ret_cri)
{
    if (!read_hex(tool, text, bytes)) {
        return false;
    }
    const struct cri_decode_options options = {.strict = tool->is_strict};
    struct cri_fault fault = {0};
    enum cri_error error = cri_decode(buffer_slice(bytes), &options, ret_cri, &fault);
    return error == CRI_OK ? true : refuse_error(tool, error, &fault);
}

bool answer_hex(struct tool *tool, struct cri_slice bytes)
{
    static const char digits[] = "0123456789abcdef";
    struct buffer *result = &tool->result;
    if (tool->is_binary) {
        result->len = 0;
        buffer_append(result, bytes.data, bytes.len);
        tool->is_raw_result = true;
        return true;
    }
    if (bytes.len > SIZE_MAX / 2) {
        return refuse(tool, cri_strerror(CRI_ERR_MEMORY));
    }
    buffer_reserve(result, bytes.len * 2);
    result->len = 0;
    for (size_t i = 0; i < bytes.len; i++) {
        result->data[result->len++] = (uint8_t)digits[bytes.data[i] >> 4];
        result->data[result->len++] = (uint8_t)digits[bytes.data[i] & 0xfu];
    }
    return true;
}

static bool parse_port(const char *text, uint16_t *ret_port)
{
    const size_t len = strlen(text);
    uint32_t port = 0;
    if (len == 0 || len > PORT_DIGITS_MAX) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        port = port * 10 + (uint32_t)(text[i] - '0');
    }
    if (port > UINT16_MAX) {
        return false;
    }
    *ret_port = (uint16_t)port;
    return true;
}

/* The address between @p text and @p end, which is not part of it. */
static bool parse_address(const char *text, size_t len, struct cri_destination *destination)
{
    char copy[INET6_ADDRSTRLEN];
    if (len >= sizeof(copy)) {
        return false;
    }
    memcpy(copy, text, len);
    copy[len] = '\0';
    destination->ip_len = memchr(text, ':', len) != NULL ? 16 : 4;
    return inet_pton(destination->ip_len == 16 ? AF_INET6 : AF_INET, copy, destination->ip) == 1;
}

bool parse_destination(const char *text, struct cri_destination *ret_destination)
{
    struct cri_destination destination = {0};
    const bool is_bracketed = text[0] == '[';
    const char *address = is_bracketed ? text + 1 : text;
    const char *end = strrchr(text, is_bracketed ? ']' : ':');
    if (end == NULL || (is_bracketed && end[1] != ':') ||
        !parse_port(end + (is_bracketed ? 2 : 1), &destination.port)) {
        return false;
    }
    size_t len = (size_t)(end - address);
    const char *zone = memchr(address, '%', len);
    if (zone != NULL) {
        destination.zone = (struct cri_slice){(const uint8_t *)zone + 1, (size_t)(end - zone) - 1};
        len = (size_t)(zone - address);
    }
    if (!parse_address(address, len, &destination) || is_bracketed != (destination.ip_len == 16) ||
        (zone != NULL && (destination.zone.len == 0 || !is_bracketed))) {
        return false;
    }
    *ret_destination = destination;
    return true;
}

/* {"result":...} or {"error":"..."}; what is JSON already stands in it as it is. */
static void print_json(const struct tool *tool, bool is_ok)
{
    struct buffer line = {0};
    buffer_append_text(&line, is_ok ? "{\"result\":" : "{\"error\":");
    if (is_ok && tool->is_json_result) {
        buffer_append(&line, tool->result.data, tool->result.len);
    } else {
        json_put_string(&line, buffer_slice(&tool->result));
    }
    buffer_append_text(&line, "}\n");
    (void)fwrite(line.data, 1, line.len, stdout);
    buffer_free(&line);
}

bool print_result(const struct tool *tool, bool is_ok)
{
    if (tool->with_json) {
        print_json(tool, is_ok);
        return is_ok;
    }
    if (tool->is_binary && !is_ok) { /* Standard output has bytes, and nothing else. */
        (void)fprintf(stderr, "error: %.*s\n", (int)tool->result.len,
                      (const char *)tool->result.data);
        return false;
    }
    if (tool->is_raw_result) {
        (void)fwrite(tool->result.data, 1, tool->result.len, stdout);
        return true;
    }
    if (!is_ok) {
        (void)fputs("error: ", stdout);
    }
    if (tool->result.len > 0) {
        (void)fwrite(tool->result.data, 1, tool->result.len, stdout);
    }
    (void)putchar('\n');
    return is_ok;
}
