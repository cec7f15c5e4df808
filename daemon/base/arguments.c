/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/arguments.h"

#include <stdint.h>
#include <string.h>

bool arguments_fit(const char *arguments, size_t count)
{
    size_t most = 0, least = 0;

    for (const char *at = arguments; *at != '\0'; at += strspn(at, " ")) {
        size_t len = strcspn(at, " ");
        bool repeats = len > 4 && memcmp(at + len - 4, "...]", 4) == 0;
        most = repeats ? SIZE_MAX : most + 1;
        least += *at != '[';
        at += len;
    }
    return count >= least && count <= most;
}
