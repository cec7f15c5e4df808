/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * In place of oscore_*.c, where there is no libcoap with OSCORE. upstream.oscore is refused then
 * (fetch/keyring.c), so none of this is used.
 */
#include "net/oscore.h"
#include "net/upstream_internal.h"

#include <stdio.h>

static bool without_oscore_open(struct session *session, enum upstream_status *ret_status)
{
    (void)session;
    *ret_status = UPSTREAM_UNSUPPORTED;
    return false;
}

static void without_oscore_close(struct session *session)
{
    (void)session;
}

const struct session_kind session_kind_oscore = {
    .open = without_oscore_open,
    .close = without_oscore_close,
};

struct upstream_oscore *upstream_oscore_load(const struct oscore_keys *keys, const char *directory,
                                             char *ret_error, size_t error_capacity)
{
    (void)keys;
    (void)directory;
    (void)snprintf(ret_error, error_capacity, "%s", oscore_lack());
    return NULL;
}

struct upstream_oscore *upstream_oscore_acquire(struct upstream_oscore *oscore)
{
    return oscore;
}

void upstream_oscore_release(struct upstream_oscore *oscore)
{
    (void)oscore;
}
