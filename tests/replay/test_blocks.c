/* SPDX-License-Identifier: BSD-2-Clause */
/* Answers in blocks at an intermediary: section 17 of the conformance list (BLK-*). */
#include "replay/bodies.h"

#include "support/fake_dtls.h"

#include <stdio.h>
#include <string.h>

/* --- answers to datagram clients ---------------------------------------- */

/* BLK-12, BLK-14, BLK-15: a body that came whole leaves in blocks; the origin is asked once. */
static void test_large_answer_is_served_in_blocks(void **state)
{
    struct fake_datagram request;
    (void)state;
    bodies_start(NULL);
    replay_ask(&replay, words("41 01 0001 aa", CRI));
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", H_X), &request);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "4:01 12:28 /#3000"));
    fake_peer_expect(replay.client, words("61 45 0001 aa", "4:01 12:28 23:0e 28:0bb8 /#1024"),
                     NULL);
    replay_ask(&replay, words("41 01 0002 bb", "23:16 " CRI));
    fake_peer_expect(replay.client, words("61 45 0002 bb", "4:01 12:28 23:1e /#1024"), NULL);
    /* The last one, in another form of naming the target. */
    replay_ask(&replay, words("41 01 0003 bb", "23:26 35=coap://h/x?k"));
    fake_peer_expect(replay.client, words("61 45 0003 bb", "4:01 12:28 23:26 /#952"), NULL);
    replay_ask(&replay, words("41 01 0004 bb", "23:36 " CRI));
    fake_peer_expect(replay.client, "61 80 0004 bb ...", NULL);
    fake_peer_expect_nothing(replay.origin);
    /* Another client's request for a block is not ours to answer: it passes through. */
    struct fake_peer *stranger = fake_peer_new("192.0.2.8:40001");
    fake_peer_send(stranger, PROXY, words("41 01 0001 aa", "23:16 " CRI));
    fake_peer_serve(replay.origin, words("48 01 MID TOKEN", H_X " 23:16"),
                    words("6T 45 MID TOKEN", "23:16 /62"));
    fake_peer_expect(stranger, words("61 45 0001 aa", "23:16 /62"), NULL);
    assert_int_equal(replay_ended(&replay, REASON_block_served), 2);
    assert_int_equal(replay_ended(&replay, REASON_block_range), 1);
    bodies_stop();
}

/* BLK-15: a length that is asked for is in the first block, ours or the origin server's. */
static void test_size2_is_answered(void **state)
{
    (void)state;
    bodies_start(NULL);
    replay_ask(&replay, words("41 01 0001 aa", "28: " CRI));
    fake_peer_serve(replay.origin, words("48 01 MID TOKEN", H_X " 28:"),
                    words("6T 45 MID TOKEN", "4:01 /#3000"));
    fake_peer_expect(replay.client, words("61 45 0001 aa", "4:01 23:0e 28:0bb8 /#1024"), NULL);
    replay_ask(&replay, words("41 01 0002 ab", "23:16 28: " CRI));
    fake_peer_expect(replay.client, words("61 45 0002 ab", "4:01 23:1e /#1024"), NULL);
    replay_ask(&replay, words("41 01 0003 ac", "28: 35=coap://h/y"));
    fake_peer_serve(replay.origin, words("48 01 MID TOKEN", "3=h 11=y 28:"),
                    words("6T 45 MID TOKEN", "4:01 23:0e 28:1770 /#1024"));
    fake_peer_expect(replay.client, words("61 45 0003 ac", "4:01 23:0e 28:1770 /#1024"), NULL);
    bodies_stop();
}

/* BLK-12: two FETCH requests that differ in their payload alone ask for two bodies. */
static void test_fetches_of_one_client_are_apart(void **state)
{
    (void)state;
    bodies_start(NULL);
    replay_ask(&replay, words("41 05 0001 aa", CRI " /31"));
    serve_step(H_X " ...", 1, words("6T 45 MID TOKEN", "4:01 /#1301"));
    fake_peer_expect(replay.client, words("61 45 0001 aa", "4:01 23:0e 28:0515 /#1024"), NULL);
    replay_ask(&replay, words("41 05 0002 bb", CRI " /32"));
    serve_step(H_X " ...", 1, words("6T 45 MID TOKEN", "4:01 /#1302"));
    fake_peer_expect(replay.client, words("61 45 0002 bb", "4:01 23:0e 28:0516 /#1024"), NULL);
    replay_ask(&replay, words("41 05 0003 aa", "23:16 " CRI " /31"));
    fake_peer_expect(replay.client, words("61 45 0003 aa", "4:01 23:16 /#277"), NULL);
    replay_ask(&replay, words("41 05 0004 bb", "23:16 " CRI " /32"));
    fake_peer_expect(replay.client, words("61 45 0004 bb", "4:01 23:16 /#278"), NULL);
    fake_peer_expect_nothing(replay.origin);
    bodies_stop();
}

