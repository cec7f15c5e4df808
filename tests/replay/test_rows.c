/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rows of an engine's lists word for word: what an operator is shown of clients, origin
 * servers, requests, observations, refusals, shares and the cache, and what closing and
 * flushing do. How lists are made in pieces is in test_inspect.c.
 */
#include "replay/replay.h"
#include "replay/words.h"

#include "engine/inspect.h"

#include <stdio.h>
#include <string.h>

#define CRI "235:8320816168816178" /* coap://h/x */

#define ROW_BYTES 350

static char listed[1 << 16];

/* The whole list, read with a buffer of @p capacity bytes. */
static const char *list_with(struct replay *replay, inspect_fn *inspect, const char *argument,
                             size_t capacity)
{
    uint64_t cursor = 0;
    size_t len = 0;
    for (bool is_all = false; !is_all;) {
        struct json_writer out;
        assert_true(capacity < sizeof(listed) - len);
        json_writer_init(&out, listed + len, capacity);
        is_all = inspect(replay->engine, argument, &cursor, &out);
        len += out.len;
    }
    listed[len] = '\0';
    return listed;
}

static const char *list(struct replay *replay, inspect_fn *inspect, const char *argument)
{
    return list_with(replay, inspect, argument, 1 << 15);
}

/* Listed whole, and with a buffer that holds hardly more than one row. */
static void assert_list(struct replay *replay, inspect_fn *inspect, const char *argument,
                        const char *rows)
{
    assert_string_equal(list(replay, inspect, argument), rows);
    assert_string_equal(list_with(replay, inspect, argument, ROW_BYTES), rows);
}

/* The client asks, the origin server answers. */
static void ask_and_answer(struct replay *replay, const char *head, const char *options,
                           const char *answer)
{
    struct fake_datagram request;
    replay_ask(replay, words(head, options));
    fake_peer_expect(replay->origin, "...", &request);
    fake_peer_reply(replay->origin, &request, answer);
    fake_net_run(1);
}

#define CLIENT(address, in_flight, requests, idle_s)                                               \
    "{\"worker\":0,\"scheme\":\"coap\",\"client\":\"" address                                      \
    "\",\"state\":\"open\",\"in_flight\":" in_flight ",\"requests\":" requests                     \
    ",\"idle_s\":" idle_s "}\n"

static void test_clients(void **state)
{
    struct replay replay;
    (void)state;
    replay_start(&replay, NULL);
    ask_and_answer(&replay, "41 01 0001 a1", CRI, "6T 45 MID TOKEN ff 31");
    replay_ask(&replay, words("51 01 0002 a2", CRI));
    fake_net_run(5000); /* one repetition: after 2 to 3 s, the next 4 to 6 s later */
    assert_list(&replay, inspect_sessions, "", CLIENT("192.0.2.7:40001", "1", "2", "5"));
    assert_list(&replay, inspect_origins, "",
                "{\"worker\":0,\"origin\":\"192.0.2.5:5683\",\"transport\":\"udp\","
                "\"in_flight\":1,\"outstanding\":1,\"window\":2,\"rtt_ms\":1,\"queue\":0,"
                "\"requests\":2,\"answers\":1,\"resent\":1,\"idle_s\":5}\n");
    assert_list(&replay, inspect_exchanges, "",
                "{\"exchange\":2,\"state\":\"sent\",\"client\":\"192.0.2.7:40001\","
                "\"target\":\"coap://h/x\",\"origin\":\"192.0.2.5:5683\","
                "\"retransmissions\":1,\"ms\":5000}\n");
    fake_net_run(300000);
    assert_list(&replay, inspect_sessions, "", CLIENT("192.0.2.7:40001", "0", "2", "305"));
    assert_list(&replay, inspect_origins, "",
                "{\"worker\":0,\"origin\":\"192.0.2.5:5683\",\"transport\":\"udp\","
                "\"in_flight\":0,\"outstanding\":0,\"window\":1,\"rtt_ms\":1,\"queue\":0,"
                "\"requests\":2,\"answers\":1,\"resent\":4,\"idle_s\":305}\n");
    assert_list(&replay, inspect_exchanges, "", "");
    replay_stop(&replay);
}

