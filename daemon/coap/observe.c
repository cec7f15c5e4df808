/* SPDX-License-Identifier: BSD-2-Clause */
#include "coap/observe.h"

#define HALF 0x800000u /* of the number space */

/* After this long a notification is newer whatever its number says (RFC 7641 section 3.4). */
#define REORDERING_MS 128000u

/* Within this, numbers are less than half the number space apart (RFC 7641 section 4.4). */
#define COMPARABLE_MS 256000u

static bool is_ahead(uint32_t number, uint32_t of)
{
    uint32_t step = (number - of) & OBSERVE_NUMBER_MAX;
    /* V1 < V2 and V2 - V1 < 2^23, or V1 > V2 and V1 - V2 > 2^23. */
    return step > 0 && step < HALF;
}

bool observe_is_newer(const struct observe_mark *last, uint32_t number, uint64_t now_ms)
{
    return is_ahead(number & OBSERVE_NUMBER_MAX, last->number) ||
           now_ms > last->at_ms + REORDERING_MS;
}

uint32_t observe_next(const struct observe_mark *last, uint64_t now_ms)
{
    uint32_t clock = observe_first(now_ms);
    if (is_ahead(clock, last->number) || now_ms > last->at_ms + COMPARABLE_MS) {
        return clock;
    }
    return (last->number + 1) & OBSERVE_NUMBER_MAX;
}
