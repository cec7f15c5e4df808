/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Everything at once: clients on all transports, origin servers on datagrams and sessions,
 * observations, blocks, groups, a cache, coalescing, Echo, routes and reloads, in an order
 * that nobody has thought of. Whoever acts mostly plays by the rules, so that things get
 * far, and sometimes does not. At the end all fall silent, and nothing may be left of it.
 *
 * TEST_SEED repeats a run; CHAOS_STEPS makes it longer.
 */
#include "replay/replay.h"

#include "support/fake_client.h"
#include "support/fake_conn.h"
#include "support/fake_dtls.h"

#include "coap/block.h"
#include "coap/frame.h"
#include "coap/option.h"
#include "ops/inspect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_DEFAULT 30000u
#define CLIENTS 4u
#define STREAMS 4u
#define SESSIONS 2u
#define ORIGINS 3u
#define KEPT 24u /* requests that an origin server remembers */
#define MESSAGE_MAX 3000u
#define EVERY 200u /* steps from one reload to the next */

struct origin_server {
    struct fake_peer *peer;
    struct fake_datagram kept[KEPT];
    unsigned count;
};

static struct chaos {
    struct replay replay;
    uint64_t random;
    uint16_t mid;
    uint32_t observe;
    struct address proxy;
    struct fake_peer *clients[CLIENTS];
    uint8_t echo[CLIENTS][40]; /* what it was challenged with last */
    size_t echo_len[CLIENTS];
    struct fake_datagram last[CLIENTS]; /* that it has sent */
    struct fake_stream *streams[STREAMS];
    struct dtls_session *sessions[SESSIONS];
    struct origin_server origins[ORIGINS];
} chaos;

static uint32_t below(uint32_t limit)
{
    return (uint32_t)test_random_below(&chaos.random, limit);
}

static bool one_in(uint32_t count)
{
    return below(count) == 0;
}

static struct bytes text_bytes(const char *text)
{
    return (struct bytes){(const uint8_t *)text, strlen(text)};
}

/* --- the configuration, which changes ------------------------------------ */

static const char *const common[] = {
    "limits.exchanges=40",
    "limits.clients=16",
    "limits.origins=16",
    "resolve.names=16",
    "limits.datagram-bytes=1280B",
    "limits.dedup-bytes=64KiB",
    "limits.origin-queue=4",
    "limits.exchanges-per-client=12",
    "cache.max-bytes=64KiB",
    "cache.followers=3",
    "block.bodies-bytes=64KiB",
    "block.bodies=16",
    "observe.max=20",
    "observe.targets=12",
    "observe.bytes=64KiB",
    "multicast.enabled=yes",
};

/* What one configuration has and another has not. */
static const char *const choices[][2] = {
    {"policy.clients=any", "policy.clients=192.0.2.0/24"},
    {"policy.ports=any", "policy.ports=1-65535"},
    {"policy.own-host=yes", "policy.own-host=yes"},
    {"policy.require-secure-leg=no", "policy.require-secure-leg=yes"},
    {"policy.echo-exempt=192.0.2.0/26", "policy.echo-exempt=any"},
    {"cache.coalesce=yes", "cache.coalesce=no"},
    {"cache.stale-if-error=1h", "cache.stale-if-error=0s"},
    {"cache.secure-targets=shared", "cache.secure-targets=private"},
    {"block.size=64", "block.size=512"},
    {"block.body-bytes=4KiB", "block.body-bytes=1KiB"},
    {"observe.notifications=con", "observe.notifications=mirror"},
    {"proxy.no-response=forward", "proxy.no-response=proxy"},
    {"proxy.hop-limit=yes", "proxy.hop-limit=no"},
    {"scheme coap.nstart=4", "scheme coap.nstart=1"},
    {"limits.client-rate=0", "limits.client-rate=20"},
    {"limits.address-rate=0", "limits.address-rate=20"},
    {"limits.unverified-rate=0", "limits.unverified-rate=3"},
    {"limits.rejections=1000", "limits.rejections=2"},
    {"proxy.max-token-bytes=64", "proxy.max-token-bytes=8"},
    {"observe.retry=60s", "observe.retry=0s"},
};

