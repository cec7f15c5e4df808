/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

struct piece {
    struct piece *next;
    max_align_t data[];
};

struct config_arena {
    struct piece *pieces;
};

struct config_arena *arena_new(void)
{
    return calloc(1, sizeof(struct config_arena));
}

void arena_free(struct config_arena *arena)
{
    if (arena == NULL) {
        return;
    }
    struct piece *piece = arena->pieces;
    while (piece != NULL) {
        struct piece *next = piece->next;
        free(piece);
        piece = next;
    }
    free(arena);
}

void *arena_alloc(struct config_arena *arena, size_t size)
{
    size_t total;

    if (__builtin_add_overflow(sizeof(struct piece), size, &total)) {
        return NULL;
    }
    struct piece *piece = calloc(1, total);
    if (piece == NULL) {
        return NULL;
    }
    piece->next = arena->pieces;
    arena->pieces = piece;
    return piece->data;
}

char *arena_text(struct config_arena *arena, const char *text, size_t len)
{
    char *copy = arena_alloc(arena, len + 1);

    if (copy != NULL && len > 0) {
        memcpy(copy, text, len);
    }
    return copy;
}
