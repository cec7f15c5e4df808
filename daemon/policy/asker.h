/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * On whose behalf something is fetched: what access rules ask about a client, kept as long as
 * the client may still be given something.
 */
#ifndef CRIPROXY_ASKER_H
#define CRIPROXY_ASKER_H

#include "base/address.h"
#include "base/identity.h"

struct asker {
    struct udp_path path;      /* path.remote is the client's address, on any transport; path.local
                                  where its request came to */
    struct identity *identity; /* NULL: none was shown. A reference of the owner's */
    const char *rule;  /* access rule that admitted or refused the request; NULL: none asked yet */
    uint64_t serial;   /* no other client has had or will have it (leg_serial()) */
    uint32_t scheme;   /* number of the scheme it speaks: coap, coaps, coap+tcp, ... */
    uint8_t standing;  /* enum access_standing */
    bool is_passed_on; /* by a web server in front: the address is that server's */
    bool is_http;      /* it speaks HTTP */
};

#endif
