/* SPDX-License-Identifier: BSD-2-Clause */
#include "spec.h"

#include <cri/coap.h>
#include <cri/cri.h>
#include <cri/uri.h>

#include <ctype.h>
#include <string.h>

#define SHOWN_MAX 96u /* bytes of a payload or value in a message to people */

/* --- sending -------------------------------------------------------------- */

static const struct wire_bytes *capture_find(const struct captures *captures, const char *name)
{
    for (size_t i = 0; name != NULL && i < captures->count; i++) {
        if (strcmp(captures->at[i].name, name) == 0) {
            return &captures->at[i].bytes;
        }
    }
    return NULL;
}

const char *value_bytes(struct pool *pool, const struct value *value,
                        const struct captures *captures, struct wire_bytes *ret_bytes)
{
    if (value->kind == VALUE_CAPTURE && value->relation == 0) {
        const struct wire_bytes *bytes = capture_find(captures, value->capture);
        if (bytes == NULL) {
            return pool_format(pool, "$%s has no value yet", value->capture);
        }
        *ret_bytes = *bytes;
        return NULL;
    }
    if (value->kind != VALUE_EXACT) {
        return "only what is exact can be sent";
    }
    *ret_bytes = value->bytes;
    return NULL;
}

const char *spec_fill(struct pool *pool, const struct spec *spec, const struct captures *captures,
                      struct wire_message *message)
{
    message->code = spec->code_count > 0 ? spec->codes[0] : 0;
    message->option_count = 0;
    message->payload = (struct wire_bytes){NULL, 0};
    for (size_t i = 0; i < spec->option_count; i++) {
        struct wire_option *option = &message->options[message->option_count++];
        option->number = spec->options[i].number;
        const char *fault = value_bytes(pool, &spec->options[i].value, captures, &option->value);
        if (fault != NULL) {
            return fault;
        }
    }
    return spec->payload.kind == VALUE_UNSAID
               ? NULL
               : value_bytes(pool, &spec->payload, captures, &message->payload);
}

/* --- matching ------------------------------------------------------------- */

static bool is_same(struct wire_bytes a, struct wire_bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static bool is_within(struct wire_bytes bytes, struct wire_bytes part)
{
    return part.len == 0 ||
           (bytes.len >= part.len && memmem(bytes.data, bytes.len, part.data, part.len) != NULL);
}

static const char *show_text(struct pool *pool, struct wire_bytes bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        if (bytes.data[i] < 0x20 || bytes.data[i] > 0x7e) {
            return pool_format(pool, "hex:%s", spec_show_bytes(pool, bytes));
        }
    }
    if (bytes.len > SHOWN_MAX) {
        return pool_format(pool, "\"%.*s...\" (%zu bytes)", (int)SHOWN_MAX,
                           (const char *)bytes.data, bytes.len);
    }
    return pool_format(pool, "\"%.*s\"", (int)bytes.len,
                       bytes.len > 0 ? (const char *)bytes.data : "");
}

static const char *show_cri(struct pool *pool, struct wire_bytes bytes)
{
    struct cri cri;
    char text[1024];
    size_t len;
    if (cri_decode((struct cri_slice){bytes.data, bytes.len}, NULL, &cri, NULL) != CRI_OK ||
        cri_uri_format(&cri, NULL, text, sizeof(text), &len, NULL) != CRI_OK) {
        return pool_format(pool, "hex:%s", spec_show_bytes(pool, bytes));
    }
    return pool_text(pool, text, len);
}

static const char *show_value(struct pool *pool, struct wire_bytes bytes, enum value_format format)
{
    switch (format) {
    case VALUE_UINT:
        return bytes.len <= 8 ? pool_format(pool, "%llu", (unsigned long long)wire_uint(bytes))
                              : spec_show_bytes(pool, bytes);
    case VALUE_BLOCK: {
        unsigned long long value = wire_uint(bytes);
        return (value & 7) == 7 ? pool_format(pool, "%llu/%llu/bert", value >> 4, value >> 3 & 1)
                                : pool_format(pool, "%llu/%llu/%u", value >> 4, value >> 3 & 1,
                                              16u << (value & 7));
    }
    case VALUE_TEXT:
        return show_text(pool, bytes);
    case VALUE_CRI:
        return show_cri(pool, bytes);
    case VALUE_OPAQUE:
        break;
    }
    return spec_show_bytes(pool, bytes);
}

static const char *differs(struct pool *pool, const char *expected, struct wire_bytes got,
                           enum value_format format)
{
    return pool_format(pool, "expected %s, got %s", expected, show_value(pool, got, format));
}

static const char *match_relation(struct pool *pool, const struct value *value,
                                  const struct captures *captures, struct wire_bytes bytes,
                                  enum value_format format)
{
    const struct wire_bytes *other = capture_find(captures, value->other);
    if (other == NULL) {
        return pool_format(pool, "$%s has no value yet", value->other);
    }
    bool is_right =
        value->relation == '!' ? !is_same(*other, bytes) : wire_uint(bytes) > wire_uint(*other);
    if (is_right) {
        return NULL;
    }
    return differs(pool,
                   pool_format(pool, "%s %s", value->relation == '!' ? "other than" : "more than",
                               show_value(pool, *other, format)),
                   bytes, format);
}

