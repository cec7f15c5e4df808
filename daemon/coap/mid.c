/* SPDX-License-Identifier: BSD-2-Clause */
#include "coap/mid.h"

void mid_space_init(struct mid_space *space, uint16_t start)
{
    *space = (struct mid_space){.next = start};
}

bool mid_space_take(struct mid_space *space, uint64_t now_ms, uint32_t lifetime_ms,
                    uint16_t *ret_mid)
{
    unsigned block = space->next >> MID_BLOCK_BITS;
    /* Rounded so that a second's fraction never shortens a lifetime. */
    if (!space->entered && space->free_at_s[block] > now_ms / 1000) {
        return false;
    }
    space->entered = true;
    *ret_mid = space->next++;
    if (space->next >> MID_BLOCK_BITS != block) {
        space->free_at_s[block] = (uint32_t)((now_ms + lifetime_ms) / 1000 + 1);
        space->entered = false;
    }
    return true;
}
