/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuzz_lib.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    return fuzz_result(property_options((struct cri_slice){data, len}));
}
