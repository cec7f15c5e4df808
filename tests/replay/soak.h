/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The books that clients and origin servers keep in a soak: what is asked and what is
 * answered carries the request's number and a check value, so an answer that reaches the
 * wrong client, or belongs to another request, shows. What is wrong fails the test there
 * and then; what is left at the end is for the scenario, test_soak.c, to look at.
 */
#ifndef CRIPROXY_REPLAY_SOAK_H
#define CRIPROXY_REPLAY_SOAK_H

#include "replay/replay.h"

#include "coap/message.h"

#define CLIENTS 24u
#define ORIGINS 8u
#define ASKS_MAX 16000u
#define OUTSTANDING_MAX 6u /* of one client */
#define DATAGRAM_MAX 160u
#define STEP_MS 50u

/* RFC 7252 section 4.8. */
#define ACK_TIMEOUT_MS 2000u
#define MAX_RETRANSMIT 4u
#define EXCHANGE_LIFETIME_MS 247000u

/* How long a client waits for an answer that it was promised. */
#define PATIENCE_MS 200000u

/* What becomes of a request at its origin server. */
enum manner {
    PIGGYBACKED,
    SEPARATE,
    AS_NON,
    LATE,
    SILENT,
    REFUSED,
    RESET,
    MIXED, /* any of the first four */
    MANNERS,
};

struct ask {
    unsigned client, origin;
    bool is_con, is_safe;
    bool is_over, has_answer, was_promised;
    unsigned transmissions, served;
    uint64_t next_ms, timeout_ms;
    uint16_t mid;
    uint8_t code; /* of the answer */
    uint32_t len;
    uint8_t datagram[DATAGRAM_MAX];
};

struct soak_client {
    unsigned index;
    struct fake_peer *peer;
    bool is_rude; /* never acknowledges */
    uint16_t next_mid;
    uint32_t outstanding[OUTSTANDING_MAX];
    unsigned count;
};

/* What an origin server has done, or still has to do. */
struct deed {
    struct address from;
    uint64_t at_ms;
    uint32_t ask;
    uint16_t mid; /* of the request */
    enum manner manner;
    bool is_due, is_con;
    unsigned transmissions;
    uint64_t next_ms, timeout_ms;
    uint16_t own_mid;
    uint32_t len;
    uint8_t answer[64];
};

#define DEEDS_MAX 16384u /* by origin server, a ring */

struct server {
    unsigned index;
    struct fake_peer *peer;
    enum manner manner;
    uint16_t next_mid;
    uint32_t deed_count;
    struct deed deeds[DEEDS_MAX];
};

extern struct soak {
    uint64_t random;
    bool is_corrupting;
    const struct replay *replay;
    struct address proxy;
    struct soak_client clients[CLIENTS];
    struct server servers[ORIGINS];
    struct ask asks[ASKS_MAX];
    uint32_t ask_count;
    uint64_t done_again; /* requests that are not safe */
} soak;

/** A random number under @p limit. */
uint32_t soak_below(uint32_t limit);

/** The check value of a request's number. */
uint32_t soak_check_of(uint32_t ask);

/** The query of a request, "client=CC-NNNNNN": no other request has it. */
#define SOAK_QUERY_LEN 16u
void soak_query(uint32_t ask, char ret_query[SOAK_QUERY_LEN + 1]);

/** Whether damage on the way explains an answer that makes no sense; fails where it cannot. */
bool soak_is_excused(bool is_good);

struct bytes soak_text_bytes(const char *text);

/** All clients, with nothing asked yet. */
void soak_make_clients(void);

/** One more request of a client, with its first transmission. */
void soak_begin(struct soak_client *client);

/** Retransmissions and requests given up, of a client. */
void soak_go_on(struct soak_client *client, uint64_t now_ms);

/** All origin servers and their names, each with its manner. */
void soak_make_servers(void);

/** Answers that are due, and those once more that were not acknowledged. */
void soak_work(struct server *server, uint64_t now_ms);

#endif
