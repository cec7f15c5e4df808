/* SPDX-License-Identifier: BSD-2-Clause */
/* The fake host's addresses (loopback, and the one that tests listen on) and interfaces. */
#include "net/interfaces.h"

#include <stdio.h>
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

/* lo, wpan0 and eth0, by name or number. */
bool interfaces_find(const char *zone, struct interface_name *ret_interface)
{
    static const struct interface_name all[] = {{1, "lo"}, {7, "wpan0"}, {12, "eth0"}};
    char number[11];
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        snprintf(number, sizeof(number), "%u", all[i].index);
        if (strcmp(all[i].name, zone) == 0 || strcmp(number, zone) == 0) {
            *ret_interface = all[i];
            return true;
        }
    }
    return false;
}
