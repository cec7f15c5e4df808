/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by dtls.c (the listener: the session of a datagram), dtls_session.c (a session's life),
 * dtls_shake.c (its handshake), dtls_own.c (what follows, on our own records), dtls_handover.c
 * (its way to another process); dtls_bio.h has OpenSSL's way to the socket. Records
 * themselves are in dtls_record.h.
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
 * 4.2.8). Sessions with connection ids (in dtls.c) are found by these, wherever their records
 * come from, and several may be at one address. Nothing is freed while OpenSSL or the owner may be
 * at work with it.
 *
 * A session is a slot of a slab. What only a handshake needs, OpenSSL's SSL above all, is in a
 * struct dtls_shake, which goes when the session is established. Where the records are not ours
 * (another suite, a FIPS provider) it stays.
 */
#ifndef CRIPROXY_DTLS_INTERNAL_H
#define CRIPROXY_DTLS_INTERNAL_H

#include "base/account.h"
#include "base/hash.h"
#include "base/pack.h"
#include "base/rate.h"
#include "base/slab.h"
#include "base/timer.h"
#include "net/dtls.h"
#include "net/dtls_bio.h"
#include "net/dtls_record.h"
#include "net/tls.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <stdatomic.h>

#define DTLS_RANDOM_LEN 32u
#define DTLS_COOKIE_LEN 16u

/* Handshake datagrams fit the smallest IPv6 link: 1280 - 40 (IPv6) - 8 (UDP). */
#define DTLS_HANDSHAKE_MTU 1232

/* Bytes of protected records that came too early, kept for one handshake. */
#define DTLS_EARLY_MAX 2048u

/* As much of a last flight is kept; a longer one is not repeated, and the client starts again. */
#define DTLS_FLIGHT_MAX 8192u

#define CID_AT 11u /* in a record */

/* Longest connection id of ours: it is the key of its session. */
#define DTLS_CID_MAX DTLS_CID_SHOWN

/* Where the tag of a replica is in such an id (struct dtls_passing); the rest is random. */
#define DTLS_CID_TAG_AT 1u
#define DTLS_CID_TAGGED 3u /* bytes before the random ones */

/* Between the numbers that OpenSSL seals with, for us to translate, and ours. */
#define DTLS_CID_GAP 65536u

enum session_state {
    SESSION_HANDSHAKING,
    SESSION_ESTABLISHED,
    SESSION_DOOMED,
};

struct session_list {
    struct dtls_session *first, *last;
};

/*
 * Our last flight, as plaintext: each record is its type, its epoch, two bytes of length, and its
 * content. Gathered while OpenSSL sends it.
 */
struct dtls_flight {
    struct timer timer; /* the session's end of patience: DTLS_FLIGHT_MS after it was first sent */
    struct dtls_session *session;
    uint64_t first_ms, sent_ms; /* when it was sent for the first time, and for the last */
    uint64_t next_plain;        /* record number for the next record in epoch 0 */
    size_t len, capacity;
    bool is_whole; /* false: there was no room for all of it */
    bool is_slot;  /* of the listener's flights, not of malloc() */
    uint8_t bytes[];
};

/* A flight of so many bytes is in a slot: a ticket, ChangeCipherSpec, Finished. */
#define DTLS_FLIGHT_SLOT 288u

/* What only a handshake needs, or a session on OpenSSL's records. */
struct dtls_shake {
    struct timer timer; /* retransmission or end */
    struct dtls_session *session;
    SSL *ssl;
    struct credentials *credentials; /* while handshaking */
    struct tls_peer peer;
    uint64_t deadline_ms;
    uint64_t next_plain;        /* record number for an alert of ours in epoch 0 */
    bool has_keys;              /* session->records is ready */
    struct dtls_flight *flight; /* what OpenSSL has sent in its current call */
    uint8_t *early;             /* DTLS_EARLY_MAX bytes; NULL: none yet */
    size_t early_len;
    uint8_t cid_extension[1 + DTLS_CID_MAX]; /* of the ServerHello */
};

