/* SPDX-License-Identifier: BSD-2-Clause */
/* The cache: CACHE of the conformance list, with HOP-7 and what OSC and RATE say of it. */
#include "replay/replay.h"
#include "replay/words.h"

#include "cache/store.h"

#include <stdio.h>
#include <string.h>

/* Proxy-Cri for coap://h/x, and what comes of it upstream. */
#define CRI "235:8320816168816178"
#define H_X "3=h 11=x"

#define TRAIL "/63726970726f78792070" /* "criproxy p" */

struct talk {
    struct replay replay;
    unsigned mid;
};

static void start_with(struct talk *talk, const char *a, const char *b)
{
    *talk = (struct talk){.mid = 1};
    replay_start(&talk->replay,
                 (const char *[]){"cache.max-bytes=1MiB", a, a != NULL ? b : NULL, NULL});
}

static void start(struct talk *talk)
{
    start_with(talk, NULL, NULL);
}

static void stop(struct talk *talk)
{
    replay_stop(&talk->replay);
}

/* The client sends a request of @p code with the options of @p body. */
static void ask(struct talk *talk, unsigned code, const char *body)
{
    char head[32];
    snprintf(head, sizeof(head), "41 %02x %04x aa", code, ++talk->mid);
    replay_ask(&talk->replay, words(head, body));
}

/* Its answer. */
static void expect(struct talk *talk, unsigned code, const char *body)
{
    char head[32];
    snprintf(head, sizeof(head), "61 %02x %04x aa", code, talk->mid);
    fake_peer_expect(talk->replay.client, words(head, body), NULL);
    fake_peer_expect_nothing(talk->replay.origin);
}

/* The origin server is asked with @p code and @p body, and answers. */
static void serve(struct talk *talk, unsigned code, const char *body, unsigned answer_code,
                  const char *answer)
{
    struct fake_datagram request;
    char head[32];
    snprintf(head, sizeof(head), "48 %02x MID TOKEN", code);
    fake_peer_expect(talk->replay.origin, words(head, body), &request);
    snprintf(head, sizeof(head), "6T %02x MID TOKEN", answer_code);
    fake_peer_reply(talk->replay.origin, &request, words(head, answer));
}

/* A GET for coap://h/x that goes upstream and is answered there. */
static void fetch(struct talk *talk, unsigned answer_code, const char *answer)
{
    ask(talk, 0x01, CRI);
    serve(talk, 0x01, H_X, answer_code, answer);
    expect(talk, answer_code, answer);
}

/* A GET for coap://h/x that the cache answers. */
static void hit(struct talk *talk, unsigned answer_code, const char *answer)
{
    ask(talk, 0x01, CRI);
    expect(talk, answer_code, answer);
}

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
    start(&talk);
    fetch(&talk, 0x45, "/31");
    for (unsigned i = 0; i < count; i++) {
        ask(&talk, 0x01, forms[i]);
        expect(&talk, 0x45, "/31");
    }
    assert_int_equal(replay_metric(&talk.replay, cache_hits), count);
    assert_int_equal(replay_ended(&talk.replay, REASON_cached), count);
    stop(&talk);
}

static void test_an_empty_path_is_a_slash(void **state) /* O2C-9, AMB-38 */
{
    static const char *const spellings[] = {
        "35=coap://h", "35=coap://h/", "235:8220816168", "235:83208161688160", "3=h 11= 239:",
    };
    struct talk talk;
    (void)state;
    start(&talk);
    ask(&talk, 0x01, "3=h 239:");
    serve(&talk, 0x01, "3=h", 0x45, "/31");
    expect(&talk, 0x45, "/31");
    for (size_t i = 0; i < sizeof(spellings) / sizeof(spellings[0]); i++) {
        ask(&talk, 0x01, spellings[i]);
        expect(&talk, 0x45, "/31");
    }
    stop(&talk);
}

