/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A URI scheme of CoAP as data: its number, the transport behind it, and the transmission
 * parameters of its messages (RFC 7252 section 4.8). Built in, changed or added by a
 * [scheme NAME] section; the keys of the section are those of conf/scheme_options.def.
 */
#ifndef CRIPROXY_SCHEME_H
#define CRIPROXY_SCHEME_H

#include "coap/transport.h"

/* The words of the configuration, too; those of transports are in transport.def. X(ENUMERATOR,
 * word) */
#define CONGESTION_CONTROL_WORDS(X)                                                                \
    X(CONGESTION_WINDOW, "window")                                                                 \
    X(CONGESTION_FIXED, "fixed")

#define UPSTREAM_TYPE_WORDS(X)                                                                     \
    X(UPSTREAM_TYPE_CON, "con")                                                                    \
    X(UPSTREAM_TYPE_MIRROR, "mirror")

#define SCHEME_ENUMERATOR(name, word) name,
enum congestion_control { CONGESTION_CONTROL_WORDS(SCHEME_ENUMERATOR) };
enum upstream_type { UPSTREAM_TYPE_WORDS(SCHEME_ENUMERATOR) };
#undef SCHEME_ENUMERATOR

struct scheme {
    const char *name; /* in lower case */
    uint32_t number;  /* of the registry for CRIs */
    uint32_t default_port;
    enum transport transport;
    enum congestion_control congestion_control;
    uint32_t nstart; /* 1 where congestion control is fixed */
    uint32_t nstart_max;
    uint32_t ack_timeout;       /* ms */
    uint32_t ack_random_factor; /* hundredths: 150 is 1.5 */
    uint32_t max_retransmit;
    enum upstream_type upstream_type;
    uint32_t probing_rate; /* bytes a second */
    /* Derived as in RFC 7252 section 4.8.2 (MSG-28, MSG-29); ms. */
    uint32_t max_transmit_span;
    uint32_t max_transmit_wait;
    uint32_t exchange_lifetime;
    uint32_t non_lifetime;
    uint32_t silent_after; /* an origin server is: a first retransmission is overdue, too */
};

#endif
