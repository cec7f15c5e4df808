/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Congestion control towards one origin server (RFC 7252 section 4.7): how many
 * interactions may be outstanding. The window starts small, grows while answers
 * come in time (by one an answer until the first loss, then by one a round trip)
 * and is halved on loss: once for all that was sent before the halving, as that
 * went out under the old window. A loss shows only when a time-out passes, 2 to 3 s
 * later, and those of one flight not at the same time (ACK_RANDOM_FACTOR).
 *
 * It goes below nstart only while the origin server is silent: one that answers is
 * no dead one that has to be probed with care. Where many datagrams get lost for
 * other reasons than congestion, as on radio, a window of 1 would be shut for
 * seconds by each lost one, and what waits for it would be refused.
 *
 * Pure arithmetic: time comes as an argument.
 */
#ifndef CRIPROXY_WINDOW_H
#define CRIPROXY_WINDOW_H

#include "coap/transport.h"
#include "conf/config.h"

#include <stdbool.h>
#include <stdint.h>

struct window {
    uint32_t size_x256;      /* in 256ths of an interaction */
    uint32_t threshold_x256; /* slow start up to here */
    uint32_t start_x256;     /* what an origin server that answers is given at least */
    uint32_t max_x256;
    uint32_t outstanding;
    uint32_t srtt_ms_x8; /* smoothed round-trip time (RFC 6298); 0: not measured */
    uint32_t rttvar_ms_x4;
    uint64_t halved_ms; /* losses of what was sent before belong to the last halving */
};

/**
 * Begin with @p nstart outstanding interactions; @p nstart_max at most later. The struct is the
 * caller's, and nothing has to be freed.
 */
void window_init(struct window *window, uint32_t nstart, uint32_t nstart_max);

/*
 * The largest window that @p scheme, of @p config, allows. An HTTP connection carries one request
 * at a time: what has no connection waits in the queue.
 */
static inline uint32_t window_most(const struct config *config, const struct scheme *scheme)
{
    uint32_t most = config->http_connections_per_origin;
    bool is_bound = transport_is_http(scheme->transport) && most < scheme->nstart_max;
    return is_bound ? most : scheme->nstart_max;
}

/*
 * What it begins with. NSTART is for datagrams: a connection has its transport's congestion control
 * (RFC 8323).
 */
static inline uint32_t window_first(const struct config *config, const struct scheme *scheme)
{
    return transport_is_datagram(scheme->transport) ? scheme->nstart : window_most(config, scheme);
}

/** Take another maximum, after a reload; a larger window shrinks. Cannot fail. */
void window_limit(struct window *window, uint32_t nstart_max);

/** Whether one more may be sent; false while as many are outstanding as the window has. */
bool window_is_open(const struct window *window);

/**
 * An acknowledgement or answer came in time for something sent once.
 *
 * @param rtt_ms since it was sent.
 */
void window_on_success(struct window *window, uint32_t rtt_ms);

/** It has answered at all: perhaps late, or to a retransmission. */
void window_on_answer(struct window *window);

/** A request sent at @p sent_ms went unanswered. @return whether the window was halved for it. */
bool window_on_loss(struct window *window, uint64_t sent_ms, uint64_t now_ms);

/** Smoothed round-trip time in ms; 0 when not measured yet. */
static inline uint32_t window_rtt_ms(const struct window *window)
{
    return (window->srtt_ms_x8 + 4) / 8;
}

/*
 * What an origin server is sent while nothing comes back: PROBING_RATE bytes a second on
 * average (RFC 7252 section 4.7; MSG-32). All bytes count from the first that it has not
 * responded to, retransmissions and Pings too; those of its first seconds, in which it is
 * only late, are made up for later.
 */
struct silence {
    uint64_t since_ms; /* when the first of these left */
    uint64_t bytes;    /* sent since the origin server was heard of; 0: it owes nothing */
};

static inline void silence_on_send(struct silence *silence, size_t len, uint64_t now_ms)
{
    if (silence->bytes == 0) {
        silence->since_ms = now_ms;
    }
    silence->bytes += len;
}

static inline void silence_on_heard(struct silence *silence)
{
    silence->bytes = 0;
}

/* From when on it is silent, and not only late. */
static inline uint64_t silence_begins_ms(const struct silence *silence, const struct scheme *scheme)
{
    return silence->since_ms + scheme->silent_after;
}

static inline bool silence_is_on(const struct silence *silence, const struct scheme *scheme,
                                 uint64_t now_ms)
{
    return silence->bytes > 0 && now_ms >= silence_begins_ms(silence, scheme);
}

/* Until when no request is sent to an origin server that is silent. */
static inline uint64_t silence_until_ms(const struct silence *silence, const struct scheme *scheme)
{
    return silence->since_ms + silence->bytes * 1000 / scheme->probing_rate;
}

#endif
