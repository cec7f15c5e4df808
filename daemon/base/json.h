/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flat JSON objects, one a line: the protocol between criproxyctl and the daemon. Values are texts,
 * whole numbers and booleans; nothing nests.
 *
 * Texts are ASCII: other bytes are taken for characters of Latin-1 (\u00HH) when they are written.
 * Text from outside is escaped before (base/escape.h).
 */
#ifndef CRIPROXY_JSON_H
#define CRIPROXY_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Lines in a buffer; a line that does not fit is left out as a whole, and remembered. */
struct json_writer {
    char *buffer;
    size_t capacity, len;
    size_t line;      /* where the line under way begins */
    bool has_member;  /* of the line under way */
    bool is_overfull; /* the line under way did not fit: json_end() took it back */
};

/** Nothing written yet. @p buffer is borrowed. */
static inline void json_writer_init(struct json_writer *writer, char *buffer, size_t capacity)
{
    *writer = (struct json_writer){.buffer = buffer, .capacity = capacity};
}

/**
 * A line with an object: json_begin(), its members in order, json_end(). Texts are copied. If the
 * line does not fit the buffer, json_end() removes it and returns false.
 */
void json_begin(struct json_writer *writer);
void json_text_len(struct json_writer *writer, const char *key, const char *text, size_t len);
void json_uint(struct json_writer *writer, const char *key, uint64_t value);
void json_bool(struct json_writer *writer, const char *key, bool value);

/** @return false where the line did not fit: the buffer is as it was before json_begin() */
bool json_end(struct json_writer *writer);

/** As json_text_len(), of a NUL-terminated text. */
static inline void json_text(struct json_writer *writer, const char *key, const char *text)
{
    json_text_len(writer, key, text, strlen(text));
}

#define JSON_MEMBERS_MAX 32u

struct json_member {
    const char *key, *value; /* NUL-terminated; a number or boolean as it was written */
    bool is_text;
};

struct json_object {
    size_t count;
    struct json_member members[JSON_MEMBERS_MAX];
};

/**
 * Read one line, strictly: RFC 8259, flat, no key twice, no NUL in a text. Characters
 * past ASCII become UTF-8.
 *
 * @param memory for keys and values; of @p capacity at least len + 2 * JSON_MEMBERS_MAX
 * @return false where it is something else
 */
bool json_read(const char *line, size_t len, char *memory, size_t capacity,
               struct json_object *ret_object);

/** The value of @p key, or NULL. */
const char *json_get(const struct json_object *object, const char *key);

#endif
