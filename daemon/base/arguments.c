/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/arguments.h"

#include <string.h>

bool arguments_fit(const char *arguments, size_t count)
{
    size_t most = 0, least = 0;

    for (const char *at = arguments; *at != '\0'; at += strspn(at, " ")) {
        most++;
        least += *at != '[';
        at += strcspn(at, " ");
    }
    return count >= least && count <= most;
}
