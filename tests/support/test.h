/* SPDX-License-Identifier: BSD-2-Clause */
/* What every test may use: cmocka and what it wants included before it, seeds, hex. */
#ifndef CRIPROXY_TEST_H
#define CRIPROXY_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#undef stop /* a macro of cmocka 2.0, and a function of many tests */

#include "support/test_random.h"

/**
 * The seed to use, printed: TEST_SEED of the environment, where "random" is one of the
 * moment; without it always the same.
 */
uint64_t test_seed(void);

/** Bytes of hex text ("40 01 12 34"; blanks are skipped); fails the test if it is none. */
size_t test_hex(const char *text, uint8_t *buffer, size_t capacity);

#endif