/* CMP-9: the same authority under another scheme is another target. */
static void test_schemes_do_not_share(void **state)
{
    struct talk talk;
    (void)state;
    start_with(&talk, "scheme lab.number=60000", "scheme lab.transport=udp");
    fetch(&talk, 0x45, "/31");
    ask(&talk, 0x01, "3=h 7:1633 11=x 39=lab");
    serve(&talk, 0x01, H_X, 0x45, "/32");
    expect(&talk, 0x45, "/32");
    hit(&talk, 0x45, "/31");
    stop(&talk);
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
        start(&talk);
        fetch(&talk, 0x45, "/31");
        ask(&talk, row->code, row->request);
        if (row->upstream != NULL) {
            serve(&talk, row->code, row->upstream, 0x45, "/32");
        }
        expect(&talk, 0x45, row->upstream != NULL ? "/32" : "/31");
        stop(&talk);
    }
}

static void test_fetch_by_body(void **state) /* CACHE-5, CACHE-26 */
{
    struct talk talk;
    (void)state;
    start(&talk);
    ask(&talk, 0x05, "12:28 " CRI " /61");
    serve(&talk, 0x05, "3=h 11=x 12:28 /61", 0x45, "/41");
    expect(&talk, 0x45, "/41");
    ask(&talk, 0x05, "12:28 " CRI " /62");
    serve(&talk, 0x05, "3=h 11=x 12:28 /62", 0x45, "/42");
    expect(&talk, 0x45, "/42");
    ask(&talk, 0x05, "12:28 " CRI " 292:07 /61");
    expect(&talk, 0x45, "/41");
    ask(&talk, 0x05, "12:28 " CRI " /62");
    expect(&talk, 0x45, "/42");
    ask(&talk, 0x05, "12:29 " CRI " /62"); /* Content-Format */
    serve(&talk, 0x05, "3=h 11=x 12:29 /62", 0x45, "/43");
    expect(&talk, 0x45, "/43");
    stop(&talk);
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
        start(&talk);
        fetch(&talk, row->code, row->answer);
        if (row->is_stored) {
            hit(&talk, row->code, row->answer);
        } else {
            fetch(&talk, 0x45, "/32");
        }
        stop(&talk);
    }
}

static void test_answers_to_oscore_are_not_stored(void **state) /* OSC-4 */
{
    struct talk talk;
    (void)state;
    start(&talk);
    for (int i = 0; i < 2; i++) {
        ask(&talk, 0x05, "9:01 " CRI " /61");
        serve(&talk, 0x05, "3=h 9:01 11=x /61", 0x45, "9: /62");
        expect(&talk, 0x45, "9: /62");
        ask(&talk, 0x02, "9:01 " CRI " /61");
        serve(&talk, 0x02, "3=h 9:01 11=x /61", 0x44, "9: /63");
        expect(&talk, 0x44, "9: /63");
    }
    stop(&talk);
}

static void test_post_is_not_answered(void **state) /* CACHE-4 */
{
    struct talk talk;
    (void)state;
    start(&talk);
    for (int i = 0; i < 2; i++) {
        ask(&talk, 0x02, CRI);
        serve(&talk, 0x02, H_X, 0x84, "");
        expect(&talk, 0x84, "");
    }
    stop(&talk);
}

static void test_observe_is_left_out(void **state) /* CACHE-28, OBS-28 */
{
    struct talk talk;
    (void)state;
    start(&talk);
    ask(&talk, 0x01, CRI);
    serve(&talk, 0x01, H_X, 0x45, "6:05 /31");
    expect(&talk, 0x45, "/31");
    hit(&talk, 0x45, "/31");
    stop(&talk);
}

/* CACHE-28, OBS-28: an observation keeps the cache up to date. */
static void test_notifications_are_kept(void **state)
{
    struct talk talk;
    struct fake_datagram registration;
    (void)state;
    start(&talk);
    struct fake_peer *reader = fake_peer_new("192.0.2.8:40001");
    fetch(&talk, 0x45, "4:01 /30");
    ask(&talk, 0x01, "6: " CRI); /* a registration is not answered from here */
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
    stop(&talk);
}

