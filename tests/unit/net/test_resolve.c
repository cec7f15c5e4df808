/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The real resolver against a DNS server of the test's own on loopback, in a thread, which
 * answers by the first label of the name: "good.example" has addresses, "silent.example" gets
 * no answer, and so on.
 */
#include "net/resolve.h"
#include "net/system_names.h"
#include "net_fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- the C library's resolver, for what goes to the system ---- */

/* NOLINTBEGIN(*-reserved-identifier,cert-dcl*,readability-identifier-naming): ld's names */
int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                       struct addrinfo **ret_list);
void __wrap_freeaddrinfo(struct addrinfo *list);
/* NOLINTEND(*-reserved-identifier,cert-dcl*,readability-identifier-naming) */

static struct sockaddr_in system_address = {.sin_family = AF_INET};
static struct addrinfo system_info = {.ai_family = AF_INET,
                                      .ai_addr = (struct sockaddr *)(void *)&system_address,
                                      .ai_addrlen = sizeof(system_address)};

int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                       struct addrinfo **ret_list)
{
    (void)service;
    (void)hints;
    if (strncmp(node, "nx", 2) == 0) {
        return EAI_NONAME;
    }
    system_address.sin_addr.s_addr = htonl(0xc0000263u); /* 192.0.2.99 */
    *ret_list = &system_info;
    return 0;
}

void __wrap_freeaddrinfo(struct addrinfo *list)
{
    (void)list;
}

/* ---- a DNS server ---- */

#define DNS_HEAD 12u

struct dns_server {
    int fd;
    pthread_t thread;
    char where[32]; /* "127.0.0.1:PORT" */
    _Atomic unsigned questions;
    _Atomic unsigned ports[16]; /* source ports of the first of them */
};

static size_t put_record(uint8_t *out, uint16_t type, uint32_t ttl_s, const uint8_t *data,
                         size_t len)
{
    const uint8_t head[] = {0xc0,
                            DNS_HEAD,
                            0,
                            (uint8_t)type,
                            0,
                            1,
                            (uint8_t)(ttl_s >> 24),
                            (uint8_t)(ttl_s >> 16),
                            (uint8_t)(ttl_s >> 8),
                            (uint8_t)ttl_s,
                            0,
                            (uint8_t)len};
    memcpy(out, head, sizeof head);
    memcpy(out + sizeof head, data, len);
    return sizeof head + len;
}

static bool is_for(const uint8_t *question, const char *label)
{
    return question[DNS_HEAD] == strlen(label) &&
           memcmp(question + DNS_HEAD + 1, label, strlen(label)) == 0;
}

/* The answer to @p buffer, in place. @return its length, 0: none */
static size_t dns_answer(uint8_t *buffer)
{
    static const uint8_t ipv4[] = {192, 0, 2, 1}, ipv6[16] = {0x20, 0x01, 0x0d, 0xb8, [15] = 1};
    size_t at = DNS_HEAD;
    while (buffer[at] != 0) {
        at += buffer[at] + 1u;
    }
    bool is_ipv4 = buffer[at + 2] == 1; /* A; otherwise AAAA */
    at += 5;                            /* the root label, type, class */
    uint8_t code = is_for(buffer, "refused") ? 5 : is_for(buffer, "failing") ? 2 : 0;
    code = is_for(buffer, "nx") ? 3 : code;
    if (is_for(buffer, "silent") || (is_for(buffer, "half") && !is_ipv4)) {
        return 0;
    }
    buffer[2] = 0x81;
    buffer[3] = (uint8_t)(0x80 | code);
    memset(buffer + 6, 0, 6); /* without the question's EDNS record */
    if (is_for(buffer, "garbage")) {
        buffer[7] = 3; /* three answers, none of which is there */
        buffer[at++] = 0xff;
    } else if (is_for(buffer, "good") || is_for(buffer, "half")) {
        buffer[7] = 1;
        at += put_record(buffer + at, is_ipv4 ? 1 : 28, is_ipv4 ? 300 : 120, is_ipv4 ? ipv4 : ipv6,
                         is_ipv4 ? sizeof ipv4 : sizeof ipv6);
    }
    return at;
}

