/* SPDX-License-Identifier: BSD-2-Clause */
/* Clients on reliable transports: section 20 of the conformance list (TCP-*). */
#include "replay/replay.h"

#include "support/fake_conn.h"

#include <stdio.h>
#include <string.h>

/* The proxy's CSM: Max-Message-Size 65536, Block-Wise-Transfer, Extended-Token-Length 64. */
#define PROXY_CSM "70 e1 23 010000 20 21 40"

/* GET coap://h/x as Proxy-Cri, token aa: Len is 10. */
#define GET_X "a1 01 aa d8de8320816168816178"
#define UPSTREAM_X "48 01 MID TOKEN 31688178"

static struct replay replay;

static void start(const char *const *settings)
{
    struct conn_options options = {.transport = TRANSPORT_TCP, .fd = -1, .connections_max = 100};
    replay_start(&replay, settings);
    assert_true(address_parse(PROXY, strlen(PROXY), 0, &options.bind));
    assert_int_equal(listen_stream(&replay.engine->client, &options, NULL), 0);
    options.transport = TRANSPORT_WS;
    assert_int_equal(listen_stream(&replay.engine->client, &options, NULL), 0);
}

static int setup(void **state)
{
    start(NULL);
    *state = &replay;
    return 0;
}

static int teardown(void **state)
{
    replay_stop(*state);
    fake_streams_free();
    return 0;
}

static struct fake_stream *open_stream(void)
{
    struct fake_stream *stream = fake_stream_connect(TRANSPORT_TCP, "192.0.2.7:40001");
    fake_stream_expect(stream, PROXY_CSM);
    fake_stream_send(stream, "00 e1");
    return stream;
}

static void answer(struct fake_datagram *request, const char *payload)
{
    char text[256];
    snprintf(text, sizeof(text), "6T 45 MID TOKEN ff %s", payload);
    fake_peer_reply(replay.origin, request, text);
}

/* TCP-5, TCP-17: CSM first; the answer has the token and no message id. */
static void test_request_and_answer(void **state)
{
    (void)state;
    struct fake_datagram request;
    struct fake_stream *stream = open_stream();
    fake_stream_send(stream, GET_X);
    fake_peer_expect(replay.origin, UPSTREAM_X, &request);
    answer(&request, "31");
    fake_stream_expect(stream, "21 45 aa ff 31");
    assert_int_equal(fake_stream_waiting(stream), 0);
    /* No message layer: the same bytes again are a new request. */
    fake_stream_send(stream, GET_X);
    fake_peer_expect(replay.origin, UPSTREAM_X, &request);
    answer(&request, "32");
    fake_stream_expect(stream, "21 45 aa ff 32");
}

/* TCP-29: at every byte boundary the same. */
static void test_one_byte_at_a_time(void **state)
{
    (void)state;
    struct fake_datagram request;
    struct fake_stream *stream = fake_stream_connect(TRANSPORT_TCP, "192.0.2.7:40001");
    fake_stream_expect(stream, PROXY_CSM);
    fake_stream_send_slowly(stream, "00 e1" GET_X);
    fake_peer_expect(replay.origin, UPSTREAM_X, &request);
    answer(&request, "31");
    fake_stream_expect(stream, "21 45 aa ff 31");
}

/* Several messages in one piece; answers in the order in which they come (TCP-17). */
static void test_coalesced_requests_are_answered_in_any_order(void **state)
{
    (void)state;
    struct fake_datagram first, second;
    struct fake_stream *stream = open_stream();
    fake_stream_send(stream, GET_X "a1 01 bb d8de8320816168816179");
    fake_peer_expect(replay.origin, UPSTREAM_X, &first);
    fake_peer_expect(replay.origin, "48 01 MID TOKEN 31688179", &second);
    answer(&second, "32");
    answer(&first, "31");
    fake_stream_expect(stream, "21 45 bb ff 32 21 45 aa ff 31");
}

