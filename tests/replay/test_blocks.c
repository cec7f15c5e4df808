/* SPDX-License-Identifier: BSD-2-Clause */
/* Bodies in blocks at an intermediary: section 17 of the conformance list (BLK-*). */
#include "replay/replay.h"
#include "replay/words.h"

#include "support/fake_conn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* coap://h/x as Proxy-Cri, in words and as it stands in a frame. */
#define CRI "235:8320816168816178"
#define CRI_OPTION "d8de8320816168816178"
#define H_X "3=h 11=x"

#define PROXY_CSM "70 e1 23 010000 20 21 40"
#define CSM "00 e1"
#define CSM_BERT "50 e1 23 010000 20" /* Max-Message-Size 65,536, Block-Wise-Transfer */

static struct replay replay;

static void start(const char *setting)
{
    const char *settings[] = {setting, NULL};
    struct conn_options options = {.kind = CONN_TCP, .fd = -1, .connections_max = 100};
    replay_start(&replay, setting != NULL ? settings : NULL);
    assert_true(address_parse(PROXY, strlen(PROXY), 0, &options.bind));
    assert_int_equal(engine_listen_stream(replay.engine, &options, NULL), 0);
}

static void stop(void)
{
    fake_net_run(0);
    replay_stop(&replay);
    fake_streams_free();
}

static struct fake_stream *open_stream(const char *csm)
{
    struct fake_stream *stream = fake_stream_connect(CONN_TCP, "192.0.2.7:40001");
    fake_stream_expect(stream, PROXY_CSM);
    fake_stream_send(stream, csm);
    return stream;
}

/* A frame with Len in two bytes: code and token, then @p options (hex) and @p len letters a. */
static void stream_send(struct fake_stream *stream, const char *code_and_token, const char *options,
                        size_t len)
{
    size_t size = strlen(code_and_token) + strlen(options) + 2 * len + 64;
    size_t option_digits = 0;
    char *text = malloc(size);
    assert_non_null(text);
    for (const char *at = options; *at != '\0'; at++) {
        option_digits += *at != ' ' ? 1 : 0;
    }
    int head = snprintf(text, size, "e1 %04x %s %s ff",
                        (unsigned)(option_digits / 2 + 1 + len - 269), code_and_token, options);
    char *at = text + head;
    for (size_t i = 0; i < len; i++) {
        *at++ = '6';
        *at++ = '1';
    }
    *at = '\0';
    fake_stream_send(stream, text);
    free(text);
}

/* The next request at the origin server: @p body in words; @p payload bytes of it in all. */
static void expect_step(const char *body, size_t payload, struct fake_datagram *ret_request)
{
    fake_peer_expect(replay.origin, words("48 ?? MID TOKEN", body), ret_request);
    size_t at = 12;
    while (at < ret_request->len && ret_request->data[at] != 0xff) {
        at++;
    }
    assert_int_equal(ret_request->len > at ? ret_request->len - at - 1 : 0, payload);
}

/* As expect_step(), and its answer. */
static void serve_step(const char *body, size_t payload, const char *answer)
{
    struct fake_datagram request;
    expect_step(body, payload, &request);
    fake_peer_reply(replay.origin, &request, answer);
}

/* --- answers to datagram clients ---------------------------------------- */

/* BLK-12, BLK-14, BLK-15: a body that came whole leaves in blocks; the origin is asked once. */
static void test_large_answer_is_served_in_blocks(void **state)
{
    struct fake_datagram request;
    (void)state;
    start(NULL);
    replay_ask(&replay, words("41 01 0001 aa", CRI));
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", H_X), &request);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "4:01 12:28 /#3000"));
    fake_peer_expect(replay.client, words("61 45 0001 aa", "4:01 12:28 23:0e 28:0bb8 /#1024"),
                     NULL);
    replay_ask(&replay, words("41 01 0002 bb", "23:16 " CRI));
    fake_peer_expect(replay.client, words("61 45 0002 bb", "4:01 12:28 23:1e /#1024"), NULL);
    /* The last one, in another form of naming the target. */
    replay_ask(&replay, words("41 01 0003 bb", "23:26 35=coap://h/x"));
    fake_peer_expect(replay.client, words("61 45 0003 bb", "4:01 12:28 23:26 /#952"), NULL);
    replay_ask(&replay, words("41 01 0004 bb", "23:36 " CRI));
    fake_peer_expect(replay.client, "61 80 0004 bb ...", NULL);
    fake_peer_expect_nothing(replay.origin);
    /* Somebody else's request for a block is not ours to answer: it passes through. */
    struct fake_peer *stranger = fake_peer_new("192.0.2.8:40001");
    fake_peer_send(stranger, PROXY, words("41 01 0001 aa", "23:16 " CRI));
    fake_peer_serve(replay.origin, words("48 01 MID TOKEN", H_X " 23:16"),
                    words("6T 45 MID TOKEN", "23:16 /62"));
    fake_peer_expect(stranger, words("61 45 0001 aa", "23:16 /62"), NULL);
    assert_int_equal(replay_ended(&replay, REASON_block_served), 2);
    assert_int_equal(replay_ended(&replay, REASON_block_range), 1);
    stop();
}

