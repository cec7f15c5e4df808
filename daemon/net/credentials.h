/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keys and certificates of the listeners, loaded completely or not at all from the files in the
 * configuration's [tls] section; shared read-only by all workers, and replaced by a reload (each
 * new session uses the current ones).
 */
#ifndef CRIPROXY_CREDENTIALS_H
#define CRIPROXY_CREDENTIALS_H

#include "coap/message.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct credentials;

/* The files of a certificate and its key. */
struct credentials_pair {
    const char *certificate_file, *key_file;
};

struct credentials_options {
    const char *certificate_file; /* PEM chain, or NULL */
    const char *key_file;         /* PEM, or NULL */
    /* For clients that ask for a name of theirs (SNI) which the first does not have. */
    const struct credentials_pair *others;
    size_t other_count;
    const char *client_ca_file;   /* PEM: client certificates are asked for and checked; or NULL */
    const char *raw_key_file;     /* private key, PEM: for clients that take raw keys; or NULL */
    const char *client_keys_file; /* raw public keys of clients, as in raw_keys.h; or NULL */
    bool require_client_certificate; /* or a raw public key */
    const char *psk_file;            /* lines of identity:hex-key, '#' comments; or NULL */
    struct bytes cluster_secret;     /* of all replicas, borrowed for the load; empty: none */
    const char *keylog_file;         /* labs only: secrets in NSS format are added to it; or NULL */
};

/* Keys of one file; each takes some 250 bytes. */
#define PSK_COUNT_MAX 1000000

/* Longest PSK identity and key that is taken (RFC 4279 asks for 128 and 64). */
#define PSK_IDENTITY_MAX 128
#define PSK_KEY_MAX 64

/* Of fewer bytes a key is warned of: it has less than 128 bits of entropy (RFC 9257 section 6). */
#define PSK_KEY_STRONG 16

/**
 * A certificate needs its key, and there has to be a certificate, a raw key or a PSK file:
 * otherwise no client could connect.
 *
 * @param ret_error the error, with file and line: "FILE:LINE: ...".
 * @return NULL on error. Count 1; credentials_release() frees.
 */
struct credentials *credentials_load(const struct credentials_options *options, char *ret_error,
                                     size_t error_capacity);

/**
 * Adds a reference and returns @p credentials; release it with credentials_release(). Thread-safe.
 */
struct credentials *credentials_acquire(struct credentials *credentials);

/**
 * Drops a reference; the last one frees the credentials and wipes their keys. Thread-safe. Takes
 * NULL.
 */
void credentials_release(struct credentials *credentials);

/**
 * Warn in the log where others than its owner and group may read @p file, or write it: it has
 * a secret in it. Takes NULL.
 */
void credentials_check_secrecy(const char *file);

#endif
