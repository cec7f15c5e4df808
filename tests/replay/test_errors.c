/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How requests end when they do not end well: ERR of the conformance list. Every
 * row of reasons.def that can occur is brought about by some test here; the last
 * test tells which were not.
 */
#include "replay/replay.h"
#include "replay/words.h"

#include "coap/option.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define CRI "235:8320816168816178"
#define UPSTREAM words("48 01 MID TOKEN", "3=h 11=x")
#define FOREVER_MS 1000000000u

/* How often each reason came up, over all tests. */
static uint64_t seen[REASON_COUNT];

static void start(struct replay *replay, const char *setting)
{
    replay_start(replay, (const char *[]){setting, NULL});
}

/* A request ends for exactly one reason. */
static void stop(struct replay *replay)
{
    uint64_t ended = 0;
    fake_net_run(300000);
    for (unsigned i = 0; i < REASON_COUNT; i++) {
        seen[i] += replay_ended(replay, (enum reason)i);
        ended += replay_ended(replay, (enum reason)i);
    }
    assert_int_equal(ended, replay_metric(replay, requests));
    replay_stop(replay);
}

/* The next answer to @p at: its code; Max-Age and a diagnostic as ERR-20 wants them. */
static void expect_error(struct fake_peer *at, unsigned class, unsigned detail, uint64_t within_ms)
{
    struct fake_datagram answer;
    struct message message;
    struct option_iter iter;
    struct option option;
    uint32_t max_age = 60; /* implied */
    fake_peer_expect_within(at, within_ms, "...", &answer);
    assert_int_equal(message_decode(answer.data, answer.len, &message), MESSAGE_OK);
    assert_int_equal(CODE_CLASS(message.code) * 100 + CODE_DETAIL(message.code),
                     class * 100 + detail);
    option_iter_init(&iter, message.options);
    while (option_iter_next(&iter, &option)) {
        /* No Content-Format, nothing else. */
        bool is_size = option.number == OPTION_size1 && class == 4 && detail == 13; /* ERR-16 */
        assert_true(is_size || option.number == OPTION_max_age);
        max_age = is_size ? max_age : option_uint(option.value);
    }
    assert_in_range(message.payload.len, 1, 128);
    bool is_passing = class == 5 && detail >= 2 && detail <= 4;
    if (is_passing) {
        assert_in_range(max_age, 1, 10);
    } else if (class == 4 && detail == 29) {
        assert_in_range(max_age, 1, 59); /* RATE-2 */
    }
    if (message.type == MESSAGE_CON) {
        fake_peer_reply(at, &answer, "60 00 MID");
    }
}

/* --- refused at once ---------------------------------------------------- */

