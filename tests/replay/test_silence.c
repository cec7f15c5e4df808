/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Origin servers that do not respond: RFC 7252 section 4.7, MSG-32; and requests that leave as
 * NON, MSG-37.
 */
#include "replay/replay.h"
#include "replay/words.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define CRI "235:8320816168816178"
#define MIRROR "scheme coap.upstream-type=mirror"
#define NON_UPSTREAM words("58 01 MID TOKEN", "3=h 11=x")
#define CON_UPSTREAM words("48 01 MID TOKEN", "3=h 11=x")

static struct replay replay;

static void start(const char *const *settings)
{
    replay_start(&replay, settings);
}

static void stop(void)
{
    fake_net_run(300000);
    replay_stop(&replay);
}

static void acknowledge(void *context, struct fake_peer *peer, const struct fake_datagram *datagram)
{
    (void)context;
    if (datagram->len > 1 && (datagram->data[0] & 0x30) == 0 && datagram->data[1] != 0) {
        fake_peer_reply(peer, datagram, "60 00 MID");
    }
}

/* --- what it is sent ----------------------------------------------------- */

#define HEADER_LEN 4u
#define TOKENS_MAX 1024u

/* By when it is known to be silent: 3 * ACK_TIMEOUT * ACK_RANDOM_FACTOR. */
#define LATE_MS 9000u

/* What came to the origin server in a while. */
struct heard {
    uint64_t start_ms, bytes, requests, datagrams, pings;
    uint64_t first_ms, last_ms; /* of the first and last request */
    unsigned rate;              /* 0: not checked */
    uint8_t tokens[TOKENS_MAX][FETCH_TOKEN_LEN];
};

static bool is_new(struct heard *heard, const struct fake_datagram *datagram)
{
    const uint8_t *token = datagram->data + HEADER_LEN;
    for (uint64_t i = 0; i < heard->requests; i++) {
        if (memcmp(heard->tokens[i], token, FETCH_TOKEN_LEN) == 0) {
            return false;
        }
    }
    assert_true(heard->requests < TOKENS_MAX);
    memcpy(heard->tokens[heard->requests++], token, FETCH_TOKEN_LEN);
    return true;
}

/* All that was sent before has to have its time, when another request leaves. */
static void check_debt(const struct heard *heard)
{
    uint64_t elapsed_ms = fake_net_now_ms() - heard->start_ms;
    if (heard->rate > 0 && elapsed_ms > LATE_MS) {
        assert_true(heard->bytes * 1000 <= elapsed_ms * heard->rate);
    }
}

static void hear(struct heard *heard)
{
    struct fake_datagram datagram;
    while (fake_peer_take(replay.origin, &datagram)) {
        if (datagram.len == HEADER_LEN) {
            heard->pings++;
        } else if (is_new(heard, &datagram)) {
            check_debt(heard);
            heard->first_ms = heard->requests == 1 ? fake_net_now_ms() : heard->first_ms;
            heard->last_ms = fake_net_now_ms();
        }
        heard->datagrams++;
        heard->bytes += datagram.len;
    }
}

/* One request a second, each of a payload of @p payload bytes, for so long. */
static void ask_for(const char *type, unsigned payload, uint64_t seconds, struct heard *heard)
{
    char head[32], options[64];
    heard->start_ms = fake_net_now_ms();
    fake_peer_on_datagram(replay.client, acknowledge, NULL);
    for (uint64_t i = 0; i < seconds; i++) {
        snprintf(head, sizeof(head), "%s 02 %04x %04x", type, (unsigned)i & 0xffff,
                 (unsigned)i & 0xffff);
        snprintf(options, sizeof(options), payload > 0 ? CRI " /#%u" : CRI, payload);
        replay_ask(&replay, words(head, options));
        fake_net_run(1000);
        hear(heard);
    }
}

