/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The real pool of threads, with getaddrinfo() replaced at link time (--wrap):
 * "held..." waits until the test lets go, "a.example" has addresses, and so on.
 */
#include "net/resolve.h"
#include "net_fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* NOLINTBEGIN(*-reserved-identifier,cert-dcl*,readability-identifier-naming): ld's names */
int __real_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                       struct addrinfo **ret_list);
void __real_freeaddrinfo(struct addrinfo *list);
int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                       struct addrinfo **ret_list);
void __wrap_freeaddrinfo(struct addrinfo *list);
/* NOLINTEND(*-reserved-identifier,cert-dcl*,readability-identifier-naming) */

static pthread_mutex_t gate_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_changed = PTHREAD_COND_INITIALIZER;
static bool gate_is_open;
static unsigned held_count, asked_count, list_count;

static void gate_set(bool is_open)
{
    pthread_mutex_lock(&gate_mutex);
    gate_is_open = is_open;
    pthread_cond_broadcast(&gate_changed);
    pthread_mutex_unlock(&gate_mutex);
}

static unsigned gate_read(const unsigned *counter)
{
    pthread_mutex_lock(&gate_mutex);
    unsigned value = *counter;
    pthread_mutex_unlock(&gate_mutex);
    return value;
}

/* Until as many questions are held as that. */
static void gate_wait_held(unsigned count)
{
    pthread_mutex_lock(&gate_mutex);
    while (held_count != count) {
        pthread_cond_wait(&gate_changed, &gate_mutex);
    }
    pthread_mutex_unlock(&gate_mutex);
}

static void gate_pass(const char *node)
{
    pthread_mutex_lock(&gate_mutex);
    asked_count++;
    if (strncmp(node, "held", 4) == 0) {
        held_count++;
        pthread_cond_broadcast(&gate_changed);
        while (!gate_is_open) {
            pthread_cond_wait(&gate_changed, &gate_mutex);
        }
        held_count--;
        pthread_cond_broadcast(&gate_changed);
    }
    pthread_mutex_unlock(&gate_mutex);
}

/* A list of @p count IPv4 addresses, each twice, and ::1. */
static struct addrinfo *make_list(unsigned count)
{
    struct addrinfo *list = NULL, **end = &list;

    for (unsigned i = 0; i <= 2 * count; i++) {
        struct {
            struct addrinfo info;
            union {
                struct sockaddr any;
                struct sockaddr_in ipv4;
                struct sockaddr_in6 ipv6;
            } name;
        } *entry = calloc(1, sizeof *entry);
        assert_non_null(entry);
        if (i == 2 * count) {
            entry->name.ipv6 =
                (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
            entry->info.ai_addrlen = sizeof entry->name.ipv6;
        } else {
            entry->name.ipv4.sin_family = AF_INET;
            entry->name.ipv4.sin_addr.s_addr = htonl(0xc0000200u + i / 2);
            entry->info.ai_addrlen = sizeof entry->name.ipv4;
        }
        entry->info.ai_family = entry->name.any.sa_family;
        entry->info.ai_addr = &entry->name.any;
        *end = &entry->info;
        end = &entry->info.ai_next;
    }
    pthread_mutex_lock(&gate_mutex);
    list_count++;
    pthread_mutex_unlock(&gate_mutex);
    return list;
}

int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                       struct addrinfo **ret_list)
{
    gate_pass(node);
    if (strcmp(node, "localhost") == 0) {
        pthread_mutex_lock(&gate_mutex);
        list_count++;
        pthread_mutex_unlock(&gate_mutex);
        return __real_getaddrinfo(node, service, hints, ret_list);
    }
    if (strcmp(node, "none.example") == 0) {
        return EAI_NONAME;
    }
    if (strcmp(node, "again.example") == 0) {
        return EAI_AGAIN;
    }
    if (strcmp(node, "broken.example") == 0) {
        return EAI_FAIL;
    }
    *ret_list = make_list(strcmp(node, "many.example") == 0 ? 20 : 1);
    return 0;
}