static const struct {
    enum reason reason;
    unsigned class, detail;
    unsigned method;
    const char *options;
    const char *setting;
} refusals[] = {
    {REASON_option_malformed, 4, 2, 1, "235:", NULL},
    {REASON_option_unknown, 4, 2, 1, "67:01 " CRI, NULL},
    {REASON_proxy_scheme_twice, 4, 2, 1, "3=h 39=coap 239:", NULL},
    {REASON_forms_mixed, 4, 2, 1, "3=h " CRI, "proxy.strict=yes"},
    {REASON_cri_malformed, 4, 2, 1,
     "235:8220816168"
     "00",
     NULL},
    {REASON_cri_invalid, 4, 2, 1, "235:82208163612e62", NULL},
    {REASON_cri_not_full, 4, 2, 1, "235:82f5816178", NULL},
    {REASON_cri_fragment, 4, 2, 1, "235:852081616880806166", NULL},
    {REASON_target_userinfo, 4, 2, 1, "235:822083f461756168", NULL},
    {REASON_target_no_host, 4, 2, 1, "235:8120", NULL},
    {REASON_target_host, 4, 2, 1, "3=a%2eb 239:", NULL},
    {REASON_target_path, 4, 2, 1, "3=h 11=.. 239:", NULL},
    {REASON_target_query, 4, 2, 1, "3=h 15:ff 239:", NULL},
    {REASON_uri_malformed, 4, 2, 1, "35=//h/x", NULL},
    {REASON_scheme_malformed, 4, 2, 1, "3=h 39=1x", NULL},
    {REASON_hop_limit_invalid, 4, 0, 1, "16:00 " CRI, NULL},
    {REASON_hop_limit_reached, 5, 8, 1, "16:01 " CRI, NULL},
    {REASON_method_unknown, 4, 5, 8, CRI, NULL},
    {REASON_method_unknown, 4, 5, 31, CRI, NULL},
    {REASON_local_not_found, 4, 4, 1, "11=x", NULL},
    {REASON_local_method, 4, 5, 3, "11=.well-known 11=core", NULL},
    {REASON_scheme_unsupported, 5, 5, 1, "35=foo://h", NULL},
    {REASON_scheme_unsupported, 5, 5, 1, "3=h 239:05", NULL},
    {REASON_cri_pet, 5, 5, 1, "235:832081616881836161413b6162", NULL},
    {REASON_cri_scheme_name, 5, 5, 1, "235:8264636f6170816168", NULL},
    {REASON_cri_too_long, 5, 5, 1,
     "35=coap://aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
     NULL},
    {REASON_zone_unknown, 5, 5, 1, "235:82208250fe8000000000000000000000000000016465746830", NULL},
    {REASON_port_zero, 5, 5, 1, "35=coap://h:0", NULL},
    {REASON_multicast, 5, 1, 1, "235:82208144e00001bb", NULL},
    {REASON_target_refused, 5, 5, 1, "35=coap://0.0.0.0", NULL},
};

/* ERR-1, ERR-2, ERR-3, ERR-14 */
static void test_refused_at_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        struct replay replay;
        char head[32];
        print_message("    %s\n", reason_row(refusals[i].reason)->name);
        start(&replay, refusals[i].setting);
        snprintf(head, sizeof(head), "41 %02x 0001 aa", refusals[i].method);
        replay_ask(&replay, words(head, refusals[i].options));
        expect_error(replay.client, refusals[i].class, refusals[i].detail, 0);
        assert_int_equal(replay_ended(&replay, refusals[i].reason), 1);
        fake_peer_expect_nothing(replay.origin);
        stop(&replay);
    }
}

/* MSG-4 */
static void test_token_too_long(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    char head[4096] = "4d 01 0001 33 ", longer[4096] = "4e 01 0002 001f ";
    (void)state;
    for (unsigned i = 0; i < 64; i++) {
        memcpy(head + strlen(head), "aa", 3);
    }
    for (unsigned i = 0; i < 300; i++) {
        memcpy(longer + strlen(longer), "bb", 3);
    }
    start(&replay, NULL);
    replay_ask(&replay, words(head, CRI));
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    fake_peer_expect(replay.client, "6d 45 0001 TOKEN", NULL);
    replay_ask(&replay, words(longer, CRI));
    fake_peer_expect(replay.client, "6e 80 0002 TOKEN ...", NULL);
    assert_int_equal(replay_ended(&replay, REASON_token_too_long), 1);
    stop(&replay);
}

/* --- names -------------------------------------------------------------- */

/* ERR-4, ERR-5 */
static void test_names_that_do_not_resolve(void **state)
{
    static const struct {
        const char *id, *addresses;
        enum resolve_status status;
        uint64_t delay_ms;
        unsigned detail;
        enum reason reason;
    } rows[] = {
        {"no such name", "", RESOLVE_NOT_FOUND, 5, 2, REASON_name_unresolvable},
        {"no address", "", RESOLVE_OK, 5, 2, REASON_name_unresolvable},
        {"the resolver failed", "", RESOLVE_FAILED, 5, 2, REASON_name_unresolvable},
        {"the resolver timed out", "", RESOLVE_TRY_AGAIN, 10000, 4, REASON_name_timeout},
        {"the resolver is silent", "", RESOLVE_OK, FOREVER_MS, 4, REASON_name_timeout},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct replay replay;
        print_message("    %s\n", rows[i].id);
        start(&replay, NULL);
        fake_net_name("nx", rows[i].delay_ms, rows[i].status, rows[i].addresses);
        replay_ask(&replay, words("51 01 0001 aa", "35=coap://nx/x"));
        expect_error(replay.client, 5, rows[i].detail, 95000);
        assert_int_equal(replay_ended(&replay, rows[i].reason), 1);
        stop(&replay);
    }
}

