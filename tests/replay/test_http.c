/* SPDX-License-Identifier: BSD-2-Clause */
/* Clients that speak HTTP (HC of the conformance list), in virtual time. */
#include "replay/replay.h"
#include "replay/words.h"

#include "base/identity.h"
#include "client/stream.h"
#include "support/fake_conn.h"

#include <stdio.h>
#include <string.h>

#define TARGET "/hc/coap://h/x"
#define HOST "Host: 192.0.2.9\r\n"
#define GET_X "GET " TARGET " HTTP/1.1\r\n" HOST
#define UPSTREAM_X words("48 01 MID TOKEN", "3=h 11=x")

static struct replay replay;
static struct fake_stream *stream;

static void start(const char *a, const char *b)
{
    const char *settings[] = {a, b, NULL};
    struct conn_options options = {.transport = TRANSPORT_HTTP, .fd = -1, .connections_max = 2000};
    replay_start(&replay, settings);
    assert_true(address_parse(PROXY, strlen(PROXY), 0, &options.bind));
    assert_int_equal(listen_stream(&replay.engine->client, &options, NULL), 0);
    stream = fake_stream_connect(TRANSPORT_HTTP, "192.0.2.7:40001");
    assert_non_null(stream);
}

static void stop(void)
{
    replay_stop(&replay);
    fake_streams_free();
}

static void http_send(struct fake_stream *to, const char *text)
{
    fake_stream_send_bytes(to, (const uint8_t *)text, strlen(text));
}

/* What has come back, as text. */
static const char *taken(struct fake_stream *from)
{
    static char text[1 << 20];
    fake_net_run(0);
    size_t len = fake_stream_take(from, (uint8_t *)text, sizeof(text) - 1);
    text[len] = '\0';
    return text;
}

static void expect_in(const char *text, const char *wanted)
{
    if (strstr(text, wanted) == NULL) {
        fail_msg("no \"%s\" in:\n%s", wanted, text);
    }
}

static void expect_not_in(const char *text, const char *unwanted)
{
    if (strstr(text, unwanted) != NULL) {
        fail_msg("\"%s\" in:\n%s", unwanted, text);
    }
}

/* The answer begins with that status, and ends with that body. */
static const char *expect_answer(struct fake_stream *from, int status, const char *body)
{
    char start_line[32];
    const char *text = taken(from);
    snprintf(start_line, sizeof(start_line), "HTTP/1.1 %d ", status);
    if (strncmp(text, start_line, strlen(start_line)) != 0) {
        fail_msg("not %d:\n%s", status, text);
    }
    const char *end = strstr(text, "\r\n\r\n");
    assert_non_null(end);
    assert_string_equal(end + 4, body);
    return text;
}

/* HC-2, HC-8: a GET, the fields of its answer, and the next one on the same connection. */
static void test_a_get_and_its_answer(void **state)
{
    (void)state;
    struct fake_datagram request;
    start(NULL, NULL);
    http_send(stream, GET_X "Accept: application/json\r\n\r\n");
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 11=x 17:32"), &request);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "4:0a0b 12:32 14:1e /7b7d"));
    const char *text = expect_answer(stream, 200, "{}");
    expect_in(text, "\r\nContent-Type: application/json\r\n");
    expect_in(text, "\r\nCache-Control: max-age=30\r\n");
    expect_in(text, "\r\nETag: \"0a0b\"\r\n");
    expect_in(text, "\r\nContent-Length: 2\r\n");
    expect_in(text, "\r\nVia: 1.1 criproxy (criproxyd ");
    expect_not_in(text, "Connection: close");
    http_send(stream, GET_X "\r\n");
    fake_peer_expect(replay.origin, UPSTREAM_X, &request);
    fake_peer_reply(replay.origin, &request, words("6T 84 MID TOKEN", "/6e6f"));
    text = expect_answer(stream, 404, "no");
    expect_in(text, "\r\nContent-Type: text/plain;charset=utf-8\r\n");
    stop();
}

/* HC-7, HC-9: what becomes of a code, a format and a payload. */
static void test_answers_are_mapped(void **state)
{
    (void)state;
    static const struct {
        const char *head, *reply, *start_line, *field;
    } rows[] = {
        {"PUT " TARGET " HTTP/1.1\r\n", "6T 44 MID TOKEN", "HTTP/1.1 204 No Content\r\n", NULL},
        {"PUT " TARGET " HTTP/1.1\r\n", "6T 44 MID TOKEN ff 31", "HTTP/1.1 200 OK\r\n", NULL},
        {"DELETE " TARGET " HTTP/1.1\r\n", "6T 42 MID TOKEN", "HTTP/1.1 204 ", NULL},
        {"POST " TARGET " HTTP/1.1\r\n", "6T 41 MID TOKEN 81 61 02 6220", "HTTP/1.1 201 Created",
         "Location: /hc/coap://h/a/b%20\r\n"},
        {"GET " TARGET " HTTP/1.1\r\n", "6T 85 MID TOKEN",
         "HTTP/1.1 400 CoAP server returned 4.05\r\n", NULL},
        {"GET " TARGET " HTTP/1.1\r\n", "6T 81 MID TOKEN", "HTTP/1.1 403 Forbidden\r\n", NULL},
        {"GET " TARGET " HTTP/1.1\r\n", "6T 82 MID TOKEN", "HTTP/1.1 500 ", NULL},
        {"GET " TARGET " HTTP/1.1\r\n", "6T a3 MID TOKEN d1 01 07", "HTTP/1.1 503 ",
         "Retry-After: 7\r\n"},
        {"GET " TARGET " HTTP/1.1\r\n", "6T 45 MID TOKEN c2 ea60 ff 31", "HTTP/1.1 200 OK\r\n",
         "Content-Type: application/coap-payload;cf=60000\r\n"},
        {"GET " TARGET " HTTP/1.1\r\n", "6T 45 MID TOKEN c2 2b2a ff 31", "HTTP/1.1 200 OK\r\n",
         "Content-Type: application/json\r\nContent-Encoding: deflate\r\n"},
    };
    start(NULL, NULL);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fake_datagram request;
        char text[256];
        snprintf(text, sizeof(text), "%s" HOST "\r\n", rows[i].head);
        http_send(stream, text);
        fake_peer_expect(replay.origin, "48 0? MID TOKEN ...", &request);
        fake_peer_reply(replay.origin, &request, rows[i].reply);
        const char *answer = taken(stream);
        assert_memory_equal(answer, rows[i].start_line, strlen(rows[i].start_line));
        if (rows[i].field != NULL) {
            expect_in(answer, rows[i].field);
        }
    }
    stop();
}

