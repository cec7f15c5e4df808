/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Clients that speak HTTP (HC of the conformance list), in virtual time: requests, answers,
 * and connections. Bodies, events and access have files of their own.
 */
#include "replay/http_talk.h"
#include "replay/words.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* Date is now (RFC 9110 section 6.6.1). */
static void expect_date(const char *text)
{
    const char *at = strstr(text, "\r\nDate: ");
    struct tm tm = {0};
    assert_non_null(at);
    const char *end = strptime(at, "%nDate: %a, %d %b %Y %H:%M:%S GMT", &tm);
    assert_non_null(end);
    assert_int_equal(end - at, strlen("\r\nDate: Sun, 13 Sep 2020 12:26:40 GMT"));
    assert_memory_equal(end, "\r\n", 2);
    assert_int_equal(timegm(&tm), loop_wall_s(http_replay.engine->client.context.loop));
}

/* HC-2, HC-8: a GET, the fields of its answer, and the next one on the same connection. */
static void test_a_get_and_its_answer(void **state)
{
    (void)state;
    struct fake_datagram request;
    http_start(NULL, NULL);
    http_send(http_stream, GET_X "Accept: application/json\r\n\r\n");
    fake_peer_expect(http_replay.origin, words("48 01 MID TOKEN", "3=h 11=x 17:32"), &request);
    fake_peer_reply(http_replay.origin, &request,
                    words("6T 45 MID TOKEN", "4:0a0b 12:32 14:1e /7b7d"));
    const char *text = http_expect_answer(http_stream, 200, "{}");
    http_expect_in(text, "\r\nContent-Type: application/json\r\n");
    http_expect_in(text, "\r\nCache-Control: max-age=30\r\n");
    http_expect_in(text, "\r\nETag: \"0a0b\"\r\n");
    http_expect_in(text, "\r\nContent-Length: 2\r\n");
    http_expect_in(text, "\r\nVia: 1.1 criproxy (criproxyd ");
    expect_date(text);
    http_expect_not_in(text, "Connection: close");
    http_send(http_stream, GET_X "\r\n");
    fake_peer_expect(http_replay.origin, UPSTREAM_X, &request);
    fake_peer_reply(http_replay.origin, &request, words("6T 84 MID TOKEN", "/6e6f"));
    text = http_expect_answer(http_stream, 404, "no");
    http_expect_in(text, "\r\nContent-Type: text/plain;charset=utf-8\r\n");
    http_stop();
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
    http_start(NULL, NULL);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fake_datagram request;
        char text[256];
        snprintf(text, sizeof(text), "%s" HOST "\r\n", rows[i].head);
        http_send(http_stream, text);
        fake_peer_expect(http_replay.origin, "48 0? MID TOKEN ...", &request);
        fake_peer_reply(http_replay.origin, &request, rows[i].reply);
        const char *answer = http_taken(http_stream);
        assert_memory_equal(answer, rows[i].start_line, strlen(rows[i].start_line));
        if (rows[i].field != NULL) {
            http_expect_in(answer, rows[i].field);
        }
    }
    http_stop();
}

/* HC-9: a media type of the configuration's own, [media N], both ways. */
static void test_own_media_types_are_mapped(void **state)
{
    (void)state;
    struct fake_datagram request;
    http_start("media 65001.type=application/x.meter;v=2", "media 65001.coding=deflate");
    http_send(http_stream,
              "PUT " TARGET " HTTP/1.1\r\n" HOST "Content-Type: application/X.meter ; v=\"2\"\r\n"
              "Content-Encoding: deflate\r\nContent-Length: 1\r\n\r\n1");
    fake_peer_expect(http_replay.origin, words("48 03 MID TOKEN", "3=h 11=x 12:fde9 /31"),
                     &request);
    fake_peer_reply(http_replay.origin, &request, words("6T 44 MID TOKEN", "12:fde9 /32"));
    const char *text = http_expect_answer(http_stream, 200, "2");
    http_expect_in(text, "\r\nContent-Type: application/x.meter;v=2\r\n");
    http_expect_in(text, "\r\nContent-Encoding: deflate\r\n");
    http_send(http_stream,
              "PUT " TARGET " HTTP/1.1\r\n" HOST "Content-Type: application/x.meter;v=2\r\n"
              "Content-Length: 1\r\n\r\n1");
    assert_memory_equal(http_taken(http_stream), "HTTP/1.1 415 ", 13);
    http_stop();
}

