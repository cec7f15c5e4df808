/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests in blocks at an intermediary: section 17 of the conformance list (BLK-*). */
#include "replay/bodies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    bodies_start(NULL);
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
    bodies_stop();
}

/* BLK-32: each block is asked about by itself, also one of a body that was begun with the right. */
static void test_right_is_taken_away_between_blocks(void **state)
{
    struct fake_datagram request;
    (void)state;
    bodies_start(NULL);
    replay_ask(&replay, words("41 03 0001 aa", "27:08 " CRI " /#16"));
    fake_peer_expect(replay.origin, words("48 03 MID TOKEN", H_X " 27:08 ..."), &request);
    fake_peer_reply(replay.origin, &request, words("6T 5f MID TOKEN", "27:08"));
    fake_peer_expect(replay.client, words("61 5f 0001 aa", "27:08"), NULL);
    replay_reload(&replay, (const char *[]){"access no.target=coap://h", NULL});
    replay_ask(&replay, words("41 03 0002 aa", "27:10 " CRI " /61"));
    fake_peer_expect(replay.client, "61 a5 0002 aa ...", NULL);
    fake_peer_expect_nothing(replay.origin);
    bodies_stop();
}

/* BLK-34: what one message of TCP holds goes to a UDP origin server in blocks. */
static void test_large_request_over_tcp(void **state)
{
    struct fake_stream *stream;
    (void)state;
    bodies_start(NULL);
    stream = bodies_stream(CSM);
    send_body(stream, "02 aa", CRI_OPTION, 3000);
    serve_step(H_X " 27:0e 60:0bb8 ...", 1024, words("6T 5f MID TOKEN", "27:0e"));
    serve_step(H_X " 27:1e ...", 1024, words("6T 5f MID TOKEN", "27:1e"));
    assert_int_equal(fake_stream_waiting(stream), 0);
    serve_step(H_X " 27:26 ...", 952, words("6T 44 MID TOKEN", "27:26 /6f6b"));
    fake_stream_expect(stream, "31 44 aa ff 6f6b");
    assert_int_equal(replay_ended(&replay, REASON_answered), 1);
    bodies_stop();
}

/* OSCORE in one message stays one message, where that needs no fragments. */
static void test_oscore_over_tcp(void **state)
{
    struct fake_datagram request;
    struct fake_stream *stream;
    (void)state;
    bodies_start(NULL);
    stream = bodies_stream(CSM);
    send_body(stream, "02 aa", "92 0914 dbd5842081616881617881616b", 1042);
    expect_step("3=h 9:0914 11=x 15=k ...", 1042, &request);
    fake_peer_reply(replay.origin, &request, words("6T 44 MID TOKEN", "9: /6f6b"));
    fake_stream_expect(stream, "41 44 aa 90 ff 6f6b");
    send_body(stream, "02 ab", "92 0914 dbd5842081616881617881616b", 1232);
    serve_step("3=h 9:0914 11=x 15=k 27:0e 60:04d0 ...", 1024, words("6T 5f MID TOKEN", "27:0e"));
    serve_step("3=h 9:0914 11=x 15=k 27:16 ...", 208, words("6T 44 MID TOKEN", "27:16"));
    fake_stream_expect(stream, "01 44 ab");
    bodies_stop();
}

/* BLK-23: 4.13 with a block size, to a request sent whole: in blocks, for who does none. */
static void test_whole_request_is_sent_again_in_blocks(void **state)
{
    struct fake_datagram request;
    struct fake_stream *stream;
    (void)state;
    bodies_start(NULL);
    stream = bodies_stream(CSM);
    send_body(stream, "02 aa", CRI_OPTION, 300);
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
    send_body(stream, "02 ab", CRI_OPTION, 290);
    expect_step(H_X " ...", 290, &request);
    fake_peer_reply(replay.origin, &request, words("6T 8d MID TOKEN", "27:05"));
    fake_stream_expect(stream, "31 8d ab d1 0e 05");
    send_body(stream, "02 ac", CRI_OPTION, 290);
    expect_step(H_X " ...", 290, &request);
    fake_peer_reply(replay.origin, &request, words("6T 8d MID TOKEN", "60:64"));
    fake_stream_expect(stream, "31 8d ac d1 2f 64");
    bodies_stop();
}

