/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/entropy.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
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

static char token_of_process[17];

static void make_process_token(void)
{
    struct entropy entropy;

    entropy_init(&entropy);
    (void)snprintf(token_of_process, sizeof token_of_process, "%016" PRIx64, entropy_u64(&entropy));
}

const char *process_token(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, make_process_token);
    return token_of_process;
}
