/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Answers in the origin server's blocks, for clients that take less in one message: cut once
 * more, and nothing of them is lost (BLK-8, BLK-33, TCP-4).
 */
#include "replay/passers.h"
#include "replay/replay.h"
#include "replay/words.h"

#include "support/fake_client.h"
#include "support/fake_conn.h"

#include "coap/block.h"
#include "coap/frame.h"
#include "coap/option.h"

#include <stdio.h>
#include <string.h>

#define BODY_LEN 100000u
#define CHUNK_MAX 61440u /* of an origin server that takes messages of 64 KiB */
#define FRAMES_MAX 65536u

/* Proxy-Cri for coap://h/x?k as it stands in a frame. */
#define CRI_OPTION "dbde842081616881617881616b"

#define PROXY_CSM "70 e1 23 010000 20 21 40"
#define CSM "00 e1"

static struct replay replay;

/* A proxy with that setting (NULL: none) that listens on TCP, too. */
static void bodies_start(const char *setting)
{
    const char *settings[] = {setting, NULL};
    struct conn_options options = {.transport = TRANSPORT_TCP, .fd = -1, .connections_max = 100};
    replay_start(&replay, setting != NULL ? settings : NULL);
    assert_true(address_parse(PROXY, strlen(PROXY), 0, &options.bind));
    assert_int_equal(listen_stream(&replay.engine->client, &options, NULL), 0);
    passers_start(&replay);
}

static void bodies_stop(void)
{
    fake_net_run(0);
    replay_stop(&replay);
    fake_streams_free();
}

/* A client on TCP that has sent @p csm, and looked at the proxy's. */
static struct fake_stream *bodies_stream(const char *csm)
{
    struct fake_stream *stream = fake_stream_connect(TRANSPORT_TCP, "192.0.2.7:40001");
    fake_stream_expect(stream, PROXY_CSM);
    fake_stream_send(stream, csm);
    return stream;
}

/* What an origin server on a reliable transport has, and what it was asked. */
struct origin_server {
    uint8_t body[BODY_LEN];
    uint32_t chunk;    /* bytes it sends with BERT at once */
    unsigned requests; /* that it has answered */
    unsigned carried;  /* of them with a payload: they changed something */
    bool has_etag;
};

static struct origin_server origin;

static void fill_body(uint32_t chunk, bool has_etag)
{
    origin = (struct origin_server){.chunk = chunk, .has_etag = has_etag};
    for (size_t i = 0; i < BODY_LEN; i++) {
        origin.body[i] = (uint8_t)(i * 7 + i / 1024);
    }
}

/* Answer the request that is out with the block that it asks for. */
static void serve_block(void)
{
    static uint8_t answer[CHUNK_MAX + 64];
    static const uint8_t etag[] = {0xee};
    struct message_writer writer = {.buffer = answer, .capacity = sizeof(answer), .len = 1};
    struct message request = {0};
    struct block block = {.szx = BLOCK_SZX_BERT}, given;
    struct bytes piece, value, path, query;
    const uint8_t *bytes;
    size_t len;
    assert_true(fake_client_pick(0, &bytes, &len));
    assert_true(message_decode_content(bytes + 1, len - 1, &request));
    assert_true(option_find(request.options, OPTION_uri_path, &path));
    assert_true(option_find(request.options, OPTION_uri_query, &query));
    assert_true(path.len == 1 && path.data[0] == 'x' && query.len == 1 && query.data[0] == 'k');
    if (option_find(request.options, OPTION_block2, &value)) {
        block = block_of(value);
    }
    passers_pass();
    assert_true(
        block_cut(&block, (struct bytes){origin.body, BODY_LEN}, origin.chunk, &given, &piece));
    origin.requests++;
    origin.carried += request.payload.len > 0 ? 1 : 0;
    answer[0] = bytes[0] == CODE_PUT ? CODE(2, 4) : CODE(2, 5);
    if (origin.has_etag) {
        message_writer_option(&writer, OPTION_etag, (struct bytes){etag, sizeof(etag)});
    }
    message_writer_option_uint(&writer, OPTION_block2, block_value(&given));
    message_writer_payload(&writer, piece);
    assert_false(writer.overflow);
    fake_client_answer_bytes(answer, writer.len);
    fake_net_run(0);
}

