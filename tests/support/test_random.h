/* SPDX-License-Identifier: BSD-2-Clause */
/* Random numbers from a seed, the same everywhere. */
#ifndef CRIPROXY_TEST_RANDOM_H
#define CRIPROXY_TEST_RANDOM_H

#include <stdint.h>

/** Next number of splitmix64 (Steele, Lea, Flood): good enough to choose test cases by. */
static inline uint64_t test_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/** 0 .. @p limit - 1. */
static inline uint64_t test_random_below(uint64_t *state, uint64_t limit)
{
    return test_random(state) % limit;
}

#endif
