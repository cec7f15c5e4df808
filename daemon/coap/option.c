/* SPDX-License-Identifier: BSD-2-Clause */
#include "coap/option.h"

/* By number, up to the highest that a row has. */
static const struct option_row rows[] = {
#define OPTION(number, name, kind, min, max, repeat_request, repeat_response, request, response)   \
    [number] = {#name,                                                                             \
                OPTION_KIND_##kind,                                                                \
                number,                                                                            \
                min,                                                                               \
                max,                                                                               \
                repeat_request,                                                                    \
                repeat_response,                                                                   \
                OPTION_USE_##request,                                                              \
                OPTION_USE_##response},
#include "coap/options.def"
#undef OPTION
};

const struct option_row *option_row(uint16_t number)
{
    bool is_known = number < sizeof(rows) / sizeof(rows[0]) && rows[number].name != NULL;
    return is_known ? &rows[number] : NULL;
}

enum option_kind option_kind(uint16_t number)
{
    const struct option_row *row = option_row(number);
    return row != NULL ? row->kind : OPTION_KIND_OPAQUE;
}
