/* SPDX-License-Identifier: BSD-2-Clause */
/* One request of coap-traceroute: how far it got, and what came back. */
#ifndef TRACEROUTE_ASK_H
#define TRACEROUTE_ASK_H

#include "link.h"

enum {
    NAMES_MAX = 256, /* bytes of a 5.08's names that are kept */
};

enum form {
    FORM_URI, /* Proxy-Uri */
    FORM_CRI, /* Proxy-Cri (draft-ietf-core-href) */
};

/* What is asked of every hop; the texts are borrowed. */
struct question {
    const struct proxy *proxy;
    enum form form;
    struct wire_bytes target; /* the option's value */
    unsigned wait_ms;         /* for each hop */
};

struct reply {
    const char *fault; /* static text: no answer, and why; else NULL */
    bool is_silent;    /* the fault is that nothing came in time */
    uint8_t code;
    unsigned long long time_us; /* from the first transmission to the answer */
    size_t names_len;
    uint8_t names[NAMES_MAX]; /* payload of a 5.08 (RFC 8768 section 4): bytes of strangers */
};

/**
 * Send a GET whose Hop-Limit is @p limit, on a connection of its own, and wait for its answer.
 * Datagrams without one are repeated.
 */
void ask(const struct question *question, unsigned limit, struct reply *ret_reply);

#endif
