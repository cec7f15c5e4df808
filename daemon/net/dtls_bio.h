/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * OpenSSL's way to the network, of both ends of DTLS: a BIO that gives one datagram that was
 * received and hands over those to be sent. So a session needs no descriptor that OpenSSL knows,
 * and no buffer.
 */
#ifndef CRIPROXY_DTLS_BIO_H
#define CRIPROXY_DTLS_BIO_H

#include <openssl/bio.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dtls_pipe {
    const uint8_t *input; /* one datagram, borrowed; NULL: none, or read already */
    size_t input_len;
    bool is_peeking; /* reading leaves the datagram there */
    int mtu;         /* bytes, where OpenSSL asks for one; 0: it is not told */
    /* A datagram to be sent, borrowed. @return false where there is nowhere to send it */
    bool (*put)(struct dtls_pipe *pipe, const uint8_t *data, size_t len);
};

/** @p pipe is borrowed as long as the BIO. @return NULL without memory; free with BIO_free(). */
BIO *dtls_bio_new(struct dtls_pipe *pipe);

#endif