/* MSG-32: the average of all that is sent to who does not respond, CON or NON, long or short. */
static void check_rate(const char *const *settings, const char *type, unsigned payload,
                       unsigned rate, uint64_t seconds)
{
    struct heard heard = {.rate = rate};
    start(settings);
    ask_for(type, payload, seconds, &heard);
    print_message("%s, %u bytes: %u requests, %u pings, %.2f bytes/s\n", type, payload,
                  (unsigned)heard.requests, (unsigned)heard.pings,
                  (double)heard.bytes / (double)seconds);
    /* The last requests' bytes are still to be made up for: five times each for CON. */
    assert_true(heard.bytes <= rate * seconds + UINT64_C(5) * (payload + 24));
    assert_true(heard.requests >= 5);
    stop();
}

static void test_average_rate_is_probing_rate(void **state)
{
    static const char *const mirror[] = {MIRROR, "limits.origin-queue=4", NULL};
    static const char *const con[] = {"limits.origin-queue=4", NULL};
    static const char *const fast[] = {MIRROR, "scheme coap.probing-rate=20", NULL};
    (void)state;
    check_rate(mirror, "52", 0, 1, 2000);
    check_rate(mirror, "52", 100, 1, 4000);
    check_rate(mirror, "52", 600, 1, 10000);
    check_rate(con, "42", 0, 1, 4000);
    check_rate(con, "42", 100, 1, 8000);
    check_rate(con, "42", 600, 1, 32000);
    check_rate(fast, "52", 600, 20, 1000);
}

/* MSG-32 row by row: NON to a dead peer, where twice the size is twice the time. */
static void test_spacing_of_non_grows_with_its_size(void **state)
{
    static const char *const settings[] = {MIRROR, "limits.origin-queue=1", NULL};
    static const unsigned payloads[] = {50, 100, 200, 400};
    uint64_t last = UINT64_MAX;
    (void)state;
    for (size_t i = 0; i < sizeof(payloads) / sizeof(payloads[0]); i++) {
        struct heard heard = {0};
        start(settings);
        ask_for("52", payloads[i], 200, &heard); /* what its first seconds have cost */
        memset(&heard, 0, sizeof(heard));
        ask_for("52", payloads[i], 24 * 2 * (payloads[i] + 24), &heard);
        assert_true(heard.requests >= 8);
        uint64_t spacing_ms = (heard.last_ms - heard.first_ms) / (heard.requests - 1);
        print_message("%u bytes: one in %u s\n", payloads[i], (unsigned)(spacing_ms / 1000));
        assert_true(spacing_ms >= payloads[i] * UINT64_C(1000));
        assert_true(i == 0 || spacing_ms > last);
        last = spacing_ms;
        stop();
    }
}

/* --- when it is there again ---------------------------------------------- */

/* It is silent, and has been sent more than it may: the next one waits. */
static void make_silent(void)
{
    struct heard heard = {0};
    ask_for("42", 600, 100, &heard);
    fake_net_run(100000);
    hear(&heard);
    fake_peer_on_datagram(replay.client, NULL, NULL);
    assert_int_equal(engine_in_flight(replay.engine), 0);
}

