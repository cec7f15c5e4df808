/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * After warm-up a proxied UDP request allocates nothing: malloc() and its kin are
 * replaced, for the whole process, by ones that count. The fake network's own are not
 * counted, see CMakeLists.txt. What an engine allocates when it starts is what engine/budget.h
 * says.
 */
#include "replay/replay.h"

#include "engine/budget.h"
#include "origin/flights.h"
#include "origin/watches.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WARM_UP 100
#define COUNTED 500

/* --- counting ----------------------------------------------------------- */

/* glibc's allocator under the names that nothing interposes. */
void *__libc_malloc(size_t size);                // NOLINT(bugprone-reserved-identifier)
void *__libc_calloc(size_t count, size_t size);  // NOLINT(bugprone-reserved-identifier)
void *__libc_realloc(void *memory, size_t size); // NOLINT(bugprone-reserved-identifier)
void __libc_free(void *memory);                  // NOLINT(bugprone-reserved-identifier)

/* For the fake network. */
void *uncounted_malloc(size_t size);
void *uncounted_calloc(size_t count, size_t size);
void *uncounted_realloc(void *memory, size_t size);
void uncounted_free(void *memory);

/* Volatile: compilers take it that malloc() changes nothing that they see. */
static volatile uint64_t allocations, allocated_bytes;

void *malloc(size_t size)
{
    allocations++;
    allocated_bytes += size;
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    allocations++;
    allocated_bytes += count * size;
    return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
    allocations++;
    return __libc_realloc(memory, size);
}

void free(void *memory)
{
    __libc_free(memory);
}

void *uncounted_malloc(size_t size)
{
    return __libc_malloc(size);
}

void *uncounted_calloc(size_t count, size_t size)
{
    return __libc_calloc(count, size);
}

void *uncounted_realloc(void *memory, size_t size)
{
    return __libc_realloc(memory, size);
}

void uncounted_free(void *memory)
{
    __libc_free(memory);
}

/* --- requests ----------------------------------------------------------- */

enum answer {
    ANSWER_PIGGYBACKED,
    ANSWER_SEPARATE_CON, /* an empty ACK, then a CON answer: late, so that ours is separate too */
    ANSWER_NON,
    ANSWER_RESET,
    ANSWER_NONE, /* the request does not reach an origin server */
};

struct form {
    const char *name, *options;
    bool is_local; /* answered by the proxy itself */
};

static const struct form forms[] = {
    {"Proxy-Cri with a name", "d8de 8320816168816178", false},
    {"Proxy-Cri with an address", "d8de 82208144c0000205 ff 70", false},
    {"Proxy-Cri with path and query", "ddde02 8420816168826178617981 63613d62", false},
    {"Proxy-Uri", "da16 636f61703a2f2f682f78", false},
    {"Proxy-Uri with an address", "dd1605 636f61703a2f2f3139322e302e322e352f78", false},
    {"Proxy-Scheme", "3168 8178 d40f 636f6170", false},
    {"Proxy-Scheme-Number", "3168 8178 d0d7", false},
    {"a payload and a forwarded option", "d8de 8320816168816178 d104 01 ff 0102030405", false},
    {"/.well-known/core", "bb 2e77656c6c2d6b6e6f776e 04 636f7265", true},
    {"nothing that is there", "b178", true},
    {"a scheme that is not served", "3168 8178 d400 68747470", true},
    {"a bad CRI", "d1de 80", true},
    {"an unknown option", "20", true},
};

static struct replay replay;
static struct address proxy;
static uint16_t next_mid;

static size_t encode(uint8_t *data, size_t capacity, const struct form *form, bool is_con)
{
    data[0] = is_con ? 0x44 : 0x54;
    data[1] = 0x01;
    data[2] = (uint8_t)(next_mid >> 8);
    data[3] = (uint8_t)next_mid;
    memset(data + 4, 0, 4); /* token */
    data[6] = data[2];
    data[7] = data[3];
    next_mid++;
    return 8 + test_hex(form->options, data + 8, capacity - 8);
}

static void reply(const struct fake_datagram *request, enum answer answer)
{
    switch (answer) {
    case ANSWER_PIGGYBACKED:
        fake_peer_reply(replay.origin, request, "6T 45 MID TOKEN c0 ff 31");
        break;
    case ANSWER_SEPARATE_CON:
        fake_peer_reply(replay.origin, request, "60 00 MID");
        fake_net_run(300);
        fake_peer_reply(replay.origin, request, "4T 45 MID TOKEN ff 31");
        break;
    case ANSWER_NON:
        fake_peer_reply(replay.origin, request, "5T 45 MID TOKEN ff 31");
        break;
    case ANSWER_RESET:
        fake_peer_reply(replay.origin, request, "70 00 MID");
        break;
    case ANSWER_NONE:
        break;
    }
}

