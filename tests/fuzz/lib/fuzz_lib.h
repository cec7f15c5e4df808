/* SPDX-License-Identifier: BSD-2-Clause */
/* A fuzz target: linked with libFuzzer, or with corpus_main.c to go through a corpus. */
#ifndef FUZZ_LIB_H
#define FUZZ_LIB_H

#include "properties.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Stop where a property does not hold. */
static inline int fuzz_result(const char *broken)
{
    if (broken != NULL) {
        fprintf(stderr, "does not hold: %s\n", broken);
        abort();
    }
    return 0;
}

/* Two inputs in one: the first byte says how long the first of them is. */
static inline void fuzz_split(const uint8_t *data, size_t len, struct cri_slice *ret_a,
                              struct cri_slice *ret_b)
{
    size_t rest = len == 0 ? 0 : len - 1;
    size_t first = len == 0 ? 0 : data[0];

    first = first < rest ? first : rest;
    *ret_a = (struct cri_slice){len == 0 ? data : data + 1, first};
    *ret_b = (struct cri_slice){ret_a->data + first, rest - first};
}

#endif
