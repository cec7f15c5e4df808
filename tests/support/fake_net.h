/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A network, a clock and a resolver that a test writes the script for. Linked in
 * place of daemon/net (same symbols: loop.h, udp.h, resolve.h, entropy.h), so the
 * real protocol code runs on it, in virtual time, the same way each time.
 *
 *     fake_net_start(1);
 *     ... loop_new(), engine_new(), listen_udp() on 127.0.0.1:5683 ...
 *     struct fake_peer *client = fake_peer_new("127.0.0.1:40001");
 *     struct fake_peer *origin = fake_peer_new("192.0.2.7:5683");
 *     struct fake_datagram request;
 *
 *     fake_peer_send(client, "127.0.0.1:5683", "41 01 0001 aa ...");
 *     fake_peer_expect(origin, "4T 01 MID TOKEN b1 61", &request);
 *     fake_peer_reply(origin, &request, "6T 45 MID TOKEN ff 68 69");
 *     fake_peer_expect(client, "61 45 0001 aa ff 68 69", NULL);
 *     fake_peer_expect_nothing(client);
 *     ... engine_free(), loop_free() ...
 *     fake_net_stop();
 *
 * What a test gets wrong, and what the code under test may not do (send on a
 * closed socket, leave output unflushed at the end of a turn, ask for turns
 * without end, leave a socket open), fails the test.
 *
 * A peer is what is not under test: a client, an origin. Datagrams to an
 * address at which no peer is are lost, as in a black hole; fake_net_take() has them.
 */
#ifndef CRIPROXY_FAKE_NET_H
#define CRIPROXY_FAKE_NET_H

#include "base/address.h"
#include "net/resolve.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fake_peer;

/* What of a datagram's bytes a struct fake_datagram holds. */
#define FAKE_DATAGRAM_MAX 2048

struct fake_datagram {
    struct address from, to;
    uint64_t at_ms; /* when it arrived */
    size_t len;     /* of the datagram; data has at most FAKE_DATAGRAM_MAX of them */
    uint8_t data[FAKE_DATAGRAM_MAX];
};

/* ---- life, time ---- */

/** Before anything else. Everything random follows from @p seed. */
void fake_net_start(uint64_t seed);

/** At the end: fails the test if a loop, socket or resolver is still open. Frees all peers. */
void fake_net_stop(void);

uint64_t fake_net_now_ms(void);

/**
 * Let @p ms pass: deliver what arrives, call on_turn exactly when it is due.
 * Begins with one turn of each loop. 0: until nothing more happens at this moment.
 */
void fake_net_run(uint64_t ms);

/* ---- the network between ---- */

/*
 * What happens to each datagram, in both directions. All zero: arrives at the
 * same millisecond, in order.
 */
struct fake_link {
    uint32_t delay_min_ms, delay_max_ms; /* one way */
    unsigned loss_percent, duplicate_percent;
    unsigned reorder_percent; /* held back, for up to delay_max_ms + 10 longer */
    unsigned corrupt_percent; /* one bit turned over */
};

void fake_net_set_link(const struct fake_link *link);

/** Datagrams to address @p text ("192.0.2.7:5683") come back as ICMP error @p error; 0: no longer.
 */
void fake_net_refuse(const char *text, int error);

/** From now on sockets of @p family (enum address_family) cannot be opened; 0: all can. */
void fake_net_refuse_sockets(uint16_t family, int error);

/** How many were refused so since the start. */
unsigned fake_net_sockets_refused(void);

/** Next datagram that was sent to where no peer is (the last 4096 are kept); false: none. */
bool fake_net_take(struct fake_datagram *ret_datagram);

/* Since fake_net_start(). */
struct fake_net_stats {
    uint64_t sent, delivered, lost, duplicated, corrupted;
    uint64_t turns;
};

const struct fake_net_stats *fake_net_stats(void);

/* ---- names ---- */

/**
 * What the resolver says about the name @p text, @p delay_ms after it was asked.
 * @p addresses: IP addresses without ports ("192.0.2.7 2001:db8::7"), "" for none.
 * Names not set here are not found, at once. The last call for a name counts.
 */
void fake_net_name(const char *text, uint64_t delay_ms, enum resolve_status status,
                   const char *addresses);

/** The time to live of the name @p text, which was set before; otherwise it is not known. */
void fake_net_name_ttl(const char *text, uint32_t ttl_s);