/* TCP-19: tokens belong to their connection. */
static void test_equal_tokens_on_two_connections(void **state)
{
    (void)state;
    struct fake_datagram first, second;
    struct fake_stream *a = open_stream();
    struct fake_stream *b = open_stream();
    fake_stream_send(a, GET_X);
    fake_peer_expect(replay.origin, UPSTREAM_X, &first);
    fake_stream_send(b, "a1 01 aa d8de8320816168816179");
    fake_peer_expect(replay.origin, "48 01 MID TOKEN 31688179", &second);
    answer(&second, "62");
    answer(&first, "61");
    fake_stream_expect(a, "21 45 aa ff 61");
    fake_stream_expect(b, "21 45 aa ff 62");
}

/* TCP-6: anything but a CSM first is answered with Abort. */
static void test_request_before_csm_is_aborted(void **state)
{
    (void)state;
    struct fake_stream *stream = fake_stream_connect(TRANSPORT_TCP, "192.0.2.7:40001");
    fake_stream_expect(stream, PROXY_CSM);
    fake_stream_send(stream, GET_X);
    fake_stream_expect(stream, "d0 ?? e5 ff");
    assert_true(fake_stream_is_closed(stream));
    fake_peer_expect_nothing(replay.origin);
}

/* TCP-7: an unknown critical option of a CSM is named in the Abort. */
static void test_unknown_critical_csm_option(void **state)
{
    (void)state;
    struct fake_stream *stream = fake_stream_connect(TRANSPORT_TCP, "192.0.2.7:40001");
    fake_stream_expect(stream, PROXY_CSM);
    fake_stream_send(stream, "10 e1 10");
    fake_stream_expect(stream, "d0 ?? e5 21 01 ff");
    assert_true(fake_stream_is_closed(stream));
}

/* TCP-7: an unknown elective one is not looked at. */
static void test_unknown_elective_csm_option(void **state)
{
    (void)state;
    struct fake_stream *stream = fake_stream_connect(TRANSPORT_TCP, "192.0.2.7:40001");
    fake_stream_expect(stream, PROXY_CSM);
    fake_stream_send(stream, "10 e1 80");
    assert_false(fake_stream_is_closed(stream));
}

/* TCP-9: Pong with the token; Custody comes back. */
static void test_ping_and_pong(void **state)
{
    (void)state;
    struct fake_stream *stream = open_stream();
    fake_stream_send(stream, "01 e2 42");
    fake_stream_expect(stream, "01 e3 42");
    fake_stream_send(stream, "11 e2 43 20");
    fake_stream_expect(stream, "11 e3 43 20");
}

/* TCP-9: also one as long as the configuration lets it be (RFC 8974). */
static void test_pong_echoes_a_long_token(void **state)
{
    static const char *const settings[] = {"proxy.max-token-bytes=300", NULL};
    char hex[2 * 300 + 16];
    size_t len = (size_t)snprintf(hex, sizeof(hex), "0e e2 001f "); /* 269 + 31 */
    start(settings);
    *state = &replay;
    struct fake_stream *stream = fake_stream_connect(TRANSPORT_TCP, "192.0.2.7:40001");
    fake_stream_expect(stream, "80 e1 23 010000 20 22 012c");
    fake_stream_send(stream, "00 e1");
    for (unsigned i = 0; i < 300; i++, len += 2) {
        snprintf(hex + len, sizeof(hex) - len, "%02x", i & 255);
    }
    fake_stream_send(stream, hex);
    hex[4] = '3'; /* e2 becomes e3 */
    fake_stream_expect(stream, hex);
    teardown(state);
}

/* TCP-10, TCP-15, TCP-16: stray Pong, unknown signal, Empty message. */
static void test_what_is_ignored(void **state)
{
    (void)state;
    struct fake_stream *stream = open_stream();
    fake_stream_send(stream, "01 e3 42 00 e9 00 00 01 45 aa");
    assert_int_equal(fake_stream_waiting(stream), 0);
    assert_false(fake_stream_is_closed(stream));
    /* An Empty message may be sent at any time, so also before the CSM (RFC 8323 section 3.4). */
    stream = fake_stream_connect(TRANSPORT_TCP, "192.0.2.7:40001");
    fake_stream_expect(stream, PROXY_CSM);
    fake_stream_send(stream, "00 00 00 e1 01 e2 42");
    fake_stream_expect(stream, "01 e3 42");
}

