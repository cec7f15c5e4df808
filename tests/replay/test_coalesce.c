/* SPDX-License-Identifier: BSD-2-Clause */
/* Equal requests in flight go upstream once (CACHE-30), and what becomes of those who wait. */
#include "replay/passers.h"
#include "replay/replay.h"
#include "replay/words.h"

#include "support/fake_client.h"

#include <stdio.h>
#include <string.h>

#define CRI "235:842081616881617881616b"
#define H_X "3=h 11=x 15=k"
#define UPSTREAM words("48 01 MID TOKEN", H_X)

static void start_with(struct replay *replay, const char *a, const char *b)
{
    replay_start(replay, (const char *[]){"cache.coalesce=yes", a, a != NULL ? b : NULL, NULL});
    passers_start(replay);
}

static struct fake_peer *client_at(unsigned number)
{
    char text[32];
    snprintf(text, sizeof(text), "192.0.2.%u:40001", 100 + number);
    return fake_peer_new(text);
}

static void get(struct fake_peer *client, const char *head, const char *body)
{
    fake_peer_send(client, PROXY, words(head, body));
}

/* Leader, and two who follow it: the origin server is asked once. */
static void three(struct replay *replay, struct fake_peer *clients[3],
                  struct fake_datagram *ret_request)
{
    for (unsigned i = 0; i < 3; i++) {
        clients[i] = client_at(i);
        get(clients[i], "41 01 0001 aa", CRI);
    }
    fake_peer_expect(replay->origin, UPSTREAM, ret_request);
    fake_peer_expect_nothing(replay->origin);
}

static void test_ten_are_asked_once(void **state)
{
    struct replay replay;
    struct fake_peer *clients[10];
    struct fake_datagram request;
    (void)state;
    start_with(&replay, NULL, NULL);
    for (unsigned i = 0; i < 10; i++) {
        clients[i] = client_at(i);
        get(clients[i], i % 2 == 0 ? "41 01 0001 aa" : "52 01 0001 bbbb",
            i % 3 == 0 ? CRI : "35=coap://h/x?k");
    }
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    fake_peer_expect_nothing(replay.origin);
    assert_int_equal(replay_metric(&replay, requests_coalesced), 9);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "4:01 /31"));
    for (unsigned i = 0; i < 10; i++) {
        fake_peer_expect(clients[i],
                         words(i % 2 == 0 ? "61 45 0001 aa" : "52 45 MID bbbb", "4:01 /31"), NULL);
    }
    assert_int_equal(replay_ended(&replay, REASON_answered), 10);
    /* The cache is off: who comes later asks again. */
    get(clients[0], "41 01 0002 aa", CRI);
    fake_peer_serve(replay.origin, UPSTREAM, "6T 84 MID TOKEN");
    fake_peer_expect(clients[0], "61 84 0002 aa", NULL);
    replay_stop(&replay);
}

