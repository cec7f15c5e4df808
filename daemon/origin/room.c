/* SPDX-License-Identifier: BSD-2-Clause */
#include "origin/room.h"

#include "origin/side.h"

#include <stdlib.h>

/* What is looked at for one newcomer: some is passed on to other sources. */
#define ROOM_TRIES 8u

/* --- the queue of an origin server --------------------------------------- */

static struct sending *sending_of_queue(struct list_node *node)
{
    return HASH_ENTRY(node, struct sending, queued.node);
}

static uint32_t source_bits(const struct origin_side *side)
{
    return side->context.config->limits_ipv6_prefix;
}

static void charge_wait(struct origin_side *side, struct sending *sending)
{
    account_charge(&side->devices.waits, &sending->waiting, sending_source(side, sending),
                   sending->datagram_len);
}

static void charge_place(struct origin_side *side, struct sending *sending)
{
    account_charge(&sending->origin->queue_book->accounts, &sending->queued.holding,
                   sending_source(side, sending), 1);
}

/* All of the queue but @p newcomer are charged. @return whether there is a book now */
static bool open_queue_book(struct origin_side *side, struct origin *origin,
                            const struct sending *newcomer)
{
    struct queue_book *book = calloc(1, sizeof(*book));
    if (book == NULL || account_book_init(&book->accounts, origin->queue.count, origin->queue.count,
                                          source_bits(side), side->origins.map.seed) != 0) {
        free(book);
        return false;
    }
    origin->queue_book = book;
    list_add(&side->origins.queue_books, &book->node);
    for (struct list_node *node = origin->queue.list.first; node != NULL; node = node->next) {
        struct sending *sending = sending_of_queue(node);
        if (sending != newcomer) {
            charge_place(side, sending);
        }
    }
    return true;
}

/* What is in the queue must be in no account any more. */
static void free_queue_book(struct origin_table *table, struct origin *origin)
{
    struct queue_book *book = origin->queue_book;
    list_remove(&table->queue_books, &book->node);
    account_book_clear(&book->accounts);
    free(book);
    origin->queue_book = NULL;
}

static void close_queue_book(struct origin_table *table, struct origin *origin)
{
    for (struct list_node *node = origin->queue.list.first; node != NULL; node = node->next) {
        sending_of_queue(node)->queued.holding = (struct holding){0};
    }
    free_queue_book(table, origin);
}

/* What is charged for @p sending is another source's from now on. */
static void charge_again(struct origin_side *side, struct sending *sending)
{
    if (sending->queued.holding.account != NULL) {
        account_discharge(&sending->origin->queue_book->accounts, &sending->queued.holding);
        charge_place(side, sending);
    }
    if (sending->waiting.account != NULL) {
        account_discharge(&side->devices.waits, &sending->waiting);
        charge_wait(side, sending);
    }
}

/* @p sending, which @p holding is of, makes room. @return false where it is passed on instead */
static bool displace_queued(struct origin_side *side, struct sending *sending,
                            struct holding *holding)
{
    if (sending_pass_on(side, sending)) {
        charge_again(side, sending);
        return false;
    }
    account_note_displaced(holding);
    metric_add(&side->context.metrics.queued_displaced, 1);
    sending_displace(side, sending);
    return true;
}

/* Whether a place was taken from a source that holds more than that of @p newcomer would. */
static bool displace_for_place(struct origin_side *side, struct sending *newcomer)
{
    struct origin *origin = newcomer->origin;
    bool is_owed = origin->queue.count > 1 &&
                   (origin->queue_book != NULL || open_queue_book(side, origin, newcomer));
    for (unsigned i = 0; i < ROOM_TRIES && is_owed; i++) {
        struct holding *holding = account_yield(&origin->queue_book->accounts,
                                                sending_source(side, newcomer), 1, &is_owed);
        if (is_owed &&
            displace_queued(side, HASH_ENTRY(holding, struct sending, queued.holding), holding)) {
            return true;
        }
    }
    return false;
}

