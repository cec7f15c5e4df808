/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/account.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int account_book_init(struct account_book *book, uint32_t holdings_max, uint64_t amount_max,
                      uint32_t ipv6_bits, uint64_t seed)
{
    struct account_book made = {
        .capacity = holdings_max,
        .ipv6_bits = ipv6_bits,
    };
    while (amount_max >> made.shift >= ACCOUNT_RANKS_MAX) {
        made.shift++;
    }
    made.rank_count = (uint32_t)(amount_max >> made.shift) + 1;
    made.slots = calloc(holdings_max, sizeof(*made.slots));
    made.ranks = calloc(made.rank_count, sizeof(struct account *));
    if (made.slots == NULL || made.ranks == NULL ||
        hash_map_init_of_hashes(&made.map, holdings_max, seed) != 0) {
        account_book_clear(&made);
        return -ENOMEM;
    }
    *book = made;
    return 0;
}

void account_book_clear(struct account_book *book)
{
    hash_map_clear(&book->map);
    free(book->slots);
    free((void *)book->ranks);
    *book = (struct account_book){0};
}

struct address account_source(const struct address *remote, uint32_t ipv6_bits)
{
    struct address source;
    if (remote->family == ADDRESS_IPV4) {
        address_set_ip(&source, remote->ip, 4, 0);
        return source;
    }
    if (address_is_ipv4_mapped(remote)) {
        address_set_ip(&source, remote->ip + 12, 4, 0);
        return source;
    }
    source = (struct address){.family = remote->family};
    if (remote->family == ADDRESS_IPV6) {
        uint32_t whole = ipv6_bits / 8, rest = ipv6_bits % 8;
        memcpy(source.ip, remote->ip, whole);
        if (rest > 0) {
            source.ip[whole] = (uint8_t)(remote->ip[whole] & 0xff00u >> rest);
        }
    } else {
        memcpy(source.ip, remote->ip, address_ip_len(remote));
    }
    return source;
}

/* --- ranks -------------------------------------------------------------- */

/* Amounts may round up to a little more than all of the table: the last rank has those, too. */
static uint32_t rank_of(const struct account_book *book, const struct account *account)
{
    uint64_t rank = account->amount >> book->shift;
    return rank < book->rank_count ? (uint32_t)rank : book->rank_count - 1;
}

static void rank_enter(struct account_book *book, struct account *account)
{
    uint32_t rank = rank_of(book, account);
    struct account *first = book->ranks[rank];
    account->next = NULL;
    if (first == NULL) {
        account->previous = account;
        book->ranks[rank] = account;
    } else {
        account->previous = first->previous;
        first->previous->next = account;
        first->previous = account;
    }
    if (rank > book->highest) {
        book->highest = rank;
    }
}

static void rank_leave(struct account_book *book, struct account *account)
{
    struct account **first = &book->ranks[rank_of(book, account)];
    struct account *last = (*first)->previous;
    if (account == *first) {
        *first = account->next;
    } else {
        account->previous->next = account->next;
    }
    if (account != last) {
        account->next->previous = account->previous;
    } else if (*first != NULL) {
        (*first)->previous = account->previous;
    }
}

/* Each step down was a step up before: an amount that has grown pays for it. */
static void rank_settle(struct account_book *book)
{
    while (book->highest > 0 && book->ranks[book->highest] == NULL) {
        book->highest--;
    }
}

static void set_amount(struct account_book *book, struct account *account, uint64_t amount)
{
    if (amount >> book->shift == account->amount >> book->shift) {
        account->amount = amount;
        return;
    }
    rank_leave(book, account);
    account->amount = amount;
    rank_enter(book, account);
    rank_settle(book);
}

/* --- accounts ----------------------------------------------------------- */

static struct account *find_account(const struct account_book *book, const struct address *source,
                                    uint64_t key)
{
    struct hash_node *node = hash_map_find(&book->map, key);
    for (; node != NULL; node = hash_map_find_next(node)) {
        struct account *account = HASH_ENTRY(node, struct account, node);
        if (address_equal(&account->source, source)) {
            return account;
        }
    }
    return NULL;
}

static struct account *account_find(const struct account_book *book, const struct address *remote)
{
    const struct address source = account_source(remote, book->ipv6_bits);
    return find_account(book, &source, address_hash(&source, book->map.seed));
}