/* TCP-4: an Abort has no words that its peer does not take. */
static void test_abort_that_fits_the_peer(void **state)
{
    (void)state;
    struct fake_stream *stream = open_stream();
    fake_stream_send(stream, "20 e1 21 20"); /* Max-Message-Size 32 */
    fake_stream_send(stream, "10 e2 10");
    fake_stream_expect(stream, "00 e5");
    assert_int_equal(fake_stream_waiting(stream), 0);
    assert_true(fake_stream_is_closed(stream));
}

/* TCP-3: a declared length is refused before anything is kept. */
static void test_declared_length_of_4_gib(void **state)
{
    (void)state;
    struct fake_stream *stream = open_stream();
    fake_stream_send(stream, "f0 ffffffff 01");
    fake_stream_expect(stream, "d0 ?? e5 ff");
    assert_true(fake_stream_is_closed(stream));
}

/* TCP-14: marker without payload; TCP-2: a token longer than announced. */
static void test_malformed_frames_are_aborted(void **state)
{
    (void)state;
    static const char *const frames[] = {"10 01 ff", "0f 01", "10 01 f0", "0d 01 40"};
    for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
        struct fake_stream *stream = open_stream();
        fake_stream_send(stream, frames[i]);
        fake_stream_expect(stream, "d0 ?? e5 ff");
        assert_true(fake_stream_is_closed(stream));
    }
}

/* TCP-4: an answer that the peer cannot take is a 5.02. */
static void test_answer_larger_than_the_peer_takes(void **state)
{
    (void)state;
    struct fake_datagram request;
    struct fake_stream *stream = fake_stream_connect(TRANSPORT_TCP, "192.0.2.7:40001");
    fake_stream_expect(stream, PROXY_CSM);
    fake_stream_send(stream, "20 e1 21 20"); /* Max-Message-Size 32 */
    fake_stream_send(stream, GET_X);
    fake_peer_expect(replay.origin, UPSTREAM_X, &request);
    answer(&request, "3030303030303030303030303030303030303030"
                     "3030303030303030303030303030303030303030");
    fake_stream_expect(stream, "d1 ?? a2 aa");
    assert_int_equal(replay_ended(&replay, REASON_response_too_large), 1);
}

/* TCP-11: what came before a Release is answered, then the connection is closed. */
static void test_release_waits_for_answers(void **state)
{
    (void)state;
    struct fake_datagram request;
    struct fake_stream *stream = open_stream();
    fake_stream_send(stream, GET_X "00 e4 a1 01 bb d8de8320816168816179");
    fake_peer_expect(replay.origin, UPSTREAM_X, &request);
    fake_peer_expect_nothing(replay.origin);
    assert_false(fake_stream_is_closed(stream));
    answer(&request, "31");
    fake_stream_expect(stream, "21 45 aa ff 31");
    assert_true(fake_stream_is_closed(stream));
}

/* TCP-18, MSG-42: the answer to a request of a closed connection is not wanted. */
static void test_close_cancels_a_safe_request(void **state)
{
    (void)state;
    struct fake_datagram request;
    struct fake_stream *stream = open_stream();
    fake_stream_send(stream, GET_X);
    fake_peer_expect(replay.origin, UPSTREAM_X, &request);
    fake_stream_close(stream);
    assert_int_equal(engine_in_flight(replay.engine), 0);
    assert_int_equal(replay_ended(&replay, REASON_client_gone), 1);
    answer(&request, "31");
}

/* MSG-42: an unsafe one goes on without a client to answer. */
static void test_close_lets_an_unsafe_request_finish(void **state)
{
    (void)state;
    struct fake_datagram request;
    struct fake_stream *stream = open_stream();
    fake_stream_send(stream, "a1 03 aa d8de8320816168816178");
    fake_peer_expect(replay.origin, "48 03 MID TOKEN 31688178", &request);
    fake_stream_close(stream);
    assert_int_equal(engine_in_flight(replay.engine), 1);
    fake_peer_expect_within(replay.origin, 3000, "48 03 MID TOKEN 31688178", NULL);
    fake_peer_reply(replay.origin, &request, "6T 44 MID TOKEN");
    fake_net_run(1);
    assert_int_equal(replay_ended(&replay, REASON_answered), 1);
}