static void *dns_main(void *context)
{
    struct dns_server *server = context;
    uint8_t buffer[1500];

    for (;;) {
        struct sockaddr_in from;
        socklen_t from_len = sizeof from;
        ssize_t len =
            recvfrom(server->fd, buffer, 512, 0, (struct sockaddr *)(void *)&from, &from_len);
        if (len <= (ssize_t)DNS_HEAD) {
            return NULL; /* "end" */
        }
        unsigned index = server->questions++;
        if (index < sizeof server->ports / sizeof server->ports[0]) {
            server->ports[index] = ntohs(from.sin_port);
        }
        size_t answer = dns_answer(buffer);
        if (answer > 0) {
            (void)sendto(server->fd, buffer, answer, 0, (struct sockaddr *)(void *)&from, from_len);
        }
    }
}

static void dns_start(struct dns_server *server)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof name;

    memset(server, 0, sizeof *server);
    server->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(server->fd >= 0);
    assert_int_equal(bind(server->fd, (struct sockaddr *)(void *)&name, len), 0);
    assert_int_equal(getsockname(server->fd, (struct sockaddr *)(void *)&name, &len), 0);
    snprintf(server->where, sizeof server->where, "127.0.0.1:%u", ntohs(name.sin_port));
    assert_int_equal(pthread_create(&server->thread, NULL, dns_main, server), 0);
}

static void dns_stop(struct dns_server *server)
{
    struct sockaddr_in name;
    socklen_t len = sizeof name;

    assert_int_equal(getsockname(server->fd, (struct sockaddr *)(void *)&name, &len), 0);
    (void)sendto(server->fd, "end", 3, 0, (struct sockaddr *)(void *)&name, len);
    pthread_join(server->thread, NULL);
    (void)close(server->fd);
}

/* ---- one that asks ---- */

struct asking {
    struct fixture fixture;
    struct dns_server server;
    const char *servers[2];
    size_t server_count;
    struct system_names *system;
    struct resolver *resolver;
    uint32_t timeout_ms;
    size_t results, wanted;
    struct resolve_result result; /* the last */
};

static void on_asking_result(void *context, const struct resolve_result *result)
{
    struct asking *asking = context;

    asking->results++;
    asking->result = *result;
}

static bool asking_is_done(void *context)
{
    const struct asking *asking = context;
    return asking->results >= asking->wanted;
}

static void asking_run(struct asking *asking, size_t wanted)
{
    asking->wanted = wanted;
    fixture_run(&asking->fixture, asking_is_done, asking);
    assert_int_equal(asking->results, wanted);
}

static void asking_open(struct asking *asking, const char *nsswitch)
{
    memset(asking, 0, sizeof *asking);
    dns_start(&asking->server);
    asking->servers[0] = asking->server.where;
    asking->server_count = 1;
    asking->timeout_ms = 600;
    fixture_open(&asking->fixture);
    assert_int_equal(system_names_new(1, nsswitch, &asking->system), 0);
    assert_int_equal(resolver_new(asking->fixture.loop, asking->system, &asking->resolver), 0);
}

static void asking_close(struct asking *asking)
{
    resolver_free(asking->resolver);
    fixture_close(&asking->fixture);
    system_names_free(asking->system);
    dns_stop(&asking->server);
}

static int try_name(struct asking *asking, const char *name, size_t name_len,
                    struct resolve_question **ret_question)
{
    const struct resolve_query query = {
        .name = name,
        .name_len = name_len,
        .source = 1,
        .servers = asking->servers,
        .server_count = asking->server_count,
        .timeout_ms = asking->timeout_ms,
        .may_ask_system = true,
    };
    return resolver_ask(asking->resolver, &query, on_asking_result, asking, ret_question);
}

static struct resolve_question *ask_name(struct asking *asking, const char *name)
{
    struct resolve_question *question = NULL;

