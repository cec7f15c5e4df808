/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sessions towards origin servers and parent proxies that are not reached over plain
 * UDP: DTLS, TCP, TLS, and WebSockets on those two, and UDP with OSCORE. They are our own; DTLS is
 * libcoap's client session where that is chosen (enum upstream_engine), and OSCORE always. Only the
 * net/upstream*.c and net/oscore*.c files know that.
 *
 * Sessions are pooled by transport, address, name of the host and credentials. A
 * request goes out on the session that is there, or on a new one; one that has never
 * left, or may safely be repeated, survives the end of a session once. No text comes
 * here to be resolved: only addresses that were resolved and checked.
 *
 * All functions but those of the credentials belong to the loop's thread. Handlers are
 * called from upstream_turn() and from the loop, never from inside another call here.
 */
#ifndef CRIPROXY_UPSTREAM_H
#define CRIPROXY_UPSTREAM_H

#include "base/account.h"
#include "base/address.h"
#include "coap/message.h"
#include "coap/transport.h"

struct loop;
struct upstream;
struct upstream_credentials;
struct upstream_oscore;
struct upstream_request;

/* What makes the sessions on DTLS. */
enum upstream_engine {
    UPSTREAM_ENGINE_LIBCOAP, /* its client sessions (upstream_coap.c) */
    UPSTREAM_ENGINE_NATIVE,  /* OpenSSL's handshake, our records and messages (upstream_dtls.c) */
};

/**
 * Whether sessions on the transport can be opened with @p engine; false for DTLS with libcoap's if
 * that was built without OpenSSL, or is left out.
 */
bool upstream_has(enum upstream_engine engine, enum transport transport);

/** The version of the linked libcoap, as "4.3.1". Static text. */
const char *upstream_version(void);

/* ---- credentials: the keys and certificates for origin servers ---- */

/* Longest pre-shared key, in bytes; RFC 4279 asks for 64. */
#define UPSTREAM_PSK_KEY_MAX 64
#define UPSTREAM_PSK_IDENTITY_MAX 128

struct upstream_credentials_options {
    const char *ca_file;          /* trust anchors, PEM; NULL: the system's */
    const char *certificate_file; /* ours and the chain above it, PEM; or NULL */
    const char *key_file;         /* its key, PEM; or NULL */
    const char *raw_key_file;     /* ours as a raw public key: the private key, PEM; or NULL */
    const char *server_keys_file; /* raw public keys of others, as in raw_keys.h; or NULL. Without
                                     ca_file no certificate is accepted then */
    const char *psk_identity;     /* NULL: certificates are used, else this key alone */
    const char *psk_key_hex;      /* 1 to UPSTREAM_PSK_KEY_MAX bytes, two digits each */
    const char *psk_key_file;     /* or a file of such a line */
};

/**
 * Loads everything or nothing.
 *
 * @param ret_error the error: "FILE: ...".
 * @return NULL on error. Count 1; upstream_credentials_release() frees.
 */
struct upstream_credentials *
upstream_credentials_load(const struct upstream_credentials_options *options, char *ret_error,
                          size_t error_capacity);

/**
 * Those without options of their own (the system's trust anchors), loaded at the first call
 * into @p slot, which is NULL before. Several threads may call for one slot.
 *
 * @return *slot; NULL where they cannot be loaded, and the next call tries again.
 */
struct upstream_credentials *upstream_credentials_late(struct upstream_credentials **slot);

/**
 * Adds a reference and returns @p credentials; release it with upstream_credentials_release().
 * Thread-safe.
 */
struct upstream_credentials *upstream_credentials_acquire(struct upstream_credentials *credentials);

/**
 * Drops a reference; the last one frees the credentials and wipes their keys. Thread-safe. Takes
 * NULL.
 */
void upstream_credentials_release(struct upstream_credentials *credentials);

/* ---- requests ---- */

#define UPSTREAM_SESSIONS_MAX 65536u

