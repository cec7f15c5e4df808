/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A book (base/account.h) of a table of slots that is kept only from when the table is full until
 * it has had room for a while. While it is closed no source is charged, so that an entry that finds
 * room pays nothing; opening it costs a walk through the table, which its owner does.
 */
#ifndef CRIPROXY_SLOT_BOOK_H
#define CRIPROXY_SLOT_BOOK_H

#include "base/account.h"

struct slot_book {
    struct account_book accounts;
    struct holding *holdings; /* one for each slot; NULL: the book is closed */
    uint32_t capacity, count; /* slots; those that are charged */
};

/* A slot to be charged when a book is opened. */
struct slot_age {
    uint32_t slot;
    uint32_t seen_s; /* when it was used last */
};

/**
 * Opens a closed book, in which nothing is charged yet. Parameters as of account_book_init().
 *
 * @return 0 or -ENOMEM; it stays closed then
 */
int slot_book_open(struct slot_book *book, uint32_t capacity, uint32_t ipv6_bits, uint64_t seed);

/** Frees it and forgets all that was charged; takes a closed book, and a zeroed one. */
void slot_book_close(struct slot_book *book);

static inline bool slot_book_is_open(const struct slot_book *book)
{
    return book->holdings != NULL;
}

/** Puts those that were used longest ago first. Cannot fail. */
void slot_ages_sort(struct slot_age *ages, size_t count);

/**
 * @p slot is held by the source of @p remote from now on: charged as its newest. No effect where it
 * is that source's already. The book is open. Cannot fail.
 */
void slot_book_charge(struct slot_book *book, uint32_t slot, const struct address *remote);

/** No source holds @p slot any more. The book is open. Cannot fail. */
void slot_book_discharge(struct slot_book *book, uint32_t slot);

/** The slot that @p holding, of this book, is for. */
static inline uint32_t slot_of_holding(const struct slot_book *book, const struct holding *holding)
{
    return (uint32_t)(holding - book->holdings);
}

/**
 * The oldest holding of the source that holds most, where the source of @p newcomer would hold less
 * even with one more. Borrowed; NULL: all is fairly divided. The book is open.
 */
struct holding *slot_book_yield(const struct slot_book *book, const struct address *newcomer);

#endif
