/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random sequences of what may happen to the records of a session (record_play.h): sends,
 * repeated flights, hand-overs, failed ones and crashes among replays and forgeries, in all suites,
 * with and without ids, in both roles. No nonce occurs twice, and nothing is delivered twice.
 *
 * RECORD_SEQUENCES is how many there are, TEST_SEED where they begin.
 */
#include "record_play.h"
#include "support/test.h"
#include "support/test_random.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define SEQUENCES 2000u
#define SEQUENCE_MAX 96u /* bytes: some 30 steps */

static void test_random_sequences_of_records(void **state)
{
    const char *wish = getenv("RECORD_SEQUENCES");
    unsigned long wanted = wish == NULL ? SEQUENCES : strtoul(wish, NULL, 10);
    uint64_t random = test_seed();
    const struct play_counts *counts = &play_counts;
    (void)state;

    for (unsigned long i = 0; i < wanted; i++) {
        uint8_t bytes[SEQUENCE_MAX];
        size_t len = 8 + (size_t)test_random_below(&random, sizeof bytes - 8);
        for (size_t k = 0; k < len; k++) {
            bytes[k] = (uint8_t)test_random(&random);
        }
        bytes[0] = (uint8_t)(i % PLAY_SUITES); /* each suite with each choice of ids and role */
        bytes[1] = (uint8_t)(i / PLAY_SUITES);
        record_play(bytes, len);
    }
    print_message(
        "sequences %" PRIu64 ", records sealed %" PRIu64 ", of repeated flights %" PRIu64
        ", delivered %" PRIu64 ", replayed %" PRIu64 ", forged %" PRIu64 ", hand-overs %" PRIu64
        ", failed %" PRIu64 ", crashes %" PRIu64 ", ends %" PRIu64 "\n",
        counts->sequences, counts->sealed, counts->flights, counts->delivered, counts->replays,
        counts->forged, counts->handovers, counts->handovers_failed, counts->crashes, counts->ends);
    assert_int_equal(counts->sequences, wanted);
    assert_true(counts->sealed > wanted && counts->delivered > wanted);
    assert_true(counts->flights > wanted / 50 && counts->ends > wanted / 50);
    assert_true(counts->handovers > wanted / 4 && counts->handovers_failed > wanted / 8);
    assert_true(counts->crashes > wanted / 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_sequences_of_records),
    };
    record_play_init();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    record_play_clear();
    return failed;
}
