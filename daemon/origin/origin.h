/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Origin servers that requests are sent to: one record an address, with its
 * congestion window, its queue, and the message ids used towards it.
 *
 * Message ids: 65,536 of them last 247 s towards one endpoint from one source
 * port (RFC 7252 section 4.4), which is 265 requests a second. An origin server
 * that is asked more often is asked from further source ports.
 *
 * Groups (multicast addresses) have source ports and message ids of their own, which all of them
 * share: a server may be a member of two groups and be asked by itself as well, and no message id
 * may come twice to it from one port (RFC 7252 section 8.1).
 */
#ifndef CRIPROXY_ORIGIN_H
#define CRIPROXY_ORIGIN_H

#include "base/hash.h"
#include "base/list.h"
#include "base/slot_book.h"
#include "base/timer.h"
#include "coap/mid.h"
#include "coap/reason.h"
#include "coap/retransmit.h"
#include "conf/config.h"
#include "net/udp.h"
#include "ops/events.h"
#include "origin/carrier.h"
#include "origin/queue.h"
#include "origin/window.h"

struct device;
struct fault;
struct origin_side;
struct origin;
struct queue_book;
struct relay;
struct replay_run;
struct sending_calls;

/* Families of source ports. */
enum port_family {
    PORT_IPV4,
    PORT_IPV6,
    PORT_GROUP_IPV4,
    PORT_GROUP_IPV6,
    PORT_FAMILIES,
};

/* A source port of ours. */
struct port {
    struct origin_side *side;
    struct udp_socket *socket;
    enum port_family family;
    uint16_t index;
};

/* The source ports of one family; opened as they are needed, in order. */
struct port_pool {
    struct port *ports;
    uint32_t capacity, count;
};

/* Message ids, and which source port they are taken from now. */
struct mid_source {
    uint16_t port_index;
    bool has_begun;            /* the ids of source port 0 */
    struct mid_space first;    /* ids from source port 0 */
    struct mid_space *further; /* from the others; NULL until the first are used up */
};

struct origin {
    struct hash_node node; /* by address */
    struct address address;
    enum transport transport;
    uint32_t slot;
    uint32_t generation;
    struct window window;
    struct silence silence;
    struct timer probe_timer; /* set only while something waits (origin/origin.h) */
    struct port *ping_port;   /* of the last Ping that is unanswered, */
    uint16_t ping_mid;        /* and its message id */
    uint64_t ping_ms;         /* when the next may be sent */
    struct queue queue;
    struct queue_book *queue_book; /* which source has how many there; NULL: none is kept */
    uint32_t failures;             /* HTTP: connections in a row that failed, */
    uint64_t retry_ms;             /* and when the next may be tried */
    uint32_t fetches;              /* that point here */
    struct list sendings;          /* likewise, the oldest first, while the table has a book */
    uint64_t requests, answers, retransmitted; /* so far, for people */
    uint8_t fault;             /* of a lab, of what was sent last: its number + 1; 0: none */
    uint8_t label;             /* in the metrics (ops/origin_labels.h), */
    uint32_t label_generation; /* of this generation, */
    uint32_t label_until_s;    /* until which it is not looked up again */
    uint32_t seen_s;
    uint32_t lifetime_ms;   /* EXCHANGE_LIFETIME, the longest of the schemes it was asked by */
    struct mid_source mids; /* of an origin server; a group's are in the table */
};

struct origin_table {
    const struct sending_calls *calls; /* how the owners of what is sent are told */
    struct origin *slots;
    uint32_t capacity, used;
    struct origin *latest; /* asked for; NULL: none yet */
    struct slot_book book; /* of those that requests have chosen (origin/room.h) */
    struct list queue_books;
    const struct origin *inside; /* at work now: it makes no room */
    uint32_t further_count;      /* origins that have further source ports */
    struct hash_map map;
    struct hash_map requests; /* what is out as datagrams, by source port and message id */
    uint64_t random;
    struct port_pool pools[PORT_FAMILIES];
    struct mid_source group_mids[PORT_FAMILIES]; /* of the families of groups */
    uint64_t evicted;
};

/**
 * @param calls    static.
 * @param requests that may be out at a time.
 * @param ports    source ports of a family at most.
 * @return 0 or -ENOMEM
 */