/* One request from the first datagram to the last; each twice, so that one is a repetition. */
static void run(const struct form *form, bool is_con, enum answer answer)
{
    uint8_t data[128];
    struct fake_datagram datagram;
    size_t len = encode(data, sizeof(data), form, is_con);
    fake_peer_send_bytes(replay.client, &proxy, data, len);
    fake_net_run(0);
    if (answer != ANSWER_NONE) {
        fake_peer_expect(replay.origin, "48 01 ...", &datagram);
        reply(&datagram, answer);
    }
    fake_peer_send_bytes(replay.client, &proxy, data, len);
    fake_net_run(1);
    bool is_answered = false;
    while (fake_peer_take(replay.client, &datagram)) {
        is_answered = is_answered || datagram.data[1] != 0;
        if (datagram.data[0] >> 4 == 4) {
            fake_peer_reply(replay.client, &datagram, "60 00 MID");
        }
    }
    while (fake_peer_take(replay.origin, &datagram)) {
        assert_int_equal(datagram.data[0], 0x60); /* an ACK for its CON */
    }
    fake_net_run(1);
    if (!is_answered) {
        fail_msg("%s: no answer", form->name);
    }
}

static void check(const struct form *form, bool is_con, enum answer answer)
{
    for (unsigned i = 0; i < WARM_UP; i++) {
        run(form, is_con, answer);
    }
    uint64_t before = allocations;
    for (unsigned i = 0; i < COUNTED; i++) {
        run(form, is_con, answer);
    }
    if (allocations != before) {
        fail_msg("%s, %s, answer %d: %u allocations in %d requests", form->name,
                 is_con ? "CON" : "NON", (int)answer, (unsigned)(allocations - before), COUNTED);
    }
}

static int setup(void **state)
{
    (void)state;
    replay_start(&replay, NULL);
    assert_true(address_parse(PROXY, strlen(PROXY), 0, &proxy));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    replay_stop(&replay);
    return 0;
}

static void test_counting_counts(void **state)
{
    (void)state;
    uint64_t before = allocations;
    void *volatile memory = malloc(100); /* else calls may be left out */
    memory = realloc(memory, 200);
    free(memory);
    memory = calloc(1, 1);
    free(memory);
    assert_int_equal(allocations - before, 3);
}

static void test_proxied_requests_allocate_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        for (int is_con = 0; is_con < 2 && !forms[i].is_local; is_con++) {
            check(&forms[i], is_con != 0, ANSWER_PIGGYBACKED);
            check(&forms[i], is_con != 0, ANSWER_NON);
            check(&forms[i], is_con != 0, ANSWER_RESET);
        }
    }
}

static void test_separate_answers_allocate_nothing(void **state)
{
    (void)state;
    check(&forms[0], true, ANSWER_SEPARATE_CON);
    check(&forms[0], false, ANSWER_SEPARATE_CON);
    check(&forms[3], true, ANSWER_SEPARATE_CON);
    check(&forms[3], false, ANSWER_SEPARATE_CON);
}

static void test_answers_of_the_proxy_allocate_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        for (int is_con = 0; is_con < 2 && forms[i].is_local; is_con++) {
            check(&forms[i], is_con != 0, ANSWER_NONE);
        }
    }
}

static bool on_trace(void *context, uint64_t id, const struct trace_view *view)
{
    unsigned *shown = context;
    (void)id;
    *shown += view->text != NULL;
    return true;
}

/* What a reader does not want, or gets no more of in this second; not even what is shown does. */
static void test_open_traces_allocate_nothing(void **state)
{
    unsigned shown = 0, unwanted = 0;
    const struct trace_tap some = {.id = 1, .per_s = 1, .emit = on_trace, .context = &shown};
    const struct trace_tap none = {
        .id = 2, .client = "203.0.113.", .emit = on_trace, .context = &unwanted};
    (void)state;
    assert_int_equal(trace_add_tap(&replay.engine->client, &some), 0);
    assert_int_equal(trace_add_tap(&replay.engine->client, &none), 0);
    check(&forms[0], true, ANSWER_PIGGYBACKED);
    check(&forms[0], false, ANSWER_SEPARATE_CON);
    check(&forms[8], false, ANSWER_NONE);
    fake_net_run(1000); /* it is told what it did not get */
    trace_remove_tap(&replay.engine->client, 1);
    trace_remove_tap(&replay.engine->client, 2);
    assert_true(shown > 0);
    assert_int_equal(unwanted, 0);
}

