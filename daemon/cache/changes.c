/* SPDX-License-Identifier: BSD-2-Clause */
#include "cache/changes.h"

#include <errno.h>
#include <stdlib.h>

int changes_new(uint64_t seed, struct changes **ret_changes)
{
    struct changes *changes = calloc(1, sizeof(*changes));
    if (changes == NULL) {
        return -ENOMEM;
    }
    changes->seed = seed;
    *ret_changes = changes;
    return 0;
}