/* A client that does blocks is told, and sends them itself. */
static void test_client_of_blocks_is_told_the_size(void **state)
{
    struct fake_datagram request;
    struct fake_stream *stream;
    (void)state;
    bodies_start(NULL);
    stream = bodies_stream(CSM_BERT);
    send_body(stream, "02 aa", CRI_OPTION, 300);
    expect_step(H_X " ...", 300, &request);
    fake_peer_reply(replay.origin, &request, words("6T 8d MID TOKEN", "27:03"));
    fake_stream_expect(stream, "31 8d aa d1 0e 03");
    fake_peer_expect_nothing(replay.origin);
    bodies_stop();
}

/* A peer that is slow with each block, and never too slow: there is an end to the whole. */
static void test_body_that_takes_too_long(void **state)
{
    struct fake_datagram request;
    struct fake_stream *stream;
    char head[32], block[64];
    (void)state;
    bodies_start("block.transfer-timeout=100s");
    stream = bodies_stream(CSM);
    send_body(stream, "02 aa", CRI_OPTION, 5000);
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
    assert_int_equal(replay.engine->fetch.bodies.bytes, 0);
    assert_int_equal(replay_ended(&replay, REASON_transfer_timeout), 1);
    fake_stream_send(stream, "d1 00 01 ab " CRI_OPTION);
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
    assert_int_equal(replay.engine->fetch.bodies.bytes, 0);
    assert_int_equal(replay_ended(&replay, REASON_transfer_timeout), 2);
    bodies_stop();
}

/* The same for what a client sends in BERT blocks: it is told to begin anew. */
static void test_upload_that_takes_too_long(void **state)
{
    static const char *const blocks[] = {"d1 0e 0f ", "d1 0e 2f ", "d1 0e 3f ", "d1 0e 4f "};
    static const size_t lens[] = {2048, 1024, 1024, 1024};
    char options[64];
    (void)state;
    bodies_start("block.transfer-timeout=100s");
    struct fake_stream *stream = bodies_stream(CSM_BERT);
    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
        snprintf(options, sizeof(options), "%sdbc3842081616881617881616b", blocks[i]);
        send_body(stream, "03 aa", options, lens[i]);
        if (i < 3) {
            fake_stream_expect(stream, "31 5f aa d1 0e");
            fake_stream_expect(stream, "?f");
        }
        fake_net_run(i < 2 ? 49999 : 2); /* the third is in time, the fourth is not */
    }
    fake_stream_expect(stream, "d1 ?? 88 aa");
    assert_int_equal(replay.engine->fetch.bodies.bytes, 0);
    fake_peer_expect_nothing(replay.origin);
    bodies_stop();
}

/* BLK-26, BLK-31: the answer to an upload is fetched with the upload's tag, and no Block1. */
static void test_large_answer_to_a_large_request(void **state)
{
    struct fake_datagram request;
    struct fake_stream *stream;
    uint8_t tag[8];
    char body[64];
    (void)state;
    bodies_start(NULL);
    stream = bodies_stream(CSM);
    send_body(stream, "02 aa", CRI_OPTION, 1100);
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
    bodies_stop();
}