/* --- notifications ------------------------------------------------------ */

#define OBSERVERS 3

/* One state, to all observers and acknowledged by them. @return the notifications seen. */
static unsigned tell(const struct fake_datagram *registration, uint32_t number)
{
    char text[64];
    struct fake_datagram datagram;
    unsigned seen = 0;
    snprintf(text, sizeof(text), "4T 45 %04x TOKEN 63 %06x ff %08x", number & 0xffff, number,
             number);
    fake_peer_reply(replay.origin, registration, text);
    fake_net_run(1);
    while (fake_peer_take(replay.client, &datagram)) {
        fake_peer_reply(replay.client, &datagram, "60 00 MID");
        seen++;
    }
    while (fake_peer_take(replay.origin, &datagram)) {
        assert_int_equal(datagram.data[0], 0x60);
    }
    fake_net_run(1);
    return seen;
}

static void leave_all(void)
{
    struct fake_datagram datagram;
    engine_drain(replay.engine);
    for (unsigned i = 0; i < 200; i++) {
        while (fake_peer_take(replay.origin, &datagram)) {
            if (datagram.data[0] == 0x48) {
                fake_peer_reply(replay.origin, &datagram, "6T 45 MID TOKEN");
            }
        }
        fake_net_run(1000);
    }
}

static void test_notifications_allocate_nothing(void **state)
{
    (void)state;
    struct fake_datagram registration, answer;
    fake_peer_send(replay.client, PROXY, "41 01 0001 a1 60 d8d8 8320816168816178");
    fake_peer_expect(replay.origin, "48 01 ...", &registration);
    fake_peer_reply(replay.origin, &registration, "6T 45 MID TOKEN 61 01 ff 00000000");
    fake_peer_send(replay.client, PROXY, "41 01 0002 a2 60 d8d8 8320816168816178");
    fake_peer_send(replay.client, PROXY, "41 01 0003 a3 60 d8d8 8320816168816178");
    for (unsigned i = 0; i < OBSERVERS; i++) {
        fake_peer_expect(replay.client, "61 45 ...", &answer);
    }
    for (uint32_t i = 2; i < WARM_UP; i++) {
        (void)tell(&registration, i);
    }
    uint64_t before = allocations;
    for (uint32_t i = WARM_UP; i < WARM_UP + COUNTED; i++) {
        assert_int_equal(tell(&registration, i), OBSERVERS);
    }
    assert_int_equal(allocations - before, 0);
    leave_all();
}

/* --- the cache ---------------------------------------------------------- */

static int setup_cache(void **state)
{
    (void)state;
    replay_start(&replay, (const char *[]){"cache.max-bytes=64KiB", "cache.coalesce=yes", NULL});
    assert_true(address_parse(PROXY, strlen(PROXY), 0, &proxy));
    return 0;
}

/* GET coap://h/NNNN as Proxy-Cri, from the client. */
static void ask_for(unsigned number)
{
    char text[96];
    uint16_t mid = ++next_mid;
    snprintf(text, sizeof(text), "44 01 %04x 0000%04x dbde 8320816168 8164 %02x%02x%02x%02x", mid,
             mid, '0' + number / 1000 % 10, '0' + number / 100 % 10, '0' + number / 10 % 10,
             '0' + number % 10);
    fake_peer_send(replay.client, PROXY, text);
    fake_net_run(0);
}

/*
 * Three ask for a resource at once, one later; another day it is asked about with its ETag:
 * kept (and another one evicted), given out, followed, validated.
 */