int origin_table_init(struct origin_table *table, const struct sending_calls *calls,
                      uint32_t capacity, uint32_t requests, uint32_t ports, uint64_t seed);

/** Closes the source ports and frees the slots. Takes a zeroed table. */
void origin_table_clear(struct origin_table *table);

/**
 * The origin server at @p address over the transport of @p scheme, made if it is new: then another
 * one may make room for it (origin/room.h).
 *
 * @param newcomer that is to be sent there.
 * @return NULL when the table is full.
 */
struct origin *origin_get(struct origin_side *side, const struct address *address,
                          const struct scheme *scheme, struct sending *newcomer);

/**
 * It is reached by @p scheme from now on: a device whose session is on another transport begins
 * with a window of that one. Cannot fail.
 */
void origin_take_scheme(struct origin_side *side, struct origin *origin,
                        const struct scheme *scheme);

/**
 * The origin server at @p address that is reached over @p transport; a device whatever that is.
 * Borrowed; NULL: none.
 */
struct origin *origin_find(const struct origin_table *table, const struct address *address,
                           enum transport transport);

/**
 * A message id towards @p origin and the source port it belongs to; opens
 * another source port where the last one's ids are used up.
 *
 * @return false when there is none: the request has to wait or to fail.
 */
bool origin_take_mid(struct origin_side *side, struct origin *origin, struct port **ret_port,
                     uint16_t *ret_mid);

/** As origin_take_mid(), but only from @p port; false where all its ids are in use. */
bool origin_take_mid_of(struct origin_side *side, struct origin *origin, const struct port *port,
                        uint16_t *ret_mid);

/*
 * A request on its way to one origin server: in its queue, out, or acknowledged. Embedded in what
 * is asked (struct fetch), which hears of it by struct sending_calls. All transports share what is
 * here; a carrier (origin/carrier.h) brings the bytes there and back.
 *
 *               sending_start()       window open         sending_acknowledged()
 *     at rest ------------------> queued -------> out ------------------------> acknowledged
 *        ^                          |              |                                 |
 *        +---- sending_keep(), _take_back(), _release() ----------------------------+
 *
 * The window counts what is out and neither acknowledged, answered nor given up.
 */

struct long_body;
struct message;
struct upstream_request;
struct web_request;

enum sending_stage {
    SENDING_AT_REST, /* nothing is out; or between the answers of one that is_kept */
    SENDING_QUEUED,
    SENDING_OUT,
    SENDING_ACKNOWLEDGED, /* an answer was promised: sent no more */
};

struct sending {
    enum sending_stage stage;
    enum reason reason; /* of CARRIER_FAILED, until it is told */

    /* Set by the owner before sending_start(). */
    const struct scheme *scheme; /* of the next hop; borrowed from the configuration in use */
    uint8_t *datagram;           /* the message as over UDP; borrowed while it is queued or out */
    uint32_t datagram_len;
    struct bytes body;    /* HTTP: the payload, in place of the message's; data == NULL: none */
    bool is_confirmable;  /* as CON (MSG-37); carriers without message types ignore it */
    bool has_oscore;      /* the carrier protects it */
    bool is_group;        /* to a group: sent once as NON, its end is the owner's (MCAST-8) */
    bool is_kept;         /* further answers may follow the first, until it is cancelled */
    bool is_device;       /* to a device, over the session that it has opened */
    bool is_recorded;     /* it is answered out of a recording */
    bool is_relayed;      /* for another worker: its owner is a struct relay */
    bool is_for_http;     /* its client speaks HTTP, and has http.request-timeout */
    uint64_t deadline_ms; /* of the whole request */

    /* For the owner to read. */
    struct origin *origin; /* NULL before it is known, and once it has made room */
    bool is_sent; /* a copy has left (a session: may have), no answer tells what became of it */
    bool is_outstanding;  /* counted in the origin server's window */
    bool is_private;      /* HTTP: the answer is for this request alone, and not to be kept */
    bool has_credentials; /* HTTP: it was sent with those of the configuration */
    bool is_elsewhere;    /* HTTP: it goes where a redirect has led; set by the owner */
    uint8_t known_etag[8], known_len; /* HTTP: of what is here already; set by the owner */
    struct retransmission again;

