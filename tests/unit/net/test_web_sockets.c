/* SPDX-License-Identifier: BSD-2-Clause */
/* Sockets of libcurl on a loop, with ours in libcurl's place. */
#include "net/loop_internal.h"
#include "net/web_internal.h"
#include "support/test.h"

#include <event2/event.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct world {
    struct loop *loop;
    struct web web;
    struct web_pool pool;
    int fd, peer; /* connected; the first is libcurl's */
};

static unsigned told;
static int told_what;

static CURLMcode note_action(CURLM *multi, curl_socket_t fd, int what, int *running)
{
    (void)multi;
    (void)fd;
    told++;
    told_what = what;
    *running = 1;
    return CURLM_OK;
}

/* CURLINFO_PRIVATE: whose socket it was; and over which connection, and version of HTTP. */
static struct web_request request;
static long local_port, http_version;

static CURLcode note_info(CURL *easy, CURLINFO info, ...)
{
    va_list arguments;
    (void)easy;
    va_start(arguments, info);
    if (info == CURLINFO_LOCAL_PORT) {
        *va_arg(arguments, long *) = local_port;
    } else if (info == CURLINFO_HTTP_VERSION) {
        *va_arg(arguments, long *) = http_version;
    } else {
        *va_arg(arguments, struct web_request **) = &request;
    }
    va_end(arguments);
    return CURLE_OK;
}

static uint64_t no_turn(void *context, uint64_t now_ms)
{
    (void)context;
    (void)now_ms;
    return UINT64_MAX;
}

/* A socket of libcurl's that is connected to one of ours. */
static void connect_both(struct world *world)
{
    int pair[2];
    world->fd = web_sockets_open(&world->pool, AF_UNIX, SOCK_STREAM, 0);
    assert_true(world->fd >= 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(dup2(pair[0], world->fd), world->fd);
    (void)close(pair[0]);
    world->peer = pair[1];
}

static int set_up(void **state)
{
    static struct world world;
    memset(&world, 0, sizeof(world));
    told = 0;
    web_curl.multi_socket_action = note_action;
    web_curl.easy_getinfo = note_info;
    request = (struct web_request){.is_clean = true};
    http_version = CURL_HTTP_VERSION_1_1;
    assert_int_equal(loop_new(no_turn, NULL, &world.loop), 0);
    assert_int_equal(hash_map_init(&world.web.sockets, 16, 0), 0);
    world.web.loop = world.loop;
    world.pool.web = &world.web;
    connect_both(&world);
    *state = &world;
    return 0;
}

static int tear_down(void **state)
{
    struct world *world = *state;
    assert_int_equal(web_sockets_close(&world->web, world->fd), 0);
    (void)close(world->peer);
    hash_map_clear(&world->web.sockets);
    loop_free(world->loop);
    return 0;
}

static void want(struct world *world, int what)
{
    assert_int_equal(web_sockets_on_want(NULL, world->fd, what, &world->pool, NULL), 0);
}

/* Once round, without waiting. */
static void turn(const struct world *world)
{
    assert_true(event_base_loop(world->loop->base, EVLOOP_ONCE | EVLOOP_NONBLOCK) >= 0);
}

static int event_count(const struct world *world)
{
    return event_base_get_num_events(world->loop->base, EVENT_BASE_COUNT_ADDED);
}

static void test_the_event_of_an_idle_connection_stays(void **state)
{
    struct world *world = *state;
    int without = event_count(world);
    want(world, CURL_POLL_IN);
    assert_int_equal(event_count(world), without + 1);
    for (int i = 0; i < 3; i++) {
        want(world, CURL_POLL_REMOVE);
        assert_int_equal(event_count(world), without + 1);
        want(world, CURL_POLL_IN);
        assert_int_equal(event_count(world), without + 1);
    }
    assert_int_equal(send(world->peer, "x", 1, 0), 1);
    turn(world);
    assert_int_equal(told, 1);
    assert_int_equal(told_what, CURL_CSELECT_IN);
}

/* The server closes an idle connection, or sends what nobody has asked for. */
static void test_what_comes_on_an_idle_connection_is_met_once(void **state)
{
    struct world *world = *state;
    int without = event_count(world);
    want(world, CURL_POLL_IN);
    want(world, CURL_POLL_REMOVE);
    assert_int_equal(shutdown(world->peer, SHUT_WR), 0);
    turn(world);
    assert_int_equal(told, 0);
    assert_int_equal(event_count(world), without); /* it would be met in each turn */
    want(world, CURL_POLL_IN);
    turn(world);
    assert_int_equal(told, 1);
}

static void test_a_socket_that_can_be_written_to_does_not_wake(void **state)
{
    struct world *world = *state;
    int without = event_count(world);
    want(world, CURL_POLL_IN);
    want(world, CURL_POLL_INOUT);
    turn(world);
    assert_int_equal(told_what, CURL_CSELECT_OUT);
    told = 0;
    want(world, CURL_POLL_REMOVE);
    assert_int_equal(event_count(world), without + 1); /* for what nobody has asked for */
    turn(world);
    assert_int_equal(event_count(world), without + 1);
    assert_int_equal(told, 0);
}

/* It would be taken for the answer to the next request. A request that is paused has its own. */
static void test_what_nobody_has_asked_for_ends_the_connection(void **state)
{
    struct world *world = *state;
    char byte;
    for (int is_over = 0; is_over <= 1; is_over++) {
        want(world, CURL_POLL_IN);
        request.is_clean = is_over != 0;
        want(world, CURL_POLL_REMOVE);
        assert_int_equal(send(world->peer, "x", 1, 0), 1);
        turn(world);
        assert_int_equal(recv(world->peer, &byte, 1, MSG_DONTWAIT), is_over != 0 ? 0 : -1);
        assert_int_equal(told, 0);
    }
}

/* Over TLS, a second answer that came with the first: the next request would not wait for a turn.
 */
static void test_what_is_there_when_the_request_ends_is_met_at_once(void **state)
{
    struct world *world = *state;
    char byte;
    for (int is_tls = 0; is_tls <= 1; is_tls++) {
        world->pool.credentials = is_tls ? (void *)world : NULL; /* never looked into */
        want(world, CURL_POLL_IN);
        assert_int_equal(send(world->peer, "x", 1, 0), 1);
        want(world, CURL_POLL_REMOVE);
        assert_int_equal(recv(world->peer, &byte, 1, MSG_DONTWAIT), is_tls ? 0 : -1);
    }
    assert_int_equal(told, 0);
}

/* Its settings and the like may come at any time. */
static void test_a_server_may_send_on_an_idle_connection_of_http_2(void **state)
{
    struct world *world = *state;
    char byte;
    http_version = CURL_HTTP_VERSION_2;
    want(world, CURL_POLL_IN);
    want(world, CURL_POLL_REMOVE);
    assert_int_equal(send(world->peer, "x", 1, 0), 1);
    turn(world);
    assert_int_equal(recv(world->peer, &byte, 1, MSG_DONTWAIT), -1);
    assert_int_equal(told, 0);
}

/* As connect_both(), over TCP. @return the port of libcurl's socket */
static long connect_by_tcp(struct world *world)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(name);
    int listener = socket(AF_INET, SOCK_STREAM, 0), own = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (const struct sockaddr *)&name, len), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&name, &len), 0);
    assert_int_equal(connect(own, (const struct sockaddr *)&name, len), 0);
    (void)close(world->peer);
    world->peer = accept(listener, (struct sockaddr *)&name, &len);
    assert_true(world->peer >= 0);
    assert_int_equal(dup2(own, world->fd), world->fd);
    (void)close(own);
    (void)close(listener);
    return ntohs(name.sin_port);
}