static struct wire_bytes *capture_named(struct captures *captures, const char *name)
{
    for (size_t i = 0; i < captures->count; i++) {
        if (strcmp(captures->at[i].name, name) == 0) {
            return &captures->at[i].bytes;
        }
    }
    return NULL;
}

static const char *match_capture(struct pool *pool, const struct value *value,
                                 struct captures *captures, struct wire_bytes bytes,
                                 enum value_format format)
{
    const char *fault =
        value->relation != 0 ? match_relation(pool, value, captures, bytes, format) : NULL;
    if (fault != NULL || value->capture == NULL) {
        return fault;
    }
    struct wire_bytes *known = capture_named(captures, value->capture);
    if (known != NULL && value->relation != 0) { /* from now on it is this one */
        *known = (struct wire_bytes){
            (const uint8_t *)pool_text(pool, (const char *)bytes.data, bytes.len), bytes.len};
        return NULL;
    }
    if (known != NULL) {
        return is_same(*known, bytes)
                   ? NULL
                   : differs(pool, show_value(pool, *known, format), bytes, format);
    }
    if (captures->count == SPEC_CAPTURES_MAX) {
        return "too many captures";
    }
    captures->at[captures->count].name = value->capture;
    captures->at[captures->count].bytes.data =
        (const uint8_t *)pool_text(pool, (const char *)bytes.data, bytes.len);
    captures->at[captures->count++].bytes.len = bytes.len;
    return NULL;
}

const char *value_match(struct pool *pool, const struct value *value, struct captures *captures,
                        struct wire_bytes bytes, enum value_format format)
{
    switch (value->kind) {
    case VALUE_UNSAID:
    case VALUE_ANY:
        return NULL;
    case VALUE_EXACT:
        return is_same(value->bytes, bytes)
                   ? NULL
                   : differs(pool, show_value(pool, value->bytes, format), bytes, format);
    case VALUE_CONTAINS:
        return is_within(bytes, value->bytes)
                   ? NULL
                   : differs(pool, pool_format(pool, "%s in it", show_text(pool, value->bytes)),
                             bytes, format);
    case VALUE_RANGE:
        return wire_uint(bytes) >= value->low && wire_uint(bytes) <= value->high
                   ? NULL
                   : differs(pool,
                             pool_format(pool, "%llu to %llu", (unsigned long long)value->low,
                                         (unsigned long long)value->high),
                             bytes, format);
    case VALUE_CAPTURE:
        return match_capture(pool, value, captures, bytes, format);
    case VALUE_ABSENT:
        return "expected none";
    }
    return NULL;
}

static bool is_code_expected(const struct spec *spec, uint8_t code)
{
    for (size_t i = 0; i < spec->code_count; i++) {
        if (spec->is_class[i] ? spec->codes[i] >> 5 == code >> 5 : spec->codes[i] == code) {
            return true;
        }
    }
    return spec->code_count == 0;
}

/* The @p nth option of @p number, counted from 0; NULL: there are fewer. */
static const struct wire_option *option_at(const struct wire_message *message, uint32_t number,
                                           size_t nth)
{
    for (size_t i = 0; i < message->option_count; i++) {
        if (message->options[i].number == number && nth-- == 0) {
            return &message->options[i];
        }
    }
    return NULL;
}

/* How many options of @p number are written in front of @p before. */
static size_t written_before(const struct spec *spec, uint32_t number, size_t before)
{
    size_t count = 0;
    for (size_t i = 0; i < before; i++) {
        count += spec->options[i].number == number && spec->options[i].value.kind != VALUE_ABSENT;
    }
    return count;
}

static bool is_written(const struct spec *spec, uint32_t number)
{
    for (size_t i = 0; i < spec->option_count; i++) {
        if (spec->options[i].number == number) {
            return true;
        }
    }
    /* A path means all of Uri-Path and Uri-Query. */
    return spec->has_path && (number == CRI_OPTION_URI_PATH || number == CRI_OPTION_URI_QUERY);
}

static const char *match_written(struct pool *pool, const struct spec *spec,
                                 struct captures *captures, const struct wire_message *message)
{
    char name[NAME_TEXT_MAX];
    for (size_t i = 0; i < spec->option_count; i++) {
        const struct spec_option *wanted = &spec->options[i];
        enum value_format format = option_format(wanted->number, message->code);
        const struct wire_option *option =
            option_at(message, wanted->number, written_before(spec, wanted->number, i));
        (void)option_name(wanted->number, message->code, name);
        if (option == NULL && wanted->value.kind != VALUE_ABSENT) {
            return pool_format(pool, "%s: expected%s%s, got none", name,
                               wanted->value.kind == VALUE_EXACT ? " " : "",
                               wanted->value.kind == VALUE_EXACT
                                   ? show_value(pool, wanted->value.bytes, format)
                                   : "");
        }
        const char *fault = option != NULL
                                ? value_match(pool, &wanted->value, captures, option->value, format)
                                : NULL;
        if (fault != NULL) {
            return pool_format(pool, "%s: %s", name, fault);
        }
    }
    return NULL;
}