/* Requests that are nearly equal go by themselves. */
static void test_what_is_not_equal(void **state)
{
    static const struct {
        const char *id;
        const char *head, *body, *upstream_head, *upstream, *answer;
    } rows[] = {
        {"another method", "41 05 0001 aa", CRI, "48 05 MID TOKEN", H_X, "/32"},
        {"POST", "41 02 0001 aa", CRI, "48 02 MID TOKEN", H_X, "/32"},
        {"Accept", "41 01 0001 aa", "17: " CRI, "48 01 MID TOKEN", H_X " 17:", "/32"},
        {"Echo", "41 01 0001 aa", CRI " 252:01", "48 01 MID TOKEN", H_X " 252:01", "/32"},
        {"OSCORE", "41 01 0001 aa", "9: " CRI, "48 01 MID TOKEN", "3=h 9: 11=x 15=k", "/32"},
        {"another block", "41 01 0001 aa", "23:10 " CRI, "48 01 MID TOKEN", H_X " 23:10",
         "23:10 /32"},
        {"HOP a loop does not wait for itself", "41 01 0001 aa", "16:05 " CRI, "48 01 MID TOKEN",
         H_X " 16:04", "/32"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct replay replay;
        struct fake_datagram first;
        print_message("    %s\n", rows[i].id);
        start_with(&replay, NULL, NULL);
        struct fake_peer *other = client_at(1);
        replay_ask(&replay, words("41 01 0001 aa", CRI));
        get(other, rows[i].head, rows[i].body);
        fake_peer_expect(replay.origin, UPSTREAM, &first);
        fake_peer_serve(replay.origin, words(rows[i].upstream_head, rows[i].upstream),
                        words("6T 45 MID TOKEN", rows[i].answer));
        fake_peer_reply(replay.origin, &first, words("6T 45 MID TOKEN", "/31"));
        fake_peer_expect(replay.client, words("61 45 0001 aa", "/31"), NULL);
        fake_peer_expect(other, words("61 45 0001 aa", rows[i].answer), NULL);
        replay_stop(&replay);
    }
}

static void test_switched_off(void **state)
{
    struct replay replay;
    struct fake_datagram requests[2];
    (void)state;
    start_with(&replay, "cache.coalesce=no", "cache.max-bytes=1MiB");
    struct fake_peer *other = client_at(1);
    replay_ask(&replay, words("41 01 0001 aa", CRI));
    get(other, "41 01 0001 aa", CRI);
    for (int i = 0; i < 2; i++) {
        fake_peer_expect(replay.origin, UPSTREAM, &requests[i]);
        fake_peer_reply(replay.origin, &requests[i], "6T 45 MID TOKEN");
    }
    fake_peer_expect(replay.client, "61 45 0001 aa", NULL);
    fake_peer_expect(other, "61 45 0001 aa", NULL);
    replay_stop(&replay);
}

static void test_cap_of_followers(void **state)
{
    struct replay replay;
    struct fake_peer *clients[5];
    struct fake_datagram requests[2];
    (void)state;
    start_with(&replay, "cache.followers=2", NULL);
    for (unsigned i = 0; i < 5; i++) { /* one leads two, the fourth leads the fifth */
        clients[i] = client_at(i);
        get(clients[i], "41 01 0001 aa", CRI);
    }
    fake_peer_expect(replay.origin, UPSTREAM, &requests[0]);
    fake_peer_expect(replay.origin, UPSTREAM, &requests[1]);
    fake_peer_expect_nothing(replay.origin);
    fake_peer_reply(replay.origin, &requests[1], words("6T 45 MID TOKEN", "/32"));
    fake_peer_reply(replay.origin, &requests[0], words("6T 45 MID TOKEN", "/31"));
    for (unsigned i = 0; i < 5; i++) {
        fake_peer_expect(clients[i], words("61 45 0001 aa", i < 3 ? "/31" : "/32"), NULL);
    }
    replay_stop(&replay);
}

/* --- time --------------------------------------------------------------- */

/* Each is acknowledged when its own time has come, and answered in its own way. */
static void test_each_has_its_own_time(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    start_with(&replay, NULL, NULL);
    struct fake_peer *early = client_at(1), *late = client_at(2);
    get(early, "41 01 0001 aa", CRI);
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    fake_net_run(200);
    get(late, "41 01 0001 bb", CRI);
    fake_net_run(50);
    fake_peer_expect(early, "60 00 0001", NULL);
    fake_net_run(150);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "/31"));
    fake_peer_expect(late, words("61 45 0001 bb", "/31"), NULL); /* piggybacked */
    fake_peer_serve(early, words("41 45 MID aa", "/31"), "60 00 MID");
    replay_stop(&replay);
}

/* A follower's deadline is its own; the one it follows goes on. */
static void test_deadline_of_a_follower(void **state)
{
    struct replay replay;
    struct fake_datagram answer;
    (void)state;
    start_with(&replay, "proxy.request-timeout=10s", NULL);
    struct fake_peer *other = client_at(1);
    get(other, "51 01 0001 bb", CRI);
    fake_peer_serve(replay.origin, UPSTREAM, "60 00 MID");
    fake_net_run(5000);
    replay_ask(&replay, words("51 01 0001 aa", CRI));
    fake_net_run(4999);
    fake_peer_expect_nothing(other);
    fake_net_run(1);
    /* The leader has failed, and so have those who followed it. */
    fake_peer_expect(other, "51 a4 MID bb ...", NULL);
    fake_peer_expect(replay.client, "51 a4 MID aa ...", &answer);
    assert_int_equal(replay_ended(&replay, REASON_origin_timeout), 2);
    replay_stop(&replay);
}