    assert_int_equal(try_name(asking, name, strlen(name), &question), 0);
    assert_non_null(question);
    return question;
}

/* ---- tests ---- */

static void test_addresses_and_the_shortest_ttl(void **state)
{
    struct address ipv4 = fixture_address("192.0.2.1:0"), ipv6 = fixture_address("[2001:db8::1]:0");
    struct asking asking;
    (void)state;

    asking_open(&asking, "/nonexistent");
    ask_name(&asking, "good.example");
    assert_int_equal(asking.results, 0); /* never from inside the call */
    asking_run(&asking, 1);
    assert_int_equal(asking.result.status, RESOLVE_OK);
    assert_int_equal(asking.result.ttl_s, 120);
    assert_int_equal(asking.result.address_count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_true(address_equal(&asking.result.addresses[i], &ipv4) ||
                    address_equal(&asking.result.addresses[i], &ipv6));
    }
    asking_close(&asking);
}

static void test_reasons_are_told_apart(void **state)
{
    static const struct {
        const char *name;
        enum resolve_status status;
        size_t address_count;
    } rows[] = {
        {"nx.example", RESOLVE_NOT_FOUND, 0},     {"empty.example", RESOLVE_NOT_FOUND, 0},
        {"refused.example", RESOLVE_FAILED, 0},   {"failing.example", RESOLVE_FAILED, 0},
        {"silent.example", RESOLVE_NO_ANSWER, 0}, {"half.example", RESOLVE_OK, 1},
    };
    struct asking asking;
    (void)state;

    asking_open(&asking, "/nonexistent");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        print_message("    %s\n", rows[i].name);
        ask_name(&asking, rows[i].name);
        asking_run(&asking, i + 1);
        assert_int_equal(asking.result.status, rows[i].status);
        assert_int_equal(asking.result.address_count, rows[i].address_count);
    }
    /* What cannot be read is a failure, or no answer where a version of c-ares waits on. */
    ask_name(&asking, "garbage.example");
    asking_run(&asking, sizeof rows / sizeof rows[0] + 1);
    assert_true(asking.result.status == RESOLVE_FAILED ||
                asking.result.status == RESOLVE_NO_ANSWER);
    asking_close(&asking);
}

static void test_closed_port_is_a_failure(void **state)
{
    struct asking asking;
    struct dns_server gone;
    (void)state;

    asking_open(&asking, "/nonexistent");
    dns_start(&gone);
    dns_stop(&gone);
    asking.servers[0] = gone.where;
    ask_name(&asking, "good.example");
    asking_run(&asking, 1);
    assert_int_equal(asking.result.status, RESOLVE_FAILED);

    asking.servers[1] = asking.server.where; /* the second server has it */
    asking.server_count = 2;
    ask_name(&asking, "good.example");
    asking_run(&asking, 2);
    assert_int_equal(asking.result.status, RESOLVE_OK);
    asking_close(&asking);
}

/* Hundreds of names whose server is silent, and one that it answers at once. */
static void test_silent_names_are_in_nobody_s_way(void **state)
{
    struct asking asking;
    struct resolve_question *silent[300];
    (void)state;

    asking_open(&asking, "/nonexistent");
    asking.timeout_ms = 600000;
    for (size_t i = 0; i < sizeof silent / sizeof silent[0]; i++) {
        char name[32];
        snprintf(name, sizeof name, "silent.n%zu.example", i);
        silent[i] = ask_name(&asking, name);
    }
    ask_name(&asking, "good.example");
    asking_run(&asking, 1);
    assert_int_equal(asking.result.status, RESOLVE_OK);
    for (size_t i = 0; i < sizeof silent / sizeof silent[0]; i += 2) {
        resolver_withdraw(silent[i]); /* the others go with the resolver */
    }
    ask_name(&asking, "nx.example");
    asking_run(&asking, 2);
    assert_int_equal(asking.result.status, RESOLVE_NOT_FOUND);
    asking_close(&asking);
}