/* One of these, or none. */
static const char *const extras[][3] = {
    {NULL},
    {"route parent.target=coap://h/p", "route parent.via=coap://192.0.2.6", NULL},
    {"route parent.target=*://h/p", "route parent.via=coap+tcp://192.0.2.6", NULL},
    {"route never.target=*://g", "route never.via=refuse", NULL},
    {"access not.target=*://h/y", "access not.action=deny", NULL},
    {"access not.target=*://192.0.2.0/29", "access not.action=deny", NULL},
    {"access not.clients=192.0.2.65/32", "access not.action=deny", NULL},
    {"limit one.clients=192.0.2.7/32", "limit one.exchanges=2", NULL},
};

/* Room for common, choices, extras and the end. */
#define SETTINGS (sizeof(common) / sizeof(common[0]) + sizeof(choices) / sizeof(choices[0]) + 4)

static void choose_settings(const char *settings[SETTINGS])
{
    size_t count = 0;
    for (size_t i = 0; i < sizeof(common) / sizeof(common[0]); i++) {
        settings[count++] = common[i];
    }
    for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++) {
        settings[count++] = choices[i][one_in(3) ? 1 : 0];
    }
    const char *const *extra = extras[below(sizeof(extras) / sizeof(extras[0]))];
    for (size_t i = 0; i < 3 && extra[i] != NULL; i++) {
        settings[count++] = extra[i];
    }
    settings[count] = NULL;
}

/* --- requests ------------------------------------------------------------ */

static const char *const targets[] = {
    "coap://h/x",
    "coap://h/x",
    "coap://h/y",
    "coap://g/x",
    "coap://192.0.2.5/x",
    "coap://h/p/z",
    "coap+tcp://h/x",
    "coap+tcp://g/y",
    "coaps://h/x",
    "coaps://h/y",
    "coaps+tcp://h/x",
    "coap+ws://h/x",
    "coap://me/x",
    "coap://nx/x",
    "coap://slow/x",
    "coap://224.0.1.187/x",
    "coap://[2001:db8::5]/x",
    "coap://h/x?a=b",
    "coap+tcp://me/.well-known/core",
};

static uint32_t block_value_of(void)
{
    static const uint32_t numbers[] = {0, 0, 0, 1, 2, 3, 63, 1048575};
    uint32_t szx = one_in(6) ? below(8) : 2 + below(3);
    return numbers[below(8)] << 4 | (one_in(3) ? 8u : 0u) | szx;
}

/* Options of a request, in ascending order; @p client: of which the Echo is known. */
static void add_options(struct message_writer *writer, unsigned client, uint8_t code)
{
    static const uint8_t one = 1, tag[2] = {7, 7};
    uint32_t mask = below(1u << 12) & below(1u << 12) & below(1u << 12); /* few of many */
    const char *target =
        targets[one_in(3) ? below(sizeof(targets) / sizeof(targets[0])) : below(4)];
    bool is_group = strstr(target, "224.") != NULL;
    bool is_observing = (code == CODE_GET || code == CODE_FETCH) && one_in(3);
    if (mask & 1) {
        message_writer_option(writer, OPTION_if_match, (struct bytes){tag, 1});
    }
    if (is_group != one_in(30)) {
        message_writer_option_uint(writer, OPTION_multicast_timeout, below(4) * 10);
    }
    if (mask & 2) {
        message_writer_option(writer, OPTION_etag, (struct bytes){tag, 1 + below(2)});
    }
    if (is_observing) {
        message_writer_option_uint(writer, OPTION_observe, one_in(4) ? 1 : 0);
    }
    if ((mask & 4) && one_in(6)) {
        message_writer_option(writer, OPTION_oscore, (struct bytes){tag, 2});
    }
    if (mask & 8) {
        message_writer_option_uint(writer, OPTION_hop_limit, one_in(4) ? 1 : 2 + below(9));
    }
    if (mask & 16) {
        message_writer_option_uint(writer, OPTION_accept, below(2) * 40);
    }
    if (mask & 32) {
        message_writer_option_uint(writer, OPTION_block2, block_value_of());
    }
    if ((mask & 64) && code != CODE_GET) {
        message_writer_option_uint(writer, OPTION_block1, block_value_of());
    }
    if (!one_in(25)) {
        message_writer_option(writer, OPTION_proxy_uri, text_bytes(target));
    }
    if ((mask & 64) && one_in(2)) {
        message_writer_option_uint(writer, OPTION_size1, below(3000));
    }
    if (client < CLIENTS && chaos.echo_len[client] > 0 && one_in(2)) {
        message_writer_option(writer, OPTION_echo,
                              (struct bytes){chaos.echo[client], chaos.echo_len[client]});
    }
    if (mask & 128) {
        message_writer_option_uint(writer, OPTION_no_response, one_in(3) ? 26 : 2u << below(4));
    }
    if (mask & 256) {
        message_writer_option(writer, OPTION_request_tag, (struct bytes){&one, below(2)});
    }
}