bool room_in_queue(struct origin_side *side, struct sending *sending, uint64_t max)
{
    struct origin *origin = sending->origin;
    if (origin->queue.count > max && !displace_for_place(side, sending)) {
        return false;
    }
    if (origin->queue_book != NULL && sending->queued.holding.account == NULL) {
        charge_place(side, sending);
    }
    return true;
}

/* --- waiting for devices -------------------------------------------------- */

/* Bytes for @p sending, taken from sources that hold more where there are none left. */
static bool take_wait(struct origin_side *side, struct sending *sending)
{
    struct device_table *devices = &side->devices;
    const uint64_t most = side->context.config->devices_wait_bytes;
    const uint64_t more = sending->datagram_len;
    unsigned passed = 0;
    while (more <= most && devices->waiting_bytes > most - more) {
        bool is_owed;
        struct holding *holding =
            account_yield(&devices->waits, sending_source(side, sending), more, &is_owed);
        if (!is_owed || passed == ROOM_TRIES) {
            return false;
        }
        passed += !displace_queued(side, HASH_ENTRY(holding, struct sending, waiting), holding);
    }
    return more <= most;
}

/* @return whether there is a book of those that wait */
static bool have_waits(struct origin_side *side)
{
    const struct config *config = side->context.config;
    struct device_table *devices = &side->devices;
    return devices->waits.capacity > 0 ||
           account_book_init(&devices->waits, config->limits_exchanges, config->devices_wait_bytes,
                             source_bits(side), devices->seed) == 0;
}

bool room_to_wait(struct origin_side *side, struct sending *sending)
{
    if (!have_waits(side) ||
        !room_in_queue(side, sending, side->context.config->devices_wait_requests) ||
        !take_wait(side, sending)) {
        return false;
    }
    charge_wait(side, sending);
    side->devices.waiting_bytes += sending->datagram_len;
    sending->waiting_bytes = sending->datagram_len;
    device_add_waiting(side, &sending->origin->address, 1);
    return true;
}

void room_on_left_queue(struct origin_side *side, struct sending *sending)
{
    struct origin *origin = sending->origin;
    if (sending->waiting_bytes > 0) {
        account_discharge(&side->devices.waits, &sending->waiting);
        side->devices.waiting_bytes -= sending->waiting_bytes;
        sending->waiting_bytes = 0;
        device_add_waiting(side, &origin->address, 0u - 1u);
    }
    if (origin->queue_book == NULL) {
        return;
    }
    account_discharge(&origin->queue_book->accounts, &sending->queued.holding);
    if (origin->queue.count < origin->queue_book->accounts.capacity / 2) {
        close_queue_book(&side->origins, origin);
    }
}

/* --- the table of origin servers ----------------------------------------- */

/* As for clients: see client/client.c. */
#define SAMPLE_SIZE 8
#define SAMPLE_MOST 64

static struct origin *idle_slot(struct origin_table *table)
{
    struct origin *oldest = NULL;
    for (unsigned i = 0; i < SAMPLE_SIZE || (oldest == NULL && i < SAMPLE_MOST); i++) {
        table->random = hash_mix(table->random, i + 1);
        struct origin *origin = &table->slots[table->random % table->capacity];
        if (origin->fetches == 0 && (oldest == NULL || origin->seen_s < oldest->seen_s)) {
            oldest = origin;
        }
    }
    return oldest;
}

static struct sending *first_of_origin(const struct origin *origin)
{
    struct list_node *node = origin->sendings.first;
    return node != NULL ? HASH_ENTRY(node, struct sending, of_origin) : NULL;
}

static void enter_list(struct sending *sending)
{
    list_add(&sending->origin->sendings, &sending->of_origin);
}

/* @return whether there is a book now */
static bool open_origin_book(struct origin_side *side)
{
    struct origin_table *table = &side->origins;
    struct slot_age *ages = malloc(table->used * sizeof(*ages));
    size_t count = 0;
    if (ages == NULL ||
        slot_book_open(&table->book, table->capacity, source_bits(side), table->map.seed) != 0) {
        free(ages);
        return false;
    }
    for (uint32_t i = 0; i < table->used; i++) {
        if (table->slots[i].fetches > 0) {
            ages[count++] = (struct slot_age){i, table->slots[i].seen_s};
        }
    }
    table->calls->each(side, enter_list);
    relay_calls.each(side, enter_list);
    slot_ages_sort(ages, count);
    for (size_t i = 0; i < count; i++) {
        struct sending *first = first_of_origin(&table->slots[ages[i].slot]);
        slot_book_charge(&table->book, ages[i].slot, sending_source(side, first));
    }
    free(ages);
    return true;
}

