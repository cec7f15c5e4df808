/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One end of a connection with CoAP on it (RFC 8323), the same for a client's end and for a
 * server's. The owner has the connection: bytes from it go in, and messages come out, or what
 * signals mean. The endpoint answers a Ping, and aborts where the peer breaks the protocol. It has
 * no I/O, no clock and no timer: when to ping, to release and to close is for the owner to decide.
 */
#ifndef CRIPROXY_ENDPOINT_H
#define CRIPROXY_ENDPOINT_H

#include "coap/frame.h"

/* Options of signals (RFC 8323 section 5, RFC 8974 section 2.2.1). */
#define CSM_MAX_MESSAGE_SIZE 2u
#define CSM_BLOCK_WISE_TRANSFER 4u
#define CSM_EXTENDED_TOKEN_LENGTH 6u
#define PING_CUSTODY 2u
#define ABORT_BAD_CSM_OPTION 2u

/* Longest token where none longer was announced. */
#define ENDPOINT_BASE_TOKEN 8u

/* What arrives is borrowed from the input, for the call. */
struct endpoint_handler {
    /* Queue one encoded message, borrowed for the call. A failure is the owner's to note. */
    void (*write)(void *context, struct bytes frame);
    /*
     * Whether the next message of a stream may be taken: false while the owner has enough to do,
     * and once it has given up the connection.
     */
    bool (*may_read)(void *context);
    void (*on_request)(void *context, const struct message *request);
    /* Neither request nor signal: a response, an Empty message, a code of a reserved class. */
    void (*on_response)(void *context, const struct message *response);
    /*
     * A CSM, once its values are in the endpoint, a Pong, a Release, or an Abort, after which the
     * owner closes. A Ping was answered, and signals to come are ignored (TCP-15): not told.
     */
    void (*on_signal)(void *context, uint8_t code);
    /* The peer broke the protocol and was sent an Abort: the owner closes. @p why is static. */
    void (*on_fault)(void *context, const char *why);
};

/* Our side of one connection. */
struct endpoint {
    /* Set by the owner before endpoint_start(), and then left alone: the peer is told of them. */
    const struct endpoint_handler *handler;
    void *context;
    uint32_t message_max; /* bytes of the longest message that is taken */
    uint32_t token_max; /* bytes of the longest token that is taken; ENDPOINT_BASE_TOKEN or more */
    bool is_ws;         /* a message a WebSocket message: Len is 0 (RFC 8323 section 4.2) */

    /* What the peer has said of itself. */
    bool is_open;      /* its CSM has come */
    bool takes_blocks; /* block-wise transfers, and BERT */
    uint32_t peer_max; /* bytes of the longest message that it takes */
};

/** Sends the CSM, the first message on a connection (section 5.3), without waiting for the peer's.
 */
void endpoint_start(struct endpoint *endpoint);

/**
 * Handles the messages at the start of @p data, borrowed for the call, while may_read() lets it.
 * On WebSockets that is one whole message, whatever may_read() says.
 *
 * @return bytes that were used. The rest has to be given again, with what comes after it.
 */
size_t endpoint_input(struct endpoint *endpoint, const uint8_t *data, size_t len);

/**
 * Sends a message without options: a Ping, a Release, or an error. @p words are its payload, and
 * are left out where the peer takes no message of that size. Without memory nothing is sent.
 */
void endpoint_send(const struct endpoint *endpoint, uint8_t code, struct bytes token,
                   const char *words);

#endif
