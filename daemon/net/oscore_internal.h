/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by oscore_*.c: how requests get from the workers' sessions to the thread that has the
 * security contexts, and answers back.
 *
 *     worker                               the thread
 *     oscore_session.c  -- struct oscore_call, oscore_hand() -->  oscore_thread.c
 *                                                                     |  oscore_take()
 *                       <-- loop_post_task(), by the link ------  oscore_context.c  <-->  network
 *                                                                     |  ^
 *                                                                 oscore_coap.c (libcoap)
 *
 * Nothing is shared but calls, which belong to one side at a time, and links.
 */
#ifndef CRIPROXY_OSCORE_INTERNAL_H
#define CRIPROXY_OSCORE_INTERNAL_H

#include "base/list.h"
#include "net/oscore.h"
#include "net/oscore_state.h"
#include "net/upstream_internal.h"

#include <pthread.h>
#include <sys/types.h>

#define OSCORE_TOKEN_MAX 8u
#define OSCORE_ECHO_MAX 40u /* RFC 9175 section 2.2.1 */

/* Between a session of a worker and the thread; a holder of a reference may use it. */
struct oscore_link {
    atomic_uint references;
    pthread_mutex_t mutex;   /* for loop */
    struct loop *loop;       /* the worker's; NULL: the session has ended, no answers any more */
    struct session *session; /* the worker's alone */
};

enum oscore_call_kind {
    OSCORE_REQUEST,
    OSCORE_CANCEL, /* the request with this token has no waiter any more */
    OSCORE_DETACH, /* nor have all others of the link */
    OSCORE_END,    /* of the security context, which is freed */
    OSCORE_STOP,   /* of the thread */
};

/* What is handed to the thread; with OSCORE_REQUEST later an exchange of the context's. */
struct oscore_call {
    struct oscore_call *next;
    enum oscore_call_kind kind;
    struct upstream_oscore *oscore; /* lives until its OSCORE_END, which comes last */
    struct oscore_link *link;       /* a reference; NULL: the answer has no waiter */
    struct address address;
    uint32_t ack_timeout_ms, ack_random_factor, max_retransmit, message_bytes;
    bool is_kept; /* it stays after an answer, for notifications */

    bool was_answered;
    bool has_number; /* the Notification Number (RFC 8613 section 7.4.1): */
    uint64_t number; /* the largest Partial IV of an answer that was verified */
    bool has_echoed; /* it was sent again with Echo */

    uint8_t code, token_len;
    uint8_t token[OSCORE_TOKEN_MAX];
    struct bytes options, payload; /* behind the struct, in the same allocation */
};

/* ---- oscore_session.c ---- */

/** Takes a link's reference back; the last one frees it. Takes NULL. Thread-safe. */
void oscore_link_release(struct oscore_link *link);

/**
 * An answer for the request of @p call, copied: handled in the worker's loop. Without memory, or
 * where the session has ended, it is lost.
 */
void oscore_answer(const struct oscore_call *call, const struct message *response);

/** Likewise that there will be none. @p why is static text. */
void oscore_answer_failure(const struct oscore_call *call, const struct upstream_failure *failure);

/* ---- oscore_thread.c ---- */

/** Starts the thread, if it does not run. @return false: no memory */
bool oscore_thread_start(void);

/** Hands @p call to the thread, which owns it then. Its context has a reference. */
void oscore_hand(struct oscore_call *call);

/* What a descriptor of a context's is for. */
enum oscore_source {
    OSCORE_WIRE,    /* datagrams of the origin server */
    OSCORE_RELAY,   /* datagrams of libcoap's */
    OSCORE_LIBCOAP, /* its timers, and what it has to read */
    OSCORE_SOURCES,
};

struct oscore_watch {
    struct upstream_oscore *oscore;
    enum oscore_source source;
};

/**
 * The thread waits for @p fd, which stays the caller's, to be readable, then calls
 * oscore_context_on_readable(). @p watch is borrowed until it is closed. @return false: no memory
 */
bool oscore_thread_watch(int fd, struct oscore_watch *watch);

/* ---- oscore_context.c ---- */

struct oscore_coap;