/* HC-6, HC-9, HC-17: methods and fields become codes and options. */
static void test_requests_are_mapped(void **state)
{
    (void)state;
    static const struct {
        const char *head, *upstream, *options;
    } rows[] = {
        {"HEAD " TARGET " HTTP/1.1\r\n", "48 01 MID TOKEN", "3=h 11=x"},
        {"POST " TARGET " HTTP/1.1\r\nContent-Length: 1\r\n", "48 02 MID TOKEN", "3=h 11=x /31"},
        {"PUT " TARGET " HTTP/1.1\r\nContent-Type: application/cbor\r\nContent-Length: 1\r\n",
         "48 03 MID TOKEN", "3=h 11=x 12:3c /31"},
        {"PATCH " TARGET " HTTP/1.1\r\nContent-Type: application/merge-patch+json\r\n"
         "Content-Length: 1\r\n",
         "48 06 MID TOKEN", "3=h 11=x 12:34 /31"},
        {"QUERY " TARGET " HTTP/1.1\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n",
         "48 05 MID TOKEN", "3=h 11=x 12: /31"},
        {"GET coap://h/x HTTP/1.1\r\n", "48 01 MID TOKEN", "3=h 11=x"},
        {"GET /hc/coap://192.0.2.5/x?a&b HTTP/1.1\r\n", "48 01 MID TOKEN", "11=x 15=a 15=b"},
        {"GET " TARGET " HTTP/1.1\r\nIf-None-Match: \"0a\", W/\"0b0c\", \"other\"\r\n",
         "48 01 MID TOKEN", "3=h 4:0a 4:0b0c 11=x"},
        {"DELETE " TARGET " HTTP/1.1\r\nIf-Match: \"0a\"\r\n", "48 04 MID TOKEN", "1:0a 3=h 11=x"},
        {"PUT " TARGET " HTTP/1.1\r\nIf-Match: *\r\n", "48 03 MID TOKEN", "1: 3=h 11=x"},
        {"PUT " TARGET " HTTP/1.1\r\nIf-None-Match: *\r\n", "48 03 MID TOKEN", "3=h 5: 11=x"},
        {"GET " TARGET " HTTP/1.1\r\nAccept: text/html, application/xml;q=0.9, */*;q=0.8\r\n",
         "48 01 MID TOKEN", "3=h 11=x"},
        {"GET " TARGET " HTTP/1.1\r\nAccept: text/html, application/xml;q=0.2\r\n"
         "Accept: application/cbor;q=0.5\r\n",
         "48 01 MID TOKEN", "3=h 11=x 17:3c"},
        {"GET " TARGET " HTTP/1.1\r\nMax-Forwards: 3\r\n", "48 01 MID TOKEN", "3=h 11=x 16:02"},
        {"GET " TARGET " HTTP/1.1\r\nAuthorization: Bearer x\r\nCookie: a=b\r\nRange: bytes=0-\r\n",
         "48 01 MID TOKEN", "3=h 11=x"},
    };
    start(NULL, NULL);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fake_datagram request;
        char text[512];
        snprintf(text, sizeof(text), "%s" HOST "\r\n%s", rows[i].head,
                 strstr(rows[i].head, "Content-Length") != NULL ? "1" : "");
        http_send(stream, text);
        fake_peer_expect(replay.origin, words(rows[i].upstream, rows[i].options), &request);
        fake_peer_reply(replay.origin, &request, "6T a0 MID TOKEN");
        assert_memory_equal(taken(stream), "HTTP/1.1 500 ", 13);
    }
    stop();
}

