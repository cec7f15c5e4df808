/* SPDX-License-Identifier: BSD-2-Clause */
#include "conf/place.h"

#include <string.h>

#define HTTP_PORT 9683

bool config_place_parse(const char *text, struct config_place *ret_place)
{
    static const char unix_prefix[] = "unix:", http_prefix[] = "http://";
    struct config_place place = {.path = NULL};

    if (strncmp(text, unix_prefix, sizeof(unix_prefix) - 1) == 0) {
        place.path = text + sizeof(unix_prefix) - 1;
        if (place.path[0] != '/') {
            return false;
        }
        *ret_place = place;
        return true;
    }
    if (strncmp(text, http_prefix, sizeof(http_prefix) - 1) != 0) {
        return false;
    }
    text += sizeof(http_prefix) - 1;
    size_t len = strlen(text);
    if (len > 0 && text[len - 1] == '/') {
        len--;
    }
    if (!address_parse(text, len, HTTP_PORT, &place.address) ||
        address_is_multicast(&place.address)) {
        return false;
    }
    *ret_place = place;
    return true;
}
