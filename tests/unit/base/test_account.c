/* SPDX-License-Identifier: BSD-2-Clause */
/* How much of a table each source holds, and which entry makes room when it is full. */
#include "support/test.h"

#include "base/account.h"

#include <stdio.h>
#include <string.h>

#define HOLDINGS 64u

static struct account_book book;
static struct holding holdings[HOLDINGS];

static struct address at(const char *text)
{
    struct address address;
    assert_true(address_parse(text, strlen(text), 0, &address));
    return address;
}

static void start_of(uint64_t amount_max)
{
    memset(holdings, 0, sizeof(holdings));
    assert_int_equal(account_book_init(&book, HOLDINGS, amount_max, 64, 7), 0);
}

static void start(void)
{
    start_of(HOLDINGS);
}

static void stop(void)
{
    for (unsigned i = 0; i < HOLDINGS; i++) {
        account_discharge(&book, &holdings[i]);
    }
    assert_int_equal(book.highest, 0);
    assert_null(book.ranks[0]);
    account_book_clear(&book);
    account_book_clear(&book); /* a zeroed one */
}

static void charge(unsigned index, const char *text)
{
    const struct address address = at(text);
    account_charge(&book, &holdings[index], &address, 1);
}

/* The holding that makes room for one more of @p text; negative where that is not owed. */
static int yields(const char *text)
{
    bool is_owed;
    const struct address address = at(text);
    const struct holding *holding = account_yield(&book, &address, 1, &is_owed);
    int index = holding != NULL ? (int)(holding - holdings) : (int)HOLDINGS;
    return is_owed ? index : -index;
}

static void test_source_is_an_address_or_a_prefix(void **state)
{
    static const struct {
        const char *one, *other;
        uint32_t bits;
        bool same;
    } rows[] = {
        {"192.0.2.1:1", "192.0.2.1:65535", 64, true},
        {"192.0.2.1:1", "192.0.2.2:1", 64, false},
        {"192.0.2.1:1", "[::ffff:192.0.2.1]:1", 64, true},
        {"[::ffff:192.0.2.1]:1", "[::ffff:192.0.2.2]:1", 64, false},
        {"[2001:db8:0:1::1]:1", "[2001:db8:0:1:ffff:ffff:ffff:ffff]:2", 64, true},
        {"[2001:db8:0:1::1]:1", "[2001:db8:0:2::1]:1", 64, false},
        {"[2001:db8:0:8000::]:1", "[2001:db8:0:ffff::]:1", 49, true},
        {"[2001:db8:0:7fff::]:1", "[2001:db8:0:ffff::]:1", 49, false},
        {"[2001:db8::1]:1", "[2001:db8::2]:1", 128, false},
        {"[2001:db8::1]:1", "[2001:db8::1]:2", 128, true},
        {"[c000:201::]:1", "192.0.2.1:1", 32, false}, /* the same bytes */
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct address one = at(rows[i].one), other = at(rows[i].other);
        const struct address a = account_source(&one, rows[i].bits);
        const struct address b = account_source(&other, rows[i].bits);
        assert_int_equal(address_equal(&a, &b), rows[i].same);
    }
}

static void test_oldest_of_the_largest_makes_room(void **state)
{
    (void)state;
    start();
    assert_int_equal(yields("192.0.2.1:1"), -(int)HOLDINGS); /* nothing is held */
    charge(0, "192.0.2.1:1");
    charge(1, "192.0.2.2:1");
    charge(2, "192.0.2.2:2");
    charge(3, "192.0.2.2:3");
    assert_int_equal(yields("192.0.2.3:1"), 1); /* 3 against 1 */
    assert_int_equal(yields("192.0.2.1:1"), 1); /* 3 against 2 */
    account_touch(&book, &holdings[1]);
    assert_int_equal(yields("192.0.2.3:1"), 2);
    account_discharge(&book, &holdings[2]);
    assert_int_equal(yields("192.0.2.3:1"), 3);  /* 2 against 1 */
    assert_int_equal(yields("192.0.2.1:1"), -3); /* 2 against 2: divided fairly */
    assert_int_equal(yields("192.0.2.2:1"), -3); /* its own */
    stop();
}

static void test_own_holdings_make_room_among_equals(void **state)
{
    (void)state;
    start();
    charge(0, "192.0.2.1:1");
    charge(1, "192.0.2.2:1");
    assert_int_equal(yields("192.0.2.1:9"), 0); /* not owed; 0 has no sign */
    assert_int_equal(yields("192.0.2.2:9"), -1);
    stop();
}

/* Of sources that hold as much the one that came, or was used, first; the others follow. */
static void test_equal_sources_take_turns(void **state)
{
    bool is_owed;
    const struct address stranger = at("198.51.100.1:1");
    (void)state;
    start();
    charge(0, "192.0.2.1:1");
    charge(1, "192.0.2.2:1");
    charge(2, "192.0.2.3:1");
    assert_int_equal(yields("198.51.100.1:1"), 0);
    account_touch(&book, &holdings[0]);
    assert_int_equal(yields("198.51.100.1:1"), -1);
    const struct holding *holding = account_yield(&book, &stranger, 1, &is_owed);
    holding = account_next(holding);
    assert_ptr_equal(holding, &holdings[2]);
    holding = account_next(holding);
    assert_ptr_equal(holding, &holdings[0]);
    assert_null(account_next(holding));
    account_discharge(&book, &holdings[1]);
    assert_int_equal(yields("198.51.100.1:1"), -2);
    charge(3, "192.0.2.1:2");
    charge(1, "192.0.2.3:2");
    assert_int_equal(yields("198.51.100.1:1"), 0);
    assert_ptr_equal(account_next(&holdings[0]), &holdings[3]);
    assert_ptr_equal(account_next(&holdings[3]), &holdings[2]);
    stop();
}

