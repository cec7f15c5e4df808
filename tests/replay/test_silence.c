/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How much origin servers are sent that do not respond: RFC 7252 section 4.7, MSG-32. What finds
 * them again, and requests that leave as NON, is in tests/scenario/upstream_type.scn.
 */
#include "replay/replay.h"
#include "replay/words.h"

#include <stdio.h>
#include <string.h>

#define CRI "235:8320816168816178"
#define MIRROR "scheme coap.upstream-type=mirror"

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

/* MSG-32: the average of all that is sent to a silent server, CON or NON, long or short. */
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

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_average_rate_is_probing_rate),
        TEST(test_spacing_of_non_grows_with_its_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
