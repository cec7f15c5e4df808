/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The main thread's administration without a process: a server with one worker, whose engine
 * runs on the fake network in the same thread. What is asked for is done, but for signals,
 * sockets and the reading of files.
 */
#ifndef CRIPROXY_FUZZ_CONTROL_WORLD_H
#define CRIPROXY_FUZZ_CONTROL_WORLD_H

#include "net/http.h"
#include "support/fake_conn.h"

/** An engine with clients, a request in flight, an observation, a kept answer and refusals. */
void control_world_start(bool may_operate);

/** A client of the control socket. */
struct fake_stream *control_world_connect(void);

/** Clients go on asking. */
void control_world_go_on(void);

/** Whether a client of the control socket has a trace. */
bool control_world_is_traced(void);

/**
 * The answer of the HTTP server's side of the proxy, whole also where it came in pieces; of events
 * what there was of them until the reader went. The body is the caller's to free.
 */
void control_world_http(const struct http_request *request, struct http_answer *ret_answer);

void control_world_stop(void);

#endif