void __wrap_freeaddrinfo(struct addrinfo *list)
{
    pthread_mutex_lock(&gate_mutex);
    list_count--;
    pthread_mutex_unlock(&gate_mutex);
    /* Lists of ours begin with 192.0.2.0. */
    const struct sockaddr_in *name = (const struct sockaddr_in *)(const void *)list->ai_addr;
    if (list->ai_family == AF_INET && name->sin_addr.s_addr == htonl(0xc0000200u)) {
        while (list != NULL) {
            struct addrinfo *next = list->ai_next;
            free(list);
            list = next;
        }
        return;
    }
    __real_freeaddrinfo(list);
}

/* ---- one asker ---- */

struct asker {
    struct fixture fixture;
    struct resolver *resolver;
    size_t results, wanted;
    enum resolve_status status;
    struct address addresses[RESOLVE_ADDRESSES_MAX];
    size_t address_count;
};

static void on_result(void *context, enum resolve_status status, const struct address *addresses,
                      size_t address_count)
{
    struct asker *asker = context;

    asker->results++;
    asker->status = status;
    asker->address_count = address_count;
    assert_true(address_count <= RESOLVE_ADDRESSES_MAX);
    for (size_t i = 0; i < address_count; i++) {
        asker->addresses[i] = addresses[i];
    }
}

static bool has_results(void *context)
{
    const struct asker *asker = context;
    return asker->results >= asker->wanted;
}

static void run(struct asker *asker, size_t wanted)
{
    asker->wanted = wanted;
    fixture_run(&asker->fixture, has_results, asker);
    assert_int_equal(asker->results, wanted);
}

static void open_asker(struct asker *asker, unsigned threads, unsigned queue_max)
{
    memset(asker, 0, sizeof *asker);
    gate_set(false);
    fixture_open(&asker->fixture);
    assert_int_equal(resolver_new(threads, queue_max, &asker->resolver), 0);
}

static void close_asker(struct asker *asker)
{
    resolver_forget(asker->resolver, asker->fixture.loop);
    fixture_close(&asker->fixture);
    resolver_free(asker->resolver);
}

static int ask(struct asker *asker, const char *name)
{
    return resolver_ask(asker->resolver, asker->fixture.loop, name, strlen(name), on_result, asker);
}

/* Threads of earlier tests let go of what they hold. */
static void let_all_go(void)
{
    gate_set(true);
    gate_wait_held(0);
}

/* ---- tests ---- */

static void test_addresses_come_in_order_without_repetition(void **state)
{
    struct asker asker;
    (void)state;

    open_asker(&asker, 2, 10);
    assert_int_equal(ask(&asker, "a.example"), 0);
    assert_int_equal(asker.results, 0);
    run(&asker, 1);
    assert_int_equal(asker.status, RESOLVE_OK);
    assert_int_equal(asker.address_count, 2);
    struct address ipv4 = fixture_address("192.0.2.0:0"), ipv6 = fixture_address("[::1]:0");
    assert_true(address_equal(&asker.addresses[0], &ipv4));
    assert_true(address_equal(&asker.addresses[1], &ipv6));

    assert_int_equal(ask(&asker, "many.example"), 0);
    run(&asker, 2);
    assert_int_equal(asker.address_count, RESOLVE_ADDRESSES_MAX);
    assert_int_equal(gate_read(&list_count), 0);
    close_asker(&asker);
}

static void test_system_s_own_resolver_knows_localhost(void **state)
{
    struct addrinfo *list = NULL;
    struct asker asker;
    (void)state;

    if (__real_getaddrinfo("localhost", NULL, NULL, &list) != 0) {
        skip(); /* a bare chroot has no /etc/hosts */
    }
    __real_freeaddrinfo(list);
    open_asker(&asker, 1, 1);
    assert_int_equal(ask(&asker, "localhost"), 0);
    run(&asker, 1);
    assert_int_equal(asker.status, RESOLVE_OK);
    assert_true(asker.address_count >= 1);
    assert_true(address_is_loopback(&asker.addresses[0]));
    assert_int_equal(asker.addresses[0].port, 0);
    close_asker(&asker);
}