/* BLK-9, BLK-23, BLK-24, BLK-25 */
static void test_origin_wants_smaller_blocks(void **state)
{
    struct fake_datagram request;
    struct fake_stream *stream;
    (void)state;
    bodies_start(NULL);
    stream = bodies_stream(CSM);
    send_body(stream, "02 aa",
              "50 "
              "dbd9842081616881617881616b",
              1100); /* If-None-Match */
    serve_step("3=h 5: 11=x 15=k 27:0e ...", 1024, words("6T 8d MID TOKEN", "27:05"));
    expect_step("3=h 5: 11=x 15=k 27:0d ...", 512, &request);
    /* This one is taken, the next are to be smaller: number 2 of 256 bytes. */
    fake_peer_reply(replay.origin, &request, words("6T 41 MID TOKEN", "27:0c"));
    serve_step(H_X " 27:2c ...", 256, words("6T 44 MID TOKEN", "27:2c"));
    serve_step(H_X " 27:3c ...", 256, words("6T 44 MID TOKEN", "27:3c"));
    serve_step(H_X " 27:44 ...", 76, words("6T 44 MID TOKEN", "27:44"));
    fake_stream_expect(stream, "01 41 aa"); /* 2.01 of the first block counts */
    bodies_stop();
}

/* 4.08 is asked for once more from the start; an answer in the middle ends it. */
static void test_upload_that_fails(void **state)
{
    struct fake_datagram request;
    struct fake_stream *stream;
    (void)state;
    bodies_start(NULL);
    stream = bodies_stream(CSM);
    send_body(stream, "03 aa", CRI_OPTION, 1100);
    serve_step(H_X " 27:0e ...", 1024, words("6T 88 MID TOKEN", "27:0e"));
    serve_step(H_X " 27:0e ...", 1024, words("6T 88 MID TOKEN", "27:0e"));
    fake_stream_expect(stream, "?1 ?? a2 aa"); /* to a client that has sent no blocks */
    fake_stream_forget(stream);

    send_body(stream, "03 ab", CRI_OPTION, 1100);
    serve_step(H_X " 27:0e ...", 1024, "6T 44 MID TOKEN"); /* took the block for all */
    fake_stream_expect(stream, "?1 ?? a2 ab");
    assert_int_equal(replay_ended(&replay, REASON_origin_invalid), 2);

    /* The client goes while a block is out. */
    send_body(stream, "01 ac", CRI_OPTION, 1100);
    expect_step(H_X " 27:0e ...", 1024, &request);
    fake_stream_close(stream);
    fake_net_run(0);
    assert_int_equal(engine_in_flight(replay.engine), 0);
    bodies_stop();
}

/* BLK-24, MSG-41: there is nothing to go on with after the last block; 2.31 is not the answer. */
static void test_last_block_is_continued(void **state)
{
    struct fake_stream *stream;
    (void)state;
    bodies_start(NULL);
    stream = bodies_stream(CSM); /* of a client that does no blocks */
    send_body(stream, "03 aa", CRI_OPTION, 1100);
    serve_step(H_X " 27:0e ...", 1024, words("6T 5f MID TOKEN", "27:0e"));
    serve_step(H_X " 27:16 ...", 76, words("6T 5f MID TOKEN", "27:16"));
    fake_stream_expect(stream, "?1 ?? a2 aa");
    fake_stream_forget(stream);
    stream = bodies_stream(CSM_BERT); /* of one that has sent it in blocks of its own, */
    send_body(stream, "03 ab", "d1 0e 07 dbc3842081616881617881616b", 1025);
    serve_step(H_X " 27:0e 60:0401 ...", 1024, words("6T 5f MID TOKEN", "27:0e"));
    serve_step(H_X " 27:16 ...", 1, words("6T 5f MID TOKEN", "27:16"));
    fake_stream_expect(stream, "?1 ?? a2 ab");
    /* and of one whose blocks pass through. */
    replay_ask(&replay, words("41 03 0001 aa", "27:10 " CRI " /61"));
    serve_step(H_X " 27:10 ...", 1, words("6T 5f MID TOKEN", "27:10"));
    fake_peer_expect(replay.client, "61 a2 0001 aa ...", NULL);
    assert_int_equal(replay_ended(&replay, REASON_origin_invalid), 3);
    bodies_stop();
}

/* BLK-20 */
static void test_body_limit_of_requests(void **state)
{
    struct fake_stream *stream;
    (void)state;
    bodies_start("block.body-bytes=2KiB");
    stream = bodies_stream(CSM);
    send_body(stream, "03 aa", CRI_OPTION, 3000);
    fake_stream_expect(stream, "?1 ?? 8d aa");
    fake_peer_expect_nothing(replay.origin);
    assert_int_equal(replay_ended(&replay, REASON_request_too_large), 1);
    bodies_stop();
}

