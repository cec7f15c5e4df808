/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The transports of CoAP: a row of transport.def each. The same enum for listeners, connections,
 * sessions with origin servers, schemes of the configuration and labels of the metrics.
 */
#ifndef CRIPROXY_TRANSPORT_H
#define CRIPROXY_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum transport {
    TRANSPORT_NONE,
#define TRANSPORT(name, word, scheme, number, port, secure, stream, websocket, http)               \
    TRANSPORT_##name,
#include "coap/transport.def"
#undef TRANSPORT
    TRANSPORT_COUNT,
};

/* Of each property the transports that have it, a bit each. */
enum {
#define TRANSPORT(name, word, scheme, number, port, secure, stream, websocket, http)               \
    | (secure) << TRANSPORT_##name
    TRANSPORTS_SECURE = 0
#include "coap/transport.def"
#undef TRANSPORT
    ,
#define TRANSPORT(name, word, scheme, number, port, secure, stream, websocket, http)               \
    | (stream) << TRANSPORT_##name
    TRANSPORTS_STREAM = 0
#include "coap/transport.def"
#undef TRANSPORT
    ,
#define TRANSPORT(name, word, scheme, number, port, secure, stream, websocket, http)               \
    | (websocket) << TRANSPORT_##name
    TRANSPORTS_WS = 0
#include "coap/transport.def"
#undef TRANSPORT
    ,
#define TRANSPORT(name, word, scheme, number, port, secure, stream, websocket, http)               \
    | (http) << TRANSPORT_##name
    TRANSPORTS_HTTP = 0
#include "coap/transport.def"
#undef TRANSPORT
};

/** Whether it uses DTLS or TLS; false for TRANSPORT_NONE. */
static inline bool transport_is_secure(enum transport transport)
{
    return (TRANSPORTS_SECURE >> transport & 1) != 0;
}

/** Whether it is a connection, on which messages are not lost; false for TRANSPORT_NONE. */
static inline bool transport_is_stream(enum transport transport)
{
    return (TRANSPORTS_STREAM >> transport & 1) != 0;
}

/** Whether messages are those of WebSockets, where Len is 0 (RFC 8323 section 4.2). */
static inline bool transport_is_ws(enum transport transport)
{
    return (TRANSPORTS_WS >> transport & 1) != 0;
}

/** Whether it is HTTP: for clients, and not for CoAP messages; false for TRANSPORT_NONE. */
static inline bool transport_is_http(enum transport transport)
{
    return (TRANSPORTS_HTTP >> transport & 1) != 0;
}

/** Whether messages are datagrams, which may be lost or overtake each other; false for
 * TRANSPORT_NONE. */
static inline bool transport_is_datagram(enum transport transport)
{
    return transport != TRANSPORT_NONE && !transport_is_stream(transport);
}

/** Whether there is a session or connection before there is a request: all but UDP. */
static inline bool transport_has_session(enum transport transport)
{
    return transport_is_secure(transport) || transport_is_stream(transport);
}

struct transport_row {
    const char *word;   /* in the configuration: "udp" */
    const char *scheme; /* of its URIs: "coap"; of TRANSPORT_NONE "" */
    uint32_t number;    /* of the scheme; of TRANSPORT_NONE UINT32_MAX */
    uint16_t default_port;
};

/** The row of a transport, static; that of TRANSPORT_NONE has the word "none". */
const struct transport_row *transport_row(enum transport transport);

/**
 * What this build was made without and the transport needs, as static text for people; NULL if it
 * has everything (CRI_WITH_WEBSOCKETS and the like).
 */
const char *transport_left_out(enum transport transport);

/** The transport of a URI scheme as text of @p len bytes; TRANSPORT_NONE if there is none. */
enum transport transport_by_scheme(const char *scheme, size_t len);

/** The transport of a scheme number; TRANSPORT_NONE if there is none. */
enum transport transport_by_number(uint64_t number);

#endif
