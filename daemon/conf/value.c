/* SPDX-License-Identifier: BSD-2-Clause */
#include "conf/value.h"

#include "conf/config.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A field of an enum is written as an unsigned int. */
_Static_assert(sizeof(enum config_log_level) == sizeof(unsigned), "enums are unsigned ints");

struct unit {
    const char *name;
    uint64_t factor;
};

/* Ascending, so that the last one that divides a value is the one to show it in. */
static const struct unit duration_units[] = {
    {"ms", 1}, {"s", 1000}, {"min", 60000}, {"h", 3600000}, {NULL, 0}};
static const struct unit size_units[] = {{"B", 1},
                                         {"KiB", UINT64_C(1) << 10},
                                         {"MiB", UINT64_C(1) << 20},
                                         {"GiB", UINT64_C(1) << 30},
                                         {NULL, 0}};

/* Leading digits of @p text as a number; NULL where there are none or too many. */
static const char *parse_digits(const char *text, uint64_t *ret_number)
{
    uint64_t number = 0;
    const char *at = text;

    for (; *at >= '0' && *at <= '9'; at++) {
        if (__builtin_mul_overflow(number, 10u, &number) ||
            __builtin_add_overflow(number, (uint64_t)(*at - '0'), &number)) {
            return NULL;
        }
    }
    if (at == text) {
        return NULL;
    }
    *ret_number = number;
    return at;
}

static bool parse_uint(const char *text, uint64_t *ret_number)
{
    const char *end = parse_digits(text, ret_number);

    return end != NULL && *end == '\0';
}

static bool parse_with_unit(const struct unit *units, const char *text, uint64_t *ret_number)
{
    uint64_t number = 0;
    const char *end = parse_digits(text, &number);

    if (end == NULL) {
        return false;
    }
    if (*end == '\0' && number == 0) { /* nothing needs no unit */
        *ret_number = 0;
        return true;
    }
    for (; units->name != NULL; units++) {
        if (strcmp(end, units->name) == 0) {
            return !__builtin_mul_overflow(number, units->factor, ret_number);
        }
    }
    return false;
}

/* "1", "1.5", "1.25": hundredths. */
static bool parse_factor(const char *text, uint64_t *ret_number)
{
    uint64_t number = 0;
    const char *at = parse_digits(text, &number);

    if (at == NULL || __builtin_mul_overflow(number, 100u, &number)) {
        return false;
    }
    if (*at == '\0') {
        *ret_number = number;
        return true;
    }
    uint64_t fraction = 0;
    const char *end = *at == '.' ? parse_digits(at + 1, &fraction) : NULL;
    if (end == NULL || *end != '\0' || end - at > 3) {
        return false;
    }
    if (end - at == 2) {
        fraction *= 10;
    }
    return !__builtin_add_overflow(number, fraction, ret_number);
}

/* "0", "1", "0.25", "0.000001": millionths. */
static bool parse_chance(const char *text, uint64_t *ret_number)
{
    uint64_t number = 0, step = CHANCE_ONE / 10;
    size_t len = strlen(text);

    if (len == 0 || (text[0] != '0' && text[0] != '1') ||
        (len > 1 && (text[1] != '.' || len == 2 || len > 8))) {
        return false;
    }
    number = text[0] == '1' ? CHANCE_ONE : 0;
    for (size_t i = 2; i < len; i++, step /= 10) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        number += (uint64_t)(text[i] - '0') * step;
    }
    *ret_number = number;
    return number <= CHANCE_ONE;
}

static bool parse_bool(const char *text, uint64_t *ret_number)
{
    if (strcmp(text, "yes") == 0) {
        *ret_number = 1;
        return true;
    }
    if (strcmp(text, "no") == 0) {
        *ret_number = 0;
        return true;
    }
    return false;
}

static bool parse_word(const struct config_row *row, const char *text, uint64_t *ret_number)
{
    for (size_t i = 0; i < row->word_count; i++) {
        if (strcmp(text, row->words[i]) == 0) {
            *ret_number = i;
            return true;
        }
    }
    return false;
}