struct upstream_options {
    uint32_t sessions_max;       /* sessions, those that only wait for answers included; and hosts
                                    that failed lately and are remembered */
    uint32_t requests_max;       /* requests under way, to size a table by */
    uint32_t idle_ms;            /* a session without a request for this long is closed */
    uint32_t handshake_ms;       /* from the first packet to a session that can be used */
    uint32_t back_off_ms;        /* after a failure; doubled with each one more */
    uint32_t back_off_max_ms;    /* up to this */
    uint32_t ipv6_bits;          /* of an IPv6 address that name a source */
    uint32_t silence_ms;         /* of a session: then a Ping goes before a request that cannot be
                                    repeated; 0: 2 s over DTLS, 60 s on connections */
    uint32_t message_bytes;      /* longest message taken: the Max-Message-Size announced */
    uint64_t seed;               /* of the tables */
    enum upstream_engine engine; /* of new sessions */
    bool has_openssl_records;    /* engine native: stay on OpenSSL's records, as with a FIPS
                                    provider: for tests */
};

/* Where a request goes. */
struct upstream_target {
    enum transport transport;
    struct address address;
    struct address source; /* the client, for whose share the session counts; not a destination */
    const char *host;      /* name for SNI and the certificate; NULL where the host is an address */
    struct upstream_credentials *credentials; /* acquired; NULL in the clear */
    struct upstream_oscore *oscore;           /* UDP: what protects it; acquired */
    uint32_t ack_timeout_ms;                  /* DTLS and OSCORE only, as in RFC 7252 section 4.8 */
    uint32_t ack_random_factor;               /* hundredths */
    uint32_t max_retransmit;
};

/* Why a request has no answer. */
enum upstream_status {
    UPSTREAM_REFUSED,          /* nothing listens there, or the network does not lead there */
    UPSTREAM_CONNECT_TIMEOUT,  /* no connection, or no end of the handshake, in time */
    UPSTREAM_HANDSHAKE_FAILED, /* an alert, a wrong key, no common suite */
    UPSTREAM_BAD_CERTIFICATE,  /* in another way than the next three; an unknown raw public key */
    UPSTREAM_CERTIFICATE_EXPIRED, /* or not valid yet */
    UPSTREAM_CERTIFICATE_UNKNOWN, /* of an authority that is not known */
    UPSTREAM_NAME_MISMATCH,       /* a good certificate, for another host */
    UPSTREAM_CLOSED,              /* the session ended while the request was out */
    UPSTREAM_TIMEOUT,             /* all retransmissions ran out */
    UPSTREAM_RESET,               /* a Reset message answered it */
    UPSTREAM_INVALID,             /* nothing came that could be read */
    UPSTREAM_FULL,                /* sessions_max of them are busy */
    UPSTREAM_DISPLACED,           /* its session made room for another source's */
    UPSTREAM_BACKING_OFF,         /* it failed again and again: not tried now */
    UPSTREAM_MESSAGE_TOO_LARGE,   /* for the origin server's Max-Message-Size */
    UPSTREAM_UNSUPPORTED,         /* see upstream_has() */
    UPSTREAM_NO_MEMORY,           /* or no descriptor or port: our own shortage */

    /* Of OSCORE; in the clear the origin server has answered */
    UPSTREAM_OSCORE_UNKNOWN,     /* 4.01: it does not know our security context */
    UPSTREAM_OSCORE_REPLAYED,    /* 4.01, and that it knows our sequence number */
    UPSTREAM_OSCORE_UNDECRYPTED, /* 4.00: it cannot decrypt our request */
    UPSTREAM_OSCORE_REFUSED,     /* 4.02: it does not take OSCORE, or not ours */
    UPSTREAM_OSCORE_UNPROTECTED, /* something else */
    UPSTREAM_OSCORE_UNVERIFIED,  /* its answer is not of our security context */
    UPSTREAM_OSCORE_STATE,       /* no sequence number could be reserved */
    UPSTREAM_OSCORE_IN_USE,      /* the security context is used with another address */
};

struct upstream_failure {
    enum upstream_status status;
    bool was_sent;   /* it may have reached the origin server */
    const char *why; /* static text with more than the status says, or NULL */
};

struct upstream_handler {
    /*
     * A response: code, options and payload count, borrowed for the call. The request
     * is over then, unless it was sent to be kept.
     */
    void (*on_response)(void *context, void *user, const struct message *response);
    /* The request is over without one. */
    void (*on_failure)(void *context, void *user, const struct upstream_failure *failure);
    /* The rest is for DTLS with engine native alone; each may be NULL. */

