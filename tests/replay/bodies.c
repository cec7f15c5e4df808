/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/bodies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct replay replay;

void bodies_start(const char *setting)
{
    const char *settings[] = {setting, NULL};
    struct conn_options options = {.transport = TRANSPORT_TCP, .fd = -1, .connections_max = 100};
    replay_start(&replay, setting != NULL ? settings : NULL);
    assert_true(address_parse(PROXY, strlen(PROXY), 0, &options.bind));
    assert_int_equal(listen_stream(&replay.engine->client, &options, NULL), 0);
    passers_start(&replay);
}

void bodies_stop(void)
{
    fake_net_run(0);
    replay_stop(&replay);
    fake_streams_free();
}

struct fake_stream *bodies_stream(const char *csm)
{
    struct fake_stream *stream = fake_stream_connect(TRANSPORT_TCP, "192.0.2.7:40001");
    fake_stream_expect(stream, PROXY_CSM);
    fake_stream_send(stream, csm);
    return stream;
}

void send_body(struct fake_stream *stream, const char *code_and_token, const char *options,
               size_t len)
{
    size_t size = strlen(code_and_token) + strlen(options) + 2 * len + 64;
    size_t option_digits = 0;
    char *text = malloc(size);
    assert_non_null(text);
    for (const char *at = options; *at != '\0'; at++) {
        option_digits += *at != ' ' ? 1 : 0;
    }
    size_t whole = option_digits / 2 + 1 + len;
    bool is_long = whole >= 269;
    int head = snprintf(text, size, is_long ? "e1 %04x %s %s ff" : "d1 %02x %s %s ff",
                        (unsigned)(whole - (is_long ? 269 : 13)), code_and_token, options);
    char *at = text + head;
    for (size_t i = 0; i < len; i++) {
        *at++ = '6';
        *at++ = '1';
    }
    *at = '\0';
    fake_stream_send(stream, text);
    free(text);
}

void expect_step(const char *body, size_t payload, struct fake_datagram *ret_request)
{
    fake_peer_expect(replay.origin, words("48 ?? MID TOKEN", body), ret_request);
    struct message message;
    assert_int_equal(message_decode(ret_request->data, ret_request->len, &message), MESSAGE_OK);
    assert_int_equal(message.payload.len, payload);
}

void serve_step(const char *body, size_t payload, const char *answer)
{
    struct fake_datagram request;
    expect_step(body, payload, &request);
    fake_peer_reply(replay.origin, &request, answer);
}
