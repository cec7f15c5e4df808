/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * HTTP clients, where it takes files (tokens), a connection that becomes another (WebSocket), or
 * what an operator sees; the talk is tests/scenario/http.scn.
 */
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

static struct replay http_replay;
static struct fake_stream *http_stream;

static void http_start(void)
{
    struct conn_options options = {.transport = TRANSPORT_HTTP, .fd = -1, .connections_max = 8};
    replay_start(&http_replay, NULL);
    assert_true(address_parse(PROXY, strlen(PROXY), 0, &options.bind));
    assert_int_equal(listen_stream(&http_replay.engine->client, &options, NULL), 0);
    http_stream = fake_stream_connect(TRANSPORT_HTTP, "192.0.2.7:40001");
    assert_non_null(http_stream);
}

static void http_stop(void)
{
    replay_stop(&http_replay);
    fake_streams_free();
}

static void http_send(struct fake_stream *to, const char *text)
{
    fake_stream_send_bytes(to, (const uint8_t *)text, strlen(text));
}

static const char *http_taken(struct fake_stream *from)
{
    static char text[1 << 20];
    fake_net_run(0);
    size_t len = fake_stream_take(from, (uint8_t *)text, sizeof(text) - 1);
    text[len] = '\0';
    return text;
}

static void http_expect_in(const char *text, const char *wanted)
{
    if (strstr(text, wanted) == NULL) {
        fail_msg("no \"%s\" in:\n%s", wanted, text);
    }
}

static const char *http_expect_answer(struct fake_stream *from, int status, const char *body)
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

static void http_expect_deregistration(void)
{
    struct fake_datagram request;
    fake_peer_expect(http_replay.origin, words("48 01 MID TOKEN", "3=h 6:01 11=x"), &request);
    fake_peer_reply(http_replay.origin, &request, "6T 45 MID TOKEN");
}

/* HC-1: HTTP and CoAP over WebSockets on one port (RFC 8323 section 8.3). */
static void test_a_connection_becomes_a_websocket(void **state)
{
    (void)state;
    struct fake_datagram request;
    http_start();
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
    fake_peer_expect(http_replay.origin, words("48 01 MID TOKEN", "3=h 11=x"), &request);
    fake_peer_reply(http_replay.origin, &request, words("6T 45 MID TOKEN", "/31"));
    fake_net_run(0);
    fake_stream_expect(socket, "01 45 aa ff 31");
    http_stop();
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
    fprintf(tokens, "other:%s%048d\n", "6f746865726f6e65", 0);
    assert_int_equal(fclose(tokens), 0);
    const char *settings[] = {"http.tokens-file=test_http_tokens.tmp",
                              "policy.clients=none",
                              "policy.ports=any",
                              "access dash.action=allow",
                              "access dash.identity=dash",
                              "access dash.target=coap://192.0.2.5",
                              NULL};
    struct conn_options options = {.transport = TRANSPORT_HTTP, .fd = -1, .connections_max = 8};
    replay_start(&http_replay, settings);
    remove(file);
    assert_true(address_parse(PROXY, strlen(PROXY), 0, &options.bind));
    assert_int_equal(listen_stream(&http_replay.engine->client, &options, NULL), 0);
    http_stream = fake_stream_connect(TRANSPORT_HTTP, "127.0.0.1:40001");
    struct fake_stream *far = fake_stream_connect(TRANSPORT_HTTP, "192.0.2.7:40001");
#define GET_5 "GET /hc/coap://192.0.2.5/x HTTP/1.1\r\n" HOST
    http_send(http_stream, GET_5 "\r\n");
    assert_memory_equal(http_taken(http_stream), "HTTP/1.1 403 ", 13);
    http_send(http_stream, GET_5 "Authorization: Bearer sesihame\r\n\r\n");
    fake_peer_expect(http_replay.origin, words("48 01 MID TOKEN", "11=x"), &request);
    fake_peer_reply(http_replay.origin, &request, words("6T 45 MID TOKEN", "/31"));
    http_expect_in(http_expect_answer(http_stream, 200, "1"),
                   "\r\nCache-Control: private, max-age=60\r\n");
    http_send(http_stream, GET_5 "\r\n"); /* without it the right is gone again */
    assert_memory_equal(http_taken(http_stream), "HTTP/1.1 403 ", 13);
    http_send(http_stream, GET_5 "Authorization: Bearer other\r\n\r\n");
    http_expect_in(http_taken(http_stream), "\r\nWWW-Authenticate: Bearer\r\n");
    http_send(far, GET_5 "Authorization: Bearer sesihame\r\n\r\n");
    assert_memory_equal(http_taken(far), "HTTP/1.1 403 ", 13);
    /* With a client certificate as well, the token says who it is, for its own request alone. */
    fake_stream_identify(http_stream, "dash");
    http_send(http_stream, GET_5 "Authorization: Bearer otherone\r\n\r\n");
    assert_memory_equal(http_taken(http_stream), "HTTP/1.1 403 ", 13);
    http_send(http_stream, GET_5 "Authorization: Bearer nobody\r\n\r\n");
    assert_memory_equal(http_taken(http_stream), "HTTP/1.1 401 ", 13);
    fake_peer_expect_nothing(http_replay.origin);
    http_send(http_stream, GET_5 "\r\n");
    fake_peer_expect(http_replay.origin, words("48 01 MID TOKEN", "11=x"), &request);
    fake_peer_reply(http_replay.origin, &request, words("6T 45 MID TOKEN", "/31"));
    (void)http_expect_answer(http_stream, 200, "1");
    fake_stream_identify(http_stream, "other");
    http_send(http_stream, GET_5 "Authorization: Bearer sesihame\r\n\r\n");
    fake_peer_expect(http_replay.origin, words("48 01 MID TOKEN", "11=x"), &request);
    fake_peer_reply(http_replay.origin, &request, words("6T 45 MID TOKEN", "/31"));
    (void)http_expect_answer(http_stream, 200, "1");
    fake_peer_expect_nothing(http_replay.origin);
    http_stop();
}

