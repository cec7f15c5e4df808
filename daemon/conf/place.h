/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the HTTP listener is: the value of admin.listen. */
#ifndef CRIPROXY_CONF_PLACE_H
#define CRIPROXY_CONF_PLACE_H

#include "base/address.h"

#include <stdbool.h>

struct config_place {
    const char *path;       /* of a Unix socket: in the text that was parsed; or NULL, and */
    struct address address; /* of TCP */
};

/** "http://ADDRESS:PORT" or "unix:/PATH". @return false where it is neither */
bool config_place_parse(const char *text, struct config_place *ret_place);

#endif
