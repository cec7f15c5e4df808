/* SPDX-License-Identifier: BSD-2-Clause */
/* Origin servers that refuse, are silent, reset, or cannot be understood; and good ones. */
#include "replay/errors.h"

#include <errno.h>

/* ERR-6, ERR-7, MSG-34, and what the host's own stack says. */
static void test_icmp_errors(void **state)
{
    static const struct {
        int error;
        unsigned class, detail;
        enum reason reason;
    } rows[] = {
        {ECONNREFUSED, 5, 2, REASON_origin_refused}, {EHOSTUNREACH, 5, 2, REASON_no_route},
        {ENETUNREACH, 5, 2, REASON_no_route},        {EACCES, 5, 2, REASON_no_route},
        {EMSGSIZE, 4, 13, REASON_request_too_large},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct replay replay;
        struct fake_datagram request, forged;
        errors_start(&replay, NULL);
        replay_ask(&replay, words("41 01 0001 aa", CRI));
        fake_peer_expect(replay.origin, UPSTREAM, &request);
        for (unsigned at = 2; at < 12; at++) { /* message id or token guessed wrong */
            forged = request;
            forged.data[at] ^= 1;
            fake_peer_reject(replay.origin, &forged, rows[i].error);
        }
        forged = request;
        forged.len = 11;
        fake_peer_reject(replay.origin, &forged, rows[i].error);
        fake_peer_expect_nothing(replay.client);
        fake_peer_reject(replay.origin, &request, rows[i].error);
        errors_expect(replay.client, rows[i].class, rows[i].detail, 0);
        assert_int_equal(replay_ended(&replay, rows[i].reason), 1);
        fake_peer_reject(replay.origin, &request, rows[i].error); /* late: ignored */
        fake_peer_expect_nothing(replay.client);
        errors_stop(&replay);
    }
}

/* ERR-8: silence, before and after an acknowledgement. */
static void test_origin_that_does_not_answer(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    errors_start(&replay, NULL);
    replay_ask(&replay, words("51 01 0001 aa", CRI));
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    errors_expect(replay.client, 5, 4, 93000);
    replay_ask(&replay, words("51 01 0002 ab", CRI));
    while (fake_peer_take(replay.origin, &request)) {
    }
    fake_net_run(0);
    assert_true(fake_peer_take(replay.origin, &request));
    fake_peer_reply(replay.origin, &request, "60 00 MID");
    fake_peer_expect_nothing_within(replay.origin, 94000);
    errors_expect(replay.client, 5, 4, 1000);
    assert_int_equal(replay_ended(&replay, REASON_origin_timeout), 2);
    /* What comes too late is rejected, and does not reach the client. */
    fake_peer_reply(replay.origin, &request, "4T 45 7001 TOKEN");
    fake_peer_expect(replay.origin, "70 00 7001", NULL);
    fake_peer_expect_nothing(replay.client);
    errors_stop(&replay);
}

/* ERR-9, also after an acknowledgement. */
static void test_origin_that_resets(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    errors_start(&replay, NULL);
    replay_ask(&replay, words("51 01 0001 aa", CRI));
    fake_peer_serve(replay.origin, UPSTREAM, "70 00 MID");
    errors_expect(replay.client, 5, 2, 0);
    replay_ask(&replay, words("51 01 0002 aa", CRI));
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    fake_peer_reply(replay.origin, &request, "60 00 MID");
    fake_peer_reply(replay.origin, &request, "70 00 MID");
    errors_expect(replay.client, 5, 2, 0);
    assert_int_equal(replay_ended(&replay, REASON_origin_reset), 2);
    errors_stop(&replay);
}

/* ERR-11: an answer that cannot be read is no answer; in the end it is 5.02, not 5.04. */
static void test_answers_with_format_errors(void **state)
{
    static const char *const broken[] = {
        "6T 45 MID TOKEN ff",
        "6T 45 MID TOKEN f0",
        "6T 45 MID TOKEN 15",
        "6f 45 MID",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        struct replay replay;
        struct fake_datagram request;
        errors_start(&replay, NULL);
        replay_ask(&replay, words("51 01 0001 aa", CRI));
        fake_peer_serve(replay.origin, UPSTREAM, broken[i]);
        fake_peer_expect_nothing_within(replay.client, 30000);
        errors_expect(replay.client, 5, 2, 93000);
        assert_int_equal(replay_ended(&replay, REASON_origin_invalid), 1);
        /* A corrupted one does no harm where a good one follows. */
        replay_ask(&replay, words("51 01 0002 ab", CRI));
        while (fake_peer_take(replay.origin, &request)) {
        }
        fake_net_run(0);
        assert_true(fake_peer_take(replay.origin, &request));
        fake_peer_reply(replay.origin, &request, broken[i]);
        fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN ff 31");
        fake_peer_expect(replay.client, "51 45 MID ab ff 31", NULL);
        errors_stop(&replay);
    }
}

static void test_answered_and_local(void **state)
{
    struct replay replay;
    (void)state;
    errors_start(&replay, NULL);
    replay_ask(&replay, words("41 01 0001 aa", "11=.well-known 11=core"));
    fake_peer_expect(replay.client, "61 45 0001 aa ...", NULL);
    replay_ask(&replay, words("41 01 0002 aa", CRI));
    fake_peer_serve(replay.origin, UPSTREAM, words("6T 45 MID TOKEN", "67:01"));
    errors_expect(replay.client, 5, 2, 0);
    errors_stop(&replay);
}

/* Answers that were kept: fresh, and when the origin server is gone. */
static void test_cached_and_stale(void **state)
{
    struct replay replay;
    (void)state;
    replay_start(&replay,
                 (const char *[]){"cache.max-bytes=1MiB", "cache.stale-if-error=1h", NULL});
    replay_ask(&replay, words("41 01 0001 aa", CRI));
    fake_peer_serve(replay.origin, UPSTREAM, words("6T 45 MID TOKEN", "14:01 /31"));
    fake_peer_expect(replay.client, words("61 45 0001 aa", "14:01 /31"), NULL);
    replay_ask(&replay, words("41 01 0002 aa", CRI));
    fake_peer_expect(replay.client, words("61 45 0002 aa", "14:01 /31"), NULL);
    fake_net_run(2000);
    replay_ask(&replay, words("41 01 0003 aa", CRI));
    fake_peer_serve(replay.origin, UPSTREAM, "70 00 MID");
    fake_peer_expect(replay.client, words("61 45 0003 aa", "14: /31"), NULL);
    errors_stop(&replay);
}

int errors_origins(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_icmp_errors),
        cmocka_unit_test(test_origin_that_does_not_answer),
        cmocka_unit_test(test_origin_that_resets),
        cmocka_unit_test(test_answers_with_format_errors),
        cmocka_unit_test(test_answered_and_local),
        cmocka_unit_test(test_cached_and_stale),
    };
    return cmocka_run_group_tests_name("origins", tests, NULL, NULL);
}