static void test_off(void **state) /* CACHE-33 */
{
    struct talk talk;
    (void)state;
    start_with(&talk, "cache.max-bytes=0", NULL);
    fetch(&talk, 0x45, "/31");
    fetch(&talk, 0x45, "/31");
    stop(&talk);
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
        start(&talk);
        snprintf(answer, sizeof(answer), "12: %s 20=q /31", row->stored);
        fetch(&talk, 0x45, answer);
        fake_net_run(row->ms);
        if (row->served == NULL) {
            fetch(&talk, 0x45, "/32");
        } else {
            snprintf(answer, sizeof(answer), "12: %s 20=q /31", row->served);
            hit(&talk, 0x45, answer);
        }
        stop(&talk);
    }
}

static void test_newer_replaces(void **state) /* CACHE-10 */
{
    struct talk talk;
    (void)state;
    start(&talk);
    fetch(&talk, 0x45, "14:01 /31");
    fake_net_run(1001);
    fetch(&talk, 0x45, "/3233");
    hit(&talk, 0x45, "/3233");
    fake_net_run(60001);
    fetch(&talk, 0x84, "/34");
    hit(&talk, 0x84, "/34");
    assert_int_equal(cache_store_count(&talk.replay.engine->cache), 1);
    stop(&talk);
}

/* --- validation --------------------------------------------------------- */

static void test_validated(void **state) /* CACHE-11, CACHE-12 */
{
    struct talk talk;
    (void)state;
    start(&talk);
    fetch(&talk, 0x45, "4:01 12: 2048:aa /31");
    fake_net_run(61000);
    ask(&talk, 0x01, CRI);
    serve(&talk, 0x01, "3=h 4:01 11=x", 0x43, "4:01 14:0a 2048:bbcc 2052:dd");
    expect(&talk, 0x45, "4:01 12: 14:0a 2048:bbcc 2052:dd /31");
    fake_net_run(4000);
    hit(&talk, 0x45, "4:01 12: 14:06 2048:bbcc 2052:dd /31");
    fake_net_run(7000);
    ask(&talk, 0x01, CRI);
    serve(&talk, 0x01, "3=h 4:01 11=x", 0x43, "4:01"); /* absent again: 60 s */
    expect(&talk, 0x45, "4:01 12: 2048:bbcc 2052:dd /31");
    assert_int_equal(replay_metric(&talk.replay, cache_validated), 2);
    assert_int_equal(replay_metric(&talk.replay, cache_stale), 2);
    stop(&talk);
}

static void test_validated_for_a_client_that_has_it(void **state) /* CACHE-12 */
{
    struct talk talk;
    (void)state;
    start(&talk);
    fetch(&talk, 0x45, "4:01 12: /31");
    fake_net_run(61000);
    ask(&talk, 0x01, "4:01 " CRI);
    serve(&talk, 0x01, "3=h 4:01 11=x", 0x43, "4:01 14:0a");
    expect(&talk, 0x43, "4:01 14:0a");
    hit(&talk, 0x45, "4:01 12: 14:0a /31");
    stop(&talk);
}

static void test_client_etag_on_a_hit(void **state) /* CACHE-13 */
{
    struct talk talk;
    (void)state;
    start(&talk);
    fetch(&talk, 0x45, "4:0102 12: /31");
    fake_net_run(20000);
    ask(&talk, 0x01, "4:07 4:0102 " CRI);
    expect(&talk, 0x43, "4:0102 14:28");
    ask(&talk, 0x01, "4:07 " CRI);
    expect(&talk, 0x45, "4:0102 12: 14:28 /31");
    stop(&talk);
}

