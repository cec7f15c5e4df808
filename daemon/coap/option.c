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

bool passed_is_empty(const struct passed_options *passed, struct bytes options)
{
    return passed != NULL && passed->of != NULL && passed->of == options.data && passed->count == 0;
}

void passed_begin(struct passed_iter *iter, const struct passed_options *passed,
                  struct bytes options)
{
    bool is_known = passed != NULL && passed->of != NULL && passed->of == options.data;
    iter->at = is_known ? passed->items : NULL;
    iter->end = is_known ? passed->items + passed->count : NULL;
    iter->last = UINT32_MAX;
    option_iter_init(&iter->options, options);
}

bool passed_next(struct passed_iter *iter, struct passed_option *ret_option)
{
    struct option option;
    if (iter->at != NULL) {
        if (iter->at == iter->end) {
            return false;
        }
        *ret_option = *iter->at++;
        return true;
    }
    if (!option_iter_next(&iter->options, &option)) {
        return false;
    }
    *ret_option = (struct passed_option){option.number, option.number == iter->last, option.value};
    iter->last = option.number;
    return true;
}