/* BLK-8: the client's size, asked for early; Max-Age of later blocks grows old. */
static void test_client_chooses_the_size(void **state)
{
    struct fake_datagram request;
    (void)state;
    bodies_start(NULL);
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
    bodies_stop();
}

/* BLK-13: an entity-tag of ours does not reach the origin server; its own do. */
static void test_own_etag_is_not_forwarded(void **state)
{
    struct fake_datagram answer;
    char body[128], etag[17];
    (void)state;
    bodies_start(NULL);
    replay_ask(&replay, words("41 01 0001 aa", CRI));
    fake_peer_serve(replay.origin, words("48 01 MID TOKEN", H_X),
                    words("6T 45 MID TOKEN", "/#1300"));
    fake_peer_expect(replay.client, "61 45 0001 aa 48 ...", &answer);
    for (size_t i = 0; i < 8; i++) {
        snprintf(etag + 2 * i, 3, "%02x", answer.data[6 + i]);
    }
    snprintf(body, sizeof(body), "4:%s 4:0102030405060708 " CRI, etag);
    replay_ask(&replay, words("41 01 0002 ab", body));
    fake_peer_serve(replay.origin, words("48 01 MID TOKEN", "3=h 4:0102030405060708 11=x 15=k"),
                    "6T 43 MID TOKEN 48 0102030405060708");
    fake_peer_expect(replay.client, "61 43 0002 ab ...", NULL);
    bodies_stop();
}

/* A budget that is used up: what fits a datagram goes whole, what does not is 5.02. */
static void test_body_limit_of_answers(void **state)
{
    (void)state;
    bodies_start("block.body-bytes=1024B");
    replay_ask(&replay, words("41 01 0001 aa", CRI));
    fake_peer_serve(replay.origin, words("48 01 MID TOKEN", H_X),
                    words("6T 45 MID TOKEN", "/#1300"));
    fake_peer_expect(replay.client, words("61 45 0001 aa", "/#1300"), NULL);
    bodies_stop();
}

/* --- answers that pass whole -------------------------------------------- */

