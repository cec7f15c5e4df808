/* SPDX-License-Identifier: BSD-2-Clause */
#include "format.h"

#include "args.h"

#include <errno.h>
#include <stddef.h>
#include <strings.h>

static const struct format_row {
    uint16_t number;
    const char *type, *coding;
} rows[] = {
#define MEDIA(number, type, coding) {number, type, coding},
#include "coap/media.def"
#undef MEDIA
};

int format_parse(const char *text, uint16_t *ret_format)
{
    uint64_t number = 0;

    if (args_parse_count(text, UINT16_MAX, &number) == 0) {
        *ret_format = (uint16_t)number;
        return 0;
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].coding[0] == '\0' && strcasecmp(rows[i].type, text) == 0) {
            *ret_format = rows[i].number;
            return 0;
        }
    }
    return -EINVAL;
}

const char *format_name(uint16_t format)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].number == format) {
            return rows[i].type;
        }
    }
    return "unknown";
}