/* A slot of the listener's slab. */
struct dtls_session {
    struct hash_node node;   /* in the listener's map; not when doomed */
    struct hash_node by_cid; /* its key is our connection id; in no map: it has none */
    struct dtls_session *previous, *next;
    struct dtls_listener *listener;
    struct dtls_shake *shake; /* NULL: established, on our own records */
    struct udp_path path;
    struct holding holding;     /* of its client's source, as a handshake or as a session */
    struct identity *identity;  /* of an established session */
    struct dtls_flight *flight; /* the last one of the handshake; NULL: it is known to be there */
    const char *why;            /* doomed */
    uint64_t started_ms;        /* its handshake */
    uint64_t used_ms;           /* last datagram of use, either way */
    uint64_t hello;             /* hash of the random of its ClientHello */
    struct records records;
    uint8_t anchor[CREDENTIALS_ANCHOR_LEN]; /* credentials_note_anchor() */
    uint8_t state;                          /* enum session_state */
    bool was_established;                   /* the owner may know it */
    uint16_t moves;                         /* to another address; no more are counted at the end */
    uint32_t heard_s;                       /* the peer's last record, by the listener's clock */
};

/* The input and output of the current call of OpenSSL, through the listener's one BIO. */
struct dtls_io {
    struct dtls_pipe pipe;
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

    BIO *bio;
    BIO_ADDR *no_address; /* DTLSv1_listen() wants to write one */
    SSL *newcomer;        /* listens; becomes the next session's */
    struct dtls_io io;
    struct cookies *cookies;

    struct hash_map map;
    struct hash_map cids;
    const struct udp_path *from; /* of the datagram that is being fed */
    struct timer_wheel wheel;
    struct timer give_back;          /* of what handshakes have freed, to the system */
    struct session_list handshaking; /* the oldest first */
    struct session_list established; /* the one idle for longest first */
    struct account_book handshake_accounts, session_accounts; /* of these two, in the same order */
    struct session_list doomed;
    uint32_t handshaking_count;
    struct slab slab; /* of sessions */
    struct slab
        flights; /* that may be repeated: their memory goes when the last one of a block does */
    struct record_crypto *crypto; /* NULL: sessions stay on OpenSSL's records */
    struct rate begun;
    bool is_passed;    /* the current datagram came by way of another replica */
    bool is_frozen;    /* its sessions are another process's */
    uint32_t unopened; /* records of the current datagram that no session could open */
    struct dtls_counters counters;
    uint8_t plaintext[DTLS_DATAGRAM_MAX];
    uint8_t sealed[DTLS_DATAGRAM_MAX + RECORD_OVERHEAD_MAX];
};

/** The number of an id of at most DTLS_CID_MAX bytes, by which its session is found. */
static inline uint64_t dtls_cid_key(const uint8_t *cid, size_t len)
{
    uint64_t key = 0;

    for (size_t i = 0; i < len; i++) {
        key = key << 8 | cid[i];
    }
    return key;
}

/**
 * RFC 9146 section 4: false for a record with the id of another session, behind one of this session
 * in its datagram.
 */
static inline bool session_has_id_of(const struct dtls_session *session,
                                     const struct record_view *view)
{
    return view->cid_len == 0 || dtls_cid_key(view->cid, view->cid_len) == session->by_cid.key;
}

static inline struct dtls_listener *dtls_listener_of(struct dtls_pipe *pipe)
{
    return HASH_ENTRY(pipe, struct dtls_listener, io.pipe);
}

/* dtls.c */

/**
 * Call it before every call of OpenSSL that may read or write. @p input is borrowed until that call
 * returns. @p session may be NULL.
 */
void dtls_io_begin(struct dtls_listener *listener, struct dtls_session *session,
                   const struct udp_path *path, const uint8_t *input, size_t input_len);

/** Queues a datagram of a session to @p path, be it by way of another replica. Bytes are copied. */
void dtls_transmit(struct dtls_listener *listener, const struct udp_path *path, const uint8_t *data,
                   size_t len);

/** Whether @p listener has replicas beside it, and so tags in its connection ids. */
static inline bool dtls_has_tags(const struct dtls_listener *listener)
{
    return listener->options.passing != NULL && listener->options.cid_bytes == DTLS_CID_MAX;
}

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

/**
 * The session of @p path in @p state, or NULL. Established ones with a connection id of ours are
 * left out: it finds them, and there may be several at one address.
 */
struct dtls_session *session_find(const struct dtls_listener *listener, const struct udp_path *path,
                                  enum session_state state);