static uint8_t method(void)
{
    static const uint8_t codes[] = {CODE_GET, CODE_GET,   CODE_GET,    CODE_GET,
                                    CODE_PUT, CODE_FETCH, CODE_DELETE, CODE_POST};
    return codes[below(8)];
}

/* Mostly of a length that is a block. */
static struct bytes payload(uint8_t code, size_t most)
{
    static const uint16_t lengths[] = {0, 1, 16, 64, 64, 128, 300, 1024, 2500};
    static uint8_t bytes[MESSAGE_MAX];
    size_t len = code == CODE_GET ? 0 : lengths[below(sizeof(lengths) / sizeof(lengths[0]))];
    memset(bytes, (int)('a' + below(3)), sizeof(bytes));
    return (struct bytes){bytes, len < most ? len : most};
}

/* Few tokens, so that they are used again. */
static struct bytes token(void)
{
    static uint8_t bytes[12];
    size_t len = one_in(40) ? 12 : below(3);
    memset(bytes, (int)below(6), sizeof(bytes));
    return (struct bytes){bytes, len};
}

static size_t datagram_request(uint8_t *buffer, size_t capacity, unsigned client)
{
    struct message_writer writer;
    uint8_t code = method();
    uint16_t mid = one_in(12) ? chaos.mid : ++chaos.mid;
    message_writer_init(&writer, buffer, capacity, one_in(4) ? MESSAGE_NON : MESSAGE_CON, code, mid,
                        token());
    add_options(&writer, client, code);
    message_writer_payload(&writer, payload(code, 1100));
    assert_false(writer.overflow);
    return writer.len;
}

static void client_asks(void)
{
    uint8_t buffer[MESSAGE_MAX];
    unsigned which = below(CLIENTS);
    struct fake_datagram *last = &chaos.last[which];
    if (!one_in(8) || last->len == 0) {
        last->len = datagram_request(buffer, sizeof(buffer), which);
        assert_true(last->len <= sizeof(last->data));
        memcpy(last->data, buffer, last->len);
    }
    fake_peer_send_bytes(chaos.clients[which], &chaos.proxy, last->data, last->len);
}

static void note_echo(unsigned client, const struct message *message)
{
    struct bytes echo;
    if (option_find(message->options, OPTION_echo, &echo) && echo.len <= sizeof(chaos.echo[0])) {
        memcpy(chaos.echo[client], echo.data, echo.len);
        chaos.echo_len[client] = echo.len;
    }
}

static void to_client(void *context, struct fake_peer *peer, const struct fake_datagram *datagram)
{
    struct message message;
    (void)context;
    assert_int_equal(message_decode(datagram->data, datagram->len, &message), MESSAGE_OK);
    for (unsigned i = 0; i < CLIENTS; i++) {
        if (chaos.clients[i] == peer) {
            note_echo(i, &message);
        }
    }
    if (message.code == CODE_EMPTY || message.type == MESSAGE_ACK) {
        return;
    }
    assert_true(message_is_response(&message));
    switch (below(8)) {
    case 0:
        fake_peer_reply(peer, datagram, "70 00 MID");
        break;
    case 1:
        break;
    case 2:
        fake_peer_reject(peer, datagram, ECONNREFUSED);
        break;
    default:
        if (message.type == MESSAGE_CON) {
            fake_peer_reply(peer, datagram, "60 00 MID");
        }
        break;
    }
}

