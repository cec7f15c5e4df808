/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/dtls_bio.h"

#include <limits.h>
#include <pthread.h>
#include <string.h>

/* Like recv() on a datagram socket: one datagram, and bytes that do not fit are lost. */
static int dtls_bio_on_read(BIO *bio, char *buffer, int capacity)
{
    struct dtls_pipe *pipe = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    if (pipe->input == NULL || capacity <= 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    size_t len = pipe->input_len < (size_t)capacity ? pipe->input_len : (size_t)capacity;
    memcpy(buffer, pipe->input, len);
    if (!pipe->is_peeking) {
        pipe->input = NULL;
    }
    return (int)len;
}

static int dtls_bio_on_write(BIO *bio, const char *data, int len)
{
    struct dtls_pipe *pipe = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    return len >= 0 && pipe->put(pipe, (const uint8_t *)data, (size_t)len) ? len : -1;
}

static long dtls_bio_on_control(BIO *bio, int command, long number, void *pointer)
{
    struct dtls_pipe *pipe = BIO_get_data(bio);

    (void)pointer;
    switch (command) {
    case BIO_CTRL_FLUSH:
    case BIO_CTRL_DUP:
    case BIO_CTRL_DGRAM_SET_NEXT_TIMEOUT: /* the wheel has the time-outs */
        return 1;
    case BIO_CTRL_DGRAM_SET_PEEK_MODE:
        pipe->is_peeking = number != 0;
        return 1;
    case BIO_CTRL_DGRAM_QUERY_MTU:
    case BIO_CTRL_DGRAM_GET_FALLBACK_MTU:
        return pipe->mtu;
    case BIO_CTRL_DGRAM_GET_MTU_OVERHEAD:
        return 48; /* IPv6 and UDP */
    default:
        /* No peer's address to tell: DTLSv1_listen() can do without, we know it. */
        return 0;
    }
}

static BIO_METHOD *method; /* NULL: there was no memory for it */

/* Once a process: OpenSSL has few numbers for kinds of BIOs. */
static void make_method(void)
{
    BIO_METHOD *made =
        BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "criproxy datagrams");

    if (made != NULL && BIO_meth_set_read(made, dtls_bio_on_read) == 1 &&
        BIO_meth_set_write(made, dtls_bio_on_write) == 1 &&
        BIO_meth_set_ctrl(made, dtls_bio_on_control) == 1) {
        method = made;
    } else {
        BIO_meth_free(made);
    }
}

BIO *dtls_bio_new(struct dtls_pipe *pipe)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, make_method);
    BIO *bio = method != NULL ? BIO_new(method) : NULL;
    if (bio != NULL) {
        BIO_set_data(bio, pipe);
        BIO_set_init(bio, 1);
    }
    return bio;
}
