/* SPDX-License-Identifier: BSD-2-Clause */
/* The cache: CACHE of the conformance list, with HOP-7 and what OSC and RATE say of it. */
#include "replay/talk.h"

#include "cache/store.h"

#include <stdio.h>
#include <string.h>

#define TRAIL "/63726970726f78792070" /* "criproxy p" */

/* --- keys --------------------------------------------------------------- */

/* TGT-13, PXO-13, PXO-23, CMP-7: what names the target does not matter, nor what is overridden. */
static void test_forms_share_an_entry(void **state)
{
    static const char *const forms[] = {
        "35=coap://h/x",
        "35=coap://H:5683/%78",
        "3=h 11=x 39=coap",
        "3=H 11=x 239:",
        "235:8320816168816178",
        "3=other 11=z 235:8320816168816178",
        "35=coap://other/z 235:8320816168816178",
    };
    const unsigned count = sizeof(forms) / sizeof(forms[0]);
    struct talk talk;
    (void)state;
    talk_start(&talk);
    talk_fetch(&talk, 0x45, "/31");
    for (unsigned i = 0; i < count; i++) {
        talk_ask(&talk, 0x01, forms[i]);
        talk_expect(&talk, 0x45, "/31");
    }
    assert_int_equal(replay_metric(&talk.replay, cache_hits), count);
    assert_int_equal(replay_ended(&talk.replay, REASON_cached), count);
    talk_stop(&talk);
}

static void test_an_empty_path_is_a_slash(void **state) /* O2C-9, AMB-38 */
{
    static const char *const spellings[] = {
        "35=coap://h", "35=coap://h/", "235:8220816168", "235:83208161688160", "3=h 11= 239:",
    };
    struct talk talk;
    (void)state;
    talk_start(&talk);
    talk_ask(&talk, 0x01, "3=h 239:");
    talk_serve(&talk, 0x01, "3=h", 0x45, "/31");
    talk_expect(&talk, 0x45, "/31");
    for (size_t i = 0; i < sizeof(spellings) / sizeof(spellings[0]); i++) {
        talk_ask(&talk, 0x01, spellings[i]);
        talk_expect(&talk, 0x45, "/31");
    }
    talk_stop(&talk);
}

/* CMP-9: the same authority under another scheme is another target. */
static void test_schemes_do_not_share(void **state)
{
    struct talk talk;
    (void)state;
    talk_start_with(&talk, "scheme lab.number=60000", "scheme lab.transport=udp");
    talk_fetch(&talk, 0x45, "/31");
    talk_ask(&talk, 0x01, "3=h 7:1633 11=x 39=lab");
    talk_serve(&talk, 0x01, H_X, 0x45, "/32");
    talk_expect(&talk, 0x45, "/32");
    talk_hit(&talk, 0x45, "/31");
    talk_stop(&talk);
}

/* A request after "GET coap://h/x" was stored, and what of it goes upstream; NULL: a hit. */
struct matrix_row {
    const char *id;
    unsigned code;
    const char *request, *upstream;
};

static const struct matrix_row matrix[] = {
    {"CACHE-1 the same", 0x01, CRI, NULL},
    {"CACHE-1 Accept", 0x01, "17:32 " CRI, H_X " 17:32"},
    {"CACHE-1 path", 0x01, "35=coap://h/x/", "3=h 11=x 11="},
    {"CACHE-1 query", 0x01, "35=coap://h/x?a", "3=h 11=x 15=a"},
    {"CACHE-1 unknown option", 0x01, "65:01 " CRI, H_X " 65:01"},
    {"CACHE-2 unknown option, NoCacheKey", 0x01, CRI " 2044:01", NULL},
    {"CACHE-2 If-Match", 0x01, "1:01 " CRI, "1:01 3=h 11=x"},
    {"CACHE-2 Size2", 0x01, "28: " CRI, NULL},
    {"CACHE-2 No-Response", 0x01, CRI " 258:08", NULL},
    {"CACHE-4 POST", 0x02, CRI, H_X},
    {"CACHE-5 FETCH", 0x05, CRI, H_X},
    {"CACHE-5 FETCH with a body", 0x05, CRI " /61", H_X " /61"},
    {"CACHE-23 OSCORE", 0x01, "9:01 " CRI, "3=h 9:01 11=x"},
    {"CACHE-23 EDHOC", 0x01, "21: " CRI, H_X " 21:"},
    {"CACHE-27 Echo", 0x01, CRI " 252:01", H_X " 252:01"},
    {"CACHE-28 Observe", 0x01, "6:01 " CRI, NULL},
    {"HOP-8 Hop-Limit", 0x01, "16:05 " CRI, NULL},
    {"BLK a block of what is here as a whole", 0x01, "23:06 " CRI, NULL},
};

