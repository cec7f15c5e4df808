/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sessions towards origin servers in the fake network: same symbols as net/upstream.h, with
 * no session behind them. A test sees what the engine sends, and says what becomes of it:
 *
 *     fake_client_expect("dtls 192.0.2.5:5684 h", "01 b1 78");      code, options, payload
 *     fake_client_answer("45 ff 68 69");
 *     fake_net_run(0);
 */
#ifndef CRIPROXY_FAKE_CLIENT_H
#define CRIPROXY_FAKE_CLIENT_H

#include "net/upstream.h"

/**
 * The next request, in the order in which they were sent, goes to @p target: transport,
 * address, the host's name or -, and, where that is not none, the PSK identity or the CA
 * file of its credentials; and is exactly @p hex: code, options, payload with its marker.
 * What follows is about this request.
 */
void fake_client_expect(const char *target, const char *hex);

/**
 * The next request to @p target, in the order in which they were sent.
 * What follows is about this one. @p ret_bytes: code, options, payload; borrowed.
 *
 * @return its number, for fake_client_choose(); 0: there is none.
 */
uint64_t fake_client_take(const char *target, const uint8_t **ret_bytes, size_t *ret_len);

/** What follows is about the request that fake_client_take() has numbered; false: it is over. */
bool fake_client_choose(uint64_t number);

/** None was sent but those that were expected. */
void fake_client_expect_nothing(void);

/** A response to the request: code, options, payload. One that is kept can have several. */
void fake_client_answer(const char *hex);

/** It ends without one. */
void fake_client_fail(enum upstream_status status, bool was_sent, const char *why);

/** The request that @p which leads to, of those that are not over; false: there is none.
 * What follows is about this one. @p ret_bytes: code, options, payload; borrowed. */
bool fake_client_pick(uint64_t which, const uint8_t **ret_bytes, size_t *ret_len);

/** As fake_client_answer(). */
void fake_client_answer_bytes(const uint8_t *bytes, size_t len);

/** Whether the engine has taken it back. */
bool fake_client_is_cancelled(void);

/** Requests that are not over. */
size_t fake_client_count(void);

#endif
