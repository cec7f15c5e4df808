/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cache.shared in virtual time, of secure targets and of clients that are told apart: what is kept
 * there, for whom, and under which secret.
 */
#include "replay/replay.h"
#include "replay/words.h"
#include "support/fake_shared.h"

#include "client/listen.h"
#include "support/fake_client.h"
#include "support/fake_dtls.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct replay replay;

static char secret_file[] = "/tmp/criproxy-secret-XXXXXX";

#define PRIVATE_SETTINGS 6u

static void set_private(const char *settings[PRIVATE_SETTINGS], const char *more, const char *most)
{
    static char secret_setting[64];
    const char *const all[PRIVATE_SETTINGS] = {
        "cache.max-bytes=1MiB", "cache.shared=redis://192.0.2.6:6379", secret_setting, more, most};
    (void)snprintf(secret_setting, sizeof(secret_setting), "cluster.secret-file=%s", secret_file);
    memcpy(settings, all, sizeof(all));
}

/* With a listener for DTLS, and what @p more says. */
static void start_private(const char *more, const char *most)
{
    const char *settings[PRIVATE_SETTINGS];
    struct dtls_options options = {.sessions_max = 10, .handshakes_max = 10};
    set_private(settings, more, most);
    fake_shared_reset();
    replay_start(&replay, settings);
    assert_true(address_parse("192.0.2.9:5684", 14, 0, &options.udp.bind));
    assert_int_equal(listen_dtls(&replay.engine->client, &options, NULL), 0);
}

static void stop_private(void)
{
    fake_net_run(300000);
    replay_stop(&replay);
    fake_dtls_free();
}

#define SECRET_LEN 32u

static bool write_secret(int fd, const char secret[SECRET_LEN + 1])
{
    bool is_good = fd >= 0 && pwrite(fd, secret, SECRET_LEN, 0) == (ssize_t)SECRET_LEN;
    return fd >= 0 && close(fd) == 0 && is_good;
}

static int make_secret(void **state)
{
    (void)state;
    return write_secret(mkstemp(secret_file), "0123456789abcdef0123456789abcdef") ? 0 : -1;
}

static int remove_secret(void **state)
{
    (void)state;
    return unlink(secret_file);
}

static void ask_securely(struct dtls_session *session)
{
    fake_dtls_send(session, words("41 01 0001 aa", "35=coaps://h/x"));
    fake_net_run(0);
}

static void serve_securely(const char *digit)
{
    char answer[16];
    fake_client_expect("dtls 192.0.2.5:5684 h", "01 31 68 81 78");
    (void)snprintf(answer, sizeof(answer), "45 ff %s", digit);
    fake_client_answer(answer);
    fake_net_run(0);
}

static void expect_securely(struct dtls_session *session, const char *text)
{
    char answer[48];
    (void)snprintf(answer, sizeof(answer), "61 45 0001 aa %s", text);
    fake_dtls_expect(session, answer);
}

static struct dtls_session *client_named(const char *from, const char *identity)
{
    struct dtls_session *session = fake_dtls_open(from);
    fake_dtls_identify(session, identity, NULL);
    return session;
}

/* The first level is emptied before each: what is given comes from the server. */
static void test_private_answers_are_for_their_client(void **state)
{
    (void)state;
    start_private("cache.shared-private=yes", NULL);
    struct dtls_session *alice = client_named("192.0.2.21:1", "alice"),
                        *bob = client_named("192.0.2.22:1", "bob"),
                        *again = client_named("192.0.2.23:1", "alice");
    ask_securely(alice);
    fake_shared_answer();
    serve_securely("31");
    expect_securely(alice, "ff 31");
    assert_int_equal(fake_shared_counts().puts, 1);
    fake_shared_channel(true);
    ask_securely(bob);
    fake_shared_answer();
    serve_securely("32");
    expect_securely(bob, "ff 32");
    fake_shared_channel(true);
    ask_securely(again);
    fake_shared_answer();
    fake_client_expect_nothing();
    expect_securely(again, "ff 31");
    assert_int_equal(replay_metric(&replay, cache_shared_hits), 1);
    stop_private();
}

/* Names and seals are made from the secret of the configuration that holds now. */
static void test_a_reload_takes_another_secret(void **state)
{
    const char *settings[PRIVATE_SETTINGS];
    (void)state;
    start_private("cache.shared-private=yes", NULL);
    struct dtls_session *alice = client_named("192.0.2.21:1", "alice");
    ask_securely(alice);
    fake_shared_answer();
    serve_securely("31");
    expect_securely(alice, "ff 31");
    fake_shared_channel(true); /* the first level is empty again */
    assert_true(write_secret(open(secret_file, O_WRONLY), "fedcba9876543210fedcba9876543210"));
    set_private(settings, "cache.shared-private=yes", NULL);
    replay_reload(&replay, settings);
    struct dtls_session *again = client_named("192.0.2.23:1", "alice");
    ask_securely(again);
    fake_shared_answer();
    serve_securely("32");
    expect_securely(again, "ff 32");
    assert_int_equal(replay_metric(&replay, cache_shared_hits), 0);
    stop_private();
}

/* It has a number of this worker's: another one has the same number there. */
static void test_a_client_without_a_name_shares_nothing(void **state)
{
    (void)state;
    start_private("cache.shared-private=yes", NULL);
    struct dtls_session *nameless = fake_dtls_open("192.0.2.21:1");
    fake_dtls_certify(nameless, NULL);
    ask_securely(nameless);
    serve_securely("31");
    expect_securely(nameless, "ff 31");
    assert_int_equal(fake_shared_counts().looks, 0);
    stop_private();
}

/* Whatever cache.secure-targets says: the server does not get it in the clear. */
static void test_secure_targets_stay_out_unless_sealed(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        start_private("cache.secure-targets=shared",
                      i == 0 ? "cache.shared-private=no" : "cache.shared-private=yes");
        struct dtls_session *alice = client_named("192.0.2.21:1", "alice");
        ask_securely(alice);
        assert_int_equal(fake_shared_counts().looks, i);
        fake_shared_answer();
        serve_securely("31");
        expect_securely(alice, "ff 31");
        assert_int_equal(fake_shared_counts().puts, i);
        stop_private();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_private_answers_are_for_their_client),
        cmocka_unit_test(test_a_reload_takes_another_secret),
        cmocka_unit_test(test_a_client_without_a_name_shares_nothing),
        cmocka_unit_test(test_secure_targets_stay_out_unless_sealed),
    };
    return cmocka_run_group_tests(tests, make_secret, remove_secret);
}