static void test_matrix_of_keys(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(matrix) / sizeof(matrix[0]); i++) {
        const struct matrix_row *row = &matrix[i];
        struct talk talk;
        print_message("    %s\n", row->id);
        talk_start(&talk);
        talk_fetch(&talk, 0x45, "/31");
        talk_ask(&talk, row->code, row->request);
        if (row->upstream != NULL) {
            talk_serve(&talk, row->code, row->upstream, 0x45, "/32");
        }
        talk_expect(&talk, 0x45, row->upstream != NULL ? "/32" : "/31");
        talk_stop(&talk);
    }
}

static void test_fetch_by_body(void **state) /* CACHE-5, CACHE-26 */
{
    struct talk talk;
    (void)state;
    talk_start(&talk);
    talk_ask(&talk, 0x05, "12:28 " CRI " /61");
    talk_serve(&talk, 0x05, "3=h 11=x 12:28 /61", 0x45, "/41");
    talk_expect(&talk, 0x45, "/41");
    talk_ask(&talk, 0x05, "12:28 " CRI " /62");
    talk_serve(&talk, 0x05, "3=h 11=x 12:28 /62", 0x45, "/42");
    talk_expect(&talk, 0x45, "/42");
    talk_ask(&talk, 0x05, "12:28 " CRI " 292:07 /61");
    talk_expect(&talk, 0x45, "/41");
    talk_ask(&talk, 0x05, "12:28 " CRI " /62");
    talk_expect(&talk, 0x45, "/42");
    talk_ask(&talk, 0x05, "12:29 " CRI " /62"); /* Content-Format */
    talk_serve(&talk, 0x05, "3=h 11=x 12:29 /62", 0x45, "/43");
    talk_expect(&talk, 0x45, "/43");
    talk_stop(&talk);
}

/* --- what is stored ----------------------------------------------------- */

struct storing_row {
    const char *id;
    unsigned code;
    const char *answer;
    bool is_stored;
};

static const struct storing_row storing[] = {
    {"CACHE-3 2.05", 0x45, "/31", true},
    {"CACHE-3 2.01", 0x41, "", false},
    {"CACHE-3 2.02", 0x42, "", false},
    {"CACHE-3 2.04", 0x44, "/31", false},
    {"CACHE-3 unknown 2.xx", 0x5e, "/31", false},
    {"CACHE-3 4.04", 0x84, "/31", true},
    {"CACHE-3 unknown 4.xx", 0x9d, "/31", true},
    {"CACHE-3 5.00", 0xa0, "/31", true},
    {"CACHE-25 5.03", 0xa3, "14:0a /31", true},
    {"RATE-5 4.29", 0x9d, "14:0a", true},
    {"CACHE-6 Max-Age 0", 0x45, "14: /31", false},
    {"CACHE-24 4.01", 0x81, "", false},
    {"CACHE-24 Echo", 0x45, "252:01", false},
    {"CACHE-24 4.01 with Echo", 0x81, "252:01", false},
    {"CACHE-23 OSCORE", 0x45, "9: /31", false},
    {"OSC-10 Max-Age 0 of an error", 0x80, "14:", false},
    {"OPT-18 two ETags", 0x45, "4:01 4:02 /31", false},
    {"CACHE-29 a block without ETag", 0x45, "23:08 /#16", false},
    {"CACHE-29 a block with ETag", 0x45, "4:01 23:08 /#16", true},
};

static void test_what_is_stored(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(storing) / sizeof(storing[0]); i++) {
        const struct storing_row *row = &storing[i];
        struct talk talk;
        print_message("    %s\n", row->id);
        talk_start(&talk);
        talk_fetch(&talk, row->code, row->answer);
        if (row->is_stored) {
            talk_hit(&talk, row->code, row->answer);
        } else {
            talk_fetch(&talk, 0x45, "/32");
        }
        talk_stop(&talk);
    }
}

static void test_answers_to_oscore_are_not_stored(void **state) /* OSC-4 */
{
    struct talk talk;
    (void)state;
    talk_start(&talk);
    for (int i = 0; i < 2; i++) {
        talk_ask(&talk, 0x05, "9:01 " CRI " /61");
        talk_serve(&talk, 0x05, "3=h 9:01 11=x /61", 0x45, "9: /62");
        talk_expect(&talk, 0x45, "9: /62");
        talk_ask(&talk, 0x02, "9:01 " CRI " /61");
        talk_serve(&talk, 0x02, "3=h 9:01 11=x /61", 0x44, "9: /63");
        talk_expect(&talk, 0x44, "9: /63");
    }
    talk_stop(&talk);
}

