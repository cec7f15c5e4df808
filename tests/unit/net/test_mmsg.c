/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams in batches, with a kernel that takes them and with a sandbox that does not (seccomp).
 */
#include "net/udp_internal.h"
#include "net_fixture.h"
#include "support/seccomp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT 3u
#define SKIPPED 77
#define LENGTH_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Those that send or receive several datagrams, */
static const unsigned batch_calls[] = {
    __NR_recvmmsg,
    __NR_sendmmsg,
#ifdef __NR_recvmmsg_time64
    __NR_recvmmsg_time64,
#endif
};

/* and those for one. */
static const unsigned single_calls[] = {__NR_recvmsg, __NR_sendmsg};

/* Headers of datagrams of one byte each: what to send, or room for it. */
struct batch {
    struct mmsghdr headers[COUNT + 1];
    struct iovec parts[COUNT + 1];
    char bytes[COUNT + 1];
};

static void batch_of(struct batch *batch, const char *bytes)
{
    memset(batch, 0, sizeof(*batch));
    for (size_t i = 0; i < COUNT + 1; i++) {
        batch->bytes[i] = bytes[i];
        batch->parts[i] = (struct iovec){&batch->bytes[i], 1};
        batch->headers[i].msg_hdr = (struct msghdr){.msg_iov = &batch->parts[i], .msg_iovlen = 1};
    }
}

/* Whether all of them arrive in order, an empty socket is EAGAIN, and errors are the call's. */
static bool talks(void)
{
    int ends[2];
    struct batch batch;

    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) != 0) {
        return false;
    }
    batch_of(&batch, "abc");
    bool is_good = mmsg_send(ends[0], batch.headers, COUNT) == (int)COUNT;
    batch_of(&batch, "???");
    is_good = is_good && mmsg_receive(ends[1], batch.headers, COUNT + 1) == (int)COUNT &&
              memcmp(batch.bytes, "abc", COUNT) == 0 && batch.headers[COUNT - 1].msg_len == 1;
    is_good = is_good && mmsg_receive(ends[1], batch.headers, COUNT) == -1 && errno == EAGAIN;
    (void)close(ends[1]);
    is_good = is_good && mmsg_send(ends[0], batch.headers, COUNT) == -1 && errno == ECONNREFUSED;
    (void)close(ends[0]);
    return is_good;
}

/* In a process of its own, whose standard error goes to @p output. */
static void run_in_sandbox(int output)
{
    (void)dup2(output, STDERR_FILENO);
    if (!seccomp_refuse(batch_calls, LENGTH_OF(batch_calls), EPERM)) {
        _exit(SKIPPED);
    }
    mmsg_probe();
    mmsg_probe();
    _exit(talks() ? 0 : 1);
}

static void test_a_sandbox_that_refuses_is_slow_and_said_once(void **state)
{
    int ends[2], status = 0;
    char log[1024];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        run_in_sandbox(ends[1]);
    }
    (void)close(ends[1]);
    size_t len = 0;
    ssize_t got;
    while (len < sizeof(log) - 1 && (got = read(ends[0], log + len, sizeof(log) - 1 - len)) > 0) {
        len += (size_t)got;
    }
    log[len] = '\0';
    (void)close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == SKIPPED) {
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
    const char *line = strstr(log, "slow_calls level=warning refused=recvmmsg,sendmmsg ");
    if (line == NULL) {
        fail_msg("not said: %s", log);
    }
    assert_null(strstr(line + 1, "slow_calls"));
}

/* The calls for one datagram are refused, so that only the quick ones can have talked. */
static void test_a_kernel_that_has_the_calls_is_quick(void **state)
{
    int status = 0;

    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        mmsg_probe();
        if (!seccomp_refuse(single_calls, LENGTH_OF(single_calls), EPERM)) {
            _exit(SKIPPED);
        }
        _exit(talks() ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == SKIPPED) {
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_sandbox_that_refuses_is_slow_and_said_once),
        cmocka_unit_test(test_a_kernel_that_has_the_calls_is_quick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