/* HC-3, HC-6, HC-9, HC-14, HC-16: what goes no further, and with which status. */
static void test_requests_that_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int status;
    } rows[] = {
        {"OPTIONS " TARGET " HTTP/1.1\r\n" HOST "\r\n", 501},
        {"TRACE " TARGET " HTTP/1.1\r\n" HOST "\r\n", 501},
        {"CONNECT h:80 HTTP/1.1\r\n" HOST "\r\n", 501},
        {"BREW " TARGET " HTTP/1.1\r\n" HOST "\r\n", 501},
        {"GET http://h/ HTTP/1.1\r\n" HOST "\r\n", 501},
        {"GET /hc/http://h/ HTTP/1.1\r\n" HOST "\r\n", 501},
        {"GET /hc/h/x HTTP/1.1\r\n" HOST "\r\n", 400},
        {"GET /hc/coap://h/x#f HTTP/1.1\r\n" HOST "\r\n", 400},
        {"GET /hc/coap://h/%zz HTTP/1.1\r\n" HOST "\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST "\r\n", 404},
        {"GET /hc/coap://224.0.1.187/x HTTP/1.1\r\n" HOST "\r\n", 403}, /* HC-13 */
        {"GET /hc/coap://%5Bff02::fd%5D/x HTTP/1.1\r\n" HOST "\r\n", 403},
        {"GET /hc/unknown://h/x HTTP/1.1\r\n" HOST "\r\n", 502},
        {"GET " TARGET " HTTP/1.1\r\nHost: other.example\r\n\r\n", 421},
        {"GET " TARGET " HTTP/1.1\r\nHost: 192.0.2.9:8080\r\nOrigin: http://o.example\r\n\r\n",
         403},
        {"GET " TARGET " HTTP/1.1\r\n" HOST "Origin: null\r\n\r\n", 403},
        {"POST " TARGET " HTTP/1.1\r\n" HOST "Sec-Fetch-Site: cross-site\r\n\r\n", 403},
        {"PUT " TARGET " HTTP/1.1\r\n" HOST "Content-Type: text/html\r\nContent-Length: 1\r\n\r\n1",
         415},
        {"PUT " TARGET " HTTP/1.1\r\n" HOST "Content-Encoding: gzip\r\nContent-Length: 1\r\n\r\n1",
         415},
        {"PUT " TARGET " HTTP/1.1\r\n" HOST
         "Content-Type: application/coap-payload;cf=60\r\nContent-Length: 1\r\n\r\n1",
         415},
        {GET_X "Accept: application/coap-payload;cf=60\r\n\r\n", 406},
        {GET_X "If-Match: \"of somebody else\"\r\n\r\n", 412},
        {"PUT " TARGET " HTTP/1.1\r\n" HOST "If-None-Match: \"0a\"\r\n\r\n", 501},
        {GET_X "Expect: 200-maybe\r\n\r\n", 417},
        {GET_X "Max-Forwards: 0\r\n\r\n", 508},
        {GET_X "Via: 1.1 x (criproxyd 1234567890abcdef)\r\n\r\n", 508},
        {"PUT " TARGET " HTTP/1.1\r\n" HOST "Content-Length: 99999999\r\n\r\n", 413},
        {"PUT " TARGET " HTTP/1.1\r\n" HOST
         "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
         400},
        {"PUT " TARGET " HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nx\r\n", 400},
        {GET_X "A : b\r\n\r\n", 400},
        {"GET / HTTP/3.0\r\n\r\n", 505},
    };
    start(NULL, NULL);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char status[32];
        struct fake_stream *one = fake_stream_connect(TRANSPORT_HTTP, "192.0.2.7:40001");
        http_send(one, rows[i].text);
        const char *text = taken(one);
        snprintf(status, sizeof(status), "HTTP/1.1 %d ", rows[i].status);
        if (strncmp(text, status, strlen(status)) != 0) {
            fail_msg("not %d to %s: %s", rows[i].status, rows[i].text, text);
        }
    }
    fake_peer_expect_nothing(replay.origin);
    assert_true(replay_metric(&replay, http_refused) >= 25);
    stop();
}

/* HC-1: pipelined requests are answered in order, each after the one before. */
static void test_pipelined_requests_are_answered_in_order(void **state)
{
    (void)state;
    struct fake_datagram request;
    start(NULL, NULL);
    http_send(stream, GET_X "\r\nGET /hc/coap://h/y HTTP/1.1\r\n" HOST "\r\n");
    fake_peer_expect(replay.origin, UPSTREAM_X, &request);
    fake_peer_expect_nothing(replay.origin);
    assert_true(fake_stream_is_paused(stream));
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "/31"));
    (void)expect_answer(stream, 200, "1");
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 11=y"), &request);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "/32"));
    (void)expect_answer(stream, 200, "2");
    stop();
}

/* HC-16, HC-1: connections end where the client, HTTP/1.0 or the limit of requests says so. */
static void test_connections_end(void **state)
{
    (void)state;
    static const char *const heads[] = {
        "GET " TARGET " HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n",
        "GET " TARGET " HTTP/1.0\r\n\r\n", GET_X "\r\n", /* the second on its connection */
    };
    start("http.requests=2", NULL);
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        struct fake_datagram request;
        struct fake_stream *one = fake_stream_connect(TRANSPORT_HTTP, "192.0.2.7:40001");
        if (i == 2) {
            http_send(one, "GET / HTTP/1.1\r\n" HOST "\r\n");
            expect_not_in(taken(one), "Connection: close");
        }
        http_send(one, heads[i]);
        fake_peer_expect(replay.origin, UPSTREAM_X, &request);
        fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "/31"));
        expect_in(expect_answer(one, 200, "1"), "Connection: close\r\n");
        assert_true(fake_stream_is_closed(one));
    }
    stop();
}

/* A block of 16 bytes, num as in the option. */
static void serve_block(const char *options, const char *more)
{
    struct fake_datagram request;
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", options), &request);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", more));
}

/* HC-10: an answer in blocks is passed on block by block, as fast as the client takes it. */
static void test_blocks_are_streamed(void **state)
{
    (void)state;
    start(NULL, NULL);
    http_send(stream, GET_X "\r\n");
    serve_block("3=h 11=x", "4:0a 23:08 /#16");
    const char *text = taken(stream);
    expect_in(text, "Transfer-Encoding: chunked\r\n\r\n10\r\naaaaaaaaaaaaaaaa\r\n");
    expect_not_in(text, "Content-Length");
    fake_stream_stop_reading(stream, true);
    serve_block("3=h 11=x 23:10", "4:0a 23:18 /#16");
    fake_net_run(10);
    fake_peer_expect_nothing(replay.origin); /* the client has not taken it */
    fake_stream_stop_reading(stream, false);
    assert_string_equal(taken(stream), "10\r\naaaaaaaaaaaaaaaa\r\n");
    serve_block("3=h 11=x 23:20", "4:0a 23:20 /6162");
    assert_string_equal(taken(stream), "2\r\nab\r\n0\r\n\r\n");
    assert_false(fake_stream_is_closed(stream));
    stop();
}