/* --- failures ----------------------------------------------------------- */

static void test_a_failure_is_for_all(void **state)
{
    struct replay replay;
    struct fake_peer *clients[3];
    struct fake_datagram request;
    (void)state;
    start_with(&replay, NULL, NULL);
    three(&replay, clients, &request);
    fake_peer_reply(replay.origin, &request, "70 00 MID");
    for (int i = 0; i < 3; i++) {
        fake_peer_expect(clients[i], "61 a2 0001 aa ...", NULL);
    }
    assert_int_equal(replay_ended(&replay, REASON_origin_reset), 3);
    replay_stop(&replay);
}

static void test_failures_before_anything_is_sent(void **state)
{
    struct replay replay;
    (void)state;
    start_with(&replay, NULL, NULL);
    struct fake_peer *other = client_at(1);
    fake_net_name("nowhere", 100, RESOLVE_NOT_FOUND, "");
    replay_ask(&replay, words("41 01 0001 aa", "35=coap://nowhere/x"));
    get(other, "41 01 0001 aa", "35=coap://nowhere/x");
    fake_net_run(100);
    fake_peer_expect(replay.client, "61 a2 0001 aa ...", NULL);
    fake_peer_expect(other, "61 a2 0001 aa ...", NULL);
    assert_int_equal(fake_net_questions(), 1);
    replay_stop(&replay);
}

static void test_a_stale_answer_is_for_all(void **state)
{
    struct replay replay;
    struct fake_peer *clients[3];
    struct fake_datagram request;
    (void)state;
    start_with(&replay, "cache.max-bytes=1MiB", "cache.stale-if-error=1h");
    replay_ask(&replay, words("41 01 0001 aa", CRI));
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "14:01 /31"));
    fake_peer_expect(replay.client, words("61 45 0001 aa", "14:01 /31"), NULL);
    fake_net_run(2000);
    three(&replay, clients, &request);
    fake_peer_reply(replay.origin, &request, "70 00 MID");
    for (int i = 0; i < 3; i++) {
        fake_peer_expect(clients[i], words("61 45 0001 aa", "14: /31"), NULL);
    }
    assert_int_equal(replay_ended(&replay, REASON_stale), 3);
    replay_stop(&replay);
}

/* What only one client may have (CACHE-24) is not given to the others: they are sent for. */
static void test_answers_for_one_alone(void **state)
{
    static const struct {
        const char *id, *head, *body;
    } rows[] = {
        {"4.01 with Echo", "6T 81 MID TOKEN", "252:01"},
        {"Echo", "6T 45 MID TOKEN", "252:01"},
        {"4.01", "6T 81 MID TOKEN", ""},
        {"OSCORE", "6T 45 MID TOKEN", "9:"},
        {"2.04", "6T 44 MID TOKEN", ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct replay replay;
        struct fake_peer *clients[3];
        struct fake_datagram request, others[2];
        print_message("    %s\n", rows[i].id);
        start_with(&replay, NULL, NULL);
        three(&replay, clients, &request);
        fake_peer_reply(replay.origin, &request, words(rows[i].head, rows[i].body));
        fake_peer_expect(clients[0], "61 ?? 0001 aa ...", NULL);
        for (int j = 0; j < 2; j++) {
            fake_peer_expect(replay.origin, UPSTREAM, &others[j]);
            fake_peer_expect_nothing(clients[j + 1]);
        }
        for (int j = 0; j < 2; j++) {
            fake_peer_reply(replay.origin, &others[j], words("6T 45 MID TOKEN", "/31"));
            fake_peer_expect(clients[j + 1], words("61 45 0001 aa", "/31"), NULL);
        }
        replay_stop(&replay);
    }
}

/* --- clients that go ---------------------------------------------------- */

/* The leader's client uses its token for something else: the others have their answer. */
static void test_leader_is_replaced(void **state)
{
    struct replay replay;
    struct fake_peer *clients[3];
    struct fake_datagram request, other;
    (void)state;
    start_with(&replay, NULL, NULL);
    three(&replay, clients, &request);
    get(clients[0], "41 01 0002 aa", "35=coap://h/y");
    fake_peer_expect(clients[0], "60 00 0001", NULL);
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 11=y"), &other);
    assert_int_equal(replay_ended(&replay, REASON_client_replaced), 1);
    get(clients[0], "41 01 0001 aa", CRI); /* the first one again: still no answer for it */
    fake_peer_expect(clients[0], "60 00 0001", NULL);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "/31"));
    fake_peer_expect(clients[1], words("61 45 0001 aa", "/31"), NULL);
    fake_peer_expect(clients[2], words("61 45 0001 aa", "/31"), NULL);
    fake_peer_expect_nothing(clients[0]);
    fake_peer_reply(replay.origin, &other, words("6T 45 MID TOKEN", "/32"));
    fake_peer_expect(clients[0], words("61 45 0002 aa", "/32"), NULL);
    replay_stop(&replay);
}