static void test_client_etags_go_with_ours(void **state) /* CACHE-14 */
{
    struct talk talk;
    (void)state;
    start(&talk);
    fetch(&talk, 0x45, "4:01 /31");
    fake_net_run(61000);
    ask(&talk, 0x01, "4:07 " CRI);
    serve(&talk, 0x01, "3=h 4:01 4:07 11=x", 0x43, "4:07");
    expect(&talk, 0x43, "4:07");
    /* What is stored has not been confirmed, and 4:07 is not here. */
    ask(&talk, 0x01, CRI);
    serve(&talk, 0x01, "3=h 4:01 11=x", 0x43, "4:01");
    expect(&talk, 0x45, "4:01 /31");
    /* On a miss. */
    ask(&talk, 0x01, "4:07 35=coap://h/y");
    serve(&talk, 0x01, "3=h 4:07 11=y", 0x43, "4:07");
    expect(&talk, 0x43, "4:07");
    ask(&talk, 0x01, "35=coap://h/y");
    serve(&talk, 0x01, "3=h 11=y", 0x45, "/32");
    expect(&talk, 0x45, "/32");
    stop(&talk);
}

static void test_several_representations(void **state) /* CACHE-11 */
{
    struct talk talk;
    (void)state;
    start(&talk);
    fetch(&talk, 0x45, "4:01 14:01 /31");
    fake_net_run(1001);
    ask(&talk, 0x01, CRI);
    serve(&talk, 0x01, "3=h 4:01 11=x", 0x45, "4:02 14:01 /32");
    expect(&talk, 0x45, "4:02 14:01 /32");
    fake_net_run(1001);
    ask(&talk, 0x01, CRI); /* the state goes back to the first */
    serve(&talk, 0x01, "3=h 4:02 4:01 11=x", 0x43, "4:01");
    expect(&talk, 0x45, "4:01 /31");
    hit(&talk, 0x45, "4:01 /31");
    stop(&talk);
}

static void test_no_more_representations_than_four(void **state)
{
    char answer[32];
    struct talk talk;
    (void)state;
    start(&talk);
    for (unsigned i = 1; i <= 9; i++) {
        struct fake_datagram request;
        ask(&talk, 0x01, CRI);
        fake_peer_expect(talk.replay.origin, "48 01 MID TOKEN ...", &request);
        snprintf(answer, sizeof(answer), "4:%02x 14:01 /31", i);
        fake_peer_reply(talk.replay.origin, &request, words("6T 45 MID TOKEN", answer));
        expect(&talk, 0x45, answer);
        fake_net_run(1001);
    }
    assert_int_equal(cache_store_count(&talk.replay.engine->cache), CACHE_REPRESENTATIONS_MAX);
    ask(&talk, 0x01, CRI);
    serve(&talk, 0x01, "3=h 4:09 4:08 4:07 4:06 11=x", 0x43, "4:06");
    expect(&talk, 0x45, "4:06 /31");
    stop(&talk);
}