/* HC-10: a representation that changes between its blocks is not given as one. */
static void test_changed_blocks_cut_the_answer(void **state)
{
    (void)state;
    start(NULL, NULL);
    http_send(stream, GET_X "\r\n");
    serve_block("3=h 11=x", "4:0a 23:08 /#16");
    (void)taken(stream);
    serve_block("3=h 11=x 23:10", "4:0b 23:10 /61");
    assert_string_equal(taken(stream), "");
    assert_true(fake_stream_is_closed(stream));
    assert_int_equal(replay_metric(&replay, http_cut), 1);
    stop();
}

/* HC-10: a body, in chunks, is joined and goes to a server on datagrams in blocks. */
static void test_bodies_go_in_blocks(void **state)
{
    (void)state;
    struct fake_datagram request;
    char chunk[1600];
    start(NULL, NULL);
    http_send(stream, "PUT " TARGET " HTTP/1.1\r\n" HOST
                      "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n");
    assert_string_equal(taken(stream), "HTTP/1.1 100 Continue\r\n\r\n");
    memset(chunk, 'a', sizeof(chunk));
    memcpy(chunk, "5dc\r\n", 5);
    memcpy(chunk + 5 + 1500, "\r\n", 3);
    http_send(stream, chunk);
    fake_peer_expect_nothing(replay.origin);
    http_send(stream, "0\r\n\r\n");
    fake_peer_expect(replay.origin, words("48 03 MID TOKEN", "3=h 11=x 27:0e 60:05dc ..."),
                     &request);
    fake_peer_reply(replay.origin, &request, words("6T 5f MID TOKEN", "27:0e"));
    fake_peer_expect(replay.origin, words("48 03 MID TOKEN", "3=h 11=x 27:16 ..."), &request);
    fake_peer_reply(replay.origin, &request, words("6T 44 MID TOKEN", "27:16"));
    (void)expect_answer(stream, 204, "");
    stop();
}

/* HC-16: one host's unfinished bodies make room for another's, the oldest first. */
static void test_bodies_of_one_host_make_room(void **state)
{
    (void)state;
    static const char put[] = "PUT " TARGET " HTTP/1.1\r\n" HOST "Content-Length: 20000\r\n\r\na";
    struct fake_stream *later[2];
    start("block.bodies-bytes=64KiB", "block.body-bytes=20KiB");
    http_send(stream, put);
    for (size_t i = 0; i < 2; i++) {
        char address[32];
        snprintf(address, sizeof(address), "192.0.2.7:4000%zu", i + 2);
        later[i] = fake_stream_connect(TRANSPORT_HTTP, address);
        http_send(later[i], put);
    }
    assert_int_equal(replay.engine->client.http.body_bytes, 60000);
    struct fake_stream *other = fake_stream_connect(TRANSPORT_HTTP, "192.0.2.8:40001");
    http_send(other, "PUT " TARGET " HTTP/1.1\r\n" HOST "Content-Length: 8000\r\n\r\n");
    expect_in(expect_answer(stream, 503, "the body made room for others\n"),
              "\r\nConnection: close\r\n");
    assert_true(fake_stream_is_closed(stream));
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(taken(later[i]), "");
    }
    assert_string_equal(taken(other), "");
    assert_int_equal(replay.engine->client.http.body_bytes, 48000);
    /* Who holds no more than the newcomer would gives way after a while, and not before. */
    struct fake_stream *third = fake_stream_connect(TRANSPORT_HTTP, "192.0.2.9:40001");
    http_send(third, put);
    (void)expect_answer(later[0], 503, "the body made room for others\n");
    struct fake_stream *fourth = fake_stream_connect(TRANSPORT_HTTP, "192.0.2.10:40001");
    http_send(fourth, put);
    (void)expect_answer(fourth, 503, "no room for the body\n");
    fake_net_run(5000);
    fourth = fake_stream_connect(TRANSPORT_HTTP, "192.0.2.10:40001");
    http_send(fourth, put);
    assert_string_equal(taken(fourth), "");
    (void)expect_answer(later[1], 503, "the body made room for others\n");
    assert_string_equal(taken(third), "");
    fake_stream_close(other);
    fake_stream_close(third);
    fake_stream_close(fourth);
    assert_int_equal(replay.engine->client.http.body_bytes, 0);
    stop();
}

/* HC-16: a body that does not come is waited for so long, and its room is free again. */
static void test_slow_bodies_are_408(void **state)
{
    (void)state;
    start("stream.message-timeout=10s", NULL);
    http_send(stream, "PUT " TARGET " HTTP/1.1\r\n" HOST "Content-Length: 100\r\n\r\nabc");
    fake_net_run(9000);
    assert_string_equal(taken(stream), "");
    http_send(stream, "d");
    fake_net_run(9000);
    assert_string_equal(taken(stream), "");
    fake_net_run(1001);
    assert_memory_equal(taken(stream), "HTTP/1.1 408 ", 13);
    assert_true(fake_stream_is_closed(stream));
    assert_int_equal(replay.engine->client.http.body_bytes, 0);
    stop();
}

/* The last of those that followed it has gone. */
static void expect_deregistration(void)
{
    struct fake_datagram request;
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 6:01 11=x"), &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
}