/* The same, with a failure; and later clients follow the one without a client. */
static void test_leader_without_its_client_fails(void **state)
{
    struct replay replay;
    struct fake_peer *clients[3], *newcomer;
    struct fake_datagram request, other;
    (void)state;
    start_with(&replay, NULL, NULL);
    newcomer = client_at(9);
    three(&replay, clients, &request);
    get(clients[0], "51 01 0002 aa", "35=coap://h/y");
    fake_peer_expect(clients[0], "60 00 0001", NULL);
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 11=y"), &other);
    get(newcomer, "51 01 0001 cc", CRI);
    fake_peer_expect_nothing(replay.origin);
    fake_peer_reply(replay.origin, &request, "70 00 MID");
    fake_peer_expect(clients[1], "61 a2 0001 aa ...", NULL);
    fake_peer_expect(clients[2], "61 a2 0001 aa ...", NULL);
    fake_peer_expect(newcomer, "51 a2 MID cc ...", NULL);
    fake_peer_reply(replay.origin, &other, "6T 45 MID TOKEN");
    fake_peer_expect(clients[0], "51 45 MID aa", NULL);
    replay_stop(&replay);
}

/* On a session, too: what of the leader was on it is over when the answer has come. */
static void test_leader_on_a_session_is_replaced(void **state)
{
    struct replay replay;
    struct fake_peer *clients[2];
    struct fake_datagram other;
    (void)state;
    start_with(&replay, NULL, NULL);
    for (unsigned i = 0; i < 2; i++) {
        clients[i] = client_at(i);
        get(clients[i], "41 01 0001 aa", "35=coap+tcp://h/x?k");
    }
    fake_net_run(0);
    fake_client_expect("tcp 192.0.2.5:5683 h", "01 31 68 81 78 41 6b");
    fake_client_expect_nothing();
    get(clients[0], "41 01 0002 aa", CRI);
    fake_peer_expect(clients[0], "60 00 0001", NULL);
    fake_peer_expect(replay.origin, UPSTREAM, &other);
    fake_client_answer("45 ff 31");
    fake_net_run(0);
    fake_peer_expect(clients[1], words("61 45 0001 aa", "/31"), NULL);
    assert_int_equal(fake_client_count(), 0);
    fake_peer_reply(replay.origin, &other, words("6T 45 MID TOKEN", "/32"));
    fake_peer_expect(clients[0], words("61 45 0002 aa", "/32"), NULL);
    replay_stop(&replay);
}

static void test_follower_is_replaced(void **state)
{
    struct replay replay;
    struct fake_peer *clients[3];
    struct fake_datagram request, other;
    (void)state;
    start_with(&replay, NULL, NULL);
    three(&replay, clients, &request);
    get(clients[1], "41 01 0002 aa", "35=coap://h/y");
    fake_peer_expect(clients[1], "60 00 0001", NULL);
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 11=y"), &other);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "/31"));
    fake_peer_expect(clients[0], words("61 45 0001 aa", "/31"), NULL);
    fake_peer_expect(clients[2], words("61 45 0001 aa", "/31"), NULL);
    fake_peer_expect_nothing(clients[1]);
    fake_peer_reply(replay.origin, &other, words("6T 45 MID TOKEN", "/32"));
    fake_peer_expect(clients[1], words("61 45 0002 aa", "/32"), NULL);
    replay_stop(&replay);
}