/* BLK-12: two FETCH requests that differ in their payload alone ask for two bodies. */
static void test_fetches_of_one_client_are_apart(void **state)
{
    (void)state;
    start(NULL);
    replay_ask(&replay, words("41 05 0001 aa", CRI " /31"));
    serve_step(H_X " ...", 1, words("6T 45 MID TOKEN", "4:01 /#1025"));
    fake_peer_expect(replay.client, words("61 45 0001 aa", "4:01 23:0e 28:0401 /#1024"), NULL);
    replay_ask(&replay, words("41 05 0002 bb", CRI " /32"));
    serve_step(H_X " ...", 1, words("6T 45 MID TOKEN", "4:01 /#1026"));
    fake_peer_expect(replay.client, words("61 45 0002 bb", "4:01 23:0e 28:0402 /#1024"), NULL);
    replay_ask(&replay, words("41 05 0003 aa", "23:16 " CRI " /31"));
    fake_peer_expect(replay.client, words("61 45 0003 aa", "4:01 23:16 /#1"), NULL);
    replay_ask(&replay, words("41 05 0004 bb", "23:16 " CRI " /32"));
    fake_peer_expect(replay.client, words("61 45 0004 bb", "4:01 23:16 /#2"), NULL);
    fake_peer_expect_nothing(replay.origin);
    stop();
}

/* BLK-8: the client's size, asked for early; Max-Age of later blocks grows old. */
static void test_client_chooses_the_size(void **state)
{
    struct fake_datagram request;
    (void)state;
    start(NULL);
    replay_ask(&replay, words("41 01 0001 aa", "23:02 " CRI));
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", H_X " 23:02"), &request);
    /* An origin server that does not do blocks answers whole. */
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "4:01 14:14 /#100"));
    fake_peer_expect(replay.client, words("61 45 0001 aa", "4:01 14:14 23:0a 28:64 /#64"), NULL);
    fake_net_run(5000);
    replay_ask(&replay, words("41 01 0002 bb", "23:12 " CRI));
    fake_peer_expect(replay.client, words("61 45 0002 bb", "4:01 14:0f 23:12 /#36"), NULL);
    /* After its time the body is forgotten, and the origin server is asked. */
    fake_net_run(250000);
    replay_ask(&replay, words("51 01 0003 cc", "23:12 " CRI));
    fake_peer_serve(replay.origin, words("48 01 MID TOKEN", H_X " 23:12"), "6T 84 MID TOKEN");
    fake_peer_expect(replay.client, "51 84 MID cc", NULL);
    stop();
}

/* BLK-13: an entity-tag of ours does not reach the origin server; its own do. */
static void test_own_etag_is_not_forwarded(void **state)
{
    struct fake_datagram answer;
    char body[128], etag[17];
    (void)state;
    start(NULL);
    replay_ask(&replay, words("41 01 0001 aa", CRI));
    fake_peer_serve(replay.origin, words("48 01 MID TOKEN", H_X),
                    words("6T 45 MID TOKEN", "/#1100"));
    fake_peer_expect(replay.client, "61 45 0001 aa 48 ...", &answer);
    for (size_t i = 0; i < 8; i++) {
        snprintf(etag + 2 * i, 3, "%02x", answer.data[6 + i]);
    }
    snprintf(body, sizeof(body), "4:%s 4:0102030405060708 " CRI, etag);
    replay_ask(&replay, words("41 01 0002 ab", body));
    fake_peer_serve(replay.origin, words("48 01 MID TOKEN", "3=h 4:0102030405060708 11=x"),
                    "6T 43 MID TOKEN 48 0102030405060708");
    fake_peer_expect(replay.client, "61 43 0002 ab ...", NULL);
    stop();
}