/* HC-11: the first answer and each notification is an event; comments keep the connection. */
static void test_notifications_are_events(void **state)
{
    (void)state;
    struct fake_datagram registration;
    start(NULL, NULL);
    http_send(stream, GET_X "Accept: text/event-stream\r\n\r\n");
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 6: 11=x"), &registration);
    fake_peer_reply(replay.origin, &registration, words("6T 45 MID TOKEN", "6:05 12: /310a32"));
    const char *text = taken(stream);
    expect_in(text, "HTTP/1.1 200 OK\r\n");
    expect_in(text, "\r\nContent-Type: text/event-stream\r\n");
    expect_in(text, "\r\nX-Accel-Buffering: no\r\n");
    expect_in(text, "event: 2.05\nid: ");
    expect_in(text, "\ndata: 1\ndata: 2\n\n");
    fake_net_run(15000);
    expect_in(taken(stream), "3\r\n:\n\n\r\n");
    fake_peer_reply(replay.origin, &registration, words("5T 45 0101 TOKEN", "6:06 12:3c /f6"));
    expect_in(taken(stream), "data: {\"media\":\"application/cbor\",\"base64\":\"9g==\"}\n\n");
    assert_int_equal(replay_metric(&replay, observers), 1);
    fake_stream_close(stream);
    expect_deregistration();
    assert_int_equal(replay_metric(&replay, observers), 0);
    stop();
}

/* HC-11: an error ends the stream of events; before it has begun it is a status. */
static void test_events_end_with_an_error(void **state)
{
    (void)state;
    struct fake_datagram registration;
    start(NULL, NULL);
    http_send(stream, GET_X "Accept: text/event-stream\r\n\r\n");
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 6: 11=x"), &registration);
    fake_peer_reply(replay.origin, &registration, words("6T 84 MID TOKEN", "/6e6f"));
    (void)expect_answer(stream, 404, "no");
    http_send(stream, GET_X "Accept: text/event-stream\r\n\r\n");
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 6: 11=x"), &registration);
    fake_peer_reply(replay.origin, &registration, words("6T 45 MID TOKEN", "6:05 12: /31"));
    (void)taken(stream);
    fake_peer_reply(replay.origin, &registration, words("5T 84 0101 TOKEN", "/6e6f"));
    const char *text = taken(stream);
    expect_in(text, "event: 4.04\n");
    expect_in(text, "data: no\n\n\r\n0\r\n\r\n");
    assert_false(fake_stream_is_closed(stream));
    stop();
}

/* HC-11: a server that does no Observe gives one event, and says when to ask again. */
static void test_events_without_an_observation(void **state)
{
    (void)state;
    struct fake_datagram request;
    start(NULL, NULL);
    http_send(stream, GET_X "Accept: text/event-stream\r\n\r\n");
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 6: 11=x"), &request);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "12: 14:05 /31"));
    expect_in(taken(stream), "event: 2.05\nretry: 5000\ndata: 1\n\n\r\n0\r\n\r\n");
    stop();
}

/* HC-11: a thousand clients are one registration; one that does not read loses states only. */
static void test_a_thousand_clients_are_one_registration(void **state)
{
    (void)state;
    enum { CLIENTS = 1000 };
    static struct fake_stream *clients[CLIENTS];
    struct fake_datagram registration;
    start(NULL, NULL);
    for (int i = 0; i < CLIENTS; i++) {
        char from[32];
        snprintf(from, sizeof(from), "192.0.2.7:%d", 10000 + i);
        clients[i] = fake_stream_connect(TRANSPORT_HTTP, from);
        http_send(clients[i], GET_X "Accept: text/event-stream\r\n\r\n");
    }
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 6: 11=x"), &registration);
    fake_peer_expect_nothing(replay.origin);
    fake_peer_reply(replay.origin, &registration, words("6T 45 MID TOKEN", "6:05 12: /31"));
    for (int i = 0; i < CLIENTS; i++) {
        expect_in(taken(clients[i]), "data: 1\n");
    }
    fake_stream_stop_reading(clients[0], true);
    for (unsigned n = 0; n < 3; n++) {
        char text[64];
        snprintf(text, sizeof(text), "5T 45 010%u TOKEN 61 0%u 60 ff 3%u", n, 6 + n, 2 + n);
        fake_peer_reply(replay.origin, &registration, text);
        for (int i = 1; i < CLIENTS; i++) {
            char data[16];
            snprintf(data, sizeof(data), "data: %u\n", 2 + n);
            expect_in(taken(clients[i]), data);
        }
    }
    fake_stream_stop_reading(clients[0], false);
    const char *text = taken(clients[0]);
    expect_in(text, "data: 4\n");
    expect_not_in(text, "data: 3\n");
    assert_int_equal(replay_metric(&replay, observers), CLIENTS);
    for (int i = 0; i < CLIENTS; i++) {
        fake_stream_close(clients[i]);
    }
    expect_deregistration();
    stop();
}

/* HC-8: conditional requests, and what Cache-Control asks of the cache. */
static void test_the_cache_is_asked_as_the_client_says(void **state)
{
    (void)state;
    struct fake_datagram request;
    start("cache.max-bytes=1MiB", NULL);
    http_send(stream, GET_X "Cache-Control: only-if-cached\r\n\r\n");
    (void)expect_answer(stream, 504, "not in the cache");
    http_send(stream, GET_X "Cache-Control: no-store\r\n\r\n");
    fake_peer_expect(replay.origin, UPSTREAM_X, &request);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "4:0a /31"));
    (void)expect_answer(stream, 200, "1");
    http_send(stream, GET_X "\r\n"); /* it was not kept */
    fake_peer_expect(replay.origin, UPSTREAM_X, &request);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "4:0a /31"));
    (void)expect_answer(stream, 200, "1");
    fake_net_run(20000);
    http_send(stream, GET_X "Cache-Control: only-if-cached\r\n\r\n");
    expect_in(expect_answer(stream, 200, "1"), "\r\nCache-Control: max-age=40\r\n");
    http_send(stream, GET_X "If-None-Match: \"0a\"\r\n\r\n");
    expect_in(expect_answer(stream, 304, ""), "\r\nETag: \"0a\"\r\n");
    http_send(stream, GET_X "Cache-Control: no-cache\r\n\r\n");
    fake_peer_expect(replay.origin, UPSTREAM_X, &request);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "4:0b /32"));
    (void)expect_answer(stream, 200, "2");
    http_send(stream, GET_X "\r\n");
    (void)expect_answer(stream, 200, "2");
    fake_peer_expect_nothing(replay.origin);
    stop();
}

