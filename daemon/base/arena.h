/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of one configuration: taken piece by piece, given back at once. */
#ifndef CRIPROXY_CONF_ARENA_H
#define CRIPROXY_CONF_ARENA_H

#include <stddef.h>

struct config_arena;

/** NULL where there is no memory. */
struct config_arena *arena_new(void);

/** Frees the arena and everything allocated in it; takes NULL. */
void arena_free(struct config_arena *arena);

/** Zeroed, aligned for any type; NULL where there is no memory. */
void *arena_alloc(struct config_arena *arena, size_t size);

/** NUL-terminated copy of @p len bytes. */
char *arena_text(struct config_arena *arena, const char *text, size_t len);

#endif
