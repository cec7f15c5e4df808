/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages as they come and go, for criproxyctl capture: after DTLS and TLS, on both sides. They
 * are kept for the turn and handed on at its end, because only then it is known why a request
 * ended. What has no message layer (connections, sessions, HTTP) is written as over UDP, with
 * message ID 0. Without a reader, context->capture is NULL, and context->lab says so.
 *
 * Answers, for criproxyctl record, are told as well: each whole, with the request that it belongs
 * to and the target, to readers that want these in place of messages.
 */
#ifndef CRIPROXY_CAPTURE_H
#define CRIPROXY_CAPTURE_H

#include "base/address.h"
#include "coap/message.h"
#include "coap/reason.h"
#include "coap/transport.h"

struct context;

#define CAPTURE_TAPS_MAX 4u

/* Bytes of a message that are kept; longer ones are cut. */
#define CAPTURE_BYTES_MAX 8192u

/*
 * Messages of one turn, and bytes of them; what is more is left out and counted. As lines of JSON
 * they have to fit what may wait on the control socket.
 */
#define CAPTURE_TURN_MAX 512u
#define CAPTURE_TURN_BYTES 65536u

/* Bytes of an answer, its request and its target; one that is longer is left out. */
#define CAPTURE_ANSWER_MAX 30000u

/* What is told of a message; borrowed for the call. */
struct capture_view {
    bool is_client; /* between a client and the proxy; else between it and an origin server */
    bool is_out;    /* the proxy sends it */
    enum transport transport;
    const struct address *local, *remote; /* local: of no family, where it is not known */
    struct bytes data;                    /* the datagram; of capture_add_message() unused */
    uint64_t exchange;                    /* 0: not known, or capture_note() will tell */
};

/* What is told of an answer of an origin server; borrowed for the call. */
struct capture_answer {
    uint64_t fetch;       /* the token: of one question, and of all notifications to it */
    uint64_t waited_us;   /* since the request was sent */
    const char *target;   /* as a URI */
    struct bytes request; /* as over UDP, but for its payload: */
    struct bytes body;    /* of HTTP, in place of the request's; or no data */
    const struct message *answer;
};

/* A message that was kept, or an answer: then data has its target, its request and itself. */
struct captured {
    struct captured *next;
    bool is_answer;
    uint64_t fetch, waited_us;        /* of an answer, */
    uint32_t target_len, request_len; /* and how long its parts are */
    bool is_client, is_out;
    enum transport transport;
    struct address local, remote;
    uint64_t at_us; /* of the loop's clock: CLOCK_MONOTONIC */
    uint64_t key;   /* of client and token */
    uint64_t exchange;
    enum reason reason; /* REASON_none: not known */
    uint32_t whole;     /* its length in bytes, */
    uint32_t len;       /* and how much of it is here */
    uint8_t data[];
};

/* A reader. emit is called at the end of a turn, and must not block; the list is borrowed. */
struct capture_tap {
    uint64_t id;        /* 0: this slot is free */
    bool takes_answers; /* in place of messages */
    void (*emit)(void *context, uint64_t id, const struct captured *first, uint64_t lost);
    void *context;
};

/** @return 0; -ENOSPC: CAPTURE_TAPS_MAX there are; -ENOMEM */
int capture_add_tap(struct context *context, const struct capture_tap *tap);

/** Ends it; with the last one all is freed. Takes an id that is none. */
void capture_remove_tap(struct context *context, uint64_t id);

/** Ends all, and frees. Takes a context without. */
void capture_free(struct context *context);

/** A datagram, copied. Without memory or room it is left out and counted. Only with a reader. */
void capture_add(struct context *context, const struct capture_view *view);

/** As capture_add(), for a message that was no datagram: written as over UDP. */
void capture_add_message(struct context *context, const struct capture_view *view,
                         const struct message *message);

/** Whether a reader wants answers. Takes a context without a reader. */
bool capture_takes_answers(const struct context *context);

/** An answer, copied; left out and counted as of capture_add(), and where it is too long. */
void capture_add_answer(struct context *context, const struct capture_answer *view);

/**
 * What is known of the exchange of @p client under @p token (both borrowed for the call): its
 * number (0: none) and why it ended (REASON_none: not yet). For messages of this turn, before and
 * after the call.
 */
void capture_note(struct context *context, const struct address *client, struct bytes token,
                  uint64_t exchange, enum reason reason);

/** The turn ends: readers get what was kept. For a context with a capture. Cannot fail. */
void capture_flush(struct context *context);

#endif