/* HC-10 (RFC 8075 section 8.1): what was asked for is kept although its client has gone. */
static void test_a_client_that_goes_leaves_the_answer_to_the_cache(void **state)
{
    (void)state;
    struct fake_datagram request;
    start("cache.max-bytes=1MiB", NULL);
    http_send(stream, GET_X "\r\n");
    fake_peer_expect(replay.origin, UPSTREAM_X, &request);
    fake_stream_close(stream);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "/31"));
    fake_net_run(0);
    stream = fake_stream_connect(TRANSPORT_HTTP, "192.0.2.8:40001");
    http_send(stream, GET_X "\r\n");
    (void)expect_answer(stream, 200, "1");
    fake_peer_expect_nothing(replay.origin);
    stop();
}

/* HC-14: a page that is named gets the fields of CORS, before and with its request. */
static void test_named_origins_are_served(void **state)
{
    (void)state;
    struct fake_datagram request;
    start("http.origins=https://dash.example", "http.hosts=proxy.example");
    http_send(stream, "OPTIONS " TARGET " HTTP/1.1\r\nHost: Proxy.Example:8080\r\n"
                      "Origin: https://dash.example\r\nAccess-Control-Request-Method: PUT\r\n\r\n");
    const char *text = expect_answer(stream, 204, "");
    expect_in(text, "\r\nAccess-Control-Allow-Origin: https://dash.example\r\n");
    expect_in(text, "\r\nAccess-Control-Allow-Methods: ");
    http_send(stream, "PUT " TARGET " HTTP/1.1\r\nHost: proxy.example\r\n"
                      "Origin: https://dash.example\r\nSec-Fetch-Site: cross-site\r\n\r\n");
    fake_peer_expect(replay.origin, words("48 03 MID TOKEN", "3=h 11=x"), &request);
    fake_peer_reply(replay.origin, &request, "6T 44 MID TOKEN");
    expect_in(expect_answer(stream, 204, ""),
              "\r\nAccess-Control-Allow-Origin: https://dash.example\r\n");
    http_send(stream, "PUT " TARGET " HTTP/1.1\r\nHost: proxy.example\r\n"
                      "Origin: https://dash.example.evil\r\n\r\n");
    assert_memory_equal(taken(stream), "HTTP/1.1 403 ", 13);
    stop();
}

/* HC-16, HC-18: limits and access rules hold as for any client. */
static void test_policy_and_limits_hold(void **state)
{
    (void)state;
    struct fake_datagram request;
    start("limits.client-rate=1", "limits.client-burst=1");
    http_send(stream, GET_X "\r\n");
    fake_peer_expect(replay.origin, UPSTREAM_X, &request);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "/31"));
    (void)expect_answer(stream, 200, "1");
    http_send(stream, GET_X "\r\n");
    expect_in(expect_answer(stream, 429, "too many requests"), "\r\nRetry-After: 1\r\n");
    stop();
    start("access web.transport=http", NULL);
    http_send(stream, GET_X "\r\n");
    assert_memory_equal(taken(stream), "HTTP/1.1 ", 9);
    fake_peer_expect_nothing(replay.origin);
    stop();
}

/* HC-1: HTTP and CoAP over WebSockets on one port (RFC 8323 section 8.3). */
static void test_a_connection_becomes_a_websocket(void **state)
{
    (void)state;
    struct fake_datagram request;
    start(NULL, NULL);
    http_send(stream, "GET /.well-known/coap HTTP/1.1\r\n" HOST "\r\n");
    assert_memory_equal(taken(stream), "HTTP/1.1 400 ", 13);
    struct fake_stream *socket = fake_stream_connect(TRANSPORT_HTTP, "192.0.2.7:40002");
    http_send(socket, "GET /.well-known/coap HTTP/1.1\r\n" HOST
                      "Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
    static const char answer[] = "HTTP/1.1 101 Switching Protocols\r\n\r\n";
    char text[sizeof(answer) - 1];
    assert_int_equal(fake_stream_take(socket, (uint8_t *)text, sizeof(text)), sizeof(text));
    assert_memory_equal(text, answer, sizeof(text));
    fake_stream_expect(socket, "00 e1");
    fake_stream_forget(socket);
    fake_stream_send(socket, "00 e1");
    fake_stream_send(socket, "01 01 aa d8de8320816168816178");
    fake_peer_expect(replay.origin, UPSTREAM_X, &request);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "/31"));
    fake_net_run(0);
    fake_stream_expect(socket, "01 45 aa ff 31");
    stop();
}

/* HC-5: the mapping is found over HTTP, and over CoAP with the origin of the HTTP side. */
static void test_the_mapping_is_discovered(void **state)
{
    (void)state;
    start("http.template={+s}/{+hp}{+p}{+qq}", NULL);
    http_send(stream, "GET /.well-known/core HTTP/1.1\r\n" HOST "\r\n");
    const char *text = expect_answer(
        stream, 200, "</.well-known/core>;ct=40,</hc/>;rt=\"core.hc\";hct=\"{+s}/{+hp}{+p}{+qq}\"");
    expect_in(text, "\r\nContent-Type: application/link-format\r\n");
    http_send(stream, "GET /.well-known/core?rt=core.hc HTTP/1.1\r\n" HOST "\r\n");
    (void)expect_answer(stream, 200, "</hc/>;rt=\"core.hc\";hct=\"{+s}/{+hp}{+p}{+qq}\"");
    http_send(stream, "GET /.well-known/core?rt=other HTTP/1.1\r\n" HOST "\r\n");
    (void)expect_answer(stream, 200, "");
    replay_ask(&replay, words("41 01 0001 aa", "11=.well-known 11=core 15=rt=core.hc"));
    replay_expect_words(&replay, "61 45 0001 aa", "</hc/>;anchor=\"http://192.0.2.9:5683\";rt=");
    stop();
}

