/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of codes and options, and what the values of options are. */
#ifndef SCENARIO_NAMES_H
#define SCENARIO_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    NAME_TEXT_MAX = 32, /* of an option's or code's name, with its NUL */
};

enum value_format {
    VALUE_OPAQUE, /* hex */
    VALUE_UINT,
    VALUE_TEXT,
    VALUE_BLOCK, /* NUMBER/MORE/SIZE (RFC 7959 section 2.2) */
    VALUE_CRI,   /* the URI that it stands for */
};

/**
 * The number of option @p name ("max-age", "opt65"), in messages of @p code: signals have options
 * of their own (RFC 8323 section 5). UINT32_MAX: there is none.
 */
uint32_t option_number(const char *name, size_t len, uint8_t code);

/** Its name; "opt65" in @p buffer where it has none. */
const char *option_name(uint32_t number, uint8_t code, char buffer[static NAME_TEXT_MAX]);

enum value_format option_format(uint32_t number, uint8_t code);

/** The code of "GET", "CSM", "2.05"; false for anything else. */
bool code_parse(const char *text, size_t len, uint8_t *ret_code);

/** The reverse, in @p buffer. */
const char *code_name(uint8_t code, char buffer[static NAME_TEXT_MAX]);

#endif
