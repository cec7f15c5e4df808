/* SPDX-License-Identifier: BSD-2-Clause */
#include "coap/option.h"

#define OPTION_NUMBER_MAX 292

static const struct option_row rows[OPTION_NUMBER_MAX + 1] = {
#define OPTION(number, name, min, max, repeat_request, repeat_response, request, response)         \
    [number] = {#name,                                                                             \
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
    return number <= OPTION_NUMBER_MAX && rows[number].name != NULL ? &rows[number] : NULL;
}