/* ERR-15: more names at a time than the resolver takes (16 here). */
static void test_resolver_queue_full(void **state)
{
    struct replay replay;
    char head[32], options[64];
    (void)state;
    start(&replay, NULL);
    for (unsigned i = 0; i < 17; i++) {
        snprintf(options, sizeof(options), "slow%u", i);
        fake_net_name(options, 1000, RESOLVE_NOT_FOUND, "");
        snprintf(head, sizeof(head), "51 01 %04x aa", i);
        snprintf(options, sizeof(options), "35=coap://slow%u/x", i);
        snprintf(head, sizeof(head), "51 01 %04x %02x", i, i);
        replay_ask(&replay, words(head, options));
        fake_net_run(0);
    }
    expect_error(replay.client, 5, 3, 0);
    fake_peer_expect_nothing_within(replay.client, 900);
    assert_int_equal(replay_ended(&replay, REASON_proxy_busy), 1);
    stop(&replay);
}

/* TGT-16, ERR-7: every address is tried, in order; the last failure is told. */
static void test_all_addresses_refuse(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    start(&replay, NULL);
    fake_net_name("n", 0, RESOLVE_OK, "192.0.2.61 224.0.1.187 192.0.2.62 192.0.2.63");
    fake_net_refuse("192.0.2.61:5683", ECONNREFUSED);
    fake_net_refuse("192.0.2.62:5683", EHOSTUNREACH);
    struct fake_peer *third = fake_peer_new("192.0.2.63:5683");
    replay_ask(&replay, words("41 01 0001 aa", "35=coap://n/x"));
    fake_peer_expect(third, words("48 01 MID TOKEN", "3=n 11=x"), &request);
    fake_peer_reject(third, &request, ECONNREFUSED);
    expect_error(replay.client, 5, 2, 0);
    assert_int_equal(replay_ended(&replay, REASON_origin_refused), 1);
    /* The origin server may have acted on it once it said so: no other address then. */
    replay_ask(&replay, words("41 02 0002 aa", "35=coap://n/x"));
    fake_peer_expect(third, words("48 02 MID TOKEN", "3=n 11=x"), &request);
    fake_peer_reply(third, &request, "60 00 MID");
    fake_peer_reject(third, &request, ECONNREFUSED);
    expect_error(replay.client, 5, 2, 0);
    stop(&replay);
}

/* --- origin servers ----------------------------------------------------- */

/* ERR-6, ERR-7, MSG-34, and what the host's own stack says. */
static void test_icmp_errors(void **state)
{
    static const struct {
        int error;
        unsigned class, detail;
        enum reason reason;
    } rows[] = {
        {ECONNREFUSED, 5, 2, REASON_origin_refused}, {EHOSTUNREACH, 5, 2, REASON_no_route},
        {ENETUNREACH, 5, 2, REASON_no_route},        {EACCES, 5, 2, REASON_no_route},
        {EMSGSIZE, 4, 13, REASON_request_too_large},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct replay replay;
        struct fake_datagram request, forged;
        start(&replay, NULL);
        replay_ask(&replay, words("41 01 0001 aa", CRI));
        fake_peer_expect(replay.origin, UPSTREAM, &request);
        for (unsigned at = 2; at < 12; at++) { /* message id or token guessed wrong */
            forged = request;
            forged.data[at] ^= 1;
            fake_peer_reject(replay.origin, &forged, rows[i].error);
        }
        forged = request;
        forged.len = 11;
        fake_peer_reject(replay.origin, &forged, rows[i].error);
        fake_peer_expect_nothing(replay.client);
        fake_peer_reject(replay.origin, &request, rows[i].error);
        expect_error(replay.client, rows[i].class, rows[i].detail, 0);
        assert_int_equal(replay_ended(&replay, rows[i].reason), 1);
        fake_peer_reject(replay.origin, &request, rows[i].error); /* late: nobody cares */
        fake_peer_expect_nothing(replay.client);
        stop(&replay);
    }
}

