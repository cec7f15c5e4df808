/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared between the files of the fake network. */
#ifndef CRIPROXY_FAKE_NET_INTERNAL_H
#define CRIPROXY_FAKE_NET_INTERNAL_H

#include "net/loop.h"
#include "net/udp.h"
#include "support/fake_net.h"
#include "support/test.h"

struct fake_event;

/* Something that happens at a time; allocated with what it carries at its end. */
struct fake_event {
    uint64_t at_ms, sequence; /* equal times: in order of sequence */
    void (*happen)(struct fake_event *event);
    struct udp_socket *socket; /* sender of a datagram, receiver of an error */
    struct address from, to;
    int error;
    void *object;
    size_t len;
    uint8_t data[];
};

/** A zeroed event with a copy of @p data. */
struct fake_event *fake_event_new(void (*happen)(struct fake_event *event), const uint8_t *data,
                                  size_t len);

/** Have it happen after @p delay_ms; it is freed afterwards. */
void fake_event_post(struct fake_event *event, uint64_t delay_ms);

/** Free all that is under way. */
void fake_events_clear(void);

/** The loop has had a callback: its turn must end with on_turn. */
void fake_loop_wake(struct loop *loop);

/** True when @p when of @p context holds at a moment up to @p ms from now; time stops there. */
bool fake_net_run_until(uint64_t ms, bool (*when)(void *context), void *context);

/** Put a datagram on the wire. @p socket: the sender, NULL for a peer. */
void fake_wire_send(struct udp_socket *socket, const struct address *from, const struct address *to,
                    const uint8_t *data, size_t len);

/** An ICMP error for what @p socket sent to @p remote; takes the link's delay. */
void fake_wire_error(struct udp_socket *socket, const struct address *remote, int error,
                     const uint8_t *quoted, size_t quoted_len);

enum fake_fate {
    FAKE_NOT_MINE,
    FAKE_DELIVERED,
    FAKE_LOST,
};

/* fake_udp.c */
enum fake_fate fake_udp_deliver(const struct address *from, const struct address *to,
                                const uint8_t *data, size_t len);
struct udp_socket *fake_udp_find(const struct address *to, const struct address *from);
bool fake_udp_has_output(const struct loop *loop);
bool fake_udp_is_open_on(const struct loop *loop);
size_t fake_udp_open_count(void);
void fake_udp_deliver_error(struct udp_socket *socket, const struct address *remote, int error,
                            const uint8_t *quoted, size_t quoted_len);
void fake_udp_stop(void);

/* fake_peer.c */
enum fake_fate fake_peer_deliver(const struct address *from, const struct address *to,
                                 const uint8_t *data, size_t len);
/** A datagram to no peer. */
void fake_peer_stray(const struct address *from, const struct address *to, const uint8_t *data,
                     size_t len);
void fake_peers_free(void);

/* fake_resolve.c */
size_t fake_resolver_count(void);
void fake_resolve_stop(void);

uint64_t fake_random(void);
void *fake_alloc(size_t size);

#endif
