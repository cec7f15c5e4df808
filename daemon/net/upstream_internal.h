/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by upstream*.c.
 *
 * A pool has the sessions to one next hop: transport, address, name, credentials. It has the
 * requests that wait and remembers failures; its sessions come and go:
 *
 *                    handshake done            nothing to do for long
 *     connecting ----------------------> ready ----------------------> gone
 *         |                               | ^
 *         |              unsafe request,  | | Pong
 *         |              silent for long  v |
 *         |                              probing ---- no Pong ---+
 *         v                                                      v
 *       dead <------------- closed, alert, ICMP error -----------+
 *
 * and retired: another session has taken its place, as it had fallen silent; it
 * stays for what is still out on it and must not be sent twice; or the other side has
 * sent Release, and answers may still come. An origin server decides how often that
 * happens: so few of them are kept in a pool, and none where room for a session is needed.
 */
#ifndef CRIPROXY_UPSTREAM_INTERNAL_H
#define CRIPROXY_UPSTREAM_INTERNAL_H

#include "base/account.h"
#include "base/hash.h"
#include "base/timer.h"
#include "coap/retransmit.h"
#include "net/entropy.h"
#include "net/upstream.h"

#include <stdatomic.h>

#define UPSTREAM_HOST_MAX 255u
#define UPSTREAM_DIGEST_LEN 32u

struct cid_extension;
struct raw_keys;
struct ssl_ctx_st;
struct ssl_session_st;
struct ssl_st;
struct x509_store_ctx_st;
struct x509_st;
struct coap_end;
struct stream_end;
struct dtls_box;
struct dtls_end;
struct oscore_end;
struct farewell;
struct message_layer;
struct session;

struct upstream_request {
    struct hash_node node; /* by token, while it is out */
    struct session_pool *pool;
    struct session *session; /* it is out on; NULL while it waits */
    struct upstream_request *next, *previous;
    struct message message; /* borrowed */
    void *user;
    struct upstream_failure failure;
    uint64_t sent_ms;
    uint8_t attempts; /* sessions it was sent on */
    bool is_kept;
    bool was_answered;
    bool was_sent;

    /* Of upstream_message.c: the message is out with message.mid. */
    bool is_unacknowledged;
    bool has_malformed;      /* something came for it that could not be read */
    struct hash_node by_mid; /* with the session */
    struct timer timer;
    struct retransmission again;
};

struct request_list {
    struct upstream_request *first, *last;
    uint32_t count;
};

/*
 * The operations of a kind of session: DTLS, libcoap's (upstream_coap.c) or ours (upstream_dtls.c),
 * OSCORE (oscore_session.c), or a connection (upstream_stream.c).
 */
struct session_kind {
    /* session->upstream, pool and credentials are set. False with @p ret_status. */
    bool (*open)(struct session *session, enum upstream_status *ret_status);
    /* Good-bye, where that can be said; then everything that open() made, or half made. */
    void (*close)(struct session *session);
    /*
     * False: @p ret_status says why it has not left; UPSTREAM_CLOSED: the session is dead, or
     * leaving. @p request is that of the message, NULL: it has gone.
     */
    bool (*transmit)(struct session *session, const struct message *message,
                     struct upstream_request *request, enum upstream_status *ret_status);
    /* The request is no longer out on it: it was answered, taken back or cancelled. NULL: nothing
     * is to be done. */
    void (*forget)(struct session *session, const struct upstream_request *request);
    /* A Ping; session->has_pong is set when it is answered. False: the session is dead. */
    bool (*ping)(struct session *session);
    /* Whether all that was sent has been acknowledged. */
    bool (*is_acknowledged)(const struct session *session);
    /* The handshake got as far as our last words: a wrong key then, more often than not. */
    bool (*is_almost_up)(const struct session *session);
    /* It takes no more for now; it is due again when it does. */
    bool (*is_full)(const struct session *session);
    /* Adds what a list shows of it, borrowed from @p session. NULL: nothing. */
    void (*look)(const struct session *session, struct upstream_view *ret_view);
};

extern const struct session_kind session_kind_coap;
extern const struct session_kind session_kind_dtls;
extern const struct session_kind session_kind_oscore;
extern const struct session_kind session_kind_stream;

enum session_state {
    SESSION_CONNECTING,
    SESSION_READY,
    SESSION_PROBING,
    SESSION_RETIRED,
};