/* HC-15: a bearer token gives an identity, from this host or over TLS; others are 401 or 403. */
static void test_bearer_tokens_are_identities(void **state)
{
    (void)state;
    static const char file[] = "test_http_tokens.tmp";
    struct fake_datagram request;
    FILE *tokens = fopen(file, "w");
    assert_non_null(tokens);
    /* The digest of the fake network is the token itself, filled up with 0. */
    fprintf(tokens, "# comment\ndash:%s%048d\n", "7365736968616d65", 0);
    assert_int_equal(fclose(tokens), 0);
    const char *settings[] = {"http.tokens-file=test_http_tokens.tmp",
                              "policy.clients=none",
                              "policy.ports=any",
                              "access dash.action=allow",
                              "access dash.identity=dash",
                              "access dash.target=coap://192.0.2.5",
                              NULL};
    struct conn_options options = {.transport = TRANSPORT_HTTP, .fd = -1, .connections_max = 8};
    replay_start(&replay, settings);
    remove(file);
    assert_true(address_parse(PROXY, strlen(PROXY), 0, &options.bind));
    assert_int_equal(listen_stream(&replay.engine->client, &options, NULL), 0);
    stream = fake_stream_connect(TRANSPORT_HTTP, "127.0.0.1:40001");
    struct fake_stream *far = fake_stream_connect(TRANSPORT_HTTP, "192.0.2.7:40001");
#define GET_5 "GET /hc/coap://192.0.2.5/x HTTP/1.1\r\n" HOST
    http_send(stream, GET_5 "\r\n");
    assert_memory_equal(taken(stream), "HTTP/1.1 403 ", 13);
    http_send(stream, GET_5 "Authorization: Bearer sesihame\r\n\r\n");
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "11=x"), &request);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "/31"));
    expect_in(expect_answer(stream, 200, "1"), "\r\nCache-Control: private, max-age=60\r\n");
    http_send(stream, GET_5 "\r\n"); /* without it the right is gone again */
    assert_memory_equal(taken(stream), "HTTP/1.1 403 ", 13);
    http_send(stream, GET_5 "Authorization: Bearer other\r\n\r\n");
    expect_in(taken(stream), "\r\nWWW-Authenticate: Bearer\r\n");
    http_send(far, GET_5 "Authorization: Bearer sesihame\r\n\r\n");
    assert_memory_equal(taken(far), "HTTP/1.1 403 ", 13);
    fake_peer_expect_nothing(replay.origin);
    stop();
}

/* The refusal that an operator sees last. */
static void expect_refusal(const char *client, const char *word, const char *detail)
{
    char text[ADDRESS_TEXT_MAX];
    const struct refusals *refusals = &replay.engine->client.refusals;
    const struct refusal_row *row = &refusals->rows[(refusals->next - 1) % REFUSALS_MAX];
    assert_string_equal(row->word, word);
    assert_int_equal(row->kind, REFUSAL_MESSAGE);
    assert_string_equal(address_format(&row->client, text), client);
    assert_string_equal(row->detail, detail);
}

/* What goes no further than the HTTP front is told of as malformed messages are. */
static void test_refusals_are_noted(void **state)
{
    (void)state;
    static const struct {
        const char *request, *word, *detail;
    } rows[] = {
        {"GET " TARGET " HTTP/1.1\r\nHost: rebound.example\r\n\r\n", "http_421", NULL},
        {"BREW " TARGET " HTTP/1.1\r\n" HOST "\r\n", "http_501", NULL},
        {"PUT " TARGET " HTTP/1.1\r\n" HOST "Content-Length: 99999999\r\n\r\n", "http_413",
         "the body is longer than block.body-bytes"},
        {"GET / HTTP/1.1\r\n\r\n\r\n", "http_400", NULL},
    };
    start(NULL, NULL);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char place[32];
        snprintf(place, sizeof(place), "192.0.2.7:5000%zu", i);
        struct fake_stream *one = fake_stream_connect(TRANSPORT_HTTP, place);
        http_send(one, rows[i].request);
        const char *answer = taken(one), *why = strstr(answer, "\r\n\r\n");
        char detail[REFUSAL_DETAIL_MAX];
        assert_memory_equal(answer + strlen("HTTP/1.1 "), rows[i].word + strlen("http_"), 3);
        assert_non_null(why);
        snprintf(detail, sizeof(detail), "%.*s", (int)strcspn(why + 4, "\n"), why + 4);
        expect_refusal(place, rows[i].word, detail); /* the same words */
        assert_true(rows[i].detail == NULL || strcmp(rows[i].detail, detail) == 0);
    }
    stop();
}

#define TOKENS "test_http_tokens.tmp"

/* The digest of the fake network is the token itself, filled up with 0: these have 8 bytes. */
static void write_tokens(const char *a, const char *b)
{
    FILE *tokens = fopen(TOKENS, "w");
    assert_non_null(tokens);
    fprintf(tokens, "dash:%s%048d\ndash:%s%048d\n", a, 0, b, 0);
    assert_int_equal(fclose(tokens), 0);
}

/* Follows the target with that token; the first event has come. */
static struct fake_stream *follow(const char *place, const char *token)
{
    char text[256];
    struct fake_stream *follower = fake_stream_connect(TRANSPORT_HTTP, place);
    snprintf(text, sizeof(text),
             GET_X "Accept: text/event-stream\r\nAuthorization: Bearer %s\r\n\r\n", token);
    http_send(follower, text);
    return follower;
}