/* One that leaves makes room for another one to follow. */
static void test_follower_that_leaves_makes_room(void **state)
{
    struct replay replay;
    struct fake_peer *clients[4];
    struct fake_datagram request, other;
    (void)state;
    start_with(&replay, "cache.followers=2", NULL);
    three(&replay, clients, &request);
    for (unsigned round = 0; round < 2; round++) { /* clients[2] leaves and comes back */
        get(clients[2], round == 0 ? "41 01 0010 aa" : "41 01 0011 aa", "35=coap://h/y");
        fake_peer_expect(clients[2], "60 00 MID", NULL);
        fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 11=y"), &other);
        fake_peer_reply(replay.origin, &other, words("6T 45 MID TOKEN", "/32"));
        fake_peer_expect(clients[2], words("61 45 MID aa", "/32"), NULL);
        get(clients[2], round == 0 ? "41 01 0020 aa" : "41 01 0021 aa", CRI);
        fake_peer_expect_nothing(replay.origin);
    }
    clients[3] = client_at(3);
    get(clients[3], "41 01 0001 aa", CRI); /* one too many: by itself */
    fake_peer_expect(replay.origin, UPSTREAM, &other);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "/31"));
    fake_peer_reply(replay.origin, &other, words("6T 45 MID TOKEN", "/33"));
    fake_peer_expect(clients[0], words("61 45 0001 aa", "/31"), NULL);
    fake_peer_expect(clients[1], words("61 45 0001 aa", "/31"), NULL);
    fake_peer_expect(clients[2], words("61 45 0021 aa", "/31"), NULL);
    fake_peer_expect(clients[3], words("61 45 0001 aa", "/33"), NULL);
    replay_stop(&replay);
}

/* A leader whose client comes back with the very same question follows itself. */
static void test_leader_is_replaced_by_an_equal_request(void **state)
{
    struct replay replay;
    struct fake_peer *clients[3];
    struct fake_datagram request;
    (void)state;
    start_with(&replay, NULL, NULL);
    three(&replay, clients, &request);
    get(clients[0], "41 01 0002 aa", CRI);
    fake_peer_expect(clients[0], "60 00 0001", NULL);
    fake_peer_expect_nothing(replay.origin);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "/31"));
    fake_peer_expect(clients[0], words("61 45 0002 aa", "/31"), NULL);
    fake_peer_expect(clients[1], words("61 45 0001 aa", "/31"), NULL);
    fake_peer_expect(clients[2], words("61 45 0001 aa", "/31"), NULL);
    replay_stop(&replay);
}

/* --- per client --------------------------------------------------------- */

/* ETags are no part of the key: who has it is told so, the others get it. */
static void test_etags_of_each(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    start_with(&replay, NULL, NULL);
    struct fake_peer *has_it = client_at(1), *has_another = client_at(2);
    replay_ask(&replay, words("41 01 0001 aa", CRI));
    get(has_it, "41 01 0001 aa", "4:01 " CRI);
    get(has_another, "41 01 0001 aa", "4:02 " CRI);
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    fake_peer_expect_nothing(replay.origin);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "4:01 12: 14:0a /31"));
    fake_peer_expect(replay.client, words("61 45 0001 aa", "4:01 12: 14:0a /31"), NULL);
    fake_peer_expect(has_it, words("61 43 0001 aa", "4:01 14:0a"), NULL);
    fake_peer_expect(has_another, words("61 45 0001 aa", "4:01 12: 14:0a /31"), NULL);
    replay_stop(&replay);
}

