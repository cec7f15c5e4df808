/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Clients on reliable transports (RFC 8323): frames, signalling, answers in any
 * order on the connection the request came on.
 */
#ifndef CRIPROXY_STREAM_H
#define CRIPROXY_STREAM_H

#include "base/timer.h"
#include "client/leg.h"
#include "net/conn.h"

struct client_side;
struct reply;

/** The handler of connections; its listener context is a struct stream_listener. */
extern const struct conn_handler stream_handler;

struct stream_listener {
    struct client_side *side;
    struct conn_listener *listener; /* NULL: the slot is free */
    enum transport transport;
    uint32_t open_count; /* its connections */
    bool is_retiring;    /* taken out by a reload */
    uint64_t retire_ms;  /* when it is closed at the latest */
    struct timer retire_timer;
};

/* A connection, for lists; borrowed until the next turn of the loop. */
struct stream_view {
    const struct address *remote;
    const struct identity *identity; /* NULL: not authenticated */
    const char *state;
    uint32_t scheme; /* its number */
    uint32_t in_flight, requests;
};

/** At most @p max connections after the first @p skip. @return how many */
size_t stream_list(const struct client_side *side, size_t skip, struct stream_view *ret_views,
                   size_t max);

/**
 * Send an answer on the connection of @p leg; copied. Nothing is sent where the connection is
 * closed or the client wants no answer; one that does not fit is replaced by
 * REASON_response_too_large.
 */
void stream_reply(struct client_side *side, struct leg *leg, const struct reply *reply);

/**
 * Gives a message of the connection of @p leg to the captures, of which there has to be one
 * (context/capture.h). Copied.
 */
void stream_capture(const struct leg *leg, const struct message *message, bool is_out);

/** Whether @p reply fits the peer's Max-Message-Size. */
bool stream_fits(const struct leg *leg, const struct reply *reply);

/** Host field of a WebSocket's handshake, or "". Borrowed. */
const char *stream_host(const struct stream *stream);

/** Counts the connections of the engine. */
uint64_t stream_serial(const struct leg *leg);

/** Whether its client does block-wise transfers, as its CSM says. */
bool stream_takes_blocks(const struct stream *stream);

/** Whether the client of @p leg sends the request that is under way in blocks itself, or can. */
bool stream_does_blocks(const struct leg *leg);

/** Whether the client of @p leg takes several blocks at once: BERT (RFC 8323 section 6). */
bool stream_takes_bert(const struct leg *leg);

/** The longest message that goes to the peer, in bytes. */
size_t stream_message_max(const struct leg *leg);

/** Whether its client has to take what waits for it before there is more. */
bool stream_is_full(const struct leg *leg);

/**
 * A request of @p peer, a stream, is over: the stream reads on, or is closed and must not be used
 * any more.
 */
void stream_settle(struct peer *peer);

/** Ask the peers of all connections of @p listener (NULL: of any) to go (Release). */
void stream_release_all(struct client_side *side, const struct stream_listener *listener);

/**
 * Close the connections that match, after a Release: nothing was wrong. Their requests are
 * dropped and their observations end at once. @p why is static.
 *
 * @return how many
 */
uint32_t stream_close_matching(struct client_side *side, peer_match_fn *is_match,
                               const void *context, const char *why);

/**
 * http.tokens-file may have been read anew: connections with the identity of a token that is not in
 * it any more are closed, with what stream_close_matching() says. Cannot fail.
 */
void stream_recheck_tokens(struct client_side *side);

/** As datagram_find_devices(), of connections. Cannot fail. */
void stream_find_devices(struct client_side *side);

#endif
