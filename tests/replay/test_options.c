/* SPDX-License-Identifier: BSD-2-Clause */
/* Options on their way through the proxy: OPT, HOP and NOR of the conformance list. */
#include "replay/replay.h"
#include "replay/words.h"

#include "coap/option.h"

#include <stdio.h>
#include <string.h>

/* Proxy-Cri for coap://h/x, as the body of a request; what comes of it upstream. */
#define CRI "235:8320816168816178"
#define H_X "3=h 11=x"

/* A request's options and what of them goes upstream, or the code of the refusal. */
struct request_row {
    const char *id;
    const char *options;
    const char *upstream; /* NULL: refused with 4.02 */
    const char *names;    /* a word of the refusal's diagnostic */
};

static const struct request_row passed[] = {
    {"OPT-2 critical, safe", "65:01 " CRI, H_X " 65:01", NULL},
    {"OPT-2 elective, safe", "64:0102 " CRI, H_X " 64:0102", NULL},
    {"OPT-2 Uri-Path-Abbrev", "13:01 " CRI, H_X " 13:01", NULL},
    {"OPT-2 a number of 16 bits", CRI " 65000:01 65533:02", H_X " 65000:01 65533:02", NULL},
    {"OPT-2 a long value", CRI " 2048#700", H_X " 2048#700", NULL},
    {"OPT-10 two Accept", "17:32 17:3c " CRI, H_X " 17:32 17:3c", NULL},
    {"OPT-10 Content-Format of 3 bytes", "12:000032 " CRI, "3=h 11=x 12:000032", NULL},
    {"OPT-10 Accept of 3 bytes", "17:000032 " CRI, H_X " 17:000032", NULL},
    {"OPT-10 ETag of 9 bytes", "4:010203040506070809 " CRI, "3=h 4:010203040506070809 11=x", NULL},
    {"OPT-10 ETag of 0 bytes", "4: " CRI, "3=h 4: 11=x", NULL},
    {"OPT-10 If-Match of 9 bytes", "1:010203040506070809 " CRI, "1:010203040506070809 3=h 11=x",
     NULL},
    {"OPT-10 Size1 of 5 bytes", "60:0000000001 " CRI, H_X " 60:0000000001", NULL},
    {"OPT-11 repeated, in order", CRI " 292:02 292:01 292:02", H_X " 292:02 292:01 292:02", NULL},
    {"OPT-11 around what is consumed", "1:aa 4:bb 8=l 9:01 12:28 17:28 20=m " CRI " 252:07",
     "1:aa 3=h 4:bb 8=l 9:01 11=x 12:28 17:28 20=m 252:07", NULL},
    {"OPT-15 If-Match", "1: 1:0102 1:0001 " CRI, "1: 1:0102 1:0001 3=h 11=x", NULL},
    {"OPT-15 ETag with leading zeros", "4:0001 4:01 4:00 " CRI, "3=h 4:0001 4:01 4:00 11=x", NULL},
    {"OPT-15 If-None-Match", "5: " CRI, "3=h 5: 11=x", NULL},
    {"OPT-15 Content-Format, Accept", "12:32 17:3c " CRI, H_X " 12:32 17:3c", NULL},
    {"OPT-15 Location-Path and -Query", "8=a 8= 20=b " CRI, "3=h 8=a 8= 11=x 20=b", NULL},
    {"OPT-15 Size1, Size2", "28: 60:0400 " CRI, H_X " 28: 60:0400", NULL},
    {"OPT-15 Echo, Request-Tag", CRI " 252:0102 292:", H_X " 252:0102 292:", NULL},
    {"OPT-15 OSCORE, EDHOC", "9:0914 21: " CRI, "3=h 9:0914 11=x 21:", NULL},
    {"BLK passed through", "23:06 27:06 " CRI, H_X " 23:06 27:06 ...", NULL},
    {"OPT-12 nothing is made up", CRI " /6f6b", H_X " /6f6b", NULL},
    {"OPT-14 Observe is consumed, and asked for anew", "6: " CRI, "3=h 6: 11=x", NULL},
    {"OPT-17 If-None-Match with a value", "5:00 " CRI, "3=h 5:00 11=x", NULL},
    {"OPT-17 leading zeros", "12:0032 17:0000 60:00000001 " CRI, H_X " 12:0032 17:0000 60:00000001",
     NULL},
    {"OPT-20 number 0", "0:01 " CRI, "0:01 3=h 11=x", NULL},
    {"NOR-4 No-Response is consumed", CRI " 258:02", H_X, NULL},
    {"payload with markers", CRI " /ffff00ff", H_X " /ffff00ff", NULL},
};

