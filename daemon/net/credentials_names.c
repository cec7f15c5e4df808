/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Several certificates of one listener: the choice for a client that asks for a server by name
 * (SNI, RFC 7252 section 9.1.3, SEC-8).
 *
 * The first certificate is in the contexts themselves: for clients that ask for its name, for no
 * name, or for a name without a certificate. Each of the others is kept in a context of its own
 * that no handshake uses; the handshake borrows from it.
 *
 * The first pair of files is in the OpenSSL contexts of the listeners; further ones are in
 * contexts of their own that no handshake uses. In the callback for SNI the handshake drops the
 * certificates of its context and borrows each that has the name, so that an ECDSA and an RSA
 * certificate can serve one host.
 */
#include "net/credentials_internal.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

struct certificate_table {
    size_t count;
    SSL_CTX *holders[];
};

struct certificate_table *certificate_table_load(const struct credentials_pair *pairs, size_t count,
                                                 const struct error_text *error)
{
    struct certificate_table *table = calloc(1, sizeof(*table) + count * sizeof(table->holders[0]));

    if (table == NULL) {
        (void)credentials_fail(error, "tls", "out of memory");
        return NULL;
    }
    while (table->count < count) {
        SSL_CTX *holder = SSL_CTX_new(TLS_server_method());
        table->holders[table->count] = holder;
        if (holder == NULL) {
            (void)credentials_fail(error, "tls", "out of memory");
            certificate_table_free(table);
            return NULL;
        }
        table->count++;
        const struct credentials_pair *pair = &pairs[table->count - 1];
        if (!credentials_use_certificate(holder, pair->certificate_file, pair->key_file, error)) {
            certificate_table_free(table);
            return NULL;
        }
    }
    return table;
}

void certificate_table_free(struct certificate_table *table)
{
    if (table == NULL) {
        return;
    }
    for (size_t i = 0; i < table->count; i++) {
        SSL_CTX_free(table->holders[i]);
    }
    free(table);
}

static bool is_for(const SSL_CTX *holder, const char *name)
{
    X509 *certificate = SSL_CTX_get0_certificate(holder);

    return certificate != NULL && X509_check_host(certificate, name, strlen(name),
                                                  X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS, NULL) == 1;
}

/* With @p is_first all that the context gave goes, so that none of it is chosen instead. */
static bool borrow(SSL *ssl, const SSL_CTX *holder, bool is_first)
{
    STACK_OF(X509) *chain = NULL;

    if (is_first) {
        SSL_certs_clear(ssl);
    }
    SSL_CTX_get0_chain_certs((SSL_CTX *)(uintptr_t)holder, &chain);
    return SSL_use_cert_and_key(ssl, SSL_CTX_get0_certificate(holder),
                                SSL_CTX_get0_privatekey(holder), chain, 1) == 1;
}

bool certificate_table_choose(const struct certificate_table *table, SSL *ssl)
{
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    bool is_first = true;

    if (table == NULL || name == NULL || is_for(SSL_get_SSL_CTX(ssl), name)) {
        return true;
    }
    /* All that have the name: they may be of different kinds, ECDSA and RSA. */
    for (size_t i = 0; i < table->count; i++) {
        if (is_for(table->holders[i], name)) {
            if (!borrow(ssl, table->holders[i], is_first)) {
                ERR_clear_error();
                return false;
            }
            is_first = false;
        }
    }
    return true;
}