struct session {
    struct upstream *upstream;
    struct session_pool *pool;
    struct session *next, *previous, *next_due;
    enum session_state state;
    bool is_due;
    bool is_dead;     /* it has ended, which was noted and not acted on yet */
    bool is_leaving;  /* the other side wants no more requests on it */
    bool is_up;       /* the handshake is over, which was noted and not acted on yet */
    bool is_lost;     /* and counted as that */
    bool has_carried; /* a request */
    bool is_wrong_name;
    bool has_pong;
    enum upstream_status cause;
    const char *why;
    const struct session_kind *kind;
    struct coap_end *coap;                    /* of kind libcoap's, or */
    struct dtls_end *dtls;                    /* of our DTLS, or */
    struct oscore_end *oscore;                /* of OSCORE, or */
    struct stream_end *stream;                /* of a connection */
    struct message_layer *messages;           /* NULL: it has none of ours */
    struct upstream_credentials *credentials; /* acquired; NULL in the clear */
    struct request_list out;
    struct farewell *farewells; /* messages for requests that have gone */
    struct timer timer;
    uint64_t opened_ms, heard_ms, used_ms, probed_ms;
    uint64_t trusted_until_ms; /* not suspected again before */
};

struct session_pool {
    struct hash_node node;
    struct session_pool *newer, *older; /* by use */
    struct session_pool *next_due;
    struct upstream *upstream;
    struct upstream_target target; /* with host in host[], credentials acquired */
    char host[UPSTREAM_HOST_MAX + 1];
    struct request_list waiting;
    struct session *session;     /* the one in use, or being made */
    struct session *replacement; /* being made, while the other has fallen silent */
    uint32_t out_count;          /* requests out on any of its sessions */
    struct holding holding;      /* of the source that it was last used for */
    uint32_t retired_count;      /* sessions that only wait for answers */
    uint32_t failures;           /* in a row */
    uint64_t retry_ms;           /* not before */
    struct timer timer;
    bool is_due;
    bool is_probed; /* a Ping goes out on the session that is being made */
    /* To resume on our DTLS until then; NULL: a full handshake. */
    struct ssl_session_st *resumable;
    uint64_t resumable_until_ms;
};

struct upstream {
    struct loop *loop;
    struct upstream_options options;
    const struct upstream_handler *handler;
    void *context;
    struct timer_wheel wheel;
    struct hash_map pools, requests;
    struct hash_map messages; /* requests by session and message id */
    struct session_pool *newest, *oldest;
    struct account_book accounts; /* of pools */
    uint32_t pool_count, session_count;
    struct session *sessions;
    struct session *inside; /* it is calling back right now */
    struct session_pool *due_pools;
    struct session *due_sessions;
    struct request_list failed;
    struct entropy entropy; /* for WebSockets */
    uint8_t *scratch;       /* options of a response */
    size_t scratch_bytes;
    struct dtls_box *dtls_box; /* of upstream_dtls.c; NULL while there is no such session */
    uint64_t now_ms;
    struct upstream_counters counters;
};

/* ---- upstream.c: requests ---- */

/** Adds a request, which is in no list, at the end; the list does not own it. */
void request_list_add(struct request_list *list, struct upstream_request *request);

/** Removes a request from the list that it is in; the caller owns it then. */
void request_list_remove(struct request_list *list, struct upstream_request *request);

/** There is something to do for it in the next turn. */
void session_set_due(struct session *session);
void pool_set_due(struct session_pool *pool);

/**
 * Hash of the bytes of a token, for the map of outstanding requests; tokens may collide, so the
 * caller compares.
 */
uint64_t request_key(const struct upstream *upstream, struct bytes token);

/** The request that is out on @p session with @p token, or NULL. */
struct upstream_request *session_find_request(const struct session *session, struct bytes token);

/** Takes the request off the session on which it is outstanding; the caller owns it then. */
void request_take_back(struct upstream_request *request);

/**
 * Ends the request without a response. The handler is called with @p status in the next turn, never
 * inside this call, and the request is freed after that. @p why is static text.
 */
void request_fail(struct upstream *upstream, struct upstream_request *request,
                  enum upstream_status status, const char *why);

/**
 * Whether its method may be carried out twice (RFC 7252 section 5.1, TCP-21); false for POST and
 * PATCH.
 */
bool request_is_repeatable(const struct upstream_request *request);

/**
 * Calls the handler with the response, borrowed for the call, to an outstanding request; the
 * request is freed unless more responses may follow.
 */
void upstream_on_response(struct session *session, struct upstream_request *request,
                          const struct message *response);

/**
 * Ends an outstanding request without a response, as request_fail() does. @p why is static text.
 */
void upstream_on_failure(struct session *session, struct upstream_request *request,
                         enum upstream_status status, const char *why);

/**
 * Ends all requests that wait for a session with @p status; see request_fail(). @p why is static
 * text.
 */
void pool_fail_waiting(struct session_pool *pool, enum upstream_status status, const char *why);

/* ---- upstream_message.c ---- */

/** A Ping on a session with a message layer, or its end if the last one was not answered. */
void upstream_message_probe(struct session *session);

/** Stops to watch the message of a request that is out. Called again, it has no effect; cannot
 * fail.
 */
void upstream_message_forget(struct upstream_request *request);

/* ---- upstream_pool.c ---- */

/** Closes and frees a session without requests; its pool forgets it. */
void session_close(struct session *session);

/** Does what is due for the session, which may be freed by that. */
void session_work(struct session *session);

