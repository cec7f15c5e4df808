/* SPDX-License-Identifier: BSD-2-Clause */
/* TLS under a connection to an origin server: the host name and the protocol that it has to prove.
 */
#include "net/upstream_stream_internal.h"

#include <event2/bufferevent_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <string.h>

#define CHAIN_MAX 6

static int on_verify(int is_good, X509_STORE_CTX *store)
{
    const SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    struct session *session = SSL_get_app_data(ssl);

    return upstream_verify(is_good, store, &session->pool->target, &session->stream->is_wrong_name);
}

/*
 * The bufferevent does not hand on OpenSSL's errors, and by the time its callback comes
 * the queue can hold those of another connection. Here they are fresh.
 */
static void upstream_tls_on_info(const SSL *ssl, int where, int result)
{
    const struct session *session = SSL_get_app_data(ssl);
    unsigned long code = ERR_peek_last_error();

    if (where == SSL_CB_CONNECT_EXIT && result <= 0 && code != 0) {
        session->stream->why = ERR_reason_error_string(code);
        session->stream->verdict = SSL_get_verify_result(ssl);
    }
}

/* NULL without memory, or if the host cannot be named. */
static SSL *make_ssl(struct session *session)
{
    /* WebSockets have no name but HTTP's, which a server need not take up (RFC 8323 section
     * 8.4 asks for none; RFC 7301). */
    static const unsigned char http[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

    const struct upstream_target *target = &session->pool->target;
    SSL *ssl = SSL_new(session->credentials->tls);

    if (ssl == NULL) {
        return NULL;
    }
    SSL_set_app_data(ssl, session);
    SSL_set_info_callback(ssl, upstream_tls_on_info);
    if (!credentials_have_psk(session->credentials)) {
        SSL_set_verify(ssl, SSL_VERIFY_PEER, on_verify);
        SSL_set_verify_depth(ssl, CHAIN_MAX);
    }
    if (session->stream->endpoint.is_ws &&
        SSL_set_alpn_protos(ssl, http, sizeof http) != 0) { /* 0 is good */
        SSL_free(ssl);
        return NULL;
    }
    if (target->host != NULL && SSL_set_tlsext_host_name(ssl, session->pool->host) != 1) {
        SSL_free(ssl);
        return NULL;
    }
    return ssl;
}

struct bufferevent *upstream_tls_new(struct session *session, struct event_base *base, int options)
{
    struct stream_end *end = session->stream;

    end->ssl = make_ssl(session);
    if (end->ssl == NULL) {
        ERR_clear_error();
        return NULL;
    }
    struct bufferevent *bev =
        bufferevent_openssl_socket_new(base, -1, end->ssl, BUFFEREVENT_SSL_CONNECTING, options);
    if (bev == NULL) {
        end->ssl = NULL; /* libevent 2.1.12 has freed it */
        return NULL;
    }
    /* A close without close_notify is a close: messages have lengths of their own. */
    bufferevent_openssl_set_allow_dirty_shutdown(bev, 1);
    return bev;
}

bool upstream_tls_is_unwritten(const struct stream_end *end)
{
    return end->ssl != NULL && BIO_number_written(SSL_get_wbio(end->ssl)) == 0;
}

void upstream_tls_goodbye(const struct stream_end *end, struct bytes last)
{
    if (last.len > 0 && last.len <= INT32_MAX) {
        (void)SSL_write(end->ssl, last.data, (int)last.len);
    }
    (void)SSL_shutdown(end->ssl);
    ERR_clear_error();
}

/* On other ports than the default one it has to speak CoAP in so many words (TCP-26). A
 * pre-shared key says as much: it is for CoAP, and libcoap's servers do not answer then. */
bool upstream_tls_lacks_alpn(const struct session *session)
{
    const struct upstream_target *target = &session->pool->target;
    const unsigned char *name = NULL;
    unsigned len = 0;

    if (session->stream->ssl == NULL || session->stream->endpoint.is_ws ||
        target->address.port == transport_row(TRANSPORT_TLS)->default_port ||
        credentials_have_psk(session->credentials)) {
        return false;
    }
    SSL_get0_alpn_selected(session->stream->ssl, &name, &len);
    return len != 4 || memcmp(name, "coap", 4) != 0;
}
