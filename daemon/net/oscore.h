/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * OSCORE (RFC 8613) towards origin servers. A security context belongs to one thread, which all
 * workers hand their requests (upstream_oscore.h): its sender sequence numbers are one sequence,
 * and are reserved on disk before they are used, for which that thread may wait. What protects and
 * verifies is libcoap, whose client sessions have OSCORE from version 4.3.4 on.
 */
#ifndef CRIPROXY_OSCORE_H
#define CRIPROXY_OSCORE_H

#include <stddef.h>
#include <stdint.h>

/* Longest id: the nonce of AES-CCM-16-64-128 without 6 bytes (RFC 8613 section 3.3). */
#define OSCORE_ID_MAX 7u
#define OSCORE_SECRET_MIN 16u /* shorter ones could be guessed (RFC 8613 section 12.3) */
#define OSCORE_SECRET_MAX 64u
#define OSCORE_ID_CONTEXT_MAX 32u

/* Bytes of a value that may be empty. */
struct oscore_value {
    uint8_t bytes[OSCORE_SECRET_MAX];
    uint8_t len;
};

/* The parameters of a security context (RFC 8613 section 3.2). Its maker wipes it. */
struct oscore_keys {
    struct oscore_value sender_id, recipient_id;
    struct oscore_value master_secret, master_salt;
    struct oscore_value id_context; /* empty: there is none */
    const char *aead_algorithm;     /* the name in the registry of COSE; static */
    const char *hkdf_algorithm;     /* likewise */
};

struct upstream_oscore;

/**
 * Why requests cannot be protected here, as static text with the version that is there and the one
 * that is needed; NULL: they can.
 */
const char *oscore_lack(void);

/**
 * A security context, made or, with the same @p keys and @p directory, the one that is there: a
 * reload that changes nothing goes on with it. Keys to send with that are in use with another
 * recipient or directory are an error: one sender, one sequence of numbers. Thread-safe. Opens no
 * file: that is done for the first request.
 *
 * @param keys      copied.
 * @param directory of the sequence numbers; copied.
 * @param ret_error the error.
 * @return NULL on error. Release it with upstream_oscore_release().
 */
struct upstream_oscore *upstream_oscore_load(const struct oscore_keys *keys, const char *directory,
                                             char *ret_error, size_t error_capacity);

/** Adds a reference and returns @p oscore. Thread-safe. */
struct upstream_oscore *upstream_oscore_acquire(struct upstream_oscore *oscore);

/**
 * Drops a reference; the last one ends the security context, and with the last context its thread,
 * for which it waits. Thread-safe. Takes NULL.
 */
void upstream_oscore_release(struct upstream_oscore *oscore);

#endif