    /* Of origin.c and the carriers alone. */
    struct queued queued;
    struct list_node of_origin;        /* in the list of its origin server (origin/room.h) */
    struct timer timer;                /* the queue's time, a retransmission, or the deadline */
    uint64_t sent_ms;                  /* first transmission of what is out */
    uint64_t sent_us;                  /* the same, for the metrics */
    struct hash_node by_message;       /* datagrams: message id of what is out */
    struct port *port;                 /* datagrams: the source port, also for the next time */
    struct upstream_request *upstream; /* sessions: what of it is on one; NULL: nothing */
    struct device *device;             /* devices: likewise, and it is in its list: */
    struct list_node on_device;
    uint32_t line;               /* with which of its lines */
    struct relay *relay;         /* that another worker has of it; NULL: nothing */
    struct holding waiting;      /* of its client's source, while it waits for a device, */
    uint32_t waiting_bytes;      /* with the bytes of its message */
    struct web_request *web;     /* HTTP: likewise */
    struct replay_run *replay;   /* recordings: likewise */
    struct long_body *long_body; /* HTTP: of which the next part is asked for, or NULL */
    uint8_t fault_code;          /* of a lab: that it is answered with */
    bool has_malformed;          /* something came that could not be read */
    bool is_starting;            /* in sending_start(): the owner sees for itself */
};

/*
 * How the owner of a struct sending is told. Called from a timer, from the network, or from
 * sending_answered() and the like, never from inside sending_start() of the same struct. Each
 * on_ call but on_sent may end the request: have the struct released and freed.
 */
struct sending_calls {
    /* It has left the queue: stage is SENDING_OUT. Must not start, end or release any. */
    void (*on_sent)(struct origin_side *side, struct sending *sending);
    /* An answer was promised. */
    void (*on_acknowledged)(struct origin_side *side, struct sending *sending);
    /* The answer, borrowed; @p truncated: only its beginning. The message layer has done its
     * part, and the window and counters know. Unless it is_kept, the request holds nothing any
     * more, as after sending_release(); is_sent still says that a copy has left. */
    void (*on_response)(struct origin_side *side, struct sending *sending,
                        const struct message *response, bool truncated);
    /* An answer of a member of the group, from @p remote; each is told once. */
    void (*on_member)(struct origin_side *side, struct sending *sending,
                      const struct message *response, const struct address *remote);
    /* HTTP: the server says to ask for @p cri instead, a full CRI; nothing is out any more. */
    void (*on_redirect)(struct origin_side *side, struct sending *sending, struct bytes cri);
    /* There will be no answer from there, for @p reason. @p text: NULL or "": the reason's own. */
    void (*on_failure)(struct origin_side *side, struct sending *sending, enum reason reason,
                       const char *text);
    /* Nothing has come in time: @p reason, unless no answer is wanted. */
    void (*on_timeout)(struct origin_side *side, struct sending *sending, enum reason reason);
    /* For the trace; called only while there is one. */
    void (*on_event)(struct origin_side *side, struct sending *sending, enum event_kind kind,
                     uint32_t number);
    /* The one whose datagram has @p token, or NULL. */
    struct sending *(*by_token)(struct origin_side *side, struct bytes token);
    /* The client on whose behalf it is sent: its source is charged. Borrowed for the call. */
    const struct address *(*source_of)(struct origin_side *side, struct sending *sending);
    /* Call @p visit for each that has an origin server. */
    void (*each)(struct origin_side *side, void (*visit)(struct sending *sending));
    /* It should make room: another one that waits for the same pays for it from now on, of another
     * source. @return false where none does. */
    bool (*pass_on)(struct origin_side *side, struct sending *sending);
    /* The device that it is for is away. @return false where there is an answer all the same. */
    bool (*may_wait)(struct origin_side *side, struct sending *sending);
    /* The number of the exchange that it is for. */
    uint64_t (*exchange_of)(struct origin_side *side, struct sending *sending);
    /* The fault of a lab that is for it (context/faults.h), or NULL. */
    struct fault *(*find_fault)(struct origin_side *side, struct sending *sending);
    /* For carriers that need more than the address. */
    void (*find_way)(struct origin_side *side, struct sending *sending,
                     struct carrier_way *ret_way);
};