/* Who asks about what is not here is followed only by those who ask about the same. */
static void test_leader_with_an_etag_of_its_own(void **state)
{
    struct replay replay;
    struct fake_datagram first, second;
    (void)state;
    start_with(&replay, NULL, NULL);
    struct fake_peer *same = client_at(1), *other = client_at(2);
    replay_ask(&replay, words("41 01 0001 aa", "4:01 " CRI));
    get(same, "41 01 0001 aa", "4:01 " CRI);
    get(other, "41 01 0001 aa", CRI);
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 4:01 11=x 15=k"), &first);
    fake_peer_expect(replay.origin, UPSTREAM, &second);
    fake_peer_expect_nothing(replay.origin);
    fake_peer_reply(replay.origin, &first, words("6T 43 MID TOKEN", "4:01"));
    fake_peer_expect(replay.client, words("61 43 0001 aa", "4:01"), NULL);
    fake_peer_expect(same, words("61 43 0001 aa", "4:01"), NULL);
    fake_peer_reply(replay.origin, &second, words("6T 45 MID TOKEN", "/31"));
    fake_peer_expect(other, words("61 45 0001 aa", "/31"), NULL);
    replay_stop(&replay);
}

static void test_validation_is_shared(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    start_with(&replay, "cache.max-bytes=1MiB", NULL);
    struct fake_peer *has_it = client_at(1), *none = client_at(2);
    replay_ask(&replay, words("41 01 0001 aa", CRI));
    fake_peer_serve(replay.origin, UPSTREAM, words("6T 45 MID TOKEN", "4:01 14:01 /31"));
    fake_peer_expect(replay.client, words("61 45 0001 aa", "4:01 14:01 /31"), NULL);
    fake_net_run(1001);
    replay_ask(&replay, words("41 01 0002 aa", CRI));
    get(has_it, "41 01 0001 aa", "4:01 " CRI);
    get(none, "41 01 0001 aa", CRI);
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 4:01 11=x 15=k"), &request);
    fake_peer_expect_nothing(replay.origin);
    fake_peer_reply(replay.origin, &request, words("6T 43 MID TOKEN", "4:01"));
    fake_peer_expect(replay.client, words("61 45 0002 aa", "4:01 /31"), NULL);
    fake_peer_expect(has_it, words("61 43 0001 aa", "4:01"), NULL);
    fake_peer_expect(none, words("61 45 0001 aa", "4:01 /31"), NULL);
    replay_stop(&replay);
}

static void test_no_response_of_each(void **state)
{
    struct replay replay;
    (void)state;
    start_with(&replay, NULL, NULL);
    struct fake_peer *silent = client_at(1);
    get(silent, "41 01 0001 aa", CRI " 258:02");
    replay_ask(&replay, words("41 01 0001 aa", CRI));
    fake_peer_serve(replay.origin, UPSTREAM, words("6T 45 MID TOKEN", "/31"));
    fake_peer_expect(silent, "60 00 0001", NULL);
    fake_peer_expect(replay.client, words("61 45 0001 aa", "/31"), NULL);
    replay_stop(&replay);
}

/* Who comes after a change does not get what was asked for before it. */
static void test_nobody_follows_across_a_change(void **state)
{
    struct replay replay;
    struct fake_datagram before, after;
    (void)state;
    start_with(&replay, NULL, NULL);
    struct fake_peer *writer = client_at(1), *reader = client_at(2);
    replay_ask(&replay, words("41 01 0001 aa", CRI));
    fake_peer_expect(replay.origin, UPSTREAM, &before);
    get(writer, "41 03 0001 aa", CRI " /32");
    fake_peer_serve(replay.origin, words("48 03 MID TOKEN", H_X " /32"), "6T 44 MID TOKEN");
    fake_peer_expect(writer, "61 44 0001 aa", NULL);
    get(reader, "41 01 0001 aa", CRI);
    fake_peer_expect(replay.origin, UPSTREAM, &after);
    fake_peer_reply(replay.origin, &before, words("6T 45 MID TOKEN", "/31"));
    fake_peer_expect(replay.client, words("61 45 0001 aa", "/31"), NULL);
    fake_peer_reply(replay.origin, &after, words("6T 45 MID TOKEN", "/32"));
    fake_peer_expect(reader, words("61 45 0001 aa", "/32"), NULL);
    replay_stop(&replay);
}

/* --- stopping ----------------------------------------------------------- */