/* RFC 5452 section 9.2: an attacker has to guess the port of each question anew. */
static void test_each_question_has_a_port_of_its_own(void **state)
{
    struct asking asking;
    unsigned distinct = 0;
    (void)state;

    asking_open(&asking, "/nonexistent");
    for (unsigned i = 0; i < 8; i++) {
        ask_name(&asking, "nx.example");
        asking_run(&asking, i + 1);
    }
    assert_true(asking.server.questions >= 16); /* A and AAAA */
    for (unsigned i = 2; i < 16; i += 2) {
        distinct += asking.server.ports[i] != asking.server.ports[i - 2];
    }
    assert_true(distinct >= 6); /* of 7; the kernel may choose the same one twice */
    asking_close(&asking);
}

static void test_what_is_no_host_name_is_never_asked(void **state)
{
    static const char *const rows[] = {
        "",
        ".",
        "..",
        "a..",
        "127.1",
        "1",
        "127.0.0.1",
        "2130706433",
        "0x7f000001",
        "0X7f.1.",
        "a.0x7f",
        "017700000001",
        "1.2.3.4.",
        "::1",
        "fe80::1%lo",
        "[::1]",
        "127.1 x",
        "a b",
        "a\tb",
        "a\nb",
        "a\x7f",
        "a\\.b",
        "a\\000b.c",
        "a,b.c",
        "*.c",
        "a/b",
        ".a",
        "a%62",
        "h\xc3\xb6lle.example", /* IDNs come as A-labels */
        "a.ab23456789-23456789-23456789-23456789-23456789-23456789-23456789",
    };
    struct asking asking;
    struct resolve_question *question = NULL;
    char longest[RESOLVE_NAME_MAX + 2];
    (void)state;

    asking_open(&asking, "/nonexistent");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (try_name(&asking, rows[i], strlen(rows[i]), &question) != -EINVAL) {
            fail_msg("asked for \"%s\"", rows[i]);
        }
    }
    assert_int_equal(try_name(&asking, "a\0b", 3, &question), -EINVAL);
    for (size_t i = 0; i < sizeof longest; i++) {
        longest[i] = i % 2 == 0 ? 'a' : '.';
    }
    assert_int_equal(try_name(&asking, longest, RESOLVE_NAME_MAX + 1, &question), -EINVAL);
    assert_null(question);
    assert_int_equal(asking.server.questions, 0);

    assert_int_equal(try_name(&asking, longest, RESOLVE_NAME_MAX, &question), 0);
    asking_run(&asking, 1);
    ask_name(&asking, "127.1.nx-4_7x.example."); /* digits in other labels than the last */
    asking_run(&asking, 2);
    asking_close(&asking);
}

/* The first name with an address of 127.0.0.0/8 that /etc/hosts has, but for localhost. */
static bool find_in_hosts_file(char name[RESOLVE_NAME_MAX + 1])
{
    char line[512];
    bool is_there = false;
    FILE *file = fopen("/etc/hosts", "re");

    while (file != NULL && !is_there && fgets(line, sizeof(line), file) != NULL) {
        is_there = sscanf(line, "127.%*s %253s", name) == 1 && strstr(name, "localhost") == NULL &&
                   resolve_is_host_name(name, strlen(name));
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return is_there;
}

static void test_hosts_file_comes_first(void **state)
{
    char name[RESOLVE_NAME_MAX + 1];
    struct asking asking;
    (void)state;

    if (!find_in_hosts_file(name)) {
        print_message("left out: /etc/hosts has no name for loopback but localhost\n");
        skip();
    }
    asking_open(&asking, "/nonexistent");
    ask_name(&asking, name);
    asking_run(&asking, 1);
    assert_int_equal(asking.result.status, RESOLVE_OK);
    assert_true(address_is_loopback(&asking.result.addresses[0]));
    assert_int_equal(asking.result.addresses[0].port, 0);
    assert_int_equal(asking.server.questions, 0);
    asking_close(&asking);
}

/* SEC-20: whatever /etc/hosts has, and though the DNS server has addresses for "good". */
static void test_localhost_is_not_asked_for(void **state)
{
    static const char *const names[] = {"localhost", "LocalHost.", "good.localhost",
                                        "good.a.LOCALHOST."};
    struct address ipv4 = fixture_address("127.0.0.1:0"), ipv6 = fixture_address("[::1]:0");
    struct asking asking;
    (void)state;

    asking_open(&asking, "/nonexistent");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        ask_name(&asking, names[i]);
        assert_int_equal(asking.results, i); /* never from inside the call */
        asking_run(&asking, (unsigned)i + 1);
        assert_int_equal(asking.result.status, RESOLVE_OK);
        assert_int_equal(asking.result.address_count, 2);
        assert_true(address_equal(&asking.result.addresses[0], &ipv4));
        assert_true(address_equal(&asking.result.addresses[1], &ipv6));
    }
    assert_int_equal(asking.server.questions, 0);
    ask_name(&asking, "good.notlocalhost");
    asking_run(&asking, sizeof names / sizeof names[0] + 1);
    assert_true(asking.server.questions > 0);
    resolver_withdraw(ask_name(&asking, "localhost"));
    asking_close(&asking);
}

