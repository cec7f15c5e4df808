/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/http_talk.h"

#include "client/stream.h"
#include "replay/words.h"

#include <stdio.h>
#include <string.h>

struct replay http_replay;
struct fake_stream *http_stream;

void http_start_with(const char *const *settings)
{
    struct conn_options options = {.transport = TRANSPORT_HTTP, .fd = -1, .connections_max = 2000};
    replay_start(&http_replay, settings);
    assert_true(address_parse(PROXY, strlen(PROXY), 0, &options.bind));
    assert_int_equal(listen_stream(&http_replay.engine->client, &options, NULL), 0);
    http_stream = fake_stream_connect(TRANSPORT_HTTP, "192.0.2.7:40001");
    assert_non_null(http_stream);
}

void http_start(const char *a, const char *b)
{
    const char *settings[] = {a, b, NULL};
    http_start_with(settings);
}

void http_stop(void)
{
    replay_stop(&http_replay);
    fake_streams_free();
}

void http_send(struct fake_stream *to, const char *text)
{
    fake_stream_send_bytes(to, (const uint8_t *)text, strlen(text));
}

const char *http_taken(struct fake_stream *from)
{
    static char text[1 << 20];
    fake_net_run(0);
    size_t len = fake_stream_take(from, (uint8_t *)text, sizeof(text) - 1);
    text[len] = '\0';
    return text;
}

void http_expect_in(const char *text, const char *wanted)
{
    if (strstr(text, wanted) == NULL) {
        fail_msg("no \"%s\" in:\n%s", wanted, text);
    }
}

void http_expect_not_in(const char *text, const char *unwanted)
{
    if (strstr(text, unwanted) != NULL) {
        fail_msg("\"%s\" in:\n%s", unwanted, text);
    }
}

const char *http_expect_answer(struct fake_stream *from, int status, const char *body)
{
    char start_line[32];
    const char *text = http_taken(from);
    snprintf(start_line, sizeof(start_line), "HTTP/1.1 %d ", status);
    if (strncmp(text, start_line, strlen(start_line)) != 0) {
        fail_msg("not %d:\n%s", status, text);
    }
    const char *end = strstr(text, "\r\n\r\n");
    assert_non_null(end);
    assert_string_equal(end + 4, body);
    return text;
}

void http_expect_deregistration(void)
{
    struct fake_datagram request;
    fake_peer_expect(http_replay.origin, words("48 01 MID TOKEN", "3=h 6:01 11=x"), &request);
    fake_peer_reply(http_replay.origin, &request, "6T 45 MID TOKEN");
}