static const struct request_row refused[] = {
    {"OPT-3 elective, unsafe", "34:05 " CRI, NULL, " 34"},
    {"OPT-3 critical, unsafe", "67:05 " CRI, NULL, " 67"},
    {"OPT-3 behind the target", CRI " 1027:", NULL, " 1027"},
    {"OPT-9 Max-Age", "14:3c " CRI, NULL, " 14"},
    {"OPT-10 two Uri-Host", "3=h 3=h 239:", NULL, " 3"},
    {"OPT-10 two Uri-Port", "3=h 7:1633 7:1633 239:", NULL, " 7"},
    {"OPT-10 Uri-Port of 3 bytes", "3=h 7:001633 239:", NULL, " 7"},
    {"OPT-10 Uri-Path of 256 bytes", "3=h 11#256 239:", NULL, " 11"},
    {"OPT-10 Uri-Query of 256 bytes", "3=h 15#256 239:", NULL, " 15"},
    {"OPT-10 Uri-Host of 0 bytes", "3= 239:", NULL, " 3"},
    {"OPT-10 Uri-Host of 256 bytes", "3#256 239:", NULL, " 3"},
    {"OPT-10 Observe of 4 bytes", "6:00000000 " CRI, NULL, " 6"},
    {"OPT-10 two Observe", "6: 6: " CRI, NULL, " 6"},
    {"OPT-10 Block2 of 4 bytes", "23:00000000 " CRI, NULL, " 23"},
    {"NOR-1 No-Response of 2 bytes", CRI " 258:0002", NULL, " 258"},
    {"NOR-1 two No-Response", CRI " 258:02 258:02", NULL, " 258"},
    {"Q-Block1 is not built", "19:08 " CRI, NULL, " 19"},
    {"Q-Block2 is not built", "31:08 " CRI, NULL, " 31"},
};

static void run_passed(const struct request_row *row, const char *type, const char *answer)
{
    struct replay replay;
    struct fake_datagram request;
    char head[32];
    print_message("    %s\n", row->id);
    replay_start(&replay, NULL);
    snprintf(head, sizeof(head), "%s1 01 0001 aa", type);
    replay_ask(&replay, words(head, row->options));
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", row->upstream), &request);
    fake_peer_reply(replay.origin, &request, "6T 84 MID TOKEN");
    /* No class that No-Response = 2 leaves out. */
    fake_peer_expect(replay.client, answer, NULL);
    replay_stop(&replay);
}

static void test_options_that_pass(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++) {
        run_passed(&passed[i], "4", "61 84 0001 aa");
        run_passed(&passed[i], "5", "51 84 MID aa");
    }
}

/* OPT-4: the diagnostic names the option. CON and NON alike. */
static void run_refused(const struct request_row *row, const char *type, const char *answer)
{
    struct replay replay;
    char head[32];
    print_message("    %s\n", row->id);
    replay_start(&replay, NULL);
    snprintf(head, sizeof(head), "%s1 01 0001 aa", type);
    replay_ask(&replay, words(head, row->options));
    replay_expect_words(&replay, answer, row->names);
    fake_peer_expect_nothing_within(replay.origin, 1000);
    replay_stop(&replay);
}

static void test_options_that_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        run_refused(&refused[i], "4", "61 82 0001 aa");
        run_refused(&refused[i], "5", "51 82 MID aa");
    }
}

/* OSC-1, OSC-2, OSC-3, OSC-11, OSC-13: outer messages pass as they are, and nothing of theirs is
 * put right. */
