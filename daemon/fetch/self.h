/* SPDX-License-Identifier: BSD-2-Clause */
/* The proxy's own few resources (RFC 7252 section 5.7.2). */
#ifndef CRIPROXY_SELF_H
#define CRIPROXY_SELF_H

#include "fetch/fetch.h"

struct segments;

/** Whether @p path is /.well-known/core, which is never a path of another resource. @p path is
 * borrowed for the call. */
bool self_is_core(const struct segments *path);

/** Whether @p path is /.well-known/rd, where devices register over UDP (RFC 9176 section 5.1). */
bool self_is_directory(const struct segments *path);

/** REASON_local where the proxy itself has an answer to @p method at @p path, or why not. */
enum reason self_reason(uint8_t method, const struct segments *path);

/**
 * The answer to @p method for the resource at @p path (TGT-14).
 *
 * @param ret_reply set for REASON_local only; static.
 * @return as self_reason()
 */
enum reason self_answer_for(uint8_t method, const struct segments *path, struct reply *ret_reply);

/** Answer a fetch whose target's name turned out to be the proxy's own (TGT-4). */
void self_answer(struct fetch_side *side, struct fetch *fetch);

#endif