static void test_requests(void **state)
{
    struct replay replay;
    (void)state;
    replay_start(&replay, NULL);
    fake_net_name("slow", 9000, RESOLVE_OK, "192.0.2.5");
    replay_ask(&replay, words("51 01 0001 a1", "35=coap://slow/temp"));
    fake_net_run(1500);
    assert_list(&replay, inspect_exchanges, "",
                "{\"exchange\":1,\"state\":\"resolving\",\"client\":\"192.0.2.7:40001\","
                "\"target\":\"coap://slow/temp\",\"retransmissions\":0,\"ms\":1500}\n");
    fake_net_run(8500);
    assert_list(&replay, inspect_exchanges, "",
                "{\"exchange\":1,\"state\":\"sent\",\"client\":\"192.0.2.7:40001\","
                "\"target\":\"coap://slow/temp\",\"origin\":\"192.0.2.5:5683\","
                "\"retransmissions\":0,\"ms\":10000}\n");
    fake_net_run(300000);
    replay_stop(&replay);
}

static void test_observations(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    replay_start(&replay, NULL);
    replay_ask(&replay, words("41 01 0001 a1", "6: " CRI));
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 6: 11=x"), &request);
    assert_list(&replay, inspect_observations, "",
                "{\"target\":\"coap://h/x\",\"state\":\"registering\",\"observers\":0}\n");
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "6:01 14:1e /313233"));
    fake_net_run(11000);
    assert_list(&replay, inspect_observations, "",
                "{\"target\":\"coap://h/x\",\"state\":\"observing\",\"observers\":1,\"states\":1,"
                "\"bytes\":3,\"age_s\":11,\"max_age_s\":30}\n");
    assert_list(&replay, inspect_exchanges, "",
                "{\"exchange\":2,\"state\":\"observing\",\"client\":\"-\","
                "\"target\":\"coap://h/x\",\"origin\":\"192.0.2.5:5683\","
                "\"retransmissions\":0,\"ms\":11000}\n");
    replay_ask(&replay, words("41 01 0003 a1", "6:01 " CRI)); /* observes no longer */
    fake_net_run(0);
    assert_list(&replay, inspect_observations, "",
                "{\"target\":\"coap://h/x\",\"state\":\"cancelling\",\"observers\":0,\"states\":1,"
                "\"bytes\":3,\"age_s\":11,\"max_age_s\":30}\n");
    fake_net_run(300000);
    assert_list(&replay, inspect_observations, "", "");
    replay_stop(&replay);
}

/* --- refusals ------------------------------------------------------------ */

/* The rows of criproxyctl why without their times, the first of which goes to @p ret_time_s. */
static const char *why(struct replay *replay, const char *argument, size_t capacity,
                       long *ret_time_s)
{
    static char rows[4096];
    size_t len = 0;
    for (const char *line = list_with(replay, inspect_why, argument, capacity); *line != '\0';) {
        int hour, minute, second, past = 0;
        const char *next = strchr(line, '\n') + 1;
        assert_int_equal(sscanf(line, "{\"time\":\"%*d-%*d-%*dT%2d:%2d:%2d.%*6dZ\",%n", &hour,
                                &minute, &second, &past),
                         3);
        assert_true(past > 0);
        if (ret_time_s != NULL && len == 0) {
            *ret_time_s = (hour * 60L + minute) * 60 + second;
        }
        memcpy(rows + len, line + past, (size_t)(next - line - past));
        len += (size_t)(next - line - past);
        line = next;
    }
    rows[len] = '\0';
    return rows;
}

#define REFUSED(client, what, reason, count)                                                       \
    "\"client\":\"" client "\",\"what\":\"" what "\",\"reason\":\"" reason "\",\"count\":" count   \
    "}\n"
#define OF_SECOND_PORT REFUSED("192.0.2.7:40002", "request", "target_host", "1")
#define OF_STRANGER REFUSED("198.51.100.1:40001", "policy", "policy.clients", "1")
#define OF_FIRST_PORT REFUSED("192.0.2.7:40001", "request", "name_unresolvable", "1")
#define OF_OTHER_HOST REFUSED("192.0.2.8:40001", "request", "name_unresolvable", "2")

