/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that is freed all at once: what is read from a file, or what a scenario has said. */
#ifndef SCENARIO_POOL_H
#define SCENARIO_POOL_H

#include <stddef.h>

struct pool_block;

struct pool {
    struct pool_block *last; /* zeroed: empty */
};

/** @p len zeroed bytes, aligned for any object; ends the program where there is no memory. */
void *pool_alloc(struct pool *pool, size_t len);

/** A NUL-terminated copy of @p len bytes of @p text. */
char *pool_text(struct pool *pool, const char *text, size_t len);

/** A formatted text. */
char *pool_format(struct pool *pool, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Frees everything; the pool is empty and can be used again. */
void pool_clear(struct pool *pool);

#endif
