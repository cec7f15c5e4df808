/* SPDX-License-Identifier: BSD-2-Clause */
/* The value of admin.listen: where metrics and health are served (server/admin_http.c). */
#ifndef CRIPROXY_ADMIN_LISTEN_H
#define CRIPROXY_ADMIN_LISTEN_H

#include "base/address.h"

#include <stdbool.h>

struct admin_listen {
    const char *path;       /* of a Unix socket; NULL: it is an address */
    struct address address; /* of TCP */
};

/**
 * "http://ADDRESS:PORT" or "unix:/PATH".
 *
 * @param ret_listen its path borrows from @p text.
 * @return false where @p text is neither
 */
bool admin_listen_parse(const char *text, struct admin_listen *ret_listen);

#endif
