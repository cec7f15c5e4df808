/* SPDX-License-Identifier: BSD-2-Clause */
/* The fake host's addresses: loopback, and the one that tests listen on. */
#include "net/interfaces.h"

#include <string.h>

size_t interfaces_list(struct address *addresses, size_t max)
{
    static const char *const texts[] = {"127.0.0.1:0", "[::1]:0", "192.0.2.9:0"};
    size_t count = 0;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]) && count < max; i++) {
        count += address_parse(texts[i], strlen(texts[i]), 0, &addresses[count]);
    }
    return count;
}
