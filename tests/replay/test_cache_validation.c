/* SPDX-License-Identifier: BSD-2-Clause */
/* What is kept, once it is no longer fresh: validated, invalidated, or given for want of better. */
#include "replay/talk.h"

#include "cache/store.h"

#include <stdio.h>

/* --- validation --------------------------------------------------------- */

static void test_validated(void **state) /* CACHE-11, CACHE-12 */
{
    struct talk talk;
    (void)state;
    talk_start(&talk);
    talk_fetch(&talk, 0x45, "4:01 12: 2048:aa /31");
    fake_net_run(61000);
    talk_ask(&talk, 0x01, CRI);
    talk_serve(&talk, 0x01, "3=h 4:01 11=x", 0x43, "4:01 14:0a 2048:bbcc 2052:dd");
    talk_expect(&talk, 0x45, "4:01 12: 14:0a 2048:bbcc 2052:dd /31");
    fake_net_run(4000);
    talk_hit(&talk, 0x45, "4:01 12: 14:06 2048:bbcc 2052:dd /31");
    fake_net_run(7000);
    talk_ask(&talk, 0x01, CRI);
    talk_serve(&talk, 0x01, "3=h 4:01 11=x", 0x43, "4:01"); /* absent again: 60 s */
    talk_expect(&talk, 0x45, "4:01 12: 2048:bbcc 2052:dd /31");
    assert_int_equal(replay_metric(&talk.replay, cache_validated), 2);
    assert_int_equal(replay_metric(&talk.replay, cache_stale), 2);
    talk_stop(&talk);
}

static void test_validated_for_a_client_that_has_it(void **state) /* CACHE-12 */
{
    struct talk talk;
    (void)state;
    talk_start(&talk);
    talk_fetch(&talk, 0x45, "4:01 12: /31");
    fake_net_run(61000);
    talk_ask(&talk, 0x01, "4:01 " CRI);
    talk_serve(&talk, 0x01, "3=h 4:01 11=x", 0x43, "4:01 14:0a");
    talk_expect(&talk, 0x43, "4:01 14:0a");
    talk_hit(&talk, 0x45, "4:01 12: 14:0a /31");
    talk_stop(&talk);
}

static void test_client_etag_on_a_hit(void **state) /* CACHE-13 */
{
    struct talk talk;
    (void)state;
    talk_start(&talk);
    talk_fetch(&talk, 0x45, "4:0102 12: /31");
    fake_net_run(20000);
    talk_ask(&talk, 0x01, "4:07 4:0102 " CRI);
    talk_expect(&talk, 0x43, "4:0102 14:28");
    talk_ask(&talk, 0x01, "4:07 " CRI);
    talk_expect(&talk, 0x45, "4:0102 12: 14:28 /31");
    talk_stop(&talk);
}

static void test_client_etags_go_with_ours(void **state) /* CACHE-14 */
{
    struct talk talk;
    (void)state;
    talk_start(&talk);
    talk_fetch(&talk, 0x45, "4:01 /31");
    fake_net_run(61000);
    talk_ask(&talk, 0x01, "4:07 " CRI);
    talk_serve(&talk, 0x01, "3=h 4:01 4:07 11=x", 0x43, "4:07");
    talk_expect(&talk, 0x43, "4:07");
    /* What is stored has not been confirmed, and 4:07 is not here. */
    talk_ask(&talk, 0x01, CRI);
    talk_serve(&talk, 0x01, "3=h 4:01 11=x", 0x43, "4:01");
    talk_expect(&talk, 0x45, "4:01 /31");
    /* On a miss. */
    talk_ask(&talk, 0x01, "4:07 35=coap://h/y");
    talk_serve(&talk, 0x01, "3=h 4:07 11=y", 0x43, "4:07");
    talk_expect(&talk, 0x43, "4:07");
    talk_ask(&talk, 0x01, "35=coap://h/y");
    talk_serve(&talk, 0x01, "3=h 11=y", 0x45, "/32");
    talk_expect(&talk, 0x45, "/32");
    talk_stop(&talk);
}