/* The account of @p remote; a new one is in no rank yet. NULL where all are in use. */
static struct account *account_open(struct account_book *book, const struct address *remote,
                                    uint64_t key)
{
    const struct address source = account_source(remote, book->ipv6_bits);
    struct account *account = find_account(book, &source, key);
    if (account != NULL) {
        return account;
    }
    if (book->free != NULL) {
        account = book->free;
        book->free = account->next;
    } else if (book->used < book->capacity) {
        account = &book->slots[book->used++];
    } else {
        return NULL;
    }
    *account = (struct account){.source = source};
    hash_map_add(&book->map, &account->node, key);
    return account;
}

/* --- holdings ----------------------------------------------------------- */

static void account_append(struct account *account, struct holding *holding)
{
    holding->newer = NULL;
    holding->older = account->newest;
    *(account->newest != NULL ? &account->newest->newer : &account->oldest) = holding;
    account->newest = holding;
}

static void unlink_holding(struct account *account, struct holding *holding)
{
    *(holding->older != NULL ? &holding->older->newer : &account->oldest) = holding->newer;
    *(holding->newer != NULL ? &holding->newer->older : &account->newest) = holding->older;
}

void account_charge(struct account_book *book, struct holding *holding,
                    const struct address *remote, uint64_t amount)
{
    account_charge_key(book, holding, remote, account_key(book, remote), amount);
}

uint64_t account_key(const struct account_book *book, const struct address *remote)
{
    const struct address source = account_source(remote, book->ipv6_bits);
    return address_hash(&source, book->map.seed);
}

void account_charge_key(struct account_book *book, struct holding *holding,
                        const struct address *remote, uint64_t key, uint64_t amount)
{
    struct account *account = account_open(book, remote, key);
    holding->account = account;
    holding->amount = amount;
    if (account == NULL) {
        return;
    }
    bool is_new = account->oldest == NULL;
    account_append(account, holding);
    if (is_new) {
        account->amount = amount;
        rank_enter(book, account);
    } else {
        set_amount(book, account, account->amount + amount);
    }
}

void account_resize(struct account_book *book, struct holding *holding, uint64_t amount)
{
    struct account *account = holding->account;
    if (account != NULL && amount != holding->amount) {
        set_amount(book, account, account->amount - holding->amount + amount);
        holding->amount = amount;
    }
}

void account_touch(struct account_book *book, struct holding *holding)
{
    struct account *account = holding->account;
    if (account == NULL) {
        return;
    }
    if (account->newest != holding) {
        unlink_holding(account, holding);
        account_append(account, holding);
    }
    if (account->next != NULL) {
        rank_leave(book, account);
        rank_enter(book, account);
    }
}

void account_discharge(struct account_book *book, struct holding *holding)
{
    struct account *account = holding->account;
    if (account == NULL) {
        return;
    }
    unlink_holding(account, holding);
    if (account->oldest == NULL) {
        hash_map_remove(&account->node);
        rank_leave(book, account);
        rank_settle(book);
        account->next = book->free;
        book->free = account;
    } else {
        set_amount(book, account, account->amount - holding->amount);
    }
    *holding = (struct holding){0};
}

void account_note_displaced(struct holding *holding)
{
    if (holding->account != NULL) {
        holding->account->displaced++;
    }
}

const struct account *account_of(const struct account_book *book, const struct address *remote)
{
    return account_find(book, remote);
}

const struct account *account_listed(const struct account_book *book, const struct account *account)
{
    if (account != NULL && account->next != NULL) {
        return account->next;
    }
    uint32_t rank = account != NULL ? rank_of(book, account) : book->highest + 1;
    while (rank > 0) {
        if (book->ranks[--rank] != NULL) {
            return book->ranks[rank];
        }
    }
    return NULL;
}

uint64_t account_amount(const struct account_book *book, const struct address *remote)
{
    const struct account *account = account_find(book, remote);
    return account != NULL ? account->amount : 0;
}

struct holding *account_yield(const struct account_book *book, const struct address *newcomer,
                              uint64_t more, bool *ret_is_owed)
{
    const struct account *largest = book->ranks[book->highest];
    const struct account *own = account_find(book, newcomer);
    uint64_t amount = own != NULL ? own->amount : 0;
    *ret_is_owed = largest != NULL && largest != own && largest->amount > amount + more;
    if (own != NULL && largest != NULL && amount >= largest->amount) {
        return own->oldest;
    }
    return largest != NULL ? largest->oldest : NULL;
}

struct holding *account_largest(const struct account_book *book)
{
    const struct account *largest = book->ranks[book->highest];
    return largest != NULL ? largest->oldest : NULL;
}

struct holding *account_next(const struct holding *holding)
{
    if (holding->newer != NULL) {
        return holding->newer;
    }
    const struct account *next = holding->account->next;
    return next != NULL ? next->oldest : NULL;
}
