/* SPDX-License-Identifier: BSD-2-Clause */
#include "origin/switchboard.h"

#include "origin/flights.h"
#include "origin/watches.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- the table ---------------------------------------------------------------- */

int switchboard_new(unsigned workers, uint64_t seed, struct switchboard **ret_board)
{
    struct switchboard *board = calloc(1, sizeof(*board) + workers * sizeof(board->each[0]));
    if (board == NULL || hash_map_init(&board->holders, SWITCHBOARD_NAMES, seed) != 0) {
        free(board);
        return -ENOMEM;
    }
    if (workers > 1 &&
        (flights_new(seed, &board->flights) != 0 || watches_new(seed, &board->watches) != 0)) {
        flights_free(board->flights);
        hash_map_clear(&board->holders);
        free(board);
        return -ENOMEM;
    }
    pthread_mutex_init(&board->lock, NULL); /* a default mutex: always succeeds on Linux */
    board->seed = seed;
    board->workers = workers;
    *ret_board = board;
    return 0;
}

void switchboard_free(struct switchboard *board)
{
    if (board != NULL) {
        hash_map_clear(&board->holders);
        flights_free(board->flights);
        watches_free(board->watches);
        pthread_mutex_destroy(&board->lock);
        free(board);
    }
}

void switchboard_join(struct switchboard *board, unsigned index, struct origin_side *side,
                      struct loop *loop)
{
    board->each[index].side = side;
    board->each[index].loop = loop;
}

/* Under the lock. */
static struct holder *find_holder(const struct switchboard *board, struct bytes name, uint64_t key)
{
    struct hash_node *node = hash_map_find(&board->holders, key);
    for (; node != NULL; node = hash_map_find_next(node)) {
        struct holder *holder = HASH_ENTRY(node, struct holder, node);
        if (holder->name_len == name.len && memcmp(holder->name, name.data, name.len) == 0) {
            return holder;
        }
    }
    return NULL;
}

struct holder *holder_acquire(struct switchboard *board, struct bytes name)
{
    uint64_t key = hash_bytes(name.data, name.len, board->seed);
    pthread_mutex_lock(&board->lock);
    struct holder *holder = find_holder(board, name, key);
    if (holder == NULL && (holder = calloc(1, sizeof(*holder) + name.len + 1)) != NULL) {
        holder->board = board;
        holder->name_len = name.len;
        memcpy(holder->name, name.data, name.len);
        hash_map_add(&board->holders, &holder->node, key);
    }
    if (holder != NULL) {
        holder->references++;
    }
    pthread_mutex_unlock(&board->lock);
    return holder;
}

struct holder *holder_hold(struct holder *holder)
{
    pthread_mutex_lock(&holder->board->lock);
    holder->references++;
    pthread_mutex_unlock(&holder->board->lock);
    return holder;
}

void holder_release(struct holder *holder)
{
    if (holder == NULL) {
        return;
    }
    struct switchboard *board = holder->board;
    pthread_mutex_lock(&board->lock);
    bool is_last = --holder->references == 0;
    if (is_last) {
        hash_map_remove(&holder->node);
    }
    pthread_mutex_unlock(&board->lock);
    if (is_last) {
        free(holder);
    }
}

/* --- one word of it ------------------------------------------------------------- */

/* The line in the upper half; the transport; the worker + 1, or 0: there is no session. */
static uint64_t holder_word_of(uint32_t line, enum transport transport, unsigned worker_1)
{
    return (uint64_t)line << 32 | (uint64_t)transport << 16 | worker_1;
}

static struct line_holding holding_of(uint64_t word)
{
    unsigned worker_1 = (unsigned)(word & 0xffffu);
    return (struct line_holding){.is_held = worker_1 > 0,
                                 .worker = worker_1 - 1,
                                 .transport = (enum transport)(word >> 16 & 0xffffu),
                                 .line = (uint32_t)(word >> 32)};
}

struct line_holding holder_read(const struct holder *holder)
{
    return holding_of(atomic_load(&holder->word));
}

uint32_t holder_claim(struct holder *holder, unsigned worker, enum transport transport)
{
    uint64_t before = atomic_load(&holder->word), after;
    do {
        after = holder_word_of(holding_of(before).line + 1, transport, worker + 1);
    } while (!atomic_compare_exchange_weak(&holder->word, &before, after));
    return holding_of(after).line;
}

uint32_t holder_leave(struct holder *holder, unsigned worker, uint32_t line)
{
    uint64_t before = atomic_load(&holder->word);
    struct line_holding holding = holding_of(before);
    while (holding.is_held && holding.worker == worker && holding.line == line) {
        if (atomic_compare_exchange_weak(&holder->word, &before,
                                         holder_word_of(line + 1, TRANSPORT_NONE, 0))) {
            return line + 1;
        }
        holding = holding_of(before);
    }
    return holding.line;
}
