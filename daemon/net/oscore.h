/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * OSCORE (RFC 8613) towards origin servers: what a security context is made of, and whether this
 * build has what protects requests with it: libcoap, whose client sessions have OSCORE from
 * version 4.3.4 on.
 */
#ifndef CRIPROXY_OSCORE_H
#define CRIPROXY_OSCORE_H

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

/* The parameters of a security context (RFC 8613 section 3.2). Whoever has filled it wipes it. */
struct oscore_keys {
    struct oscore_value sender_id, recipient_id;
    struct oscore_value master_secret, master_salt;
    struct oscore_value id_context; /* empty: there is none */
    const char *aead_algorithm;     /* the name in the registry of COSE; static */
    const char *hkdf_algorithm;     /* likewise */
};

/**
 * Why requests cannot be protected here, as static text with the version that is there and the one
 * that is needed; NULL: they can.
 */
const char *oscore_lack(void);

#endif
