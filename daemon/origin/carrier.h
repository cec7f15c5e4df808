/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Carriers: how a request gets to an origin server or parent proxy, and its answer back. A carrier
 * serves one kind of transport: datagrams (carrier_udp.c), sessions (carrier_session.c), HTTP
 * (carrier_http.c), the sessions that devices have opened to us (carrier_device.c), or no transport
 * at all, but a recording (carrier_recording.c). What they have in common is above them, in
 * origin.c: the queue and window of the origin server, what is sent to a silent one, the deadline,
 * and which fetch is told. A carrier only sends, cancels and pings.
 *
 *     fetch/  -- sending_start() -->  origin.c   -- send, cancel, ping -->  carrier  -->  net/
 *     fetch/  <-- sending_calls ----  origin.c   <-- sending_acknowledged(),          <--  net/
 *                                                    sending_answered(), sending_failed()
 *
 * To add one: a file carrier_NAME.c with a struct carrier, and its case in carrier_of(). What it
 * needs of the request is in struct sending: the CoAP message in datagram (message id 0 before it
 * is sent, the token that answers have), the address in origin, the times in scheme. The name of
 * the host, and credentials, it asks for with find_way() of struct sending_calls.
 */
#ifndef CRIPROXY_CARRIER_H
#define CRIPROXY_CARRIER_H

#include "base/address.h"
#include "coap/target.h"
#include "coap/transport.h"

struct origin_side;
struct origin;
struct recording;
struct sending;
struct upstream_credentials;
struct upstream_oscore;

enum carrier_result {
    CARRIER_SENT,   /* it is on its way, as far as this host knows */
    CARRIER_WAITS,  /* it cannot be sent now, nor can what is behind it: it stays in the queue */
    CARRIER_FAILED, /* it cannot be sent, for sending->reason */
};

struct carrier {
    /*
     * Send the request, for which there is room in the window. Called again with the same struct
     * for an observation that is registered anew; what is still out from before is then replaced.
     *
     * CARRIER_SENT: the carrier has set sending->timer, with sending_await_end() or for a
     * retransmission, and sending->is_sent where a copy may reach the origin server. From now on
     * until cancel() it may call sending_acknowledged(), sending_answered() and sending_failed().
     * CARRIER_WAITS: nothing has changed. It is called again when something else ends; the
     * request fails when its time in the queue is over.
     * CARRIER_FAILED: nothing is out. The caller tells the fetch, from a timer.
     *
     * Never calls back from within, neither these functions nor struct sending_calls but
     * find_way(): the caller may be giving an answer that must not be freed below it. Borrows
     * sending and its datagram until cancel(), or until the request is over (sending_failed(), or
     * sending_answered() unless sending->is_kept).
     */
    enum carrier_result (*send)(struct origin_side *side, struct sending *sending);
    /*
     * Take back what is out. Afterwards the carrier holds no pointer to sending or its datagram,
     * and calls back no more; an answer that still comes has no waiter. The origin
     * server may or may not have carried out the request. Takes a sending of which nothing is out,
     * more than once. Never calls back from within; cannot fail. It does not tell an origin server
     * that notifications are not wanted any more: that is a request of its own (OBS-25).
     */
    void (*cancel)(struct origin_side *side, struct sending *sending);
    /*
     * Ask a silent origin server for a sign of life, for which the rate has room; requests wait
     * for it. A sign is told by origin_on_heard(), later and never from within. NULL: the carrier
     * finds out by itself whether the other side is alive, and does not call silence_on_send().
     */
    void (*ping)(struct origin_side *side, struct origin *origin);
    /*
     * The rest is for the engine, of carriers that have connections of their own; NULL: of
     * datagrams. Connections are made when the first request needs one: turn() is for later.
     *
     * What is due: may call back. When to be called next, or UINT64_MAX.
     */
    uint64_t (*turn)(struct origin_side *side, uint64_t now_ms);
    /* The configuration has changed: limits hold from now on, connections stay. Cannot fail. */
    void (*set_config)(struct origin_side *side);
    /* Closes all connections and frees what they need; no call is made. Takes a side without. */
    void (*free)(struct origin_side *side);
};

/* Datagrams in the clear: message ids, acknowledgements, retransmissions, matching. */
extern const struct carrier carrier_udp;

/*
 * Sessions of net/upstream.h: DTLS, CoAP over TCP, TLS and WebSockets, and UDP with OSCORE. The
 * pool is made when the first request needs one: an engine that has only plain UDP to do starts no
 * library for sessions.
 */
extern const struct carrier carrier_session;

/*
 * HTTP, to http and https targets, by net/web.h: a CoAP request becomes an HTTP request
 * (coap/http_request.h), the answer a CoAP answer (coap/http_response.h). After two connections in
 * a row that an address has refused or not answered, it is left alone for upstream.back-off,
 * doubled with each one more.
 */
extern const struct carrier carrier_http;

/* Devices, over the session that they have opened (origin/device.h), whatever its transport is. */
extern const struct carrier carrier_device;

/* Recordings, in place of an origin server: routes with via = recording:FILE. */
extern const struct carrier carrier_recording;

/** The carrier of @p transport, of all but devices and recordings; static. Sessions refuse a
 * transport that they do not have. */
static inline const struct carrier *carrier_of(enum transport transport)
{
    if (transport_is_http(transport)) {
        return &carrier_http;
    }
    return transport == TRANSPORT_UDP ? &carrier_udp : &carrier_session;
}

/* What a carrier is told of the way of a request, besides struct sending. */
struct carrier_way {
    struct address source; /* the client, for whose share a session counts; not a destination */
    uint64_t client;       /* HTTP: its serial: a body in parts is for it alone */
    const char *host;      /* name for SNI and the certificate, in room; NULL: it is an address */
    struct upstream_credentials *credentials; /* borrowed for the call; NULL in the clear */
    struct upstream_oscore *oscore;           /* likewise; NULL: it is not to be protected */
    const char *const *lines; /* HTTP: "Name: value" of the configuration; likewise */
    size_t line_count;
    bool shows_certificate;      /* HTTP: the one that the credentials have, if the server asks */
    const struct target *target; /* of a recording: borrowed for the call, as the next */
    struct recording *recording; /* that answers; NULL: there is none any more */
    uint32_t speed;              /* with its times divided by that */
    char room[TARGET_NAME_MAX + 1];
};

#endif
