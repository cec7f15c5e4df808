/* SPDX-License-Identifier: BSD-2-Clause */
/* Clients that observe, in scripts: registrations, and what notifications say. */
#ifndef CRIPROXY_REPLAY_OBSERVERS_H
#define CRIPROXY_REPLAY_OBSERVERS_H

#include "replay/replay.h"
#include "support/fake_conn.h"

#include "coap/message.h"
#include "coap/observe.h"

/* Proxy-Cri coap://h/x and coap://h/y, as words() has options. */
#define TARGET_X "235:8320816168816178"
#define TARGET_Y "235:8320816168816179"

/* Of a client, CON, with Observe 0 and 1: message id and a token of one byte in hex. */
#define REGISTER(mid, token) observe_request((mid), (token), 0)
#define DEREGISTER(mid, token) observe_request((mid), (token), 1)

/* What of these reaches the origin server, and of a plain GET. */
#define UPSTREAM_REGISTER "48 01 MID TOKEN 3168 30 5178"
#define UPSTREAM_DEREGISTER "48 01 MID TOKEN 3168 31 01 5178"
#define UPSTREAM_PLAIN "48 01 MID TOKEN 3168 8178"

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
uint8_t expect_state_within(struct fake_peer *peer, uint64_t ms, enum message_type type,
                            unsigned token, const char *hex, struct fake_datagram *ret_datagram);

/** Observe, and Max-Age (60 where there is none), of what was last looked at. */
uint32_t last_number(void);
uint32_t last_max_age(void);

/** A client on TCP that has sent its CSM, and looked at the proxy's. */
struct fake_stream *open_stream(void);

/** What comes next on @p stream is a 2.05 with Observe, @p token and one byte of payload. */
void expect_stream_state(struct fake_stream *stream, unsigned token, unsigned payload);

/** End every observation and let what follows from that go its way. */
void observers_end(struct replay *replay);

#endif
