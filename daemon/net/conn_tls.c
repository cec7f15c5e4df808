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

struct conn_tls {
    struct tls_peer peer; /* first: the SSL's app data leads to it, and so to all of this */
    struct credentials *credentials;
    struct identity *identity; /* NULL before the handshake is done */
    enum handshake failure;    /* of the handshake */
    const char *detail;        /* a static text */
};

/*
 * The bufferevent does not hand on OpenSSL's errors, and by the time its deferred
 * callback comes the queue can hold those of another connection. Here they are fresh.
 */
static void on_info(const SSL *ssl, int where, int result)
{
    struct conn_tls *tls = SSL_get_app_data(ssl);
    unsigned long code = ERR_peek_error();

    if (where != SSL_CB_ACCEPT_EXIT || result > 0 || code == 0) {
        return;
    }
    tls->failure = tls_failure(ssl, &tls->peer, &tls->detail);
    /* That has emptied the queue, from which the bufferevent learns that it is over. */
    ERR_new();
    ERR_set_error(ERR_GET_LIB(code), ERR_GET_REASON(code), NULL);
}

struct bufferevent *conn_tls_new(struct conn *conn, evutil_socket_t fd)
{
    const struct conn_listener *listener = conn->listener;
    struct conn_tls *tls = calloc(1, sizeof *tls);

    if (tls == NULL) {
        return NULL;
    }
    tls->failure = HANDSHAKE_closed_in_handshake;
    tls->detail = "";
    tls->credentials = credentials_acquire(listener->options.credentials);
    conn->tls = tls;
    SSL *ssl = SSL_new(credentials_tls(tls->credentials));
    if (ssl == NULL) {
        ERR_clear_error();
        return NULL;
    }
    /* CoAP on TLS is "coap" (RFC 8323 section 8.2); WebSockets have no name but HTTP's. */
    enum transport transport = listener->options.transport;
    bool is_web = transport_is_ws(transport) || transport_is_http(transport);
    tls->peer.alpn = is_web ? "http/1.1" : "coap";
    SSL_set_app_data(ssl, tls);
    SSL_set_info_callback(ssl, on_info);
    SSL_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS); /* most connections are idle */
    struct bufferevent *bev =
        bufferevent_openssl_socket_new(listener->loop->base, fd, ssl, BUFFEREVENT_SSL_ACCEPTING,
                                       BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
    if (bev == NULL) {
        return NULL; /* libevent 2.1.12 has freed the SSL */
    }
    /* A close without close_notify is a close: messages have lengths of their own. */
    bufferevent_openssl_set_allow_dirty_shutdown(bev, 1);
    return bev;
}

bool conn_tls_holds(const struct conn *conn, const struct credentials *now)
{
    return credentials_still_hold(conn->tls->credentials, now,
                                  bufferevent_openssl_get_ssl(conn->bev));
}

bool conn_tls_connected(struct conn *conn, enum handshake *ret_why)
{
    SSL *ssl = bufferevent_openssl_get_ssl(conn->bev);
    const unsigned char *alpn = NULL;
    unsigned alpn_len = 0;
    enum transport transport = conn->listener->options.transport;
    bool is_wss = transport_is_ws(transport);

    SSL_get0_alpn_selected(ssl, &alpn, &alpn_len);
    if (!is_wss && !transport_is_http(transport) && alpn_len == 0 &&
        conn->listener->options.needs_alpn &&
        conn->local.port != transport_row(TRANSPORT_TLS)->default_port) {
        *ret_why = HANDSHAKE_alpn_missing; /* only the default port says that this is CoAP */
        return false;
    }
    conn->tls->identity = tls_identity(ssl);
    if (conn->tls->identity == NULL) {
        *ret_why = HANDSHAKE_out_of_memory; /* rules may depend on the identity */
        return false;
    }
    if (!conn_tls_holds(conn, conn->listener->options.credentials)) {
        *ret_why = HANDSHAKE_credentials_gone; /* a reload has come during the handshake */
        return false;
    }
    conn->stage = is_wss ? STAGE_UPGRADE : STAGE_OPEN;
    conn->listener->counters.handshakes++;
    conn->listener->counters.resumptions +=
        SSL_session_reused(ssl) == 1 && conn->tls->peer.ticket_taken;
    return true;
}

enum handshake conn_tls_failure(const struct conn *conn, const char **ret_detail)
{
    *ret_detail = conn->tls->detail;
    return conn->tls->failure;
}

struct identity *conn_tls_claimed(struct conn *conn)
{
    struct conn_tls *tls = conn->tls;

    if (tls == NULL || tls->identity != NULL) {
        return tls != NULL ? identity_acquire(tls->identity) : NULL;
    }
    SSL *ssl = conn->bev != NULL ? bufferevent_openssl_get_ssl(conn->bev) : NULL;
    return ssl != NULL ? tls_claimed(ssl, &tls->peer) : NULL;
}

struct identity *conn_tls_identity(const struct conn_tls *tls)
{
    return tls->identity;
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
        identity_release(tls->identity);
        identity_release(tls->peer.refused);
        free(tls);
    }
}