/* CACHE-15: what the origin server answers to a GET that asks about 4:01. */
static void test_broken_validation(void **state)
{
    static const struct {
        const char *id, *answer;
    } rows[] = {
        {"without ETag", ""},
        {"with a payload", "4:01 /31"},
        {"an ETag nobody asked for", "4:02"},
        {"an empty ETag", "4:"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct talk talk;
        print_message("    %s\n", rows[i].id);
        start(&talk);
        fetch(&talk, 0x45, "4:01 /31");
        fake_net_run(61000);
        ask(&talk, 0x01, CRI);
        serve(&talk, 0x01, "3=h 4:01 11=x", 0x43, rows[i].answer);
        fake_peer_expect(talk.replay.client, "61 a2 0003 aa ...", NULL);
        ask(&talk, 0x01, CRI); /* the entry is as it was */
        serve(&talk, 0x01, "3=h 4:01 11=x", 0x43, "4:01");
        expect(&talk, 0x45, "4:01 /31");
        stop(&talk);
    }
}

static void test_errors_are_not_validated(void **state) /* CACHE-16 */
{
    struct talk talk;
    (void)state;
    start(&talk);
    fetch(&talk, 0x84, "4:01 14:01 /31");
    fake_net_run(1001);
    fetch(&talk, 0x45, "/32");
    assert_int_equal(cache_store_count(&talk.replay.engine->cache), 1);
    stop(&talk);
}

static void test_validation_and_another_answer(void **state)
{
    struct talk talk;
    (void)state;
    start(&talk);
    fetch(&talk, 0x45, "4:01 14:01 /31");
    fake_net_run(1001);
    ask(&talk, 0x01, CRI);
    serve(&talk, 0x01, "3=h 4:01 11=x", 0x45, "/32"); /* without ETag */
    expect(&talk, 0x45, "/32");
    hit(&talk, 0x45, "/32");
    stop(&talk);
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
    start(&talk);
    fetch(&talk, 0x45, "4:01 14:01 /31");
    fake_net_run(1001);
    ask(&talk, 0x01, CRI);
    fake_net_run(0);
    assert_int_equal(cache_flush(&talk.replay.engine->cache, match_all, &matched), 1);
    assert_int_equal(matched, 1);
    serve(&talk, 0x01, "3=h 4:01 11=x", 0x43, "4:01");
    expect(&talk, 0x45, "4:01 /31");
    fetch(&talk, 0x45, "/32");
    assert_int_equal(cache_flush(&talk.replay.engine->cache, match_all, &matched), 1);
    fetch(&talk, 0x45, "/33");
    assert_int_equal(cache_store_count(&talk.replay.engine->cache), 1);
    stop(&talk);
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
        start(&talk);
        fetch(&talk, 0x45, "4:01 /31");
        ask(&talk, row->method, CRI);
        serve(&talk, row->method, H_X, row->code, "");
        expect(&talk, row->code, "");
        ask(&talk, 0x01, CRI);
        if (row->is_change) {
            serve(&talk, 0x01, "3=h 4:01 11=x", 0x43, "4:01");
        }
        expect(&talk, 0x45, "4:01 /31");
        hit(&talk, 0x45, "4:01 /31");
        stop(&talk);
    }
}

static void test_change_covers_all_keys_of_the_target(void **state) /* CACHE-19 */
{
    static const char *const variants[] = {
        CRI, "17: " CRI, "17:32 " CRI, "65:07 " CRI, "65:08 " CRI,
    };
    const size_t count = sizeof(variants) / sizeof(variants[0]);
    struct talk talk;
    struct fake_datagram request;
    (void)state;
    start(&talk);
    for (size_t i = 0; i < count; i++) {
        ask(&talk, 0x01, variants[i]);
        fake_peer_expect(talk.replay.origin, "48 01 MID TOKEN ...", &request);
        fake_peer_reply(talk.replay.origin, &request, words("6T 45 MID TOKEN", "/31"));
        expect(&talk, 0x45, "/31");
    }
    ask(&talk, 0x05, CRI " /61");
    serve(&talk, 0x05, H_X " /61", 0x45, "/31");
    expect(&talk, 0x45, "/31");
    ask(&talk, 0x01, "35=coap://h/y");
    serve(&talk, 0x01, "3=h 11=y", 0x45, "/39");
    expect(&talk, 0x45, "/39");
    ask(&talk, 0x03, CRI " /32");
    serve(&talk, 0x03, H_X " /32", 0x44, "");
    expect(&talk, 0x44, "");
    assert_int_equal(replay_metric(&talk.replay, cache_entries), 1);
    assert_int_equal(replay_metric(&talk.replay, cache_invalidated), count + 1);
    ask(&talk, 0x01, "35=coap://h/y");
    expect(&talk, 0x45, "/39");
    stop(&talk);
}