static void test_post_is_not_answered(void **state) /* CACHE-4 */
{
    struct talk talk;
    (void)state;
    talk_start(&talk);
    for (int i = 0; i < 2; i++) {
        talk_ask(&talk, 0x02, CRI);
        talk_serve(&talk, 0x02, H_X, 0x84, "");
        talk_expect(&talk, 0x84, "");
    }
    talk_stop(&talk);
}

static void test_observe_is_left_out(void **state) /* CACHE-28, OBS-28 */
{
    struct talk talk;
    (void)state;
    talk_start(&talk);
    talk_ask(&talk, 0x01, CRI);
    talk_serve(&talk, 0x01, H_X, 0x45, "6:05 /31");
    talk_expect(&talk, 0x45, "/31");
    talk_hit(&talk, 0x45, "/31");
    talk_stop(&talk);
}

/* CACHE-28, OBS-28: an observation keeps the cache up to date. */
static void test_notifications_are_kept(void **state)
{
    struct talk talk;
    struct fake_datagram registration;
    (void)state;
    talk_start(&talk);
    struct fake_peer *reader = fake_peer_new("192.0.2.8:40001");
    talk_fetch(&talk, 0x45, "4:01 /30");
    talk_ask(&talk, 0x01, "6: " CRI); /* a registration is not answered from here */
    fake_peer_expect(talk.replay.origin, words("48 01 MID TOKEN", "3=h 6: 11=x"), &registration);
    fake_peer_reply(talk.replay.origin, &registration,
                    words("6T 45 MID TOKEN", "4:02 6:02 14:0a /31"));
    fake_peer_expect(talk.replay.client, "61 45 0003 aa ...", NULL);
    fake_peer_send(reader, PROXY, words("41 01 0001 bb", CRI));
    fake_peer_expect(reader, words("61 45 0001 bb", "4:02 14:0a /31"), NULL);
    fake_net_run(4000);
    fake_peer_reply(talk.replay.origin, &registration,
                    words("5T 45 7777 TOKEN", "4:03 6:03 14:0a /32"));
    fake_net_run(1000);
    fake_peer_send(reader, PROXY, words("41 01 0002 bb", CRI));
    fake_peer_expect(reader, words("61 45 0002 bb", "4:03 14:09 /32"), NULL);
    /* One that is late is not newer (OBS-13). */
    fake_peer_reply(talk.replay.origin, &registration,
                    words("5T 45 7778 TOKEN", "4:04 6:02 14:0a /33"));
    fake_peer_send(reader, PROXY, words("41 01 0003 bb", CRI));
    fake_peer_expect(reader, words("61 45 0003 bb", "4:03 14:09 /32"), NULL);
    /* The resource is deleted: that is known, too, and the observation over. */
    fake_peer_reply(talk.replay.origin, &registration, words("5T 84 7779 TOKEN", "14:05"));
    fake_peer_send(reader, PROXY, words("41 01 0004 bb", CRI));
    fake_peer_expect(reader, words("61 84 0004 bb", "14:05"), NULL);
    fake_peer_expect_nothing(talk.replay.origin);
    for (int i = 0; i < 10; i++) { /* the observer takes its notifications, and the last word */
        struct fake_datagram datagram;
        fake_net_run(1000);
        while (fake_peer_take(talk.replay.client, &datagram)) {
            fake_peer_reply(talk.replay.client, &datagram, "60 00 MID");
        }
    }
    talk_stop(&talk);
}

static void test_off(void **state) /* CACHE-33 */
{
    struct talk talk;
    (void)state;
    talk_start_with(&talk, "cache.max-bytes=0", NULL);
    talk_fetch(&talk, 0x45, "/31");
    talk_fetch(&talk, 0x45, "/31");
    talk_stop(&talk);
}

/* --- freshness ---------------------------------------------------------- */

/* Max-Age as stored (NULL: absent), the time that passes, and as it comes out (NULL: a miss). */
struct age_row {
    const char *id, *stored;
    uint64_t ms;
    const char *served;
};

