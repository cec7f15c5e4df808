/* SPDX-License-Identifier: BSD-2-Clause */
/* What is kept, once it is no longer fresh: validated, invalidated, or given for want of better. */
#include "replay/talk.h"

#include "cache/store.h"

#include <stdio.h>

/* --- validation --------------------------------------------------------- */

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

/* --- when the origin server fails --------------------------------------- */

static void keep_one(struct talk *talk, const char *stale)
{
    talk_start_with(talk, stale, "proxy.request-timeout=1s");
    talk_fetch(talk, 0x45, "4:01 14:0a /31");
    fake_net_run(20000);
    talk_ask(talk, 0x01, CRI);
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

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_no_more_representations_than_four),
        TEST(test_flush_during_validation),
        TEST(test_changes),
        TEST(test_stale_if_the_origin_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