static void test_several_representations(void **state) /* CACHE-11 */
{
    struct talk talk;
    (void)state;
    talk_start(&talk);
    talk_fetch(&talk, 0x45, "4:01 14:01 /31");
    fake_net_run(1001);
    talk_ask(&talk, 0x01, CRI);
    talk_serve(&talk, 0x01, "3=h 4:01 11=x", 0x45, "4:02 14:01 /32");
    talk_expect(&talk, 0x45, "4:02 14:01 /32");
    fake_net_run(1001);
    talk_ask(&talk, 0x01, CRI); /* the state goes back to the first */
    talk_serve(&talk, 0x01, "3=h 4:02 4:01 11=x", 0x43, "4:01");
    talk_expect(&talk, 0x45, "4:01 /31");
    talk_hit(&talk, 0x45, "4:01 /31");
    talk_stop(&talk);
}

static void test_no_more_representations_than_four(void **state)
{
    char answer[32];
    struct talk talk;
    (void)state;
    talk_start(&talk);
    for (unsigned i = 1; i <= 9; i++) {
        struct fake_datagram request;
        talk_ask(&talk, 0x01, CRI);
        fake_peer_expect(talk.replay.origin, "48 01 MID TOKEN ...", &request);
        snprintf(answer, sizeof(answer), "4:%02x 14:01 /31", i);
        fake_peer_reply(talk.replay.origin, &request, words("6T 45 MID TOKEN", answer));
        talk_expect(&talk, 0x45, answer);
        fake_net_run(1001);
    }
    assert_int_equal(cache_store_count(&talk.replay.engine->fetch.cache),
                     CACHE_REPRESENTATIONS_MAX);
    talk_ask(&talk, 0x01, CRI);
    talk_serve(&talk, 0x01, "3=h 4:09 4:08 4:07 4:06 11=x", 0x43, "4:06");
    talk_expect(&talk, 0x45, "4:06 /31");
    talk_stop(&talk);
}