/* HC-4, HC-7: with {cri} a target and a Location are CRIs in base64url. */
static void test_a_location_is_a_cri_where_targets_are(void **state)
{
    (void)state;
    struct fake_datagram request;
    http_start("http.template={cri}", NULL);
    http_send(http_stream, "POST /hc/gyCBYWiBYXg HTTP/1.1\r\n" HOST "\r\n");
    fake_peer_expect(http_replay.origin, words("48 02 MID TOKEN", "3=h 11=x"), &request);
    fake_peer_reply(http_replay.origin, &request, "6T 41 MID TOKEN 81 61 01 62");
    http_expect_in(http_expect_answer(http_stream, 201, ""),
                   "\r\nLocation: /hc/gyCBYWiCYWFhYg\r\n");
    http_stop();
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
    http_start(NULL, NULL);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fake_datagram request;
        char text[512];
        snprintf(text, sizeof(text), "%s" HOST "\r\n%s", rows[i].head,
                 strstr(rows[i].head, "Content-Length") != NULL ? "1" : "");
        http_send(http_stream, text);
        fake_peer_expect(http_replay.origin, words(rows[i].upstream, rows[i].options), &request);
        fake_peer_reply(http_replay.origin, &request, "6T a0 MID TOKEN");
        assert_memory_equal(http_taken(http_stream), "HTTP/1.1 500 ", 13);
    }
    http_stop();
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
    http_start(NULL, NULL);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char status[32];
        struct fake_stream *one = fake_stream_connect(TRANSPORT_HTTP, "192.0.2.7:40001");
        http_send(one, rows[i].text);
        const char *text = http_taken(one);
        snprintf(status, sizeof(status), "HTTP/1.1 %d ", rows[i].status);
        if (strncmp(text, status, strlen(status)) != 0) {
            fail_msg("not %d to %s: %s", rows[i].status, rows[i].text, text);
        }
    }
    fake_peer_expect_nothing(http_replay.origin);
    assert_true(replay_metric(&http_replay, http_refused) >= 25);
    http_stop();
}

/* HC-1: pipelined requests are answered in order, each after the one before. */
static void test_pipelined_requests_are_answered_in_order(void **state)
{
    (void)state;
    struct fake_datagram request;
    http_start(NULL, NULL);
    http_send(http_stream, GET_X "\r\nGET /hc/coap://h/y HTTP/1.1\r\n" HOST "\r\n");
    fake_peer_expect(http_replay.origin, UPSTREAM_X, &request);
    fake_peer_expect_nothing(http_replay.origin);
    assert_true(fake_stream_is_paused(http_stream));
    fake_peer_reply(http_replay.origin, &request, words("6T 45 MID TOKEN", "/31"));
    (void)http_expect_answer(http_stream, 200, "1");
    fake_peer_expect(http_replay.origin, words("48 01 MID TOKEN", "3=h 11=y"), &request);
    fake_peer_reply(http_replay.origin, &request, words("6T 45 MID TOKEN", "/32"));
    (void)http_expect_answer(http_stream, 200, "2");
    http_stop();
}

/* HC-16, HC-1: connections end where the client, HTTP/1.0 or the limit of requests says so. */
static void test_connections_end(void **state)
{
    (void)state;
    static const char *const heads[] = {
        "GET " TARGET " HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n",
        "GET " TARGET " HTTP/1.0\r\n\r\n",
        "GET " TARGET " HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        GET_X "\r\n", /* the second on its connection */
    };
    http_start("http.requests=2", NULL);
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        struct fake_datagram request;
        struct fake_stream *one = fake_stream_connect(TRANSPORT_HTTP, "192.0.2.7:40001");
        if (i == 3) {
            http_send(one, "GET / HTTP/1.1\r\n" HOST "\r\n");
            http_expect_not_in(http_taken(one), "Connection: close");
        }
        http_send(one, heads[i]);
        fake_peer_expect(http_replay.origin, UPSTREAM_X, &request);
        fake_peer_reply(http_replay.origin, &request, words("6T 45 MID TOKEN", "/31"));
        http_expect_in(http_expect_answer(one, 200, "1"), "Connection: close\r\n");
        assert_true(fake_stream_is_closed(one));
    }
    http_stop();
}

