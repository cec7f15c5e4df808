/* SPDX-License-Identifier: BSD-2-Clause */
/* Values of keys: from text, to text, and a description of the valid ones. */
#ifndef CRIPROXY_CONF_VALUE_H
#define CRIPROXY_CONF_VALUE_H

#include "conf/schema.h"

/* Enough for every value_format() and value_expected(). */
#define VALUE_TEXT_MAX 128

/**
 * The value of a key of any type but LIST and TEXT, in the unit of its field and inside
 * the row's limits.
 *
 * @return false where @p text is not one; @p ret_value is then untouched.
 */
bool value_parse(const struct config_row *row, const char *text, uint64_t *ret_value);

/**
 * Formats a value as in files: "250ms", "16MiB", "yes", "auto". Returns @p text, the caller's
 * buffer.
 */
const char *value_format(const struct config_row *row, uint64_t value, char text[VALUE_TEXT_MAX]);

/**
 * Describes the values that the key takes: "a size from 64KiB to 1GiB". Returns @p text, the
 * caller's buffer.
 */
const char *value_expected(const struct config_row *row, char text[VALUE_TEXT_MAX]);

/**
 * Stores a value, in the unit of the field and within its limits, in the row's field of @p base
 * (struct config or a named kind's). Not for LIST and TEXT. Cannot fail.
 */
void value_store(void *base, const struct config_row *row, uint64_t value);

/**
 * The value of the row's field of @p base, in the unit of the field (ms, bytes, ...). Not for LIST
 * and TEXT.
 */
uint64_t value_load(const void *base, const struct config_row *row);

#endif
