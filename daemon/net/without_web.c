/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * In place of web*.c, where CRI_WITH_HTTP is off. The configuration has no scheme with a transport
 * of HTTP then (transport_left_out()), so none of this is called but web_free().
 */
#include "net/web.h"

#include <errno.h>
#include <stdlib.h>

int web_new(struct loop *loop, const struct web_options *options, const struct web_handler *handler,
            void *context, struct web **ret_web)
{
    (void)loop;
    (void)options;
    (void)handler;
    (void)context;
    (void)ret_web;
    return -ENOSYS;
}

void web_free(struct web *web)
{
    (void)web;
}

void web_set_options(struct web *web, const struct web_options *options)
{
    (void)web;
    (void)options;
}

struct web_request *web_send(struct web *web, const struct web_ask *ask, void *user)
{
    (void)web;
    (void)ask;
    (void)user;
    return NULL;
}

void web_next(struct web *web, struct web_request *request, void *user)
{
    (void)web;
    (void)request;
    (void)user;
}

bool web_more(struct web *web, struct web_request *request, struct bytes piece, bool is_last,
              void *user)
{
    (void)web;
    (void)request;
    (void)piece;
    (void)is_last;
    (void)user;
    return false;
}

bool web_awaits_first_byte(struct web *web, struct web_request *request, uint64_t *ret_since_ms)
{
    (void)web;
    (void)request;
    (void)ret_since_ms;
    return false;
}

void web_cancel(struct web *web, struct web_request *request)
{
    (void)web;
    (void)request;
}

uint64_t web_turn(struct web *web, uint64_t now_ms)
{
    (void)web;
    (void)now_ms;
    return UINT64_MAX;
}

const struct web_counters *web_counters(const struct web *web)
{
    (void)web;
    abort(); /* there is none */
}
