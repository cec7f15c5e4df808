/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fake network itself, with the smallest program one can run on it: an echo
 * server that answers after a while, and asks a name at times.
 */
#include "base/timer.h"
#include "net/entropy.h"
#include "net/loop.h"
#include "net/udp.h"
#include "support/fake_net.h"
#include "support/test.h"

#include <errno.h>
#include <string.h>

struct echo {
    struct loop *loop;
    struct udp_socket *socket;
    struct resolver *resolver;
    struct timer_wheel wheel;
    struct timer timer;
    uint64_t answer_after_ms;
    struct udp_path path;
    uint8_t data[1500];
    size_t len;
    int last_error;
    struct address error_remote;
    uint8_t quoted[1500];
    size_t quoted_len;
    enum resolve_status status;
    struct address answers[RESOLVE_ADDRESSES_MAX];
    size_t answer_count, results, tasks;
    bool truncated;
};

static void on_answer_due(void *context, struct timer *timer, uint64_t now_ms)
{
    struct echo *echo = context;
    (void)timer;
    assert_int_equal(now_ms, loop_now_ms(echo->loop));
    udp_send(echo->socket, &echo->path, echo->data, echo->len);
}

static void on_datagram(void *context, struct udp_socket *socket, const struct datagram *datagram)
{
    struct echo *echo = context;
    assert_ptr_equal(socket, echo->socket);
    assert_true(datagram->len <= sizeof echo->data);
    memcpy(echo->data, datagram->data, datagram->len);
    echo->len = datagram->len;
    echo->path = datagram->path;
    echo->truncated = datagram->truncated;
    timer_set(&echo->wheel, &echo->timer, loop_now_ms(echo->loop) + echo->answer_after_ms,
              on_answer_due);
}

static void on_error(void *context, struct udp_socket *socket, const struct address *remote,
                     int error, const uint8_t *quoted, size_t quoted_len)
{
    struct echo *echo = context;
    (void)socket;
    echo->last_error = error;
    echo->error_remote = *remote;
    echo->quoted_len = quoted_len;
    memcpy(echo->quoted, quoted, quoted_len);
}

static void on_result(void *context, const struct resolve_result *result)
{
    struct echo *echo = context;
    echo->results++;
    echo->status = result->status;
    echo->answer_count = result->address_count;
    for (size_t i = 0; i < result->address_count; i++) {
        echo->answers[i] = result->addresses[i];
    }
}

static uint64_t on_turn(void *context, uint64_t now_ms)
{
    struct echo *echo = context;
    timer_wheel_advance(&echo->wheel, now_ms);
    if (echo->socket != NULL) {
        udp_flush(echo->socket);
    }
    return timer_wheel_next_ms(&echo->wheel);
}

static void echo_open(struct echo *echo, const char *address)
{
    static const struct udp_handler handler = {.on_datagram = on_datagram, .on_error = on_error};
    struct udp_options options = {.want_local = true, .datagram_max = 1500, .fd = -1};

    memset(echo, 0, sizeof *echo);
    fake_net_start(1);
    timer_wheel_init(&echo->wheel, fake_net_now_ms(), echo);
    assert_int_equal(loop_new(on_turn, echo, &echo->loop), 0);
    assert_true(address_parse(address, strlen(address), 0, &options.bind));
    assert_int_equal(udp_open(echo->loop, &options, &handler, echo, &echo->socket), 0);
    assert_int_equal(resolver_new(echo->loop, NULL, &echo->resolver), 0);
}

static void echo_close(struct echo *echo)
{
    resolver_free(echo->resolver);
    udp_close(echo->socket);
    echo->socket = NULL;
    loop_free(echo->loop);
    fake_net_stop();
}

static void test_answer_comes_at_its_millisecond(void **state)
{
    struct echo echo;
    (void)state;

    echo_open(&echo, "127.0.0.1:5683");
    struct fake_peer *client = fake_peer_new("127.0.0.1:40001");
    uint64_t start_ms = fake_net_now_ms();
    struct fake_datagram answer;

    echo.answer_after_ms = 250;
    fake_peer_send(client, "127.0.0.1:5683", "41 01 1234 aa b1 61");
    fake_peer_expect_nothing_within(client, 249);
    fake_peer_expect_within(client, 1, "4T 01 MID TOKEN b? 61", &answer);
    assert_int_equal(answer.at_ms, start_ms + 250);
    assert_int_equal(answer.len, 7);
    fake_peer_expect_nothing(client);

    echo.answer_after_ms = 0;
    fake_peer_reply(client, &answer, "6T 45 MID TOKEN ff 01");
    fake_peer_expect(client, "61 45 1234 aa ff ...", NULL);
    echo_close(&echo);
}

static void test_link_delays_both_ways(void **state)
{
    struct echo echo;
    (void)state;

    echo_open(&echo, "[::]:5683");
    fake_net_set_link(&(struct fake_link){.delay_min_ms = 30, .delay_max_ms = 30});
    struct fake_peer *client = fake_peer_new("[2001:db8::9]:40001");
    fake_peer_send(client, "[2001:db8:ffff::5]:5683", "40 00 0001");
    fake_peer_expect_nothing_within(client, 59);
    struct fake_datagram answer;
    fake_peer_expect_within(client, 1, "40 00 00 01", &answer);
    /* The reply leaves from the address that was asked. */
    assert_true(address_equal(&answer.from, &echo.path.local));
    assert_int_equal(answer.from.ip[15], 5);
    echo_close(&echo);
}