static void test_draining_waits_for_followers(void **state)
{
    struct replay replay;
    struct fake_peer *clients[3];
    struct fake_datagram request;
    (void)state;
    start_with(&replay, NULL, NULL);
    three(&replay, clients, &request);
    engine_drain(replay.engine);
    assert_int_equal(engine_in_flight(replay.engine), 3);
    replay_ask(&replay, words("41 01 0001 aa", CRI));
    fake_peer_expect(replay.client, "61 a3 0001 aa ...", NULL);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "/31"));
    for (int i = 0; i < 3; i++) {
        fake_peer_expect(clients[i], words("61 45 0001 aa", "/31"), NULL);
    }
    replay_stop(&replay);
}

/*
 * An origin server 50 ms away, 200 clients that read one resource in closed loops: each
 * waits about one round trip at most, and the origin server is asked once in Max-Age.
 */
struct crowd {
    unsigned asked;
};

static void on_asked(void *context, struct fake_peer *peer, const struct fake_datagram *datagram)
{
    struct crowd *crowd = context;
    crowd->asked++;
    fake_peer_reply(peer, datagram, words("6T 45 MID TOKEN", "14:02 /31"));
}

static void test_two_hundred_clients(void **state)
{
    struct replay replay;
    struct crowd crowd = {0};
    static struct fake_peer *clients[200];
    (void)state;
    start_with(&replay, "cache.max-bytes=1MiB", NULL);
    struct fake_link link = {.delay_min_ms = 25, .delay_max_ms = 25};
    fake_net_set_link(&link);
    fake_peer_on_datagram(replay.origin, on_asked, &crowd);
    for (unsigned i = 0; i < 200; i++) {
        char text[32];
        snprintf(text, sizeof(text), "192.0.2.%u:40001", i + 20);
        clients[i] = fake_peer_new(text);
    }
    for (unsigned round = 1; round <= 20; round++) {
        char head[32];
        struct fake_datagram answer;
        uint64_t start_ms = fake_net_now_ms(), longest_ms = 0, sum_ms = 0;
        snprintf(head, sizeof(head), "41 01 %04x aa", round);
        for (unsigned i = 0; i < 200; i++) {
            get(clients[i], head, CRI);
        }
        fake_net_run(500);
        snprintf(head, sizeof(head), "61 45 %04x aa ...", round);
        for (unsigned i = 0; i < 200; i++) {
            fake_peer_expect(clients[i], head, &answer);
            uint64_t ms = answer.at_ms - start_ms;
            longest_ms = ms > longest_ms ? ms : longest_ms;
            sum_ms += ms;
        }
        /* 50 ms to the proxy and back, and where it has to ask, 50 ms more. */
        assert_true(longest_ms <= 100);
        assert_true(sum_ms >= 200 * 50);
    }
    /* Each answer serves the round it came in and four more: four questions, not 4,000. */
    assert_int_equal(crowd.asked, 4);
    assert_int_equal(replay_ended(&replay, REASON_answered), 4 * 200);
    assert_int_equal(replay_ended(&replay, REASON_cached), 16 * 200);
    replay_stop(&replay);
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_ten_are_asked_once),
        TEST(test_what_is_not_equal),
        TEST(test_switched_off),
        TEST(test_cap_of_followers),
        TEST(test_each_has_its_own_time),
        TEST(test_deadline_of_a_follower),
        TEST(test_a_failure_is_for_all),
        TEST(test_failures_before_anything_is_sent),
        TEST(test_a_stale_answer_is_for_all),
        TEST(test_answers_for_one_alone),
        TEST(test_leader_is_replaced),
        TEST(test_leader_without_its_client_fails),
        TEST(test_leader_on_a_session_is_replaced),
        TEST(test_follower_is_replaced),
        TEST(test_follower_that_leaves_makes_room),
        TEST(test_leader_is_replaced_by_an_equal_request),
        TEST(test_etags_of_each),
        TEST(test_leader_with_an_etag_of_its_own),
        TEST(test_validation_is_shared),
        TEST(test_no_response_of_each),
        TEST(test_nobody_follows_across_a_change),
        TEST(test_draining_waits_for_followers),
        TEST(test_two_hundred_clients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
