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

#endif