static bool is_dash(const void *context, const struct address *remote,
                    const struct identity *identity)
{
    (void)context;
    (void)remote;
    return identity_has_name(identity, IDENTITY_PSK, "dash");
}

/*
 * Tokens that a reload removes end what was begun with them: events, which may go on for months,
 * and the WebSocket that a connection has become.
 */
static void test_connections_end_with_their_token(void **state)
{
    (void)state;
    static const char *const settings[] = {"http.tokens-file=" TOKENS, "policy.clients=none",
                                           "access dash.action=allow", "access dash.identity=dash",
                                           NULL};
    struct conn_options options = {.transport = TRANSPORT_HTTP, .fd = -1, .connections_max = 8};
    struct fake_datagram registration;
    write_tokens("7365736968616d65", "7365736968616d66");
    replay_start(&replay, settings);
    assert_true(address_parse(PROXY, strlen(PROXY), 0, &options.bind));
    assert_int_equal(listen_stream(&replay.engine->client, &options, NULL), 0);
    struct fake_stream *gone = follow("127.0.0.1:40001", "sesihame");
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 6: 11=x"), &registration);
    fake_peer_reply(replay.origin, &registration, words("6T 45 MID TOKEN", "6:05 12: /31"));
    struct fake_stream *stays = follow("127.0.0.1:40002", "sesihamf");
    expect_in(taken(gone), "data: 1\n\n");
    expect_in(taken(stays), "data: 1\n\n");
    struct fake_stream *socket = fake_stream_connect(TRANSPORT_HTTP, "127.0.0.1:40003");
    http_send(socket, "GET /.well-known/coap HTTP/1.1\r\n" HOST "Upgrade: websocket\r\n"
                      "Connection: Upgrade\r\nAuthorization: Bearer sesihame\r\n\r\n");
    expect_in(taken(socket), "HTTP/1.1 101 ");
    fake_stream_send(socket, "00 e1");

    replay_reload(&replay, settings); /* nothing has changed */
    (void)taken(gone);
    (void)taken(socket);
    assert_false(fake_stream_is_closed(gone));
    assert_false(fake_stream_is_closed(socket));
    write_tokens("7365736968616d66", "7365736968616d67"); /* the first is replaced */
    replay_reload(&replay, settings);
    (void)taken(gone);
    (void)taken(socket);
    (void)taken(stays);
    assert_true(fake_stream_is_closed(gone));
    assert_true(fake_stream_is_closed(socket));
    assert_false(fake_stream_is_closed(stays));
    assert_int_equal(replay_metric(&replay, observers), 1);
    fake_peer_reply(replay.origin, &registration, words("5T 45 0101 TOKEN", "6:06 12: /32"));
    expect_in(taken(stays), "data: 2\n\n");

    struct stream_view views[4]; /* an operator sees the identity, and ends what has it */
    assert_int_equal(stream_list(&replay.engine->client, 0, views, 4), 1);
    assert_true(is_dash(NULL, views[0].remote, views[0].identity));
    assert_int_equal(stream_close_matching(&replay.engine->client, is_dash, NULL, "closed"), 1);
    (void)taken(stays);
    assert_true(fake_stream_is_closed(stays));
    expect_deregistration();
    remove(TOKENS);
    stop();
}

/* HC-18: a drain answers what is in flight, and closes. */
static void test_a_drain_lets_answers_through(void **state)
{
    (void)state;
    struct fake_datagram request;
    start(NULL, NULL);
    struct fake_stream *idle = fake_stream_connect(TRANSPORT_HTTP, "192.0.2.7:40002");
    http_send(stream, GET_X "\r\n");
    fake_peer_expect(replay.origin, UPSTREAM_X, &request);
    engine_drain(replay.engine);
    (void)taken(idle);
    assert_true(fake_stream_is_closed(idle));
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "/31"));
    expect_in(expect_answer(stream, 200, "1"), "Connection: close\r\n");
    assert_true(fake_stream_is_closed(stream));
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_get_and_its_answer),
        cmocka_unit_test(test_answers_are_mapped),
        cmocka_unit_test(test_requests_are_mapped),
        cmocka_unit_test(test_requests_that_are_refused),
        cmocka_unit_test(test_pipelined_requests_are_answered_in_order),
        cmocka_unit_test(test_connections_end),
        cmocka_unit_test(test_blocks_are_streamed),
        cmocka_unit_test(test_changed_blocks_cut_the_answer),
        cmocka_unit_test(test_bodies_go_in_blocks),
        cmocka_unit_test(test_bodies_of_one_host_make_room),
        cmocka_unit_test(test_slow_bodies_are_408),
        cmocka_unit_test(test_notifications_are_events),
        cmocka_unit_test(test_events_end_with_an_error),
        cmocka_unit_test(test_events_without_an_observation),
        cmocka_unit_test(test_a_thousand_clients_are_one_registration),
        cmocka_unit_test(test_the_cache_is_asked_as_the_client_says),
        cmocka_unit_test(test_a_client_that_goes_leaves_the_answer_to_the_cache),
        cmocka_unit_test(test_named_origins_are_served),
        cmocka_unit_test(test_policy_and_limits_hold),
        cmocka_unit_test(test_a_connection_becomes_a_websocket),
        cmocka_unit_test(test_the_mapping_is_discovered),
        cmocka_unit_test(test_bearer_tokens_are_identities),
        cmocka_unit_test(test_refusals_are_noted),
        cmocka_unit_test(test_connections_end_with_their_token),
        cmocka_unit_test(test_a_drain_lets_answers_through),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
