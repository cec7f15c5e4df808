/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuzz_lib.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct cri_slice base;
    struct cri_slice reference;

    fuzz_split(data, len, &base, &reference);
    return fuzz_result(property_rfc3986(base, reference));
}