static void close_origin_book(struct origin_table *table)
{
    for (uint32_t i = 0; i < table->used; i++) {
        table->slots[i].sendings = (struct list){0};
    }
    slot_book_close(&table->book);
}

/* The first in its list pays for it. */
static void settle_origin(struct origin_side *side, struct origin *origin)
{
    struct slot_book *book = &side->origins.book;
    struct sending *first = first_of_origin(origin);
    if (first != NULL) {
        slot_book_charge(book, origin->slot, sending_source(side, first));
        return;
    }
    slot_book_discharge(book, origin->slot);
    if (book->count < book->capacity / 2) {
        close_origin_book(&side->origins);
    }
}

void room_on_chosen(struct origin_side *side, struct sending *sending)
{
    enter_list(sending);
    settle_origin(side, sending->origin);
}

void room_on_left_origin(struct origin_side *side, struct origin *origin, struct sending *sending)
{
    list_remove(&origin->sendings, &sending->of_origin);
    settle_origin(side, origin);
}

/* A request of another source than the one that is charged for @p origin; NULL: none is there. */
static struct sending *other_at(struct origin_side *side, const struct origin *origin)
{
    const struct account_book *accounts = &side->origins.book.accounts;
    const struct address *payer = &side->origins.book.holdings[origin->slot].account->source;
    for (struct list_node *node = origin->sendings.first; node != NULL; node = node->next) {
        struct sending *sending = HASH_ENTRY(node, struct sending, of_origin);
        struct address source = account_source(sending_source(side, sending), accounts->ipv6_bits);
        if (!address_equal(&source, payer) || sending_pass_on(side, sending)) {
            return sending;
        }
    }
    return NULL;
}

/* Those that wait in its queue first: else they would be sent as the others leave its window. */
static void displace_all(struct origin_side *side, struct origin *origin)
{
    while (origin->queue.list.first != NULL) {
        sending_displace(side, sending_of_queue(origin->queue.list.first));
    }
    while (origin->sendings.first != NULL) {
        sending_displace(side, first_of_origin(origin));
    }
}

static struct origin *displaced_slot(struct origin_side *side, struct sending *newcomer)
{
    struct origin_table *table = &side->origins;
    if (newcomer == NULL || (!slot_book_is_open(&table->book) && !open_origin_book(side))) {
        return NULL;
    }
    for (unsigned i = 0; i < ROOM_TRIES; i++) {
        struct holding *holding = slot_book_yield(&table->book, sending_source(side, newcomer));
        if (holding == NULL) {
            return NULL;
        }
        struct origin *origin = &table->slots[slot_of_holding(&table->book, holding)];
        struct sending *other = other_at(side, origin);
        if (other == NULL && origin != table->inside) {
            account_note_displaced(holding);
            metric_add(&side->context.metrics.origins_displaced, 1);
            displace_all(side, origin);
            return origin;
        }
        if (other == NULL) {
            return NULL;
        }
        list_remove(&origin->sendings, &other->of_origin);
        list_insert(&origin->sendings, NULL, &other->of_origin); /* it pays from now on */
        settle_origin(side, origin);
    }
    return NULL;
}

struct origin *room_for_origin(struct origin_side *side, struct sending *newcomer)
{
    struct origin *idle = idle_slot(&side->origins);
    return idle != NULL ? idle : displaced_slot(side, newcomer);
}

void room_close_books(struct origin_table *table)
{
    for (uint32_t i = 0; i < table->used; i++) {
        if (table->slots[i].queue_book != NULL) {
            free_queue_book(table, &table->slots[i]); /* nor is there anything in the queue */
        }
    }
    slot_book_close(&table->book);
}
