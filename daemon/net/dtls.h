/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DTLS 1.2 servers over a UDP socket of udp.h (RFC 7252 section 9.1, RFC 6347).
 * OpenSSL does the handshakes and all cryptography; after its handshake a session is a slot of
 * 400 bytes with records of our own (dtls_record.h), and OpenSSL's memory for it is freed.
 *
 * A ClientHello without a valid cookie is answered without any state. Sessions
 * are bounded in number, in handshakes under way, in time of a handshake and in
 * idle time; the one idle for longest makes room, one that is needed last.
 * Datagrams in and out go through the socket's own batches.
 */
#ifndef CRIPROXY_DTLS_H
#define CRIPROXY_DTLS_H

#include "base/account.h"
#include "base/identity.h"
#include "net/handshake.h"
#include "net/udp.h"

struct credentials;
struct dtls_listener;
struct dtls_session;
struct pack;
struct unpack;

/* Longest plaintext of a record, and so of a message. */
#define DTLS_DATAGRAM_MAX 16384u

/* The most bytes that a record adds to its plaintext: header, explicit nonce, tag (AEAD suites).
 * With a connection id it is more: dtls_session_overhead(). */
#define DTLS_RECORD_OVERHEAD 37u

/* Longest connection id that is given to clients. */
#define DTLS_CID_SHOWN 8u

/*
 * Replicas behind one load balancer: where datagrams of each other's sessions go (net/peers.h).
 * Borrowed, with its context, as long as the listener.
 */
struct dtls_passing {
    /* What connection ids of new sessions have in their second and third byte. */
    uint16_t (*tag)(void *context);
    /* A session with an id of this tag was taken over. */
    void (*on_held)(void *context, uint16_t tag);
    /*
     * A datagram for an id that no session here has, DTLS_CID_MAX bytes. It goes to the replica
     * that has it, if there is one. @return whether it was passed on
     */
    bool (*pass)(void *context, uint16_t number, const uint8_t *cid,
                 const struct datagram *datagram);
    /* A datagram to the client of @p path, by the replica that path->via names. */
    void (*answer)(void *context, const struct udp_path *path, const uint8_t *data, size_t len);
};

struct dtls_options {
    struct udp_options udp;
    struct credentials *credentials; /* acquired by the listener */
    uint32_t sessions_max;           /* established ones */
    uint32_t ipv6_bits;              /* of an IPv6 address that name a source; 0: 64 */
    uint32_t handshakes_max;         /* besides */
    uint32_t handshakes_per_s; /* handshakes begun in a second; further clients have to try again;
                                  0: no limit */
    uint32_t handshake_ms;     /* a handshake that takes longer is given up */
    uint32_t idle_ms;          /* 0: idle sessions end only when room is needed */
    uint8_t cid_bytes; /* of the connection ids that clients are given (RFC 9146); 0: none is */
    uint8_t worker;    /* which of several that share the port: the first byte of its ids */
    const struct dtls_passing *passing; /* NULL: there are no others */
    void *passing_context;
    uint16_t number;          /* of this listener, for passing */
    bool has_openssl_records; /* stay on OpenSSL's records, as with a FIPS provider: for tests */
};

struct handshake_failure;

struct dtls_handler {
    /*
     * A session is established, or was taken over from another process; nothing has come over it
     * yet. dtls_send() may be used, also by others. NULL: no callback.
     */
    void (*on_open)(void *context, struct dtls_session *session);
    /*
     * A decrypted datagram of an established session: CoAP, borrowed. The answer
     * goes through dtls_send() on the same session, at once or later. Where its path is not the
     * session's, the client is not believed to be there: only the answer may go there, by
     * dtls_send_to(), and dtls_believe() is for when the client has shown its address.
     */
    void (*on_datagram)(void *context, struct dtls_session *session,
                        const struct datagram *datagram);
    /*
     * The session is gone after this call; @p why is a static text for the log. Only for
     * established sessions: of others the owner does not know. Comes from dtls_turn() or
     * dtls_close_listener(), never from inside another call.
     */
    void (*on_close)(void *context, struct dtls_session *session, const char *why);
    /*
     * Whether a session's client is believed to be at @p remote, where a record of it has come from
     * that only a connection id led to its session (RFC 9146 section 6). NULL: it never is.
     */
    bool (*is_believed)(void *context, const struct address *remote);
    /*
     * Whether a session is needed: one that is not makes room before it, if it is one of those of
     * the same source that were idle for longest. NULL: none is.
     */
    bool (*is_needed)(void *context, const struct dtls_session *session);
    /* dtls_session_path() is another one now, and was @p before. NULL: no callback. */
    void (*on_move)(void *context, struct dtls_session *session, const struct udp_path *before);
    /* A handshake has failed; no function of the listener may be called from here. NULL: no
     * callback. */
    void (*on_failure)(void *context, const struct handshake_failure *failure);
};

