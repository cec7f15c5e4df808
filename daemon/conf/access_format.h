/* SPDX-License-Identifier: BSD-2-Clause */
/* The value of log.access-format: names of fields with blanks between them. */
#ifndef CRIPROXY_CONF_ACCESS_FORMAT_H
#define CRIPROXY_CONF_ACCESS_FORMAT_H

#include <stdbool.h>
#include <stddef.h>

enum access_field {
#define ACCESS_FIELD(name, help) ACCESS_##name,
#include "conf/access_fields.def"
#undef ACCESS_FIELD
    ACCESS_FIELD_COUNT
};

struct access_format {
    size_t count;
    enum access_field fields[ACCESS_FIELD_COUNT]; /* each at most once */
};

/** @return false where a word is no field's name, or comes twice */
bool access_format_parse(const char *text, struct access_format *ret_format);

/** The names of all fields, with blanks between them. Static text. */
const char *access_format_names(void);

#endif
