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

/** Empty: the system is asked when the first value is. */
void entropy_init(struct entropy *entropy);

/** Unguessable; each value is handed out once. */
uint64_t entropy_u64(struct entropy *entropy);

#endif