static void test_created_location_is_changed(void **state) /* CACHE-17 */
{
    struct talk talk;
    (void)state;
    start(&talk);
    ask(&talk, 0x01, "35=coap://h/l/m?q");
    serve(&talk, 0x01, "3=h 11=l 11=m 15=q", 0x84, "");
    expect(&talk, 0x84, "");
    ask(&talk, 0x02, CRI);
    serve(&talk, 0x02, H_X, 0x41, "8=l 8=m 20=q");
    expect(&talk, 0x41, "8=l 8=m 20=q");
    ask(&talk, 0x01, "35=coap://h/l/m?q");
    serve(&talk, 0x01, "3=h 11=l 11=m 15=q", 0x45, "/31");
    expect(&talk, 0x45, "/31");
    stop(&talk);
}

static void test_block_of_an_upload_changes(void **state) /* CACHE-18 */
{
    struct talk talk;
    struct fake_datagram request;
    (void)state;
    start(&talk);
    fetch(&talk, 0x45, "/31");
    ask(&talk, 0x03, "27:08 " CRI " /#16");
    fake_peer_expect(talk.replay.origin, words("48 03 MID TOKEN", H_X " 27:08 ..."), &request);
    fake_peer_reply(talk.replay.origin, &request, words("6T 5f MID TOKEN", "27:08"));
    expect(&talk, 0x5f, "27:08");
    fetch(&talk, 0x45, "/32");
    stop(&talk);
}

/* An answer that was asked for before a change is not kept after it. */
static void test_answer_overtaken_by_a_change(void **state)
{
    struct talk talk;
    struct fake_datagram get;
    (void)state;
    start(&talk);
    replay_ask(&talk.replay, words("41 01 0101 a1", CRI));
    fake_peer_expect(talk.replay.origin, words("48 01 MID TOKEN", H_X), &get);
    ask(&talk, 0x03, CRI " /32");
    serve(&talk, 0x03, H_X " /32", 0x44, "");
    expect(&talk, 0x44, "");
    fake_peer_reply(talk.replay.origin, &get, words("6T 45 MID TOKEN", "/31"));
    fake_peer_expect(talk.replay.client, words("61 45 0101 a1", "/31"), NULL);
    fetch(&talk, 0x45, "/32");
    stop(&talk);
}

/* A change that may have happened counts as one. */
static void test_unsafe_request_without_an_answer(void **state)
{
    struct talk talk;
    (void)state;
    start_with(&talk, "proxy.request-timeout=1s", NULL);
    fetch(&talk, 0x45, "/31");
    ask(&talk, 0x03, CRI " /32");
    fake_peer_expect(talk.replay.origin, words("48 03 MID TOKEN", H_X " /32"), NULL);
    fake_net_run(250);
    fake_peer_expect(talk.replay.client, "60 00 0003", NULL);
    struct fake_datagram answer;
    fake_peer_expect_within(talk.replay.client, 1000, "41 a4 MID aa ...", &answer);
    fake_peer_reply(talk.replay.client, &answer, "60 00 MID");
    fetch(&talk, 0x45, "/32");
    stop(&talk);
}

/* --- who is served ------------------------------------------------------ */

static void test_hop_limit_reached_is_for_who_may_go_no_further(void **state) /* CACHE-31, HOP-7 */
{
    struct talk talk;
    (void)state;
    start(&talk);
    ask(&talk, 0x01, "16:04 " CRI);
    serve(&talk, 0x01, "3=h 11=x 16:03", 0xa8, "/70");
    expect(&talk, 0xa8, TRAIL);
    ask(&talk, 0x01, "16:04 " CRI);
    expect(&talk, 0xa8, TRAIL);
    ask(&talk, 0x01, "16:02 " CRI);
    expect(&talk, 0xa8, TRAIL);
    ask(&talk, 0x01, "16:05 " CRI);
    serve(&talk, 0x01, "3=h 11=x 16:04", 0x45, "/31");
    expect(&talk, 0x45, "/31");
    stop(&talk);
}