static void test_oscore_passes(void **state)
{
    static const struct {
        const char *id;
        unsigned method;
        const char *request, *upstream;
        unsigned code;
        const char *answer;
    } rows[] = {
        {"OSC-2 POST, Proxy-Cri", 2, "9:0914 " CRI " /0102", "3=h 9:0914 11=x /0102", 0x44,
         "9: /0304"},
        {"OSC-2 POST, Proxy-Scheme-Number", 2, "3=h 9:0914 239: /0102", "3=h 9:0914 /0102", 0x44,
         "9: /0304"},
        {"OSC-3 Proxy-Uri of scheme and authority", 2, "9:0914 35=coap://h /0102",
         "3=h 9:0914 /0102", 0x44, "9: /0304"},
        {"OSC-11 FETCH without Content-Format", 5, "9:0914 " CRI " /0102", "3=h 9:0914 11=x /0102",
         0x45, "9: /0304"},
        {"OSC-13 EDHOC", 2, "9:0914 21: " CRI " /0102", "3=h 9:0914 11=x 21: /0102", 0x44,
         "9: /0304"},
    };
    char head[32];
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct replay replay;
        struct fake_datagram request;
        print_message("    %s\n", rows[i].id);
        replay_start(&replay, NULL);
        snprintf(head, sizeof(head), "41 %02x 0001 aa", rows[i].method);
        replay_ask(&replay, words(head, rows[i].request));
        snprintf(head, sizeof(head), "48 %02x MID TOKEN", rows[i].method);
        fake_peer_expect(replay.origin, words(head, rows[i].upstream), &request);
        snprintf(head, sizeof(head), "6T %02x MID TOKEN", rows[i].code);
        fake_peer_reply(replay.origin, &request, words(head, rows[i].answer));
        snprintf(head, sizeof(head), "61 %02x 0001 aa", rows[i].code);
        fake_peer_expect(replay.client, words(head, rows[i].answer), NULL);
        replay_stop(&replay);
    }
}

/* OSC-12: what the proxy itself has to say is in the clear, and has no option of OSCORE. */
static void test_oscore_gets_plain_errors(void **state)
{
    struct replay replay;
    struct fake_datagram answer;
    struct message message;
    (void)state;
    replay_start(&replay, NULL);
    replay_ask(&replay, words("41 02 0001 aa", "9:0914 35=coap://nowhere.example /0102"));
    fake_net_run(10000);
    fake_peer_expect(replay.client, "61 a2 0001 aa ...", &answer);
    assert_int_equal(message_decode(answer.data, answer.len, &message), MESSAGE_OK);
    assert_false(message_has_option(&message, OPTION_oscore));
    assert_in_range(message.payload.len, 1, 128);
    replay_stop(&replay);
}

/* --- requests for the proxy itself -------------------------------------- */

