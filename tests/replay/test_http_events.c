/* SPDX-License-Identifier: BSD-2-Clause */
/* Server-sent events (HC-11), in virtual time. */
#include "replay/http_talk.h"
#include "replay/words.h"

#include <stdio.h>
#include <string.h>

/* HC-11: the first answer and each notification is an event; comments keep the connection. */
static void test_notifications_are_events(void **state)
{
    (void)state;
    struct fake_datagram registration;
    http_start(NULL, NULL);
    http_send(http_stream, GET_X "Accept: text/event-stream\r\n\r\n");
    fake_peer_expect(http_replay.origin, words("48 01 MID TOKEN", "3=h 6: 11=x"), &registration);
    fake_peer_reply(http_replay.origin, &registration,
                    words("6T 45 MID TOKEN", "6:05 12: /310a32"));
    const char *text = http_taken(http_stream);
    http_expect_in(text, "HTTP/1.1 200 OK\r\n");
    http_expect_in(text, "\r\nContent-Type: text/event-stream\r\n");
    http_expect_in(text, "\r\nX-Accel-Buffering: no\r\n");
    http_expect_in(text, "event: 2.05\nid: ");
    http_expect_in(text, "\ndata: 1\ndata: 2\n\n");
    fake_net_run(15000);
    http_expect_in(http_taken(http_stream), "3\r\n:\n\n\r\n");
    fake_peer_reply(http_replay.origin, &registration, words("5T 45 0101 TOKEN", "6:06 12:3c /f6"));
    http_expect_in(http_taken(http_stream),
                   "data: {\"media\":\"application/cbor\",\"base64\":\"9g==\"}\n\n");
    assert_int_equal(replay_metric(&http_replay, observers), 1);
    fake_stream_close(http_stream);
    http_expect_deregistration();
    assert_int_equal(replay_metric(&http_replay, observers), 0);
    http_stop();
}

/* HC-11: an error ends the stream of events; before it has begun it is a status. */
static void test_events_end_with_an_error(void **state)
{
    (void)state;
    struct fake_datagram registration;
    http_start(NULL, NULL);
    http_send(http_stream, GET_X "Accept: text/event-stream\r\n\r\n");
    fake_peer_expect(http_replay.origin, words("48 01 MID TOKEN", "3=h 6: 11=x"), &registration);
    fake_peer_reply(http_replay.origin, &registration, words("6T 84 MID TOKEN", "/6e6f"));
    (void)http_expect_answer(http_stream, 404, "no");
    http_send(http_stream, GET_X "Accept: text/event-stream\r\n\r\n");
    fake_peer_expect(http_replay.origin, words("48 01 MID TOKEN", "3=h 6: 11=x"), &registration);
    fake_peer_reply(http_replay.origin, &registration, words("6T 45 MID TOKEN", "6:05 12: /31"));
    (void)http_taken(http_stream);
    fake_peer_reply(http_replay.origin, &registration, words("5T 84 0101 TOKEN", "/6e6f"));
    const char *text = http_taken(http_stream);
    http_expect_in(text, "event: 4.04\n");
    http_expect_in(text, "data: no\n\n\r\n0\r\n\r\n");
    assert_false(fake_stream_is_closed(http_stream));
    http_stop();
}

/* HC-11: a server that does no Observe gives one event, and says when to ask again. */
static void test_events_without_an_observation(void **state)
{
    (void)state;
    struct fake_datagram request;
    http_start(NULL, NULL);
    http_send(http_stream, GET_X "Accept: text/event-stream\r\n\r\n");
    fake_peer_expect(http_replay.origin, words("48 01 MID TOKEN", "3=h 6: 11=x"), &request);
    fake_peer_reply(http_replay.origin, &request,
                    words("6T 45 MID TOKEN", "12: 14:05 248:82208144c0000209 /31"));
    http_expect_in(http_taken(http_stream), "event: 2.05\nretry: 5000\ndata: 1\n\n\r\n0\r\n\r\n");
    http_stop();
}

