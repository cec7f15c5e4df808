/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/soak.h"

#include <stdio.h>
#include <string.h>

struct soak soak;

uint32_t soak_below(uint32_t limit)
{
    return (uint32_t)test_random_below(&soak.random, limit);
}

/* One bit changed gives another value, so a damaged number is no other number. */
uint32_t soak_check_of(uint32_t ask)
{
    uint64_t state = ask;
    return (uint32_t)test_random(&state);
}

void soak_query(uint32_t ask, char ret_query[SOAK_QUERY_LEN + 1])
{
    snprintf(ret_query, SOAK_QUERY_LEN + 1, "client=%02u-%06u", soak.asks[ask].client % 100,
             (unsigned)ask % 1000000);
}

struct bytes soak_text_bytes(const char *text)
{
    return (struct bytes){(const uint8_t *)text, strlen(text)};
}

bool soak_is_excused(bool is_good)
{
    assert_true(is_good || soak.is_corrupting);
    return !is_good;
}