static const struct age_row ages[] = {
    {"CACHE-8 at once, 60 is implied", "", 0, ""},
    {"CACHE-8 half a second later", "", 500, "14:3b"},
    {"CACHE-6 after 59 s", "", 59000, "14:01"},
    {"CACHE-7 after 60 s", "", 60000, "14:"},
    {"CACHE-7 a moment later", "", 60001, NULL},
    {"CACHE-6 after 61 s", "", 61000, NULL},
    {"CACHE-8 60, written out", "14:3c", 20000, "14:28"},
    {"CACHE-8 down to 60", "14:46", 10000, ""},
    {"CACHE-7 1 s", "14:01", 1000, "14:"},
    {"CACHE-7 1 s, over", "14:01", 1001, NULL},
    {"CACHE-9 the longest there is", "14:ffffffff", 1000, "14:fffffffe"},
    {"CACHE-9 within the cap", "14:ffffffff", 86400000, "14:fffeae7f"},
    {"CACHE-9 beyond the cap", "14:ffffffff", 86400001, NULL},
};

static void test_ages(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(ages) / sizeof(ages[0]); i++) {
        const struct age_row *row = &ages[i];
        char answer[64];
        struct talk talk;
        print_message("    %s\n", row->id);
        talk_start(&talk);
        snprintf(answer, sizeof(answer), "12: %s 20=q /31", row->stored);
        talk_fetch(&talk, 0x45, answer);
        fake_net_run(row->ms);
        if (row->served == NULL) {
            talk_fetch(&talk, 0x45, "/32");
        } else {
            snprintf(answer, sizeof(answer), "12: %s 20=q /31", row->served);
            talk_hit(&talk, 0x45, answer);
        }
        talk_stop(&talk);
    }
}

static void test_newer_replaces(void **state) /* CACHE-10 */
{
    struct talk talk;
    (void)state;
    talk_start(&talk);
    talk_fetch(&talk, 0x45, "14:01 /31");
    fake_net_run(1001);
    talk_fetch(&talk, 0x45, "/3233");
    talk_hit(&talk, 0x45, "/3233");
    fake_net_run(60001);
    talk_fetch(&talk, 0x84, "/34");
    talk_hit(&talk, 0x84, "/34");
    assert_int_equal(cache_store_count(&talk.replay.engine->cache), 1);
    talk_stop(&talk);
}

/* --- who is served ------------------------------------------------------ */

static void test_hop_limit_reached_is_for_who_may_go_no_further(void **state) /* CACHE-31, HOP-7 */
{
    struct talk talk;
    (void)state;
    talk_start(&talk);
    talk_ask(&talk, 0x01, "16:04 " CRI);
    talk_serve(&talk, 0x01, "3=h 11=x 16:03", 0xa8, "/70");
    talk_expect(&talk, 0xa8, TRAIL);
    talk_ask(&talk, 0x01, "16:04 " CRI);
    talk_expect(&talk, 0xa8, TRAIL);
    talk_ask(&talk, 0x01, "16:02 " CRI);
    talk_expect(&talk, 0xa8, TRAIL);
    talk_ask(&talk, 0x01, "16:05 " CRI);
    talk_serve(&talk, 0x01, "3=h 11=x 16:04", 0x45, "/31");
    talk_expect(&talk, 0x45, "/31");
    talk_stop(&talk);
}

static void test_hop_limit_zero_is_refused_all_the_same(void **state) /* HOP-2 */
{
    struct talk talk;
    (void)state;
    talk_start(&talk);
    talk_fetch(&talk, 0x45, "/31");
    talk_ask(&talk, 0x01, "16:00 " CRI);
    fake_peer_expect(talk.replay.client, "61 80 0003 aa ...", NULL);
    talk_stop(&talk);
}

static void test_no_response_holds_for_hits(void **state) /* NOR-6 */
{
    struct talk talk;
    (void)state;
    talk_start(&talk);
    talk_fetch(&talk, 0x45, "/31");
    talk_ask(&talk, 0x01, CRI " 258:02");
    fake_peer_expect(talk.replay.client, "60 00 0003", NULL);
    fake_peer_expect_nothing(talk.replay.client);
    replay_ask(&talk.replay, words("51 01 0004 aa", CRI " 258:02"));
    fake_peer_expect_nothing_within(talk.replay.client, 1000);
    talk_stop(&talk);
}

static void test_hit_for_a_non_request_and_its_repetition(void **state)
{
    struct talk talk;
    (void)state;
    talk_start(&talk);
    talk_fetch(&talk, 0x45, "/31");
    replay_ask(&talk.replay, words("51 01 0009 bb", CRI));
    fake_peer_expect(talk.replay.client, words("51 45 MID bb", "/31"), NULL);
    talk_hit(&talk, 0x45, "/31");
    replay_ask(&talk.replay, words("41 01 0003 aa", CRI)); /* the same message again */
    fake_peer_expect(talk.replay.client, words("61 45 0003 aa", "/31"), NULL);
    assert_int_equal(replay_metric(&talk.replay, cache_hits), 2);
    assert_int_equal(replay_metric(&talk.replay, requests_duplicate), 1);
    talk_stop(&talk);
}