/* CACHE-15: what the origin server answers to a GET that asks about 4:01. */
static void test_broken_validation(void **state)
{
    static const struct {
        const char *id, *answer;
    } rows[] = {
        {"without ETag", ""},
        {"with a payload", "4:01 /31"},
        {"an ETag that was not asked for", "4:02"},
        {"an empty ETag", "4:"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct talk talk;
        print_message("    %s\n", rows[i].id);
        talk_start(&talk);
        talk_fetch(&talk, 0x45, "4:01 /31");
        fake_net_run(61000);
        talk_ask(&talk, 0x01, CRI);
        talk_serve(&talk, 0x01, "3=h 4:01 11=x", 0x43, rows[i].answer);
        fake_peer_expect(talk.replay.client, "61 a2 0003 aa ...", NULL);
        talk_ask(&talk, 0x01, CRI); /* the entry is as it was */
        talk_serve(&talk, 0x01, "3=h 4:01 11=x", 0x43, "4:01");
        talk_expect(&talk, 0x45, "4:01 /31");
        talk_stop(&talk);
    }
}

static void test_errors_are_not_validated(void **state) /* CACHE-16 */
{
    struct talk talk;
    (void)state;
    talk_start(&talk);
    talk_fetch(&talk, 0x84, "4:01 14:01 /31");
    fake_net_run(1001);
    talk_fetch(&talk, 0x45, "/32");
    assert_int_equal(cache_store_count(&talk.replay.engine->fetch.cache), 1);
    talk_stop(&talk);
}

static void test_validation_and_another_answer(void **state)
{
    struct talk talk;
    (void)state;
    talk_start(&talk);
    talk_fetch(&talk, 0x45, "4:01 14:01 /31");
    fake_net_run(1001);
    talk_ask(&talk, 0x01, CRI);
    talk_serve(&talk, 0x01, "3=h 4:01 11=x", 0x45, "/32"); /* without ETag */
    talk_expect(&talk, 0x45, "/32");
    talk_hit(&talk, 0x45, "/32");
    talk_stop(&talk);
}

/* The entry is flushed while it is being validated: those who asked have it all the same. */
static bool match_all(void *context, const struct target *target, uint32_t scheme)
{
    assert_int_equal(scheme, 0);
    assert_int_equal(target->port, 5683);
    assert_true(target->is_name && target->name_len == 1 && target->name[0] == 'h');
    assert_int_equal(target->path.count, 1);
    ++*(int *)context;
    return true;
}

static void test_flush_during_validation(void **state)
{
    struct talk talk;
    int matched = 0;
    (void)state;
    talk_start(&talk);
    talk_fetch(&talk, 0x45, "4:01 14:01 /31");
    fake_net_run(1001);
    talk_ask(&talk, 0x01, CRI);
    fake_net_run(0);
    assert_int_equal(cache_flush(&talk.replay.engine->fetch.cache, match_all, &matched), 1);
    assert_int_equal(matched, 1);
    talk_serve(&talk, 0x01, "3=h 4:01 11=x", 0x43, "4:01");
    talk_expect(&talk, 0x45, "4:01 /31");
    talk_fetch(&talk, 0x45, "/32");
    assert_int_equal(cache_flush(&talk.replay.engine->fetch.cache, match_all, &matched), 1);
    talk_fetch(&talk, 0x45, "/33");
    assert_int_equal(cache_store_count(&talk.replay.engine->fetch.cache), 1);
    talk_stop(&talk);
}

/* --- invalidation ------------------------------------------------------- */

struct change_row {
    const char *id;
    unsigned method, code;
    bool is_change;
};

static const struct change_row changes[] = {
    {"CACHE-17 PUT 2.04", 0x03, 0x44, true},
    {"CACHE-17 PUT 2.01", 0x03, 0x41, true},
    {"CACHE-17 POST 2.04", 0x02, 0x44, true},
    {"CACHE-17 POST 2.01", 0x02, 0x41, true},
    {"CACHE-17 DELETE 2.02", 0x04, 0x42, true},
    {"CACHE-17 PATCH 2.04", 0x06, 0x44, true},
    {"CACHE-17 iPATCH 2.04", 0x07, 0x44, true},
    {"CACHE-17 POST 2.05", 0x02, 0x45, true},
    {"an unknown success of PUT", 0x03, 0x5e, true},
    {"PUT 4.12", 0x03, 0x8c, false},
    {"DELETE 4.05", 0x04, 0x85, false},
    {"POST 5.03", 0x02, 0xa3, false},
};

static void test_changes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        const struct change_row *row = &changes[i];
        struct talk talk;
        print_message("    %s\n", row->id);
        talk_start(&talk);
        talk_fetch(&talk, 0x45, "4:01 /31");
        talk_ask(&talk, row->method, CRI);
        talk_serve(&talk, row->method, H_X, row->code, "");
        talk_expect(&talk, row->code, "");
        talk_ask(&talk, 0x01, CRI);
        if (row->is_change) {
            talk_serve(&talk, 0x01, "3=h 4:01 11=x", 0x43, "4:01");
        }
        talk_expect(&talk, 0x45, "4:01 /31");
        talk_hit(&talk, 0x45, "4:01 /31");
        talk_stop(&talk);
    }
}

static void test_change_covers_all_keys_of_the_target(void **state) /* CACHE-19 */
{
    static const char *const variants[] = {
        CRI, "17: " CRI, "17:32 " CRI, "65:07 " CRI, "65:08 " CRI,
    };
    const size_t count = sizeof(variants) / sizeof(variants[0]);
    struct talk talk;
    (void)state;
    talk_start(&talk);
    for (size_t i = 0; i < count; i++) {
        talk_ask(&talk, 0x01, variants[i]);
        fake_peer_serve(talk.replay.origin, "48 01 MID TOKEN ...", words("6T 45 MID TOKEN", "/31"));
        talk_expect(&talk, 0x45, "/31");
    }
    talk_ask(&talk, 0x05, CRI " /61");
    talk_serve(&talk, 0x05, H_X " /61", 0x45, "/31");
    talk_expect(&talk, 0x45, "/31");
    talk_ask(&talk, 0x01, "35=coap://h/y");
    talk_serve(&talk, 0x01, "3=h 11=y", 0x45, "/39");
    talk_expect(&talk, 0x45, "/39");
    talk_ask(&talk, 0x03, CRI " /32");
    talk_serve(&talk, 0x03, H_X " /32", 0x44, "");
    talk_expect(&talk, 0x44, "");
    assert_int_equal(replay_metric(&talk.replay, cache_entries), 1);
    assert_int_equal(replay_metric(&talk.replay, cache_invalidated), count + 1);
    talk_ask(&talk, 0x01, "35=coap://h/y");
    talk_expect(&talk, 0x45, "/39");
    talk_stop(&talk);
}