static void test_hop_limit_zero_is_refused_all_the_same(void **state) /* HOP-2 */
{
    struct talk talk;
    (void)state;
    start(&talk);
    fetch(&talk, 0x45, "/31");
    ask(&talk, 0x01, "16:00 " CRI);
    fake_peer_expect(talk.replay.client, "61 80 0003 aa ...", NULL);
    stop(&talk);
}

static void test_no_response_holds_for_hits(void **state) /* NOR-6 */
{
    struct talk talk;
    (void)state;
    start(&talk);
    fetch(&talk, 0x45, "/31");
    ask(&talk, 0x01, CRI " 258:02");
    fake_peer_expect(talk.replay.client, "60 00 0003", NULL);
    fake_peer_expect_nothing(talk.replay.client);
    replay_ask(&talk.replay, words("51 01 0004 aa", CRI " 258:02"));
    fake_peer_expect_nothing_within(talk.replay.client, 1000);
    stop(&talk);
}

static void test_hit_for_a_non_request_and_its_repetition(void **state)
{
    struct talk talk;
    (void)state;
    start(&talk);
    fetch(&talk, 0x45, "/31");
    replay_ask(&talk.replay, words("51 01 0009 bb", CRI));
    fake_peer_expect(talk.replay.client, words("51 45 MID bb", "/31"), NULL);
    hit(&talk, 0x45, "/31");
    replay_ask(&talk.replay, words("41 01 0003 aa", CRI)); /* the same message again */
    fake_peer_expect(talk.replay.client, words("61 45 0003 aa", "/31"), NULL);
    assert_int_equal(replay_metric(&talk.replay, cache_hits), 2);
    assert_int_equal(replay_metric(&talk.replay, requests_duplicate), 1);
    stop(&talk);
}

/* --- blocks ------------------------------------------------------------- */

static void test_blocks_of_one_body(void **state) /* CACHE-29 */
{
    struct talk talk;
    (void)state;
    start(&talk);
    fetch(&talk, 0x45, "4:01 23:08 /#16");
    ask(&talk, 0x01, "23:10 " CRI);
    serve(&talk, 0x01, "3=h 11=x 23:10", 0x45, "4:01 23:10 /62");
    expect(&talk, 0x45, "4:01 23:10 /62");
    hit(&talk, 0x45, "4:01 23:08 /#16");
    ask(&talk, 0x01, "23:10 " CRI);
    expect(&talk, 0x45, "4:01 23:10 /62");
    /* A block past the end says nothing about the others. */
    ask(&talk, 0x01, "23:f0 " CRI);
    serve(&talk, 0x01, "3=h 11=x 23:f0", 0x80, "");
    expect(&talk, 0x80, "");
    hit(&talk, 0x45, "4:01 23:08 /#16");
    /* But a block of another representation does. */
    ask(&talk, 0x01, "23:20 " CRI);
    serve(&talk, 0x01, "3=h 11=x 23:20", 0x45, "4:02 23:20 /63");
    expect(&talk, 0x45, "4:02 23:20 /63");
    ask(&talk, 0x01, CRI);
    serve(&talk, 0x01, "3=h 4:01 11=x", 0x45, "4:02 23:08 /#16");
    expect(&talk, 0x45, "4:02 23:08 /#16");
    ask(&talk, 0x01, "23:10 " CRI);
    serve(&talk, 0x01, "3=h 4:01 11=x 23:10", 0x45, "4:02 23:10 /64");
    expect(&talk, 0x45, "4:02 23:10 /64");
    stop(&talk);
}