/* A security context. All but the first part is the thread's. */
struct upstream_oscore {
    struct list_node registered;         /* in the registry, with its mutex */
    uint32_t references;                 /* likewise */
    uint8_t digest[UPSTREAM_DIGEST_LEN]; /* of what makes the keys to send with */
    struct oscore_keys keys;
    char name[OSCORE_STATE_NAME_LEN + 1]; /* of its files */
    char *directory;
    struct oscore_call end; /* so that it needs no memory */

    struct list_node alive; /* in the thread's list */
    bool is_alive;
    struct oscore_state *state; /* NULL: not open */
    uint64_t number;            /* the next sender sequence number */
    uint64_t first_number;      /* of the session with coap; none below it may leave */
    struct oscore_coap *coap;   /* NULL: not open */
    int relay_fd, wire_fd;      /* with coap: towards libcoap, and towards the origin server */
    struct oscore_watch watches[OSCORE_SOURCES];
    struct address address; /* of the origin server, with coap */

    struct oscore_call *waiting, **waiting_end;
    uint32_t waiting_count;
    struct oscore_call *current; /* out, without an answer; NULL: none */
    struct oscore_call *kept;    /* answered, for notifications */
    uint32_t left_count;         /* exchanges that libcoap still knows, without a waiter */

    /* libcoap takes one request after another: this token's, until any response to it. */
    bool is_busy;
    bool is_acknowledged; /* by the origin server */
    uint16_t busy_mid;
    uint8_t busy_token_len;
    uint8_t busy_token[OSCORE_TOKEN_MAX];

    /* Of the datagram that libcoap has been given last. */
    bool has_inbound_number;
    uint64_t inbound_number;
    uint8_t inbound_token_len;
    uint8_t inbound_token[OSCORE_TOKEN_MAX];

    uint8_t echo_len; /* of a challenge that is to be answered; 0: none */
    uint8_t echo[OSCORE_ECHO_MAX];
};

/** Takes over a call for @p oscore, other than OSCORE_STOP. OSCORE_END frees the context. */
void oscore_take(struct upstream_oscore *oscore, struct oscore_call *call);

/** Something can be read. Closes nothing: that is oscore_work()'s. Errors end the request that is
 * out. */
void oscore_context_on_readable(struct upstream_oscore *oscore, enum oscore_source source);

/** Does what is due: once for all events of a turn. Errors are told to the requests that they end.
 */
void oscore_work(struct upstream_oscore *oscore);

/** Frees what no thread uses any more. */
void oscore_context_free(struct upstream_oscore *oscore);

/* From libcoap's callbacks: */

/** A response was verified; borrowed. Or one of our own was taken, after which it is not busy. */
void oscore_on_response(struct upstream_oscore *oscore, const struct message *response);

/** The datagram that libcoap has been given could not be verified. @p why is static text. */
void oscore_on_unverified(struct upstream_oscore *oscore, const char *why);

/** The request with @p token, borrowed, has not been acknowledged in time, or was reset: it fails
 * with @p status. */
void oscore_on_lost(struct upstream_oscore *oscore, struct bytes token,
                    enum upstream_status status);

/* ---- oscore_coap.c ---- */

/**
 * A session of libcoap's with the security context, at its next sequence number, towards the socket
 * @p relay_fd, which is bound to the loopback interface and gets connected to libcoap's.
 *
 * @return NULL without memory or sockets. Free with oscore_coap_free().
 */
struct oscore_coap *oscore_coap_new(struct upstream_oscore *oscore, int relay_fd,
                                    const struct oscore_call *parameters);
void oscore_coap_free(struct oscore_coap *coap);

/** The descriptor that is readable when oscore_coap_process() has something to do. Borrowed: it
 * stays libcoap's. */
int oscore_coap_fd(const struct oscore_coap *coap);

/** Has libcoap read and retransmit. Calls the functions above; errors come by them. */
void oscore_coap_process(struct oscore_coap *coap);

/**
 * Has libcoap protect and send a request, as CON. @p call is borrowed for the call.
 *
 * @param echo an option to add; len 0: none.
 * @return false without memory: nothing was sent
 */
bool oscore_coap_send(struct oscore_coap *coap, const struct oscore_call *call, struct bytes echo);

#endif
