/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/redis_tls.h"

#include "base/log.h"

#include <errno.h>
#include <event2/bufferevent_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_BYTES 254u

struct redis_tls {
    SSL_CTX *context;
    char name[NAME_MAX_BYTES];
};

/* Without this OpenSSL would ask for a passphrase on the terminal. */
static int refuse_passphrase(char *buffer, int capacity, int writing, void *context)
{
    (void)buffer;
    (void)capacity;
    (void)writing;
    (void)context;
    return -1;
}

/* @return NULL, or which file is no good */
static const char *take_tls_files(SSL_CTX *context, const struct redis_tls_options *options)
{
    if (options->ca_file == NULL && SSL_CTX_set_default_verify_paths(context) != 1) {
        return "the system's authorities";
    }
    if (options->ca_file != NULL && SSL_CTX_load_verify_file(context, options->ca_file) != 1) {
        return "cache.shared-ca";
    }
    if (options->certificate_file == NULL) {
        return NULL;
    }
    SSL_CTX_set_default_passwd_cb(context, refuse_passphrase);
    if (SSL_CTX_use_certificate_chain_file(context, options->certificate_file) != 1) {
        return "cache.shared-certificate";
    }
    bool is_good = SSL_CTX_use_PrivateKey_file(context, options->key_file, SSL_FILETYPE_PEM) == 1 &&
                   SSL_CTX_check_private_key(context) == 1;
    return is_good ? NULL : "cache.shared-key";
}

int redis_tls_new(const struct redis_tls_options *options, struct redis_tls **ret_tls)
{
    struct redis_tls *tls = calloc(1, sizeof *tls);
    size_t len = strlen(options->name);

    if (tls == NULL || len >= sizeof tls->name) {
        free(tls);
        return tls == NULL ? -ENOMEM : -EINVAL;
    }
    memcpy(tls->name, options->name, len + 1);
    tls->context = SSL_CTX_new(TLS_client_method());
    if (tls->context == NULL || SSL_CTX_set_min_proto_version(tls->context, TLS1_2_VERSION) != 1) {
        ERR_clear_error();
        redis_tls_free(tls);
        return -ENOMEM;
    }
    SSL_CTX_set_verify(tls->context, SSL_VERIFY_PEER, NULL);
    const char *bad = take_tls_files(tls->context, options);
    if (bad != NULL) {
        const char *reason = ERR_reason_error_string(ERR_peek_last_error());
        log_event(LOG_ERROR, "shared_cache_tls", "file=\"%s\" error=\"%s\"", bad,
                  reason == NULL ? "" : reason);
        ERR_clear_error();
        redis_tls_free(tls);
        return -EINVAL;
    }
    *ret_tls = tls;
    return 0;
}

void redis_tls_free(struct redis_tls *tls)
{
    if (tls != NULL) {
        SSL_CTX_free(tls->context);
        free(tls);
    }
}

/* The certificate has to have that name; an address is one of its addresses. */
static bool expect_name(SSL *ssl, char *name)
{
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1) {
        return true;
    }
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}

struct bufferevent *redis_tls_bufferevent(struct redis_tls *tls, struct event_base *base,
                                          int options)
{
    SSL *ssl = SSL_new(tls->context);

    if (ssl == NULL || !expect_name(ssl, tls->name)) {
        SSL_free(ssl);
        ERR_clear_error();
        return NULL;
    }
    ERR_clear_error(); /* a name is no address */
    struct bufferevent *bev =
        bufferevent_openssl_socket_new(base, -1, ssl, BUFFEREVENT_SSL_CONNECTING, options);
    if (bev != NULL) {
        /* Replies have lengths of their own: one that is cut is seen as such. */
        bufferevent_openssl_set_allow_dirty_shutdown(bev, 1);
    }
    return bev; /* libevent 2.1.12 has freed the SSL where it is NULL */
}

const char *redis_tls_error(struct bufferevent *bev)
{
    SSL *ssl = bufferevent_openssl_get_ssl(bev);
    unsigned long code = bufferevent_get_openssl_error(bev);
    long verdict = ssl == NULL ? X509_V_OK : SSL_get_verify_result(ssl);

    ERR_clear_error();
    if (verdict != X509_V_OK) {
        return X509_verify_cert_error_string(verdict);
    }
    return code == 0 ? NULL : ERR_reason_error_string(code);
}
