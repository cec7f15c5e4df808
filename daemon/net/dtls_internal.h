/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by dtls.c (the listener: the session of a datagram), dtls_session.c (one session's life),
 * dtls_bio.c (OpenSSL's way to the socket), dtls_cookie.c.
 *
 * The states of a session:
 *
 *     ClientHello with a valid cookie
 *          |
 *     HANDSHAKING --- Finished verified ---> ESTABLISHED
 *          |                                      |
 *          +-- failure, time-out, too many        +-- close_notify, idle, too many,
 *          |                                      |   replaced by a new handshake
 *          v                                      v
 *                      DOOMED, freed at the turn's end
 *
 * For one path (both addresses) there may be one of each of the first two: an
 * established session stays until the new handshake is done (RFC 6347 section
 * 4.2.8). Nothing is freed while OpenSSL or the owner may be at work with it.
 */
#ifndef CRIPROXY_DTLS_INTERNAL_H
#define CRIPROXY_DTLS_INTERNAL_H

#include "base/account.h"
#include "base/hash.h"
#include "base/rate.h"
#include "base/timer.h"
#include "net/dtls.h"
#include "net/tls.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <stdatomic.h>

#define DTLS_RECORD_HEADER 13u /* RFC 6347 section 4.1 */
#define DTLS_RANDOM_LEN 32u
#define DTLS_COOKIE_LEN 16u

/* Handshake datagrams fit the smallest IPv6 link: 1280 - 40 (IPv6) - 8 (UDP). */
#define DTLS_HANDSHAKE_MTU 1232

enum session_state {
    SESSION_HANDSHAKING,
    SESSION_ESTABLISHED,
    SESSION_DOOMED,
};

struct session_list {
    struct dtls_session *first, *last;
};

struct dtls_session {
    struct hash_node node; /* in the listener's map; not when doomed */
    struct dtls_session *previous, *next;
    struct dtls_listener *listener;
    struct timer timer; /* handshaking: retransmission or end; established: idle */
    SSL *ssl;
    struct credentials *credentials; /* while handshaking */
    struct tls_peer peer;
    enum session_state state;
    bool was_established; /* the owner may know it */
    uint8_t client_random[DTLS_RANDOM_LEN];
    uint64_t deadline_ms; /* of the handshake */
    uint64_t used_ms;     /* last datagram of use, either way */
    uint64_t next_alert;  /* record number for an alert in epoch 0 */
    const char *why;      /* doomed */
    struct udp_path path;
    struct holding holding;    /* of its client's source, as a handshake or as a session */
    struct identity *identity; /* of an established session */
};

/* The input and output of the current call of OpenSSL, through the listener's one BIO. */
struct dtls_io {
    const uint8_t *input; /* one datagram; NULL: none, or read already */
    size_t input_len;
    bool is_peeking;
    const struct udp_path *path;  /* where output goes */
    struct dtls_session *session; /* the session of the output; NULL: a HelloVerifyRequest */
    unsigned written;             /* datagrams */
};

struct dtls_listener {
    struct loop *loop;
    struct udp_socket *socket;
    struct dtls_options options;
    const struct dtls_handler *handler;
    void *context;
    uint64_t now_ms;

    BIO_METHOD *bio_method;
    BIO *bio;
    BIO_ADDR *no_address; /* DTLSv1_listen() wants to write one */
    SSL *newcomer;        /* listens; becomes the next session's */
    struct dtls_io io;
    struct cookies *cookies;

    struct hash_map map;
    struct timer_wheel wheel;
    struct session_list handshaking;                          /* the oldest first */
    struct session_list established;                          /* the one idle for longest first */
    struct account_book handshake_accounts, session_accounts; /* of these two, in the same order */
    struct session_list doomed;
    uint32_t handshaking_count;
    struct rate begun;
    struct dtls_counters counters;
    uint8_t plaintext[DTLS_DATAGRAM_MAX];
};

/* dtls_bio.c */

/** The listener's BIO, shared by all its sessions. @return 0 or -ENOMEM. */
int dtls_bio_new(struct dtls_listener *listener);
void dtls_bio_free(struct dtls_listener *listener);

/**
 * Call it before every call of OpenSSL that may read or write. @p input is borrowed until that call
 * returns. @p session may be NULL.
 */
void dtls_io_begin(struct dtls_listener *listener, struct dtls_session *session,
                   const struct udp_path *path, const uint8_t *input, size_t input_len);

/* dtls_session.c */

/** A session for the newcomer's SSL, which is taken, or NULL. */
struct dtls_session *session_new(struct dtls_listener *listener, const struct udp_path *path,
                                 const uint8_t client_random[DTLS_RANDOM_LEN], SSL *ssl);

/** A datagram for this session. @return whether it was of any use. */
bool session_feed(struct dtls_session *session, const uint8_t *data, size_t len);

/** Ends it: out of every table now, freed by session_free_doomed(). */
void session_doom(struct dtls_session *session, const char *why);

/**
 * Ends the session, with close_notify if it is established; it is freed later, by
 * session_free_doomed(). @p why is static text.
 */
void session_shut(struct dtls_session *session, const char *why);

/**
 * Ends the sessions that the credentials @p now, which the listener will use, would not accept;
 * they are freed later.
 */
void session_shut_strangers(struct dtls_listener *listener, const struct credentials *now);

/** Frees the sessions that have ended; not from inside a callback of one. */
void session_free_doomed(struct dtls_listener *listener);

/** The session of @p path in @p state, or NULL. */
struct dtls_session *session_find(const struct dtls_listener *listener, const struct udp_path *path,
                                  enum session_state state);

/* ---- small things ---- */

/* Only the listener's thread writes; others may read. */
static inline void dtls_count(_Atomic uint64_t *counter)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

#endif