/* The refusal that an operator sees last. */
static void expect_refusal(const char *client, const char *word, const char *detail)
{
    char text[ADDRESS_TEXT_MAX];
    const struct refusals *refusals = &http_replay.engine->client.refusals;
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
        {"PUT " TARGET " HTTP/1.1\r\n" HOST "Content-Length: 1073741825\r\n\r\n", "http_413",
         "the body has too many blocks"},
        {"QUERY " TARGET " HTTP/1.1\r\n" HOST "Content-Length: 99999999\r\n\r\n", "http_413",
         "the body is longer than block.body-bytes"},
        {"GET / HTTP/1.1\r\n\r\n\r\n", "http_400", NULL},
    };
    http_start();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char place[32];
        snprintf(place, sizeof(place), "192.0.2.7:5000%zu", i);
        struct fake_stream *one = fake_stream_connect(TRANSPORT_HTTP, place);
        http_send(one, rows[i].request);
        const char *answer = http_taken(one), *why = strstr(answer, "\r\n\r\n");
        char detail[REFUSAL_DETAIL_MAX];
        assert_memory_equal(answer + strlen("HTTP/1.1 "), rows[i].word + strlen("http_"), 3);
        assert_non_null(why);
        snprintf(detail, sizeof(detail), "%.*s", (int)strcspn(why + 4, "\n"), why + 4);
        expect_refusal(place, rows[i].word, detail); /* the same words */
        assert_true(rows[i].detail == NULL || strcmp(rows[i].detail, detail) == 0);
    }
    http_stop();
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
    replay_start(&http_replay, settings);
    assert_true(address_parse(PROXY, strlen(PROXY), 0, &options.bind));
    assert_int_equal(listen_stream(&http_replay.engine->client, &options, NULL), 0);
    struct fake_stream *gone = follow("127.0.0.1:40001", "sesihame");
    fake_peer_expect(http_replay.origin, words("48 01 MID TOKEN", "3=h 6: 11=x"), &registration);
    fake_peer_reply(http_replay.origin, &registration, words("6T 45 MID TOKEN", "6:05 12: /31"));
    struct fake_stream *stays = follow("127.0.0.1:40002", "sesihamf");
    http_expect_in(http_taken(gone), "data: 1\n\n");
    http_expect_in(http_taken(stays), "data: 1\n\n");
    struct fake_stream *socket = fake_stream_connect(TRANSPORT_HTTP, "127.0.0.1:40003");
    http_send(socket, "GET /.well-known/coap HTTP/1.1\r\n" HOST "Upgrade: websocket\r\n"
                      "Connection: Upgrade\r\nAuthorization: Bearer sesihame\r\n\r\n");
    http_expect_in(http_taken(socket), "HTTP/1.1 101 ");
    fake_stream_send(socket, "00 e1");

    replay_reload(&http_replay, settings); /* nothing has changed */
    (void)http_taken(gone);
    (void)http_taken(socket);
    assert_false(fake_stream_is_closed(gone));
    assert_false(fake_stream_is_closed(socket));
    write_tokens("7365736968616d66", "7365736968616d67"); /* the first is replaced */
    replay_reload(&http_replay, settings);
    (void)http_taken(gone);
    (void)http_taken(socket);
    (void)http_taken(stays);
    assert_true(fake_stream_is_closed(gone));
    assert_true(fake_stream_is_closed(socket));
    assert_false(fake_stream_is_closed(stays));
    assert_int_equal(replay_metric(&http_replay, observers), 1);
    fake_peer_reply(http_replay.origin, &registration, words("5T 45 0101 TOKEN", "6:06 12: /32"));
    http_expect_in(http_taken(stays), "data: 2\n\n");

    struct stream_view views[4]; /* an operator sees the identity, and ends what has it */
    assert_int_equal(stream_list(&http_replay.engine->client, 0, views, 4), 1);
    assert_true(is_dash(NULL, views[0].remote, views[0].identity));
    assert_int_equal(stream_close_matching(&http_replay.engine->client, is_dash, NULL, "closed"),
                     1);
    (void)http_taken(stays);
    assert_true(fake_stream_is_closed(stays));
    http_expect_deregistration();
    remove(TOKENS);
    http_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_connection_becomes_a_websocket),
        cmocka_unit_test(test_bearer_tokens_are_identities),
        cmocka_unit_test(test_refusals_are_noted),
        cmocka_unit_test(test_connections_end_with_their_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
