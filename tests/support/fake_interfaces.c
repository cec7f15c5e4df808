/* SPDX-License-Identifier: BSD-2-Clause */
/* The fake host's addresses (loopback, and the one that tests listen on) and interfaces. */
#include "net/interfaces.h"

#include "support/fake_net.h"

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

/* The one that comes and goes; index 0: it is not there. */
static struct interface_name changing;

void fake_net_interface(const char *name, uint32_t index)
{
    changing = (struct interface_name){.index = index};
    snprintf(changing.name, sizeof(changing.name), "%s", name);
}

/* lo, wpan0 and eth0, and the one that changes, by name or number. */
bool interfaces_find(const char *zone, struct interface_name *ret_interface)
{
    const struct interface_name all[] = {{1, "lo"}, {7, "wpan0"}, {12, "eth0"}, changing};
    char number[11];
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        snprintf(number, sizeof(number), "%u", all[i].index);
        bool is_called = strcmp(all[i].name, zone) == 0 || strcmp(number, zone) == 0;
        if (all[i].index != 0 && is_called) {
            *ret_interface = all[i];
            return true;
        }
    }
    return false;
}