static void test_refusals(void **state)
{
    static const char *const settings[] = {"policy.clients=192.0.2.0/24", NULL};
    struct replay replay;
    long earlier = 0, later = 0;
    (void)state;
    replay_start(&replay, settings);
    struct fake_peer *second = fake_peer_new("192.0.2.7:40002");
    struct fake_peer *other = fake_peer_new("192.0.2.8:40001");
    struct fake_peer *stranger = fake_peer_new("198.51.100.1:40001");
    replay_ask(&replay, words("51 01 0001 a1", "35=coap://nowhere/x"));
    fake_peer_send(second, PROXY, words("51 01 0002 a2", "35=coap://127.3/x"));
    fake_peer_send(other, PROXY, words("51 01 0003 a3", "35=coap://nowhere/x"));
    fake_peer_send(other, PROXY, words("51 01 0004 a4", "35=coap://nowhere/y"));
    fake_peer_send(stranger, PROXY, words("51 01 0005 a5", "35=coap://h/y"));
    fake_net_run(0);
    assert_string_equal(why(&replay, "", 1 << 15, &later),
                        OF_SECOND_PORT OF_STRANGER OF_FIRST_PORT OF_OTHER_HOST);
    assert_string_equal(why(&replay, "", 250, NULL),
                        OF_SECOND_PORT OF_STRANGER OF_FIRST_PORT OF_OTHER_HOST);
    assert_string_equal(why(&replay, "192.0.2.7", 1 << 15, NULL), OF_SECOND_PORT OF_FIRST_PORT);
    assert_string_equal(why(&replay, "192.0.2.7:40002", 1 << 15, NULL), OF_SECOND_PORT);
    assert_string_equal(why(&replay, "192.0.2.6", 1 << 15, NULL), "");
    fake_net_run(7200 * 1000); /* of virtual time: it happened two hours ago */
    (void)why(&replay, "", 1 << 15, &earlier);
    assert_in_range((later - earlier + 86400) % 86400, 7000, 7201);
    replay_stop(&replay);
}

/* --- shares -------------------------------------------------------------- */

#define SOURCE(source, percent, requests, names, displaced)                                        \
    "{\"worker\":0,\"source\":\"" source "\",\"share_percent\":" percent ",\"requests\":" requests \
    ",\"clients\":0,\"queued\":0,\"waiting_bytes\":0,\"origins\":0,"                               \
    "\"body_bytes\":0,\"transfer_bytes\":0,\"observations\":0,"                                    \
    "\"registrations\":0,\"state_bytes\":0,\"names\":" names                                       \
    ",\"upstreams\":0,\"connections\":0,\"sessions\":0,\"handshakes\":0,\"displaced\":" displaced  \
    "}\n"

/* The share is that of the table it holds most of: a question of ten is more than three requests
 * of forty. Of an IPv6 address the prefix counts. */
static void test_shares(void **state)
{
    static const char *const settings[] = {"limits.exchanges=40", "limits.ipv6-prefix=56",
                                           "resolve.queue=10", NULL};
    static const char ipv6[] = "[2001:db8::9]:5683";
    struct replay replay;
    (void)state;
    replay_start(&replay, settings);
    replay_listen(&replay, 1, ipv6);
    struct fake_peer *second = fake_peer_new("[2001:db8:0:1234::7]:40001");
    struct fake_peer *third = fake_peer_new("192.0.2.8:40001");
    fake_net_name("slow", 9000, RESOLVE_OK, "192.0.2.5");
    replay_ask(&replay, words("51 01 0001 a1", CRI));
    replay_ask(&replay, words("51 01 0002 a2", "35=coap://h/y"));
    fake_peer_send(second, ipv6, words("51 01 0001 b1", "35=coap://h/z"));
    fake_peer_send(second, ipv6, words("51 01 0002 b2", "35=coap://h/w"));
    fake_peer_send(second, ipv6, words("51 01 0003 b3", "35=coap://h/v"));
    fake_peer_send(third, PROXY, words("51 01 0001 c1", "35=coap://slow/w"));
    fake_net_run(1);
    assert_list(&replay, inspect_sources, "",
                SOURCE("192.0.2.8", "10", "1", "1", "0")
                    SOURCE("2001:db8:0:1200::/56", "7", "3", "0", "0")
                        SOURCE("192.0.2.7", "5", "2", "0", "0"));
    fake_net_run(300000);
    assert_list(&replay, inspect_sources, "", "");
    replay_stop(&replay);
}