static const char *match_unwritten(struct pool *pool, const struct spec *spec,
                                   const struct wire_message *message, bool is_loose)
{
    for (size_t i = 0; i < message->option_count; i++) {
        const struct wire_option *option = &message->options[i];
        bool is_known = is_written(spec, option->number);
        size_t count = written_before(spec, option->number, spec->option_count);
        char name[NAME_TEXT_MAX];
        if (is_known ? option_at(message, option->number, count) != NULL : !is_loose) {
            return pool_format(
                pool, "%s=%s: not expected%s", option_name(option->number, message->code, name),
                show_value(pool, option->value, option_format(option->number, message->code)),
                is_known && count > 0 ? " so often" : "");
        }
    }
    return NULL;
}

const char *spec_match(struct pool *pool, const struct spec *spec, struct captures *captures,
                       const struct wire_message *message, bool is_loose)
{
    char name[NAME_TEXT_MAX], expected[NAME_TEXT_MAX];
    if (!is_code_expected(spec, message->code)) {
        return pool_format(pool, "code: expected %s%s, got %s", code_name(spec->codes[0], expected),
                           spec->code_count > 1 || spec->is_class[0] ? " or its like" : "",
                           code_name(message->code, name));
    }
    is_loose = is_loose || spec->is_rest;
    const char *fault = match_written(pool, spec, captures, message);
    if (fault == NULL) {
        fault = match_unwritten(pool, spec, message, is_loose);
    }
    if (fault != NULL) {
        return fault;
    }
    if (spec->payload.kind == VALUE_UNSAID && !is_loose && message->payload.len > 0) {
        return pool_format(pool, "payload: expected none, got %s",
                           show_text(pool, message->payload));
    }
    fault = value_match(pool, &spec->payload, captures, message->payload, VALUE_TEXT);
    return fault == NULL ? NULL : pool_format(pool, "payload: %s", fault);
}

size_t spec_match_bytes(const char *pattern, struct wire_bytes bytes, bool is_prefix)
{
    static const char digits[] = "0123456789abcdef";
    size_t at = 0; /* in nibbles */
    for (; *pattern != '\0'; pattern++) {
        if (strncmp(pattern, "...", 3) == 0) {
            return (at + 1) / 2 <= bytes.len ? bytes.len : SIZE_MAX;
        }
        if (at / 2 >= bytes.len) {
            return SIZE_MAX;
        }
        unsigned nibble = at % 2 == 0 ? bytes.data[at / 2] >> 4 : bytes.data[at / 2] & 15u;
        if (*pattern != '?' && digits[nibble] != tolower((unsigned char)*pattern)) {
            return SIZE_MAX;
        }
        at++;
    }
    return is_prefix || at == 2 * bytes.len ? at / 2 : SIZE_MAX;
}

/* --- showing -------------------------------------------------------------- */

const char *spec_show_bytes(struct pool *pool, struct wire_bytes bytes)
{
    static const char digits[] = "0123456789abcdef";
    size_t count = bytes.len < SHOWN_MAX ? bytes.len : SHOWN_MAX;
    char *text = pool_alloc(pool, 2 * count + 1);
    for (size_t i = 0; i < count; i++) {
        text[2 * i] = digits[bytes.data[i] >> 4];
        text[2 * i + 1] = digits[bytes.data[i] & 15];
    }
    return count < bytes.len ? pool_format(pool, "%s... (%zu bytes)", text, bytes.len) : text;
}

const char *spec_show(struct pool *pool, const struct wire_message *message)
{
    static const char *const types[] = {"CON ", "NON ", "ACK ", "RST "};
    char name[NAME_TEXT_MAX];
    char *text =
        pool_format(pool, "%s%s", message->framing == WIRE_DATAGRAM ? types[message->type] : "",
                    message->code != 0 ? code_name(message->code, name) : "empty");
    if (message->framing == WIRE_DATAGRAM) {
        text = pool_format(pool, "%s mid=%u", text, message->mid);
    }
    if (message->token.len > 0) {
        text = pool_format(pool, "%s token=%s", text, spec_show_bytes(pool, message->token));
    }
    for (size_t i = 0; i < message->option_count; i++) {
        const struct wire_option *option = &message->options[i];
        (void)option_name(option->number, message->code, name);
        text = pool_format(
            pool, "%s %s%s%s", text, name, option->value.len > 0 ? "=" : "",
            option->value.len > 0
                ? show_value(pool, option->value, option_format(option->number, message->code))
                : "");
    }
    return message->payload.len > 0
               ? pool_format(pool, "%s %s", text, show_text(pool, message->payload))
               : text;
}
