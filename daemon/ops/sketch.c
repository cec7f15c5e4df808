/* SPDX-License-Identifier: BSD-2-Clause */
#include "ops/sketch.h"

#include "base/hash.h"

#include <stdio.h>
#include <string.h>

/* The slot of the text, or one for it: the least counted makes room, and its count is the error. */
static struct sketch_slot *slot_for(struct sketch *sketch, uint64_t key, const char *text)
{
    struct sketch_slot *least = &sketch->slots[0];
    for (uint32_t i = 0; i < sketch->used; i++) {
        struct sketch_slot *slot = &sketch->slots[i];
        if (slot->key == key) {
            return slot;
        }
        least = slot->count < least->count ? slot : least;
    }
    if (sketch->used < SKETCH_SLOTS) {
        least = &sketch->slots[sketch->used++];
        *least = (struct sketch_slot){.count = 0};
    }
    least->key = key;
    least->error = least->count;
    (void)snprintf(least->text, sizeof(least->text), "%s", text);
    return least;
}

void sketch_add(struct sketch *sketch, const char *text)
{
    uint64_t key = hash_bytes((const uint8_t *)text, strnlen(text, SKETCH_TEXT_MAX - 1), 0);
    slot_for(sketch, key, text)->count++;
}
