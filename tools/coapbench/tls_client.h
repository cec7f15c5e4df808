/* SPDX-License-Identifier: BSD-2-Clause */
/* OpenSSL as the clients of a load use it, on DTLS and TLS: one pre-shared key for all. The
 * identity of an SSL with a number + 1 as its application data has that number behind it. */
#ifndef COAPBENCH_TLS_CLIENT_H
#define COAPBENCH_TLS_CLIENT_H

#include <openssl/ssl.h>
#include <stdbool.h>

/* Borrowed for as long as the context lives. */
struct tls_client {
    const char *identity, *key; /* the key as the bytes of the text, as libcoap's tools have it */
    const char *suites;         /* OpenSSL's cipher list */
};

/**
 * Version 1.2 only, so that measurements compare; no certificate is looked at.
 *
 * @return NULL where the suites are none that OpenSSL has
 */
SSL_CTX *tls_client_context(bool is_datagram, const struct tls_client *client);

#endif