/** @return the session of @p path, in its handshake or after it, begun with @p client_random */
struct dtls_session *session_find_hello(const struct dtls_listener *listener,
                                        const struct udp_path *path,
                                        const uint8_t client_random[DTLS_RANDOM_LEN]);

/**
 * Another established session, of another process: in the map at @p path, in the list and the
 * accounts, and with the connection id @p cid where records.cid_len says so. The caller fills in
 * the rest. @return NULL without memory
 */
struct dtls_session *session_adopt(struct dtls_listener *listener, const struct udp_path *path,
                                   const struct records *records, uint64_t cid);

/** The session goes on at @p path, which is copied; on_move tells. Cannot fail. */
void session_move(struct dtls_session *session, const struct udp_path *path);

/** A record of the peer was authentic just now. Cannot fail. */
static inline void session_hear(struct dtls_session *session)
{
    session->heard_s = (uint32_t)(session->listener->now_ms / 1000);
}

/** The established session was of use just now: it is the last that idle time ends. Cannot fail. */
void session_touch(struct dtls_session *session);

/**
 * Around all work of OpenSSL for one session that has its SSL. Such work may come up in the middle
 * of another session's, so the state of the outer call is kept in @p ret_before for session_end(),
 * which has to be called in any case.
 *
 * @param input one datagram, borrowed until then; NULL: none
 * @return whether there is memory for it
 */
bool session_begin(struct dtls_session *session, const uint8_t *input, size_t len,
                   struct dtls_io *ret_before);
void session_end(struct dtls_session *session, const struct dtls_io *before);

/**
 * The handshake is done: among the established ones, instead of one before it on that path. Keeps
 * its shake, which the caller frees.
 */
void session_establish(struct dtls_session *session);

/* dtls_shake.c */

/** For @p session, with the listener's credentials and without an SSL. NULL without memory. */
struct dtls_shake *shake_new(struct dtls_session *session);

/** Frees it with its SSL; takes NULL. */
void shake_free(struct dtls_shake *shake);

/**
 * As session_feed(), for a session in its handshake; @p len 0: OpenSSL goes on by itself.
 * @return whether it was of any use
 */
bool shake_feed(struct dtls_session *session, const uint8_t *data, size_t len);

/* dtls_own.c */

/**
 * OpenSSL sends @p data in a handshake: numbers and nonces of its records are noted, ours begin
 * above them, and what may have to be repeated is gathered: borrowed bytes, copied.
 */
void own_note_sent(struct dtls_session *session, const uint8_t *data, size_t len);

/** What was gathered is no last flight: OpenSSL is called again. Frees nothing; cannot fail. */
void own_begin_flight(struct dtls_shake *shake);

/** The handshake is done: the session owns the last flight if it may have to be repeated. */
void own_take_over(struct dtls_session *session);

/** Derives the keys as soon as the handshake has come that far. @return whether they are there */
bool own_has_keys(struct dtls_session *session);

/** Records for an established session on our own records. @return whether one was of any use */
bool own_feed(struct dtls_session *session, const uint8_t *data, size_t len);

/**
 * Seals and queues one record; a session that has no number left is doomed.
 *
 * @param path mostly the session's
 * @param len 1 to dtls_session_room() bytes
 * @return whether it was queued
 */
bool own_send(struct dtls_session *session, const struct udp_path *path, uint8_t type,
              const uint8_t *data, size_t len);

/** Sends close_notify; without effect where no number is left. The owner ends the session. */
void own_close(struct dtls_session *session);

/** Appends the last flight, if there is one, for another process. */
void own_pack_flight(const struct dtls_session *session, struct pack *out);

/** What own_pack_flight() has written, by a clock to which @p shift_ms is to be added; without
 * memory there is none. @return false: unreadable */
bool own_unpack_flight(struct dtls_session *session, struct unpack *in, int64_t shift_ms);

/** Frees what the last flight takes. */
void own_drop_flight(struct dtls_session *session);

/** Wipes and frees @p flight; takes NULL. */
void own_free_flight(struct dtls_flight *flight);

/* ---- small things ---- */

/* Only the listener's thread writes; others may read. */
static inline void dtls_count(_Atomic uint64_t *counter)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

#endif