static void test_created_location_is_changed(void **state) /* CACHE-17 */
{
    struct talk talk;
    (void)state;
    talk_start(&talk);
    talk_ask(&talk, 0x01, "35=coap://h/l/m?q");
    talk_serve(&talk, 0x01, "3=h 11=l 11=m 15=q", 0x84, "");
    talk_expect(&talk, 0x84, "");
    talk_ask(&talk, 0x02, CRI);
    talk_serve(&talk, 0x02, H_X, 0x41, "8=l 8=m 20=q");
    talk_expect(&talk, 0x41, "8=l 8=m 20=q");
    talk_ask(&talk, 0x01, "35=coap://h/l/m?q");
    talk_serve(&talk, 0x01, "3=h 11=l 11=m 15=q", 0x45, "/31");
    talk_expect(&talk, 0x45, "/31");
    talk_stop(&talk);
}

static void test_block_of_an_upload_changes(void **state) /* CACHE-18 */
{
    struct talk talk;
    (void)state;
    talk_start(&talk);
    talk_fetch(&talk, 0x45, "/31");
    talk_ask(&talk, 0x03, "27:08 " CRI " /#16");
    fake_peer_serve(talk.replay.origin, words("48 03 MID TOKEN", H_X " 27:08 ..."),
                    words("6T 5f MID TOKEN", "27:08"));
    talk_expect(&talk, 0x5f, "27:08");
    talk_fetch(&talk, 0x45, "/32");
    talk_stop(&talk);
}

/* An answer that was asked for before a change is not kept after it. */
static void test_answer_overtaken_by_a_change(void **state)
{
    struct talk talk;
    struct fake_datagram get;
    (void)state;
    talk_start(&talk);
    replay_ask(&talk.replay, words("41 01 0101 a1", CRI));
    fake_peer_expect(talk.replay.origin, words("48 01 MID TOKEN", H_X), &get);
    talk_ask(&talk, 0x03, CRI " /32");
    talk_serve(&talk, 0x03, H_X " /32", 0x44, "");
    talk_expect(&talk, 0x44, "");
    fake_peer_reply(talk.replay.origin, &get, words("6T 45 MID TOKEN", "/31"));
    fake_peer_expect(talk.replay.client, words("61 45 0101 a1", "/31"), NULL);
    talk_fetch(&talk, 0x45, "/32");
    talk_stop(&talk);
}

/* A change that may have happened counts as one. */
static void test_unsafe_request_without_an_answer(void **state)
{
    struct talk talk;
    (void)state;
    talk_start_with(&talk, "proxy.request-timeout=1s", NULL);
    talk_fetch(&talk, 0x45, "/31");
    talk_ask(&talk, 0x03, CRI " /32");
    fake_peer_expect(talk.replay.origin, words("48 03 MID TOKEN", H_X " /32"), NULL);
    fake_net_run(250);
    fake_peer_expect(talk.replay.client, "60 00 0003", NULL);
    struct fake_datagram answer;
    fake_peer_expect_within(talk.replay.client, 1000, "41 a4 MID aa ...", &answer);
    fake_peer_reply(talk.replay.client, &answer, "60 00 MID");
    talk_fetch(&talk, 0x45, "/32");
    talk_stop(&talk);
}

/* --- when the origin server fails --------------------------------------- */

