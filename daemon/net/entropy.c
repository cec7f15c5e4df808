/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/entropy.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

void entropy_init(struct entropy *entropy)
{
    entropy->left = 0;
}

static void entropy_refill(struct entropy *entropy)
{
    size_t filled = 0;

    while (filled < sizeof entropy->pool) {
        ssize_t got = getrandom(entropy->pool + filled, sizeof entropy->pool - filled, 0);
        if (got > 0) {
            filled += (size_t)got;
        } else if (errno != EINTR) {
            abort(); /* no proxy is better than one with tokens that can be guessed */
        }
    }
    entropy->left = sizeof entropy->pool;
}

uint64_t entropy_u64(struct entropy *entropy)
{
    uint64_t value;

    if (entropy->left < sizeof value) {
        entropy_refill(entropy);
    }
    uint8_t *at = entropy->pool + (sizeof entropy->pool - entropy->left);
    memcpy(&value, at, sizeof value);
    memset(at, 0, sizeof value); /* no copy of a value is kept */
    entropy->left -= sizeof value;
    return value;
}

uint64_t entropy_of_process(void)
{
    static _Atomic uint64_t of_process;
    uint64_t value = atomic_load(&of_process);
    struct entropy entropy;

    if (value == 0) {
        uint64_t none = 0;
        entropy_init(&entropy);
        value = entropy_u64(&entropy) | 1u;
        if (!atomic_compare_exchange_strong(&of_process, &none, value)) {
            value = none; /* another thread was first */
        }
    }
    return value;
}
