/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * In place of upstream_coap*.c, where CRI_WITH_LIBCOAP is off. upstream.engine = libcoap is refused
 * then (fetch/keyring.c), so no session of this kind is opened.
 */
#include "net/upstream_internal.h"

static bool left_out_open(struct session *session, enum upstream_status *ret_status)
{
    (void)session;
    *ret_status = UPSTREAM_UNSUPPORTED;
    return false;
}

static void left_out_close(struct session *session)
{
    (void)session;
}

const struct session_kind session_kind_coap = {
    .open = left_out_open,
    .close = left_out_close,
};

bool upstream_coap_is_there(void)
{
    return false;
}

const char *upstream_version(void)
{
    return "none";
}