/* The listener's thread writes them, others may read. */
struct dtls_counters {
    _Atomic uint64_t handshakes;  /* finished, resumptions included */
    _Atomic uint64_t resumptions; /* those without a key exchange */
    _Atomic uint64_t failed[HANDSHAKE_COUNT];
    _Atomic uint64_t handshakes_evicted;    /* ended for newer ones */
    _Atomic uint64_t handshakes_put_off;    /* too many in this second */
    _Atomic uint64_t hellos_without_cookie; /* answered, and forgotten */
    _Atomic uint64_t sessions;              /* established now */
    _Atomic uint64_t sessions_evicted;      /* idle for longest when one too many came */
    _Atomic uint64_t moves;                 /* of sessions to another address */
    _Atomic uint64_t given;                 /* sessions to another replica */
    _Atomic uint64_t taken_over;            /* sessions from the process before, or a replica */
    _Atomic uint64_t not_taken_over;        /* sessions of it that could not go on */
    _Atomic uint64_t records_dropped;       /* datagrams that were of no use to any session */
    _Atomic uint64_t records_unopened; /* of those, datagrams with a record that did not open */
    _Atomic uint64_t sends_dropped;    /* too long, or their session had ended */
};

/** @return 0 or -errno. @p handler and @p context are borrowed. */
int dtls_listen(struct loop *loop, const struct dtls_options *options,
                const struct dtls_handler *handler, void *context,
                struct dtls_listener **ret_listener);

/**
 * Ends every session with close_notify and on_close, and frees the listener. Takes NULL. Not from
 * inside on_datagram.
 */
void dtls_close_listener(struct dtls_listener *listener);

/**
 * Uses @p credentials, to which it adds a reference, for new sessions. Sessions whose key or issuer
 * is not in them are closed.
 */
void dtls_set_credentials(struct dtls_listener *listener, struct credentials *credentials);

/**
 * Close the established sessions that match, with close_notify; their on_close comes with the
 * next dtls_turn(), and has @p why (static).
 *
 * @return how many
 */
uint32_t dtls_close_matching(struct dtls_listener *listener, peer_match_fn *is_match,
                             const void *context, const char *why);

/** End this one, with close_notify if it is open; the rest as with dtls_close_matching(). */
void dtls_close(struct dtls_session *session, const char *why);

/** Encrypt and queue; dropped and counted where it cannot be. */
void dtls_send(struct dtls_session *session, const uint8_t *data, size_t len);

/**
 * As dtls_send(), but to @p path, from which the datagram that is answered came and where the
 * client is not believed to be: at most as much as is fit for an address that may be forged.
 */
void dtls_send_to(struct dtls_session *session, const struct udp_path *path, const uint8_t *data,
                  size_t len);

/** The client is at @p path, copied, from now on; on_move tells. No effect without ids; cannot
 * fail. */
void dtls_believe(struct dtls_session *session, const struct udp_path *path);

/** @return whether it may still send: not after its end, until on_close */
bool dtls_session_is_open(const struct dtls_session *session);

/** The peer's address and ours; borrowed, as long as the session. */
const struct udp_path *dtls_session_path(const struct dtls_session *session);

/** The identity of the peer; borrowed, never NULL. */
struct identity *dtls_session_identity(const struct dtls_session *session);

/** The most bytes that a record to the peer adds to its plaintext, its connection id included. */
size_t dtls_session_overhead(const struct dtls_session *session);

/**
 * The longest message that a record to the peer may hold, bytes: DTLS_DATAGRAM_MAX, or less where
 * the client has asked for that (RFC 6066 section 4) or the record has more inside (RFC 9146
 * section 5.3).
 */
size_t dtls_session_room(const struct dtls_session *session);

/* A session as it is shown to people. */
struct dtls_session_view {
    const char *suite;           /* static */
    uint8_t cid[DTLS_CID_SHOWN]; /* ours, which the peer's records have */
    uint8_t cid_len;             /* 0: none was agreed on */
    uint64_t age_ms;             /* since its handshake began, in whichever process */
    uint64_t heard_ms;           /* since the last record of the peer */
    uint32_t moves;              /* to another address, at most 65,535 are counted */
};

