/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * HTTP redirects (CH-5): the answer to a fetch leads elsewhere, and the fetch goes there.
 *
 *     sent --> redirect_follow() --> resolving or queued --> sent --> the answer
 *
 * Where it leads to is judged as if the client had named it: the rules for the target and for each
 * of its addresses, the routes, the proxy's own addresses. Never followed are a redirect from https
 * to http, one to a parent proxy or to this proxy itself, and more than http.redirects of them.
 * fetch->target stays what the client asked for; redirect_target() is where it is sent. The answer
 * is for the client that asked: it is not kept, shared or observed, because another client may not
 * have what it leads to.
 */
#ifndef CRIPROXY_REDIRECT_H
#define CRIPROXY_REDIRECT_H

#include "fetch/fetch.h"

/* Of a fetch that has been led elsewhere. */
struct redirect {
    struct target target; /* where it is sent now; its segments are in bytes */
    bool has_left;        /* the origin (RFC 6454) that the client named: no credentials any more */
    uint8_t count;
    struct next_hop first_hop; /* as it was sent first, */
    uint8_t *first_datagram;   /* in the fetch's memory */
    uint32_t first_len;
    uint8_t bytes[];
};

/**
 * An HTTP server has answered @p fetch with a redirect to @p cri, a full CRI. It is sent there, or
 * fails with REASON_redirect_refused; either may end it. Nothing of it may be out.
 */
void redirect_follow(struct fetch_side *side, struct fetch *fetch, struct bytes cri);

/** The fetch as it was before it was redirected, to be sent anew. Nothing of it may be out. Takes
 * one that was not redirected. Cannot fail. */
void redirect_forget(struct fetch *fetch);

/** Where it is sent: the last redirect's target, or its own. */
static inline const struct target *redirect_target(const struct fetch *fetch)
{
    return fetch->redirect != NULL ? &fetch->redirect->target : &fetch->target;
}

#endif
