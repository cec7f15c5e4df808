/* SPDX-License-Identifier: BSD-2-Clause */
#include "conn_fixture.h"

#include "net/sockaddr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Turns come at least so often, so that conditions on the clients' side are looked at. */
#define TURN_MS 2u

/* As much as counts of the time between two looks at the clock: a turn takes less. */
#define STEP_NS INT64_C(4000000)
#define NS_PER_S INT64_C(1000000000)

/* --- the clock ---------------------------------------------------------- */

/*
 * What the loop asks for the time, and libevent: the kernel's clock without the time in
 * which this process was not let run. So no deadline passes between two steps of a test
 * because the machine was busy with something else.
 */
int clock_gettime(clockid_t clock, struct timespec *ret_time)
{
    static int64_t real_ns, own_ns;
    struct timespec real;
    (void)clock;

    assert_int_equal(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &real), 0);
    int64_t now_ns = real.tv_sec * NS_PER_S + real.tv_nsec;
    int64_t passed_ns = now_ns - real_ns;
    own_ns += real_ns == 0 ? now_ns : passed_ns < STEP_NS ? passed_ns : STEP_NS;
    real_ns = now_ns;
    ret_time->tv_sec = (time_t)(own_ns / NS_PER_S);
    ret_time->tv_nsec = (long)(own_ns % NS_PER_S);
    return 0;
}

/* --- the owner ---------------------------------------------------------- */

static void *on_open(void *listener_context, struct conn *conn)
{
    struct owner *owner = listener_context;

    if (owner->refuses) {
        return NULL;
    }
    assert_true(owner->opened < PEERS_MAX);
    struct peer_end *end = calloc(1, sizeof *end);
    assert_non_null(end);
    end->conn = conn;
    owner->ends[owner->opened] = end;
    owner->opened++;
    if (owner->greets) {
        assert_true(conn_send(conn, (const uint8_t *)"hello", 5));
    }
    return owner;
}

static struct peer_end *end_of(struct owner *owner, const struct conn *conn)
{
    for (unsigned i = 0; i < owner->opened; i++) {
        if (owner->ends[i]->conn == conn) {
            return owner->ends[i];
        }
    }
    fail_msg("a callback for a connection that is not open");
    return NULL;
}

static size_t on_input(void *context, struct conn *conn, const uint8_t *data, size_t len)
{
    struct owner *owner = context;
    struct peer_end *end = end_of(owner, conn);
    size_t used = owner->unit == 0 ? len : len - len % owner->unit;

    if (owner->fails) {
        return SIZE_MAX;
    }
    if (owner->takes_nothing || used == 0) {
        return 0;
    }
    if (owner->pauses && used > owner->unit) {
        used = owner->unit; /* one at a time */
    }
    assert_true(used <= RECEIVED_MAX - end->received_len);
    memcpy(end->received + end->received_len, data, used);
    end->received_len += used;
    end->inputs++;
    if (owner->echoes) {
        (void)conn_send(conn, data, used);
    }
    if (owner->closes) {
        (void)conn_send(conn, (const uint8_t *)"bye", 3);
        conn_close(conn);
        assert_ptr_equal(end->conn, conn); /* on_close is not called from inside */
    }
    if (owner->pauses) {
        conn_pause(conn, true);
    }
    return used;
}

static void on_drained(void *context, struct conn *conn)
{
    struct peer_end *end = end_of(context, conn);
    if (end != NULL) { /* else it has failed */
        end->drained++;
    }
}

static uint32_t on_idle(void *context, struct conn *conn)
{
    struct owner *owner = context;
    if (owner->busy > 0) {
        owner->busy--;
        return CONN_NOT_IDLE;
    }
    if (owner->stays_ms > 0) {
        (void)conn_send(conn, (const uint8_t *)"bye", 3);
    }
    return owner->stays_ms;
}

static void on_close(void *context, struct conn *conn, const char *why)
{
    struct owner *owner = context;
    struct peer_end *end = end_of(owner, conn);

    assert_non_null(why);
    assert_non_null(end);
    if (end != NULL) {
        end->why = why;
        end->conn = NULL;
    }
    owner->closed++;
}

static enum conn_need need_of(void *context, const struct conn *conn)
{
    struct owner *owner = context;
    for (unsigned i = 0; i < owner->opened; i++) {
        if (owner->ends[i]->conn == conn) {
            return owner->need[i];
        }
    }
    return CONN_IDLE;
}

static void on_recycle(void *context, struct conn *conn)
{
    (void)context;
    (void)conn_send(conn, (const uint8_t *)"out", 3);
}

static const struct conn_handler handler = {
    .on_open = on_open,
    .on_input = on_input,
    .on_drained = on_drained,
    .on_idle = on_idle,
    .on_close = on_close,
};

static const struct conn_handler recycling_handler = {
    .on_open = on_open,
    .on_input = on_input,
    .on_drained = on_drained,
    .on_idle = on_idle,
    .need_of = need_of,
    .on_recycle = on_recycle,
    .on_close = on_close,
};

/* --- the loop ----------------------------------------------------------- */

static uint64_t on_turn(void *context, uint64_t now_ms)
{
    (void)context;
    return now_ms + TURN_MS;
}

struct conn_options owner_options(enum transport transport)
{
    struct conn_options options = {
        .transport = transport,
        .fd = -1,
        .connections_max = 100,
        .handshake_ms = PATIENCE_MS,
        .idle_ms = PATIENCE_MS,
        .input_max = 65536,
        .output_max = 65536,
        .write_ms = PATIENCE_MS,
    };

