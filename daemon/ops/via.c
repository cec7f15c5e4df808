/* SPDX-License-Identifier: BSD-2-Clause */
#include "ops/via.h"

#include "net/entropy.h"

#include <inttypes.h>
#include <stdio.h>

const char *via_token(void)
{
    static _Thread_local char token[17];
    if (token[0] == '\0') {
        (void)snprintf(token, sizeof(token), "%016" PRIx64, entropy_of_process());
    }
    return token;
}
