/* SPDX-License-Identifier: BSD-2-Clause */
/* A small seeded generator (splitmix64), so that a run can be repeated; not for secrets. */
#ifndef COAPBENCH_RANDOM_H
#define COAPBENCH_RANDOM_H

#include <stdint.h>

struct random {
    uint64_t state;
};

/** A bijection of 64 bits that spreads every input bit. */
static inline uint64_t random_mix(uint64_t value)
{
    value ^= value >> 30;
    value *= UINT64_C(0xbf58476d1ce4e5b9);
    value ^= value >> 27;
    value *= UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

static inline uint64_t random_next(struct random *random)
{
    random->state += UINT64_C(0x9e3779b97f4a7c15);
    return random_mix(random->state);
}

/** 0 <= result < @p bound; the bias is below bound / 2^32. */
static inline uint32_t random_below(struct random *random, uint32_t bound)
{
    return (uint32_t)((random_next(random) >> 32) * bound >> 32);
}

/** 0 <= result < 1. */
static inline double random_unit(struct random *random)
{
    return (double)(random_next(random) >> 11) * 0x1p-53;
}

#endif