static void keep_one(struct talk *talk, const char *stale)
{
    talk_start_with(talk, stale, "proxy.request-timeout=1s");
    talk_fetch(talk, 0x45, "4:01 14:0a /31");
    fake_net_run(20000);
    talk_ask(talk, 0x01, CRI);
}

static void test_stale_if_error(void **state)
{
    static const struct {
        const char *id;
        unsigned code;
        const char *answer;
        bool is_failure;
    } rows[] = {
        {"5.00", 0xa0, "", true},  {"5.02", 0xa2, "", true},  {"5.03", 0xa3, "", true},
        {"5.04", 0xa4, "", true},  {"5.01", 0xa1, "", false}, {"4.04", 0x84, "", false},
        {"4.29", 0x9d, "", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct talk talk;
        print_message("    %s\n", rows[i].id);
        keep_one(&talk, "cache.stale-if-error=30s");
        talk_serve(&talk, 0x01, "3=h 4:01 11=x", rows[i].code, rows[i].answer);
        if (rows[i].is_failure) {
            talk_expect(&talk, 0x45, "4:01 14: /31");
        } else {
            talk_expect(&talk, rows[i].code, rows[i].answer);
        }
        assert_int_equal(replay_ended(&talk.replay, REASON_stale), rows[i].is_failure ? 1 : 0);
        talk_stop(&talk);
    }
}

static void test_stale_if_the_origin_is_gone(void **state)
{
    struct talk talk;
    (void)state;
    keep_one(&talk, "cache.stale-if-error=30s");
    fake_peer_serve(talk.replay.origin, words("48 01 MID TOKEN", "3=h 4:01 11=x"), "70 00 MID");
    talk_expect(&talk, 0x45, "4:01 14: /31");
    fake_net_refuse("192.0.2.5:5683", 111);
    talk_ask(&talk, 0x01, "4:01 " CRI);
    fake_peer_expect(talk.replay.client, words("61 43 0004 aa", "4:01 14:"), NULL);
    fake_net_run(20001); /* 30 s past its 10 s */
    talk_ask(&talk, 0x01, CRI);
    fake_peer_expect(talk.replay.client, "61 a2 0005 aa ...", NULL);
    talk_stop(&talk);
}

static void test_nothing_stale_unless_configured(void **state)
{
    struct talk talk;
    keep_one(&talk, "cache.stale-if-error=0s");
    (void)state;
    talk_serve(&talk, 0x01, "3=h 4:01 11=x", 0xa3, "");
    talk_expect(&talk, 0xa3, "");
    talk_stop(&talk);
}

/* What an unsafe request has changed is never given for a failure. */
static void test_nothing_stale_that_was_changed(void **state)
{
    struct talk talk;
    (void)state;
    talk_start_with(&talk, "cache.stale-if-error=1h", NULL);
    talk_fetch(&talk, 0x45, "4:01 /31");
    talk_ask(&talk, 0x03, CRI " /32");
    talk_serve(&talk, 0x03, H_X " /32", 0x44, "");
    talk_expect(&talk, 0x44, "");
    talk_ask(&talk, 0x01, CRI);
    talk_serve(&talk, 0x01, "3=h 4:01 11=x", 0xa3, "");
    talk_expect(&talk, 0xa3, "");
    talk_stop(&talk);
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_validated),
        TEST(test_validated_for_a_client_that_has_it),
        TEST(test_client_etag_on_a_hit),
        TEST(test_client_etags_go_with_ours),
        TEST(test_several_representations),
        TEST(test_no_more_representations_than_four),
        TEST(test_broken_validation),
        TEST(test_errors_are_not_validated),
        TEST(test_validation_and_another_answer),
        TEST(test_flush_during_validation),
        TEST(test_changes),
        TEST(test_change_covers_all_keys_of_the_target),
        TEST(test_created_location_is_changed),
        TEST(test_block_of_an_upload_changes),
        TEST(test_answer_overtaken_by_a_change),
        TEST(test_unsafe_request_without_an_answer),
        TEST(test_stale_if_error),
        TEST(test_stale_if_the_origin_is_gone),
        TEST(test_nothing_stale_unless_configured),
        TEST(test_nothing_stale_that_was_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
