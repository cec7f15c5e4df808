/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * HTTP origin servers in the fake network: same symbols as net/web.h, without libcurl behind them.
 * A test sees what the engine sends, and says what becomes of it: fake_web_take() has the next
 * request, and what follows is about that one, until another is taken or chosen.
 */
#ifndef CRIPROXY_FAKE_WEB_H
#define CRIPROXY_FAKE_WEB_H

#include "net/web.h"

/**
 * The next request, in the order in which they were sent: "ADDRESS METHOD URL", its fields in
 * lines, its body as text; borrowed until it is over. A certificate of ours that is shown to the
 * server if it asks is the line "certificate: shown". false: none has come.
 */
bool fake_web_take(const char **ret_line, const char **ret_fields, const char **ret_body);

/**
 * What of a body that goes on has come since it was looked at last, as text, borrowed until more
 * comes. false: the request is over.
 */
bool fake_web_take_more(const char **ret_text, bool *ret_is_last);

/** From now on nothing more of such bodies is taken, or all of it again. */
void fake_web_hold(bool hold);

/** A number for the request that what follows is about, and back to that request. */
uint64_t fake_web_number(void);
void fake_web_choose(uint64_t number);

/**
 * Its answer: @p fields as "Name: value" in lines; of @p body what fits, the rest is cut. A long
 * one is given in parts, if that was wanted, with the same fields each time.
 */
void fake_web_answer(unsigned status, const char *fields, struct bytes body);

/** It ends without an answer. */
void fake_web_fail(enum web_status status, bool was_sent, const char *why);

/** It waits for a connection, or from now on no longer; without this it is sent at once. */
void fake_web_connecting(bool is_connecting);

/** The first byte of its answer has come. */
void fake_web_begin(void);

/** Requests that are not over. */
size_t fake_web_count(void);

#endif