static void test_loss_and_duplication_come_about_as_often_as_told(void **state)
{
    struct echo echo;
    size_t count = 0;
    (void)state;

    echo_open(&echo, "127.0.0.1:5683");
    struct fake_peer *client = fake_peer_new("127.0.0.1:40001");
    fake_net_set_link(
        &(struct fake_link){.loss_percent = 20, .duplicate_percent = 10, .delay_max_ms = 5});
    for (unsigned i = 0; i < 2000; i++) {
        fake_peer_send(client, "127.0.0.1:5683", "40 00 0001");
        fake_net_run(20);
        while (fake_peer_take(client, NULL)) {
            count++;
        }
    }
    /* One answer for each arrival that is not followed by another before it is due. */
    assert_in_range(count, 1300, 1700);
    assert_in_range(fake_net_stats()->lost, 550, 950);
    assert_in_range(fake_net_stats()->duplicated, 200, 420);
    echo_close(&echo);
}

static void test_refused_datagram_comes_back_as_error_with_its_start(void **state)
{
    struct echo echo;
    (void)state;

    echo_open(&echo, "127.0.0.1:5683");
    fake_net_refuse("127.0.0.1:40001", ECONNREFUSED);
    struct fake_peer *client = fake_peer_new("127.0.0.1:40001");
    fake_peer_send(client, "127.0.0.1:5683", "40 00 0001");
    fake_net_run(1);
    assert_int_equal(echo.last_error, ECONNREFUSED);
    assert_true(address_equal(&echo.error_remote, fake_peer_address(client)));
    assert_int_equal(echo.quoted_len, 4);
    assert_memory_equal(echo.quoted, "\x40\x00\x00\x01", 4);

    fake_net_refuse("127.0.0.1:40001", 0);
    struct fake_datagram answer;
    fake_peer_send(client, "127.0.0.1:5683", "40 00 0002");
    fake_peer_expect(client, "40 00 0002", &answer);
    fake_peer_reject(client, &answer, EHOSTUNREACH);
    fake_net_run(0);
    assert_int_equal(echo.last_error, EHOSTUNREACH);
    echo_close(&echo);
}

static void test_datagrams_to_nobody_can_be_seen(void **state)
{
    struct echo echo;
    struct fake_datagram datagram;
    (void)state;

    echo_open(&echo, "127.0.0.1:5683");
    struct fake_peer *client = fake_peer_new("127.0.0.1:40001");
    fake_peer_send(client, "127.0.0.1:5683", "40 00 0003");
    echo.answer_after_ms = 10;
    fake_net_run(5);
    fake_peer_close(client);
    fake_net_run(5);
    assert_true(fake_net_take(&datagram));
    assert_true(address_equal(&datagram.to, fake_peer_address(client)));
    assert_int_equal(datagram.len, 4);
    assert_false(fake_net_take(&datagram));
    echo_close(&echo);
}

static void test_lost_on_demand(void **state)
{
    struct echo echo;
    (void)state;

    echo_open(&echo, "127.0.0.1:5683");
    struct fake_peer *client = fake_peer_new("127.0.0.1:40001");
    fake_peer_lose(client, 1);
    fake_peer_send(client, "127.0.0.1:5683", "40 00 0003");
    fake_peer_expect_nothing(client);
    fake_peer_send(client, "127.0.0.1:5683", "40 00 0004");
    fake_peer_expect(client, "40 00 0004", NULL);
    echo_close(&echo);
}

static void test_too_long_a_datagram_arrives_truncated(void **state)
{
    static const uint8_t bytes[1501];
    struct echo echo;
    (void)state;

    echo_open(&echo, "127.0.0.1:5683");
    struct fake_peer *client = fake_peer_new("127.0.0.1:40001");
    fake_peer_send_bytes(client, udp_local(echo.socket), bytes, 1500);
    fake_net_run(0);
    assert_false(echo.truncated);
    fake_peer_send_bytes(client, udp_local(echo.socket), bytes, 1501);
    fake_net_run(0);
    assert_true(echo.truncated);
    assert_int_equal(echo.len, 1500);
    echo_close(&echo);
}

static int try_to_ask(struct echo *echo, const char *name, size_t name_len,
                      struct resolve_question **ret_question)
{
    const struct resolve_query query = {.name = name, .name_len = name_len, .timeout_ms = 1000};
    return resolver_ask(echo->resolver, &query, on_result, echo, ret_question);
}

static struct resolve_question *ask(struct echo *echo, const char *name)
{
    struct resolve_question *question = NULL;
    assert_int_equal(try_to_ask(echo, name, strlen(name), &question), 0);
    return question;
}