/* HC-11: a thousand clients are one registration; one that does not read loses states only. */
static void test_a_thousand_clients_are_one_registration(void **state)
{
    (void)state;
    enum { CLIENTS = 1000 };
    static struct fake_stream *clients[CLIENTS];
    struct fake_datagram registration;
    http_start(NULL, NULL);
    for (int i = 0; i < CLIENTS; i++) {
        char from[32];
        snprintf(from, sizeof(from), "192.0.2.7:%d", 10000 + i);
        clients[i] = fake_stream_connect(TRANSPORT_HTTP, from);
        http_send(clients[i], GET_X "Accept: text/event-stream\r\n\r\n");
    }
    fake_peer_expect(http_replay.origin, words("48 01 MID TOKEN", "3=h 6: 11=x"), &registration);
    fake_peer_expect_nothing(http_replay.origin);
    fake_peer_reply(http_replay.origin, &registration, words("6T 45 MID TOKEN", "6:05 12: /31"));
    for (int i = 0; i < CLIENTS; i++) {
        http_expect_in(http_taken(clients[i]), "data: 1\n");
    }
    fake_stream_stop_reading(clients[0], true);
    for (unsigned n = 0; n < 3; n++) {
        char text[64];
        snprintf(text, sizeof(text), "5T 45 010%u TOKEN 61 0%u 60 ff 3%u", n, 6 + n, 2 + n);
        fake_peer_reply(http_replay.origin, &registration, text);
        for (int i = 1; i < CLIENTS; i++) {
            char data[16];
            snprintf(data, sizeof(data), "data: %u\n", 2 + n);
            http_expect_in(http_taken(clients[i]), data);
        }
    }
    fake_stream_stop_reading(clients[0], false);
    const char *text = http_taken(clients[0]);
    http_expect_in(text, "data: 4\n");
    http_expect_not_in(text, "data: 3\n");
    assert_int_equal(replay_metric(&http_replay, observers), CLIENTS);
    for (int i = 0; i < CLIENTS; i++) {
        fake_stream_close(clients[i]);
    }
    http_expect_deregistration();
    http_stop();
}

static struct fake_peer *group;

/* A group is no target for anybody without a rule that names it (MCAST-2). */
static void start_with_group(const char *setting)
{
    static const char *const rules[] = {"multicast.enabled=yes",
                                        "multicast.timeout-max=10s",
                                        "access groups.clients=192.0.2.7/32",
                                        "access groups.target=*://224.0.1.187",
                                        "access groups.action=allow",
                                        "access others.clients=any",
                                        "access others.target=*://*",
                                        "access others.action=allow"};
    const char *settings[sizeof(rules) / sizeof(rules[0]) + 2] = {NULL};
    memcpy(settings, rules, sizeof(rules));
    settings[sizeof(rules) / sizeof(rules[0])] = setting;
    http_start_with(settings);
    group = fake_peer_new("224.0.1.187:5683");
}

#define GET_GROUP "GET /hc/coap://224.0.1.187/x HTTP/1.1\r\n" HOST
#define EVENTS "Accept: text/event-stream\r\n\r\n"

/* HC-13: the answers of a group are events, one each, with the member as id; then the stream ends.
 */
