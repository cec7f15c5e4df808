/* SPDX-License-Identifier: BSD-2-Clause */
/* What cmocka.h wants before it, and a random number generator for tests. */
#ifndef CRIPROXY_TEST_H
#define CRIPROXY_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/** Next number of splitmix64: good enough to choose test cases by, the same everywhere. */
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

/** The seed to use: TEST_SEED of the environment, else one of the moment; printed. */
uint64_t test_seed(void);

/** Bytes of hex text ("40 01 12 34"; blanks are skipped); fails the test if it is none. */
size_t test_hex(const char *text, uint8_t *buffer, size_t capacity);

#endif