/* --- clients on connections and sessions --------------------------------- */

static void send_hex(void (*send)(void *to, const char *hex), void *to, const uint8_t *data,
                     size_t len)
{
    static char hex[2 * MESSAGE_MAX + 1];
    for (size_t i = 0; i < len; i++) {
        (void)snprintf(hex + 2 * i, 3, "%02x", data[i]);
    }
    hex[2 * len] = '\0';
    send(to, hex);
}

static void on_stream(void *to, const char *hex)
{
    fake_stream_send(to, hex);
}

static void on_session(void *to, const char *hex)
{
    fake_dtls_send(to, hex);
}

static bool is_ws(unsigned which)
{
    return which % 2 == 1;
}

static struct bytes stream_message(struct message_writer *writer, uint8_t *buffer, unsigned which)
{
    struct bytes own = token();
    uint8_t code = method();
    frame_writer_init(writer, buffer, MESSAGE_MAX, own);
    if (one_in(10)) {
        code = (uint8_t)(CODE_CSM + below(4)); /* Abort would be the end of it */
        if (code == CODE_CSM && one_in(2)) {
            message_writer_option_uint(writer, 2, one_in(2) ? below(200) : 5000);
        }
        if (one_in(3)) {
            message_writer_option(writer, code == CODE_PING ? 2 : 4, (struct bytes){0});
        }
    } else if (one_in(30)) {
        code = CODE(2, 5);
    } else {
        add_options(writer, CLIENTS, code);
    }
    message_writer_payload(writer, payload(code, 2600));
    return frame_finish(writer, code, own, is_ws(which));
}

static void open_stream_again(unsigned which)
{
    static unsigned opened;
    char from[32];
    (void)snprintf(from, sizeof(from), "192.0.2.%u:%u", one_in(2) ? 7u : 65u,
                   1024 + opened++ % 60000);
    chaos.streams[which] = fake_stream_connect(is_ws(which) ? CONN_WS : CONN_TCP, from);
    if (chaos.streams[which] != NULL && !one_in(20)) {
        /* A CSM with blocks and, half the time, long messages. */
        bool is_long = one_in(2);
        fake_stream_send(chaos.streams[which], is_ws(which)
                                                   ? (is_long ? "00 e1 22 2000 20" : "00 e1")
                                               : is_long ? "40 e1 22 2000 20"
                                                         : "00 e1");
    }
}

static void stream_acts(void)
{
    uint8_t buffer[MESSAGE_MAX];
    struct message_writer writer;
    unsigned which = below(STREAMS);
    struct fake_stream *stream = chaos.streams[which];
    if (stream == NULL || fake_stream_is_closed(stream)) {
        open_stream_again(which);
        return;
    }
    fake_stream_forget(stream);
    switch (below(24)) {
    case 0:
        fake_stream_close(stream);
        break;
    case 1:
        (void)fake_stream_idle(stream);
        break;
    case 2:
        fake_stream_stop_reading(stream, one_in(3));
        break;
    default: {
        struct bytes frame = stream_message(&writer, buffer, which);
        send_hex(on_stream, stream, frame.data, frame.len);
        break;
    }
    }
}