/* coap://192.0.2.6/x as Proxy-Cri, as it stands in a frame. */
#define OTHER_CRI_OPTION "dbde83208144c0000206816178"

/* One that sends a body of 4,000 bytes, which takes 4 KiB. */
static struct fake_stream *upload_from(const char *from, const char *option)
{
    struct fake_stream *stream = fake_stream_connect(TRANSPORT_TCP, from);
    assert_non_null(stream);
    fake_stream_expect(stream, PROXY_CSM);
    fake_stream_send(stream, CSM);
    send_body(stream, "03 aa", option, 4000);
    return stream;
}

/*
 * BLK-20: one host's uploads to an origin server that says nothing take all the budget; others'
 * are carried out all the same, and its oldest ends, with word of it.
 */
static void test_uploads_of_one_host_do_not_shut_out_others(void **state)
{
    struct fake_stream *streams[16], *other;
    struct fake_peer *origin;
    char from[64];
    (void)state;
    bodies_start("block.bodies-bytes=64KiB");
    origin = fake_peer_new("192.0.2.6:5683");
    for (unsigned i = 0; i < 16; i++) {
        snprintf(from, sizeof(from), "192.0.2.66:%u", 40000 + i);
        streams[i] = upload_from(from, CRI_OPTION);
    }
    assert_int_equal(replay.engine->fetch.bodies.bytes, 65536);
    other = upload_from("192.0.2.8:40001", OTHER_CRI_OPTION);
    fake_peer_expect(origin, "48 03 ...", NULL); /* the first block */
    fake_stream_expect(streams[0], "?1 ?? a3 aa");
    fake_stream_expect(streams[1], "?1 ?? a3 aa");
    assert_int_equal(replay_ended(&replay, REASON_displaced), 2);
    assert_int_equal(replay_ended(&replay, REASON_proxy_busy), 0);
    for (unsigned i = 0; i < 16; i++) {
        fake_stream_close(streams[i]);
    }
    fake_stream_close(other);
    fake_net_run(700000);
    assert_int_equal(replay.engine->fetch.bodies.transfer_bytes, 0);
    bodies_stop();
}

/* --- BERT --------------------------------------------------------------- */

/* BLK-16, BLK-18, BLK-33, BLK-34: blocks of several kilobytes, for an origin server on UDP. */
static void test_bert_upload(void **state)
{
    struct fake_datagram request;
    struct fake_stream *stream;
    (void)state;
    bodies_start(NULL);
    stream = bodies_stream(CSM_BERT);
    send_body(stream, "03 aa",
              "d1 0e 0f "
              "dbc3842081616881617881616b",
              2048); /* 0/1/BERT */
    fake_stream_expect(stream, "31 5f aa d10e0f");
    send_body(stream, "03 ab",
              "d1 0e 2f "
              "dbc3842081616881617881616b",
              1024); /* 2/1/BERT */
    fake_stream_expect(stream, "31 5f ab d10e2f");
    send_body(stream, "03 ab",
              "d1 0e 2f "
              "dbc3842081616881617881616b",
              1024); /* again */
    fake_stream_expect(stream, "31 5f ab d10e2f");
    fake_peer_expect_nothing(replay.origin);
    send_body(stream, "03 ac",
              "d1 0e 37 "
              "dbc3842081616881617881616b",
              300);                                        /* 3/0/BERT */
    expect_step(H_X " 27:0e 60:0d2c ...", 1024, &request); /* 3,372 bytes in all */
    fake_peer_reply(replay.origin, &request, words("6T 5f MID TOKEN", "27:0e"));
    serve_step(H_X " 27:1e ...", 1024, words("6T 5f MID TOKEN", "27:1e"));
    serve_step(H_X " 27:2e ...", 1024, words("6T 5f MID TOKEN", "27:2e"));
    serve_step(H_X " 27:36 ...", 300, words("6T 44 MID TOKEN", "27:36"));
    fake_stream_expect(stream, "31 44 ac d10e37");
    assert_int_equal(replay_ended(&replay, REASON_block_taken), 3);
    bodies_stop();
}