/* MSG-35: what came in one message and needs no fragments leaves in one, and is not cut. */
static void test_whole_answers(void **state)
{
    /* Header, token and marker take 6 bytes, the ETag 2. */
    static const struct {
        const char *setting, *options, *answer, *expected;
    } rows[] = {
        {NULL, CRI, "4:01 /#1224", "4:01 /#1224"},
        {NULL, CRI, "4:01 /#1225", "4:01 23:0e 28:04c9 /#1024"},
        {"block.whole-bytes=8KiB", CRI, "/#4000", "/#4000"},
        {"block.size=64", CRI, "/#1200", "/#1200"}, /* of a block, not of a message */
        {"block.whole-bytes=64B", CRI, "/#58", "/#58"},
        {"block.whole-bytes=64B", CRI, "4:01 /#57", "4:01 23:08 28:39 /#16"},
        /* The client has asked for blocks, and gets them. */
        {NULL, "23:02 " CRI, "4:01 /#65", "4:01 23:0a 28:41 /#64"},
        /* Blocks, too, are of a size that needs no fragments. */
        {NULL, CRI, "4:01 8#200 /#1024", "4:01 8#200 23:0d 28:0400 /#512"},
        {"block.whole-bytes=200B", CRI, "4:01 /#1024", "4:01 23:0b 28:0400 /#128"},
        /* Blocks are no help where it is the options that are too long. */
        {"block.whole-bytes=64B", CRI, "8#100 /#16", "8#100 /#16"},
        /* OSCORE: as long as it needs no fragments, whatever the settings. */
        {NULL, "9:0914 " CRI, "9: /#1042", "9: /#1042"},
        {"block.whole-bytes=64B", "9:0914 " CRI, "9: /#1225", "9: /#1225"},
        {NULL, "9:0914 " CRI, "4:01 9: /#1224", "4:01 9: 23:0e 28:04c8 /#1024"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        bodies_start(rows[i].setting);
        replay_ask(&replay, words("41 01 0001 aa", rows[i].options));
        fake_peer_serve(replay.origin, "48 01 MID TOKEN ...",
                        words("6T 45 MID TOKEN", rows[i].answer));
        fake_peer_expect(replay.client, words("61 45 0001 aa", rows[i].expected), NULL);
        bodies_stop();
    }
}

/* The record of DTLS is part of the datagram: 37 bytes fewer. */
static void test_whole_answers_over_dtls(void **state)
{
    static const struct {
        const char *options, *answer, *expected;
    } rows[] = {
        {CRI, "4:01 /#1187", "4:01 /#1187"},
        {CRI, "4:01 /#1188", "4:01 23:0e 28:04a4 /#1024"},
        {"9:0914 " CRI, "9: /#1188", "9: /#1188"},
        {"9:0914 " CRI, "4:01 9: /#1187", "4:01 9: 23:0e 28:04a3 /#1024"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dtls_options options = {.sessions_max = 10, .handshakes_max = 10};
        bodies_start(NULL);
        assert_true(address_parse("192.0.2.9:5684", 14, 0, &options.udp.bind));
        assert_int_equal(listen_dtls(&replay.engine->client, &options, NULL), 0);
        struct dtls_session *session = fake_dtls_open("192.0.2.7:40001");
        fake_dtls_send(session, words("41 01 0001 aa", rows[i].options));
        fake_peer_serve(replay.origin, "48 01 MID TOKEN ...",
                        words("6T 45 MID TOKEN", rows[i].answer));
        fake_dtls_expect(session, words("61 45 0001 aa", rows[i].expected));
        bodies_stop();
        fake_dtls_free();
    }
}

/* limits.datagram-bytes counts the record, both ways: what is longer is not sent. */
static void test_longest_datagram_of_dtls(void **state)
{
    struct dtls_options options = {.sessions_max = 10, .handshakes_max = 10};
    const char *const settings[] = {"limits.datagram-bytes=1280B", "block.whole-bytes=8KiB", NULL};
    (void)state;
    replay_start(&replay, settings);
    assert_true(address_parse("192.0.2.9:5684", 14, 0, &options.udp.bind));
    assert_int_equal(listen_dtls(&replay.engine->client, &options, NULL), 0);
    struct dtls_session *session = fake_dtls_open("192.0.2.7:40001");
    /* Header, token, marker and Proxy-Cri take 19 bytes, the record 37. */
    fake_dtls_send(session, words("41 02 0001 aa", CRI " /#1225"));
    fake_peer_expect_nothing(replay.origin);
    fake_dtls_send(session, words("41 02 0002 aa", CRI " /#1224"));
    fake_peer_serve(replay.origin, "48 02 MID TOKEN ...", words("6T 44 MID TOKEN", "/#1237"));
    fake_dtls_expect(session, words("61 44 0002 aa", "/#1237"));
    fake_dtls_send(session, words("41 01 0003 aa", CRI));
    fake_peer_serve(replay.origin, "48 01 MID TOKEN ...", words("6T 45 MID TOKEN", "4:01 /#1236"));
    fake_dtls_expect(session, words("61 45 0003 aa", "4:01 23:0e 28:04d4 /#1024"));
    replay_stop(&replay);
    fake_dtls_free();
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
    bodies_start(NULL);
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        snprintf(head, sizeof(head), "41 02 %04zx aa", i + 1);
        replay_ask(&replay, words(head, bodies[i]));
        replay_expect_words(&replay, "61 80 ???? aa", "block");
    }
    fake_peer_expect_nothing(replay.origin);
    assert_int_equal(replay_ended(&replay, REASON_block_invalid), 4);
    bodies_stop();
}

/* BLK-7: M in a request's Block2 has no meaning and is not passed on. */
static void test_more_bit_of_a_request(void **state)
{
    (void)state;
    bodies_start(NULL);
    replay_ask(&replay, words("41 01 0001 aa", "23:1e " CRI));
    fake_peer_serve(replay.origin, words("48 01 MID TOKEN", H_X " 23:16"),
                    words("6T 45 MID TOKEN", "23:16 /61"));
    fake_peer_expect(replay.client, words("61 45 0001 aa", "23:16 /61"), NULL);
    bodies_stop();
}

/* --- answers fetched for clients that do not do blocks ------------------- */

/* BLK-10, BLK-11 */
static void test_answer_is_put_together(void **state)
{
    struct fake_stream *stream;
    (void)state;
    bodies_start(NULL);
    stream = bodies_stream(CSM);
    fake_stream_send(stream, "d1 00 01 aa " CRI_OPTION);
    serve_step(H_X, 0, words("6T 45 MID TOKEN", "4:01 23:08 28:28 /#16"));
    serve_step(H_X " 23:10", 0, words("6T 45 MID TOKEN", "4:01 23:18 /#16"));
    serve_step(H_X " 23:20", 0, words("6T 45 MID TOKEN", "4:01 23:20 /6262"));
    /* ETag, marker, 34 bytes. */
    fake_stream_expect(stream, "d1 18 45 aa 41 01 ff 61616161616161616161616161616161"
                               "61616161616161616161616161616161 6262");
    assert_int_equal(replay_ended(&replay, REASON_answered), 1);
    bodies_stop();
}

/* BLK-11: a block with another Content-Format belongs to something else. */
static void test_content_format_changes_under_way(void **state)
{
    static const char *const others[] = {"4:01 12:32 23:10 /62", "4:01 23:10 /62"};
    (void)state;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        struct fake_datagram request;
        struct fake_stream *stream;
        bodies_start(NULL);
        stream = bodies_stream(CSM);
        fake_stream_send(stream, "d1 00 01 aa " CRI_OPTION);
        for (unsigned turn = 0; turn < 2; turn++) { /* and once more from the start */
            expect_step(turn == 0 ? H_X : H_X " 23:", 0, &request);
            fake_peer_reply(replay.origin, &request,
                            words("6T 45 MID TOKEN", "4:01 12:3c 23:08 /#16"));
            expect_step(H_X " 23:10", 0, &request);
            fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", others[i]));
        }
        fake_stream_expect(stream, "?1 ?? a2 aa");
        assert_int_equal(replay_ended(&replay, REASON_origin_invalid), 1);
        bodies_stop();
    }
}

