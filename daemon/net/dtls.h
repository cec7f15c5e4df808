/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DTLS 1.2 servers over a UDP socket of udp.h (RFC 7252 section 9.1, RFC 6347),
 * with OpenSSL on memory BIOs: no descriptor a session.
 *
 * A ClientHello without a valid cookie is answered without any state. Sessions
 * are bounded in number, in handshakes under way, in time of a handshake and in
 * idle time; the one idle for longest makes room. Datagrams in and out go
 * through the socket's own batches.
 */
#ifndef CRIPROXY_DTLS_H
#define CRIPROXY_DTLS_H

#include "net/identity.h"
#include "net/udp.h"

struct credentials;
struct dtls_listener;
struct dtls_session;

struct dtls_options {
    struct udp_options udp;
    struct credentials *credentials; /* acquired by the listener */
    uint32_t sessions_max, handshakes_max;
    uint32_t handshake_ms, idle_ms;
};

struct dtls_handler {
    /*
     * A decrypted datagram of an established session: CoAP, borrowed. The answer
     * goes through dtls_send() on the same session.
     */
    void (*on_datagram)(void *context, struct dtls_session *session,
                        const struct datagram *datagram);
    /* The session is gone after this call; @p why is a static text for the log. */
    void (*on_close)(void *context, struct dtls_session *session, const char *why);
};

struct dtls_counters {
    uint64_t handshakes, resumptions, handshake_failures, handshake_timeouts;
    uint64_t hellos_without_cookie, sessions, sessions_evicted, records_dropped;
};

int dtls_listen(struct loop *loop, const struct dtls_options *options,
                const struct dtls_handler *handler, void *context,
                struct dtls_listener **ret_listener);

/** close_notify on every session. Takes NULL. */
void dtls_close_listener(struct dtls_listener *listener);

/** For sessions from now on. */
void dtls_set_credentials(struct dtls_listener *listener, struct credentials *credentials);

/** Encrypt and queue; dropped and counted where it cannot be. */
void dtls_send(struct dtls_session *session, const uint8_t *data, size_t len);

/** The owner's word for the session: stored, handed back. */
void dtls_session_set_user(struct dtls_session *session, void *user);
void *dtls_session_user(const struct dtls_session *session);

const struct udp_path *dtls_session_path(const struct dtls_session *session);
const struct identity *dtls_session_identity(const struct dtls_session *session);
const struct address *dtls_local(const struct dtls_listener *listener);
const struct dtls_counters *dtls_counters(const struct dtls_listener *listener);

/**
 * Timers: time-outs of handshakes and idle sessions. Called from the loop's turn.
 * @return when to be called next, or UINT64_MAX
 */
uint64_t dtls_turn(struct dtls_listener *listener, uint64_t now_ms);
void dtls_flush(struct dtls_listener *listener);

#endif