static void session_acts(void)
{
    uint8_t buffer[MESSAGE_MAX];
    size_t len;
    unsigned which = below(SESSIONS);
    struct dtls_session **session = &chaos.sessions[which];
    if (*session == NULL || !fake_dtls_is_open(*session)) {
        *session = fake_dtls_open(which == 0 ? "192.0.2.7:50001" : "192.0.2.65:50002");
        if (one_in(2)) {
            fake_dtls_identify(*session, which == 0 ? "alice" : "bob", NULL);
        }
        return;
    }
    while (fake_dtls_take(*session, buffer, sizeof(buffer), &len)) {
        struct message message;
        assert_int_equal(message_decode(buffer, len, &message), MESSAGE_OK);
        if (message.type == MESSAGE_CON && message.code != CODE_EMPTY && !one_in(4)) {
            uint8_t empty[4] = {one_in(8) ? 0x70 : 0x60, 0, buffer[2], buffer[3]};
            send_hex(on_session, *session, empty, sizeof(empty));
            if (!fake_dtls_is_open(*session)) {
                return;
            }
        }
    }
    if (one_in(12)) {
        fake_dtls_close(*session);
    } else if (one_in(20)) {
        *session = fake_dtls_replace(*session);
    } else {
        len = datagram_request(buffer, sizeof(buffer), CLIENTS);
        send_hex(on_session, *session, buffer, len);
    }
}

/* --- origin servers ------------------------------------------------------ */

/* A good answer to a request for, or with, a block; otherwise any. */
static uint8_t add_answer(struct message_writer *writer, struct bytes options, uint8_t asked)
{
    static const uint8_t codes[] = {CODE(2, 5),  CODE(2, 5), CODE(2, 5), CODE(2, 5),  CODE(2, 4),
                                    CODE(2, 3),  CODE(2, 1), CODE(2, 2), CODE(4, 4),  CODE(4, 8),
                                    CODE(4, 13), CODE(5, 3), CODE(5, 8), CODE(2, 31), CODE(4, 29)};
    static const uint32_t ages[] = {0, 1, 5, 60, 100000, UINT32_MAX};
    static const uint8_t tag[2] = {7, 7};
    struct bytes block1 = {0}, block2 = {0}, observe = {0};
    bool is_good = !one_in(3), is_piece = false;
    uint8_t code = is_good ? (asked == CODE_GET || asked == CODE_FETCH ? CODE(2, 5) : CODE(2, 4))
                           : codes[below(sizeof(codes))];
    bool has_block1 = option_find(options, OPTION_block1, &block1);
    bool has_block2 = option_find(options, OPTION_block2, &block2);
    bool has_observe = option_find(options, OPTION_observe, &observe);
    struct block block = has_block2 ? block_of(block2) : (struct block){.szx = (uint8_t)below(5)};
    size_t len = below(120);
    if (has_block1 && is_good && block_of(block1).more) {
        code = CODE(2, 31);
    } else if (has_block2 || one_in(6)) {
        is_piece = block.szx < 6 && block.num < 16;
        block.more = block.num < 3 + below(2);
    }
    if (code == CODE(2, 3) || one_in(2)) {
        message_writer_option(writer, OPTION_etag, (struct bytes){tag, one_in(12) ? 2 : 1});
    }
    if (has_observe && observe.len == 0 && !one_in(6)) {
        chaos.observe += one_in(20) ? 0x7ffff0 : below(3);
        message_writer_option_uint(writer, OPTION_observe, chaos.observe & 0xffffff);
    }
    if (code == CODE(2, 1)) {
        message_writer_option(writer, OPTION_location_path, text_bytes("y"));
    }
    if (one_in(20)) {
        message_writer_option_uint(writer, OPTION_content_format, 40);
    }
    if (one_in(2)) {
        message_writer_option_uint(writer, OPTION_max_age, ages[below(6)]);
    }
    if (is_piece) {
        message_writer_option_uint(writer, OPTION_block2, block_value(&block));
    }
    if (has_block1) {
        message_writer_option(writer, OPTION_block1, block1);
    }
    if (one_in(30)) {
        message_writer_option(writer, OPTION_echo, (struct bytes){tag, 2});
    }
    if (is_piece) {
        len = block.more ? (size_t)16 << block.szx : below(16u << block.szx);
    } else if (one_in(8)) {
        len = 200 + below(900);
    }
    uint8_t body[2048];
    memset(body, 'A', sizeof(body));
    message_writer_payload(writer, (struct bytes){body, code == CODE(2, 3) ? 0 : len});
    return code;
}

