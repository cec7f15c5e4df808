/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bodies in blocks: a proxy on UDP and TCP, clients on either, and an origin server that is
 * asked for a body step by step.
 */
#ifndef CRIPROXY_REPLAY_BODIES_H
#define CRIPROXY_REPLAY_BODIES_H

#include "replay/passers.h"
#include "replay/replay.h"
#include "replay/words.h"

#include "support/fake_conn.h"

/* coap://h/x?k as Proxy-Cri, in words and as it stands in a frame. */
#define CRI "235:842081616881617881616b"
#define CRI_OPTION "dbde842081616881617881616b"
#define H_X "3=h 11=x 15=k"

#define PROXY_CSM "70 e1 23 010000 20 21 40"
#define CSM "00 e1"
#define CSM_BERT "50 e1 23 010000 20" /* Max-Message-Size 65,536, Block-Wise-Transfer */

extern struct replay replay;

/** A proxy with that setting (NULL: none) that listens on TCP, too. */
void bodies_start(const char *setting);

void bodies_stop(void);

/** A client on TCP that has sent @p csm, and looked at the proxy's. */
struct fake_stream *bodies_stream(const char *csm);

/** A frame of at least 13 bytes behind the token: @p options (hex) and @p len letters a. */
void send_body(struct fake_stream *stream, const char *code_and_token, const char *options,
               size_t len);

/** The next request at the origin server: @p body in words; @p payload bytes of it in all. */
void expect_step(const char *body, size_t payload, struct fake_datagram *ret_request);

/** As expect_step(), and its answer. */
void serve_step(const char *body, size_t payload, const char *answer);

#endif