/* A request for coap+tcp://h/x; @p block2: for later blocks. */
static void send_request(struct fake_stream *stream, uint8_t code, const struct block *block2)
{
    static const char uri[] = "coap+tcp://h/x?k";
    static const uint8_t token[] = {0xaa};
    uint8_t buffer[128];
    struct message_writer writer;
    frame_writer_init(&writer, buffer, sizeof(buffer), (struct bytes){token, 1});
    if (block2 != NULL) {
        message_writer_option_uint(&writer, OPTION_block2, block_value(block2));
    }
    message_writer_option(&writer, OPTION_proxy_uri,
                          (struct bytes){(const uint8_t *)uri, sizeof(uri) - 1});
    if (code == CODE_FETCH || (code == CODE_PUT && block2 == NULL)) {
        message_writer_payload(&writer, (struct bytes){(const uint8_t *)"query", 5});
    }
    struct bytes frame = frame_finish(&writer, code, (struct bytes){token, 1}, false);
    fake_stream_send_bytes(stream, frame.data, frame.len);
}

/* The answer, which is no longer than the client takes; the origin server is asked if need be. */
static struct message receive(struct fake_stream *stream, uint32_t message_max)
{
    static uint8_t frame[FRAMES_MAX];
    struct message message;
    size_t len, frame_len;
    while (fake_stream_waiting(stream) == 0) {
        serve_block();
    }
    len = fake_stream_take(stream, frame, sizeof(frame));
    assert_int_equal(frame_decode(frame, len, FRAMES_MAX, 8, &frame_len, &message), FRAME_OK);
    assert_int_equal(frame_len, len);
    assert_in_range(len, 1, message_max);
    return message;
}

static struct fake_stream *client_with(uint32_t message_max, bool takes_blocks)
{
    char csm[64];
    unsigned len = 4 + (takes_blocks ? 1 : 0);
    (void)snprintf(csm, sizeof(csm), "%x0 e1 23 %06x %s", len, (unsigned)message_max,
                   takes_blocks ? "20" : "");
    return bodies_stream(csm);
}

/* The whole body, in as many messages as it takes. @return how many those were */
static unsigned fetch_body(struct fake_stream *stream, uint8_t code, uint32_t message_max)
{
    struct block block = {0};
    size_t len = 0;
    unsigned messages = 0;
    do {
        send_request(stream, code, messages > 0 ? &block : NULL);
        struct message message = receive(stream, message_max);
        struct bytes value, etag;
        assert_int_equal(message.code, code == CODE_PUT ? CODE(2, 4) : CODE(2, 5));
        assert_true(option_find(message.options, OPTION_block2, &value));
        block = block_of(value);
        assert_int_equal(block_offset(&block), len);
        assert_true(block_fits_payload(&block, message.payload.len));
        assert_true(message.payload.len <= BODY_LEN - len);
        assert_memory_equal(message.payload.data, origin.body + len, message.payload.len);
        /* One that the proxy makes up of a part would differ from block to block. */
        assert_true(!origin.has_etag || (option_find(message.options, OPTION_etag, &etag) &&
                                         etag.len == 1 && etag.data[0] == 0xee));
        len += message.payload.len;
        messages++;
        block.num = (uint32_t)(len / block_size(&block));
    } while (block.more);
    assert_int_equal(len, BODY_LEN);
    return messages;
}

/* Every length that a client may announce, against every length that a server may send. */
static void test_each_message_size(void **state)
{
    static const uint32_t message_maxes[] = {300,  1000,  1153,  1200,  2000, 2500,
                                             5000, 10000, 20000, 40000, 65535};
    static const uint32_t chunks[] = {1024, 4096, 16384, CHUNK_MAX};
    static const uint8_t codes[] = {CODE_GET, CODE_PUT, CODE_FETCH};
    (void)state;
    for (size_t i = 0; i < sizeof(message_maxes) / sizeof(message_maxes[0]); i++) {
        for (size_t j = 0; j < 2 * sizeof(chunks) / sizeof(chunks[0]); j++) {
            uint32_t most = message_maxes[i], chunk = chunks[j / 2];
            for (size_t k = 0; k < sizeof(codes); k++) {
                print_message("    %u %u %u\n", most, chunk, codes[k]);
                fill_body(chunk, j % 2 == 0);
                bodies_start(j % 2 == 0 ? "cache.max-bytes=1MiB" : NULL);
                struct fake_stream *stream = client_with(most, true);
                unsigned messages = fetch_body(stream, codes[k], most);
                /* No more than needed, and the origin server is asked once for each part. */
                unsigned step = most > 2100 ? most - 1100 : most / 4;
                assert_in_range(messages, 1, 2 + BODY_LEN / step + BODY_LEN / chunk);
                assert_in_range(origin.requests, 1, 1 + BODY_LEN / chunk);
                assert_int_equal(origin.carried, codes[k] == CODE_GET     ? 0
                                                 : codes[k] == CODE_FETCH ? origin.requests
                                                                          : 1);
                assert_int_equal(replay_ended(&replay, REASON_response_too_large), 0);
                bodies_stop();
            }
        }
    }
}