/* A budget that is used up: what fits a datagram goes whole, what does not is 5.02. */
static void test_body_limit_of_answers(void **state)
{
    (void)state;
    start("block.body-bytes=1024B");
    replay_ask(&replay, words("41 01 0001 aa", CRI));
    fake_peer_serve(replay.origin, words("48 01 MID TOKEN", H_X),
                    words("6T 45 MID TOKEN", "/#1100"));
    fake_peer_expect(replay.client, words("61 45 0001 aa", "/#1100"), NULL);
    stop();
}

/* --- blocks that make no sense ------------------------------------------ */

/* BLK-3, BLK-6 */
static void test_invalid_blocks(void **state)
{
    static const char *const bodies[] = {
        "23:07 " CRI,         /* size 7 over UDP */
        "27:07 " CRI " /61",  /* the same for Block1 */
        "27:08 " CRI " /61",  /* more to come, and not 16 bytes */
        "27:00 " CRI " /#17", /* the last one, longer than a block */
    };
    char head[32];
    (void)state;
    start(NULL);
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        snprintf(head, sizeof(head), "41 02 %04zx aa", i + 1);
        replay_ask(&replay, words(head, bodies[i]));
        replay_expect_words(&replay, "61 80 ???? aa", "block");
    }
    fake_peer_expect_nothing(replay.origin);
    assert_int_equal(replay_ended(&replay, REASON_block_invalid), 4);
    stop();
}

/* BLK-7: M in a request's Block2 has no meaning and is not passed on. */
static void test_more_bit_of_a_request(void **state)
{
    (void)state;
    start(NULL);
    replay_ask(&replay, words("41 01 0001 aa", "23:1e " CRI));
    fake_peer_serve(replay.origin, words("48 01 MID TOKEN", H_X " 23:16"),
                    words("6T 45 MID TOKEN", "23:16 /61"));
    fake_peer_expect(replay.client, words("61 45 0001 aa", "23:16 /61"), NULL);
    stop();
}

/* --- uploads ------------------------------------------------------------ */

static void request_tag_of(const struct fake_datagram *request, uint8_t tag[8])
{
    /* Request-Tag 292 after Block1 27 has delta 265 >= 13: head e? or d? and 8 bytes. */
    for (size_t at = 12; at + 10 <= request->len; at++) {
        if (request->data[at] == 0xd8 && request->data[at + 1] == 292 - 27 - 13) {
            memcpy(tag, request->data + at + 2, 8);
            return;
        }
    }
    fail_msg("no Request-Tag of 8 bytes behind Block1");
}

/* BLK-5, BLK-28 to BLK-30: passed through, block by block, those of two clients kept apart. */
static void test_uploads_pass_with_request_tags(void **state)
{
    struct fake_datagram request;
    uint8_t first[8], second[8], other[8];
    struct fake_peer *stranger;
    (void)state;
    start(NULL);
    stranger = fake_peer_new("192.0.2.8:40001");
    replay_ask(&replay, words("41 03 0001 aa", "27:08 " CRI " /#16"));
    fake_peer_expect(replay.origin, words("48 03 MID TOKEN", H_X " 27:08 ..."), &request);
    request_tag_of(&request, first);
    fake_peer_reply(replay.origin, &request, words("6T 5f MID TOKEN", "27:08"));
    fake_peer_expect(replay.client, words("61 5f 0001 aa", "27:08"), NULL);

    fake_peer_send(stranger, PROXY, words("41 03 0001 aa", "27:08 " CRI " /#16"));
    fake_peer_expect(replay.origin, words("48 03 MID TOKEN", H_X " 27:08 ..."), &request);
    request_tag_of(&request, other);
    fake_peer_reply(replay.origin, &request, words("6T 5f MID TOKEN", "27:08"));
    fake_peer_expect(stranger, words("61 5f 0001 aa", "27:08"), NULL);

    replay_ask(&replay, words("41 03 0002 aa", "27:10 " CRI " /61"));
    fake_peer_expect(replay.origin, words("48 03 MID TOKEN", H_X " 27:10 ..."), &request);
    request_tag_of(&request, second);
    fake_peer_reply(replay.origin, &request, words("6T 44 MID TOKEN", "27:10"));
    fake_peer_expect(replay.client, words("61 44 0002 aa", "27:10"), NULL);
    assert_memory_equal(first, second, 8);
    assert_memory_not_equal(first, other, 8);

    /* The client's own tag makes another body, even with the same number (BLK-29). */
    replay_ask(&replay, words("41 03 0003 aa", "27:08 " CRI " 292:07 /#16"));
    fake_peer_expect(replay.origin, words("48 03 MID TOKEN", H_X " 27:08 ..."), &request);
    request_tag_of(&request, other);
    assert_memory_not_equal(first, other, 8);
    fake_peer_reply(replay.origin, &request, words("6T 8d MID TOKEN", "27:04"));
    fake_peer_expect(replay.client, words("61 8d 0003 aa", "27:04"), NULL);
    stop();
}

