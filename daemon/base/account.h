/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which source holds how much of a table that all share: requests in flight, bytes of bodies,
 * connections, names being asked for. A source is an IPv4 address or an IPv6 prefix, whatever
 * the ports and transports: a host has as many ports as it likes, and a network as many IPv6
 * addresses.
 *
 * A table that can fill up has a book. Each entry of the table has a struct holding in it, which is
 * charged to the account of its source in that book. This limits nothing: while there is room, a
 * source may hold everything, so that many clients behind one address do no harm to themselves.
 * When the table is full, account_yield() says which entry makes room: the oldest of the source
 * that holds most.
 *
 * Each operation takes the time of a lookup in a hash map, whatever the table holds: accounts
 * are listed by their amount, in ranks, and the highest rank that is in use moves with them.
 * There is no allocation after account_book_init().
 */
#ifndef CRIPROXY_ACCOUNT_H
#define CRIPROXY_ACCOUNT_H

#include "base/address.h"
#include "base/hash.h"

/* Of an IPv6 address, where nothing else is said: the network of one link. */
#define ACCOUNT_IPV6_BITS 64u

/* Lists by amount: 128 KiB of them at most. With an amount_max of less each amount has its own. */
#define ACCOUNT_RANKS_MAX 16384u

/* One entry of the table; zeroed: charged to no account. */
struct holding {
    struct account *account;
    struct holding *older, *newer; /* of the same account */
    uint64_t amount;
};

struct account {
    struct hash_node node;
    struct address source;           /* without port and the bits after the prefix */
    struct account *previous, *next; /* of the same rank, the first one's previous is the last;
                                        of those that are free, next */
    struct holding *oldest, *newest;
    uint64_t amount;    /* of all its holdings */
    uint64_t displaced; /* holdings that made room for others since it has had any */
};

struct account_book {
    struct hash_map map;
    struct account *slots;
    uint32_t capacity, used;
    struct account *free;
    struct account **ranks; /* lists of accounts by amount / step, in order of use */
    uint32_t rank_count, highest;
    unsigned shift;
    uint32_t ipv6_bits; /* of an IPv6 address that name a source; may be changed at any time */
};

/**
 * @param holdings_max as many holdings as the table may have entries
 * @param amount_max   as much as all of them may amount to: holdings_max where each counts 1
 * @param seed         secret, so that strangers cannot choose colliding addresses
 * @return 0 or -ENOMEM
 */
int account_book_init(struct account_book *book, uint32_t holdings_max, uint64_t amount_max,
                      uint32_t ipv6_bits, uint64_t seed);

/**
 * Frees the book's accounts; takes a zeroed book. Holdings belong to the table's entries and are
 * not touched.
 */
void account_book_clear(struct account_book *book);

/** The source that @p remote belongs to: an IPv4 address, also an IPv4-mapped one, or a prefix. */
struct address account_source(const struct address *remote, uint32_t ipv6_bits);

/** The key in @p book of the source of @p remote, as long as ipv6_bits of the book stays. */
uint64_t account_key(const struct account_book *book, const struct address *remote);

/**
 * Charges @p holding to the source of @p remote, as its newest; it must not be charged to an
 * account already. The book points to it until account_discharge(). When the book already has
 * holdings_max of them, the holding stays without an account.
 * @param amount in the unit of the table: bytes, or 1 for each entry.
 */
void account_charge(struct account_book *book, struct holding *holding,
                    const struct address *remote, uint64_t amount);

/** As account_charge(), where @p key is known to be the account_key() of @p remote. */
void account_charge_key(struct account_book *book, struct holding *holding,
                        const struct address *remote, uint64_t key, uint64_t amount);

/** Changes the amount of @p holding, in the unit of the table. No effect if it has no account;
 * cannot fail. */
void account_resize(struct account_book *book, struct holding *holding, uint64_t amount);

/**
 * Marks @p holding as used: it becomes the newest of its account, and the account the last of those
 * with the same amount. No effect if it has no account; cannot fail.
 */
void account_touch(struct account_book *book, struct holding *holding);

/** Takes @p holding out of its account, if it has one; an account without holdings is released. */
void account_discharge(struct account_book *book, struct holding *holding);

/** @p holding makes room, for the count of its account. No effect without an account; cannot fail.
 */
void account_note_displaced(struct holding *holding);

/** The account of the source of @p remote, until it holds nothing; NULL where it does not. */
const struct account *account_of(const struct account_book *book, const struct address *remote);

/**
 * The accounts, those that hold most first, as exactly as their ranks tell.
 *
 * @param account the last one, which is still there; NULL: begin.
 * @return NULL at the end.
 */
const struct account *account_listed(const struct account_book *book,
                                     const struct account *account);

/** How much the source of @p remote holds, in the unit of the table; 0 if it has no account. */
uint64_t account_amount(const struct account_book *book, const struct address *remote);

/**
 * Which holding makes room for @p more of @p newcomer: the oldest of the source that holds
 * most; of the newcomer's own where no source holds more.
 *
 * @param ret_is_owed set to whether that source holds more than the newcomer's will, with
 *                    @p more: then its holding has to go. Else all is fairly divided, and
 *                    taking it away helps one client as much as it harms another: only where it
 *                    has waited in vain for long.
 * @return NULL where nothing is held.
 */
struct holding *account_yield(const struct account_book *book, const struct address *newcomer,
                              uint64_t more, bool *ret_is_owed);

/** The oldest holding of the source that holds most; NULL where nothing is held. */
struct holding *account_largest(const struct account_book *book);

/**
 * The holding to try after @p holding when that one cannot make room: the next newer one of its
 * account, or the oldest of the next account with the same amount. NULL after the last one.
 * Borrowed.
 */
struct holding *account_next(const struct holding *holding);

#endif