/* The proxy's own requests stop at the last number: the one after it would be the first again. */
static void test_body_with_too_many_blocks(void **state)
{
    enum { LARGE = 16383, SMALL = 64 }; /* blocks of 1,024 and of 16 bytes: 16 MiB */
    struct fake_datagram request;
    struct message message;
    struct bytes value = {0};
    char options[64];
    (void)state;
    replay_start(&replay, (const char *[]){"block.body-bytes=32MiB", "block.bodies-bytes=128MiB",
                                           "scheme coap.nstart=1", NULL});
    struct conn_options listen = {.transport = TRANSPORT_TCP, .fd = -1, .connections_max = 100};
    assert_true(address_parse(PROXY, strlen(PROXY), 0, &listen.bind));
    assert_int_equal(listen_stream(&replay.engine->client, &listen, NULL), 0);
    struct fake_stream *stream = bodies_stream(CSM);
    fake_stream_send(stream, "d1 00 01 aa " CRI_OPTION);
    for (uint32_t i = 0; i < LARGE + SMALL; i++) {
        const struct block sent = i < LARGE ? (struct block){i, true, 6}
                                            : (struct block){LARGE * 64 + i - LARGE, true, 0};
        fake_peer_expect(replay.origin, "48 01 MID TOKEN ...", &request);
        assert_int_equal(message_decode(request.data, request.len, &message), MESSAGE_OK);
        assert_true(i == 0 || option_find(message.options, OPTION_block2, &value));
        const struct block asked = i == 0 ? sent : block_of(value);
        assert_int_equal(block_offset(&asked), block_offset(&sent));
        (void)snprintf(options, sizeof(options), "4:01 23:%06x /#%u", (unsigned)block_value(&sent),
                       block_size(&sent));
        fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", options));
    }
    fake_net_run(0);
    fake_peer_expect_nothing(replay.origin);
    fake_stream_expect(stream, "d1 ?? a2 aa");
    assert_int_equal(replay_ended(&replay, REASON_response_too_large), 1);
    bodies_stop();
}

/* A body that is kept, of more blocks of 16 bytes than there are numbers. */
static void test_kept_body_with_too_many_blocks(void **state)
{
    enum { CHUNKS = 274 }; /* of 60 KiB: more than 16 MiB */
    static uint8_t answer[CHUNK_MAX + 16];
    (void)state;
    replay_start(&replay, (const char *[]){"block.body-bytes=32MiB", "block.bodies-bytes=128MiB",
                                           "block.size=16", NULL});
    replay_ask(&replay, words("41 01 0001 aa", "35=coap+tcp://h/x?k"));
    fake_net_run(0);
    for (uint32_t i = 0; i < CHUNKS; i++) {
        const uint8_t *bytes;
        size_t len;
        const struct block block = {i * (CHUNK_MAX / 1024), i + 1 < CHUNKS, BLOCK_SZX_BERT};
        struct message_writer writer = {.buffer = answer, .capacity = sizeof(answer), .len = 1};
        struct bytes payload = {origin.body, CHUNK_MAX};
        assert_true(fake_client_pick(0, &bytes, &len));
        answer[0] = CODE(2, 5);
        message_writer_option_uint(&writer, OPTION_block2, block_value(&block));
        message_writer_payload(&writer, payload);
        fake_client_answer_bytes(answer, writer.len);
        fake_net_run(0);
    }
    fake_peer_expect(replay.client, "61 45 0001 aa 48 ???????????????? d1 06 08 ...", NULL);
    /* The last that can be named, as one of 16 bytes and within one of 1,024; then one more. */
    replay_ask(&replay, words("41 01 0002 aa", "23:fffff0 35=coap+tcp://h/x?k"));
    fake_peer_expect(replay.client, "61 45 0002 aa 48 ???????????????? d3 06 fffff8 ff ...", NULL);
    replay_ask(&replay, words("41 01 0003 aa", "23:03fff6 35=coap+tcp://h/x?k"));
    fake_peer_expect(replay.client, "61 45 0003 aa 48 ???????????????? d3 06 fffc08 ff ...", NULL);
    replay_ask(&replay, words("41 01 0004 aa", "23:040006 35=coap+tcp://h/x?k"));
    fake_peer_expect(replay.client, "61 80 0004 aa ...", NULL);
    assert_int_equal(replay_ended(&replay, REASON_block_range), 1);
    bodies_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_message_size),
        cmocka_unit_test(test_body_with_too_many_blocks),
        cmocka_unit_test(test_kept_body_with_too_many_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
