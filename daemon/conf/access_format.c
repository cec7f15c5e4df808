/* SPDX-License-Identifier: BSD-2-Clause */
#include "conf/access_format.h"

#include <string.h>

static const char *const names[ACCESS_FIELD_COUNT] = {
#define ACCESS_FIELD(name, help) #name,
#include "conf/access_fields.def"
#undef ACCESS_FIELD
};

const char *access_format_names(void)
{
    static const char all[] =
#define ACCESS_FIELD(name, help) #name " "
#include "conf/access_fields.def"
#undef ACCESS_FIELD
        "";

    return all;
}

static bool add_field(struct access_format *format, const char *word, size_t len)
{
    size_t at = 0;

    while (at < ACCESS_FIELD_COUNT &&
           (strlen(names[at]) != len || memcmp(names[at], word, len) != 0)) {
        at++;
    }
    if (at == ACCESS_FIELD_COUNT) {
        return false;
    }
    for (size_t i = 0; i < format->count; i++) {
        if (format->fields[i] == (enum access_field)at) {
            return false;
        }
    }
    format->fields[format->count++] = (enum access_field)at;
    return true;
}

bool access_format_parse(const char *text, struct access_format *ret_format)
{
    static const char blanks[] = " \t";
    struct access_format format = {.count = 0};

    for (text += strspn(text, blanks); *text != '\0'; text += strspn(text, blanks)) {
        size_t len = strcspn(text, blanks);
        if (!add_field(&format, text, len)) {
            return false;
        }
        text += len;
    }
    *ret_format = format;
    return true;
}