/** What is known of an established session now; cannot fail. */
struct dtls_session_view dtls_session_look(const struct dtls_session *session);

/**
 * Established sessions in no order, one for each call, beginning with *cursor 0. Sessions that come
 * or go between two calls may be left out or met twice.
 *
 * @return borrowed until the next dtls_turn(); NULL: there are no more
 */
struct dtls_session *dtls_next(const struct dtls_listener *listener, uint64_t *cursor);

/*
 * Hand-over (net/handover_file.h). Established sessions on our own records are packed, and the
 * listener is frozen: nothing is sealed with their keys any more, and what comes is dropped, until
 * dtls_thaw(). Handshakes in progress are left out, and so are sessions on OpenSSL's records.
 */

/** As udp_hold(): records wait in the kernel's buffer. Cannot fail. */
void dtls_hold(struct dtls_listener *listener, bool is_held);

/*
 * Shares of a listener's sessions: those with connection ids of one tag (net/peers.h), because
 * whose they are is known by tag; those without, by their client's address, below 256, which is no
 * replica's.
 */
#define DTLS_SHARES 65536u

/* What one replica is given. */
struct dtls_gift {
    const uint8_t *takers; /* by share, DTLS_SHARES: the number of a replica; borrowed */
    uint8_t to;            /* those of this one */
};

/** Adds to each of @p counts, DTLS_SHARES, how many sessions there are to be handed over. */
void dtls_count_shares(const struct dtls_listener *listener, uint32_t *counts);

/**
 * Freezes, and appends its sessions, copied; the one idle for longest first.
 *
 * @param gift which of them; NULL: all
 */
void dtls_hand_over(struct dtls_listener *listener, const struct dtls_gift *gift, struct pack *out);

/** The hand-over has failed and what was packed was destroyed: all goes on. No effect otherwise. */
void dtls_thaw(struct dtls_listener *listener);

/**
 * What dtls_hand_over() has packed is another replica's now: overwrites the keys of these sessions,
 * and ends them without a word to their clients; on_close comes with the next dtls_turn(). Cannot
 * fail.
 *
 * @param gift as it was packed
 * @return how many
 */
uint32_t dtls_forget(struct dtls_listener *listener, const struct dtls_gift *gift);

/* How sessions are taken over. All zero: from a process on this host, before the first datagram. */
struct dtls_taking {
    int64_t shift_ms; /* to be added to times of the other host's clock */
    bool is_beside;   /* sessions of this listener stay: those taken over do not displace any */
};

/**
 * Takes over what dtls_hand_over() of another process has written. What cannot go on here is left
 * out and counted: connection ids of another length than the listener's, and peers that its
 * credentials would not accept.
 *
 * @return whether all of it could be read
 */
bool dtls_take_over(struct dtls_listener *listener, struct unpack *in,
                    const struct dtls_taking *how);

/* For datagrams that came by way of another replica, which struct dtls_passing is of there. */

/** Whether the first record of a datagram, borrowed, has the connection id of a session here. */
bool dtls_has_id_of(const struct dtls_listener *listener, const uint8_t *data, size_t len);

/** As a datagram of the listener's own socket, but never passed on; path.via is set. Borrowed. */
void dtls_take_passed(struct dtls_listener *listener, const struct datagram *datagram);

/** Queues @p data, records of another replica, to the client at @p path; both are copied. */
void dtls_send_passed(struct dtls_listener *listener, const struct udp_path *path,
                      const uint8_t *data, size_t len);

/** The address where it listens, and its counters; borrowed, as long as the listener. */
const struct address *dtls_local(const struct dtls_listener *listener);
const struct dtls_counters *dtls_counters(const struct dtls_listener *listener);

/** Which sources its sessions, and its handshakes, belong to; borrowed, as long as the listener. */
const struct account_book *dtls_session_accounts(const struct dtls_listener *listener);
const struct account_book *dtls_handshake_accounts(const struct dtls_listener *listener);

/**
 * Timers: time-outs of handshakes and idle sessions. Called from the loop's turn.
 * @return when to be called next, or UINT64_MAX
 */
uint64_t dtls_turn(struct dtls_listener *listener, uint64_t now_ms);

/** Sends queued datagrams. Those that the kernel does not accept are counted and dropped. */
void dtls_flush(struct dtls_listener *listener);

#endif