static void answer(struct origin_server *origin, const struct fake_datagram *request)
{
    static const enum message_type types[] = {MESSAGE_ACK, MESSAGE_ACK, MESSAGE_CON, MESSAGE_NON};
    uint8_t buffer[MESSAGE_MAX];
    struct message message;
    struct message_writer writer;
    enum message_type type = types[below(4)];
    bool is_old = fake_net_now_ms() > request->at_ms + 3000;
    type = is_old && type == MESSAGE_ACK ? MESSAGE_CON : type;
    assert_int_equal(message_decode(request->data, request->len, &message), MESSAGE_OK);
    uint16_t mid = type == MESSAGE_ACK || one_in(20) ? message.mid : ++chaos.mid;
    message_writer_init(&writer, buffer, sizeof(buffer), type, 0, mid, message.token);
    buffer[1] = add_answer(&writer, message.options, message.code);
    assert_false(writer.overflow);
    fake_peer_send_bytes(origin->peer, &request->from, buffer, writer.len);
}

static void origin_acts(void)
{
    struct origin_server *origin = &chaos.origins[one_in(4) ? below(ORIGINS) : 0];
    unsigned kept = origin->count < KEPT ? origin->count : KEPT;
    if (kept == 0) {
        return;
    }
    /* Mostly the newest. */
    unsigned back = one_in(3) ? 0 : below(kept);
    const struct fake_datagram *request = &origin->kept[(origin->count - 1 - back) % KEPT];
    switch (below(16)) {
    case 0:
        fake_peer_reply(origin->peer, request, "60 00 MID");
        break;
    case 1:
        fake_peer_reply(origin->peer, request, "70 00 MID");
        break;
    case 2:
        if (!address_is_multicast(&request->to)) {
            fake_peer_reject(origin->peer, request, one_in(2) ? ECONNREFUSED : EHOSTUNREACH);
        }
        break;
    case 3:
        fake_peer_reply(origin->peer, request, "4T 01 MID TOKEN b1 61"); /* a request */
        break;
    default:
        answer(origin, request);
        break;
    }
}

static void to_origin(void *context, struct fake_peer *peer, const struct fake_datagram *datagram)
{
    struct origin_server *origin = context;
    struct message message;
    (void)peer;
    assert_int_equal(message_decode(datagram->data, datagram->len, &message), MESSAGE_OK);
    if (message_is_request(&message)) {
        assert_int_equal(message.token.len, EXCHANGE_TOKEN_LEN);
        origin->kept[origin->count++ % KEPT] = *datagram;
    }
}

/* On a session: one of the requests that are out is answered, or fails. */
static void session_origin_acts(void)
{
    static const enum upstream_status failures[] = {
        UPSTREAM_REFUSED, UPSTREAM_CLOSED,      UPSTREAM_TIMEOUT,         UPSTREAM_RESET,
        UPSTREAM_FULL,    UPSTREAM_BACKING_OFF, UPSTREAM_CONNECT_TIMEOUT, UPSTREAM_NO_MEMORY};
    const uint8_t *bytes;
    size_t len;
    uint8_t buffer[MESSAGE_MAX];
    struct message message = {0};
    struct message_writer writer = {.buffer = buffer, .capacity = sizeof(buffer), .len = 1};
    if (!fake_client_pick(below(1000), &bytes, &len)) {
        return;
    }
    if (one_in(8)) {
        fake_client_fail(failures[below(8)], one_in(2), one_in(2) ? "why" : NULL);
        return;
    }
    assert_true(message_decode_content(bytes + 1, len - 1, &message));
    buffer[0] = add_answer(&writer, message.options, bytes[0]);
    if (writer.len < 2000) {
        fake_client_answer_bytes(buffer, writer.len);
    }
}

/* --- the world ----------------------------------------------------------- */

static bool flush_some(void *context, const struct target *target, uint32_t scheme)
{
    (void)context;
    (void)target;
    return scheme == 0 && one_in(2);
}