/* OPT-5, OPT-6: there, critical and elective count. */
static void test_unknown_options_of_local_requests(void **state)
{
    static const struct {
        const char *id, *head, *options, *answer;
    } rows[] = {
        {"critical, CON", "41 01 0001 aa", "11=.well-known 11=core 65:01", "61 82 0001 aa"},
        {"critical, NON", "51 01 0001 aa", "11=.well-known 11=core 65:01", "51 82 MID aa"},
        {"elective, CON", "41 01 0001 aa", "11=.well-known 11=core 64:01", "61 45 0001 aa"},
        {"elective, NON", "51 01 0001 aa", "11=.well-known 11=core 64:01", "51 45 MID aa"},
        {"elective and unsafe", "41 01 0001 aa", "11=.well-known 11=core 34:01", "61 82 0001 aa"},
        {"named by Proxy-Cri", "41 01 0001 aa",
         "65:01 235:83208144c0000209826b2e77656c6c2d6b6e6f776e64636f7265", "61 82 0001 aa"},
        {"Proxy-Scheme-Number without a host", "41 01 0001 aa",
         "11=.well-known 11=core 65:01 239:", "61 82 0001 aa"},
        {"OSCORE has no end here", "41 02 0001 aa", "9: 11=.well-known 11=core /0102",
         "61 82 0001 aa"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct replay replay;
        print_message("    %s\n", rows[i].id);
        replay_start(&replay, NULL);
        replay_ask(&replay, words(rows[i].head, rows[i].options));
        fake_peer_expect(replay.client, words(rows[i].answer, "..."), NULL);
        replay_stop(&replay);
    }
}

/* --- answers ------------------------------------------------------------ */

struct response_row {
    const char *id;
    const char *code, *options; /* of the origin server */
    const char *downstream;     /* NULL: 5.02 */
};

static const struct response_row responses[] = {
    {"OPT-7 critical, safe", "45", "65:01 /31", "65:01 /31"},
    {"OPT-7 elective, safe", "45", "64:01 /31", "64:01 /31"},
    {"OPT-8 elective, unsafe", "45", "2:01", NULL},
    {"OPT-8 critical, unsafe", "45", "67:01", NULL},
    {"OPT-9 Uri-Path", "45", "11=x", NULL},
    {"OPT-9 Uri-Host", "45", "3=h", NULL},
    {"OPT-9 Proxy-Cri", "45", CRI, NULL},
    {"OPT-9 Proxy-Scheme-Number", "45", "239:", NULL},
    {"OPT-9 No-Response", "45", "258:02", NULL},
    {"OPT-9 If-Match, safe", "45", "1:01", "1:01"},
    {"OPT-9 Accept, safe", "45", "17:01", "17:01"},
    {"OPT-10 two Max-Age", "45", "14:01 14:01", NULL},
    {"OPT-10 Max-Age of 5 bytes", "45", "14:0000000001", NULL},
    {"OPT-10 Observe of 4 bytes", "45", "6:00000001", NULL},
    {"OPT-11 order", "41", "8=a 8= 8=b 20=c 20=d", "8=a 8= 8=b 20=c 20=d"},
    {"OPT-12 default Max-Age", "45", "14:3c /31", "14:3c /31"},
    {"Max-Age 0", "45", "14: /31", "14: /31"},
    {"Max-Age with leading zeros", "45", "14:0000003c /31", "14:0000003c /31"},
    {"no Max-Age, no Content-Format", "45", "/31", "/31"},
    {"Content-Format 0", "45", "12: /31", "12: /31"},
    {"Content-Format with leading zeros", "45", "12:0032 /31", "12:0032 /31"},
    {"ETag with leading zeros", "45", "4:0001 /31", "4:0001 /31"},
    {"ETag of 8 bytes", "45", "4:0000000000000001 /31", "4:0000000000000001 /31"},
    {"OPT-18 two ETag", "45", "4:01 4:02 /31", "4:01 4:02 /31"},
    {"OPT-19 reserved Location numbers", "41", "8=a 128=b 132=c", "8=a 128=b 132=c"},
    {"OPT-15 Size2, Block2, Echo", "45", "23:06 28:01 252:01 /31", "23:06 28:01 252:01 /31"},
    {"BLK-6 a whole block", "45", "23:08 28:0800 /#16", "23:08 28:0800 /#16"},
    {"BLK-6 half a block that more follow", "45", "23:08 /#8", NULL},
    {"BLK-6 more than a block", "45", "23:08 /#17", NULL},
    {"BLK-6 nothing, and more to follow", "45", "23:0e", NULL},
    {"BLK-3 size 7 over UDP", "45", "23:07 /31", NULL},
    {"BLK-3 size 7 over UDP in Block1", "44", "27:07", NULL},
    {"OPT-14 Observe has no observer here", "45", "4:01 6:05 14:05 /31", "4:01 14:05 /31"},
    {"HOP Hop-Limit", "45", "16:05 /31", "16:05 /31"},
    {"ERR-19 4.04 with payload", "84", "12: /6e6f", "12: /6e6f"},
    {"ERR-19 5.05 of a next proxy", "a5", "14:05 /6e6f", "14:05 /6e6f"},
    {"ERR-19 4.29", "9d", "14:0a", "14:0a"},
    {"MSG-40 2.30", "5e", "/31", "/31"},
    {"MSG-40 4.30", "9e", "", ""},
    {"MSG-40 5.31", "bf", "", ""},
    {"MSG-40 3.00", "60", "", NULL},
    {"MSG-40 3.01", "61", "/31", NULL},
    {"MSG-41 stray 2.31", "5f", "", NULL},
    {"MSG-41 2.31 of a transfer that is not one", "5f", "27:08", NULL},
    {"MSG-41 4.08", "88", "27:08", "27:08"},
};

static void run_response(const struct response_row *row)
{
    struct replay replay;
    struct fake_datagram request;
    char head[64];
    print_message("    %s\n", row->id);
    replay_start(&replay, NULL);
    replay_ask(&replay, words("41 01 0001 aa", CRI));
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", H_X), &request);
    snprintf(head, sizeof(head), "6T %s MID TOKEN", row->code);
    fake_peer_reply(replay.origin, &request, words(head, row->options));
    if (row->downstream != NULL) {
        snprintf(head, sizeof(head), "61 %s 0001 aa", row->code);
        fake_peer_expect(replay.client, words(head, row->downstream), NULL);
    } else {
        replay_expect_words(&replay, "61 a2 0001 aa", "cannot be forwarded");
        assert_int_equal(replay_ended(&replay, REASON_origin_invalid), 1);
    }
    replay_stop(&replay);
}

static void test_options_of_answers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(responses) / sizeof(responses[0]); i++) {
        run_response(&responses[i]);
    }
}

