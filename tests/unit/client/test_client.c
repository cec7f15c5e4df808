/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of clients: capped, the oldest make room, those with requests do not. */
#include "support/test.h"

#include "client/client.h"

#include <string.h>

#define CAPACITY 1024u

/* The @p n-th of many clients. */
static struct address address_of(uint32_t n)
{
    struct address address;
    const uint8_t ip[4] = {10, (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n};
    address_set_ip(&address, ip, sizeof(ip), 0);
    address.port = 5683;
    return address;
}

static struct client *get(struct client_table *table, uint32_t n, uint64_t now_ms)
{
    struct address address = address_of(n);
    return client_table_get(table, &address, 0, (uint16_t)n, now_ms);
}

static struct client *find(const struct client_table *table, uint32_t n)
{
    struct address address = address_of(n);
    return client_table_find(table, &address, 0);
}

static void set_busy(struct client *client, bool is_busy)
{
    client->peer.in_flight = is_busy;
}

static void test_a_client_stays_who_it_is(void **state)
{
    (void)state;
    struct client_table table;
    assert_int_equal(client_table_init(&table, CAPACITY, 1), 0);
    assert_null(find(&table, 1));
    struct client *first = get(&table, 1, 1000);
    assert_non_null(first);
    assert_ptr_equal(find(&table, 1), first);
    uint16_t mid;
    assert_true(mid_space_take(&first->mids, 1000, 247000, &mid));
    assert_int_equal(mid, 1); /* where it was told to start */
    assert_ptr_equal(get(&table, 1, 5000), first);
    assert_int_equal(first->seen_s, 5);
    assert_true(mid_space_take(&first->mids, 5000, 247000, &mid));
    assert_int_equal(mid, 2); /* not begun again */
    assert_int_equal(table.used, 1);
    client_table_clear(&table);
}

/* Address, port and listener together are the endpoint (RFC 7252 section 1.2). */
static void test_endpoints_differ_in_port_and_listener(void **state)
{
    (void)state;
    struct client_table table;
    assert_int_equal(client_table_init(&table, CAPACITY, 1), 0);
    struct address address = address_of(1), other = address_of(1);
    other.port = 5684;
    struct client *a = client_table_get(&table, &address, 0, 0, 0);
    struct client *b = client_table_get(&table, &other, 0, 0, 0);
    struct client *c = client_table_get(&table, &address, 1, 0, 0);
    assert_ptr_not_equal(a, b);
    assert_ptr_not_equal(a, c);
    assert_ptr_not_equal(b, c);
    assert_ptr_equal(client_table_find(&table, &address, 0), a);
    assert_ptr_equal(client_table_find(&table, &other, 0), b);
    assert_ptr_equal(client_table_find(&table, &address, 1), c);
    assert_null(client_table_find(&table, &other, 1));
    client_table_clear(&table);
}

static void test_table_never_exceeds_its_cap(void **state)
{
    (void)state;
    struct client_table table;
    assert_int_equal(client_table_init(&table, CAPACITY, test_seed()), 0);
    for (uint32_t n = 0; n < 10 * CAPACITY; n++) {
        assert_non_null(get(&table, n, n * 1000));
        assert_true(table.used <= CAPACITY);
        assert_non_null(find(&table, n));
    }
    assert_int_equal(table.evicted, 9 * CAPACITY);
    unsigned known = 0;
    for (uint32_t n = 0; n < 10 * CAPACITY; n++) {
        known += find(&table, n) != NULL;
    }
    assert_int_equal(known, CAPACITY);
    client_table_clear(&table);
}

/*
 * Half the clients were heard of long ago, half just now. While newcomers replace
 * a quarter of them, a fresh one goes only where all 8 that are looked at are
 * fresh: between 0.4 % and 10 % of the time, so 12 of 256 on average.
 */
static void test_the_old_make_room_first(void **state)
{
    (void)state;
    struct client_table table;
    unsigned fresh_gone = 0;
    assert_int_equal(client_table_init(&table, CAPACITY, test_seed()), 0);
    for (uint32_t n = 0; n < CAPACITY; n++) {
        get(&table, n, n % 2 == 0 ? 1000 : 60000);
    }
    for (uint32_t n = CAPACITY; n < CAPACITY + CAPACITY / 4; n++) {
        get(&table, n, 61000);
    }
    for (uint32_t n = 0; n < CAPACITY + CAPACITY / 4; n++) {
        bool is_old = n < CAPACITY && n % 2 == 0;
        fresh_gone += !is_old && find(&table, n) == NULL;
    }
    assert_int_equal(table.evicted, CAPACITY / 4);
    assert_in_range(fresh_gone, 0, 50);
    client_table_clear(&table);
}

/* An exchange points at its client: that slot is not given away. */
static void test_clients_with_requests_in_flight_stay(void **state)
{
    (void)state;
    static struct client *busy[CAPACITY];
    struct client_table table;
    assert_int_equal(client_table_init(&table, CAPACITY, test_seed()), 0);
    for (uint32_t n = 0; n < CAPACITY; n++) {
        struct client *client = get(&table, n, 0);
        busy[n] = n % 2 == 0 ? client : NULL;
        set_busy(client, n % 2 == 0);
    }
    for (uint32_t n = CAPACITY; n < 20 * CAPACITY; n++) {
        get(&table, n, n * 1000); /* may be NULL, where all that were looked at are busy */
    }
    for (uint32_t n = 0; n < CAPACITY; n += 2) {
        assert_ptr_equal(find(&table, n), busy[n]);
    }
    client_table_clear(&table);
}

static void test_full_of_busy_clients_takes_nobody(void **state)
{
    (void)state;
    struct client_table table;
    assert_int_equal(client_table_init(&table, 16, test_seed()), 0);
    for (uint32_t n = 0; n < 16; n++) {
        set_busy(get(&table, n, 0), true);
    }
    for (uint32_t n = 16; n < 100; n++) {
        assert_null(get(&table, n, 1000));
        assert_null(find(&table, n));
    }
    assert_int_equal(table.evicted, 0);
    assert_non_null(get(&table, 3, 1000)); /* a known client is served */
    client_table_clear(&table);
}

/* Keys in the deduplication store name slot and generation: a new owner has a new one. */
static void test_a_slot_given_away_has_another_generation(void **state)
{
    (void)state;
    struct client_table table;
    assert_int_equal(client_table_init(&table, 1, 1), 0);
    struct client *slot = get(&table, 0, 0);
    uint32_t last = slot->generation;
    for (uint32_t n = 1; n < 100; n++) {
        assert_ptr_equal(get(&table, n, n * 1000), slot);
        assert_int_not_equal(slot->generation, last);
        assert_null(find(&table, n - 1));
        last = slot->generation;
    }
    client_table_clear(&table);
}

/* A slot that was freed is the first to be taken, and counts as no eviction. */
static void test_a_forgotten_client_is_not_found(void **state)
{
    (void)state;
    struct client_table table;
    assert_int_equal(client_table_init(&table, 1, 1), 0);
    struct client *slot = get(&table, 0, 9000);
    uint32_t last = slot->generation;
    client_table_forget(&table, slot);
    assert_null(find(&table, 0));
    assert_int_equal(table.used - table.forgotten, 0);
    assert_ptr_equal(get(&table, 1, 10000), slot);
    assert_int_not_equal(slot->generation, last);
    assert_int_equal(table.used - table.forgotten, 1);
    assert_int_equal(table.evicted, 0);
    client_table_clear(&table);
}

static void test_clear_takes_a_zeroed_table(void **state)
{
    (void)state;
    struct client_table table;
    memset(&table, 0, sizeof(table));
    client_table_clear(&table);
    assert_null(table.slots);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_client_stays_who_it_is),
        cmocka_unit_test(test_endpoints_differ_in_port_and_listener),
        cmocka_unit_test(test_table_never_exceeds_its_cap),
        cmocka_unit_test(test_the_old_make_room_first),
        cmocka_unit_test(test_clients_with_requests_in_flight_stay),
        cmocka_unit_test(test_full_of_busy_clients_takes_nobody),
        cmocka_unit_test(test_a_slot_given_away_has_another_generation),
        cmocka_unit_test(test_a_forgotten_client_is_not_found),
        cmocka_unit_test(test_clear_takes_a_zeroed_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