/* HC-8: conditional requests, and what Cache-Control asks of the cache. */
static void test_the_cache_is_asked_as_the_client_says(void **state)
{
    (void)state;
    struct fake_datagram request;
    http_start("cache.max-bytes=1MiB", NULL);
    http_send(http_stream, GET_X "Cache-Control: only-if-cached\r\n\r\n");
    (void)http_expect_answer(http_stream, 504, "not in the cache");
    http_send(http_stream, GET_X "Cache-Control: no-store\r\n\r\n");
    fake_peer_expect(http_replay.origin, UPSTREAM_X, &request);
    fake_peer_reply(http_replay.origin, &request, words("6T 45 MID TOKEN", "4:0a /31"));
    (void)http_expect_answer(http_stream, 200, "1");
    http_send(http_stream, GET_X "\r\n"); /* it was not kept */
    fake_peer_expect(http_replay.origin, UPSTREAM_X, &request);
    fake_peer_reply(http_replay.origin, &request, words("6T 45 MID TOKEN", "4:0a /31"));
    (void)http_expect_answer(http_stream, 200, "1");
    fake_net_run(20000);
    http_send(http_stream, GET_X "Cache-Control: only-if-cached\r\n\r\n");
    http_expect_in(http_expect_answer(http_stream, 200, "1"), "\r\nCache-Control: max-age=40\r\n");
    http_send(http_stream, GET_X "If-None-Match: \"0a\"\r\n\r\n");
    http_expect_in(http_expect_answer(http_stream, 304, ""), "\r\nETag: \"0a\"\r\n");
    http_send(http_stream, GET_X "Cache-Control: no-cache\r\n\r\n");
    fake_peer_expect(http_replay.origin, UPSTREAM_X, &request);
    fake_peer_reply(http_replay.origin, &request, words("6T 45 MID TOKEN", "4:0b /32"));
    (void)http_expect_answer(http_stream, 200, "2");
    http_send(http_stream, GET_X "\r\n");
    (void)http_expect_answer(http_stream, 200, "2");
    fake_peer_expect_nothing(http_replay.origin);
    http_stop();
}

/* HC-10 (RFC 8075 section 8.1): what was asked for is kept although its client has gone. */
static void test_a_client_that_goes_leaves_the_answer_to_the_cache(void **state)
{
    (void)state;
    struct fake_datagram request;
    http_start("cache.max-bytes=1MiB", NULL);
    http_send(http_stream, GET_X "\r\n");
    fake_peer_expect(http_replay.origin, UPSTREAM_X, &request);
    fake_stream_close(http_stream);
    fake_peer_reply(http_replay.origin, &request, words("6T 45 MID TOKEN", "/31"));
    fake_net_run(0);
    http_stream = fake_stream_connect(TRANSPORT_HTTP, "192.0.2.8:40001");
    http_send(http_stream, GET_X "\r\n");
    (void)http_expect_answer(http_stream, 200, "1");
    fake_peer_expect_nothing(http_replay.origin);
    http_stop();
}

/* HC-1: HTTP and CoAP over WebSockets on one port (RFC 8323 section 8.3). */
static void test_a_connection_becomes_a_websocket(void **state)
{
    (void)state;
    struct fake_datagram request;
    http_start(NULL, NULL);
    http_send(http_stream, "GET /.well-known/coap HTTP/1.1\r\n" HOST "\r\n");
    assert_memory_equal(http_taken(http_stream), "HTTP/1.1 400 ", 13);
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
    fake_peer_expect(http_replay.origin, UPSTREAM_X, &request);
    fake_peer_reply(http_replay.origin, &request, words("6T 45 MID TOKEN", "/31"));
    fake_net_run(0);
    fake_stream_expect(socket, "01 45 aa ff 31");
    http_stop();
}

/* HC-5: the mapping is found over HTTP, and over CoAP with the origin of the HTTP side. */
static void test_the_mapping_is_discovered(void **state)
{
    (void)state;
    http_start("http.template={+s}/{+hp}{+p}{+qq}", NULL);
    http_send(http_stream, "GET /.well-known/core HTTP/1.1\r\n" HOST "\r\n");
    const char *text = http_expect_answer(
        http_stream, 200,
        "</.well-known/core>;ct=40,</hc/>;rt=\"core.hc\";hct=\"{+s}/{+hp}{+p}{+qq}\"");
    http_expect_in(text, "\r\nContent-Type: application/link-format\r\n");
    http_send(http_stream, "GET /.well-known/core?rt=core.hc HTTP/1.1\r\n" HOST "\r\n");
    (void)http_expect_answer(http_stream, 200, "</hc/>;rt=\"core.hc\";hct=\"{+s}/{+hp}{+p}{+qq}\"");
    http_send(http_stream, "GET /.well-known/core?rt=other HTTP/1.1\r\n" HOST "\r\n");
    (void)http_expect_answer(http_stream, 200, "");
    replay_ask(&http_replay, words("41 01 0001 aa", "11=.well-known 11=core 15=rt=core.hc"));
    replay_expect_words(&http_replay, "61 45 0001 aa",
                        "</hc/>;anchor=\"http://192.0.2.9:5683\";rt=");
    http_stop();
}