/**
 * Choose the origin server at @p address; sending->scheme is set. Counts as one of its fetches
 * until sending_release(), or until it is answered.
 *
 * @return REASON_none; REASON_no_route where there is no socket to reach it from, as on a host
 *         without IPv6; REASON_proxy_busy where the table of origin servers is full.
 */
enum reason sending_choose(struct origin_side *side, struct sending *sending,
                           const struct address *address);

/**
 * Send to the chosen origin server, or wait for its window; once more where it was sent before.
 * Others in the queue may be sent as well, but none ends, and no call is made for this one.
 *
 * @return REASON_none: its stage is SENDING_OUT or SENDING_QUEUED. Else why it may not even wait;
 *         it is at rest.
 */
enum reason sending_start(struct origin_side *side, struct sending *sending);

/** It was answered and stays for further answers: not queued, no timer, at rest. */
void sending_keep(struct origin_side *side, struct sending *sending);

/** What is queued or out is taken back, so that its datagram may be replaced; the origin server
 * stays chosen. Takes one of which nothing is out. */
void sending_take_back(struct origin_side *side, struct sending *sending);

/**
 * It makes room for others: it is taken back and has no origin server any more. Its owner is told
 * REASON_displaced later, from a timer, so this may be called while others are started.
 */
void sending_displace(struct origin_side *side, struct sending *sending);

/**
 * It holds nothing any more, not even its origin server. Others that wait for the window may be
 * sent, but none ends. Takes one that was never started.
 */
void sending_release(struct origin_side *side, struct sending *sending);

/** Its carrier; static. */
static inline const struct carrier *carrier_of_sending(const struct sending *sending)
{
    if (sending->has_oscore) {
        return &carrier_session;
    }
    if (sending->is_recorded) {
        return &carrier_recording;
    }
    return sending->is_device ? &carrier_device : carrier_of(sending->scheme->transport);
}

/* --- for carriers ------------------------------------------------------- */

/** Have sending->timer end it at its deadline. */
void sending_await_end(struct origin_side *side, struct sending *sending);

/**
 * It counts no more in the window: answered or acknowledged (@p is_success), or given up. Those
 * that wait may be sent. Takes one that does not count.
 */
void sending_settle(struct origin_side *side, struct sending *sending, bool is_success);

/** An answer was promised: on_acknowledged. Nothing is sent again, its deadline stays. */
void sending_acknowledged(struct origin_side *side, struct sending *sending);

/** A response has come that belongs to it: on_response. May free it. */
void sending_answered(struct origin_side *side, struct sending *sending,
                      const struct message *response, bool truncated);

/** The answer leads to @p cri: on_redirect. May free it. */
void sending_redirected(struct origin_side *side, struct sending *sending, struct bytes cri);

/**
 * There will be no answer: on_failure. May free it.
 *
 * @param text as in on_failure; borrowed.
 */
void sending_failed(struct origin_side *side, struct sending *sending, enum reason reason,
                    const char *text);

/** Its time is over: on_timeout. May free it. */
void sending_timed_out(struct origin_side *side, struct sending *sending);

/** The client on whose behalf it is sent; borrowed for the moment. */
const struct address *sending_source(struct origin_side *side, struct sending *sending);

/** Whether it is now for another source that waits for the same, and so makes no room. Cannot fail.
 */
bool sending_pass_on(struct origin_side *side, struct sending *sending);

/** What sending_event() does while a trace runs: on_event. Cannot fail. */
void sending_note(struct origin_side *side, struct sending *sending, enum event_kind kind,
                  uint32_t number);

/** It is in the queue, and waits no more: its owner is told of @p reason later. */
void sending_give_way(struct origin_side *side, struct sending *sending, enum reason reason);

/** It is in the queue, and waits there until @p until_ms, of the clock in ms, or its deadline. */
void sending_await_turn(struct origin_side *side, struct sending *sending, uint64_t until_ms);

/** Whether it is to wait for a device that is away. Cannot fail. */
bool sending_may_wait(struct origin_side *side, struct sending *sending);

/**
 * Where requests wait for @p origin it is sent Pings while it is silent, or as soon as it is, until
 * none waits any more. Cannot fail.
 */
void origin_probe(struct origin_side *side, struct origin *origin);

/** Something came from a silent origin server: what waits for it may be sent. */
void origin_on_heard(struct origin_side *side, struct origin *origin);

#endif