/* ERR-8: silence, before and after an acknowledgement. */
static void test_origin_that_does_not_answer(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    start(&replay, NULL);
    replay_ask(&replay, words("51 01 0001 aa", CRI));
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    expect_error(replay.client, 5, 4, 93000);
    replay_ask(&replay, words("51 01 0002 ab", CRI));
    while (fake_peer_take(replay.origin, &request)) {
    }
    fake_net_run(0);
    assert_true(fake_peer_take(replay.origin, &request));
    fake_peer_reply(replay.origin, &request, "60 00 MID");
    fake_peer_expect_nothing_within(replay.origin, 94000);
    expect_error(replay.client, 5, 4, 1000);
    assert_int_equal(replay_ended(&replay, REASON_origin_timeout), 2);
    /* What comes too late is rejected, and does not reach the client. */
    fake_peer_reply(replay.origin, &request, "4T 45 7001 TOKEN");
    fake_peer_expect(replay.origin, "70 00 7001", NULL);
    fake_peer_expect_nothing(replay.client);
    stop(&replay);
}

/* ERR-9, also after an acknowledgement. */
static void test_origin_that_resets(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    start(&replay, NULL);
    replay_ask(&replay, words("51 01 0001 aa", CRI));
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    fake_peer_reply(replay.origin, &request, "70 00 MID");
    expect_error(replay.client, 5, 2, 0);
    replay_ask(&replay, words("51 01 0002 aa", CRI));
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    fake_peer_reply(replay.origin, &request, "60 00 MID");
    fake_peer_reply(replay.origin, &request, "70 00 MID");
    expect_error(replay.client, 5, 2, 0);
    assert_int_equal(replay_ended(&replay, REASON_origin_reset), 2);
    stop(&replay);
}

/* ERR-11: an answer that cannot be read is no answer; in the end it is 5.02, not 5.04. */
static void test_answers_with_format_errors(void **state)
{
    static const char *const broken[] = {
        "6T 45 MID TOKEN ff",
        "6T 45 MID TOKEN f0",
        "6T 45 MID TOKEN 15",
        "6f 45 MID",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        struct replay replay;
        struct fake_datagram request;
        start(&replay, NULL);
        replay_ask(&replay, words("51 01 0001 aa", CRI));
        fake_peer_expect(replay.origin, UPSTREAM, &request);
        fake_peer_reply(replay.origin, &request, broken[i]);
        fake_peer_expect_nothing_within(replay.client, 30000);
        expect_error(replay.client, 5, 2, 93000);
        assert_int_equal(replay_ended(&replay, REASON_origin_invalid), 1);
        /* A corrupted one does no harm where a good one follows. */
        replay_ask(&replay, words("51 01 0002 ab", CRI));
        while (fake_peer_take(replay.origin, &request)) {
        }
        fake_net_run(0);
        assert_true(fake_peer_take(replay.origin, &request));
        fake_peer_reply(replay.origin, &request, broken[i]);
        fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN ff 31");
        fake_peer_expect(replay.client, "51 45 MID ab ff 31", NULL);
        stop(&replay);
    }
}

/* --- clients that go away ----------------------------------------------- */

static void start_delivery(struct replay *replay, struct fake_datagram *ret_answer)
{
    struct fake_datagram request;
    start(replay, NULL);
    replay_ask(replay, words("41 01 0001 aa", CRI));
    fake_peer_expect(replay->origin, UPSTREAM, &request);
    fake_peer_expect_within(replay->client, 250, "60 00 0001", NULL);
    fake_peer_reply(replay->origin, &request, "6T 45 MID TOKEN ff 31");
    fake_peer_expect(replay->client, "41 45 MID aa ff 31", ret_answer);
}

