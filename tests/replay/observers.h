/* SPDX-License-Identifier: BSD-2-Clause */
/* Clients that observe, in scripts: registrations, and what notifications say. */
#ifndef CRIPROXY_REPLAY_OBSERVERS_H
#define CRIPROXY_REPLAY_OBSERVERS_H

#include "replay/passers.h"
#include "replay/replay.h"
#include "support/fake_conn.h"

#include "coap/message.h"
#include "coap/observe.h"

/* Proxy-Cri coap://h/x?k as words() has options. */
#define TARGET_X "235:842081616881617881616b"

/* Of a client, CON, with Observe 0 and 1: message id and a token of one byte in hex. */
#define REGISTER(mid, token) observe_request((mid), (token), 0)
#define DEREGISTER(mid, token) observe_request((mid), (token), 1)

/* What of these reaches the origin server, and of a plain GET. */
#define UPSTREAM_REGISTER "48 01 MID TOKEN 3168 30 5178 416b"
#define UPSTREAM_PLAIN "48 01 MID TOKEN 3168 8178 416b"

#define ANY_TOKEN 0x100u

/** The message for REGISTER and DEREGISTER; as long as words() has it. */
const char *observe_request(const char *mid, const char *token, unsigned observe);

/**
 * The next datagram to @p peer is a 2.05 of @p type with Observe, @p token (one byte, or
 * ANY_TOKEN) and the payload @p hex.
 *
 * @param ret_datagram may be NULL.
 * @return its token.
 */
uint8_t expect_state(struct fake_peer *peer, enum message_type type, unsigned token,
                     const char *hex, struct fake_datagram *ret_datagram);

/* The proxy of the test that runs, on UDP and TCP, and a second client, 192.0.2.8:40002. */
extern struct replay replay;
extern struct fake_peer *other;

/** Start it. @p settings as in replay_start(). */
void observe_start(const char *const *settings);

/** Set-up and tear-down of a test: what observes at its end is ended. */
int observe_setup(void **state);
int observe_teardown(void **state);

#define OBSERVE_TEST(name) cmocka_unit_test_setup_teardown(name, observe_setup, observe_teardown)

/** A registration of the first client for coap://h/x under token aa, answered with payload 30. */
void observe_x(struct fake_datagram *ret_registration);

/** The client of observe_x() deregisters. */
void leave_x(void);

/** The origin server sends @p text (as fake_peer_reply() has it) to the observer. */
void notify(const struct fake_datagram *registration, const char *text);

void acknowledge(struct fake_peer *peer, const struct fake_datagram *notification);

#endif
