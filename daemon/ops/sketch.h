/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which of many things occur most, in bounded memory: space-saving (Metwally, Agrawal, El Abbadi
 * 2005). What has occurred more often than one time in SKETCH_SLOTS is in it for certain. A count
 * is never too low, and too high by at most its error.
 */
#ifndef CRIPROXY_SKETCH_H
#define CRIPROXY_SKETCH_H

#include <stdint.h>

#define SKETCH_SLOTS 256u
#define SKETCH_TEXT_MAX 112u

struct sketch_slot {
    uint64_t key; /* hash of the text */
    uint64_t count, error;
    char text[SKETCH_TEXT_MAX];
};

/* A zeroed one is empty. */
struct sketch {
    struct sketch_slot slots[SKETCH_SLOTS];
    uint32_t used;
};

/** Counts @p text, copied; longer text is cut. Cannot fail, allocates nothing. */
void sketch_add(struct sketch *sketch, const char *text);

#endif