/* DNS is not asked for .local, and first for all others. */
static void test_names_that_only_the_system_knows(void **state)
{
    struct address address = fixture_address("192.0.2.99:0");
    char path[] = "/tmp/criproxy-nsswitch-XXXXXX";
    struct asking asking;
    (void)state;

    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "hosts: files mdns dns\n", 22), 22);
    asking_open(&asking, path);
    ask_name(&asking, "printer.local");
    ask_name(&asking, "printer.Local.");
    asking_run(&asking, 2);
    assert_int_equal(asking.server.questions, 0);
    assert_int_equal(asking.result.status, RESOLVE_OK);
    assert_int_equal(asking.result.ttl_s, RESOLVE_TTL_UNKNOWN);
    assert_true(address_equal(&asking.result.addresses[0], &address));

    ask_name(&asking, "empty.example");
    asking_run(&asking, 3);
    assert_true(asking.server.questions > 0);
    assert_int_equal(asking.result.status, RESOLVE_OK);
    assert_true(address_equal(&asking.result.addresses[0], &address));
    ask_name(&asking, "nx.example");
    asking_run(&asking, 4);
    assert_int_equal(asking.result.status, RESOLVE_NOT_FOUND);
    ask_name(&asking, "refused.example"); /* no answer about the name: no other source either */
    asking_run(&asking, 5);
    assert_int_equal(asking.result.status, RESOLVE_FAILED);
    asking_close(&asking);
    (void)close(fd);
    (void)unlink(path);
}

static void test_own_shortage_is_not_the_name_s_fault(void **state)
{
    struct resolve_question *question = NULL;
    struct rlimit limit, none;
    struct asking asking;
    (void)state;

    asking_open(&asking, "/nonexistent");
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 3;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    int error = try_name(&asking, "good.example", 12, &question);
    if (error == 0) { /* told by the call, or by the result */
        asking.wanted = 1;
        asking_run(&asking, 1);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_true(error == -EMFILE || asking.result.status == RESOLVE_SHORTAGE);
    ask_name(&asking, "good.example");
    asking_run(&asking, error == 0 ? 2 : 1);
    assert_int_equal(asking.result.status, RESOLVE_OK);
    asking_close(&asking);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses_and_the_shortest_ttl),
        cmocka_unit_test(test_reasons_are_told_apart),
        cmocka_unit_test(test_closed_port_is_a_failure),
        cmocka_unit_test(test_silent_names_are_in_nobody_s_way),
        cmocka_unit_test(test_each_question_has_a_port_of_its_own),
        cmocka_unit_test(test_what_is_no_host_name_is_never_asked),
        cmocka_unit_test(test_hosts_file_comes_first),
        cmocka_unit_test(test_localhost_is_not_asked_for),
        cmocka_unit_test(test_names_that_only_the_system_knows),
        cmocka_unit_test(test_own_shortage_is_not_the_name_s_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