/* --- blocks ------------------------------------------------------------- */

static void test_blocks_of_one_body(void **state) /* CACHE-29 */
{
    struct talk talk;
    (void)state;
    talk_start(&talk);
    talk_fetch(&talk, 0x45, "4:01 23:08 /#16");
    talk_ask(&talk, 0x01, "23:10 " CRI);
    talk_serve(&talk, 0x01, "3=h 11=x 23:10", 0x45, "4:01 23:10 /62");
    talk_expect(&talk, 0x45, "4:01 23:10 /62");
    talk_hit(&talk, 0x45, "4:01 23:08 /#16");
    talk_ask(&talk, 0x01, "23:10 " CRI);
    talk_expect(&talk, 0x45, "4:01 23:10 /62");
    /* A block past the end says nothing about the others. */
    talk_ask(&talk, 0x01, "23:f0 " CRI);
    talk_serve(&talk, 0x01, "3=h 11=x 23:f0", 0x80, "");
    talk_expect(&talk, 0x80, "");
    talk_hit(&talk, 0x45, "4:01 23:08 /#16");
    /* But a block of another representation does. */
    talk_ask(&talk, 0x01, "23:20 " CRI);
    talk_serve(&talk, 0x01, "3=h 11=x 23:20", 0x45, "4:02 23:20 /63");
    talk_expect(&talk, 0x45, "4:02 23:20 /63");
    talk_ask(&talk, 0x01, CRI);
    talk_serve(&talk, 0x01, "3=h 4:01 11=x", 0x45, "4:02 23:08 /#16");
    talk_expect(&talk, 0x45, "4:02 23:08 /#16");
    talk_ask(&talk, 0x01, "23:10 " CRI);
    talk_serve(&talk, 0x01, "3=h 4:01 11=x 23:10", 0x45, "4:02 23:10 /64");
    talk_expect(&talk, 0x45, "4:02 23:10 /64");
    talk_stop(&talk);
}

/* A body that is here as a whole is there for those who ask for it in blocks. */
static void test_blocks_of_a_whole_body(void **state)
{
    struct talk talk;
    (void)state;
    talk_start(&talk);
    talk_ask(&talk, 0x01, "23:06 " CRI); /* early negotiation; the answer needs no blocks */
    talk_serve(&talk, 0x01, H_X " 23:06", 0x45, "4:01 23:06 /#40");
    talk_expect(&talk, 0x45, "4:01 23:06 /#40");
    talk_hit(&talk, 0x45, "4:01 /#40");
    talk_ask(&talk, 0x01, "23:00 " CRI);
    talk_expect(&talk, 0x45, "4:01 23:08 28:28 /#16");
    talk_ask(&talk, 0x01, "23:20 " CRI);
    talk_expect(&talk, 0x45, "4:01 23:20 /#8");
    /* Stale: a 2.03 is enough. */
    fake_net_run(60001);
    talk_ask(&talk, 0x01, "23:00 " CRI);
    talk_serve(&talk, 0x01, "3=h 4:01 11=x 23:00", 0x43, "4:01");
    talk_expect(&talk, 0x45, "4:01 23:08 28:28 /#16");
    talk_hit(&talk, 0x45, "4:01 /#40");
    talk_stop(&talk);
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_forms_share_an_entry),
        TEST(test_an_empty_path_is_a_slash),
        TEST(test_schemes_do_not_share),
        TEST(test_matrix_of_keys),
        TEST(test_fetch_by_body),
        TEST(test_what_is_stored),
        TEST(test_answers_to_oscore_are_not_stored),
        TEST(test_post_is_not_answered),
        TEST(test_observe_is_left_out),
        TEST(test_notifications_are_kept),
        TEST(test_off),
        TEST(test_ages),
        TEST(test_newer_replaces),
        TEST(test_hop_limit_reached_is_for_who_may_go_no_further),
        TEST(test_hop_limit_zero_is_refused_all_the_same),
        TEST(test_no_response_holds_for_hits),
        TEST(test_hit_for_a_non_request_and_its_repetition),
        TEST(test_blocks_of_one_body),
        TEST(test_blocks_of_a_whole_body),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
