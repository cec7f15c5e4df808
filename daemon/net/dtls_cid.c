/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connection ids (RFC 9146), for an OpenSSL that has none. The extension is one of ours. During the
 * handshake OpenSSL sees records without ids: the client's Finished is opened and sealed again
 * without one, and OpenSSL's own Finished, which never leaves as it is, with the client's id and
 * under a number of ours, DTLS_CID_GAP above OpenSSL's.
 *
 * Our ids are random, of one length for each listener, and their first byte is the worker's, so
 * that the kernel can give a datagram to the worker that has the session (udp_steer()).
 */
#include "net/dtls_internal.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <string.h>

#define EXTENSION_CONNECTION_ID 54
#define TRIES 16u /* to find an id that no other session has */

static struct dtls_session *session_of_ssl(const SSL *ssl)
{
    struct tls_peer *peer = SSL_get_app_data(ssl);

    return peer == NULL ? NULL : HASH_ENTRY(peer, struct dtls_shake, peer)->session;
}

static uint64_t key_of_cid(const uint8_t *cid, size_t len)
{
    uint64_t key = 0;

    for (size_t i = 0; i < len; i++) {
        key = key << 8 | cid[i];
    }
    return key;
}

struct dtls_session *cid_find(const struct dtls_listener *listener, const uint8_t *data, size_t len)
{
    size_t cid_len = listener->options.cid_bytes;
    struct record_view view = {0};

    /* A client repeats its last flight from ClientKeyExchange on: the Finished is not in front. */
    while (cid_len > 0 && view.type != CONTENT_CID && record_parse(data, len, cid_len, &view)) {
        data += view.whole_len;
        len -= view.whole_len;
    }
    if (view.type != CONTENT_CID) {
        return NULL;
    }
    struct hash_node *node = hash_map_find(&listener->cids, key_of_cid(view.cid, cid_len));
    struct dtls_session *session =
        node == NULL ? NULL : HASH_ENTRY(node, struct dtls_session, by_cid);
    /* A handshake goes on where it began: its cookie is for that address. */
    bool is_elsewhere = session != NULL && session->state == SESSION_HANDSHAKING &&
                        (!address_equal(&session->path.remote, &listener->from->remote) ||
                         !address_equal(&session->path.local, &listener->from->local));
    return is_elsewhere ? NULL : session;
}

/* An id that no session has. @return false where none was found */
static bool take_cid(struct dtls_session *session, uint8_t *ret_cid)
{
    struct dtls_listener *listener = session->listener;
    size_t len = listener->options.cid_bytes;

    for (unsigned i = 0; i < TRIES; i++) {
        if (RAND_bytes(ret_cid, (int)len) != 1) {
            return false;
        }
        if (len > 1) {
            ret_cid[0] = listener->options.worker;
        }
        uint64_t key = key_of_cid(ret_cid, len);
        if (hash_map_find(&listener->cids, key) == NULL) {
            hash_map_add(&listener->cids, &session->by_cid, key);
            return true;
        }
    }
    return false;
}

/* OpenSSL's parameters. NOLINTNEXTLINE(readability-function-size) */
static int on_cid_offer(SSL *ssl, unsigned type, unsigned context, const unsigned char *in,
                        size_t len, X509 *certificate, size_t chain_index, int *ret_alert,
                        void *argument)
{
    struct dtls_session *session = session_of_ssl(ssl);
    (void)type, (void)context, (void)certificate, (void)chain_index, (void)argument;

    if (len < 1 || in[0] != len - 1) {
        *ret_alert = SSL_AD_DECODE_ERROR;
        return 0;
    }
    if (session == NULL || session->listener->options.cid_bytes == 0 ||
        session->listener->crypto == NULL || in[0] > RECORD_CID_MAX) {
        return 1; /* without */
    }
    session->records.has_cid = true;
    session->records.peer_cid_len = in[0];
    memcpy(session->records.peer_cid, in + 1, in[0]);
    return 1;
}

/* Called where the client has offered. OpenSSL's parameters.
 * NOLINTNEXTLINE(readability-function-size) */
static int on_cid_answer(SSL *ssl, unsigned type, unsigned context, const unsigned char **ret_out,
                         size_t *ret_len, X509 *certificate, size_t chain_index, int *ret_alert,
                         void *argument)
{
    struct dtls_session *session = session_of_ssl(ssl);
    (void)type, (void)context, (void)certificate, (void)chain_index, (void)ret_alert;
    (void)argument;

    if (session == NULL || !session->records.has_cid) {
        return 0;
    }
    uint8_t *extension = session->shake->cid_extension;
    uint8_t len = session->listener->options.cid_bytes;
    if (session->by_cid.link == NULL && !take_cid(session, extension + 1)) {
        session->records.has_cid = false;
        session->records.peer_cid_len = 0;
        return 0;
    }
    session->records.cid_len = len;
    extension[0] = len;
    *ret_out = extension;
    *ret_len = 1u + len;
    return 1;
}

bool dtls_add_cid_extension(SSL_CTX *context)
{
    return SSL_CTX_add_custom_ext(context, EXTENSION_CONNECTION_ID,
                                  SSL_EXT_CLIENT_HELLO | SSL_EXT_TLS1_2_SERVER_HELLO |
                                      SSL_EXT_DTLS_ONLY,
                                  on_cid_answer, NULL, NULL, on_cid_offer, NULL) == 1;
}

/* ---- records of the handshake ---- */

void cid_send(struct dtls_session *session, const uint8_t *data, size_t len)
{
    struct dtls_listener *listener = session->listener;
    struct record_view view;
    uint8_t content[256], out[2u * DTLS_HANDSHAKE_MTU];
    size_t used = 0;

    for (; record_parse(data, len, 0, &view); data += view.whole_len, len -= view.whole_len) {
        size_t content_len = 0;
        if (view.whole_len + RECORD_OVERHEAD_MAX > sizeof out - used) {
            break;
        }
        if (view.epoch == 0) {
            memcpy(out + used, view.whole, view.whole_len);
            used += view.whole_len;
        } else if (view.payload_len <= sizeof content &&
                   records_open_own(listener->crypto, &session->records, &view, content,
                                    &content_len)) {
            used += records_seal(listener->crypto, &session->records, view.type, content,
                                 content_len, out + used);
        }
    }
    OPENSSL_cleanse(content, sizeof content);
    if (used > 0) {
        udp_send(listener->socket, &session->path, out, used);
    }
}