/* A body that is here as a whole is there for those who ask for it in blocks. */
static void test_blocks_of_a_whole_body(void **state)
{
    struct talk talk;
    (void)state;
    start(&talk);
    ask(&talk, 0x01, "23:06 " CRI); /* early negotiation; the answer needs no blocks */
    serve(&talk, 0x01, H_X " 23:06", 0x45, "4:01 23:06 /#40");
    expect(&talk, 0x45, "4:01 23:06 /#40");
    hit(&talk, 0x45, "4:01 /#40");
    ask(&talk, 0x01, "23:00 " CRI);
    expect(&talk, 0x45, "4:01 23:08 28:28 /#16");
    ask(&talk, 0x01, "23:20 " CRI);
    expect(&talk, 0x45, "4:01 23:20 /#8");
    /* Stale: a 2.03 is enough. */
    fake_net_run(60001);
    ask(&talk, 0x01, "23:00 " CRI);
    serve(&talk, 0x01, "3=h 4:01 11=x 23:00", 0x43, "4:01");
    expect(&talk, 0x45, "4:01 23:08 28:28 /#16");
    hit(&talk, 0x45, "4:01 /#40");
    stop(&talk);
}

/* --- when the origin server fails --------------------------------------- */

static void keep_one(struct talk *talk, const char *stale)
{
    start_with(talk, stale, "proxy.request-timeout=1s");
    fetch(talk, 0x45, "4:01 14:0a /31");
    fake_net_run(20000);
    ask(talk, 0x01, CRI);
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
        serve(&talk, 0x01, "3=h 4:01 11=x", rows[i].code, rows[i].answer);
        if (rows[i].is_failure) {
            expect(&talk, 0x45, "4:01 14: /31");
        } else {
            expect(&talk, rows[i].code, rows[i].answer);
        }
        assert_int_equal(replay_ended(&talk.replay, REASON_stale), rows[i].is_failure ? 1 : 0);
        stop(&talk);
    }
}

static void test_stale_if_the_origin_is_gone(void **state)
{
    struct talk talk;
    struct fake_datagram request;
    (void)state;
    keep_one(&talk, "cache.stale-if-error=30s");
    fake_peer_expect(talk.replay.origin, words("48 01 MID TOKEN", "3=h 4:01 11=x"), &request);
    fake_peer_reply(talk.replay.origin, &request, "70 00 MID");
    expect(&talk, 0x45, "4:01 14: /31");
    fake_net_refuse("192.0.2.5:5683", 111);
    ask(&talk, 0x01, "4:01 " CRI);
    fake_peer_expect(talk.replay.client, words("61 43 0004 aa", "4:01 14:"), NULL);
    fake_net_run(20001); /* 30 s past its 10 s */
    ask(&talk, 0x01, CRI);
    fake_peer_expect(talk.replay.client, "61 a2 0005 aa ...", NULL);
    stop(&talk);
}

static void test_nothing_stale_unless_configured(void **state)
{
    struct talk talk;
    keep_one(&talk, "cache.stale-if-error=0s");
    (void)state;
    serve(&talk, 0x01, "3=h 4:01 11=x", 0xa3, "");
    expect(&talk, 0xa3, "");
    stop(&talk);
}

/* What an unsafe request has changed is never given for a failure. */
static void test_nothing_stale_that_was_changed(void **state)
{
    struct talk talk;
    (void)state;
    start_with(&talk, "cache.stale-if-error=1h", NULL);
    fetch(&talk, 0x45, "4:01 /31");
    ask(&talk, 0x03, CRI " /32");
    serve(&talk, 0x03, H_X " /32", 0x44, "");
    expect(&talk, 0x44, "");
    ask(&talk, 0x01, CRI);
    serve(&talk, 0x01, "3=h 4:01 11=x", 0xa3, "");
    expect(&talk, 0xa3, "");
    stop(&talk);
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
        TEST(test_hop_limit_reached_is_for_who_may_go_no_further),
        TEST(test_hop_limit_zero_is_refused_all_the_same),
        TEST(test_no_response_holds_for_hits),
        TEST(test_hit_for_a_non_request_and_its_repetition),
        TEST(test_blocks_of_one_body),
        TEST(test_blocks_of_a_whole_body),
        TEST(test_stale_if_error),
        TEST(test_stale_if_the_origin_is_gone),
        TEST(test_nothing_stale_unless_configured),
        TEST(test_nothing_stale_that_was_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