static void test_failures_say_which_kind(void **state)
{
    static const struct {
        const char *name;
        enum resolve_status status;
    } rows[] = {{"none.example", RESOLVE_NOT_FOUND},
                {"again.example", RESOLVE_TRY_AGAIN},
                {"broken.example", RESOLVE_FAILED}};
    struct asker asker;
    (void)state;

    open_asker(&asker, 1, 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(ask(&asker, rows[i].name), 0);
        run(&asker, i + 1);
        assert_int_equal(asker.status, rows[i].status);
        assert_int_equal(asker.address_count, 0);
    }
    close_asker(&asker);
}

static void test_what_is_no_host_name_is_never_asked(void **state)
{
    static const char *const rows[] = {
        "",           ".",          "..",      "a..",    "127.1",        "1",        "127.0.0.1",
        "2130706433", "0x7f000001", "0X7f.1.", "a.0x7f", "017700000001", "1.2.3.4.", "::1",
        "fe80::1%lo", "[::1]",      "127.1 x", "a b",    "a\tb",         "a\nb",     "a\x7f",
    };
    struct asker asker;
    char longest[RESOLVE_NAME_MAX + 2];
    (void)state;

    open_asker(&asker, 1, 10);
    unsigned asked_before = gate_read(&asked_count);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (ask(&asker, rows[i]) != -EINVAL) {
            fail_msg("asked for \"%s\"", rows[i]);
        }
    }
    assert_int_equal(resolver_ask(asker.resolver, asker.fixture.loop, "a\0b", 3, on_result, &asker),
                     -EINVAL);
    memset(longest, 'a', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(ask(&asker, longest), -EINVAL);
    assert_int_equal(gate_read(&asked_count), asked_before);

    longest[RESOLVE_NAME_MAX] = '\0';
    assert_int_equal(ask(&asker, longest), 0);
    run(&asker, 1);
    /* Digits elsewhere than in the last label are no harm; nor is a name in UTF-8. */
    assert_int_equal(ask(&asker, "127.1.example."), 0);
    assert_int_equal(ask(&asker, "4711"
                                 "x"),
                     0);
    assert_int_equal(ask(&asker, "h\xc3\xb6lle.example"), 0);
    run(&asker, 4);
    close_asker(&asker);
}

static void test_full_queue_says_so_and_serves_again(void **state)
{
    struct asker asker;
    (void)state;

    open_asker(&asker, 2, 3);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(ask(&asker, "held.example"), 0);
    }
    assert_int_equal(ask(&asker, "a.example"), -EAGAIN);
    gate_wait_held(2); /* two threads, two questions; the third waits */
    let_all_go();
    run(&asker, 3);
    assert_int_equal(ask(&asker, "a.example"), 0);
    run(&asker, 4);
    close_asker(&asker);
}

static void test_free_does_not_wait_for_a_slow_resolver(void **state)
{
    struct asker asker;
    (void)state;

    open_asker(&asker, 1, 5);
    assert_int_equal(ask(&asker, "held.example"), 0);
    assert_int_equal(ask(&asker, "held.example"), 0);
    gate_wait_held(1);
    close_asker(&asker); /* comes back although nobody has let go */
    let_all_go();
    assert_int_equal(asker.results, 0);
}

static void test_forgotten_questions_are_not_answered_others_are(void **state)
{
    struct asker asker, other;
    (void)state;

    open_asker(&asker, 2, 5);
    fixture_open(&other.fixture);
    other.results = 0;
    other.resolver = asker.resolver;
    assert_int_equal(ask(&asker, "held.example"), 0);
    assert_int_equal(ask(&other, "held.example"), 0);
    gate_wait_held(2);
    assert_int_equal(ask(&asker, "a.example"), 0); /* still waiting when it is forgotten */
    resolver_forget(asker.resolver, asker.fixture.loop);
    fixture_close(&asker.fixture);
    let_all_go();
    run(&other, 1);
    resolver_forget(other.resolver, other.fixture.loop);
    fixture_close(&other.fixture);
    resolver_free(asker.resolver);
    assert_int_equal(asker.results, 0);
}

static bool always(void *context)
{
    (void)context;
    return true;
}

