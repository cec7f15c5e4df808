/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a security context lets out to the wire, with a libcoap of the test's: it takes numbers as
 * libcoap does, or as it must not.
 */
#include "net/oscore_internal.h"

#include "base/log.h"
#include "coap/option.h"
#include "net/sockaddr.h"

#include "support/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define NAME "00112233445566778899aabbccddeeff"
#define SEEN_MAX 256u
#define DATAGRAM_MAX 1500u
#define PATIENCE_S 20

/* After so many exchanges that were given up, libcoap's session is closed (LEFT_MAX). */
#define GIVEN_UP 80u

/* ---- in place of libcoap, and of the worker's side ---- */

struct oscore_coap {
    struct upstream_oscore *oscore;
    int fd;
    uint64_t number;
    uint8_t last[DATAGRAM_MAX];
    size_t last_len;
};

static bool begins_anew; /* at 0, whatever the context says */
static unsigned session_count;

bool oscore_thread_watch(int fd, struct oscore_watch *watch)
{
    (void)fd;
    (void)watch;
    return true;
}

void oscore_link_release(struct oscore_link *link)
{
    (void)link;
}

void oscore_answer(const struct oscore_call *call, const struct message *response)
{
    (void)call;
    (void)response;
}

void oscore_answer_failure(const struct oscore_call *call, const struct upstream_failure *failure)
{
    (void)call;
    (void)failure;
}

static int open_loopback(struct address *ret_address)
{
    static const char any[] = "127.0.0.1:0";
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    union sockaddr_any name;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_true(address_parse(any, sizeof any - 1, 0, ret_address));
    socklen_t len = sockaddr_from_address(ret_address, &name);
    assert_int_equal(bind(fd, &name.any, len), 0);
    assert_int_equal(getsockname(fd, &name.any, &len), 0);
    sockaddr_to_address(&name.any, len, ret_address);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    return fd;
}

static void join(int one, int other)
{
    union sockaddr_any name;
    socklen_t len = sizeof name;

    assert_int_equal(getsockname(other, &name.any, &len), 0);
    assert_int_equal(connect(one, &name.any, len), 0);
}

struct oscore_coap *oscore_coap_new(struct upstream_oscore *oscore, int relay_fd,
                                    const struct oscore_call *parameters)
{
    struct oscore_coap *coap = calloc(1, sizeof *coap);
    struct address address;

    (void)parameters;
    assert_non_null(coap);
    coap->oscore = oscore;
    coap->fd = open_loopback(&address);
    coap->number = begins_anew ? 0 : oscore->number;
    join(coap->fd, relay_fd);
    join(relay_fd, coap->fd);
    session_count++;
    return coap;
}

void oscore_coap_free(struct oscore_coap *coap)
{
    if (coap != NULL) {
        (void)close(coap->fd);
        free(coap);
    }
}

int oscore_coap_fd(const struct oscore_coap *coap)
{
    return coap->fd;
}

void oscore_coap_process(struct oscore_coap *coap)
{
    uint8_t datagram[DATAGRAM_MAX];
    struct message message;
    ssize_t len;

    while ((len = recv(coap->fd, datagram, sizeof datagram, MSG_DONTWAIT)) >= 0) {
        assert_int_equal(message_decode(datagram, (size_t)len, &message), MESSAGE_OK);
        oscore_on_response(coap->oscore, &message);
    }
}

static void send_again(const struct oscore_coap *coap)
{
    assert_int_equal(send(coap->fd, coap->last, coap->last_len, 0), coap->last_len);
}

bool oscore_coap_send(struct oscore_coap *coap, const struct oscore_call *call, struct bytes echo)
{
    const uint8_t value[] = {2, (uint8_t)(coap->number >> 8), (uint8_t)coap->number};
    struct message_writer writer;

    (void)echo;
    message_writer_init(&writer, coap->last, sizeof coap->last, MESSAGE_CON, CODE(0, 2),
                        (uint16_t)(1000 + coap->number),
                        (struct bytes){call->token, call->token_len});
    message_writer_option(&writer, OPTION_oscore, (struct bytes){value, sizeof value});
    coap->last_len = writer.len;
    coap->oscore->number = ++coap->number;
    send_again(coap);
    return true;
}

/* ---- fixture ---- */

static char parent[] = "/tmp/test_oscore_context.XXXXXX";
static char directory[64];
static struct address addresses[2]; /* of the origin server */
static int origins[2];
static struct upstream_oscore *oscore;
static uint64_t seen[SEEN_MAX]; /* numbers on the wire */
static unsigned seen_count;
static uint8_t last_token;

static int make_world(void **unused)
{
    (void)unused;
    if (mkdtemp(parent) == NULL) {
        return -1;
    }
    (void)snprintf(directory, sizeof directory, "%s/state", parent);
    for (unsigned i = 0; i < 2; i++) {
        origins[i] = open_loopback(&addresses[i]);
    }
    return 0;
}

static int make_context(void **unused)
{
    (void)unused;
    seen_count = session_count = 0;
    begins_anew = false;
    oscore = calloc(1, sizeof *oscore);
    assert_non_null(oscore);
    oscore->directory = strdup(directory);
    (void)snprintf(oscore->name, sizeof oscore->name, "%s", NAME);
    oscore->relay_fd = oscore->wire_fd = -1;
    oscore->waiting_end = &oscore->waiting;
    return oscore->directory != NULL ? 0 : -1;
}

