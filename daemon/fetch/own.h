/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fetches whose waiter is no client's request: the proxy's own questions, to observe a resource
 * or to move a body in blocks; and those that go on without the request they were made for.
 */
#ifndef CRIPROXY_OWN_H
#define CRIPROXY_OWN_H

#include "fetch/make.h"

/**
 * Fetch something for a part of the proxy.
 *
 * @param recipe    its asker says on whose behalf: path, scheme, identity, standing and rule, as
 *                  policy asks for them. Without an address it is for no client, and gets what
 *                  policy gives to strangers. Its hop and route do not count: they are found anew.
 * @param waiter    told what comes of it.
 * @param ret_fetch set before anything is done with it; the waiter may be called, and the fetch
 *                  be over, before this returns.
 * @return REASON_none, and the waiter is called for the end unless fetch_leave() is; or why
 *         it could not be begun, and the waiter is not called.
 */
enum reason fetch_start_own(struct fetch_side *side, const struct fetch_recipe *recipe,
                            struct waiter waiter, struct fetch **ret_fetch);

/**
 * The session over which @p fetch, in state observing, would get further answers has ended.
 *
 * @return whether it stays all the same; if not, it is to be ended.
 */
bool fetch_lost(struct fetch_side *side, struct fetch *fetch);

/**
 * Its waiter has gone: the answer is for the cache and for equal fetches that wait. The parts
 * of the request that it borrowed (asker, trail) are copied; the identity is acquired.
 */
void fetch_disown(struct fetch *fetch);

/** Whether it was disowned. */
bool fetch_is_disowned(const struct fetch *fetch);

#endif
