/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What one process leaves for the next: sessions with their keys, in a file that is memory
 * (memfd_create(2)), or in one of a file system that is.
 *
 * Two processes that go on with one key and one sequence number would use a nonce twice, and the
 * keys would be as good as published (RFC 5116 section 5.1.1). So a hand-over file is used once at
 * most:
 *
 *  - The process that writes one has stopped sealing before, and seals nothing afterwards unless
 *    it has destroyed it with handover_file_destroy().
 *  - The process that takes one gets a copy only after the file was overwritten, and starts
 *    sealing later. handover_file_take() destroys also what it refuses, and of two processes that
 *    have opened the file one gets it: it is locked (flock(2)) from before it is read until it
 *    is closed. One descriptor that two processes have inherited is no case of this.
 *  - After a crash there is none, or one whose writer seals no more.
 *
 * A hand-over file is refused that is damaged (its MAC), of another version of the format, of
 * another user or start of the system, older than HANDOVER_FILE_AGE_MS, or empty because it was
 * taken before. The MAC's key can be had by every process of this user on this system: it tells
 * damage and mistakes, while what keeps others from writing one is where it is: in a descriptor
 * that only this process and the service manager have, or in a file that only this user may open.
 */
#ifndef CRIPROXY_HANDOVER_FILE_H
#define CRIPROXY_HANDOVER_FILE_H

#include "base/pack.h"

enum handover_refusal {
#define HANDOVER_REFUSAL(name, text, help) HANDOVER_REFUSAL_##name,
#include "net/handover_refusals.def"
#undef HANDOVER_REFUSAL
    HANDOVER_REFUSAL_COUNT,
};

/* A process that takes longer to follow gets no sessions: their clients have given up. */
#define HANDOVER_FILE_AGE_MS UINT64_C(300000)

/* The same sessions packed in another way have another number. */
#define HANDOVER_FILE_VERSION 5u

/** An empty file in memory, close-on-exec. @return the descriptor or -errno */
int handover_file_open_memory(void);

/**
 * Writes @p body with a head and a MAC to the empty file @p fd.
 *
 * @return 0 or -errno; then nothing is left in it
 */
int handover_file_write(int fd, const struct pack *body);

/** Overwrites and empties the file @p fd, which stays open. @return 0 or -errno */
int handover_file_destroy(int fd);

/**
 * Reads, checks and destroys what is in @p fd, which stays open, and locked. Where another process
 * has locked it, nothing is read or destroyed.
 *
 * @param ret_whole the caller's, zeroed before: all that was in the file; pack_clear() wipes it
 * @param ret_body  what was written, in @p ret_whole, whose it is
 * @param ret_why set where it is refused
 * @return whether it may be used
 */
bool handover_file_take(int fd, struct pack *ret_whole, struct unpack *ret_body,
                        enum handover_refusal *ret_why);

#endif
