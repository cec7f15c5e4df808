/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by credentials*.c. */
#ifndef CRIPROXY_CREDENTIALS_INTERNAL_H
#define CRIPROXY_CREDENTIALS_INTERNAL_H

#include "net/credentials.h"
#include "net/tls.h"

#include <stdatomic.h>

struct certificate_table;
struct psk_table;
struct raw_keys;

typedef int (*security_fn)(const SSL *ssl, const SSL_CTX *context, int operation, int bits, int nid,
                           void *other, void *extra);

struct credentials {
    atomic_uint count;
    SSL_CTX *dtls;
    SSL_CTX *tls;
    struct psk_table *psks;           /* NULL: no PSK file */
    struct certificate_table *others; /* NULL: there is one certificate for all */
    struct raw_keys *client_keys;     /* NULL: none are taken */
    EVP_PKEY *raw_key;                /* shown to clients that take raw keys; NULL: none is */
    bool has_certificate;
    bool has_client_ca;
    bool requires_client;         /* a certificate or a raw key, of each without a pre-shared key */
    uint8_t client_ca_digest[32]; /* of the file; zeros: there is none */
    bool is_clustered;            /* replicas accept each other's cookies and tickets */
    uint8_t cookie_secret[32];    /* of those of DTLS, where it is */
    int keylog_fd;                /* -1: none */
    security_fn preset_security;  /* OpenSSL's own */
};

/* Where the words about an error go. */
struct error_text {
    char *text;
    size_t capacity;
};

/** "PLACE: WHAT" into @p error; @return false, to be returned. */
bool credentials_fail(const struct error_text *error, const char *place, const char *what);

/** The same, with OpenSSL's words about the first error of its queue, which is emptied. */
bool credentials_fail_openssl(const struct error_text *error, const char *place);

/* credentials.c */

/**
 * The key of @p identity. An unknown identity gets a key, too: always the same secret one.
 *
 * @return whether the identity is known
 */
bool psk_table_find(const struct psk_table *table, const char *identity,
                    uint8_t ret_key[PSK_KEY_MAX], size_t *ret_key_len);

/**
 * The same where no peer can tell the time it takes: quicker, and an unknown identity has none.
 *
 * @param table NULL: there are none
 * @param ret_key borrowed from the table
 * @return whether the identity is known; else nothing is written
 */
bool psk_table_look(const struct psk_table *table, const char *identity, const uint8_t **ret_key,
                    size_t *ret_key_len);

/**
 * Whether @p identity has the same key in both tables; false if either table is NULL or lacks it.
 */
bool psk_tables_agree(const struct psk_table *a, const struct psk_table *b, const char *identity);

/** Offers raw keys and chooses them in handshakes of @p context. @return false without memory */
bool credentials_use_raw_keys(const struct credentials *credentials, SSL_CTX *context);

/**
 * Whether the raw public key whose digest begins with the bytes of @p anchor is in the file of
 * clients' keys, under the name in @p identity, borrowed.
 */
bool credentials_hold_raw_key(const struct credentials *credentials,
                              const struct identity *identity, const uint8_t *anchor,
                              size_t anchor_len);

/* credentials_hold.c */

/**
 * OpenSSL's callback for a ticket that is made: it gets what credentials_note_anchor() has to know
 * of the chain. @return 1: without memory for it a session that is resumed with the ticket ends
 * when the file of client CAs changes
 */
int credentials_on_ticket(SSL *ssl, void *context);

/**
 * OpenSSL's callback for a ticket that comes back: one of a pre-shared key that is in no file any
 * more is not taken, and the handshake is a full one. Notes in the tls_peer of @p ssl what is
 * taken.
 */
SSL_TICKET_RETURN credentials_on_ticket_back(SSL *ssl, SSL_SESSION *session,
                                             const unsigned char *name, size_t name_len,
                                             SSL_TICKET_STATUS status, void *context);

/* credentials_context.c */

/** @return NULL on error. Free with certificate_table_free(). */
struct certificate_table *certificate_table_load(const struct credentials_pair *pairs, size_t count,
                                                 const struct error_text *error);

/** Frees the table and its contexts; takes NULL. */
void certificate_table_free(struct certificate_table *table);

/**
 * Makes the DTLS and TLS contexts of @p credentials, whose other fields are set already and which
 * owns them. False with a text in @p error.
 */
bool credentials_make_contexts(struct credentials *credentials,
                               const struct credentials_options *options,
                               const struct error_text *error);

#endif