/* A peer that does not take its answers is not read from; it may go on later. */
static void test_peer_that_does_not_read_is_held_back(void **state)
{
    (void)state;
    struct fake_datagram request;
    struct fake_stream *stream = open_stream();
    fake_stream_stop_reading(stream, true);
    fake_stream_send(stream, GET_X);
    fake_peer_expect(replay.origin, UPSTREAM_X, &request);
    answer(&request, "31");
    fake_stream_expect(stream, "21 45 aa ff 31");
    assert_true(fake_stream_is_paused(stream));
    fake_stream_send(stream, GET_X);
    fake_peer_expect_nothing(replay.origin);
    fake_stream_stop_reading(stream, false);
    fake_peer_expect(replay.origin, UPSTREAM_X, &request);
    answer(&request, "32");
    fake_stream_expect(stream, "21 45 aa ff 32");
}

/* TCP-12: draining asks peers to go. */
static void test_drain_sends_release(void **state)
{
    (void)state;
    struct fake_stream *stream = open_stream();
    engine_drain(replay.engine);
    fake_stream_expect(stream, "00 e4");
    assert_true(fake_stream_is_closed(stream));
}

/* Errors have the same codes and words as over UDP. */
static void test_bad_target_is_402(void **state)
{
    (void)state;
    struct fake_stream *stream = open_stream();
    fake_stream_send(stream, "91 01 aa d7de82208163612e62");
    fake_stream_expect(stream, "d1 ?? 82 aa ff 70726f78792d637269");
}

/* TCP-23: on WebSockets Len is 0 and the message ends where its frame ends. */
static void test_websocket_messages(void **state)
{
    (void)state;
    struct fake_datagram request;
    struct fake_stream *stream = fake_stream_connect(TRANSPORT_WS, "192.0.2.7:40001");
    fake_stream_expect(stream, "00 e1 23 010000 20 21 40");
    fake_stream_send(stream, "00 e1");
    fake_stream_send(stream, "01 01 aa d8de8320816168816178");
    fake_peer_expect(replay.origin, UPSTREAM_X, &request);
    answer(&request, "31");
    fake_stream_expect(stream, "01 45 aa ff 31");
    fake_stream_send(stream, GET_X); /* Len is not 0 */
    fake_stream_expect(stream, "00 e5 ff");
    assert_true(fake_stream_is_closed(stream));
}

/* TCP-25: on WebSockets it is the Host field that stands for an absent Uri-Host. */
static void test_host_field_stands_for_uri_host(void **state)
{
    (void)state;
    static const char at_8080[] = "192.0.2.9:8080";
    struct fake_datagram request;
    struct conn_options options = {.transport = TRANSPORT_WSS, .fd = -1, .connections_max = 100};
    struct fake_stream *stream = fake_stream_connect(TRANSPORT_WS, "192.0.2.7:40001");
    fake_stream_set_host(stream, "h");
    fake_stream_expect(stream, "00 e1 23 010000 20 21 40");
    fake_stream_send(stream, "00 e1");
    fake_stream_send(stream, "01 01 aa b178 d0d7");
    fake_peer_expect(replay.origin, UPSTREAM_X, &request);
    answer(&request, "31");
    fake_stream_expect(stream, "01 45 aa ff 31");

    /* TGT-5: a name of the address it came to is the proxy, whatever listens there for CoAP
     * on UDP; another port of that host is another service. */
    assert_true(address_parse(at_8080, strlen(at_8080), 0, &options.bind));
    assert_int_equal(listen_stream(&replay.engine->client, &options, NULL), 0);
    fake_net_name("entrance", 0, RESOLVE_OK, "192.0.2.9");
    stream = fake_stream_connect(TRANSPORT_WSS, "192.0.2.7:40002");
    fake_stream_set_host(stream, "entrance");
    fake_stream_expect(stream, "00 e1 23 010000 20 21 40");
    fake_stream_send(stream, "00 e1");
    fake_stream_send(stream, "01 01 aa bb2e77656c6c2d6b6e6f776e 04 636f7265 d0d7");
    fake_stream_expect(stream, "01 45 aa c128 ff 3c2f2e77656c6c2d6b6e6f776e2f636f72653e3b"
                               "63743d3430");
    struct fake_peer *other = fake_peer_new("192.0.2.9:9999");
    fake_stream_send(stream, "01 01 bb 72270f 4178 d0d7");
    fake_peer_expect(other, "48 01 MID TOKEN 38656e7472616e6365 8178", &request);
    fake_peer_reply(other, &request, "6T 45 MID TOKEN");
    fake_stream_expect(stream, "01 45 bb");
}