/* The same for an answer of its own, CON or NON; a CON one is acknowledged even if unusable. */
static void test_options_of_separate_answers(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    replay_start(&replay, NULL);
    replay_ask(&replay, words("41 01 0001 aa", CRI));
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", H_X), &request);
    fake_peer_reply(replay.origin, &request, words("4T 45 7001 TOKEN", "67:01"));
    fake_peer_expect(replay.origin, "60 00 7001", NULL);
    replay_expect_words(&replay, "61 a2 0001 aa", "cannot be forwarded");
    replay_ask(&replay, words("51 01 0002 ab", CRI));
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", H_X), &request);
    fake_peer_reply(replay.origin, &request, words("5T 45 7002 TOKEN", "4:0001 65:01 /31"));
    fake_peer_expect(replay.client, words("51 45 MID ab", "4:0001 65:01 /31"), NULL);
    replay_stop(&replay);
}

/* OPT-1, AMB-3: class bits follow from the number. */
static void test_class_bits(void **state)
{
    (void)state;
    assert_false(option_is_critical(258));
    assert_true(option_is_unsafe(258));
    assert_false(option_is_unsafe(292));
    assert_false(option_is_no_cache_key(292));
    assert_true(option_is_no_cache_key(252));
    assert_true(option_is_no_cache_key(28));
    assert_true(option_is_no_cache_key(60));
    assert_true(option_is_critical(235) && option_is_unsafe(235));
    assert_true(option_is_critical(239) && option_is_unsafe(239));
}

/* --- Hop-Limit ---------------------------------------------------------- */

/* --- No-Response -------------------------------------------------------- */

/* NOR-3: after the empty ACK nothing more comes. */
static void test_no_response_to_a_late_answer(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    replay_start(&replay, NULL);
    replay_ask(&replay, words("41 03 0001 aa", CRI " 258:02"));
    fake_peer_expect(replay.origin, words("48 03 MID TOKEN", H_X), &request);
    fake_peer_expect_within(replay.client, 250, "60 00 0001", NULL);
    fake_peer_reply(replay.origin, &request, "6T 44 MID TOKEN");
    fake_peer_expect_nothing_within(replay.client, 100000);
    replay_stop(&replay);
}

