/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The real pool of threads, with getaddrinfo() replaced at link time (--wrap):
 * "held..." waits until the test lets go, "a.example" has addresses, and so on.
 */
#include "net/system_names.h"
#include "net_fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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
static unsigned held_count, list_count, pass_count; /* pass_count: that may go */

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

/* As many questions that are held, or will be, go on. */
static void gate_let_go(unsigned count)
{
    pthread_mutex_lock(&gate_mutex);
    pass_count = count;
    pthread_cond_broadcast(&gate_changed);
    pthread_mutex_unlock(&gate_mutex);
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
    if (strncmp(node, "held", 4) == 0) {
        held_count++;
        pthread_cond_broadcast(&gate_changed);
        while (!gate_is_open && pass_count == 0) {
            pthread_cond_wait(&gate_changed, &gate_mutex);
        }
        pass_count -= pass_count > 0;
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

#define ASKER_QUESTIONS 8

struct asker {
    struct fixture fixture;
    struct system_names *names;
    uint64_t source;
    struct system_question *questions[ASKER_QUESTIONS];
    size_t question_count;
    size_t results, wanted;
    struct resolve_result result; /* the last */
};

static void on_result(void *context, const struct resolve_result *result)
{
    struct asker *asker = context;

    asker->results++;
    asker->result = *result;
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

static void open_asker(struct asker *asker, unsigned threads)
{
    memset(asker, 0, sizeof *asker);
    gate_set(false);
    fixture_open(&asker->fixture);
    assert_int_equal(system_names_new(threads, "/nonexistent", &asker->names), 0);
}

static void open_other(struct asker *other, const struct asker *asker)
{
    memset(other, 0, sizeof *other);
    other->names = asker->names;
    other->source = 2;
    fixture_open(&other->fixture);
}

/* What was answered already is not the asker's to withdraw: tests keep what is out at the end. */
static void withdraw_all(struct asker *asker)
{
    for (size_t i = 0; i < asker->question_count; i++) {
        system_names_withdraw(asker->questions[i]);
    }
    asker->question_count = 0;
}

static void close_asker(struct asker *asker)
{
    withdraw_all(asker);
    fixture_close(&asker->fixture);
    system_names_free(asker->names);
}

static int ask(struct asker *asker, const char *name)
{
    struct system_question *question;
    return system_names_ask(asker->names, name, asker->source,
                            &(struct system_names_waiter){asker->fixture.loop, on_result, asker},
                            &question);
}

/* One that is withdrawn by withdraw_all(): it must not be answered before. */
static int ask_and_keep(struct asker *asker, const char *name)
{
    assert_true(asker->question_count < ASKER_QUESTIONS);
    return system_names_ask(asker->names, name, asker->source,
                            &(struct system_names_waiter){asker->fixture.loop, on_result, asker},
                            &asker->questions[asker->question_count++]);
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

    open_asker(&asker, 2);
    assert_int_equal(ask(&asker, "a.example"), 0);
    assert_int_equal(asker.results, 0);
    run(&asker, 1);
    assert_int_equal(asker.result.status, RESOLVE_OK);
    assert_int_equal(asker.result.address_count, 2);
    struct address ipv4 = fixture_address("192.0.2.0:0"), ipv6 = fixture_address("[::1]:0");
    assert_true(address_equal(&asker.result.addresses[0], &ipv4));
    assert_true(address_equal(&asker.result.addresses[1], &ipv6));

    assert_int_equal(ask(&asker, "many.example"), 0);
    run(&asker, 2);
    assert_int_equal(asker.result.address_count, RESOLVE_ADDRESSES_MAX);
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
    open_asker(&asker, 1);
    assert_int_equal(ask(&asker, "localhost"), 0);
    run(&asker, 1);
    assert_int_equal(asker.result.status, RESOLVE_OK);
    assert_true(asker.result.address_count >= 1);
    assert_true(address_is_loopback(&asker.result.addresses[0]));
    assert_int_equal(asker.result.addresses[0].port, 0);
    close_asker(&asker);
}

static void test_failures_say_which_kind(void **state)
{
    static const struct {
        const char *name;
        enum resolve_status status;
    } rows[] = {{"none.example", RESOLVE_NOT_FOUND},
                {"again.example", RESOLVE_NO_ANSWER},
                {"broken.example", RESOLVE_FAILED}};
    struct asker asker;
    (void)state;

    open_asker(&asker, 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(ask(&asker, rows[i].name), 0);
        run(&asker, i + 1);
        assert_int_equal(asker.result.status, rows[i].status);
        assert_int_equal(asker.result.address_count, 0);
    }
    close_asker(&asker);
}

static void test_a_name_that_is_too_long_is_not_asked_for(void **state)
{
    struct asker asker;
    char name[RESOLVE_NAME_MAX + 2];
    (void)state;

    open_asker(&asker, 1);
    memset(name, 'a', sizeof name);
    name[sizeof name - 1] = '\0';
    assert_int_equal(ask(&asker, name), -EINVAL);
    name[RESOLVE_NAME_MAX] = '\0';
    assert_int_equal(ask(&asker, name), 0);
    run(&asker, 1);
    close_asker(&asker);
}

/* One source has asked for names that hang; the thread that gets free is for the other. */
static void test_threads_are_shared_by_source(void **state)
{
    struct asker asker, other;
    (void)state;

    open_asker(&asker, 2);
    open_other(&other, &asker);
    asker.source = 1;
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(ask_and_keep(&asker, "held.example"), 0);
    }
    gate_wait_held(2); /* both threads, and four more questions before this one: */
    assert_int_equal(ask(&other, "a.example"), 0);
    gate_let_go(1);
    run(&other, 1);
    assert_int_equal(asker.results, 0);
    withdraw_all(&asker);
    fixture_close(&other.fixture);
    let_all_go();
    close_asker(&asker);
}

static void test_free_does_not_wait_for_a_slow_resolver(void **state)
{
    struct asker asker;
    (void)state;

    open_asker(&asker, 1);
    assert_int_equal(ask_and_keep(&asker, "held.example"), 0);
    assert_int_equal(ask_and_keep(&asker, "held.example"), 0);
    gate_wait_held(1);
    close_asker(&asker); /* comes back although the threads are held */
    let_all_go();
    assert_int_equal(asker.results, 0);
}

static void test_withdrawn_questions_are_not_answered_others_are(void **state)
{
    struct asker asker, other;
    (void)state;

    open_asker(&asker, 2);
    open_other(&other, &asker);
    assert_int_equal(ask_and_keep(&asker, "held.example"), 0);
    assert_int_equal(ask(&other, "held.example"), 0);
    gate_wait_held(2);
    assert_int_equal(ask_and_keep(&asker, "a.example"), 0); /* still waiting when it is withdrawn */
    withdraw_all(&asker);
    fixture_close(&asker.fixture);
    let_all_go();
    run(&other, 1);
    fixture_close(&other.fixture);
    system_names_free(asker.names);
    assert_int_equal(asker.results, 0);
}

static bool always(void *context)
{
    (void)context;
    return true;
}

static void test_answer_already_posted_is_dropped_when_withdrawn(void **state)
{
    struct asker asker, other;
    (void)state;

    open_asker(&asker, 1);
    open_other(&other, &asker);
    other.source = asker.source;
    assert_int_equal(ask_and_keep(&asker, "a.example"), 0);
    assert_int_equal(ask_and_keep(&asker, "a.example"), 0);
    assert_int_equal(ask(&other, "held.example"), 0);
    gate_wait_held(1); /* the only thread is here: it has posted the two before */
    withdraw_all(&asker);
    fixture_run(&asker.fixture, always, NULL);
    assert_int_equal(asker.results, 0);

    assert_int_equal(ask(&asker, "a.example"), 0);
    let_all_go();
    run(&other, 1);
    run(&asker, 1); /* withdrawn is what was asked before, not the loop */
    fixture_close(&other.fixture);
    close_asker(&asker);
}

static void test_answer_never_fetched_goes_with_the_loop(void **state)
{
    struct asker asker, other;
    (void)state;

    open_asker(&asker, 1);
    open_other(&other, &asker);
    other.source = asker.source;
    assert_int_equal(ask(&asker, "a.example"), 0);
    assert_int_equal(ask_and_keep(&other, "held.example"), 0);
    gate_wait_held(1);
    withdraw_all(&other);
    fixture_close(&asker.fixture);
    fixture_close(&other.fixture);
    system_names_free(asker.names);
    let_all_go();
    assert_int_equal(asker.results, 0);
}

/* nsswitch.conf(5): whether the system knows more than /etc/hosts and DNS. */
static void test_which_sources_the_system_has(void **state)
{
    static const struct {
        const char *text;
        bool has_more;
    } rows[] = {
        {"", false},
        {"hosts: files dns\n", false},
        {"  hosts:\tfiles [!UNAVAIL=return] dns # mdns4\n", false},
        {"passwd: files systemd\nhosts: files dns\n", false},
        {"hosts: files mdns4_minimal [NOTFOUND=return] dns\n", true},
        {"hosts: files dns myhostname\n", true},
        {"hosts:files[NOTFOUND=continue]resolve", true},
    };
    char path[] = "/tmp/criproxy-nsswitch-XXXXXX";
    (void)state;

    int fd = mkstemp(path);
    assert_true(fd >= 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct system_names *names;
        size_t len = strlen(rows[i].text);
        print_message("    %s\n", rows[i].text);
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(pwrite(fd, rows[i].text, len, 0), (ssize_t)len);
        assert_int_equal(system_names_new(1, path, &names), 0);
        assert_int_equal(system_names_has_more(names), rows[i].has_more);
        system_names_free(names);
    }
    (void)close(fd);
    (void)unlink(path);
    assert_false(system_names_has_more(NULL));
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
    /* One that is not waited for. */
    if (ask_and_keep(asker, "a.example") == 0) {
        withdraw_all(asker);
    }
    fixture_close(&asker->fixture);
    return NULL;
}

static void test_loops_of_many_threads_share_the_pool(void **state)
{
    static struct asker askers[LOOPS];
    struct system_names *names;
    pthread_t threads[LOOPS];
    (void)state;

    gate_set(true);
    assert_int_equal(system_names_new(4, "/nonexistent", &names), 0);
    for (unsigned i = 0; i < LOOPS; i++) {
        fixture_open(&askers[i].fixture);
        askers[i].names = names;
        askers[i].fixture.until = has_results;
        askers[i].fixture.context = &askers[i];
        assert_int_equal(pthread_create(&threads[i], NULL, loop_main, &askers[i]), 0);
    }
    for (unsigned i = 0; i < LOOPS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(askers[i].results, ROUNDS);
    }
    system_names_free(names);
}

static void test_new_needs_a_thread_and_free_takes_null(void **state)
{
    struct system_names *names = NULL;
    (void)state;

    assert_int_equal(system_names_new(0, "/nonexistent", &names), -EINVAL);
    assert_null(names);
    system_names_free(NULL);
    system_names_withdraw(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses_come_in_order_without_repetition),
        cmocka_unit_test(test_system_s_own_resolver_knows_localhost),
        cmocka_unit_test(test_failures_say_which_kind),
        cmocka_unit_test(test_a_name_that_is_too_long_is_not_asked_for),
        cmocka_unit_test(test_threads_are_shared_by_source),
        cmocka_unit_test(test_free_does_not_wait_for_a_slow_resolver),
        cmocka_unit_test(test_withdrawn_questions_are_not_answered_others_are),
        cmocka_unit_test(test_answer_already_posted_is_dropped_when_withdrawn),
        cmocka_unit_test(test_which_sources_the_system_has),
        cmocka_unit_test(test_answer_never_fetched_goes_with_the_loop),
        cmocka_unit_test(test_loops_of_many_threads_share_the_pool),
        cmocka_unit_test(test_new_needs_a_thread_and_free_takes_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