/* POST with the options @p hex, less than 13 bytes of them beside No-Response of @p value. */
static void post_with_no_response(struct fake_stream *stream, bool is_ws, unsigned len,
                                  const char *hex, unsigned value)
{
    char text[128];
    snprintf(text, sizeof(text), "%s 02 aa %s d10a%02x",
             is_ws ? "01" : (len + 3 < 13 ? "61" : "d1 00"), hex, value);
    print_message("    %s\n", text);
    fake_stream_send(stream, text);
    fake_net_run(0);
}

/* The answer, where it is told, and nothing else: a Ping is answered by its Pong at once. */
static void expect_told(struct fake_stream *stream, bool is_told, const char *pattern)
{
    if (is_told) {
        fake_stream_expect(stream, pattern);
        fake_stream_forget(stream); /* the words of an error */
    }
    fake_stream_send(stream, "01 e2 77");
    fake_stream_expect(stream, "01 e3 77");
    assert_int_equal(fake_stream_waiting(stream), 0);
    assert_int_equal(engine_in_flight(replay.engine), 0);
}

/*
 * NOR-3, NOR-5: on connections, too, an unwanted answer is not sent, be it the origin server's
 * or the proxy's own, and a wanted one is; the exchange is over in either case.
 */
static void test_no_response_on_connections(void **state)
{
    static const unsigned values[] = {0x00, 0x02, 0x08, 0x10, 0x1a};
    static const unsigned codes[] = {0x44, 0x84, 0xa0};
    (void)state;
    for (unsigned is_ws = 0; is_ws < 2; is_ws++) {
        struct fake_stream *stream =
            fake_stream_connect(is_ws ? TRANSPORT_WS : TRANSPORT_TCP, "192.0.2.7:40001");
        fake_net_run(0);
        fake_stream_forget(stream);
        fake_stream_send(stream, "00 e1");
        for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
            for (size_t k = 0; k < sizeof(codes) / sizeof(codes[0]); k++) {
                char text[32];
                struct fake_datagram request;
                bool is_told = (values[i] & 1u << ((codes[k] >> 5) - 1)) == 0;
                post_with_no_response(stream, is_ws, 10, "d8de8320816168816178", values[i]);
                fake_peer_expect(replay.origin, "48 02 MID TOKEN 31688178", &request);
                snprintf(text, sizeof(text), "6T %02x MID TOKEN", codes[k]);
                fake_peer_reply(replay.origin, &request, text);
                fake_net_run(0);
                snprintf(text, sizeof(text), "01 %02x aa", codes[k]);
                expect_told(stream, is_told, text);
            }
            post_with_no_response(stream, is_ws, 3, "d1deff", values[i]);
            expect_told(stream, (values[i] & 0x08) == 0, is_ws ? "01 82 aa" : "d1 ?? 82 aa");
        }
        fake_stream_close(stream);
    }
}

/* RFC 8323 section 5.2: whatever the signal, a critical option that is not known ends it. */
static void test_unknown_options_of_signals(void **state)
{
    (void)state;
    static const char *const critical[] = {"10 e2 10", "10 e3 10", "10 e4 30", "20 e2 20 10",
                                           "10 e9 10"};
    for (size_t i = 0; i < sizeof(critical) / sizeof(critical[0]); i++) {
        struct fake_stream *stream = open_stream();
        fake_stream_send(stream, critical[i]);
        fake_stream_expect(stream, "d? ?? e5 ff"); /* no Bad-CSM-Option */
        assert_true(fake_stream_is_closed(stream));
    }
    struct fake_stream *stream = open_stream();
    fake_stream_send(stream, "11 e2 aa 60");
    fake_stream_expect(stream, "01 e3 aa");
    fake_stream_send(stream, "10 e5 10"); /* an Abort ends it, and is not answered */
    assert_int_equal(fake_stream_waiting(stream), 0);
    assert_true(fake_stream_is_closed(stream));
    assert_int_equal(replay_metric(&replay, streams_aborted), 5);
    assert_int_equal(replay_metric(&replay, streams_aborted_by_clients), 1);
}

