/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sender sequence numbers of an OSCORE security context, which must never come twice: they are
 * reserved on disk before they are used (RFC 8613 appendix B.1.1). A process that crashes goes on
 * behind all that it had reserved, so some are lost and none is used again.
 *
 * In the directory there are two files for each context, named by a digest of what makes its
 * nonces: NAME holds the number that is free, and is replaced as a whole; NAME.lock is locked while
 * the context is in use, so that no two processes, and no two sections, use it at a time. NAME is
 * made first: where there is only NAME.lock the numbers are lost, and the context is refused. Where
 * there is neither, nothing tells a first use from an emptied directory (oscore_state_is_new()).
 */
#ifndef CRIPROXY_OSCORE_STATE_H
#define CRIPROXY_OSCORE_STATE_H

#include <stdbool.h>
#include <stdint.h>

/* Behind the last sequence number (RFC 8613 section 7.2.1). */
#define OSCORE_SEQUENCE_END (UINT64_C(1) << 40)

#define OSCORE_STATE_NAME_LEN 32u

struct oscore_state;

/**
 * Locks the context and reads what was reserved; blocks for the disk.
 *
 * @param directory made with mode 0700 where it is missing, but not its parents. One that is a
 *                  symbolic link, of another user than root and ours, or that others may write to,
 *                  is refused.
 * @param name      OSCORE_STATE_NAME_LEN hexadecimal digits.
 * @param ret_why   static text on error.
 * @return NULL on error. Free with oscore_state_close().
 */
struct oscore_state *oscore_state_open(const char *directory, const char *name,
                                       const char **ret_why);

/** Unlocks and frees it; what is reserved stays so. Takes NULL. */
void oscore_state_close(struct oscore_state *state);

/** The numbers below it are, or were once, reserved; those that this process has not reserved
 * itself must not be used. Cannot fail. */
uint64_t oscore_state_reserved(const struct oscore_state *state);

/** Whether the context was in this directory for the first time, so that its numbers begin at 0.
 * Cannot fail. */
bool oscore_state_is_new(const struct oscore_state *state);

/**
 * Reserves the numbers below @p end; returns when that is on disk. Blocks.
 *
 * @param ret_why static text on error: then nothing has changed.
 */
bool oscore_state_reserve(struct oscore_state *state, uint64_t end, const char **ret_why);

#endif