/* BLK-32: each block is asked about by itself, also one of a body that was begun with the right. */
static void test_right_is_taken_away_between_blocks(void **state)
{
    struct fake_datagram request;
    (void)state;
    start(NULL);
    replay_ask(&replay, words("41 03 0001 aa", "27:08 " CRI " /#16"));
    fake_peer_expect(replay.origin, words("48 03 MID TOKEN", H_X " 27:08 ..."), &request);
    fake_peer_reply(replay.origin, &request, words("6T 5f MID TOKEN", "27:08"));
    fake_peer_expect(replay.client, words("61 5f 0001 aa", "27:08"), NULL);
    replay_reload(&replay, (const char *[]){"access no.target=coap://h", NULL});
    replay_ask(&replay, words("41 03 0002 aa", "27:10 " CRI " /61"));
    fake_peer_expect(replay.client, "61 a5 0002 aa ...", NULL);
    fake_peer_expect_nothing(replay.origin);
    stop();
}

/* BLK-34: what one message of TCP holds goes to a UDP origin server in blocks. */
static void test_large_request_over_tcp(void **state)
{
    struct fake_stream *stream;
    (void)state;
    start(NULL);
    stream = open_stream(CSM);
    stream_send(stream, "02 aa", CRI_OPTION, 3000);
    serve_step(H_X " 27:0e 60:0bb8 ...", 1024, words("6T 5f MID TOKEN", "27:0e"));
    serve_step(H_X " 27:1e ...", 1024, words("6T 5f MID TOKEN", "27:1e"));
    assert_int_equal(fake_stream_waiting(stream), 0);
    serve_step(H_X " 27:26 ...", 952, words("6T 44 MID TOKEN", "27:26 /6f6b"));
    fake_stream_expect(stream, "31 44 aa ff 6f6b");
    assert_int_equal(replay_ended(&replay, REASON_answered), 1);
    stop();
}

/* BLK-23: 4.13 with a block size, to a request sent whole: in blocks, for who does none. */
static void test_whole_request_is_sent_again_in_blocks(void **state)
{
    struct fake_datagram request;
    struct fake_stream *stream;
    (void)state;
    start(NULL);
    stream = open_stream(CSM);
    stream_send(stream, "02 aa", CRI_OPTION, 300);
    expect_step(H_X " ...", 300, &request);
    fake_peer_reply(replay.origin, &request, words("6T 8d MID TOKEN", "27:03")); /* of 128 */
    expect_step(H_X " 27:0b 60:012c ...", 128, &request);
    fake_peer_reply(replay.origin, &request, words("6T 5f MID TOKEN", "27:0b"));
    expect_step(H_X " 27:1b ...", 128, &request);
    fake_peer_reply(replay.origin, &request, words("6T 5f MID TOKEN", "27:1b"));
    expect_step(H_X " 27:23 ...", 44, &request);
    fake_peer_reply(replay.origin, &request, words("6T 44 MID TOKEN", "27:23 /6f6b"));
    fake_stream_expect(stream, "31 44 aa ff 6f6b");
    /* One that is short enough, or without a size, is too large for good. */
    stream_send(stream, "02 ab", CRI_OPTION, 290);
    expect_step(H_X " ...", 290, &request);
    fake_peer_reply(replay.origin, &request, words("6T 8d MID TOKEN", "27:05"));
    fake_stream_expect(stream, "31 8d ab d1 0e 05");
    stream_send(stream, "02 ac", CRI_OPTION, 290);
    expect_step(H_X " ...", 290, &request);
    fake_peer_reply(replay.origin, &request, words("6T 8d MID TOKEN", "60:64"));
    fake_stream_expect(stream, "31 8d ac d1 2f 64");
    stop();
}

/* A client that does blocks is told, and sends them itself. */
static void test_client_of_blocks_is_told_the_size(void **state)
{
    struct fake_datagram request;
    struct fake_stream *stream;
    (void)state;
    start(NULL);
    stream = open_stream(CSM_BERT);
    stream_send(stream, "02 aa", CRI_OPTION, 300);
    expect_step(H_X " ...", 300, &request);
    fake_peer_reply(replay.origin, &request, words("6T 8d MID TOKEN", "27:03"));
    fake_stream_expect(stream, "31 8d aa d1 0e 03");
    fake_peer_expect_nothing(replay.origin);
    stop();
}

