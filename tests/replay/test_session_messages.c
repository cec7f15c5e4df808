/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages on DTLS sessions of our own (net/upstream_message.h) by the ten thousand; the talk is in
 * tests/scenario/session_messages.scn. In place of records they go over the fake network in the
 * clear (tests/support/scripted_sessions.h).
 */
#include "replay/replay.h"
#include "replay/words.h"

#include "support/scripted_sessions.h"

#include <stdio.h>
#include <string.h>

#define NATIVE "upstream.engine=native"
#define TARGET "35=coaps://192.0.2.5/x"

static struct replay replay;
static struct fake_peer *server;

static void begin(const char *const *settings)
{
    const char *all[8] = {NATIVE};
    for (size_t i = 0; settings != NULL && settings[i] != NULL; i++) {
        assert_true(i < 6);
        all[i + 1] = settings[i];
    }
    fake_sessions_start();
    replay_start(&replay, all);
    server = fake_peer_new("192.0.2.5:5684");
}

static void end(void)
{
    fake_net_run(300000);
    replay_stop(&replay);
    fake_sessions_stop();
}

/* Request number @p n, with token n. */
static void ask(unsigned n, const char *type, const char *code)
{
    char head[32];
    snprintf(head, sizeof(head), "%s %s 00%02x %02x", type, code, n, n);
    replay_ask(&replay, words(head, TARGET));
    fake_net_run(0);
}

/* MSG-14: a message id does not come twice within its lifetime: another session takes over. */
static void test_message_ids_are_not_used_twice(void **state)
{
    struct fake_datagram request, answer;
    (void)state;
    begin(NULL);
    struct fake_peer *other = fake_peer_new("192.0.2.8:40001"); /* its message ids are new again */
    for (unsigned i = 0; i < 65536 + 10; i++) {
        char head[32];
        struct fake_peer *client = i < 65536 ? replay.client : other;
        snprintf(head, sizeof(head), "52 02 %04x %04x", i & 0xffff, i & 0xffff);
        fake_peer_send(client, PROXY, words(head, TARGET));
        fake_peer_expect(server, "48 02 MID TOKEN b1 78", &request);
        fake_peer_reply(server, &request, "6T 44 MID TOKEN");
        fake_net_run(3);
        assert_true(fake_peer_take(client, &answer));
        assert_int_equal(answer.data[1], 0x44);
    }
    assert_int_equal(fake_session_opened(), 2);
    assert_int_equal(replay_metric(&replay, upstream_sessions_lost), 0);
    end();
}

/* All that a silent origin server is sent counts, and what waits for it has it probed. */
static void test_silent_origin_is_probed(void **state)
{
    struct fake_datagram request, ping;
    (void)state;
    begin((const char *[]){"limits.origin-queue=4", NULL});
    uint64_t bytes = 0, from_ms = fake_net_now_ms();
    for (unsigned i = 0; i < 400; i++) {
        ask(1, "51", "02");
        fake_net_run(5000);
        struct fake_datagram any;
        while (fake_peer_take(server, &any)) {
            bytes += any.len;
        }
        while (fake_peer_take(replay.client, &any)) {
        }
    }
    uint64_t seconds = (fake_net_now_ms() - from_ms) / 1000;
    print_message("%u bytes in %u s\n", (unsigned)bytes, (unsigned)seconds);
    assert_true(bytes <= seconds + 200); /* the last request is still to be made up for */
    /* It is back: the next Ping finds it, long before its rate allows a request. */
    ask(2, "51", "02");
    while (!fake_peer_wait(server, 60000) || !fake_peer_take(server, &ping) || ping.len != 4) {
        ask(2, "51", "02");
    }
    fake_peer_reply(server, &ping, "70 00 MID");
    fake_peer_expect(server, "48 02 MID TOKEN b1 78", &request);
    fake_net_run(300000);
    while (fake_peer_take(server, &request) || fake_peer_take(replay.client, &request)) {
    }
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_message_ids_are_not_used_twice),
        cmocka_unit_test(test_silent_origin_is_probed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
