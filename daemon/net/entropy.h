/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random bytes from the system, the one source for tokens, message ids and
 * timer jitter; tests link a seeded one in its place.
 */
#ifndef CRIPROXY_ENTROPY_H
#define CRIPROXY_ENTROPY_H

#include <stddef.h>
#include <stdint.h>

/*
 * A buffer of random bytes, one a thread, so that the system is asked once in
 * some hundred requests.
 */
struct entropy {
    size_t left; /* unused bytes at the end of pool */
    uint8_t pool[4096];
};

/**
 * Starts with an empty buffer in the caller's struct; the system is asked for bytes with the first
 * value.
 */
void entropy_init(struct entropy *entropy);

/**
 * An unguessable value, never returned twice. Cannot fail: without random bytes of the system the
 * process aborts.
 */
uint64_t entropy_u64(struct entropy *entropy);

/**
 * What this process has and no other, as 16 digits, the same in all threads. Static. Aborts as
 * entropy_u64() does. In the field Via of HTTP: one that comes back is a loop (HC-17).
 */
const char *process_token(void);

#endif