/* A peer that is slow with each block, and never too slow: there is an end to the whole. */
static void test_body_that_takes_too_long(void **state)
{
    struct fake_datagram request;
    struct fake_stream *stream;
    char head[32], block[64];
    (void)state;
    start("block.transfer-timeout=100s");
    stream = open_stream(CSM);
    stream_send(stream, "02 aa", CRI_OPTION, 5000);
    for (unsigned i = 0; i < 3; i++) { /* an upload */
        expect_step("...", 1024, &request);
        fake_peer_reply(replay.origin, &request, "60 00 MID");
        fake_net_run(30000);
        snprintf(block, sizeof(block), "27:%02x", i << 4 | 14);
        snprintf(head, sizeof(head), "4T 5f 700%u TOKEN", i);
        fake_peer_reply(replay.origin, &request, words(head, block));
        fake_peer_expect(replay.origin, "60 00 700?", NULL);
    }
    expect_step("...", 1024, &request);
    fake_peer_reply(replay.origin, &request, "60 00 MID");
    fake_net_run(9999);
    assert_int_equal(fake_stream_waiting(stream), 0);
    fake_net_run(1);
    fake_stream_expect(stream, "d1 ?? a4 aa");
    fake_stream_forget(stream);
    assert_int_equal(replay.engine->bodies.bytes, 0);
    assert_int_equal(replay_ended(&replay, REASON_transfer_timeout), 1);
    fake_stream_send(stream, "a1 01 ab " CRI_OPTION);
    for (unsigned i = 0; i < 3; i++) { /* and a download */
        fake_peer_expect(replay.origin, "48 01 MID TOKEN ...", &request);
        fake_peer_reply(replay.origin, &request, "60 00 MID");
        fake_net_run(40000);
        snprintf(block, sizeof(block), "4:01 23:%02x /#16", i << 4 | 8);
        snprintf(head, sizeof(head), "4T 45 800%u TOKEN", i);
        fake_peer_reply(replay.origin, &request, words(head, block));
        fake_peer_expect(replay.origin, "60 00 800?", NULL);
    }
    /* It counts from the first block that came. */
    fake_net_run(19999);
    assert_int_equal(fake_stream_waiting(stream), 0);
    fake_net_run(1);
    fake_stream_expect(stream, "d1 ?? a4 ab");
    assert_int_equal(replay.engine->bodies.bytes, 0);
    assert_int_equal(replay_ended(&replay, REASON_transfer_timeout), 2);
    stop();
}

/* The same for what a client sends in BERT blocks: it is told to begin anew. */
static void test_upload_that_takes_too_long(void **state)
{
    static const char *const blocks[] = {"d1 0e 0f ", "d1 0e 2f ", "d1 0e 3f ", "d1 0e 4f "};
    static const size_t lens[] = {2048, 1024, 1024, 1024};
    char options[64];
    (void)state;
    start("block.transfer-timeout=100s");
    struct fake_stream *stream = open_stream(CSM_BERT);
    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
        snprintf(options, sizeof(options), "%sd8c38320816168816178", blocks[i]);
        stream_send(stream, "03 aa", options, lens[i]);
        if (i < 3) {
            fake_stream_expect(stream, "31 5f aa d1 0e");
            fake_stream_expect(stream, "?f");
        }
        fake_net_run(i < 2 ? 49999 : 2); /* the third is in time, the fourth is not */
    }
    fake_stream_expect(stream, "d1 ?? 88 aa");
    assert_int_equal(replay.engine->bodies.bytes, 0);
    fake_peer_expect_nothing(replay.origin);
    stop();
}

/* BLK-26, BLK-31: the answer to an upload is fetched with the upload's tag, and no Block1. */
static void test_large_answer_to_a_large_request(void **state)
{
    struct fake_datagram request;
    struct fake_stream *stream;
    uint8_t tag[8];
    char body[64];
    (void)state;
    start(NULL);
    stream = open_stream(CSM);
    stream_send(stream, "02 aa", CRI_OPTION, 1100);
    expect_step(H_X " 27:0e 60:044c ...", 1024, &request);
    fake_peer_reply(replay.origin, &request, words("6T 5f MID TOKEN", "27:0e"));
    expect_step(H_X " 27:16 ...", 76, &request);
    request_tag_of(&request, tag);
    fake_peer_reply(replay.origin, &request, words("6T 44 MID TOKEN", "4:01 23:08 27:16 /#16"));
    snprintf(body, sizeof(body), H_X " 23:10 292:%02x%02x%02x%02x%02x%02x%02x%02x", tag[0], tag[1],
             tag[2], tag[3], tag[4], tag[5], tag[6], tag[7]);
    expect_step(body, 0, &request);
    assert_int_equal(request.data[1], CODE_POST);
    fake_peer_reply(replay.origin, &request, words("6T 44 MID TOKEN", "4:01 23:10 /6262"));
    fake_stream_expect(stream, "d1 08 44 aa 41 01 ff 61616161616161616161616161616161 6262");
    assert_int_equal(replay_ended(&replay, REASON_answered), 1);
    stop();
}