/* MSG-15, MSG-19: whatever became of the answer, the request's repetition gets its ACK. */
static void expect_ack_again(struct replay *replay)
{
    replay_ask(replay, words("41 01 0001 aa", CRI));
    fake_peer_expect(replay->client, "60 00 0001", NULL);
    fake_peer_expect_nothing(replay->origin);
}

static void test_clients_that_go_away(void **state)
{
    struct replay replay;
    struct fake_datagram answer, forged;
    (void)state;
    start_delivery(&replay, &answer);
    fake_peer_reply(replay.client, &answer, "70 00 MID");
    fake_net_run(0);
    assert_int_equal(replay_ended(&replay, REASON_client_reset), 1);
    expect_ack_again(&replay);
    stop(&replay);

    start_delivery(&replay, &answer);
    fake_net_run(100000);
    assert_int_equal(replay_ended(&replay, REASON_client_unreachable), 1);
    while (fake_peer_take(replay.client, &answer)) {
    }
    expect_ack_again(&replay);
    stop(&replay);

    start_delivery(&replay, &answer);
    for (size_t at = 2; at < answer.len; at++) {
        forged = answer;
        forged.data[at] ^= 1;
        fake_peer_reject(replay.client, &forged, ECONNREFUSED);
    }
    fake_net_run(0);
    assert_int_equal(replay_ended(&replay, REASON_client_unreachable), 0);
    fake_peer_reject(replay.client, &answer, ECONNREFUSED);
    fake_net_run(0);
    assert_int_equal(replay_ended(&replay, REASON_client_unreachable), 1);
    expect_ack_again(&replay);
    stop(&replay);

    /* The token used again while its answer is out. */
    start_delivery(&replay, &answer);
    replay_ask(&replay, words("41 01 0002 aa", CRI));
    fake_net_run(0);
    assert_int_equal(replay_ended(&replay, REASON_client_replaced), 1);
    while (fake_peer_take(replay.origin, &forged)) {
    }
    fake_peer_expect_nothing_within(replay.client, 249); /* not the old answer again */
    stop(&replay);
}

/* MSG-26 with RFC 7252 section 4.2: what is replaced was a CON all the same. */
static void test_replaced_request_is_acknowledged(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    start(&replay, NULL);
    replay_ask(&replay, words("41 01 0001 aa", CRI));
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    replay_ask(&replay, words("41 01 0002 aa", CRI));
    fake_peer_expect(replay.client, "60 00 0001", NULL);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN ff 31");
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    fake_peer_expect_nothing(replay.client);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN ff 32");
    fake_peer_expect(replay.client, "61 45 0002 aa ff 32", NULL);
    replay_ask(&replay, words("41 01 0001 aa", CRI));
    fake_peer_expect(replay.client, "60 00 0001", NULL);
    fake_peer_expect_nothing(replay.origin);
    /* NON: nothing to say. */
    replay_ask(&replay, words("51 01 0003 ab", CRI));
    replay_ask(&replay, words("51 01 0004 ab", CRI));
    fake_net_run(0);
    fake_peer_expect_nothing(replay.client);
    assert_int_equal(replay_ended(&replay, REASON_client_replaced), 2);
    stop(&replay);
}

/* --- too much ----------------------------------------------------------- */

/* ERR-15: the table of exchanges. */
static void test_too_many_exchanges(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    char head[32], address[32];
    (void)state;
    start(&replay, "limits.exchanges=16");
    for (unsigned i = 0; i < 16; i++) {
        snprintf(address, sizeof(address), "192.0.2.7:%u", 41000 + i);
        snprintf(head, sizeof(head), "51 01 %04x aa", i);
        fake_peer_send(fake_peer_new(address), PROXY, words(head, CRI));
    }
    fake_net_run(0);
    assert_int_equal(engine_in_flight(replay.engine), 16);
    replay_ask(&replay, words("41 01 0001 aa", CRI));
    expect_error(replay.client, 5, 3, 0);
    replay_ask(&replay, words("51 01 0002 aa", CRI));
    expect_error(replay.client, 5, 3, 0);
    assert_int_equal(replay_ended(&replay, REASON_proxy_busy), 2);
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    replay_ask(&replay, words("41 01 0003 aa", CRI));
    fake_peer_expect_within(replay.client, 250, "60 00 0003", NULL); /* there is room again */
    stop(&replay);
}