/* TCP-7: later values replace earlier ones; one that is too long is as good as unknown. */
static void test_max_message_size_again(void **state)
{
    (void)state;
    struct fake_datagram request;
    struct fake_stream *stream = open_stream();
    fake_stream_send(stream, "20 e1 21 20");             /* 32 bytes, and then */
    fake_stream_send(stream, "60 e1 25 00 00 00 00 28"); /* 5 bytes, ignored */
    fake_stream_send(stream, GET_X);
    fake_peer_expect(replay.origin, UPSTREAM_X, &request);
    answer(&request, "30313233343536373839 30313233343536373839 30313233343536373839");
    fake_stream_expect(stream, "d1 ?? a2 aa");
    size_t words = fake_stream_waiting(stream);
    assert_true(words > 0);
    stream = open_stream();
    fake_stream_send(stream, "20 e1 21 20");
    fake_stream_send(stream, "20 e1 21 40");
    fake_stream_send(stream, GET_X);
    fake_peer_expect(replay.origin, UPSTREAM_X, &request);
    answer(&request, "30313233343536373839 30313233343536373839 30313233343536373839");
    fake_stream_expect(stream, "d1 12 45 aa ff 30313233343536373839");
}

static void skip_rest(struct fake_stream *stream)
{
    while (fake_stream_waiting(stream) > 0) {
        fake_stream_expect(stream, "??");
    }
}

/* TCP-4: a peer that takes blocks gets a larger answer in blocks that fit. */
static void test_larger_answer_comes_in_blocks(void **state)
{
    (void)state;
    struct fake_datagram request;
    struct fake_stream *stream = fake_stream_connect(TRANSPORT_TCP, "192.0.2.7:40001");
    fake_stream_expect(stream, PROXY_CSM);
    fake_stream_send(stream, "30 e1 21 c8 20"); /* Max-Message-Size 200, Block-Wise-Transfer */
    fake_stream_send(stream, GET_X);
    fake_peer_expect(replay.origin, UPSTREAM_X, &request);
    fake_peer_reply(
        replay.origin, &request,
        "6T 45 MID TOKEN ff"
        "30303030303030303030303030303030303030303030303030303030303030303030303030303030"
        "30303030303030303030303030303030303030303030303030303030303030303030303030303030"
        "30303030303030303030303030303030303030303030303030303030303030303030303030303030"
        "30303030303030303030303030303030303030303030303030303030303030303030303030303030"
        "30303030303030303030303030303030303030303030303030303030303030303030303030303030"
        "30303030303030303030303030303030303030303030303030303030303030303030303030303030");
    fake_net_run(0);
    assert_in_range(fake_stream_waiting(stream), 128, 200);
    /* An ETag of ours, Block2 0/1/128, Size2 240, and 128 bytes. */
    fake_stream_expect(stream, "d? ?? 45 aa 48 ???????????????? d1060b 51f0 ff 3030");
    skip_rest(stream);
    /* Block 1, by the same client: from what is kept. */
    fake_stream_send(stream, "d1 00 01 bb d10a13 d8c7 8320816168816178");
    fake_stream_expect(stream, "d? ?? 45 bb 48 ???????????????? d10613 ff 3030");
    skip_rest(stream);
    fake_peer_expect_nothing(replay.origin);
}