/* The 3,372 bytes of an upload that is whole, with the client's last Block1 in the answer. */
static void serve_3372_bytes(struct fake_stream *stream, const char *answer)
{
    serve_step(H_X " 27:0e 60:0d2c ...", 1024, words("6T 5f MID TOKEN", "27:0e"));
    serve_step(H_X " 27:1e ...", 1024, words("6T 5f MID TOKEN", "27:1e"));
    serve_step(H_X " 27:2e ...", 1024, words("6T 5f MID TOKEN", "27:2e"));
    serve_step(H_X " 27:36 ...", 300, words("6T 44 MID TOKEN", "27:36"));
    fake_stream_expect(stream, answer);
}

/* RFC 7959 section 2.5: a client may go on with smaller blocks, NUM counting those. */
static void test_bert_upload_goes_on_with_smaller_blocks(void **state)
{
    static const char target[] = "dbc3842081616881617881616b";
    static const struct {
        const char *what;
        struct {
            struct block block;
            size_t len;
        } blocks[5];
    } rows[] = {
        {"the last one",
         {{{0, true, BLOCK_SZX_BERT}, 2048},
          {{2, true, BLOCK_SZX_BERT}, 1024},
          {{3, false, 6}, 300}}},
        {"the last two, and of those the last again",
         {{{0, true, BLOCK_SZX_BERT}, 2048},
          {{4, true, 5}, 512},
          {{5, true, 5}, 512},
          {{5, true, 5}, 512},
          {{6, false, 5}, 300}}},
        {"smaller each time",
         {{{0, true, BLOCK_SZX_BERT}, 2048},
          {{2, true, 6}, 1024},
          {{12, true, 4}, 256},
          {{104, true, 1}, 32},
          {{210, false, 0}, 12}}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        print_message("    %s\n", rows[i].what);
        bodies_start(NULL);
        struct fake_stream *stream = bodies_stream(CSM_BERT);
        for (size_t k = 0; k < 5 && rows[i].blocks[k].len > 0; k++) {
            const struct block *block = &rows[i].blocks[k].block;
            uint32_t value = block_value(block);
            char options[80], answer[40];
            snprintf(options, sizeof(options), value > 0xff ? "d2 0e %04x %s" : "d1 0e %02x %s",
                     value, target);
            snprintf(answer, sizeof(answer),
                     value > 0xff ? "41 %s aa d20e %04x" : "31 %s aa d10e %02x",
                     block->more ? "5f" : "44", value);
            send_body(stream, "03 aa", options, rows[i].blocks[k].len);
            if (block->more) {
                fake_stream_expect(stream, answer);
                fake_peer_expect_nothing(replay.origin);
            } else {
                serve_3372_bytes(stream, answer);
            }
        }
        bodies_stop();
    }
}

/* One that begins with a smaller block is another upload, whose blocks pass as they are. */
static void test_upload_in_small_blocks_after_bert(void **state)
{
    struct fake_stream *stream;
    (void)state;
    bodies_start(NULL);
    stream = bodies_stream(CSM_BERT);
    send_body(stream, "03 aa", "d1 0e 0f dbc3842081616881617881616b", 2048); /* 0/1/BERT */
    fake_stream_expect(stream, "31 5f aa d10e0f");
    send_body(stream, "03 ab", "d1 0e 0e dbc3842081616881617881616b", 1024); /* 0/1/1024 */
    serve_step(H_X " 27:0e ...", 1024, words("6T 5f MID TOKEN", "27:0e"));
    fake_stream_expect(stream, "31 5f ab d10e0e");
    send_body(stream, "03 ac", "d1 0e 26 dbc3842081616881617881616b", 300); /* 2/0/1024 */
    serve_step(H_X " 27:26 ...", 300, "6T 88 MID TOKEN");
    fake_stream_expect(stream, "01 88 ac");
    bodies_stop();
}

/* BLK-20: a body that has come is not thrown out to make room for itself. */
static void test_bert_upload_and_the_budget(void **state)
{
    struct fake_stream *stream;
    (void)state;
    bodies_start("block.bodies-bytes=64KiB");
    stream = bodies_stream(CSM_BERT);
    send_body(stream, "03 aa", "d1 0e 0f dbc3842081616881617881616b", 17408); /* 0/1/BERT */
    fake_stream_expect(stream, "31 5f aa d10e0f");
    send_body(stream, "03 ab", "d2 0e 0117 dbc3842081616881617881616b", 300); /* 17/0/BERT */
    fake_stream_expect(stream, "?1 ?? a3 ab");
    assert_int_equal(replay_ended(&replay, REASON_proxy_busy), 1);
    fake_peer_expect_nothing(replay.origin);
    /* One that there is room for. */
    stream = bodies_stream(CSM_BERT);
    send_body(stream, "03 ac", "d1 0e 07 dbc3842081616881617881616b", 1025); /* 0/0/BERT */
    serve_step(H_X " 27:0e 60:0401 ...", 1024, words("6T 5f MID TOKEN", "27:0e"));
    serve_step(H_X " 27:16 ...", 1, words("6T 44 MID TOKEN", "27:16"));
    fake_stream_expect(stream, "31 44 ac d10e07");
    bodies_stop();
}

/* BLK-17, BLK-21 */
static void test_bert_block_missing(void **state)
{
    struct fake_stream *stream;
    (void)state;
    bodies_start(NULL);
    stream = bodies_stream(CSM_BERT);
    send_body(stream, "03 aa",
              "d3 0e fffff7 "
              "dbc3842081616881617881616b",
              300);
    fake_stream_expect(stream, "d1 01 88 aa ff 626c6f636b206d697373696e67");
    send_body(stream, "03 aa",
              "d1 0e 0f "
              "dbc3842081616881617881616b",
              2048);
    fake_stream_expect(stream, "31 5f aa d10e0f");
    send_body(stream, "03 aa",
              "d1 0e 3f "
              "dbc3842081616881617881616b",
              1024); /* 2 is missing */
    fake_stream_expect(stream, "d1 01 88 aa ff 626c6f636b206d697373696e67");
    assert_int_equal(replay_ended(&replay, REASON_block_missing), 2);
    fake_peer_expect_nothing(replay.origin);
    bodies_stop();
}

/* Block 0 with M of an upload in BERT, or the last one. @p other: options beside the target. */
static void send_piece(struct fake_stream *stream, const char *code_and_token, const char *block,
                       const char *target, const char *other, size_t len)
{
    char body[128];
    snprintf(body, sizeof(body), "27:%s %s %s", block, target, other);
    send_body(stream, code_and_token, words("", body), len);
}

/* BLK-19: two uploads that differ in anything of their key stay two bodies. */
static void test_uploads_side_by_side(void **state)
{
    static const struct {
        const char *name, *code, *target, *other, *upstream;
        bool is_elsewhere;
    } rows[] = {
        {"Request-Tag", "03", CRI, "292:01", H_X, false},
        {"method", "02", CRI, "", H_X, false},
        {"target", "03", "235:8320816168816179", "", "3=h 11=y", false},
        {"client", "03", CRI, "", H_X, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char token[16];
        print_message("    %s\n", rows[i].name);
        bodies_start(NULL);
        struct fake_stream *first = bodies_stream(CSM_BERT), *second = first;
        if (rows[i].is_elsewhere) {
            second = fake_stream_connect(TRANSPORT_TCP, "192.0.2.7:40002");
            fake_stream_expect(second, PROXY_CSM);
            fake_stream_send(second, CSM_BERT);
        }
        send_piece(first, "03 aa", "0f", CRI, "", 2048);
        fake_stream_expect(first, "31 5f aa d10e0f");
        snprintf(token, sizeof(token), "%s ba", rows[i].code);
        send_piece(second, token, "0f", rows[i].target, rows[i].other, 1024);
        fake_stream_expect(second, "31 5f ba d10e0f");
        snprintf(token, sizeof(token), "%s bb", rows[i].code);
        send_piece(first, "03 ab", "27", CRI, "", 300);
        serve_step(H_X " 27:0e 60:092c ...", 1024, "6T 84 MID TOKEN");
        fake_stream_expect(first, "?1 84 ab");
        fake_stream_forget(first);
        send_piece(second, token, "17", rows[i].target, rows[i].other, 301);
        char upstream[64];
        snprintf(upstream, sizeof(upstream), "%s 27:0e 60:052d ...", rows[i].upstream);
        serve_step(upstream, 1024, "6T 84 MID TOKEN");
        fake_stream_expect(second, "?1 84 bb");
        bodies_stop();
    }
}

/* BLK-19: block.keep-time begins anew with each block that comes. */
static void test_upload_is_kept_for_its_time(void **state)
{
    struct fake_stream *stream;
    (void)state;
    bodies_start("block.keep-time=30s");
    stream = bodies_stream(CSM_BERT);
    send_piece(stream, "03 aa", "0f", CRI, "", 1024);
    fake_stream_expect(stream, "31 5f aa d10e0f");
    fake_net_run(29000);
    send_piece(stream, "03 ab", "1f", CRI, "", 1024);
    fake_stream_expect(stream, "31 5f ab d10e1f");
    fake_net_run(29000);
    send_piece(stream, "03 ac", "2f", CRI, "", 1024);
    fake_stream_expect(stream, "31 5f ac d10e2f");
    fake_net_run(31000);
    send_piece(stream, "03 ad", "37", CRI, "", 300);
    fake_stream_expect(stream, "d1 01 88 ad ff 626c6f636b206d697373696e67");
    fake_peer_expect_nothing(replay.origin);
    bodies_stop();
}

/* BLK-27: to a block that is continued the proxy answers without Block2, asked for or not. */
static void test_continue_has_no_block2(void **state)
{
    struct fake_stream *stream;
    (void)state;
    bodies_start(NULL);
    stream = bodies_stream(CSM_BERT);
    send_body(stream, "03 aa", words("", "23:06 27:0f " CRI), 1024);
    fake_stream_expect(stream, "31 5f aa d10e0f");
    assert_int_equal(fake_stream_waiting(stream), 0);
    fake_peer_expect_nothing(replay.origin);
    bodies_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_uploads_pass_with_request_tags),
        cmocka_unit_test(test_uploads_side_by_side),
        cmocka_unit_test(test_upload_is_kept_for_its_time),
        cmocka_unit_test(test_continue_has_no_block2),
        cmocka_unit_test(test_right_is_taken_away_between_blocks),
        cmocka_unit_test(test_large_request_over_tcp),
        cmocka_unit_test(test_oscore_over_tcp),
        cmocka_unit_test(test_whole_request_is_sent_again_in_blocks),
        cmocka_unit_test(test_client_of_blocks_is_told_the_size),
        cmocka_unit_test(test_body_that_takes_too_long),
        cmocka_unit_test(test_upload_that_takes_too_long),
        cmocka_unit_test(test_large_answer_to_a_large_request),
        cmocka_unit_test(test_origin_wants_smaller_blocks),
        cmocka_unit_test(test_upload_that_fails),
        cmocka_unit_test(test_last_block_is_continued),
        cmocka_unit_test(test_body_limit_of_requests),
        cmocka_unit_test(test_uploads_of_one_host_do_not_shut_out_others),
        cmocka_unit_test(test_bert_upload),
        cmocka_unit_test(test_bert_upload_goes_on_with_smaller_blocks),
        cmocka_unit_test(test_upload_in_small_blocks_after_bert),
        cmocka_unit_test(test_bert_upload_and_the_budget),
        cmocka_unit_test(test_bert_block_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