static void test_representation_changes_under_way(void **state)
{
    struct fake_stream *stream;
    (void)state;
    bodies_start(NULL);
    stream = bodies_stream(CSM);
    fake_stream_send(stream, "d1 00 01 aa " CRI_OPTION);
    serve_step(H_X, 0, words("6T 45 MID TOKEN", "4:01 23:08 /#16"));
    serve_step(H_X " 23:10", 0, words("6T 45 MID TOKEN", "4:02 23:10 /62"));
    /* Once more from the start. */
    serve_step(H_X " 23:", 0, words("6T 45 MID TOKEN", "4:02 23:08 /#16"));
    serve_step(H_X " 23:10", 0, words("6T 45 MID TOKEN", "4:03 23:10 /62"));
    fake_stream_expect(stream, "?1 ?? a2 aa");
    assert_int_equal(replay_ended(&replay, REASON_origin_invalid), 1);
    bodies_stop();
}

/* BLK-6: a block that more follow has its full size; without it there would be no end. */
static void test_block_without_its_payload(void **state)
{
    static const char *const answers[] = {"4:01 23:08", "4:01 23:08 /6262"};
    (void)state;
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        struct fake_stream *stream;
        bodies_start(NULL);
        stream = bodies_stream(CSM);
        fake_stream_send(stream, "d1 00 01 aa " CRI_OPTION);
        serve_step(H_X, 0, words("6T 45 MID TOKEN", answers[i]));
        fake_stream_expect(stream, "?1 ?? a2 aa");
        fake_peer_expect_nothing(replay.origin);
        assert_int_equal(replay_ended(&replay, REASON_origin_invalid), 1);
        bodies_stop();
    }
}

/* --- BERT --------------------------------------------------------------- */

/* A client that does blocks gets BERT of what does not fit one message, or the size it asks for. */
static void test_bert_download(void **state)
{
    struct fake_stream *stream;
    (void)state;
    bodies_start(NULL);
    stream = bodies_stream("40 e1 22 0c00 20"); /* Max-Message-Size 3,072, Block-Wise-Transfer */
    fake_stream_send(stream, "d1 00 01 aa " CRI_OPTION);
    serve_step(H_X, 0, words("6T 45 MID TOKEN", "4:01 /#5000"));
    /* 2,048 bytes: ETag, Block2 0/1/BERT, Size2, marker. */
    fake_stream_expect(stream, "e1 06fc 45 aa 4101 d1060f 521388 ff 6161");
    bodies_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_large_answer_is_served_in_blocks),
        cmocka_unit_test(test_size2_is_answered),
        cmocka_unit_test(test_fetches_of_one_client_are_apart),
        cmocka_unit_test(test_client_chooses_the_size),
        cmocka_unit_test(test_own_etag_is_not_forwarded),
        cmocka_unit_test(test_body_limit_of_answers),
        cmocka_unit_test(test_whole_answers),
        cmocka_unit_test(test_whole_answers_over_dtls),
        cmocka_unit_test(test_longest_datagram_of_dtls),
        cmocka_unit_test(test_invalid_blocks),
        cmocka_unit_test(test_more_bit_of_a_request),
        cmocka_unit_test(test_answer_is_put_together),
        cmocka_unit_test(test_content_format_changes_under_way),
        cmocka_unit_test(test_representation_changes_under_way),
        cmocka_unit_test(test_block_without_its_payload),
        cmocka_unit_test(test_bert_download),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
