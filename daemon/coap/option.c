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

enum option_kind option_kind(uint16_t number)
{
    switch (number) {
    case OPTION_uri_host:
    case OPTION_uri_path:
    case OPTION_uri_query:
    case OPTION_location_path:
    case OPTION_location_query:
    case OPTION_proxy_uri:
    case OPTION_proxy_scheme:
        return OPTION_KIND_TEXT;
    case OPTION_uri_port:
    case OPTION_content_format:
    case OPTION_accept:
    case OPTION_max_age:
    case OPTION_hop_limit:
    case OPTION_observe:
    case OPTION_proxy_scheme_number:
        return OPTION_KIND_NUMBER;
    default:
        return OPTION_KIND_HEX;
    }
}