/* NOR-4: the origin server is told, where that is configured, and may stay silent. */
static void test_no_response_is_forwarded(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    replay_start(&replay, (const char *[]){"proxy.no-response=forward", NULL});
    replay_ask(&replay, words("41 03 0001 aa", CRI " 258:02"));
    fake_peer_expect(replay.origin, words("48 03 MID TOKEN", H_X " 258:02"), &request);
    fake_peer_reply(replay.origin, &request, "60 00 MID");
    fake_peer_expect_within(replay.client, 250, "60 00 0001", NULL);
    fake_peer_expect_nothing_within(replay.client, 100000);
    assert_int_equal(replay_ended(&replay, REASON_unanswered), 1);
    /* An error comes back; a GET is never sent with it. */
    replay_ask(&replay, words("41 03 0002 ab", CRI " 258:02"));
    fake_peer_expect(replay.origin, words("48 03 MID TOKEN", H_X " 258:02"), &request);
    fake_peer_reply(replay.origin, &request, "6T 84 MID TOKEN");
    fake_peer_expect(replay.client, "61 84 0002 ab", NULL);
    replay_ask(&replay, words("41 01 0003 ac", CRI " 258:02"));
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", H_X), &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    fake_peer_expect(replay.client, "60 00 0003", NULL);
    replay_stop(&replay);
}

/* NOR-7: the token stays in use when the client wants no answer, until there is one. */
static void test_no_response_holds_the_token(void **state)
{
    static const char *const rows[] = {"proxy.no-response=proxy", "proxy.no-response=forward"};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct replay replay;
        struct fake_datagram request;
        replay_start(&replay, (const char *[]){rows[i], NULL});
        replay_ask(&replay, words("51 03 0001 aa", CRI " 258:1a"));
        fake_peer_expect(replay.origin, "48 03 MID TOKEN ...", &request);
        fake_peer_reply(replay.origin, &request, "60 00 MID");
        fake_net_run(50000);
        assert_int_equal(engine_in_flight(replay.engine), 1);
        fake_peer_reply(replay.origin, &request, "4T 44 7777 TOKEN");
        fake_peer_expect(replay.origin, "60 00 7777", NULL);
        assert_int_equal(engine_in_flight(replay.engine), 0);
        fake_peer_reply(replay.origin, &request, "4T 44 7778 TOKEN"); /* now it is over */
        fake_peer_expect(replay.origin, "70 00 7778", NULL);
        fake_peer_expect_nothing(replay.client);
        replay_stop(&replay);
    }
}

/* NOR-5: what the proxy itself has to say obeys the bits too. */
static void test_no_response_for_errors_of_the_proxy(void **state)
{
    struct replay replay;
    (void)state;
    replay_start(&replay, NULL);
    fake_peer_close(replay.origin);
    replay_ask(&replay, words("51 01 0001 aa", CRI " 258:10"));
    fake_peer_expect_nothing_within(replay.client, 120000); /* 5.04 */
    replay_ask(&replay, words("41 01 0002 aa", CRI " 258:10"));
    fake_peer_expect_within(replay.client, 250, "60 00 0002", NULL);
    fake_peer_expect_nothing_within(replay.client, 120000);
    assert_int_equal(replay_ended(&replay, REASON_origin_timeout), 2);
    /* Refused at once: 5.05 for did, 4.02 for an empty array. */
    replay_ask(&replay, words("51 01 0003 aa", "239:05 258:10"));
    replay_ask(&replay, words("51 01 0004 aa", "235:80 258:08"));
    fake_peer_expect_nothing_within(replay.client, 1000);
    replay_ask(&replay, words("41 01 0005 aa", "235:80 258:08"));
    fake_peer_expect(replay.client, "60 00 0005", NULL);
    replay_stop(&replay);
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_options_that_pass),
        TEST(test_options_that_are_refused),
        TEST(test_oscore_passes),
        TEST(test_oscore_gets_plain_errors),
        TEST(test_unknown_options_of_local_requests),
        TEST(test_options_of_answers),
        TEST(test_options_of_separate_answers),
        TEST(test_class_bits),
        TEST(test_no_response_to_a_late_answer),
        TEST(test_no_response_is_forwarded),
        TEST(test_no_response_holds_the_token),
        TEST(test_no_response_for_errors_of_the_proxy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