/* A full table: the largest holder loses its oldest request, and that is counted. */
static void test_displaced(void **state)
{
    static const char *const settings[] = {"limits.exchanges=16", "limits.exchanges-per-client=16",
                                           NULL};
    struct replay replay;
    (void)state;
    replay_start(&replay, settings);
    struct fake_peer *other = fake_peer_new("192.0.2.8:40001");
    for (unsigned i = 0; i < 16; i++) {
        char head[32];
        snprintf(head, sizeof(head), "51 01 %04x %02x", i, i);
        replay_ask(&replay, words(head, CRI));
    }
    fake_peer_send(other, PROXY, words("51 01 0001 b1", CRI));
    fake_net_run(1);
    assert_list(&replay, inspect_sources, "",
                SOURCE("192.0.2.7", "93", "15", "0", "1") SOURCE("192.0.2.8", "6", "1", "0", "0"));
    fake_net_run(300000);
    replay_stop(&replay);
}

#define HELD(source, percent, requests, clients, queued, origins, displaced)                       \
    "{\"worker\":0,\"source\":\"" source "\",\"share_percent\":" percent ",\"requests\":" requests \
    ",\"clients\":" clients ",\"queued\":" queued ",\"waiting_bytes\":0,\"origins\":" origins      \
    ",\"body_bytes\":0,\"transfer_bytes\":0,\"observations\":0,"                                   \
    "\"registrations\":0,\"state_bytes\":0,\"names\":0"                                            \
    ",\"upstreams\":0,\"connections\":0,\"sessions\":0,\"handshakes\":0,\"displaced\":" displaced  \
    "}\n"

/* @p count requests of the client of replay_ask(), for as many origin servers. */
static void ask_others(struct replay *replay, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        char head[32], target[64];
        snprintf(head, sizeof(head), "51 01 %04x %02x", i, i);
        snprintf(target, sizeof(target), "35=coap://203.0.113.%u/x", i + 1);
        replay_ask(replay, words(head, target));
    }
}

/* Tables whose books are kept only while they are full: the origin servers that one source has. */
static void test_displaced_origins(void **state)
{
    static const char *const settings[] = {"limits.origins=16", NULL};
    struct replay replay;
    (void)state;
    replay_start(&replay, settings);
    struct fake_peer *other = fake_peer_new("192.0.2.8:40001");
    ask_others(&replay, 16);
    fake_net_run(1);
    assert_list(&replay, inspect_sources, "", HELD("192.0.2.7", "0", "16", "0", "0", "0", "0"));
    fake_peer_send(other, PROXY, words("51 01 0001 b1", CRI));
    fake_net_run(1);
    assert_list(&replay, inspect_sources, "",
                HELD("192.0.2.7", "93", "15", "0", "0", "15", "1")
                    HELD("192.0.2.8", "6", "1", "0", "0", "1", "0"));
    fake_net_run(300000);
    assert_list(&replay, inspect_sources, "", "");
    replay_stop(&replay);
}

/* The same of a queue, which has its book until it is half empty. */
static void test_displaced_in_a_queue(void **state)
{
    static const char *const settings[] = {"limits.origin-queue=4", "scheme coap.nstart=1",
                                           "scheme coap.nstart-max=1", NULL};
    struct replay replay;
    (void)state;
    replay_start(&replay, settings);
    struct fake_peer *other = fake_peer_new("192.0.2.8:40001");
    for (unsigned i = 0; i < 5; i++) {
        char head[32];
        snprintf(head, sizeof(head), "51 01 %04x %02x", i, i);
        replay_ask(&replay, words(head, CRI));
    }
    fake_net_run(1);
    assert_list(&replay, inspect_sources, "", HELD("192.0.2.7", "0", "5", "0", "0", "0", "0"));
    fake_peer_send(other, PROXY, words("51 01 0001 b1", CRI));
    fake_net_run(1);
    assert_list(&replay, inspect_sources, "",
                HELD("192.0.2.7", "60", "4", "0", "3", "0", "1")
                    HELD("192.0.2.8", "20", "1", "0", "1", "0", "0"));
    fake_net_run(300000);
    assert_list(&replay, inspect_sources, "", "");
    replay_stop(&replay);
}

