/* SPDX-License-Identifier: BSD-2-Clause */
/* Bodies of HTTP requests and answers (HC-10, HC-16), in virtual time. */
#include "replay/http_talk.h"
#include "replay/words.h"

#include <stdio.h>
#include <string.h>

/* A block of 16 bytes, num as in the option. */
static void serve_block(const char *options, const char *more)
{
    struct fake_datagram request;
    fake_peer_expect(http_replay.origin, words("48 01 MID TOKEN", options), &request);
    fake_peer_reply(http_replay.origin, &request, words("6T 45 MID TOKEN", more));
}

/* HC-10: an answer in blocks is passed on block by block, as fast as the client takes it. */
static void test_blocks_are_streamed(void **state)
{
    (void)state;
    http_start(NULL, NULL);
    http_send(http_stream, GET_X "\r\n");
    serve_block("3=h 11=x", "4:0a 23:08 /#16");
    const char *text = http_taken(http_stream);
    http_expect_in(text, "Transfer-Encoding: chunked\r\n\r\n10\r\naaaaaaaaaaaaaaaa\r\n");
    http_expect_not_in(text, "Content-Length");
    fake_stream_stop_reading(http_stream, true);
    serve_block("3=h 11=x 23:10", "4:0a 23:18 /#16");
    fake_net_run(10);
    fake_peer_expect_nothing(http_replay.origin); /* the client has not taken it */
    fake_stream_stop_reading(http_stream, false);
    assert_string_equal(http_taken(http_stream), "10\r\naaaaaaaaaaaaaaaa\r\n");
    serve_block("3=h 11=x 23:20", "4:0a 23:20 /6162");
    assert_string_equal(http_taken(http_stream), "2\r\nab\r\n0\r\n\r\n");
    assert_false(fake_stream_is_closed(http_stream));
    http_stop();
}

/* HC-10: a representation that changes between its blocks is not given as one. */
static void test_changed_blocks_cut_the_answer(void **state)
{
    (void)state;
    http_start(NULL, NULL);
    http_send(http_stream, GET_X "\r\n");
    serve_block("3=h 11=x", "4:0a 23:08 /#16");
    (void)http_taken(http_stream);
    serve_block("3=h 11=x 23:10", "4:0b 23:10 /61");
    assert_string_equal(http_taken(http_stream), "");
    assert_true(fake_stream_is_closed(http_stream));
    assert_int_equal(replay_metric(&http_replay, http_cut), 1);
    http_stop();
}

/* HC-10: a body, in chunks, is joined and goes to a server on datagrams in blocks. */
static void test_bodies_go_in_blocks(void **state)
{
    (void)state;
    struct fake_datagram request;
    char chunk[1600];
    http_start(NULL, NULL);
    http_send(http_stream, "PUT " TARGET " HTTP/1.1\r\n" HOST
                           "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n");
    assert_string_equal(http_taken(http_stream), "HTTP/1.1 100 Continue\r\n\r\n");
    memset(chunk, 'a', sizeof(chunk));
    memcpy(chunk, "5dc\r\n", 5);
    memcpy(chunk + 5 + 1500, "\r\n", 3);
    http_send(http_stream, chunk);
    fake_peer_expect_nothing(http_replay.origin);
    http_send(http_stream, "0\r\n\r\n");
    fake_peer_expect(http_replay.origin, words("48 03 MID TOKEN", "3=h 11=x 27:0e 60:05dc ..."),
                     &request);
    fake_peer_reply(http_replay.origin, &request, words("6T 5f MID TOKEN", "27:0e"));
    fake_peer_expect(http_replay.origin, words("48 03 MID TOKEN", "3=h 11=x 27:16 ..."), &request);
    fake_peer_reply(http_replay.origin, &request, words("6T 44 MID TOKEN", "27:16"));
    (void)http_expect_answer(http_stream, 204, "");
    http_stop();
}

/* HC-16: one host's unfinished bodies make room for another's, the oldest first. */
static void test_bodies_of_one_host_make_room(void **state)
{
    (void)state;
    static const char put[] = "PUT " TARGET " HTTP/1.1\r\n" HOST "Content-Length: 20000\r\n\r\na";
    struct fake_stream *later[2];
    http_start("block.bodies-bytes=64KiB", "block.body-bytes=20KiB");
    http_send(http_stream, put);
    for (size_t i = 0; i < 2; i++) {
        char address[32];
        snprintf(address, sizeof(address), "192.0.2.7:4000%zu", i + 2);
        later[i] = fake_stream_connect(TRANSPORT_HTTP, address);
        http_send(later[i], put);
    }
    assert_int_equal(http_replay.engine->client.http.body_bytes, 60000);
    struct fake_stream *other = fake_stream_connect(TRANSPORT_HTTP, "192.0.2.8:40001");
    http_send(other, "PUT " TARGET " HTTP/1.1\r\n" HOST "Content-Length: 8000\r\n\r\n");
    http_expect_in(http_expect_answer(http_stream, 503, "the body made room for others\n"),
                   "\r\nConnection: close\r\n");
    assert_true(fake_stream_is_closed(http_stream));
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(http_taken(later[i]), "");
    }
    assert_string_equal(http_taken(other), "");
    assert_int_equal(http_replay.engine->client.http.body_bytes, 48000);
    /* Who holds no more than the newcomer would gives way after a while, and not before. */
    struct fake_stream *third = fake_stream_connect(TRANSPORT_HTTP, "192.0.2.9:40001");
    http_send(third, put);
    (void)http_expect_answer(later[0], 503, "the body made room for others\n");
    struct fake_stream *fourth = fake_stream_connect(TRANSPORT_HTTP, "192.0.2.10:40001");
    http_send(fourth, put);
    (void)http_expect_answer(fourth, 503, "no room for the body\n");
    fake_net_run(5000);
    fourth = fake_stream_connect(TRANSPORT_HTTP, "192.0.2.10:40001");
    http_send(fourth, put);
    assert_string_equal(http_taken(fourth), "");
    (void)http_expect_answer(later[1], 503, "the body made room for others\n");
    assert_string_equal(http_taken(third), "");
    fake_stream_close(other);
    fake_stream_close(third);
    fake_stream_close(fourth);
    assert_int_equal(http_replay.engine->client.http.body_bytes, 0);
    http_stop();
}

/* HC-16: a body that does not come is waited for so long, and its room is free again. */
static void test_slow_bodies_are_408(void **state)
{
    (void)state;
    http_start("stream.message-timeout=10s", NULL);
    http_send(http_stream, "PUT " TARGET " HTTP/1.1\r\n" HOST "Content-Length: 100\r\n\r\nabc");
    fake_net_run(9000);
    assert_string_equal(http_taken(http_stream), "");
    http_send(http_stream, "d");
    fake_net_run(9000);
    assert_string_equal(http_taken(http_stream), "");
    fake_net_run(1001);
    assert_memory_equal(http_taken(http_stream), "HTTP/1.1 408 ", 13);
    assert_true(fake_stream_is_closed(http_stream));
    assert_int_equal(http_replay.engine->client.http.body_bytes, 0);
    http_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_are_streamed),
        cmocka_unit_test(test_changed_blocks_cut_the_answer),
        cmocka_unit_test(test_bodies_go_in_blocks),
        cmocka_unit_test(test_bodies_of_one_host_make_room),
        cmocka_unit_test(test_slow_bodies_are_408),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