static bool parse_by_type(const struct config_row *row, const char *text, uint64_t *ret_number)
{
    switch (row->type) {
    case CONFIG_TYPE_BOOL:
        return parse_bool(text, ret_number);
    case CONFIG_TYPE_UINT:
    case CONFIG_TYPE_WORKERS:
        return parse_uint(text, ret_number);
    case CONFIG_TYPE_DURATION:
        return parse_with_unit(duration_units, text, ret_number);
    case CONFIG_TYPE_SIZE:
        return parse_with_unit(size_units, text, ret_number);
    case CONFIG_TYPE_FACTOR:
        return parse_factor(text, ret_number);
    case CONFIG_TYPE_CHANCE:
        return parse_chance(text, ret_number);
    case CONFIG_TYPE_WORD:
        return parse_word(row, text, ret_number);
    case CONFIG_TYPE_LIST:
    case CONFIG_TYPE_TEXT:
        break; /* has items, or is as it stands */
    }
    return false;
}

bool value_parse(const struct config_row *row, const char *text, uint64_t *ret_value)
{
    uint64_t number = 0;

    if (row->type == CONFIG_TYPE_WORKERS && strcmp(text, "auto") == 0) {
        *ret_value = 0;
        return true;
    }
    if (!parse_by_type(row, text, &number)) {
        return false;
    }
    if (row->type != CONFIG_TYPE_WORD && (number < row->min || number > row->max)) {
        return false;
    }
    *ret_value = number;
    return true;
}

static void format_with_unit(const struct unit *units, uint64_t value, char *text, size_t capacity)
{
    const struct unit *best = units;

    for (; value != 0 && units->name != NULL; units++) {
        if (value % units->factor == 0) {
            best = units;
        }
    }
    (void)snprintf(text, capacity, "%" PRIu64 "%s", value / best->factor,
                   value == 0 ? "" : best->name);
}

/* Without zeros at its end. */
static void format_chance(uint64_t value, char text[VALUE_TEXT_MAX])
{
    int len = snprintf(text, VALUE_TEXT_MAX, "%" PRIu64 ".%06u", value / CHANCE_ONE,
                       (unsigned)(value % CHANCE_ONE));
    while (len > 1 && text[len - 1] == '0') {
        text[--len] = '\0';
    }
    if (text[len - 1] == '.') {
        text[len - 1] = '\0';
    }
}

const char *value_format(const struct config_row *row, uint64_t value, char text[VALUE_TEXT_MAX])
{
    switch (row->type) {
    case CONFIG_TYPE_BOOL:
        (void)snprintf(text, VALUE_TEXT_MAX, "%s", value != 0 ? "yes" : "no");
        break;
    case CONFIG_TYPE_WORKERS:
    case CONFIG_TYPE_UINT:
        if (row->type == CONFIG_TYPE_WORKERS && value == 0) {
            (void)snprintf(text, VALUE_TEXT_MAX, "auto");
        } else {
            (void)snprintf(text, VALUE_TEXT_MAX, "%" PRIu64, value);
        }
        break;
    case CONFIG_TYPE_DURATION:
        format_with_unit(duration_units, value, text, VALUE_TEXT_MAX);
        break;
    case CONFIG_TYPE_SIZE:
        format_with_unit(size_units, value, text, VALUE_TEXT_MAX);
        break;
    case CONFIG_TYPE_FACTOR:
        (void)snprintf(text, VALUE_TEXT_MAX, "%" PRIu64 ".%02u", value / 100,
                       (unsigned)(value % 100));
        break;
    case CONFIG_TYPE_CHANCE:
        format_chance(value, text);
        break;
    case CONFIG_TYPE_WORD:
        (void)snprintf(text, VALUE_TEXT_MAX, "%s",
                       value < row->word_count ? row->words[value] : "");
        break;
    case CONFIG_TYPE_LIST:
    case CONFIG_TYPE_TEXT:
        text[0] = '\0';
        break;
    }
    return text;
}

