/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The parties in the chaos of test_chaos.c: clients, origin servers, and the
 * configuration that they live under. Each function does one thing, by chance.
 */
#ifndef CRIPROXY_REPLAY_CHAOS_H
#define CRIPROXY_REPLAY_CHAOS_H

#include "replay/replay.h"

#include "support/fake_client.h"
#include "support/fake_conn.h"
#include "support/fake_dtls.h"

#include <string.h>

#define CLIENTS 4u
#define STREAMS 4u
#define SESSIONS 2u
#define ORIGINS 3u
#define KEPT 24u /* requests that an origin server remembers */
#define MESSAGE_MAX 3000u
#define SETTINGS_MAX 48u
#define CHAOS_NAMES 40u /* of names, and of addresses: the tables have 16 places each */
#define ASKED 65536u    /* requests with targets of their own that are remembered */
#define ASKERS (CLIENTS + STREAMS + SESSIONS) /* numbered in this order; one digit */
#define LABEL_MAX 24u

/* One of them: what each message that is sent for it has. */
struct asked {
    uint32_t number;
    uint16_t target;      /* index of the targets, whose host it has */
    uint8_t code, letter; /* the payload is of that letter */
};

struct origin_server {
    struct fake_peer *peer;
    struct fake_datagram kept[KEPT];
    unsigned count;
};

struct chaos {
    struct replay replay;
    uint64_t random;
    uint16_t mid;
    uint32_t observe;
    struct asked asked[ASKED];
    uint32_t asked_count;
    uint32_t shared_count;  /* requests that were for what many ask for */
    uint32_t own[ASKERS];   /* what each asked for last, and 1; 0: nothing yet */
    uint64_t checked, seen; /* requests at origin servers that were one of those, and all */
    uint64_t answered_own, answered; /* answers at clients to those, and all with a payload */
    uint8_t letter;                  /* of the request that is being made */
    struct address proxy;
    struct fake_peer *clients[CLIENTS];
    uint8_t echo[CLIENTS][40]; /* what it was challenged with last */
    size_t echo_len[CLIENTS];
    struct fake_datagram last[CLIENTS]; /* that it has sent */
    struct fake_stream *streams[STREAMS];
    struct dtls_session *sessions[SESSIONS];
    struct origin_server origins[ORIGINS];
};

extern struct chaos chaos;

static inline uint32_t below(uint32_t limit)
{
    return (uint32_t)test_random_below(&chaos.random, limit);
}

static inline bool one_in(uint32_t count)
{
    return below(count) == 0;
}

static inline struct bytes text_bytes(const char *text)
{
    return (struct bytes){(const uint8_t *)text, strlen(text)};
}

/** Some configuration: "key=value", and NULL behind the last. */
void chaos_settings(const char *ret_settings[SETTINGS_MAX]);

/* chaos_clients.c, and for its requests chaos_requests.c */

/** A datagram with a request. @p client: its number among all ASKERS. */
size_t chaos_request(uint8_t *buffer, size_t capacity, unsigned client);

/** What goes on a connection: as a rule a request. @return where it begins in @p buffer */
struct bytes chaos_frame(uint8_t *buffer, unsigned client, bool is_ws);

/** A Block1 or Block2 value, good or not. */
uint32_t chaos_block_value(void);

/** A client on UDP, a connection, or a session of DTLS does something. */
void chaos_client_asks(void);
void chaos_stream_acts(void);
void chaos_session_acts(void);

/** What a client on UDP does with what it receives. */
void chaos_to_client(void *context, struct fake_peer *peer, const struct fake_datagram *datagram);

/* chaos_origins.c */

/** An origin server on UDP, or one on a session, answers something, or does not. */
void chaos_origin_acts(void);
void chaos_session_origin_acts(void);

/** Whether what reaches an origin server is one client's request, and not of two. */
void chaos_check_request(uint8_t code, const struct message *message);

/** Whether what reaches @p client is the answer to a request that it may have made. */
void chaos_check_answer(unsigned client, const struct message *message);

/** What an origin server does with what it receives; @p context: a struct origin_server. */
void chaos_to_origin(void *context, struct fake_peer *peer, const struct fake_datagram *datagram);

/** Decode what is here of a datagram, which may be longer than a struct fake_datagram holds. */
bool chaos_decode(const struct fake_datagram *datagram, struct message *ret_message);

#endif