/* ERR-15, RATE-1, RATE-2: one client's share. */
static void test_too_many_exchanges_of_one_client(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    char head[32];
    (void)state;
    start(&replay, "limits.exchanges-per-client=3");
    struct fake_peer *other = fake_peer_new("192.0.2.7:40002");
    for (unsigned i = 1; i <= 3; i++) {
        snprintf(head, sizeof(head), "41 01 %04x a%u", i, i);
        replay_ask(&replay, words(head, CRI));
    }
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    replay_ask(&replay, words("41 01 0004 a4", CRI));
    expect_error(replay.client, 4, 29, 0);
    replay_ask(&replay, words("51 01 0005 a5", CRI));
    expect_error(replay.client, 4, 29, 0);
    replay_ask(&replay, words("41 01 0001 a1", CRI)); /* a repetition is not one more */
    fake_peer_expect(replay.client, "60 00 0001", NULL);
    fake_peer_send(other, PROXY, words("41 01 0001 a1", CRI));
    fake_net_run(0);
    fake_peer_expect_nothing(other);
    assert_int_equal(replay_ended(&replay, REASON_client_busy), 2);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    fake_peer_expect(replay.client, "41 45 MID a1", &request);
    fake_peer_reply(replay.client, &request, "60 00 MID");
    replay_ask(&replay, words("41 01 0006 a6", CRI));
    fake_peer_expect_within(replay.client, 250, "60 00 000?", NULL);
    stop(&replay);
}

/* ERR-15: what is in flight goes on, newcomers are told to come back. */
static void test_drain(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    start(&replay, NULL);
    replay_ask(&replay, words("41 01 0001 aa", CRI));
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    engine_drain(replay.engine);
    replay_ask(&replay, words("41 01 0002 ab", CRI));
    expect_error(replay.client, 5, 3, 0);
    replay_ask(&replay, words("51 01 0003 ac", "11=.well-known 11=core"));
    expect_error(replay.client, 5, 3, 0);
    assert_int_equal(replay_ended(&replay, REASON_shutting_down), 2);
    replay_ask(&replay, words("41 01 0001 aa", CRI));
    fake_peer_expect(replay.client, "60 00 0001", NULL);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    fake_peer_expect(replay.client, "41 45 MID aa", &request);
    fake_peer_reply(replay.client, &request, "60 00 MID");
    fake_net_run(0);
    assert_int_equal(engine_in_flight(replay.engine), 0);
    stop(&replay);
}

/* With no queue at all: sent at once or refused at once. */
static void test_no_origin_queue(void **state)
{
    struct replay replay;
    (void)state;
    replay_start(&replay, (const char *[]){"limits.origin-queue=0", "scheme coap.nstart=1",
                                           "scheme coap.nstart-max=1", NULL});
    replay_ask(&replay, words("51 01 0001 a1", CRI));
    replay_ask(&replay, words("51 01 0002 a2", CRI));
    fake_peer_expect(replay.origin, UPSTREAM, NULL);
    fake_peer_expect_nothing(replay.origin);
    expect_error(replay.client, 5, 3, 0);
    assert_int_equal(replay_ended(&replay, REASON_origin_busy), 1);
    stop(&replay);
}

/* --- large messages ----------------------------------------------------- */

/* MSG-36, ERR-16, ERR-17: up to the limit both ways, and one byte more. */
/* ERR-16: Size1 says what would be taken, in blocks (RFC 7959 section 2.9.3). */
static void test_too_large_says_how_much_is_taken(void **state)
{
    struct replay replay;
    (void)state;
    start(&replay, "block.body-bytes=100KiB");
    replay_ask(&replay, words("41 02 0001 aa", CRI " /#9000"));
    /* 102,400, and "request too large" */
    fake_peer_expect(replay.client,
                     words("61 8d 0001 aa", "60:019000 /7265717565737420746f6f206c61726765"), NULL);
    replay_stop(&replay);
}

