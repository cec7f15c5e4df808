/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TLS under a connection: libevent's bufferevent drives OpenSSL. The connection
 * keeps a count of the credentials it began with for as long as it lives, since
 * OpenSSL's callbacks use them.
 */
#include "net/conn_internal.h"
#include "net/credentials.h"
#include "net/tls.h"

#include <event2/bufferevent_ssl.h>
#include <openssl/err.h>
#include <stdlib.h>

#define COAPS_PORT 5684

/* More than a bufferevent keeps. */
#define ERRORS_MAX 8

struct conn_tls {
    struct credentials *credentials;
    struct tls_peer peer;
    struct identity identity;
};

struct bufferevent *conn_tls_new(struct conn *conn, evutil_socket_t fd)
{
    const struct conn_listener *listener = conn->listener;
    struct conn_tls *tls = calloc(1, sizeof *tls);

    if (tls == NULL) {
        return NULL;
    }
    tls->credentials = credentials_acquire(listener->options.credentials);
    conn->tls = tls;
    SSL *ssl = SSL_new(credentials_tls(tls->credentials));
    if (ssl == NULL) {
        ERR_clear_error();
        return NULL;
    }
    /* CoAP on TLS is "coap" (RFC 8323 section 8.2); WebSockets have no name but HTTP's. */
    tls->peer.alpn = listener->options.kind == CONN_WSS ? "http/1.1" : "coap";
    SSL_set_app_data(ssl, &tls->peer);
    SSL_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS); /* most connections are idle */
    struct bufferevent *bev = bufferevent_openssl_socket_new(
        loop_event_base(listener->loop), fd, ssl, BUFFEREVENT_SSL_ACCEPTING,
        BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
    if (bev == NULL) {
        SSL_free(ssl);
        return NULL;
    }
    /* A close without close_notify is a close: messages have lengths of their own. */
    bufferevent_openssl_set_allow_dirty_shutdown(bev, 1);
    return bev;
}

const char *conn_tls_connected(struct conn *conn)
{
    SSL *ssl = bufferevent_openssl_get_ssl(conn->bev);
    const unsigned char *alpn = NULL;
    unsigned alpn_len = 0;
    bool is_wss = conn->listener->options.kind == CONN_WSS;

    SSL_get0_alpn_selected(ssl, &alpn, &alpn_len);
    if (!is_wss && alpn_len == 0 && conn->local.port != COAPS_PORT) {
        return "alpn_missing"; /* only the default port says by itself that this is CoAP */
    }
    tls_identity(ssl, &conn->tls->identity);
    conn->stage = is_wss ? STAGE_UPGRADE : STAGE_OPEN;
    return NULL;
}

const char *conn_tls_failure(struct conn *conn)
{
    const SSL *ssl = bufferevent_openssl_get_ssl(conn->bev);
    unsigned long codes[ERRORS_MAX];
    size_t count = 0;
    const char *detail = "";

    /* The bufferevent has taken them off OpenSSL's queue, and gives the newest first. */
    while (count < ERRORS_MAX && (codes[count] = bufferevent_get_openssl_error(conn->bev)) != 0) {
        count++;
    }
    if (count == 0) {
        return "closed_in_handshake";
    }
    ERR_clear_error();
    while (count > 0) {
        count--;
        ERR_new();
        ERR_set_error(ERR_GET_LIB(codes[count]), ERR_GET_REASON(codes[count]), NULL);
    }
    return tls_failure(ssl, &conn->tls->peer, &detail);
}

const struct identity *conn_tls_identity(const struct conn_tls *tls)
{
    return &tls->identity;
}

void conn_tls_goodbye(struct conn *conn)
{
    if (conn->stage != STAGE_TLS) {
        (void)SSL_shutdown(bufferevent_openssl_get_ssl(conn->bev));
        ERR_clear_error();
    }
}

void conn_tls_free(struct conn_tls *tls)
{
    if (tls != NULL) {
        credentials_release(tls->credentials);
        free(tls);
    }
}