/* And of the table of clients, which has its book until as many have come as there are slots. */
static void test_displaced_clients(void **state)
{
    static const char *const settings[] = {"limits.clients=16", "scheme coap.nstart=64", NULL};
    struct replay replay;
    char address[32];
    (void)state;
    replay_start(&replay, settings);
    for (unsigned i = 0; i < 17; i++) {
        snprintf(address, sizeof(address), "192.0.2.%u:%u", i < 16 ? 7 : 8, 50000 + i);
        fake_peer_send(fake_peer_new(address), PROXY, words("51 01 0001 b1", CRI));
        fake_net_run(1);
    }
    assert_list(&replay, inspect_sources, "",
                HELD("192.0.2.7", "93", "15", "15", "0", "0", "1")
                    HELD("192.0.2.8", "6", "1", "1", "0", "0", "0"));
    fake_net_run(300000);
    for (unsigned i = 0; i < 16; i++) { /* there is room for all of these */
        snprintf(address, sizeof(address), "192.0.2.9:%u", 50000 + i);
        fake_peer_send(fake_peer_new(address), PROXY, words("51 01 0001 b1", CRI));
        fake_net_run(300000);
    }
    assert_list(&replay, inspect_sources, "", "");
    replay_stop(&replay);
}

/* --- the cache ----------------------------------------------------------- */

#define ENTRY(target, state, bytes, max_age, etag)                                                 \
    "{\"target\":\"" target "\",\"state\":\"" state "\",\"bytes\":" bytes                          \
    ",\"age_s\":20,\"max_age_s\":" max_age ",\"etag\":" etag "}\n"
#define OF_NAME_X ENTRY("coap://h/x", "stale", "2", "10", "true")
#define OF_NAME_Y ENTRY("coap://h/y", "fresh", "4", "60", "false")
#define OF_ADDRESS ENTRY("coap://192.0.2.5:5683/z", "fresh", "1", "60", "false")

static void test_cached(void **state)
{
    static const char *const settings[] = {"cache.max-bytes=1MiB", NULL};
    static const char *const capped[] = {"cache.max-bytes=1MiB", "cache.max-age=15s", NULL};
    struct replay replay;
    (void)state;
    replay_start(&replay, settings);
    ask_and_answer(&replay, "51 01 0001 a1", CRI, words("6T 45 MID TOKEN", "4:e1 14:0a /3132"));
    ask_and_answer(&replay, "51 01 0002 a2", "35=coap://h/y",
                   words("6T 45 MID TOKEN", "/31323334"));
    ask_and_answer(&replay, "51 01 0003 a3", "35=coap://192.0.2.5/z",
                   words("6T 45 MID TOKEN", "/31"));
    fake_net_run(20000);
    assert_list(&replay, inspect_cache, "*://*", OF_NAME_X OF_NAME_Y OF_ADDRESS);
    assert_list(&replay, inspect_cache, "*://h", OF_NAME_X OF_NAME_Y);
    assert_list(&replay, inspect_cache, "coaps://*", "");
    replay_reload(&replay, capped);
    assert_list(&replay, inspect_cache, "*://192.0.2.5",
                ENTRY("coap://192.0.2.5:5683/z", "stale", "1", "60", "false"));
    replay_reload(&replay, settings);
    assert_string_equal(list(&replay, inspect_cache_flush, "*://h"), "{\"flushed\":2}\n");
    assert_list(&replay, inspect_cache, "*://*", OF_ADDRESS);
    assert_string_equal(list(&replay, inspect_cache_flush, "*://h"), "{\"flushed\":0}\n");
    fake_net_run(300000);
    replay_stop(&replay);
}

/* --- the configuration --------------------------------------------------- */

