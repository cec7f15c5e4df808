/* SPDX-License-Identifier: BSD-2-Clause */
/* A client that speaks HTTP, and a proxy for it: for the files of tests about HTTP clients. */
#ifndef CRIPROXY_HTTP_TALK_H
#define CRIPROXY_HTTP_TALK_H

#include "replay/replay.h"
#include "support/fake_conn.h"

#define TARGET "/hc/coap://h/x"
#define HOST "Host: 192.0.2.9\r\n"
#define GET_X "GET " TARGET " HTTP/1.1\r\n" HOST
#define UPSTREAM_X words("48 01 MID TOKEN", "3=h 11=x")

extern struct replay http_replay;
extern struct fake_stream *http_stream;

/**
 * Start a proxy with up to two settings (or NULL) and an HTTP listener, and connect http_stream to
 * it.
 */
void http_start(const char *a, const char *b);

/** The same with any settings, up to a NULL. */
void http_start_with(const char *const *settings);

/** Stop it, and free all connections. */
void http_stop(void);

/** The client of @p to sends @p text. */
void http_send(struct fake_stream *to, const char *text);

/** What has come back since, as text; borrowed until the next call. */
const char *http_taken(struct fake_stream *from);

/** Fails the test where @p text does not have @p wanted. */
void http_expect_in(const char *text, const char *wanted);

/** Fails the test where @p text has @p unwanted. */
void http_expect_not_in(const char *text, const char *unwanted);

/**
 * Fails the test unless the answer begins with @p status and ends with @p body.
 *
 * @return all of it; borrowed until the next call.
 */
const char *http_expect_answer(struct fake_stream *from, int status, const char *body);

/** The last client that followed h/x has gone: the origin server is told. */
void http_expect_deregistration(void);

#endif