static void test_datagram_limit(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    start(&replay, "limits.datagram-bytes=1280B");
    /* Upstream: 12 bytes of header and token, 4 of options, the marker: 1263 more are 1280. */
    replay_ask(&replay, words("41 02 0001 aa", CRI " /#1263"));
    fake_peer_expect(replay.origin, words("48 02 MID TOKEN", "3=h 11=x /#1263"), &request);
    fake_peer_reply(replay.origin, &request, "6T 44 MID TOKEN");
    fake_peer_expect(replay.client, "61 44 0001 aa", NULL);
    replay_ask(&replay, words("41 02 0002 aa", CRI " /#1264")); /* fits in, but not out */
    expect_error(replay.client, 4, 13, 0);
    replay_ask(&replay, words("41 02 0003 aa", CRI " /#1265"));
    expect_error(replay.client, 4, 13, 0);
    replay_ask(&replay, words("51 02 0004 aa", CRI " /#9000"));
    expect_error(replay.client, 4, 13, 0);
    assert_int_equal(replay_ended(&replay, REASON_request_too_large), 3);
    fake_peer_expect_nothing(replay.origin);

    replay_ask(&replay, words("41 01 0005 aa", CRI));
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "/#1267"));
    /* The client gets it in blocks: an ETag of ours, Block2, Size2. */
    fake_peer_expect(replay.client,
                     words("61 45 0005 aa 48 ???????????????? d1060e 5204f3", "/#1024"), NULL);
    replay_ask(&replay, words("41 01 0006 aa", CRI));
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "/#1268"));
    expect_error(replay.client, 5, 2, 0);
    /* Cut in its options: it cannot even be read. */
    replay_ask(&replay, words("51 01 0007 ab", CRI));
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "2048#1400"));
    expect_error(replay.client, 5, 2, 95000);
    stop(&replay);
}

/* --- what policy refuses ------------------------------------------------ */

/* ERR-13: nobody knows who this client is, and the rule wants that. */
static void test_rule_wants_an_identity(void **state)
{
    struct replay replay;
    (void)state;
    replay_start(&replay,
                 (const char *[]){"access friends.identity=alice", "access friends.action=allow",
                                  "policy.clients=any", "policy.targets=deny", NULL});
    replay_ask(&replay, words("41 01 0001 aa", CRI));
    expect_error(replay.client, 4, 1, 0);
    assert_int_equal(replay_ended(&replay, REASON_client_unknown), 1);
    fake_peer_expect_nothing(replay.origin);
    stop(&replay);
}

/* A request that comes back to the proxy that has sent it goes round no more. */
static void test_own_request_comes_back(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    start(&replay, NULL);
    replay_ask(&replay, words("41 01 0001 aa", CRI));
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    /* The origin's address leads back, as behind a misconfigured port forwarding: the same
     * bytes, but that a next hop would have to be named. */
    char head[64];
    size_t at = (size_t)snprintf(head, sizeof(head), "48 01 7777 ");
    for (size_t i = 0; i < 8; i++) {
        at += (size_t)snprintf(head + at, sizeof(head) - at, "%02x", request.data[4 + i]);
    }
    replay_ask(&replay, words(head, CRI));
    fake_peer_expect(replay.client, "68 a8 7777 ...", NULL);
    assert_int_equal(replay_ended(&replay, REASON_loop_detected), 1);
    fake_peer_expect_nothing(replay.origin);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    fake_peer_expect(replay.client, "61 45 0001 aa", NULL);
    stop(&replay);
}

/* --- and all of them ---------------------------------------------------- */

static void test_answered_and_local(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    start(&replay, NULL);
    replay_ask(&replay, words("41 01 0001 aa", "11=.well-known 11=core"));
    fake_peer_expect(replay.client, "61 45 0001 aa ...", NULL);
    replay_ask(&replay, words("41 01 0002 aa", CRI));
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "67:01"));
    expect_error(replay.client, 5, 2, 0);
    stop(&replay);
}