/* TCP-12: an idle peer is told to go; what has crossed that is answered. */
static void test_idle_stream_is_released(void **state)
{
    (void)state;
    struct fake_datagram request;
    struct fake_stream *stream = open_stream();
    fake_stream_send(stream, GET_X);
    fake_peer_expect(replay.origin, UPSTREAM_X, &request);
    assert_true(fake_stream_idle(stream) == CONN_NOT_IDLE); /* an answer is to come */
    answer(&request, "31");
    fake_stream_expect(stream, "21 45 aa ff 31");

    assert_int_equal(fake_stream_idle(stream), 2000);
    fake_stream_expect(stream, "00 e4");
    assert_false(fake_stream_is_closed(stream));
    fake_stream_send(stream, GET_X);
    fake_peer_expect(replay.origin, UPSTREAM_X, &request);
    answer(&request, "32");
    fake_stream_expect(stream, "21 45 aa ff 32");
    assert_true(fake_stream_is_closed(stream));

    stream = open_stream();
    assert_int_equal(fake_stream_idle(stream), 2000);
    fake_stream_expect(stream, "00 e4");
    assert_int_equal(fake_stream_idle(stream), 0);
    assert_true(fake_stream_is_closed(stream));
}

/* Who observes is waiting for something: asked whether it is there, and kept as long as it is. */
static void test_idle_observer_is_pinged(void **state)
{
    (void)state;
    struct fake_datagram request;
    struct fake_stream *stream = open_stream();
    fake_stream_send(stream, "d1 00 01 aa 60 da10 636f61703a2f2f682f78"); /* Proxy-Uri */
    fake_peer_expect(replay.origin, "48 01 MID TOKEN 3168 30 5178", &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN 61 01 ff 30");
    fake_stream_expect(stream, "?? 45 aa");
    skip_rest(stream);
    for (unsigned i = 0; i < 3; i++) {
        assert_true(fake_stream_idle(stream) == CONN_NOT_IDLE);
        fake_stream_expect(stream, "00 e2");
        fake_stream_send(stream, "00 e3");
    }
    assert_true(fake_stream_idle(stream) == CONN_NOT_IDLE);
    fake_stream_expect(stream, "00 e2");
    assert_int_equal(fake_stream_idle(stream), 2000); /* no Pong: it is not, or does not say so */
    fake_stream_expect(stream, "00 e4");
    assert_int_equal(fake_stream_idle(stream), 0);
    assert_true(fake_stream_is_closed(stream));
    fake_peer_expect(replay.origin, "48 01 MID TOKEN 3168 3101 5178",
                     &request); /* no client is left */
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN ff 30");
    fake_net_run(0);
}

/* TCP-13: after the peer's Abort nothing it has asked for is answered or asked further. */
static void test_abort_of_the_peer(void **state)
{
    (void)state;
    struct fake_datagram request;
    struct fake_stream *stream = open_stream();
    fake_stream_send(stream, GET_X);
    fake_peer_expect(replay.origin, UPSTREAM_X, &request);
    fake_stream_send(stream, "00 e5 " GET_X);
    assert_true(fake_stream_is_closed(stream));
    assert_int_equal(replay_ended(&replay, REASON_client_gone), 1);
    fake_peer_expect_nothing(replay.origin);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_request_and_answer),
        TEST(test_one_byte_at_a_time),
        TEST(test_coalesced_requests_are_answered_in_any_order),
        TEST(test_equal_tokens_on_two_connections),
        TEST(test_request_before_csm_is_aborted),
        TEST(test_unknown_critical_csm_option),
        TEST(test_unknown_elective_csm_option),
        TEST(test_ping_and_pong),
        cmocka_unit_test(test_pong_echoes_a_long_token),
        TEST(test_what_is_ignored),
        TEST(test_abort_that_fits_the_peer),
        TEST(test_declared_length_of_4_gib),
        TEST(test_malformed_frames_are_aborted),
        TEST(test_answer_larger_than_the_peer_takes),
        TEST(test_release_waits_for_answers),
        TEST(test_close_cancels_a_safe_request),
        TEST(test_close_lets_an_unsafe_request_finish),
        TEST(test_peer_that_does_not_read_is_held_back),
        TEST(test_drain_sends_release),
        TEST(test_bad_target_is_402),
        TEST(test_websocket_messages),
        TEST(test_host_field_stands_for_uri_host),
        TEST(test_no_response_on_connections),
        TEST(test_unknown_options_of_signals),
        TEST(test_max_message_size_again),
        TEST(test_larger_answer_comes_in_blocks),
        TEST(test_idle_stream_is_released),
        TEST(test_idle_observer_is_pinged),
        TEST(test_abort_of_the_peer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
