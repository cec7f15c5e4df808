/* SPDX-License-Identifier: BSD-2-Clause */
#include "names.h"

#include "wire.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct option_row {
    uint32_t number;
    const char *name;
    enum value_format format;
};

/* How the kinds of values of options.def are written in a scenario. */
enum {
    FORMAT_OPAQUE = VALUE_OPAQUE,
    FORMAT_UINT = VALUE_UINT,
    FORMAT_STRING = VALUE_TEXT,
    FORMAT_EMPTY = VALUE_OPAQUE,
    FORMAT_BLOCK = VALUE_BLOCK,
    FORMAT_CRI = VALUE_CRI,
};

/* Numbers, names and kinds are those of the registry, as options.def has them. */
static const struct option_row option_rows[] = {
#define OPTION(number, name, kind, min, max, in_request, in_response, request, response)           \
    {number, #name, (enum value_format)FORMAT_##kind},
#include "options.def"
#undef OPTION
};

static const struct option_row csm_rows[] = {{2, "max_message_size", VALUE_UINT},
                                             {4, "block_wise_transfer", VALUE_OPAQUE},
                                             {6, "extended_token_length", VALUE_UINT}};
static const struct option_row ping_rows[] = {{2, "custody", VALUE_OPAQUE}};
static const struct option_row release_rows[] = {{2, "alternative_address", VALUE_TEXT},
                                                 {4, "hold_off", VALUE_UINT}};
static const struct option_row abort_rows[] = {{2, "bad_csm_option", VALUE_UINT}};

struct code_row {
    uint8_t code;
    const char *name;
};

static const struct code_row code_rows[] = {
    {WIRE_CODE(0, 1), "GET"},    {WIRE_CODE(0, 2), "POST"},    {WIRE_CODE(0, 3), "PUT"},
    {WIRE_CODE(0, 4), "DELETE"}, {WIRE_CODE(0, 5), "FETCH"},   {WIRE_CODE(0, 6), "PATCH"},
    {WIRE_CODE(0, 7), "IPATCH"}, {WIRE_CODE(7, 1), "CSM"},     {WIRE_CODE(7, 2), "PING"},
    {WIRE_CODE(7, 3), "PONG"},   {WIRE_CODE(7, 4), "RELEASE"}, {WIRE_CODE(7, 5), "ABORT"},
};

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

static const struct option_row *rows_of(uint8_t code, size_t *ret_count)
{
    switch (code) {
    case WIRE_CODE(7, 1):
        *ret_count = COUNT(csm_rows);
        return csm_rows;
    case WIRE_CODE(7, 2):
    case WIRE_CODE(7, 3):
        *ret_count = COUNT(ping_rows);
        return ping_rows;
    case WIRE_CODE(7, 4):
        *ret_count = COUNT(release_rows);
        return release_rows;
    case WIRE_CODE(7, 5):
        *ret_count = COUNT(abort_rows);
        return abort_rows;
    default:
        *ret_count = COUNT(option_rows);
        return option_rows;
    }
}

/* "max-age" is the row max_age. */
static bool is_row_name(const char *row, const char *name, size_t len)
{
    if (strlen(row) != len) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (name[i] != (row[i] == '_' ? '-' : row[i])) {
            return false;
        }
    }
    return true;
}

uint32_t option_number(const char *name, size_t len, uint8_t code)
{
    size_t count;
    const struct option_row *rows = rows_of(code, &count);
    for (size_t i = 0; i < count; i++) {
        if (is_row_name(rows[i].name, name, len)) {
            return rows[i].number;
        }
    }
    if (len > 3 && len < 10 && memcmp(name, "opt", 3) == 0 && isdigit((unsigned char)name[3])) {
        char *end;
        unsigned long number = strtoul(name + 3, &end, 10);
        return end == name + len ? (uint32_t)number : UINT32_MAX;
    }
    return UINT32_MAX;
}

static const struct option_row *row_of(uint32_t number, uint8_t code)
{
    size_t count;
    const struct option_row *rows = rows_of(code, &count);
    for (size_t i = 0; i < count; i++) {
        if (rows[i].number == number) {
            return &rows[i];
        }
    }
    return NULL;
}

const char *option_name(uint32_t number, uint8_t code, char buffer[static NAME_TEXT_MAX])
{
    const struct option_row *row = row_of(number, code);
    const char *name = row != NULL ? row->name : NULL;
    if (name == NULL || strlen(name) >= NAME_TEXT_MAX) {
        (void)snprintf(buffer, NAME_TEXT_MAX, "opt%u", (unsigned)number);
        return buffer;
    }
    size_t len = strlen(name);
    for (size_t i = 0; i <= len; i++) {
        buffer[i] = name[i];
        if (name[i] == '_') {
            buffer[i] = '-';
        }
    }
    return buffer;
}

enum value_format option_format(uint32_t number, uint8_t code)
{
    const struct option_row *row = row_of(number, code);
    return row != NULL ? row->format : VALUE_OPAQUE;
}

bool code_parse(const char *text, size_t len, uint8_t *ret_code)
{
    for (size_t i = 0; i < COUNT(code_rows); i++) {
        if (strlen(code_rows[i].name) == len && memcmp(code_rows[i].name, text, len) == 0) {
            *ret_code = code_rows[i].code;
            return true;
        }
    }
    if (len != 4 || text[0] < '0' || text[0] > '7' || text[1] != '.' ||
        !isdigit((unsigned char)text[2]) || !isdigit((unsigned char)text[3])) {
        return false;
    }
    unsigned detail = (unsigned)(text[2] - '0') * 10 + (unsigned)(text[3] - '0');
    *ret_code = WIRE_CODE((unsigned)(text[0] - '0'), detail & 31u);
    return detail < 32;
}

const char *code_name(uint8_t code, char buffer[static NAME_TEXT_MAX])
{
    for (size_t i = 0; i < COUNT(code_rows); i++) {
        if (code_rows[i].code == code) {
            return code_rows[i].name;
        }
    }
    (void)snprintf(buffer, NAME_TEXT_MAX, "%d.%02d", code >> 5, code & 31);
    return buffer;
}