    /* A copy of @p len bytes of CoAP leaves. Must not end a request. */
    void (*on_sent)(void *context, void *user, size_t len);
    /* An answer was promised (an empty ACK). */
    void (*on_acknowledged)(void *context, void *user);
    /*
     * Nothing has acknowledged the copy that left at @p sent_ms in time; @p is_sent_again: another
     * one leaves. Must not end a request.
     */
    void (*on_loss)(void *context, void *user, uint64_t sent_ms, bool is_sent_again);
    /*
     * The origin server there has answered a Ping or reset a message, or its host refuses new
     * sessions. Borrowed for the call; must not end a request.
     */
    void (*on_heard)(void *context, const struct address *address);
};

/** @return 0 or -errno. @p handler and @p context are borrowed. */
int upstream_new(struct loop *loop, const struct upstream_options *options,
                 const struct upstream_handler *handler, void *context,
                 struct upstream **ret_upstream);

/**
 * Closes all sessions and frees @p upstream; handlers of outstanding requests are not called. Takes
 * NULL.
 */
void upstream_free(struct upstream *upstream);

/** Uses @p options, which are copied, from now on; the tables keep their size. */
void upstream_set_options(struct upstream *upstream, const struct upstream_options *options);

/**
 * Send a request, soon: in the next upstream_turn() or when there is a session.
 *
 * @param request code, token (8 bytes at most, of no other request), options and payload
 *                count, and over DTLS with engine native the type, CON or NON. Borrowed until the
 *                request is over.
 * @param keep    it stays after a response, for more of them (RFC 7641), until
 *                upstream_cancel() or a failure.
 * @param user    handed to the handler; not NULL.
 * @return NULL without memory: nothing was sent, no handler is called.
 */
struct upstream_request *upstream_send(struct upstream *upstream,
                                       const struct upstream_target *target,
                                       const struct message *request, bool keep, void *user);

/**
 * Cancels a request: no handler is called for it, and @p request is freed.
 * @param deregister for an observation: tell the origin server that no more notifications are
 *        wanted (RFC 7641 section 3.6).
 */
void upstream_cancel(struct upstream *upstream, struct upstream_request *request, bool deregister);

/**
 * Have the origin servers at @p address, on DTLS with engine native, asked for a sign of life,
 * which on_heard tells: by a Ping on each session, or by a session that is made for it. A session
 * that has not answered the Ping before is given up.
 *
 * @return false where none is known there
 */
bool upstream_ping(struct upstream *upstream, const struct address *address);

/**
 * Does what is due: sends, opens and closes sessions, reports failures. Called in each turn.
 *
 * @return when to call it next, in ms of loop_now_ms(), or UINT64_MAX.
 */
uint64_t upstream_turn(struct upstream *upstream, uint64_t now_ms);

/* The loop's thread writes them, others may read. */
struct upstream_counters {
    _Atomic uint64_t sessions;           /* open now, handshakes included */
    _Atomic uint64_t sessions_opened;    /* handshakes that succeeded */
    _Atomic uint64_t sessions_resumed;   /* of those, on our DTLS without a key exchange */
    _Atomic uint64_t handshake_failures; /* and connections that could not be made */
    _Atomic uint64_t sessions_lost;      /* ended by the other side, or found dead */
    _Atomic uint64_t requests_repeated;  /* sent once more on a new session */
    _Atomic uint64_t backed_off;         /* requests not tried because of failures before */
    _Atomic uint64_t records_unopened;   /* of our DTLS: forged, damaged, or with other keys */
};

/** The counters since the start. Borrowed from @p upstream. */
const struct upstream_counters *upstream_counters(const struct upstream *upstream);

/** Which sources its sessions belong to; borrowed from @p upstream. */
const struct account_book *upstream_accounts(const struct upstream *upstream);

/* A host that sessions lead to, or that failed lately; for lists. Borrowed. */
struct upstream_view {
    enum transport transport;
    const struct address *address;
    const char *host;  /* NULL where it is an address */
    const char *state; /* of the session in use; "none" */
    uint32_t out, waiting, failures;
    /* Of a session on our DTLS that is open: */
    const char *suite;  /* static; NULL: it is none */
    const uint8_t *cid; /* the origin server's, which our records have */
    uint8_t cid_len;    /* 0: none was agreed on, or an empty one */
    bool is_resumed;
};

/** At most @p max of them after the first @p skip, the last used first. @return how many */
size_t upstream_list(const struct upstream *upstream, size_t skip, struct upstream_view *ret_views,
                     size_t max);

#endif
