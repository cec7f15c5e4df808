/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Origin servers on sessions, for the real pool (net/upstream_pool.c and beside it) in virtual
 * time: in place of libcoap's DTLS and our connections. (With upstream.engine = native the messages
 * of DTLS are those of net/upstream_message.h, and go over the fake network in the clear:
 * fake_peer.h has the servers.) Sessions are numbered from 1 as they are opened; a test sees what
 * comes over them, and says what the servers do:
 *
 *     fake_session_expect(1, "01 b1 78");                       code, options, payload
 *     fake_session_answer("45 ff 68 69");
 *     fake_net_run(0);
 */
#ifndef CRIPROXY_SCRIPTED_SESSIONS_H
#define CRIPROXY_SCRIPTED_SESSIONS_H

#include "net/upstream.h"

/* What comes of new sessions. */
enum fake_manner {
    FAKE_ACCEPTS,    /* the handshake succeeds at once */
    FAKE_IS_SILENT,  /* nothing comes back */
    FAKE_REFUSES,    /* the connection is refused when it is tried */
    FAKE_IS_SHORT,   /* this host has no descriptor or memory for it */
    FAKE_FALLS_SHORT /* the same, but only after the connection was made */
};

/** Before replay_start(): no session was ever opened. */
void fake_sessions_start(void);

/** At the end, after replay_stop(): fails where a session is still open. */
void fake_sessions_stop(void);

/** From now on, at the address with port @p port ("192.0.2.5:5684"); NULL: everywhere. */
void fake_session_manner(const char *address, enum fake_manner manner);

/** Sessions opened so far, and those that are open now. */
unsigned fake_session_opened(void);
unsigned fake_session_count(void);

/** The handshake of one that is silent succeeds. */
void fake_session_accept(unsigned number);

/** It ends, for @p status; a handshake fails. */
void fake_session_end(unsigned number, enum upstream_status status);

/** The server sends Release. */
void fake_session_release(unsigned number);

/** From now on it acknowledges nothing (@p is_mute), or does so again. */
void fake_session_set_mute(unsigned number, bool is_mute);

/** From now on it takes no more (@p is_full), or has room again. */
void fake_session_set_full(unsigned number, bool is_full);

/** Pings that came over it, and an answer to the last. */
unsigned fake_session_pings(unsigned number);
void fake_session_pong(unsigned number);

/**
 * The next message of all sessions came over session @p number and is exactly @p hex: code,
 * options, payload with its marker. What follows is about this one.
 */
#define fake_session_expect(number, hex) fake_session_expect_at((number), (hex), __FILE__, __LINE__)
void fake_session_expect_at(unsigned number, const char *hex, const char *file, int line);

/** No message came but those that were expected. */
void fake_session_expect_nothing(void);

/** A response, over the session by which the message came. Code, options, payload. */
void fake_session_answer(const char *hex);

/**
 * The next message of all sessions, if it came over session @p number: @p ret_bytes code, options,
 * payload; borrowed. What came over another one stays.
 *
 * @return its number, from 1 on; 0: none has come.
 */
uint64_t fake_session_take(unsigned number, const uint8_t **ret_bytes, size_t *ret_len);

/** A response to the message with that number of fake_session_take(). Code, options, payload. */
void fake_session_answer_bytes(uint64_t message, const uint8_t *bytes, size_t len);

#endif
