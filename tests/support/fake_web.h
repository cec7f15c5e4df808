/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * HTTP origin servers in the fake network: same symbols as net/web.h, without libcurl behind them.
 * A test sees what the engine sends, and says what becomes of it:
 *
 *     fake_web_expect("192.0.2.5:80 GET http://h/x");
 *     fake_web_answer(200, "Content-Type: text/plain\nCache-Control: max-age=60", "hi");
 *     fake_net_run(0);
 */
#ifndef CRIPROXY_FAKE_WEB_H
#define CRIPROXY_FAKE_WEB_H

#include "net/web.h"

/**
 * The next request, in the order in which they were sent, is @p line: address, method, URL. What
 * follows is about this one.
 */
void fake_web_expect(const char *line);

/** It has the field @p field ("Name: value"), or none that begins so. */
void fake_web_expect_field(const char *field);
void fake_web_expect_no_field(const char *start);

/** A certificate of ours is shown to it if it asks. */
void fake_web_expect_certificate(bool is_shown);

/** It has this body, as text. */
void fake_web_expect_body(const char *body);

/** No request was sent but those that were expected. */
void fake_web_expect_nothing(void);

/** Its answer: @p fields as "Name: value" in lines; @p body as text. */
void fake_web_answer(unsigned status, const char *fields, const char *body);

/** The same with any bytes; what is longer than fits is cut. */
void fake_web_answer_bytes(unsigned status, const char *fields, struct bytes body);

/** It ends without an answer. */
void fake_web_fail(enum web_status status, bool was_sent, const char *why);

/** The request that @p which leads to, of those that are not over; false: there is none. What
 * follows is about this one. */
bool fake_web_pick(uint64_t which);

/** Requests that are not over. */
size_t fake_web_count(void);

/** The date that answers come at, in seconds since 1970: 1,000,000,000 until it is set. */
void fake_web_set_date(uint64_t date_s);

#endif
