/* SPDX-License-Identifier: BSD-2-Clause */
/* Between cached.c, which looks for answers, and cached_answer.c, which keeps them. */
#ifndef CRIPROXY_CACHED_INTERNAL_H
#define CRIPROXY_CACHED_INTERNAL_H

#include "fetch/cached.h"

/**
 * Whether an unsafe request has changed the target of @p entry, so that it is not valid any more
 * until it is validated. Those through this worker have marked the entry itself, and never hit
 * another target's.
 */
bool cached_is_changed(const struct fetch_side *side, const struct cache_entry *entry);

#endif
