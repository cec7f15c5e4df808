/* SPDX-License-Identifier: BSD-2-Clause */
/* Message ids (RFC 7252 section 4.4, MSG-14): in order, and never back too soon. */
#include "support/test.h"

#include "coap/mid.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define IDS 65536u
#define BLOCK (1u << MID_BLOCK_BITS)
#define EXCHANGE_LIFETIME_MS 247000u

/* When each id was last given away; UINT64_MAX: never. */
static uint64_t used_ms[IDS];

static void forget_all(void)
{
    memset(used_ms, 0xff, sizeof(used_ms));
}

static void use(uint16_t mid, uint64_t now_ms, uint32_t lifetime_ms)
{
    if (used_ms[mid] != UINT64_MAX && now_ms - used_ms[mid] < lifetime_ms) {
        fail_msg("id %u again after %" PRIu64 " of %u ms", mid, now_ms - used_ms[mid], lifetime_ms);
    }
    used_ms[mid] = now_ms;
}

static void test_ids_start_where_told_and_count_up(void **state)
{
    (void)state;
    static const uint16_t starts[] = {0, 1, 0x3fff, 0x4000, 0x7fff, 0xfffe, 0xffff};
    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
        struct mid_space space;
        uint16_t mid;
        mid_space_init(&space, starts[i]);
        for (unsigned k = 0; k < 1000; k++) {
            assert_true(mid_space_take(&space, 5000, EXCHANGE_LIFETIME_MS, &mid));
            assert_int_equal(mid, (uint16_t)(starts[i] + k)); /* wraps to 0 */
        }
    }
}

/* At one moment: every id, none twice. */
static unsigned take_all(struct mid_space *space, uint64_t now_ms, uint32_t lifetime_ms)
{
    unsigned count = 0;
    uint16_t mid;
    while (mid_space_take(space, now_ms, lifetime_ms, &mid)) {
        use(mid, now_ms, lifetime_ms);
        count++;
        assert_true(count <= IDS);
    }
    return count;
}

static void test_all_ids_at_once_then_throttled(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    for (unsigned i = 0; i < 40; i++) {
        uint16_t start = i == 0 ? 0 : (uint16_t)test_random(&random);
        uint64_t now_ms = test_random_below(&random, 10000000);
        struct mid_space space;
        uint16_t mid = 0xdead;
        forget_all();
        mid_space_init(&space, start);
        unsigned count = take_all(&space, now_ms, EXCHANGE_LIFETIME_MS);
        assert_int_equal(count, IDS);
        mid = 0xdead;
        assert_false(
            mid_space_take(&space, now_ms + EXCHANGE_LIFETIME_MS - 1, EXCHANGE_LIFETIME_MS, &mid));
        assert_int_equal(mid, 0xdead); /* outputs are not touched on failure */
        assert_true(mid_space_take(&space, now_ms + EXCHANGE_LIFETIME_MS + 1000,
                                   EXCHANGE_LIFETIME_MS, &mid));
    }
}

/* Steps, bursts and pauses of any length; each id is checked against its last use. */
static void run_model(uint64_t *random, uint32_t lifetime_ms)
{
    struct mid_space space;
    uint64_t now_ms = test_random_below(random, UINT64_C(1) << 40);
    uint16_t mid, expected = (uint16_t)test_random(random);
    unsigned refused = 0, taken = 0;
    forget_all();
    mid_space_init(&space, expected);
    for (unsigned burst = 0; burst < 400; burst++) {
        unsigned count = (unsigned)test_random_below(random, 4000);
        for (unsigned i = 0; i < count; i++) {
            now_ms += test_random_below(random, 4) == 0;
            if (!mid_space_take(&space, now_ms, lifetime_ms, &mid)) {
                refused++;
                break;
            }
            assert_int_equal(mid, expected++);
            use(mid, now_ms, lifetime_ms);
            taken++;
        }
        now_ms += test_random_below(random, 8) == 0 ? lifetime_ms / 3 : 40;
    }
    assert_true(taken > IDS); /* it came round */
    if (lifetime_ms >= EXCHANGE_LIFETIME_MS) {
        assert_true(refused > 0);
    }
}

static void test_no_id_comes_back_within_its_lifetime(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    for (unsigned i = 0; i < 20; i++) {
        run_model(&random, EXCHANGE_LIFETIME_MS);
        run_model(&random, (uint32_t)(1 + test_random_below(&random, 400000)));
    }
}

/* 50 a second is far below what lasts (265 a second): never refused. */
static void test_a_rate_that_lasts_is_never_refused(void **state)
{
    (void)state;
    struct mid_space space;
    uint64_t now_ms = 12345;
    uint16_t mid;
    forget_all();
    mid_space_init(&space, 54321);
    for (unsigned i = 0; i < 4 * IDS; i++, now_ms += 20) {
        assert_true(mid_space_take(&space, now_ms, EXCHANGE_LIFETIME_MS, &mid));
        use(mid, now_ms, EXCHANGE_LIFETIME_MS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids_start_where_told_and_count_up),
        cmocka_unit_test(test_all_ids_at_once_then_throttled),
        cmocka_unit_test(test_no_id_comes_back_within_its_lifetime),
        cmocka_unit_test(test_a_rate_that_lasts_is_never_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
