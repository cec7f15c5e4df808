/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One BIO for all sessions of a listener: reading gives the one datagram that is being handled,
 * writing queues a datagram to the current peer. dtls_io_begin() sets both before OpenSSL is
 * called, so a session needs no BIO, no buffer and no descriptor of its own.
 */
#include "net/dtls_internal.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

void dtls_io_begin(struct dtls_listener *listener, struct dtls_session *session,
                   const struct udp_path *path, const uint8_t *input, size_t input_len)
{
    listener->io =
        (struct dtls_io){.input = input, .input_len = input_len, .path = path, .session = session};
}

/* Like recv() on a datagram socket: one datagram, and bytes that do not fit are lost. */
static int dtls_bio_on_read(BIO *bio, char *buffer, int capacity)
{
    struct dtls_listener *listener = BIO_get_data(bio);
    struct dtls_io *io = &listener->io;

    BIO_clear_retry_flags(bio);
    if (io->input == NULL || capacity <= 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    size_t len = io->input_len < (size_t)capacity ? io->input_len : (size_t)capacity;
    memcpy(buffer, io->input, len);
    if (!io->is_peeking) {
        io->input = NULL;
    }
    return (int)len;
}

static int dtls_bio_on_write(BIO *bio, const char *data, int len)
{
    struct dtls_listener *listener = BIO_get_data(bio);
    struct dtls_io *io = &listener->io;

    BIO_clear_retry_flags(bio);
    if (len < 0 || io->path == NULL) {
        return -1;
    }
    if (io->session != NULL && io->session->state == SESSION_HANDSHAKING) {
        own_note_sent(io->session, (const uint8_t *)data, (size_t)len);
    }
    if (io->session != NULL && io->session->state == SESSION_HANDSHAKING &&
        io->session->records.peer_cid_len > 0) {
        cid_send(io->session, (const uint8_t *)data, (size_t)len);
    } else {
        udp_send(listener->socket, io->path, (const uint8_t *)data, (size_t)len);
    }
    io->written++;
    return len;
}

static long on_control(BIO *bio, int command, long number, void *pointer)
{
    struct dtls_listener *listener = BIO_get_data(bio);

    (void)pointer;
    switch (command) {
    case BIO_CTRL_FLUSH:
    case BIO_CTRL_DUP:
    case BIO_CTRL_DGRAM_SET_NEXT_TIMEOUT: /* the wheel has the time-outs */
        return 1;
    case BIO_CTRL_DGRAM_SET_PEEK_MODE:
        listener->io.is_peeking = number != 0;
        return 1;
    case BIO_CTRL_DGRAM_QUERY_MTU:
    case BIO_CTRL_DGRAM_GET_FALLBACK_MTU:
        return DTLS_HANDSHAKE_MTU;
    case BIO_CTRL_DGRAM_GET_MTU_OVERHEAD:
        return 48; /* IPv6 and UDP; in DTLS_HANDSHAKE_MTU already */
    default:
        /* No peer's address to tell: DTLSv1_listen() can do without, we know it. */
        return 0;
    }
}

static int on_create(BIO *bio)
{
    BIO_set_init(bio, 1);
    return 1;
}

int dtls_bio_new(struct dtls_listener *listener)
{
    BIO_METHOD *method =
        BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "criproxy datagrams");

    listener->bio_method = method;
    if (method == NULL || BIO_meth_set_read(method, dtls_bio_on_read) != 1 ||
        BIO_meth_set_write(method, dtls_bio_on_write) != 1 ||
        BIO_meth_set_ctrl(method, on_control) != 1 || BIO_meth_set_create(method, on_create) != 1) {
        return -ENOMEM;
    }
    listener->bio = BIO_new(method);
    if (listener->bio == NULL) {
        return -ENOMEM;
    }
    BIO_set_data(listener->bio, listener);
    return 0;
}

void dtls_bio_free(struct dtls_listener *listener)
{
    BIO_free(listener->bio);
    BIO_meth_free(listener->bio_method);
    listener->bio = NULL;
    listener->bio_method = NULL;
}