static void test_amounts_of_bytes(void **state)
{
    bool is_owed;
    const struct address one = at("192.0.2.1:1"), other = at("192.0.2.2:1");
    (void)state;
    start_of(1ull << 32);
    account_charge(&book, &holdings[0], &one, 0);
    account_charge(&book, &holdings[1], &other, 1000000);
    account_charge(&book, &holdings[2], &one, 400000);
    assert_ptr_equal(account_yield(&book, &one, 100000, &is_owed), &holdings[1]);
    assert_true(is_owed);
    account_yield(&book, &one, 700000, &is_owed);
    assert_false(is_owed);
    account_resize(&book, &holdings[0], 2000000);
    assert_int_equal(account_amount(&book, &one), 2400000);
    assert_ptr_equal(account_yield(&book, &other, 100000, &is_owed), &holdings[0]);
    assert_true(is_owed);
    account_resize(&book, &holdings[0], 1ull << 33); /* more than there is: the last rank */
    account_discharge(&book, &holdings[0]);
    assert_ptr_equal(account_yield(&book, &one, 1, &is_owed), &holdings[1]);
    stop();
}

static void test_holdings_past_the_capacity_have_no_account(void **state)
{
    struct holding one_more = {0};
    char text[32];
    (void)state;
    start();
    for (unsigned i = 0; i < HOLDINGS; i++) {
        (void)snprintf(text, sizeof(text), "192.0.2.%u:1", i);
        charge(i, text);
    }
    const struct address address = at("198.51.100.1:1");
    account_charge(&book, &one_more, &address, 1);
    assert_null(one_more.account);
    account_touch(&book, &one_more);
    account_resize(&book, &one_more, 2);
    account_discharge(&book, &one_more);
    stop();
}

/* --- against a plain list ----------------------------------------------- */

static struct {
    unsigned source; /* 0: charged to no source */
    uint64_t amount, when;
} model[HOLDINGS];

static uint64_t model_amount(unsigned source)
{
    uint64_t amount = 0;
    for (unsigned i = 0; i < HOLDINGS; i++) {
        amount += model[i].source == source ? model[i].amount : 0;
    }
    return amount;
}

static unsigned model_oldest(unsigned source)
{
    unsigned oldest = HOLDINGS;
    for (unsigned i = 0; i < HOLDINGS; i++) {
        if (model[i].source == source &&
            (oldest == HOLDINGS || model[i].when < model[oldest].when)) {
            oldest = i;
        }
    }
    return oldest;
}

static void check(unsigned sources)
{
    uint64_t most = 0;
    unsigned held = 0;
    bool is_owed;
    for (unsigned source = 1; source <= sources; source++) {
        char text[32];
        (void)snprintf(text, sizeof(text), "192.0.2.%u:1", source);
        const struct address address = at(text);
        assert_int_equal(account_amount(&book, &address), model_amount(source));
        most = model_amount(source) > most ? model_amount(source) : most;
        held += model_oldest(source) < HOLDINGS;
    }
    const struct address stranger = at("198.51.100.1:1");
    const struct holding *holding = account_yield(&book, &stranger, 1, &is_owed);
    assert_int_equal(holding == NULL, held == 0);
    assert_int_equal(is_owed, most > 1);
    if (holding != NULL) {
        unsigned source = model[holding - holdings].source;
        assert_int_equal(model_amount(source), most);
        assert_int_equal(model_oldest(source), holding - holdings);
    }
}

static void test_against_a_plain_list(void **state)
{
    enum { SOURCES = 6, STEPS = 20000 };
    uint64_t seed = test_seed();
    (void)state;
    start_of(HOLDINGS * 8);
    memset(model, 0, sizeof(model));
    for (unsigned step = 1; step <= STEPS; step++) {
        seed = hash_mix(seed, step);
        unsigned i = (unsigned)(seed % HOLDINGS);
        uint64_t amount = seed >> 32 & 7;
        char text[32];
        if (model[i].source == 0) {
            model[i].source = 1 + (unsigned)(seed >> 40) % SOURCES;
            (void)snprintf(text, sizeof(text), "192.0.2.%u:%u", model[i].source, i + 1);
            const struct address address = at(text);
            account_charge(&book, &holdings[i], &address, amount);
            model[i].amount = amount;
            model[i].when = step;
        } else if ((seed >> 48 & 3) == 0) {
            account_touch(&book, &holdings[i]);
            model[i].when = step;
        } else if ((seed >> 48 & 3) == 1) {
            account_resize(&book, &holdings[i], amount);
            model[i].amount = amount;
        } else {
            account_discharge(&book, &holdings[i]);
            model[i].source = 0;
        }
        check(SOURCES);
    }
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_source_is_an_address_or_a_prefix),
        cmocka_unit_test(test_oldest_of_the_largest_makes_room),
        cmocka_unit_test(test_own_holdings_make_room_among_equals),
        cmocka_unit_test(test_equal_sources_take_turns),
        cmocka_unit_test(test_amounts_of_bytes),
        cmocka_unit_test(test_holdings_past_the_capacity_have_no_account),
        cmocka_unit_test(test_against_a_plain_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