static void list_all(void)
{
    static inspect_fn *const lists[] = {inspect_sessions,  inspect_origins,      inspect_upstreams,
                                        inspect_exchanges, inspect_observations, inspect_cache};
    static char text[1 << 18];
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        uint64_t cursor = 0;
        struct json_writer out;
        json_writer_init(&out, text, sizeof(text));
        (void)lists[i](chaos.replay.engine, "", &cursor, &out);
    }
}

static void on_trace(void *context, uint64_t id, const struct trace_view *view)
{
    (void)context;
    (void)id;
    for (size_t i = 0; i < view->text_len; i++) { /* nothing that a terminal acts on */
        assert_true(view->text[i] == '\n' || (view->text[i] >= ' ' && view->text[i] <= '~'));
    }
}

static void reload_any(void)
{
    const char *settings[SETTINGS];
    choose_settings(settings);
    replay_reload(&chaos.replay, settings);
}

static void world_acts(void)
{
    static const struct trace_tap tap = {.id = 1, .emit = on_trace};
    struct fake_link link = {0};
    switch (below(16)) {
    case 0:
        link = (struct fake_link){.loss_percent = 20, .delay_max_ms = 50};
        break;
    case 1:
        link =
            (struct fake_link){.delay_max_ms = 500, .reorder_percent = 30, .duplicate_percent = 30};
        break;
    case 2:
        fake_net_name("g", below(3000), RESOLVE_OK, "192.0.2.6 192.0.2.5");
        return;
    case 3:
        fake_net_name("g", 10, RESOLVE_TRY_AGAIN, "");
        return;
    case 4:
        (void)cache_flush(&chaos.replay.engine->cache, flush_some, NULL);
        return;
    case 5:
        fake_net_name("h", below(100), RESOLVE_OK, one_in(2) ? "192.0.2.5" : "192.0.2.6");
        return;
    case 6:
        fake_net_refuse("192.0.2.6:5683", one_in(2) ? ECONNREFUSED : 0);
        return;
    case 7:
        trace_remove_tap(chaos.replay.engine, 1);
        return;
    case 8:
        trace_remove_tap(chaos.replay.engine, 1);
        assert_int_equal(trace_add_tap(chaos.replay.engine, &tap), 0);
        return;
    default:
        list_all();
        break;
    }
    fake_net_set_link(&link);
}

static void pass_time(void)
{
    static const uint32_t pauses_ms[] = {1,     2,      10,     50,     100,    249,   250,   251,
                                         1000,  2000,   2500,   3000,   5000,   15000, 45000, 62000,
                                         93000, 100000, 145000, 247000, 300000, 700000};
    uint32_t most = one_in(30) ? sizeof(pauses_ms) / sizeof(pauses_ms[0]) : one_in(4) ? 12 : 5;
    if (one_in(2)) {
        fake_net_run(pauses_ms[below(most)]);
    }
}

static void step(void)
{
    switch (below(16)) {
    case 0:
    case 1:
    case 2:
    case 3:
        client_asks();
        break;
    case 4:
    case 5:
        stream_acts();
        break;
    case 6:
    case 7:
        session_acts();
        break;
    case 8:
    case 9:
        session_origin_acts();
        break;
    case 10:
        if (one_in(4)) {
            world_acts();
        }
        break;
    default:
        origin_acts();
        break;
    }
    pass_time();
}

/* --- the whole ----------------------------------------------------------- */

static void listen_all(void)
{
    struct conn_options options = {.kind = CONN_TCP, .fd = -1, .connections_max = 100};
    struct dtls_options dtls = {.sessions_max = 100, .handshakes_max = 100};
    struct engine *engine = chaos.replay.engine;
    chaos.proxy = *udp_local(engine->listeners[0].socket);
    options.bind = chaos.proxy;
    assert_int_equal(engine_listen_stream(engine, &options, NULL), 0);
    options.kind = CONN_WS;
    assert_int_equal(engine_listen_stream(engine, &options, NULL), 0);
    assert_true(address_parse("192.0.2.9:5684", 14, 0, &dtls.udp.bind));
    dtls.udp.fd = -1;
    assert_int_equal(engine_listen_dtls(engine, &dtls, NULL), 0);
}

