/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A listener of net/conn.h on the loopback with an owner that does what a test
 * tells it to, and clients on plain sockets. All of it is one thread, whose clock stands
 * still while the machine does something else: deadlines can be short.
 */
#ifndef CRIPROXY_CONN_FIXTURE_H
#define CRIPROXY_CONN_FIXTURE_H

#include "net/conn.h"
#include "net/loop_internal.h"
#include "support/test.h"

/* Waiting for longer than this fails the test. */
#define PATIENCE_MS 20000u

#define PEERS_MAX 8
#define RECEIVED_MAX (1u << 20)

/* What the owner knows of one connection, in the order in which they came. */
struct peer_end {
    struct conn *conn; /* NULL once it is closed */
    const char *why;   /* of the close */
    size_t received_len;
    uint8_t received[RECEIVED_MAX];
    unsigned inputs; /* calls of on_input with something used up */
    unsigned drained;
};

struct owner {
    struct loop *loop;
    struct conn_listener *listener;
    struct peer_end *ends[PEERS_MAX];
    unsigned opened, closed;
    size_t unit;        /* takes multiples of so many bytes only; 0: whatever comes */
    bool takes_nothing; /* until more comes */
    bool refuses;       /* on_open returns NULL */
    bool fails;         /* on_input returns SIZE_MAX */
    bool closes;        /* conn_close() inside on_input, after an answer */
    bool pauses;        /* conn_pause() inside on_input */
    bool greets;        /* says "hello" in on_open */
    bool echoes;        /* sends what it gets */
    uint32_t stays_ms;  /* on_idle says "bye" and returns it; 0: says nothing */
    unsigned busy;      /* so many times on_idle returns CONN_NOT_IDLE before */
    bool recycles;      /* connections may be closed to make room: on_recycle says "out" */
    enum conn_need need[PEERS_MAX];
};

/** Options with generous limits on 127.0.0.1, port 0. */
struct conn_options owner_options(enum transport transport);

void owner_open(struct owner *owner, const struct conn_options *options);

/** The listener may have been closed already. */
void owner_close(struct owner *owner);

/** Turns of the loop until @p condition holds, which may use a context. */
void owner_run(struct owner *owner, bool (*condition)(void *context), void *context);

/** Turns of the loop for a while, for what should not happen. */
void owner_run_for(struct owner *owner, uint32_t ms);

bool owner_has_closed_all(void *owner);

/** Wait until @p count connections have been opened, or closed. */
void owner_wait_opened(struct owner *owner, unsigned count);
void owner_wait_closed(struct owner *owner, unsigned count);

/** Wait until the connection @p index has received @p len bytes altogether. */
void owner_wait_received(struct owner *owner, unsigned index, size_t len);

/** A connected socket that does not block. */
int client_connect(const struct owner *owner);

/** The same from another loopback address, such as 127.0.0.2. */
int client_connect_from(const struct owner *owner, const char *from);

/** All of it, turning the loop where the socket is full. */
void client_send(struct owner *owner, int client, const void *data, size_t len);

/** Exactly @p len bytes, awaited. */
void client_receive(struct owner *owner, int client, void *ret_data, size_t len);

/** The bytes of @p text, awaited. */
void client_expect(struct owner *owner, int client, const char *text);

/** Wait until the other side has closed in order, with nothing more sent. */
void client_expect_end(struct owner *owner, int client);

#endif
