/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The commands by which a store asks for an entry (net/shared_store.h), as they are sent: what they
 * say besides two names and a few random bytes is the same as long as a connection lasts, so that
 * it is formatted once. Formatting it each time cost as much as a hit of the first level.
 */
#ifndef CRIPROXY_SHARED_LOOK_H
#define CRIPROXY_SHARED_LOOK_H

#include "net/shared_store.h"

#include <stdbool.h>
#include <stddef.h>

/* Of a key with its NUL, and of what stands in all keys before kind, colon and name. */
#define LOOK_KEY_MAX 192u
#define LOOK_BEGIN_MAX (LOOK_KEY_MAX - 2 * SHARED_NAME_LEN - sizeof(LOOK_VALUE_KIND) - 1)

/* Of the keys of answers: another number when what stands there, or its name, is another one, so
 * that releases read none of each other's. Generations have no number: all releases share them. */
#define LOOK_VALUE_KIND "v2"

/* Random bytes of a generation that does not exist yet. */
#define LOOK_FRESH_LEN (SHARED_GENERATION_LEN / 2)

struct look_text {
    char text[5 * LOOK_KEY_MAX + 320u];
    size_t len, set_len;  /* SET comes first */
    size_t made, fresh;   /* where in SET the target's name stands, and the random bytes, */
    size_t left;          /* in PTTL the entry's name, */
    size_t value, target; /* and in MGET the entry's and the target's */
};

/** Two digits for each of @p len bytes, without an end. @return where they end */
char *look_put_digits(char *at, const uint8_t *bytes, unsigned len);

/**
 * @param begin of all keys: PREFIX:RUN: of at most LOOK_BEGIN_MAX bytes; borrowed for the call
 * @return false without memory
 */
bool look_prepare(struct look_text *look, const char *begin, size_t begin_len);

/**
 * A text that is prepared with these names.
 *
 * @param fresh LOOK_FRESH_LEN random bytes for a generation that the server does not have; NULL: it
 *              makes none
 * @return what is to be sent; borrows from @p look until the next call
 */
struct bytes look_write(struct look_text *look, const uint8_t entry[SHARED_NAME_LEN],
                        const uint8_t target[SHARED_TARGET_LEN], const uint8_t *fresh);

#endif
