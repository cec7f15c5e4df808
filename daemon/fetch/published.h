/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Paths of the proxy's own that stand for targets elsewhere: the sections [publish NAME] (a reverse
 * proxy, RFC 7252 section 5.7.3). A request for such a path has its target replaced before anything
 * else is decided about it. From there on it is as if the client had named that target: access
 * rules, cache, queue, route and limits are the target's.
 *
 * A target is replaced once. Where the section itself leads to the proxy, the path that comes out
 * is looked up among the proxy's own few resources and nowhere else.
 */
#ifndef CRIPROXY_PUBLISHED_H
#define CRIPROXY_PUBLISHED_H

#include "coap/target.h"
#include "conf/publish.h"
#include "context/target.h"

/** The section with the longest path that @p path begins with, by whole segments; or NULL. */
const struct config_publish *published_find(const struct config *config,
                                            const struct segments *path);

/**
 * Replace @p target, which is for the proxy itself, by that of @p published.
 *
 * @param method of the request, a code.
 * @param memory that of target_find() for @p target; the new path and query are behind the old.
 * @return REASON_none; REASON_local_method; or REASON_request_too_large, where they do not fit.
 *         @p target is untouched then.
 */
enum reason published_take(const struct config_publish *published, uint8_t method,
                           struct target_memory memory, struct target *target);

/**
 * The options of a 2.01 that @p target has answered with, for a client that does not know that
 * target: Location-Path becomes a path of the proxy's own (RFC 7252 section 5.10.7). Without a
 * section for it, Location-Path and Location-Query are left out. Location-Query alone stays: it is
 * relative to the path that was asked for.
 *
 * @param options encoded.
 * @param buffer  of @p capacity bytes, for the result.
 * @return empty where they do not fit.
 */
struct bytes published_location(const struct config *config, const struct target *target,
                                struct bytes options, uint8_t *buffer, size_t capacity);

#endif
