/* SPDX-License-Identifier: BSD-2-Clause */
#include "conf/admin_listen.h"

#include <string.h>

#define HTTP_PORT 9683

bool admin_listen_parse(const char *text, struct admin_listen *ret_listen)
{
    static const char unix_prefix[] = "unix:", http_prefix[] = "http://";
    struct admin_listen listen = {.path = NULL};

    if (strncmp(text, unix_prefix, sizeof(unix_prefix) - 1) == 0) {
        listen.path = text + sizeof(unix_prefix) - 1;
        if (listen.path[0] != '/') {
            return false;
        }
        *ret_listen = listen;
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
    if (!address_parse(text, len, HTTP_PORT, &listen.address) ||
        address_is_multicast(&listen.address)) {
        return false;
    }
    *ret_listen = listen;
    return true;
}