static void test_answer_already_posted_is_dropped_when_forgotten(void **state)
{
    struct asker asker;
    (void)state;

    open_asker(&asker, 1, 5);
    struct asker other = {.resolver = asker.resolver};
    fixture_open(&other.fixture);
    assert_int_equal(ask(&asker, "a.example"), 0);
    assert_int_equal(ask(&asker, "a.example"), 0);
    assert_int_equal(ask(&other, "held.example"), 0);
    gate_wait_held(1); /* the only thread is here: it has posted the two before */
    resolver_forget(asker.resolver, asker.fixture.loop);
    fixture_run(&asker.fixture, always, NULL);
    assert_int_equal(asker.results, 0);

    assert_int_equal(ask(&asker, "a.example"), 0);
    let_all_go();
    run(&other, 1);
    run(&asker, 1); /* forgotten is what was asked before, not the loop */
    resolver_forget(other.resolver, other.fixture.loop);
    fixture_close(&other.fixture);
    close_asker(&asker);
}

static void test_answer_never_fetched_goes_with_the_loop(void **state)
{
    struct asker asker;
    (void)state;

    open_asker(&asker, 1, 5);
    struct asker other = {.resolver = asker.resolver};
    fixture_open(&other.fixture);
    assert_int_equal(ask(&asker, "a.example"), 0);
    assert_int_equal(ask(&other, "held.example"), 0);
    gate_wait_held(1);
    resolver_free(asker.resolver);
    fixture_close(&asker.fixture);
    fixture_close(&other.fixture);
    let_all_go();
    assert_int_equal(asker.results, 0);
}

/* ---- several loops at once ---- */

#define LOOPS 3
#define ROUNDS 300u

/* Not fixture_run(): cmocka's failures belong to the main thread. */
static void *loop_main(void *context)
{
    struct asker *asker = context;

    for (unsigned i = 0; i < ROUNDS; i++) {
        if (ask(asker, i % 3 == 0 ? "none.example" : "a.example") != 0) {
            break;
        }
        asker->wanted = i + 1;
        while (!has_results(asker) && !asker->fixture.has_failed) {
            loop_run_turn(asker->fixture.loop);
        }
    }
    /* One that nobody will wait for. */
    ask(asker, "a.example");
    resolver_forget(asker->resolver, asker->fixture.loop);
    fixture_close(&asker->fixture);
    return NULL;
}

static void test_loops_of_many_threads_share_the_pool(void **state)
{
    static struct asker askers[LOOPS];
    struct resolver *resolver;
    pthread_t threads[LOOPS];
    (void)state;

    gate_set(true);
    assert_int_equal(resolver_new(4, 100, &resolver), 0);
    for (unsigned i = 0; i < LOOPS; i++) {
        fixture_open(&askers[i].fixture);
        askers[i].resolver = resolver;
        askers[i].fixture.until = has_results;
        askers[i].fixture.context = &askers[i];
        assert_int_equal(pthread_create(&threads[i], NULL, loop_main, &askers[i]), 0);
    }
    for (unsigned i = 0; i < LOOPS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(askers[i].results, ROUNDS);
    }
    resolver_free(resolver);
}

static void test_new_needs_a_thread_and_free_takes_null(void **state)
{
    struct resolver *resolver = NULL;
    (void)state;

    assert_int_equal(resolver_new(0, 1, &resolver), -EINVAL);
    assert_null(resolver);
    resolver_free(NULL);
    resolver_forget(NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses_come_in_order_without_repetition),
        cmocka_unit_test(test_system_s_own_resolver_knows_localhost),
        cmocka_unit_test(test_failures_say_which_kind),
        cmocka_unit_test(test_what_is_no_host_name_is_never_asked),
        cmocka_unit_test(test_full_queue_says_so_and_serves_again),
        cmocka_unit_test(test_free_does_not_wait_for_a_slow_resolver),
        cmocka_unit_test(test_forgotten_questions_are_not_answered_others_are),
        cmocka_unit_test(test_answer_already_posted_is_dropped_when_forgotten),
        cmocka_unit_test(test_answer_never_fetched_goes_with_the_loop),
        cmocka_unit_test(test_loops_of_many_threads_share_the_pool),
        cmocka_unit_test(test_new_needs_a_thread_and_free_takes_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
