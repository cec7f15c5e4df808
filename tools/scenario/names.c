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
};

/* Numbers and names are those of the registry, as options.def has them. */
static const struct option_row option_rows[] = {
#define OPTION(number, name, min, max, in_request, in_response, request, response) {number, #name},
#include "options.def"
#undef OPTION
};

static const struct option_row csm_rows[] = {
    {2, "max_message_size"}, {4, "block_wise_transfer"}, {6, "extended_token_length"}};
static const struct option_row ping_rows[] = {{2, "custody"}};
static const struct option_row release_rows[] = {{2, "alternative_address"}, {4, "hold_off"}};
static const struct option_row abort_rows[] = {{2, "bad_csm_option"}};

static const char uints[] = " observe uri_port content_format max_age hop_limit accept size1 size2 "
                            "proxy_scheme_number no_response multicast_timeout max_message_size "
                            "extended_token_length hold_off bad_csm_option ";
static const char texts[] =
    " uri_host uri_path uri_query location_path location_query proxy_uri proxy_scheme "
    "alternative_address ";

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

static const char *row_name(uint32_t number, uint8_t code)
{
    size_t count;
    const struct option_row *rows = rows_of(code, &count);
    for (size_t i = 0; i < count; i++) {
        if (rows[i].number == number) {
            return rows[i].name;
        }
    }
    return NULL;
}

const char *option_name(uint32_t number, uint8_t code, char buffer[static NAME_TEXT_MAX])
{
    const char *name = row_name(number, code);
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

static bool is_listed(const char *list, const char *name)
{
    char word[40];
    (void)snprintf(word, sizeof(word), " %s ", name);
    return strstr(list, word) != NULL;
}

enum value_format option_format(uint32_t number, uint8_t code)
{
    const char *name = row_name(number, code);
    if (name == NULL) {
        return VALUE_OPAQUE;
    }
    if (strcmp(name, "block1") == 0 || strcmp(name, "block2") == 0) {
        return VALUE_BLOCK;
    }
    if (strcmp(name, "proxy_cri") == 0) {
        return VALUE_CRI;
    }
    return is_listed(uints, name) ? VALUE_UINT : is_listed(texts, name) ? VALUE_TEXT : VALUE_OPAQUE;
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