/* Answers that were kept: fresh, and when the origin server is gone. */
static void test_cached_and_stale(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    replay_start(&replay,
                 (const char *[]){"cache.max-bytes=1MiB", "cache.stale-if-error=1h", NULL});
    replay_ask(&replay, words("41 01 0001 aa", CRI));
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "14:01 /31"));
    fake_peer_expect(replay.client, words("61 45 0001 aa", "14:01 /31"), NULL);
    replay_ask(&replay, words("41 01 0002 aa", CRI));
    fake_peer_expect(replay.client, words("61 45 0002 aa", "14:01 /31"), NULL);
    fake_net_run(2000);
    replay_ask(&replay, words("41 01 0003 aa", CRI));
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    fake_peer_reply(replay.origin, &request, "70 00 MID");
    fake_peer_expect(replay.client, words("61 45 0003 aa", "14: /31"), NULL);
    stop(&replay);
}

/* Reasons that nobody outside can bring about; those of connections have tests of their own. */
static bool is_out_of_reach(const char *name)
{
    static const char *const names[] = {
        "none",     /* not an end */
        "internal", /* our bugs */
        "cri_unprocessable" /* every feature of CRIs is on: CRI_FEATURES_ALL */,
        "observed",
        "format_changed", /* test_observe.c */
        "way_changed",    /* test_crossings.c */
        "client_gone",    /* of connections: test_streams.c */
        "block_invalid",
        "block_missing",
        "block_range",
        "block_served",
        "block_taken",      /* of bodies in blocks: test_blocks.c */
        "unanswered",       /* test_options.c */
        "echo_required",    /* test_echo.c */
        "origin_throttles", /* test_limits.c */
        "client_ignored",   /* test_fairness.c */
        "group_done",
        "group_timeout", /* test_groups.c */
        "route_refused",
        "route_form",
        "route_loop",
        "zone_route",  /* test_routes.c */
        "hop_loop",    /* test_hops.c */
        "zone_needed", /* test_zones.c */
        "zone_misplaced",
        "client_refused", /* of sessions: test_admission.c */
        "leg_insecure",
        "connect_timeout",
        "handshake_failed",
        "certificate_refused",
        "certificate_name",
        "origin_closed",
        "sessions_full",
        "transport_missing", /* on the way to secure origin servers: test_upstream.c */
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static void test_every_reason_was_seen(void **state)
{
    unsigned missing = 0;
    (void)state;
    for (unsigned i = 0; i < REASON_COUNT; i++) {
        const char *name = reason_row((enum reason)i)->name;
        if (seen[i] == 0 && !is_out_of_reach(name)) {
            print_error("    no test ends for the reason %s\n", name);
            missing++;
        }
        if (seen[i] > 0 && is_out_of_reach(name)) {
            print_error("    the reason %s can be reached\n", name);
            missing++;
        }
    }
    assert_int_equal(missing, 0);
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_refused_at_once),
        TEST(test_token_too_long),
        TEST(test_names_that_do_not_resolve),
        TEST(test_resolver_queue_full),
        TEST(test_all_addresses_refuse),
        TEST(test_icmp_errors),
        TEST(test_origin_that_does_not_answer),
        TEST(test_origin_that_resets),
        TEST(test_answers_with_format_errors),
        TEST(test_clients_that_go_away),
        TEST(test_replaced_request_is_acknowledged),
        TEST(test_too_many_exchanges),
        TEST(test_too_many_exchanges_of_one_client),
        TEST(test_drain),
        TEST(test_no_origin_queue),
        TEST(test_too_large_says_how_much_is_taken),
        TEST(test_datagram_limit),
        TEST(test_answered_and_local),
        TEST(test_rule_wants_an_identity),
        TEST(test_own_request_comes_back),
        TEST(test_cached_and_stale),
        TEST(test_every_reason_was_seen), /* last */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
