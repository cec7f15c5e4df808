/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The listeners of one engine: opened at the start and by reloads, and closed by
 * reloads without losing what came in over them.
 *
 *   in use --listen_retire()--> retiring --nothing in flight, or time is up--> closed
 *
 * Newcomers at a listener that retires get 5.03 and are not accepted as connections;
 * connections are told to go (Release), sessions hear close_notify at the end.
 */
#ifndef CRIPROXY_LISTEN_H
#define CRIPROXY_LISTEN_H

#include "base/address.h"
#include "base/timer.h"
#include "client/stream.h"

struct client_side;
struct conn_options;
struct datagram;
struct credentials;
struct dtls_gift;
struct dtls_options;
struct pack;
struct unpack;
struct udp_options;

#define LISTENERS_MAX 64

/* A socket for datagrams of clients. */
struct listener {
    struct client_side *side;
    struct udp_socket *socket;  /* in the clear, or */
    struct dtls_listener *dtls; /* on DTLS: one of them is set */
    struct address bound;
    uint32_t index;     /* counts up: a listener opened later never has the same */
    bool is_retiring;   /* taken out by a reload: newcomers get 5.03 */
    uint64_t retire_ms; /* when it is closed at the latest */
    struct timer retire_timer;
};

/**
 * Listen for clients on UDP. @p options->port 0 lets the kernel choose.
 *
 * @param ret_address NULL, or where it listens.
 * @return 0 or -errno; -ENOSPC: LISTENERS_MAX are open.
 */
int listen_udp(struct client_side *side, const struct udp_options *options,
               struct address *ret_address);

/** The same on DTLS; the credentials are acquired. */
int listen_dtls(struct client_side *side, const struct dtls_options *options,
                struct address *ret_address);

/**
 * The same on a reliable transport. @return as listen_udp(); -EPROTONOSUPPORT for a transport that
 * is not built in.
 */
int listen_stream(struct client_side *side, const struct conn_options *options,
                  struct address *ret_address);

/**
 * Stop listening at @p bound, as a reload asks: newcomers there get 5.03 (no
 * connections are accepted), what is in flight is answered, and when nothing is any
 * more, or after proxy.drain-timeout, the socket is closed.
 */
void listen_retire(struct client_side *side, bool is_stream, const struct address *bound);

/** For connections and sessions from now on; acquired by the listeners. */
void listen_set_credentials(struct client_side *side, struct credentials *credentials);

/**
 * Send the datagrams that are queued on all sockets of listeners; one that the system refuses is
 * lost.
 */
void listen_flush(struct client_side *side);

/** Time-outs of DTLS handshakes and sessions. @return when to be called next */
uint64_t listen_turn(struct client_side *side, uint64_t now_ms);

/**
 * Closes the sockets that connections are accepted on; connections that are open stay. Cannot
 * fail.
 */
void listen_stop_accepting(struct client_side *side);

/**
 * Whether datagrams of clients stay in the kernel's buffers, before another process takes the
 * sockets; what is in flight goes on.
 */
void listen_hold(struct client_side *side, bool is_held);

/** Appends the DTLS sessions of all listeners, which are frozen from now on, or those of @p gift
 * (net/dtls.h); @p out has_failed without memory. */
void listen_hand_over(struct client_side *side, const struct dtls_gift *gift, struct pack *out);

/** The hand-over has failed, and what was appended is destroyed: sessions go on here. */
void listen_thaw(struct client_side *side);

/**
 * Takes over what listen_hand_over() has written, for listeners that are open here too. @return
 * whether all of it could be read
 */
bool listen_take_over(struct client_side *side, struct unpack *in);

/**
 * A datagram that another replica has passed on (net/peers.h); borrowed. @return whether a DTLS
 * session here has its connection id
 */
bool listen_take_passed(struct client_side *side, const struct datagram *datagram);

/**
 * Queues @p records of another replica, copied, to a client that has sent to the DTLS listener
 * with the number @p listener. @return whether that is there
 */
bool listen_send_passed(struct client_side *side, uint16_t listener, const struct udp_path *path,
                        struct bytes records);

/** As dtls_count_shares(), of all listeners. Cannot fail. */
void listen_count_shares(const struct client_side *side, uint32_t *counts);

/** As dtls_forget(), of all listeners. Cannot fail. @return how many */
uint32_t listen_forget(struct client_side *side, const struct dtls_gift *gift);

/**
 * Takes over what listen_hand_over() of another replica has written, whose clock runs @p shift_ms
 * behind: to the DTLS listener with the same port, or the only one.
 *
 * @param ret_taken    sessions that are here now
 * @param ret_left_out sessions that are gone, as there was no room or no credential for them
 * @return whether all of it could be read
 */
bool listen_take_given(struct client_side *side, struct unpack *in, int64_t shift_ms,
                       uint32_t *ret_taken, uint32_t *ret_left_out);

/** Closes and frees all listeners with their sessions and connections; when the engine ends. */
void listen_close_all(struct client_side *side);

#endif
