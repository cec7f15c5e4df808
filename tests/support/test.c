/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* As good as any: what passes once passes again, on every machine. */
#define DEFAULT_SEED UINT64_C(20261122)

uint64_t test_seed(void)
{
    const char *text = getenv("TEST_SEED");
    uint64_t seed = DEFAULT_SEED;

    if (text != NULL && strcmp(text, "random") == 0) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        seed = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec + (uint64_t)getpid();
    } else if (text != NULL) {
        seed = strtoull(text, NULL, 0);
    }
    printf("TEST_SEED=%" PRIu64 "\n", seed);
    fflush(stdout);
    return seed;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }
    return -1;
}

size_t test_hex(const char *text, uint8_t *buffer, size_t capacity)
{
    size_t digits = 0;

    for (const char *at = text; *at != '\0'; at++) {
        if (*at == ' ' || *at == '\n') {
            continue;
        }
        int digit = hex_digit(*at);
        if (digit < 0 || digits / 2 >= capacity) {
            fail_msg("not hex, or too long, at \"%s\"", at);
            return 0;
        }
        if (digits % 2 == 0) {
            buffer[digits / 2] = (uint8_t)(digit * 16);
        } else {
            buffer[digits / 2] = (uint8_t)(buffer[digits / 2] | digit);
        }
        digits++;
    }
    if (digits % 2 != 0) {
        fail_msg("odd number of hex digits: \"%s\"", text);
    }
    return digits / 2;
}