/* "none, udp or dtls" */
static void expect_words(const struct config_row *row, char *text, size_t capacity)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < row->word_count; i++) {
        const char *before = i == 0 ? "" : i + 1 == row->word_count ? " or " : ", ";
        int len = snprintf(text + used, capacity - used, "%s%s", before, row->words[i]);
        if (len < 0 || (size_t)len >= capacity - used) {
            return;
        }
        used += (size_t)len;
    }
}

const char *value_expected(const struct config_row *row, char text[VALUE_TEXT_MAX])
{
    char min[VALUE_TEXT_MAX];
    char max[VALUE_TEXT_MAX];
    const char *what = "";

    switch (row->type) {
    case CONFIG_TYPE_BOOL:
        (void)snprintf(text, VALUE_TEXT_MAX, "yes or no");
        return text;
    case CONFIG_TYPE_WORD:
        expect_words(row, text, VALUE_TEXT_MAX);
        return text;
    case CONFIG_TYPE_LIST:
        (void)snprintf(text, VALUE_TEXT_MAX, "a text, or the key repeated");
        return text;
    case CONFIG_TYPE_TEXT:
        (void)snprintf(text, VALUE_TEXT_MAX, "a text");
        return text;
    case CONFIG_TYPE_UINT:
        what = "a whole number";
        break;
    case CONFIG_TYPE_WORKERS:
        what = "auto or a whole number";
        break;
    case CONFIG_TYPE_DURATION:
        what = "a time with its unit (ms, s, min or h)";
        break;
    case CONFIG_TYPE_SIZE:
        what = "a size with its unit (B, KiB, MiB or GiB)";
        break;
    case CONFIG_TYPE_FACTOR:
        what = "a number with at most two decimals";
        break;
    case CONFIG_TYPE_CHANCE:
        what = "a number with at most six decimals";
        break;
    }
    (void)snprintf(text, VALUE_TEXT_MAX, "%s from %.20s to %.20s", what,
                   value_format(row, row->min, min), value_format(row, row->max, max));
    return text;
}

void value_store(void *base, const struct config_row *row, uint64_t value)
{
    char *field = (char *)base + row->offset;

    assert(row->type != CONFIG_TYPE_LIST && row->type != CONFIG_TYPE_TEXT); /* no numbers */
    switch (row->type) {
    case CONFIG_TYPE_BOOL: {
        bool flag = value != 0;
        memcpy(field, &flag, sizeof(flag));
        break;
    }
    case CONFIG_TYPE_UINT:
    case CONFIG_TYPE_WORKERS:
    case CONFIG_TYPE_DURATION:
    case CONFIG_TYPE_FACTOR:
    case CONFIG_TYPE_CHANCE:
    case CONFIG_TYPE_WORD: {
        uint32_t number = (uint32_t)value; /* the row's limits are those of 32 bits */
        memcpy(field, &number, sizeof(number));
        break;
    }
    case CONFIG_TYPE_SIZE:
        memcpy(field, &value, sizeof(value));
        break;
    case CONFIG_TYPE_LIST:
    case CONFIG_TYPE_TEXT:
        break;
    }
}

uint64_t value_load(const void *base, const struct config_row *row)
{
    const char *field = (const char *)base + row->offset;
    bool flag = false;
    uint32_t number = 0;
    uint64_t size = 0;

    assert(row->type != CONFIG_TYPE_LIST && row->type != CONFIG_TYPE_TEXT); /* no numbers */
    switch (row->type) {
    case CONFIG_TYPE_BOOL:
        memcpy(&flag, field, sizeof(flag));
        return flag ? 1 : 0;
    case CONFIG_TYPE_UINT:
    case CONFIG_TYPE_WORKERS:
    case CONFIG_TYPE_DURATION:
    case CONFIG_TYPE_FACTOR:
    case CONFIG_TYPE_CHANCE:
    case CONFIG_TYPE_WORD:
        memcpy(&number, field, sizeof(number));
        return number;
    case CONFIG_TYPE_SIZE:
        memcpy(&size, field, sizeof(size));
        return size;
    case CONFIG_TYPE_LIST:
    case CONFIG_TYPE_TEXT:
        break;
    }
    return 0;
}
