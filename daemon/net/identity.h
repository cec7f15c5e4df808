/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who a peer has proved to be, on DTLS and TLS: travels with its requests, for
 * policy and the log.
 */
#ifndef CRIPROXY_IDENTITY_H
#define CRIPROXY_IDENTITY_H

#include <stddef.h>

#define IDENTITY_NAME_MAX 128

enum identity_kind {
    IDENTITY_NONE,        /* only an address: UDP, TCP, or TLS without a client certificate */
    IDENTITY_PSK,         /* name: the PSK identity */
    IDENTITY_CERTIFICATE, /* name: first SAN of the certificate, else its subject's CN */
};

struct identity {
    enum identity_kind kind;
    char name[IDENTITY_NAME_MAX]; /* printable ASCII, NUL-terminated; others escaped as \xHH */
    char server_name[IDENTITY_NAME_MAX]; /* SNI the peer asked for, lower case; or empty */
};

#endif