/*
 * The answer to the next request was there at once, so that libcurl has not wanted the socket
 * before it was paused; the rest of it comes. What comes to another one is as before.
 */
static void test_a_request_that_is_paused_at_once_has_asked(void **state)
{
    struct world *world = *state;
    char byte;
    long port = connect_by_tcp(world);
    for (int is_other = 0; is_other <= 1; is_other++) {
        want(world, CURL_POLL_IN);
        want(world, CURL_POLL_REMOVE);
        local_port = port + is_other;
        web_sockets_on_pause(&world->pool, NULL);
        assert_int_equal(send(world->peer, "x", 1, 0), 1);
        assert_int_equal(poll(&(struct pollfd){world->fd, POLLIN, 0}, 1, 10000), 1);
        turn(world);
        assert_int_equal(poll(&(struct pollfd){world->peer, POLLIN, 0}, 1, is_other * 10000),
                         is_other);
        assert_int_equal(recv(world->peer, &byte, 1, MSG_DONTWAIT), is_other ? 0 : -1);
        assert_int_equal(told, 0);
    }
}

/* Neither is a socket of somebody else's watched, nor is the number of the first one told. */
static void test_the_number_of_a_closed_socket_is_free(void **state)
{
    struct world *world = *state;
    int without = event_count(world), number = world->fd;
    want(world, CURL_POLL_IN);
    want(world, CURL_POLL_REMOVE);
    assert_int_equal(web_sockets_close(&world->web, world->fd), 0);
    assert_int_equal(event_count(world), without);
    (void)close(world->peer);
    connect_both(world);
    assert_int_equal(world->fd, number);
    assert_int_equal(send(world->peer, "x", 1, 0), 1);
    turn(world);
    assert_int_equal(told, 0);
    want(world, CURL_POLL_IN);
    turn(world);
    assert_int_equal(told, 1);
}

/* What libcurl opens for itself it closes by itself. */
static void test_a_socket_that_is_not_ours_is_given_up_at_once(void **state)
{
    struct world *world = *state;
    int pair[2], without = event_count(world);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    for (int what = CURL_POLL_IN; what <= CURL_POLL_INOUT; what++) {
        assert_int_equal(web_sockets_on_want(NULL, pair[0], what, &world->pool, NULL), 0);
        assert_int_equal(event_count(world), without + 1);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(web_sockets_on_want(NULL, pair[0], CURL_POLL_REMOVE, &world->pool, NULL),
                         0);
        assert_int_equal(event_count(world), without);
    }
    (void)close(pair[0]);
    (void)close(pair[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_event_of_an_idle_connection_stays, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_what_comes_on_an_idle_connection_is_met_once, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_socket_that_can_be_written_to_does_not_wake, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_what_nobody_has_asked_for_ends_the_connection, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_there_when_the_request_ends_is_met_at_once,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_server_may_send_on_an_idle_connection_of_http_2,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_request_that_is_paused_at_once_has_asked, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_the_number_of_a_closed_socket_is_free, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_socket_that_is_not_ours_is_given_up_at_once, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