/* Who was restarted is found by a Ping at once, long before it may be sent a request again. */
static void test_restarted_origin_is_asked_at_once(void **state)
{
    struct fake_datagram request;
    (void)state;
    start(NULL);
    make_silent();
    replay_ask(&replay, words("41 01 7001 aa", CRI));
    fake_peer_expect(replay.origin, "40 00 MID", &request);
    fake_peer_expect_nothing(replay.origin);
    fake_peer_reply(replay.origin, &request, "70 00 MID");
    fake_peer_expect(replay.origin, CON_UPSTREAM, &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN ff 31");
    fake_peer_expect(replay.client, "61 45 7001 aa ff 31", NULL);
    /* And all others at once, as it responds. */
    replay_ask(&replay, words("41 01 7002 ab", CRI));
    replay_ask(&replay, words("41 01 7003 ac", CRI));
    fake_peer_expect(replay.origin, CON_UPSTREAM, NULL);
    fake_peer_expect(replay.origin, CON_UPSTREAM, NULL);
    stop();
}

/* It comes back while a request waits: the next Ping finds it, and a lost one is no harm. */
static void test_waiting_request_is_sent_after_a_later_ping(void **state)
{
    struct fake_datagram request;
    (void)state;
    start(NULL);
    make_silent();
    replay_ask(&replay, words("51 01 7001 aa", CRI));
    fake_peer_expect(replay.origin, "40 00 MID", NULL);
    fake_peer_expect_nothing_within(replay.origin, 7999);
    fake_peer_expect_within(replay.origin, 1, "40 00 MID", &request); /* half of the rate */
    fake_peer_reply(replay.origin, &request, "70 00 MID");
    fake_peer_expect(replay.origin, CON_UPSTREAM, &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN ff 31");
    fake_peer_expect(replay.client, "51 45 MID aa ff 31", NULL);
    stop();
}

/* Only its own answer counts: another message id, another port, another address do not. */
static void test_only_an_answer_to_the_ping_counts(void **state)
{
    struct fake_datagram ping;
    (void)state;
    start(NULL);
    struct fake_peer *other = fake_peer_new("192.0.2.6:5683");
    make_silent();
    replay_ask(&replay, words("51 01 7001 aa", CRI));
    fake_peer_expect(replay.origin, "40 00 MID", &ping);
    fake_peer_reply(other, &ping, "70 00 MID");
    ping.data[3] ^= 1;
    fake_peer_reply(replay.origin, &ping, "70 00 MID");
    fake_peer_reply(replay.origin, &ping, "60 00 MID");
    fake_peer_expect_nothing(replay.origin);
    /* The request waits as long as the queue's time, and is told why it was not sent. */
    fake_peer_expect_nothing_within(replay.client, 29999);
    fake_peer_expect_within(replay.client, 1, "51 a3 MID aa ...", NULL);
    assert_true(replay_ended(&replay, REASON_origin_backing_off) > 0);
    assert_true(replay_metric(&replay, upstream_pings) >= 4);
    stop();
}

/* Its host is there, the server is not: who waits is told so. */
static void test_icmp_error_for_a_ping(void **state)
{
    struct fake_datagram ping, request;
    (void)state;
    start(NULL);
    make_silent();
    replay_ask(&replay, words("51 01 7001 aa", CRI));
    fake_peer_expect(replay.origin, "40 00 MID", &ping);
    fake_peer_reject(replay.origin, &ping, ECONNREFUSED);
    fake_peer_expect(replay.origin, CON_UPSTREAM, &request);
    fake_peer_reject(replay.origin, &request, ECONNREFUSED);
    fake_peer_expect(replay.client, "51 a2 MID aa ...", NULL);
    stop();
}

/* With no queue: what it may not be sent is refused at once, and it is probed all the same. */
static void test_without_a_queue(void **state)
{
    static const char *const settings[] = {"limits.origin-queue=0", NULL};
    struct fake_datagram ping;
    (void)state;
    start(settings);
    make_silent();
    replay_ask(&replay, words("51 01 7001 aa", CRI));
    fake_peer_expect(replay.client, "51 a3 MID aa ...", NULL);
    fake_peer_expect(replay.origin, "40 00 MID", &ping);
    fake_peer_reply(replay.origin, &ping, "70 00 MID");
    replay_ask(&replay, words("51 01 7002 ab", CRI));
    fake_peer_expect(replay.origin, CON_UPSTREAM, NULL);
    stop();
}

/* --- upstream-type (MSG-37) ---------------------------------------------- */

/* The default: CON whatever the client used. */
static void test_con_is_the_default(void **state)
{
    struct fake_datagram request;
    (void)state;
    start(NULL);
    replay_ask(&replay, words("51 01 0001 aa", CRI));
    fake_peer_expect(replay.origin, CON_UPSTREAM, &request);
    fake_peer_expect_within(replay.origin, 3000, CON_UPSTREAM, &request); /* sent again */
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN ff 31");
    fake_peer_expect(replay.client, "51 45 MID aa ff 31", NULL);
    stop();
}

/* With mirror: NON for NON, CON for CON; any type of answer, matched by the token. */
static void test_mirror(void **state)
{
    static const char *const settings[] = {MIRROR, NULL};
    struct fake_datagram request;
    (void)state;
    start(settings);
    replay_ask(&replay, words("51 01 0001 aa", CRI));
    fake_peer_expect(replay.origin, NON_UPSTREAM, &request);
    fake_peer_reply(replay.origin, &request, "5T 45 7001 TOKEN ff 31");
    fake_peer_expect(replay.client, "51 45 MID aa ff 31", NULL);
    replay_ask(&replay, words("51 01 0002 ab", CRI));
    fake_peer_expect(replay.origin, NON_UPSTREAM, &request);
    fake_peer_reply(replay.origin, &request, "4T 45 7002 TOKEN ff 32");
    fake_peer_expect(replay.origin, "60 00 7002", NULL);
    fake_peer_expect(replay.client, "51 45 MID ab ff 32", NULL);
    replay_ask(&replay, words("41 01 0003 ac", CRI));
    fake_peer_expect(replay.origin, CON_UPSTREAM, &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN ff 33");
    fake_peer_expect(replay.client, "61 45 0003 ac ff 33", NULL);
    stop();
}

/* Never sent again; a late answer is good until the request's time is over, then 5.04. */
static void test_non_is_never_sent_again(void **state)
{
    static const char *const settings[] = {MIRROR, NULL};
    struct fake_datagram request;
    (void)state;
    start(settings);
    replay_ask(&replay, words("51 01 0001 aa", CRI));
    fake_peer_expect(replay.origin, NON_UPSTREAM, &request);
    fake_peer_expect_nothing_within(replay.origin, 60000);
    fake_peer_reply(replay.origin, &request, "5T 45 7001 TOKEN ff 31");
    fake_peer_expect(replay.client, "51 45 MID aa ff 31", NULL);
    replay_ask(&replay, words("51 01 0002 ab", CRI));
    fake_peer_expect(replay.origin, NON_UPSTREAM, &request);
    fake_peer_expect_nothing_within(replay.client, 94999);
    fake_peer_expect_within(replay.client, 1, "51 a4 MID ab ...", NULL);
    assert_int_equal(replay_ended(&replay, REASON_origin_timeout), 1);
    assert_int_equal(replay_metric(&replay, upstream_retransmitted), 0);
    stop();
}

/* Nor is an answer good for longer than NON_LIFETIME (RFC 7252 section 4.8.2). */
static void test_non_lifetime_is_the_end(void **state)
{
    static const char *const settings[] = {MIRROR, "proxy.request-timeout=10min", NULL};
    (void)state;
    start(settings);
    replay_ask(&replay, words("51 01 0001 aa", CRI));
    fake_peer_expect(replay.origin, NON_UPSTREAM, NULL);
    fake_peer_expect_nothing_within(replay.client, 144999);
    fake_peer_expect_within(replay.client, 1, "51 a4 MID aa ...", NULL);
    stop();
}

static void test_reset_and_icmp_error(void **state)
{
    static const char *const settings[] = {MIRROR, NULL};
    struct fake_datagram request;
    (void)state;
    start(settings);
    replay_ask(&replay, words("51 01 0001 aa", CRI));
    fake_peer_expect(replay.origin, NON_UPSTREAM, &request);
    fake_peer_reply(replay.origin, &request, "70 00 MID");
    fake_peer_expect(replay.client, "51 a2 MID aa ...", NULL);
    replay_ask(&replay, words("51 01 0002 ab", CRI));
    fake_peer_expect(replay.origin, NON_UPSTREAM, &request);
    fake_net_run(5000); /* overdue */
    fake_peer_reject(replay.origin, &request, ECONNREFUSED);
    fake_peer_expect(replay.client, "51 a2 MID ab ...", NULL);
    stop();
}

/* A place in the window is taken until an answer is overdue, and lost ones close it. */
static void test_non_counts_in_the_window(void **state)
{
    static const char *const settings[] = {MIRROR, "scheme coap.nstart=2", NULL};
    (void)state;
    start(settings);
    replay_ask(&replay, words("51 01 0001 a1", CRI));
    replay_ask(&replay, words("51 01 0002 a2", CRI));
    replay_ask(&replay, words("51 01 0003 a3", CRI));
    fake_peer_expect(replay.origin, NON_UPSTREAM, NULL);
    fake_peer_expect(replay.origin, NON_UPSTREAM, NULL);
    fake_peer_expect_nothing_within(replay.origin, 1999);
    fake_peer_expect_within(replay.origin, 1001, NON_UPSTREAM, NULL);
    assert_int_equal(replay_metric(&replay, upstream_losses), 1);
    stop();
}

/* What leaves as NON may be lost: a CON request does not wait for it, a NON one does. */
static void test_con_does_not_follow_non(void **state)
{
    static const char *const settings[] = {MIRROR, "cache.coalesce=yes", NULL};
    struct fake_datagram non, con;
    (void)state;
    start(settings);
    replay_ask(&replay, words("51 01 0001 a1", CRI));
    fake_peer_expect(replay.origin, NON_UPSTREAM, &non);
    replay_ask(&replay, words("51 01 0002 a2", CRI));
    fake_peer_expect_nothing(replay.origin);
    replay_ask(&replay, words("41 01 0003 a3", CRI));
    fake_peer_expect(replay.origin, CON_UPSTREAM, &con);
    replay_ask(&replay, words("41 01 0004 a4", CRI)); /* follows the CON */
    fake_peer_expect_nothing(replay.origin);
    fake_peer_reply(replay.origin, &con, "6T 45 MID TOKEN ff 33");
    fake_peer_expect(replay.client, "61 45 000? a? ff 33", NULL);
    fake_peer_expect(replay.client, "61 45 000? a? ff 33", NULL);
    fake_peer_reply(replay.origin, &non, "5T 45 7001 TOKEN ff 31");
    fake_peer_expect(replay.client, "51 45 MID a? ff 31", NULL);
    fake_peer_expect(replay.client, "51 45 MID a? ff 31", NULL);
    stop();
}

/* Who asks again because nothing came has it sent again. */
static void test_overdue_non_has_no_new_followers(void **state)
{
    static const char *const settings[] = {MIRROR, "cache.coalesce=yes", NULL};
    struct fake_datagram request;
    (void)state;
    start(settings);
    replay_ask(&replay, words("51 01 0001 a1", CRI));
    fake_peer_expect(replay.origin, NON_UPSTREAM, NULL);
    fake_net_run(3000);
    replay_ask(&replay, words("51 01 0002 a2", CRI));
    fake_peer_expect(replay.origin, NON_UPSTREAM, &request);
    fake_peer_reply(replay.origin, &request, "5T 45 7001 TOKEN ff 31");
    fake_peer_expect(replay.client, "51 45 MID a2 ff 31", NULL);
    stop();
}

/* A registration is the proxy's own request: CON, whatever the first client used. */
static void test_registration_is_con(void **state)
{
    static const char *const settings[] = {MIRROR, NULL};
    struct fake_datagram request;
    (void)state;
    start(settings);
    replay_ask(&replay, words("51 01 0001 aa", "6: " CRI));
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 6: 11=x"), &request);
    fake_peer_reply(replay.origin, &request, words("6T 84 MID TOKEN", ""));
    fake_peer_expect(replay.client, "51 84 MID aa", NULL);
    stop();
}

/* RFC 7967: what need not be answered may stay unanswered as NON, too. */
static void test_no_response(void **state)
{
    static const char *const settings[] = {MIRROR, "proxy.no-response=forward", NULL};
    (void)state;
    start(settings);
    replay_ask(&replay, words("51 02 0001 aa", CRI " 258:1a"));
    fake_peer_expect(replay.origin, words("58 02 MID TOKEN", "3=h 11=x 258:1a"), NULL);
    fake_net_run(100000);
    assert_int_equal(replay_ended(&replay, REASON_unanswered), 1);
    stop();
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_average_rate_is_probing_rate),
        TEST(test_spacing_of_non_grows_with_its_size),
        TEST(test_restarted_origin_is_asked_at_once),
        TEST(test_waiting_request_is_sent_after_a_later_ping),
        TEST(test_only_an_answer_to_the_ping_counts),
        TEST(test_icmp_error_for_a_ping),
        TEST(test_without_a_queue),
        TEST(test_con_is_the_default),
        TEST(test_mirror),
        TEST(test_non_is_never_sent_again),
        TEST(test_non_lifetime_is_the_end),
        TEST(test_reset_and_icmp_error),
        TEST(test_non_counts_in_the_window),
        TEST(test_con_does_not_follow_non),
        TEST(test_overdue_non_has_no_new_followers),
        TEST(test_registration_is_con),
        TEST(test_no_response),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
