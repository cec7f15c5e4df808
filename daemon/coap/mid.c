/* SPDX-License-Identifier: BSD-2-Clause */
#include "coap/mid.h"

bool mid_space_take(struct mid_space *space, uint64_t now_ms, uint32_t lifetime_ms,
                    uint16_t *ret_mid)
{
    unsigned block = space->next >> MID_BLOCK_BITS;
    if (space->is_first_lap && space->has_left && space->next == space->start) {
        space->is_first_lap = false; /* once round: from here on ids come back */
    }
    /* The part of the first block before the start is still unused. */
    bool is_unused =
        space->is_first_lap && space->has_left && block == (unsigned)space->start >> MID_BLOCK_BITS;
    /* Rounded so that a second's fraction never shortens a lifetime. */
    if (!is_unused && space->free_at_s[block] > now_ms / 1000) {
        return false;
    }
    *ret_mid = space->next++;
    if (space->next >> MID_BLOCK_BITS != block) {
        space->free_at_s[block] = (uint32_t)((now_ms + lifetime_ms) / 1000 + 1);
        space->has_left = true;
    }
    return true;
}