static void test_answers_of_a_group_are_events(void **state)
{
    (void)state;
    struct fake_datagram request;
    start_with_group(NULL);
    struct fake_peer *member = fake_peer_new("192.0.2.6:61616");
    http_send(http_stream, GET_GROUP EVENTS);
    fake_peer_expect(group, words("58 01 MID TOKEN", "11=x"), &request);
    const char *text = http_taken(http_stream);
    http_expect_in(text, "\r\nContent-Type: text/event-stream\r\n");
    http_expect_in(text, "retry: 10000\n\n");
    fake_peer_reply(http_replay.origin, &request, words("5T 45 0101 TOKEN", "12: /31"));
    http_expect_in(http_taken(http_stream), "event: 2.05\nid: coap://192.0.2.5\ndata: 1\n\n");
    /* A member that says it is another one. */
    fake_peer_reply(http_replay.origin, &request,
                    words("5T 45 0103 TOKEN", "12: 248:82208144c0000209 /31"));
    http_expect_in(http_taken(http_stream), "event: 2.05\nid: coap://192.0.2.5\ndata: 1\n\n");
    fake_peer_reply(member, &request, words("5T 84 0102 TOKEN", "/6e6f"));
    http_expect_in(http_taken(http_stream),
                   "event: 4.04\nid: coap://192.0.2.6:61616\ndata: no\n\n");
    fake_net_run(9000);
    http_expect_not_in(http_taken(http_stream), "0\r\n\r\n");
    fake_net_run(1001);
    assert_string_equal(http_taken(http_stream), "0\r\n\r\n");
    assert_int_equal(replay_ended(&http_replay, REASON_group_done), 1);
    assert_false(fake_stream_is_closed(http_stream));
    http_send(http_stream, GET_GROUP EVENTS); /* and no member answers */
    fake_peer_expect(group, words("58 01 MID TOKEN", "11=x"), &request);
    fake_net_run(10001);
    http_expect_in(http_taken(http_stream), "0\r\n\r\n");
    http_stop();
}

/* HC-13: a client that goes, and one that does not read, cost nothing more. */
static void test_a_group_is_left_by_its_client(void **state)
{
    (void)state;
    struct fake_datagram request;
    start_with_group(NULL);
    http_send(http_stream, GET_GROUP EVENTS);
    fake_peer_expect(group, words("58 01 MID TOKEN", "11=x"), &request);
    (void)http_taken(http_stream);
    fake_stream_stop_reading(http_stream, true);
    fake_peer_reply(http_replay.origin, &request, words("5T 45 0101 TOKEN", "12: /31"));
    fake_peer_reply(http_replay.origin, &request, words("5T 45 0102 TOKEN", "12: /32"));
    fake_net_run(0);
    fake_stream_stop_reading(http_stream, false);
    const char *text = http_taken(http_stream);
    http_expect_in(text, "data: 1\n");
    http_expect_not_in(text, "data: 2\n");
    fake_stream_close(http_stream);
    fake_net_run(0);
    assert_int_equal(replay_metric(&http_replay, exchanges), 0);
    http_stop();
}

/* HC-13: without events, without a rule, and where groups are off, it is 403. */
static void test_groups_are_403_otherwise(void **state)
{
    (void)state;
    static const char why[] = "the target is a group: its answers come as text/event-stream\n";
    start_with_group(NULL);
    http_send(http_stream, GET_GROUP "\r\n");
    (void)http_expect_answer(http_stream, 403, why);
    http_send(http_stream, "HEAD /hc/coap://224.0.1.187/x HTTP/1.1\r\n" HOST "\r\n");
    (void)http_expect_answer(http_stream, 403, "");
    http_send(http_stream, "PUT /hc/coap://224.0.1.187/x HTTP/1.1\r\n" HOST EVENTS);
    (void)http_expect_answer(http_stream, 403, why);
    struct fake_stream *far = fake_stream_connect(TRANSPORT_HTTP, "192.0.2.8:40001");
    http_send(far, GET_GROUP EVENTS);
    assert_memory_equal(http_taken(far), "HTTP/1.1 403 ", 13);
    fake_peer_expect_nothing(group);
    http_stop();
    http_start(NULL, NULL);
    http_send(http_stream, GET_GROUP EVENTS);
    assert_memory_equal(http_taken(http_stream), "HTTP/1.1 403 ", 13);
    http_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_notifications_are_events),
        cmocka_unit_test(test_events_end_with_an_error),
        cmocka_unit_test(test_events_without_an_observation),
        cmocka_unit_test(test_a_thousand_clients_are_one_registration),
        cmocka_unit_test(test_answers_of_a_group_are_events),
        cmocka_unit_test(test_a_group_is_left_by_its_client),
        cmocka_unit_test(test_groups_are_403_otherwise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