/* BLK-9, BLK-23, BLK-24, BLK-25 */
static void test_origin_wants_smaller_blocks(void **state)
{
    struct fake_datagram request;
    struct fake_stream *stream;
    (void)state;
    start(NULL);
    stream = open_stream(CSM);
    stream_send(stream, "02 aa",
                "50 "
                "d8d98320816168816178",
                1100); /* If-None-Match */
    serve_step("3=h 5: 11=x 27:0e ...", 1024, words("6T 8d MID TOKEN", "27:05"));
    expect_step("3=h 5: 11=x 27:0d ...", 512, &request);
    /* This one is taken, the next are to be smaller: number 2 of 256 bytes. */
    fake_peer_reply(replay.origin, &request, words("6T 41 MID TOKEN", "27:0c"));
    serve_step(H_X " 27:2c ...", 256, words("6T 44 MID TOKEN", "27:2c"));
    serve_step(H_X " 27:3c ...", 256, words("6T 44 MID TOKEN", "27:3c"));
    serve_step(H_X " 27:44 ...", 76, words("6T 44 MID TOKEN", "27:44"));
    fake_stream_expect(stream, "01 41 aa"); /* 2.01 of the first block counts */
    stop();
}

/* 4.08 is asked for once more from the start; an answer in the middle ends it. */
static void test_upload_that_fails(void **state)
{
    struct fake_datagram request;
    struct fake_stream *stream;
    (void)state;
    start(NULL);
    stream = open_stream(CSM);
    stream_send(stream, "03 aa", CRI_OPTION, 1100);
    serve_step(H_X " 27:0e ...", 1024, words("6T 88 MID TOKEN", "27:0e"));
    serve_step(H_X " 27:0e ...", 1024, words("6T 88 MID TOKEN", "27:0e"));
    fake_stream_expect(stream, "01 88 aa");

    stream_send(stream, "03 ab", CRI_OPTION, 1100);
    serve_step(H_X " 27:0e ...", 1024, "6T 44 MID TOKEN"); /* took the block for all */
    fake_stream_expect(stream, "?1 ?? a2 ab");
    assert_int_equal(replay_ended(&replay, REASON_origin_invalid), 1);

    /* The client goes while a block is out. */
    stream_send(stream, "01 ac", CRI_OPTION, 1100);
    expect_step(H_X " 27:0e ...", 1024, &request);
    fake_stream_close(stream);
    fake_net_run(0);
    assert_int_equal(engine_in_flight(replay.engine), 0);
    stop();
}

/* BLK-20 */
static void test_body_limit_of_requests(void **state)
{
    struct fake_stream *stream;
    (void)state;
    start("block.body-bytes=2KiB");
    stream = open_stream(CSM);
    stream_send(stream, "03 aa", CRI_OPTION, 3000);
    fake_stream_expect(stream, "?1 ?? 8d aa");
    fake_peer_expect_nothing(replay.origin);
    assert_int_equal(replay_ended(&replay, REASON_request_too_large), 1);
    stop();
}

/* --- answers fetched for clients that do not do blocks ------------------- */

/* BLK-10, BLK-11 */
static void test_answer_is_put_together(void **state)
{
    struct fake_stream *stream;
    (void)state;
    start(NULL);
    stream = open_stream(CSM);
    fake_stream_send(stream, "a1 01 aa " CRI_OPTION);
    serve_step(H_X, 0, words("6T 45 MID TOKEN", "4:01 23:08 28:28 /#16"));
    serve_step(H_X " 23:10", 0, words("6T 45 MID TOKEN", "4:01 23:18 /#16"));
    serve_step(H_X " 23:20", 0, words("6T 45 MID TOKEN", "4:01 23:20 /6262"));
    /* ETag, marker, 34 bytes. */
    fake_stream_expect(stream, "d1 18 45 aa 41 01 ff 61616161616161616161616161616161"
                               "61616161616161616161616161616161 6262");
    assert_int_equal(replay_ended(&replay, REASON_answered), 1);
    stop();
}

