/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/slot_book.h"

#include <errno.h>
#include <stdlib.h>

int slot_book_open(struct slot_book *book, uint32_t capacity, uint32_t ipv6_bits, uint64_t seed)
{
    struct slot_book made = {.capacity = capacity};
    made.holdings = calloc(capacity, sizeof(*made.holdings));
    if (made.holdings == NULL ||
        account_book_init(&made.accounts, capacity, capacity, ipv6_bits, seed) != 0) {
        free(made.holdings);
        return -ENOMEM;
    }
    *book = made;
    return 0;
}

void slot_book_close(struct slot_book *book)
{
    account_book_clear(&book->accounts);
    free(book->holdings);
    *book = (struct slot_book){0};
}

static int compare_ages(const void *a, const void *b)
{
    const struct slot_age *first = a, *second = b;
    if (first->seen_s != second->seen_s) {
        return first->seen_s < second->seen_s ? -1 : 1;
    }
    return first->slot < second->slot ? -1 : 1;
}

void slot_ages_sort(struct slot_age *ages, size_t count)
{
    qsort(ages, count, sizeof(*ages), compare_ages);
}

void slot_book_charge(struct slot_book *book, uint32_t slot, const struct address *remote)
{
    struct holding *holding = &book->holdings[slot];
    const struct address source = account_source(remote, book->accounts.ipv6_bits);
    if (holding->account != NULL && address_equal(&holding->account->source, &source)) {
        return;
    }
    slot_book_discharge(book, slot);
    account_charge(&book->accounts, holding, remote, 1);
    book->count++;
}

void slot_book_discharge(struct slot_book *book, uint32_t slot)
{
    book->count -= book->holdings[slot].account != NULL;
    account_discharge(&book->accounts, &book->holdings[slot]);
}

struct holding *slot_book_yield(const struct slot_book *book, const struct address *newcomer)
{
    bool is_owed;
    struct holding *holding = account_yield(&book->accounts, newcomer, 1, &is_owed);
    return is_owed ? holding : NULL;
}