static void make_parties(void)
{
    static const char *const clients[CLIENTS] = {"192.0.2.7:40001", "192.0.2.8:40001",
                                                 "192.0.2.65:40001", "192.0.2.65:40002"};
    static const char *const origins[ORIGINS] = {"192.0.2.5:5683", "192.0.2.6:5683",
                                                 "[2001:db8::5]:5683"};
    for (unsigned i = 0; i < CLIENTS; i++) {
        chaos.clients[i] = i == 0 ? chaos.replay.client : fake_peer_new(clients[i]);
        fake_peer_on_datagram(chaos.clients[i], to_client, NULL);
    }
    for (unsigned i = 0; i < ORIGINS; i++) {
        chaos.origins[i].peer = i == 0 ? chaos.replay.origin : fake_peer_new(origins[i]);
        fake_peer_on_datagram(chaos.origins[i].peer, to_origin, &chaos.origins[i]);
    }
    fake_peer_on_datagram(fake_peer_new("224.0.1.187:5683"), to_origin, &chaos.origins[0]);
    fake_net_name("g", 0, RESOLVE_OK, "192.0.2.6 192.0.2.5");
    fake_net_name("me", 0, RESOLVE_OK, "192.0.2.9");
    fake_net_name("slow", 8000, RESOLVE_OK, "192.0.2.5");
}

static void fall_silent(void)
{
    static const struct fake_link whole = {0};
    fake_net_set_link(&whole);
    for (unsigned i = 0; i < STREAMS; i++) {
        if (chaos.streams[i] != NULL && !fake_stream_is_closed(chaos.streams[i])) {
            fake_stream_close(chaos.streams[i]);
        }
    }
    for (unsigned i = 0; i < SESSIONS; i++) {
        if (chaos.sessions[i] != NULL && fake_dtls_is_open(chaos.sessions[i])) {
            fake_dtls_close(chaos.sessions[i]);
        }
    }
    fake_net_run(1000000);
    engine_drain(chaos.replay.engine); /* observations that nobody has ended */
    fake_net_run(1000000);
}

/* Where it has got to: what never happens here is not tested here. */
static void print_reached(void)
{
    for (unsigned i = 0; i < REASON_COUNT; i++) {
        uint64_t count = replay_ended(&chaos.replay, (enum reason)i);
        if (count > 0) {
            print_message("%s=%llu ", reason_row((enum reason)i)->name, (unsigned long long)count);
        }
    }
    print_message("\n  hits=%llu coalesced=%llu transfers=%llu notified=%llu observers_lost=%llu\n",
                  (unsigned long long)replay_metric(&chaos.replay, cache_hits),
                  (unsigned long long)replay_metric(&chaos.replay, requests_coalesced),
                  (unsigned long long)replay_metric(&chaos.replay, transfers),
                  (unsigned long long)replay_metric(&chaos.replay, notifications_sent),
                  (unsigned long long)replay_metric(&chaos.replay, observers_lost));
}

static void run(unsigned steps)
{
    const char *settings[SETTINGS];
    choose_settings(settings);
    replay_start(&chaos.replay, settings);
    listen_all();
    make_parties();
    for (unsigned i = 0; i < steps; i++) {
        step();
        if (i % EVERY == EVERY - 1) {
            reload_any();
        }
    }
    fall_silent();
    print_reached();
    replay_stop(&chaos.replay);
    fake_streams_free();
    fake_dtls_free();
}

static void test_chaos(void **state)
{
    const char *steps = getenv("CHAOS_STEPS");
    uint64_t seed = test_seed();
    (void)state;
    for (unsigned left = steps != NULL ? (unsigned)strtoul(steps, NULL, 10) : STEPS_DEFAULT;
         left > 0;) {
        unsigned count = left < 3000 ? left : 3000;
        memset(&chaos, 0, sizeof(chaos));
        chaos.random = seed++;
        run(count);
        left -= count;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_chaos)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
