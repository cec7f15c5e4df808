/* SPDX-License-Identifier: BSD-2-Clause */
/* Real sockets as a stage for scenarios: links to the proxy, origin servers on free UDP ports. */
#ifndef COAPCHECK_SOCKET_STAGE_H
#define COAPCHECK_SOCKET_STAGE_H

#include "link.h"

struct socket_end;

struct socket_stage {
    const struct proxy *proxy;
    struct sockaddr_storage local;  /* where the proxy can reach us; the port does not count */
    unsigned long long end_ms;      /* of the whole run: nothing waits longer */
    unsigned long long patience_ms; /* for a message */
    struct pool pool;
    struct socket_end *ends;
};

/**
 * Find out by which address of ours the proxy is reached. @return 0 or -errno.
 */
int socket_stage_find_local(const struct proxy *proxy, struct sockaddr_storage *ret_local);

/** Fills @p ret_stage, for which @p sockets stays in place; ends with socket_stage_stop(). */
void socket_stage_init(struct socket_stage *sockets, enum spec_form form, struct stage *ret_stage);

/** Closes all sockets. */
void socket_stage_stop(struct socket_stage *sockets);

#endif