static void test_names_resolve_as_scripted(void **state)
{
    struct echo echo;
    (void)state;

    echo_open(&echo, "127.0.0.1:5683");
    fake_net_name("sensor.example", 40, RESOLVE_OK, "192.0.2.5 2001:db8::5");
    fake_net_name("slow.example", 5000, RESOLVE_NO_ANSWER, "");
    ask(&echo, "Sensor.example");
    assert_int_equal(echo.results, 0);
    fake_net_run(39);
    assert_int_equal(echo.results, 0);
    fake_net_run(1);
    assert_int_equal(echo.results, 1);
    assert_int_equal(echo.status, RESOLVE_OK);
    assert_int_equal(echo.answer_count, 2);
    assert_int_equal(echo.answers[1].family, ADDRESS_IPV6);
    ask(&echo, "nobody.example");
    fake_net_run(0);
    assert_int_equal(echo.status, RESOLVE_NOT_FOUND);

    ask(&echo, "slow.example");
    ask(&echo, "slow.example");
    fake_net_run(5000);
    assert_int_equal(echo.status, RESOLVE_NO_ANSWER);
    assert_int_equal(echo.results, 4);
    struct resolve_question *none = NULL;
    assert_int_equal(try_to_ask(&echo, "127.1", 5, &none), -EINVAL);
    assert_int_equal(try_to_ask(&echo, "a\0b", 3, &none), -EINVAL);
    assert_int_equal(try_to_ask(&echo, "", 0, &none), -EINVAL);
    fake_net_resolver_fails(EMFILE);
    assert_int_equal(try_to_ask(&echo, "slow.example", 12, &none), -EMFILE);
    fake_net_resolver_fails(0);

    resolver_withdraw(ask(&echo, "slow.example"));
    fake_net_run(10000);
    assert_int_equal(echo.results, 4);
    assert_int_equal(fake_net_questions(), 5);
    assert_int_equal(fake_net_questions_withdrawn(), 1);
    echo_close(&echo);
}

static void count_task(void *context)
{
    struct echo *echo = context;
    echo->tasks++;
}

static void test_posted_tasks_run_in_the_next_turn(void **state)
{
    struct echo echo;
    (void)state;

    echo_open(&echo, "127.0.0.1:5683");
    assert_int_equal(loop_post(echo.loop, count_task, &echo), 0);
    assert_int_equal(loop_post(echo.loop, count_task, &echo), 0);
    assert_int_equal(echo.tasks, 0);
    fake_net_run(0);
    assert_int_equal(echo.tasks, 2);
    echo_close(&echo);
}

static void test_ports_are_taken_once(void **state)
{
    static const struct udp_handler handler = {.on_datagram = on_datagram, .on_error = on_error};
    struct udp_options options = {.fd = -1};
    struct udp_socket *socket;
    struct echo echo;
    (void)state;

    echo_open(&echo, "127.0.0.1:5683");
    options.bind = *udp_local(echo.socket);
    assert_int_equal(udp_open(echo.loop, &options, &handler, &echo, &socket), -EADDRINUSE);
    options.bind.port = 0;
    assert_int_equal(udp_open(echo.loop, &options, &handler, &echo, &socket), 0);
    assert_int_not_equal(udp_local(socket)->port, 0);
    udp_close(socket);
    options.bind.family = ADDRESS_NONE;
    assert_int_equal(udp_open(echo.loop, &options, &handler, &echo, &socket), -EAFNOSUPPORT);
    echo_close(&echo);
}

static void test_same_seed_same_randomness(void **state)
{
    struct entropy entropy;
    uint64_t first[3];
    (void)state;

    for (unsigned round = 0; round < 2; round++) {
        fake_net_start(7);
        entropy_init(&entropy);
        for (unsigned i = 0; i < 3; i++) {
            uint64_t value = entropy_u64(&entropy);
            if (round == 0) {
                first[i] = value;
            }
            assert_int_equal(value, first[i]);
        }
        assert_int_not_equal(first[0], first[1]);
        fake_net_stop();
    }
}

static void stop_at_once(void *context)
{
    struct echo *echo = context;
    loop_stop(echo->loop);
}

static void test_loop_run_ends_with_loop_stop(void **state)
{
    struct echo echo;
    (void)state;

    echo_open(&echo, "127.0.0.1:5683");
    loop_post(echo.loop, stop_at_once, &echo);
    assert_int_equal(loop_run(echo.loop), 0);
    echo_close(&echo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answer_comes_at_its_millisecond),
        cmocka_unit_test(test_link_delays_both_ways),
        cmocka_unit_test(test_loss_and_duplication_come_about_as_often_as_told),
        cmocka_unit_test(test_refused_datagram_comes_back_as_error_with_its_start),
        cmocka_unit_test(test_datagrams_to_nobody_can_be_seen),
        cmocka_unit_test(test_lost_on_demand),
        cmocka_unit_test(test_too_long_a_datagram_arrives_truncated),
        cmocka_unit_test(test_names_resolve_as_scripted),
        cmocka_unit_test(test_posted_tasks_run_in_the_next_turn),
        cmocka_unit_test(test_ports_are_taken_once),
        cmocka_unit_test(test_same_seed_same_randomness),
        cmocka_unit_test(test_loop_run_ends_with_loop_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
