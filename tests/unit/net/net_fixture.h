/* SPDX-License-Identifier: BSD-2-Clause */
/* For tests of the real daemon/net on loopback: a loop that runs until something has come true. */
#ifndef CRIPROXY_NET_FIXTURE_H
#define CRIPROXY_NET_FIXTURE_H

#include "base/address.h"
#include "net/loop_internal.h"
#include "net/udp.h"
#include "support/test.h"

#include <string.h>

/* Waiting for longer than this fails the test. */
#define PATIENCE_MS 60000u

#define SOCKETS_MAX 4

struct fixture {
    struct loop *loop;
    struct udp_socket *sockets[SOCKETS_MAX]; /* flushed each turn */
    bool (*until)(void *context);
    void *context;
    uint64_t deadline_ms;
    unsigned turns;
    bool is_done, has_failed;
};

static inline void fixture_flush(struct fixture *fixture)
{
    for (size_t i = 0; i < SOCKETS_MAX; i++) {
        if (fixture->sockets[i] != NULL) {
            udp_flush(fixture->sockets[i]);
        }
    }
}

static inline uint64_t fixture_on_turn(void *context, uint64_t now_ms)
{
    struct fixture *fixture = context;

    fixture->turns++;
    fixture_flush(fixture);
    if (fixture->deadline_ms == 0) {
        fixture->deadline_ms = now_ms + PATIENCE_MS;
    }
    fixture->is_done = fixture->until(fixture->context);
    fixture->has_failed = !fixture->is_done && now_ms >= fixture->deadline_ms;
    return fixture->deadline_ms;
}

static inline void fixture_open(struct fixture *fixture)
{
    memset(fixture, 0, sizeof *fixture);
    assert_int_equal(loop_new(fixture_on_turn, fixture, &fixture->loop), 0);
}

static inline void fixture_close(struct fixture *fixture)
{
    for (size_t i = 0; i < SOCKETS_MAX; i++) {
        udp_close(fixture->sockets[i]);
    }
    loop_free(fixture->loop);
}

/** Turns until @p until holds at the end of one; the loop stays open for more. */
static inline void fixture_run(struct fixture *fixture, bool (*until)(void *context), void *context)
{
    fixture->until = until;
    fixture->context = context;
    fixture->deadline_ms = 0;
    fixture_flush(fixture); /* what the test has sent since the last turn */
    do {
        assert_int_equal(loop_run_turn(fixture->loop), 0);
    } while (!fixture->is_done && !fixture->has_failed);
    if (fixture->has_failed) {
        fail_msg("waited in vain for %u ms", PATIENCE_MS);
    }
}

static inline struct address fixture_address(const char *text)
{
    struct address address = {0};

    assert_true(address_parse(text, strlen(text), 0, &address));
    return address;
}

#endif