static void ask_and_ask_again(unsigned number)
{
    struct fake_datagram request;
    for (unsigned i = 0; i < 3; i++) {
        ask_for(number);
    }
    fake_peer_expect(replay.origin, "48 01 ...", &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN 41 01 a1 01 ff 3132333435363738");
    fake_net_run(0);
    ask_for(number);
    fake_net_run(2000);
    ask_for(number);
    fake_peer_expect(replay.origin, "48 01 ...", &request);
    fake_peer_reply(replay.origin, &request, "6T 43 MID TOKEN 41 01");
    fake_net_run(0);
    for (unsigned i = 0; i < 5; i++) {
        fake_peer_expect(replay.client, "64 45 ...", NULL);
    }
    fake_peer_expect_nothing(replay.origin);
}

static void test_the_cache_allocates_nothing(void **state)
{
    unsigned number = 0;
    (void)state;
    for (; number < WARM_UP; number++) {
        ask_and_ask_again(number);
    }
    uint64_t before = allocations;
    for (; number < WARM_UP + COUNTED; number++) {
        ask_and_ask_again(number);
    }
    assert_int_equal(allocations - before, 0);
    assert_true(replay_metric(&replay, cache_evicted) > 0);
    assert_int_equal(replay_metric(&replay, cache_hits), number);
    assert_int_equal(replay_metric(&replay, requests_coalesced), 2 * number);
    assert_int_equal(replay_metric(&replay, cache_validated), number);
}

/* --- what the tables take -------------------------------------------------- */

/* Another engine on the same loop; the tables of engine/budget.c are not forgotten when one grows.
 */
static void expect_tables_as_said(const char *const *settings)
{
    struct engine *engine;

    replay_start(&replay, settings);
    struct engine_options options = {
        .config = replay.config, .loop = replay.loop, .resolver = replay.resolver};
    uint64_t before = allocated_bytes;
    assert_int_equal(engine_new(&options, &engine), 0);
    uint64_t taken = allocated_bytes - before;
    uint64_t said = budget_tables_bytes(replay.config);
    engine_free(engine);
    print_message("%s: %" PRIu64 " bytes of tables, %" PRIu64 " said\n", settings[0], taken, said);
    assert_true(taken <= said);
    assert_true(taken >= said - said / 50);
    assert_true(budget_bytes(replay.config, 1) > said);
    assert_true(budget_bytes(replay.config, 2) > budget_bytes(replay.config, 1) + said);
    replay_stop(&replay);
}

static void test_tables_are_as_large_as_said(void **state)
{
    static const char *const rows[][6] = {
        {"proxy.size=small", "cache.max-bytes=2MiB"},
        {"proxy.size=medium", "cache.max-bytes=16MiB"},
        {"proxy.size=small", "cache.max-bytes=0", "observe.max=0", "limits.clients=100000"},
        {"proxy.size=small", "limits.exchanges=10000", "limits.datagram-bytes=65507B",
         "block.bodies-bytes=64MiB", "cache.max-bytes=1KiB"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        expect_tables_as_said(rows[i]);
    }
}

/* What they wait for together, where they share a cache: keys, and answers on their way. */
static void test_workers_that_follow_are_in_it(void **state)
{
    static const char *const alone[] = {"proxy.size=small", "cache.max-bytes=2MiB", NULL};
    static const char *const shared[] = {"proxy.size=small", "cache.max-bytes=2MiB",
                                         "cache.shared=redis://192.0.2.6:6379", NULL};
    (void)state;
    replay_start(&replay, alone);
    uint64_t least = budget_bytes(replay.config, 2), of_one = budget_bytes(replay.config, 1);
    replay_stop(&replay);
    replay_start(&replay, shared);
    assert_int_equal(budget_bytes(replay.config, 1), of_one);
    assert_true(budget_bytes(replay.config, 2) > least + FLIGHTS_MAX * FLIGHT_KEY_MAX +
                                                     WATCHES_MAX * WATCH_KEY_MAX +
                                                     FLIGHT_NEWS_BYTES_MAX + WATCH_NEWS_BYTES_MAX);
    replay_stop(&replay);
}

/* Each limit is in it, and a listener for connections costs what its connections may hold. */
static void test_limits_raise_the_most_memory(void **state)
{
    static const char *const plain[] = {"proxy.size=small", NULL};
    static const char *const rows[][4] = {
        {"proxy.size=small", "block.bodies-bytes=8MiB"},
        {"proxy.size=small", "observe.bytes=8MiB"},
        {"proxy.size=small", "upstream.sessions=64"},
        {"proxy.size=small", "limits.origin-ports=64"},
        {"proxy.size=small", "listen.uri=coap+tcp://192.0.2.1:5683"},
        {"proxy.size=small", "listen.uri=coap://192.0.2.1:5683",
         "listen.uri=coap+tcp://192.0.2.1:5683", "stream.connections=129"},
    };
    (void)state;
    replay_start(&replay, plain);
    uint64_t least = budget_bytes(replay.config, 1);
    replay_stop(&replay);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        replay_start(&replay, rows[i]);
        assert_true(budget_bytes(replay.config, 1) > least);
        replay_stop(&replay);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counting_counts),
        TEST(test_proxied_requests_allocate_nothing),
        TEST(test_separate_answers_allocate_nothing),
        TEST(test_answers_of_the_proxy_allocate_nothing),
        TEST(test_notifications_allocate_nothing),
        TEST(test_open_traces_allocate_nothing),
        cmocka_unit_test_setup_teardown(test_the_cache_allocates_nothing, setup_cache, teardown),
        cmocka_unit_test(test_tables_are_as_large_as_said),
        cmocka_unit_test(test_workers_that_follow_are_in_it),
        cmocka_unit_test(test_limits_raise_the_most_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