static int end_context(void **unused)
{
    static const char *const suffixes[] = {"", ".lock", ".new"};
    char name[160];

    (void)unused;
    oscore_context_free(oscore);
    for (unsigned i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        (void)snprintf(name, sizeof name, "%s/" NAME "%s", directory, suffixes[i]);
        (void)unlink(name);
    }
    (void)rmdir(directory);
    return 0;
}

static int end_world(void **unused)
{
    (void)unused;
    (void)close(origins[0]);
    (void)close(origins[1]);
    return rmdir(parent);
}

static void hand(enum oscore_call_kind kind, unsigned origin)
{
    struct oscore_call *call = calloc(1, sizeof *call);

    assert_non_null(call);
    call->kind = kind;
    call->oscore = oscore;
    call->address = addresses[origin];
    call->token_len = 1;
    call->token[0] = kind == OSCORE_REQUEST ? ++last_token : last_token;
    oscore_take(oscore, call);
    oscore_work(oscore);
}

/* A request, which libcoap protects and sends to the relay. */
static void ask_origin(unsigned origin)
{
    hand(OSCORE_REQUEST, origin);
    assert_non_null(oscore->coap);
    oscore_context_on_readable(oscore, OSCORE_RELAY);
}

/* @return the number of a datagram that came; waits for it. */
static uint64_t number_at(unsigned origin)
{
    uint8_t datagram[DATAGRAM_MAX];
    struct message message;
    struct bytes value;
    ssize_t len = recv(origins[origin], datagram, sizeof datagram, 0);

    assert_true(len > 0);
    assert_int_equal(message_decode(datagram, (size_t)len, &message), MESSAGE_OK);
    assert_true(option_find(message.options, OPTION_oscore, &value));
    assert_int_equal(value.len, 3);
    return (uint64_t)value.data[1] << 8 | value.data[2];
}

static void assert_nothing_at(unsigned origin)
{
    uint8_t datagram[DATAGRAM_MAX];

    assert_int_equal(recv(origins[origin], datagram, sizeof datagram, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
}

/* It comes on the wire, with a number that was not there before; its client then gives up. */
static void ask_and_give_up(unsigned origin)
{
    ask_origin(origin);
    uint64_t number = number_at(origin);
    for (unsigned i = 0; i < seen_count; i++) {
        assert_int_not_equal(seen[i], number);
    }
    assert_true(seen_count < SEEN_MAX);
    seen[seen_count++] = number;
    hand(OSCORE_CANCEL, origin);
}

/* ---- the tests ---- */

static void test_numbers_go_on_after_many_that_were_given_up(void **unused)
{
    (void)unused;
    for (unsigned i = 0; i < GIVEN_UP; i++) {
        ask_and_give_up(0);
    }
    assert_int_equal(session_count, 2);
}

static void test_numbers_go_on_at_another_address(void **unused)
{
    (void)unused;
    for (unsigned i = 0; i < 8; i++) {
        ask_and_give_up(i % 2);
    }
    assert_int_equal(session_count, 8);
}

static void test_a_number_of_an_earlier_session_does_not_leave(void **unused)
{
    (void)unused;
    ask_and_give_up(0);
    begins_anew = true; /* from now on, this libcoap */
    ask_origin(1);
    assert_nothing_at(0);
    assert_nothing_at(1);
    assert_int_equal(session_count, 2);
}

static void test_a_number_of_an_earlier_process_does_not_leave(void **unused)
{
    (void)unused;
    ask_and_give_up(0);
    oscore_context_free(oscore); /* a crash: what was reserved is lost */
    assert_int_equal(make_context(NULL), 0);
    begins_anew = true;
    ask_origin(0);
    assert_nothing_at(0);
}

static void test_a_retransmission_leaves_with_its_number(void **unused)
{
    (void)unused;
    ask_and_give_up(1);
    ask_origin(0);
    uint64_t number = number_at(0);
    send_again(oscore->coap);
    oscore_context_on_readable(oscore, OSCORE_RELAY);
    assert_int_equal(number_at(0), number);
}

/* Where the directory was emptied nothing else could tell. */
static void test_a_first_use_is_told_of_once(void **unused)
{
    static const char event[] = "oscore_first_use ";
    char text[4096] = "";
    int fd = memfd_create("log", MFD_CLOEXEC);

    (void)unused;
    assert_true(fd >= 0);
    log_open(fd);
    ask_and_give_up(0);
    oscore_context_free(oscore);
    assert_int_equal(make_context(NULL), 0);
    ask_and_give_up(0);
    log_open(STDERR_FILENO);
    assert_true(pread(fd, text, sizeof text - 1, 0) > 0);
    (void)close(fd);
    const char *line = strstr(text, event);
    assert_non_null(line);
    assert_non_null(strstr(line, directory));
    assert_non_null(strstr(line, "begin at 0"));
    assert_non_null(strstr(line, "new master secret or ID context"));
    assert_null(strstr(line + sizeof event, event));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, make_context, end_context)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_numbers_go_on_after_many_that_were_given_up),
        CASE(test_numbers_go_on_at_another_address),
        CASE(test_a_number_of_an_earlier_session_does_not_leave),
        CASE(test_a_number_of_an_earlier_process_does_not_leave),
        CASE(test_a_retransmission_leaves_with_its_number),
        CASE(test_a_first_use_is_told_of_once),
    };
    return cmocka_run_group_tests(tests, make_world, end_world);
}