/** From now on, and in what follows fake_net_stop(), the host has the interface @p name besides lo,
 * wpan0 and eth0; @p index 0: not. */
void fake_net_interface(const char *name, uint32_t index);

/** From now on no question can be asked, for errno @p error; 0: they can again. */
void fake_net_resolver_fails(int error);

/** Questions asked so far, and how many of them were withdrawn before they were answered. */
size_t fake_net_questions(void);
size_t fake_net_questions_withdrawn(void);

/* ---- peers ---- */

/** At address @p text, "127.0.0.1:40001" or "[2001:db8::7]:5683". Freed by fake_net_stop(). */
struct fake_peer *fake_peer_new(const char *text);

/** From now on the peer is gone. */
void fake_peer_close(struct fake_peer *peer);

const struct address *fake_peer_address(const struct fake_peer *peer);

/** Called for each datagram instead of queueing it: for origins that answer by themselves. */
typedef void (*fake_peer_fn)(void *context, struct fake_peer *peer,
                             const struct fake_datagram *datagram);
void fake_peer_on_datagram(struct fake_peer *peer, fake_peer_fn on_datagram, void *context);

/** Called after each datagram that fake_peer_expect() has found: for what goes on beside it. */
void fake_peer_on_expected(struct fake_peer *peer, void (*on_expected)(void *context),
                           void *context);

/** The next @p count datagrams to this peer get lost. */
void fake_peer_lose(struct fake_peer *peer, unsigned count);

void fake_peer_send(struct fake_peer *peer, const char *to, const char *hex);
void fake_peer_send_bytes(struct fake_peer *peer, const struct address *to, const uint8_t *data,
                          size_t len);

/**
 * Back to where @p request came from. In @p text, besides hex digits and blanks:
 * T is the nibble of the request's token length, MID its two bytes of message id,
 * TOKEN its token; so "6T 45 MID TOKEN" acknowledges with 2.05.
 */
void fake_peer_reply(struct fake_peer *peer, const struct fake_datagram *request, const char *text);

/** As a router would: an ICMP error for @p datagram, quoting its start, to its sender. */
void fake_peer_reject(struct fake_peer *peer, const struct fake_datagram *datagram, int error);

/** Next datagram that has arrived; false if there is none. Lets no time pass. */
bool fake_peer_take(struct fake_peer *peer, struct fake_datagram *ret_datagram);

/** Let up to @p ms pass until a datagram is here; whether one is. */
bool fake_peer_wait(struct fake_peer *peer, uint64_t ms);

/**
 * The next datagram must be @p pattern and arrive within @p ms (0: at this moment).
 * In @p pattern, besides hex digits and blanks: ? is any nibble, T any token
 * length, MID any two bytes, TOKEN as many bytes as the token length says, and
 * "..." at the end anything more. @p ret_datagram may be NULL.
 */
#define fake_peer_expect_within(peer, ms, pattern, ret_datagram)                                   \
    fake_peer_expect_at((peer), (ms), (pattern), (ret_datagram), __FILE__, __LINE__)
#define fake_peer_expect(peer, pattern, ret_datagram)                                              \
    fake_peer_expect_at((peer), 0, (pattern), (ret_datagram), __FILE__, __LINE__)
void fake_peer_expect_at(struct fake_peer *peer, uint64_t ms, const char *pattern,
                         struct fake_datagram *ret_datagram, const char *file, int line);

/** The next datagram must be @p request and here by now, and is replied to with @p answer. */
#define fake_peer_serve(peer, request, answer)                                                     \
    fake_peer_serve_at((peer), (request), (answer), __FILE__, __LINE__)
void fake_peer_serve_at(struct fake_peer *peer, const char *request, const char *answer,
                        const char *file, int line);

/** Nothing must arrive within @p ms (0: at this moment). */
#define fake_peer_expect_nothing_within(peer, ms)                                                  \
    fake_peer_expect_nothing_at((peer), (ms), __FILE__, __LINE__)
#define fake_peer_expect_nothing(peer) fake_peer_expect_nothing_at((peer), 0, __FILE__, __LINE__)
void fake_peer_expect_nothing_at(struct fake_peer *peer, uint64_t ms, const char *file, int line);

struct udp_socket;

/** Which byte of a datagram udp_steer() was told to steer by; 0: it was not called. */
uint32_t fake_udp_steer_at(const struct udp_socket *socket);

#endif