/** Does what is due for the pool, which may be freed by that. */
void pool_work(struct session_pool *pool);

/** Tells the owner that the host of @p pool has been heard of; the owner then ends no request. */
void pool_tell_heard(const struct session_pool *pool);

/* ---- upstream_dtls.c ---- */

/** The next handshake with @p pool is a full one; frees what it was to resume. Cannot fail. */
void upstream_dtls_forget(struct session_pool *pool);

/* ---- upstream_session.c ---- */

/**
 * Begin a session to @p pool.
 *
 * @param ret_status the error. @return NULL on failure. Free with session_free().
 */
struct session *session_open(struct session_pool *pool, enum upstream_status *ret_status);

/**
 * Closes the session, with a last message if the transport has one, and frees it. It must not have
 * requests. Takes NULL.
 */
void session_free(struct session *session);

/**
 * Marks the session as ended, for the reason @p cause; only the first cause counts. It is freed
 * later, in session_work(). @p why is static text.
 */
void session_die(struct session *session, enum upstream_status cause, const char *why);

/**
 * Notes that the other side has sent something: the session is not suspected of a failure for now.
 */
void session_heard(struct session *session);

/** Notes that a Ping was answered: the session has not failed. */
void session_pong(struct session *session);

/** A response has come. @return false where no request of the session waits for it. */
bool session_on_response(struct session *session, const struct message *response);

/**
 * Tells the origin server that the notifications of @p request are not wanted any more. The message
 * is copied, and sent by session_send_farewells(). Without memory it is left out: on DTLS the next
 * notification then gets a Reset.
 */
void session_deregister(struct session *session, const struct upstream_request *request);

/** Sends and frees the messages of session_deregister(); a failure to send one is ignored. */
void session_send_farewells(struct session *session);

/* ---- upstream_credentials.c ---- */

/* Only their maker changes them; the other holders read the fields. */
struct upstream_credentials {
    atomic_uint count;
    struct ssl_ctx_st *holder;     /* certificate, chain, key, trust anchors */
    struct raw_keys *server_keys;  /* NULL: none are taken */
    bool has_raw_key;              /* the key of the holder, which has no certificate then */
    bool has_anchors;              /* servers may show certificates */
    struct ssl_ctx_st *tls, *dtls; /* for connections, and for our sessions on DTLS */
    int (*preset_security)(const struct ssl_st *ssl, const struct ssl_ctx_st *context,
                           int operation, int bits, int nid, void *other,
                           void *extra); /* OpenSSL's own */
    uint8_t
        digest[UPSTREAM_DIGEST_LEN]; /* of all that was loaded: equal ones are interchangeable */
    char identity[UPSTREAM_PSK_IDENTITY_MAX + 1]; /* empty: no key */
    uint8_t key[UPSTREAM_PSK_KEY_MAX];
    size_t key_len;
};

/** Whether they are a pre-shared key; false for certificates. */
static inline bool credentials_have_psk(const struct upstream_credentials *credentials)
{
    return credentials->identity[0] != '\0';
}

/** The bytes of the pre-shared key. Borrowed; wiped when the credentials are freed. */
static inline struct bytes credentials_psk_key(const struct upstream_credentials *credentials)
{
    return (struct bytes){credentials->key, credentials->key_len};
}

/**
 * Sets versions, cipher suites, trust anchors and the proxy's certificate in a context, which
 * libcoap owns. False if OpenSSL refuses one.
 */
bool credentials_apply(struct upstream_credentials *credentials, struct ssl_ctx_st *context);

/**
 * The trust anchors of @p credentials for an HTTPS connection, whose other settings are libcurl's;
 * with @p shows_certificate certificate and key as well. Not its pre-shared key.
 *
 * @return false without memory.
 */
bool credentials_apply_web(const struct upstream_credentials *credentials,
                           struct ssl_ctx_st *context, bool shows_certificate);

/**
 * Whether a certificate is for the host of @p target (SEC-11, SEC-12, AMB-50). Both are borrowed
 * for the call. False for a certificate without a matching name.
 */
bool credentials_match_name(const struct upstream_target *target, struct x509_st *certificate);

/**
 * For SSL_set_verify(): decides about the certificate or raw public key of the host of @p target.
 *
 * @param is_good OpenSSL's verdict. @param ret_is_wrong_name set where all is well but the host
 * @return whether to go on
 */
int upstream_verify(int is_good, struct x509_store_ctx_st *store,
                    const struct upstream_target *target, bool *ret_is_wrong_name);

/** Of a session, or of HTTP, that @p verdict, X509_V_ERR_... of the server's certificate, ends. */
enum upstream_status upstream_certificate_status(long verdict);

/* ---- upstream_coap.c ---- */

/** @return whether libcoap is there, and has DTLS by OpenSSL */
bool upstream_coap_is_there(void);

/* ---- upstream_dtls_record.c ---- */

/* ClientHellos offer connection_id (RFC 9146). */
extern const struct cid_extension upstream_cid_extension;

#endif