/* BLK-11: a block with another Content-Format belongs to something else. */
static void test_content_format_changes_under_way(void **state)
{
    static const char *const others[] = {"4:01 12:32 23:10 /62", "4:01 23:10 /62"};
    (void)state;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        struct fake_datagram request;
        struct fake_stream *stream;
        start(NULL);
        stream = open_stream(CSM);
        fake_stream_send(stream, "a1 01 aa " CRI_OPTION);
        for (unsigned turn = 0; turn < 2; turn++) { /* and once more from the start */
            expect_step(turn == 0 ? H_X : H_X " 23:", 0, &request);
            fake_peer_reply(replay.origin, &request,
                            words("6T 45 MID TOKEN", "4:01 12:3c 23:08 /#16"));
            expect_step(H_X " 23:10", 0, &request);
            fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", others[i]));
        }
        fake_stream_expect(stream, "?1 ?? a2 aa");
        assert_int_equal(replay_ended(&replay, REASON_origin_invalid), 1);
        stop();
    }
}

static void test_representation_changes_under_way(void **state)
{
    struct fake_stream *stream;
    (void)state;
    start(NULL);
    stream = open_stream(CSM);
    fake_stream_send(stream, "a1 01 aa " CRI_OPTION);
    serve_step(H_X, 0, words("6T 45 MID TOKEN", "4:01 23:08 /#16"));
    serve_step(H_X " 23:10", 0, words("6T 45 MID TOKEN", "4:02 23:10 /62"));
    /* Once more from the start. */
    serve_step(H_X " 23:", 0, words("6T 45 MID TOKEN", "4:02 23:08 /#16"));
    serve_step(H_X " 23:10", 0, words("6T 45 MID TOKEN", "4:03 23:10 /62"));
    fake_stream_expect(stream, "?1 ?? a2 aa");
    assert_int_equal(replay_ended(&replay, REASON_origin_invalid), 1);
    stop();
}

/* BLK-6: a block that more follow has its full size; without it there would be no end. */
static void test_block_without_its_payload(void **state)
{
    static const char *const answers[] = {"4:01 23:08", "4:01 23:08 /6262"};
    (void)state;
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        struct fake_stream *stream;
        start(NULL);
        stream = open_stream(CSM);
        fake_stream_send(stream, "a1 01 aa " CRI_OPTION);
        serve_step(H_X, 0, words("6T 45 MID TOKEN", answers[i]));
        fake_stream_expect(stream, "?1 ?? a2 aa");
        fake_peer_expect_nothing(replay.origin);
        assert_int_equal(replay_ended(&replay, REASON_origin_invalid), 1);
        stop();
    }
}

/* --- BERT --------------------------------------------------------------- */

/* BLK-16, BLK-18, BLK-33, BLK-34: blocks of several kilobytes, for an origin server on UDP. */
static void test_bert_upload(void **state)
{
    struct fake_datagram request;
    struct fake_stream *stream;
    (void)state;
    start(NULL);
    stream = open_stream(CSM_BERT);
    stream_send(stream, "03 aa",
                "d1 0e 0f "
                "d8c38320816168816178",
                2048); /* 0/1/BERT */
    fake_stream_expect(stream, "31 5f aa d10e0f");
    stream_send(stream, "03 ab",
                "d1 0e 2f "
                "d8c38320816168816178",
                1024); /* 2/1/BERT */
    fake_stream_expect(stream, "31 5f ab d10e2f");
    stream_send(stream, "03 ab",
                "d1 0e 2f "
                "d8c38320816168816178",
                1024); /* again */
    fake_stream_expect(stream, "31 5f ab d10e2f");
    fake_peer_expect_nothing(replay.origin);
    stream_send(stream, "03 ac",
                "d1 0e 37 "
                "d8c38320816168816178",
                300);                                      /* 3/0/BERT */
    expect_step(H_X " 27:0e 60:0d2c ...", 1024, &request); /* 3,372 bytes in all */
    fake_peer_reply(replay.origin, &request, words("6T 5f MID TOKEN", "27:0e"));
    serve_step(H_X " 27:1e ...", 1024, words("6T 5f MID TOKEN", "27:1e"));
    serve_step(H_X " 27:2e ...", 1024, words("6T 5f MID TOKEN", "27:2e"));
    serve_step(H_X " 27:36 ...", 300, words("6T 44 MID TOKEN", "27:36"));
    fake_stream_expect(stream, "31 44 ac d10e37");
    assert_int_equal(replay_ended(&replay, REASON_block_taken), 3);
    stop();
}