    assert_true(address_parse("127.0.0.1:0", 11, 0, &options.bind));
    return options;
}

void owner_open(struct owner *owner, const struct conn_options *options)
{
    assert_int_equal(loop_new(on_turn, NULL, &owner->loop), 0);
    assert_int_equal(conn_listen(owner->loop, options,
                                 owner->recycles ? &recycling_handler : &handler, owner,
                                 &owner->listener),
                     0);
    assert_int_not_equal(conn_listener_local(owner->listener)->port, 0);
}

void owner_close(struct owner *owner)
{
    conn_close_listener(owner->listener);
    assert_int_equal(owner->opened, owner->closed);
    loop_free(owner->loop);
    for (unsigned i = 0; i < owner->opened; i++) {
        free(owner->ends[i]);
    }
    memset(owner, 0, sizeof *owner);
}

void owner_run(struct owner *owner, bool (*condition)(void *context), void *context)
{
    uint64_t deadline_ms = loop_now_ms(owner->loop) + PATIENCE_MS;

    while (!condition(context)) {
        assert_int_equal(loop_run_turn(owner->loop), 0);
        if (loop_now_ms(owner->loop) >= deadline_ms) {
            fail_msg("waited in vain for %u ms", PATIENCE_MS);
        }
    }
}

void owner_run_for(struct owner *owner, uint32_t ms)
{
    uint64_t end_ms = loop_now_ms(owner->loop) + ms;

    while (loop_now_ms(owner->loop) < end_ms) {
        assert_int_equal(loop_run_turn(owner->loop), 0);
    }
}

struct count {
    const unsigned *at;
    unsigned wanted;
};

static bool has_count(void *context)
{
    const struct count *count = context;
    return *count->at >= count->wanted;
}

void owner_wait_opened(struct owner *owner, unsigned count)
{
    struct count wanted = {&owner->opened, count};
    owner_run(owner, has_count, &wanted);
}

void owner_wait_closed(struct owner *owner, unsigned count)
{
    struct count wanted = {&owner->closed, count};
    owner_run(owner, has_count, &wanted);
}

struct received {
    const struct owner *owner;
    unsigned index;
    size_t len;
};

static bool has_received(void *context)
{
    const struct received *wanted = context;
    return wanted->owner->opened > wanted->index &&
           wanted->owner->ends[wanted->index]->received_len >= wanted->len;
}

void owner_wait_received(struct owner *owner, unsigned index, size_t len)
{
    struct received wanted = {owner, index, len};
    owner_run(owner, has_received, &wanted);
}

/* --- clients ------------------------------------------------------------ */

int client_connect_from(const struct owner *owner, const char *from)
{
    union sockaddr_any name;
    struct address address;
    assert_true(address_parse(from, strlen(from), 0, &address));
    socklen_t len = sockaddr_from_address(&address, &name);
    int client = socket(name.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(client >= 0);
    assert_int_equal(bind(client, &name.any, len), 0);
    len = sockaddr_from_address(conn_listener_local(owner->listener), &name);
    assert_int_equal(connect(client, &name.any, len), 0);
    return client;
}

int client_connect(const struct owner *owner)
{
    union sockaddr_any name;
    socklen_t len = sockaddr_from_address(conn_listener_local(owner->listener), &name);
    int client = socket(name.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(client >= 0);
    assert_int_equal(connect(client, &name.any, len), 0);
    return client;
}

struct transfer {
    int client;
    const uint8_t *from;
    uint8_t *to;
    size_t len, done;
    bool has_ended;
};

static bool has_sent(void *context)
{
    struct transfer *transfer = context;
    ssize_t sent = send(transfer->client, transfer->from + transfer->done,
                        transfer->len - transfer->done, MSG_DONTWAIT | MSG_NOSIGNAL);

    assert_true(sent >= 0 || errno == EAGAIN);
    transfer->done += sent > 0 ? (size_t)sent : 0;
    return transfer->done == transfer->len;
}

void client_send(struct owner *owner, int client, const void *data, size_t len)
{
    struct transfer transfer = {.client = client, .from = data, .len = len};
    owner_run(owner, has_sent, &transfer);
}

static bool has_arrived(void *context)
{
    struct transfer *transfer = context;
    ssize_t got = recv(transfer->client, transfer->to + transfer->done,
                       transfer->len - transfer->done, MSG_DONTWAIT);

    if (got == 0 && transfer->done < transfer->len) {
        fail_msg("closed after %zu of %zu bytes", transfer->done, transfer->len);
    }
    assert_true(got >= 0 || errno == EAGAIN);
    transfer->done += got > 0 ? (size_t)got : 0;
    return transfer->done == transfer->len;
}

void client_receive(struct owner *owner, int client, void *ret_data, size_t len)
{
    struct transfer transfer = {.client = client, .to = ret_data, .len = len};
    owner_run(owner, has_arrived, &transfer);
}

void client_expect(struct owner *owner, int client, const char *text)
{
    char got[1024];
    size_t len = strlen(text);

    assert_true(len < sizeof got);
    client_receive(owner, client, got, len);
    got[len] = '\0';
    assert_string_equal(got, text);
}

static bool has_ended(void *context)
{
    struct transfer *transfer = context;
    uint8_t byte;
    ssize_t got = recv(transfer->client, &byte, 1, MSG_DONTWAIT);

    if (got > 0) {
        fail_msg("a byte 0x%02x more than expected", byte);
    }
    assert_true(got == 0 || errno == EAGAIN);
    return got == 0;
}

void client_expect_end(struct owner *owner, int client)
{
    struct transfer transfer = {.client = client};
    owner_run(owner, has_ended, &transfer);
}