/*
 * HC-12: a request that is acknowledged and not answered ends with 504 after proxy.request-timeout,
 * which may be as long as RFC 8075 section 8.5 has it.
 */
static void test_requests_time_out(void **state)
{
    (void)state;
    struct fake_datagram request;
    http_start(NULL, NULL);
    http_send(http_stream, GET_X "\r\n");
    fake_peer_expect(http_replay.origin, UPSTREAM_X, &request);
    fake_peer_reply(http_replay.origin, &request, "60 00 MID");
    fake_net_run(94000);
    assert_string_equal(http_taken(http_stream), "");
    fake_net_run(1001);
    assert_memory_equal(http_taken(http_stream), "HTTP/1.1 504 Gateway Timeout\r\n", 30);
    assert_false(fake_stream_is_closed(http_stream));
    http_stop();
    http_start("proxy.request-timeout=452s", NULL); /* MAX_RTT + MAX_SERVER_RESPONSE_DELAY */
    http_send(http_stream, GET_X "\r\n");
    fake_peer_expect(http_replay.origin, UPSTREAM_X, &request);
    fake_peer_reply(http_replay.origin, &request, "60 00 MID");
    fake_net_run(451000);
    fake_peer_reply(http_replay.origin, &request, words("4T 45 0101 TOKEN", "/31"));
    (void)http_expect_answer(http_stream, 200, "1");
    http_stop();
}

/* HC-18: equal requests of HTTP and CoAP are sent once, and counted by their fronts. */
static void test_coap_and_http_share_a_fetch(void **state)
{
    (void)state;
    struct fake_datagram request;
    http_start("cache.coalesce=yes", NULL);
    http_send(http_stream, GET_X "\r\n");
    replay_ask(&http_replay, words("41 01 0001 aa", "35=coap://h/x"));
    fake_peer_expect(http_replay.origin, UPSTREAM_X, &request);
    fake_peer_expect_nothing(http_replay.origin);
    fake_peer_reply(http_replay.origin, &request, words("6T 45 MID TOKEN", "/31"));
    (void)http_expect_answer(http_stream, 200, "1");
    replay_expect_words(&http_replay, "61 45 0001 aa", "1");
    assert_int_equal(replay_metric(&http_replay, requests_coalesced), 1);
    http_stop();
}

/* HC-18: a drain answers what is in flight, and closes. */
static void test_a_drain_lets_answers_through(void **state)
{
    (void)state;
    struct fake_datagram request;
    http_start(NULL, NULL);
    struct fake_stream *idle = fake_stream_connect(TRANSPORT_HTTP, "192.0.2.7:40002");
    http_send(http_stream, GET_X "\r\n");
    fake_peer_expect(http_replay.origin, UPSTREAM_X, &request);
    engine_drain(http_replay.engine);
    (void)http_taken(idle);
    assert_true(fake_stream_is_closed(idle));
    fake_peer_reply(http_replay.origin, &request, words("6T 45 MID TOKEN", "/31"));
    http_expect_in(http_expect_answer(http_stream, 200, "1"), "Connection: close\r\n");
    assert_true(fake_stream_is_closed(http_stream));
    http_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_get_and_its_answer),
        cmocka_unit_test(test_answers_are_mapped),
        cmocka_unit_test(test_own_media_types_are_mapped),
        cmocka_unit_test(test_a_location_is_a_cri_where_targets_are),
        cmocka_unit_test(test_requests_are_mapped),
        cmocka_unit_test(test_requests_that_are_refused),
        cmocka_unit_test(test_pipelined_requests_are_answered_in_order),
        cmocka_unit_test(test_connections_end),
        cmocka_unit_test(test_the_cache_is_asked_as_the_client_says),
        cmocka_unit_test(test_a_client_that_goes_leaves_the_answer_to_the_cache),
        cmocka_unit_test(test_a_connection_becomes_a_websocket),
        cmocka_unit_test(test_the_mapping_is_discovered),
        cmocka_unit_test(test_requests_time_out),
        cmocka_unit_test(test_coap_and_http_share_a_fetch),
        cmocka_unit_test(test_a_drain_lets_answers_through),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