/* BLK-20: a body that has come is not thrown out to make room for itself. */
static void test_bert_upload_and_the_budget(void **state)
{
    struct fake_stream *stream;
    (void)state;
    start("block.bodies-bytes=64KiB");
    stream = open_stream(CSM_BERT);
    stream_send(stream, "03 aa", "d1 0e 0f d8c38320816168816178", 17408); /* 0/1/BERT */
    fake_stream_expect(stream, "31 5f aa d10e0f");
    stream_send(stream, "03 ab", "d2 0e 0117 d8c38320816168816178", 300); /* 17/0/BERT */
    fake_stream_expect(stream, "?1 ?? a3 ab");
    assert_int_equal(replay_ended(&replay, REASON_proxy_busy), 1);
    fake_peer_expect_nothing(replay.origin);
    /* One that there is room for. */
    stream = open_stream(CSM_BERT);
    stream_send(stream, "03 ac", "d1 0e 07 d8c38320816168816178", 1025); /* 0/0/BERT */
    serve_step(H_X " 27:0e 60:0401 ...", 1024, words("6T 5f MID TOKEN", "27:0e"));
    serve_step(H_X " 27:16 ...", 1, words("6T 44 MID TOKEN", "27:16"));
    fake_stream_expect(stream, "31 44 ac d10e07");
    stop();
}

/* BLK-17, BLK-21 */
static void test_bert_block_missing(void **state)
{
    struct fake_stream *stream;
    (void)state;
    start(NULL);
    stream = open_stream(CSM_BERT);
    stream_send(stream, "03 aa",
                "d3 0e fffff7 "
                "d8c38320816168816178",
                300);
    fake_stream_expect(stream, "d1 01 88 aa ff 626c6f636b206d697373696e67");
    stream_send(stream, "03 aa",
                "d1 0e 0f "
                "d8c38320816168816178",
                2048);
    fake_stream_expect(stream, "31 5f aa d10e0f");
    stream_send(stream, "03 aa",
                "d1 0e 3f "
                "d8c38320816168816178",
                1024); /* 2 is missing */
    fake_stream_expect(stream, "d1 01 88 aa ff 626c6f636b206d697373696e67");
    assert_int_equal(replay_ended(&replay, REASON_block_missing), 2);
    fake_peer_expect_nothing(replay.origin);
    stop();
}

/* A client that does blocks gets BERT of what does not fit one message, or the size it asks for. */
static void test_bert_download(void **state)
{
    struct fake_stream *stream;
    (void)state;
    start(NULL);
    stream = open_stream("40 e1 22 0c00 20"); /* Max-Message-Size 3,072, Block-Wise-Transfer */
    fake_stream_send(stream, "a1 01 aa " CRI_OPTION);
    serve_step(H_X, 0, words("6T 45 MID TOKEN", "4:01 /#5000"));
    /* 2,048 bytes: ETag, Block2 0/1/BERT, Size2, marker. */
    fake_stream_expect(stream, "e1 06fc 45 aa 4101 d1060f 521388 ff 6161");
    stop();
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_large_answer_is_served_in_blocks),
        TEST(test_fetches_of_one_client_are_apart),
        TEST(test_block_without_its_payload),
        TEST(test_bert_upload_and_the_budget),
        TEST(test_client_chooses_the_size),
        TEST(test_own_etag_is_not_forwarded),
        TEST(test_body_limit_of_answers),
        TEST(test_invalid_blocks),
        TEST(test_more_bit_of_a_request),
        TEST(test_uploads_pass_with_request_tags),
        TEST(test_right_is_taken_away_between_blocks),
        TEST(test_large_request_over_tcp),
        TEST(test_whole_request_is_sent_again_in_blocks),
        TEST(test_client_of_blocks_is_told_the_size),
        TEST(test_body_that_takes_too_long),
        TEST(test_upload_that_takes_too_long),
        TEST(test_large_answer_to_a_large_request),
        TEST(test_origin_wants_smaller_blocks),
        TEST(test_upload_that_fails),
        TEST(test_body_limit_of_requests),
        TEST(test_answer_is_put_together),
        TEST(test_content_format_changes_under_way),
        TEST(test_representation_changes_under_way),
        TEST(test_bert_upload),
        TEST(test_bert_block_missing),
        TEST(test_bert_download),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