static void test_config(void **state)
{
    static const char *const settings[] = {
        "cache.max-bytes=1MiB",     "route a.target=*://*.example",  "route a.via=refuse",
        "upstream.psk-identity=us", "upstream.psk-key=736563726574", NULL};
    struct replay replay;
    static char whole[1 << 16];
    (void)state;
    replay_start(&replay, settings);
    const char *rows = list(&replay, inspect_config, "cache");
    assert_non_null(strstr(rows, "{\"section\":\"cache\",\"key\":\"max-bytes\","
                                 "\"value\":\"1MiB\",\"default\":false}\n"));
    assert_non_null(strstr(rows, "\"key\":\"max-age\",\"value\":\"24h\",\"default\":true}\n"));
    assert_null(strstr(rows, "\"section\":\"upstream\""));
    rows = list(&replay, inspect_config, "upstream");
    assert_non_null(strstr(rows, "\"key\":\"psk-identity\",\"value\":\"us\",\"default\":false}"));
    assert_non_null(strstr(rows, "\"key\":\"psk-key\",\"value\":\"(hidden)\",\"default\":false}"));
    assert_non_null(strstr(rows, "\"key\":\"psk-key-file\",\"value\":\"\",\"default\":true}"));
    assert_list(&replay, inspect_config, "route",
                "{\"section\":\"route a\",\"key\":\"target\",\"value\":\"*://*.example\","
                "\"default\":false}\n"
                "{\"section\":\"route a\",\"key\":\"via\",\"value\":\"refuse\","
                "\"default\":false}\n"
                "{\"section\":\"route a\",\"key\":\"form\",\"value\":\"proxy-cri\","
                "\"default\":true}\n"
                "{\"section\":\"route a\",\"key\":\"speed\",\"value\":\"1\","
                "\"default\":true}\n");
    assert_true(snprintf(whole, sizeof(whole), "%s", list(&replay, inspect_config, "")) > 0);
    assert_non_null(strstr(whole, "{\"section\":\"cache\""));
    assert_non_null(strstr(whole, "{\"section\":\"route a\""));
    assert_null(strstr(whole, "736563726574"));
    assert_string_equal(list_with(&replay, inspect_config, "", ROW_BYTES), whole);
    replay_stop(&replay);
}

/* --- closing ------------------------------------------------------------- */

#define ENDED(count) "{\"worker\":0,\"ended\":" count "}\n"

/* Over UDP there is no identity; an address without a port means all of its ports. */
static void test_closing(void **state)
{
    struct replay replay;
    (void)state;
    replay_start(&replay, NULL);
    struct fake_peer *second = fake_peer_new("192.0.2.7:40002");
    struct fake_peer *other = fake_peer_new("192.0.2.8:40001");
    replay_ask(&replay, words("51 01 0001 a1", CRI));
    fake_peer_send(second, PROXY, words("51 01 0001 a1", CRI));
    fake_peer_send(other, PROXY, words("51 01 0001 a1", CRI));
    fake_net_run(1);
    assert_string_equal(list(&replay, inspect_close, "identity=psk:alice"), ENDED("0"));
    assert_string_equal(list(&replay, inspect_close, "192.0.2.9"), ENDED("0"));
    assert_string_equal(list(&replay, inspect_close, "192.0.2.7:40002"), ENDED("1"));
    assert_list(&replay, inspect_sessions, "",
                CLIENT("192.0.2.7:40001", "1", "1", "0") CLIENT("192.0.2.8:40001", "1", "1", "0"));
    fake_peer_send(second, PROXY, words("51 01 0002 a2", CRI));
    fake_net_run(1);
    assert_string_equal(list(&replay, inspect_close, "192.0.2.7"), ENDED("2"));
    assert_list(&replay, inspect_sessions, "", CLIENT("192.0.2.8:40001", "1", "1", "0"));
    assert_list(&replay, inspect_exchanges, "",
                "{\"exchange\":3,\"state\":\"sent\",\"client\":\"192.0.2.8:40001\","
                "\"target\":\"coap://h/x\",\"origin\":\"192.0.2.5:5683\","
                "\"retransmissions\":0,\"ms\":2}\n");
    fake_net_run(300000);
    replay_stop(&replay);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clients),
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_observations),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_displaced),
        cmocka_unit_test(test_displaced_origins),
        cmocka_unit_test(test_displaced_in_a_queue),
        cmocka_unit_test(test_displaced_clients),
        cmocka_unit_test(test_cached),
        cmocka_unit_test(test_config),
        cmocka_unit_test(test_closing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
