/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A DTLS 1.2 session for each client, as a layer over the link for UDP: its datagrams
 * are this one's records. OpenSSL reads and writes through one BIO of ours for each
 * session, which holds the one datagram that is being read.
 */
#include "clock.h"
#include "link.h"
#include "tls_client.h"
#include "wire.h"

#include <errno.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>

enum {
    AT_ONCE = 32,       /* handshakes under way while all are brought up, */
    SHAKING_MAX = 4096, /* and later, when many have lost their sessions */
    TICK_MS = 20,
    PATIENCE_S = 20, /* for one handshake */
    MTU = 1232,
};

#define NS_PER_MS_TICK (TICK_MS * UINT64_C(1000000))
#define PATIENCE_NS (PATIENCE_S * UINT64_C(1000000000))

enum session_state {
    SESSION_NONE,
    SESSION_SHAKING,
    SESSION_UP,
};

struct session {
    struct dtls_link *dtls;
    SSL *ssl;
    SSL_SESSION *ticket;
    enum session_state state;
    uint32_t endpoint; /* of the link below */
    const uint8_t *input;
    size_t input_len;
    uint64_t since_ns; /* shaking */
    uint64_t up_ns;    /* when the handshake was done */
};

struct dtls_link {
    struct link base;
    struct link *below;
    struct tls_client client;
    SSL_CTX *context;
    BIO_METHOD *method;
    struct session *sessions;
    uint32_t count;
    struct session *shaking[SHAKING_MAX];
    struct link_handshakes *result; /* while connecting */
    bool are_devices;
    uint64_t tick_ns; /* when timers of handshakes were looked at */
    link_message_fn on_message;
    void *on_message_context;
};

static struct dtls_link *of_link(struct link *link)
{
    return (struct dtls_link *)link; /* base is the first member */
}

static uint32_t number_of(const struct session *session)
{
    return (uint32_t)(session - session->dtls->sessions);
}

/* ---- OpenSSL's way to the link below ---- */

static int bio_write(BIO *bio, const char *data, int len)
{
    struct session *session = BIO_get_data(bio);

    link_send(session->dtls->below, number_of(session), session->endpoint, (const uint8_t *)data,
              (size_t)len);
    return len;
}

static int bio_read(BIO *bio, char *data, int capacity)
{
    struct session *session = BIO_get_data(bio);
    size_t len = session->input_len;

    BIO_clear_retry_flags(bio);
    if (session->input == NULL) {
        BIO_set_retry_read(bio);
        return -1;
    }
    if (len > (size_t)capacity) {
        len = (size_t)capacity; /* as recv() does with a datagram */
    }
    memcpy(data, session->input, len);
    session->input = NULL;
    return (int)len;
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    switch (command) {
    case BIO_CTRL_FLUSH:
        return 1;
    case BIO_CTRL_DGRAM_QUERY_MTU:
    case BIO_CTRL_DGRAM_GET_FALLBACK_MTU:
        return MTU;
    default:
        return 0;
    }
}

static int make_method(struct dtls_link *dtls)
{
    dtls->method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "coapbench");
    if (dtls->method == NULL || BIO_meth_set_write(dtls->method, bio_write) != 1 ||
        BIO_meth_set_read(dtls->method, bio_read) != 1 ||
        BIO_meth_set_ctrl(dtls->method, bio_control) != 1) {
        return -ENOMEM;
    }
    return 0;
}

static SSL *new_ssl(struct session *session)
{
    SSL *ssl = SSL_new(session->dtls->context);
    BIO *bio = ssl == NULL ? NULL : BIO_new(session->dtls->method);

    if (bio == NULL) {
        SSL_free(ssl);
        return NULL;
    }
    BIO_set_data(bio, session);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
    SSL_set_connect_state(ssl);
    if (session->dtls->are_devices) {
        SSL_set_app_data(ssl, (void *)(uintptr_t)(number_of(session) + 1));
        SSL_set_quiet_shutdown(ssl, 1);
    }
    SSL_set_options(ssl, SSL_OP_NO_QUERY_MTU);
    (void)SSL_set_mtu(ssl, MTU);
    if (session->ticket != NULL) {
        (void)SSL_set_session(ssl, session->ticket);
    }
    return ssl;
}

/* ---- handshakes ---- */

static void leave_shaking(struct session *session)
{
    for (unsigned i = 0; i < SHAKING_MAX; i++) {
        if (session->dtls->shaking[i] == session) {
            session->dtls->shaking[i] = NULL;
        }
    }
}

static void end_session(struct session *session)
{
    SSL_free(session->ssl);
    session->ssl = NULL;
    session->state = SESSION_NONE;
}

static void fail(struct session *session)
{
    leave_shaking(session);
    end_session(session);
    session->dtls->result->failed++;
}

static void shake(struct session *session)
{
    int result = SSL_do_handshake(session->ssl);

    if (result == 1) {
        leave_shaking(session);
        session->state = SESSION_UP;
        session->up_ns = clock_now_ns();
        session->dtls->result->done++;
        session->dtls->result->resumed += SSL_session_reused(session->ssl) == 1;
    } else if (SSL_get_error(session->ssl, result) != SSL_ERROR_WANT_READ) {
        fail(session);
    }
    ERR_clear_error();
}

/* The previous session, if there is one, gives its ticket and is closed. */
static void close_session(struct session *session)
{
    if (session->state == SESSION_UP) {
        SSL_SESSION_free(session->ticket);
        session->ticket = SSL_get1_session(session->ssl);
        (void)SSL_shutdown(session->ssl);
        ERR_clear_error();
    }
    end_session(session);
}

static int start(struct session *session, unsigned place)
{
    struct dtls_link *dtls = session->dtls;
    int err;

    close_session(session);
    err = link_renew(dtls->below, number_of(session), &session->endpoint);
    if (err != 0) {
        return err;
    }
    session->ssl = new_ssl(session);
    if (session->ssl == NULL) {
        return -ENOMEM;
    }
    session->state = SESSION_SHAKING;
    session->since_ns = clock_now_ns();
    dtls->shaking[place] = session;
    shake(session);
    return 0;
}

static void on_time(struct dtls_link *dtls, uint64_t now_ns)
{
    for (unsigned i = 0; i < SHAKING_MAX; i++) {
        struct session *session = dtls->shaking[i];
        if (session == NULL) {
            continue;
        }
        if (now_ns - session->since_ns > PATIENCE_NS || DTLSv1_handle_timeout(session->ssl) < 0) {
            ERR_clear_error();
            fail(session);
        }
    }
}

/* ---- messages ---- */

static void read_messages(struct session *session)
{
    struct dtls_link *dtls = session->dtls;
    uint8_t message[WIRE_DATAGRAM_MAX];
    int len = SSL_read(session->ssl, message, sizeof(message));

    while (len > 0) {
        if (dtls->on_message != NULL) {
            dtls->on_message(dtls->on_message_context, number_of(session), 0, message, (size_t)len);
        }
        len = SSL_read(session->ssl, message, sizeof(message));
    }
    if (SSL_get_error(session->ssl, len) != SSL_ERROR_WANT_READ) {
        end_session(session); /* close_notify, or an alert: later records are refused */
    }
    ERR_clear_error();
}

static void on_datagram(void *context, uint32_t client, uint32_t endpoint, const uint8_t *data,
                        size_t len)
{
    struct dtls_link *dtls = context;
    struct session *session = &dtls->sessions[client];

    if (session->state == SESSION_NONE || endpoint != session->endpoint) {
        return; /* late records of the previous session */
    }
    session->input = data;
    session->input_len = len;
    if (session->state == SESSION_SHAKING) {
        shake(session);
    }
    if (session->state == SESSION_UP) {
        read_messages(session);
    }
    session->input = NULL;
}

static int connect_all(struct link *link, struct link_handshakes *ret_handshakes)
{
    struct dtls_link *dtls = of_link(link);
    uint64_t start_ns = clock_now_ns(), tick_ns = start_ns;
    uint32_t next = 0;
    int err = 0;

    dtls->result = ret_handshakes;
    while (err == 0 && clock_stop == 0 &&
           ret_handshakes->done + ret_handshakes->failed < dtls->count) {
        for (unsigned i = 0; i < AT_ONCE && next < dtls->count && err == 0; i++) {
            if (dtls->shaking[i] == NULL) {
                err = start(&dtls->sessions[next++], i);
            }
        }
        if (err == 0) {
            err = link_wait(dtls->below, NS_PER_MS_TICK);
        }
        if (err == 0) {
            err = link_deliver(dtls->below, on_datagram, dtls);
        }
        if (clock_now_ns() - tick_ns > NS_PER_MS_TICK) {
            tick_ns = clock_now_ns();
            on_time(dtls, tick_ns);
        }
    }
    ret_handshakes->ns = clock_now_ns() - start_ns;
    return err;
}

static int renew(struct link *link, uint32_t client, uint32_t *ret_endpoint)
{
    (void)link;
    (void)client;
    *ret_endpoint = 0;
    return 0;
}

/* With the ticket that it has; a handshake that hangs is given up for another one. */
static int reopen(struct link *link, uint32_t client, uint64_t since_ns)
{
    struct dtls_link *dtls = of_link(link);
    struct session *session = &dtls->sessions[client];
    bool is_new = (session->state == SESSION_UP && session->up_ns > since_ns) ||
                  (session->state == SESSION_SHAKING && session->since_ns > since_ns);

    if (is_new) {
        return 0;
    }
    leave_shaking(session);
    for (unsigned i = 0; i < SHAKING_MAX; i++) {
        if (dtls->shaking[i] == NULL) {
            link->reopened++;
            return start(session, i);
        }
    }
    return 0;
}

static void send_message(struct link *link, uint32_t client, uint32_t endpoint, const uint8_t *data,
                         size_t len)
{
    struct session *session = &of_link(link)->sessions[client];

    (void)endpoint;
    if (session->state == SESSION_SHAKING) {
        return; /* lost: it is sent again */
    }
    if (session->state != SESSION_UP || SSL_write(session->ssl, data, (int)len) <= 0) {
        link->refused++;
        ERR_clear_error();
    }
}

static int wait_for_messages(struct link *link, uint64_t timeout_ns)
{
    return link_wait(of_link(link)->below, timeout_ns);
}

static int deliver_messages(struct link *link, link_message_fn on_message, void *context)
{
    struct dtls_link *dtls = of_link(link);

    dtls->on_message = on_message;
    dtls->on_message_context = context;
    if (clock_now_ns() - dtls->tick_ns > NS_PER_MS_TICK) {
        dtls->tick_ns = clock_now_ns();
        on_time(dtls, dtls->tick_ns);
    }
    return link_deliver(dtls->below, on_datagram, dtls);
}

static void close_link(struct link *link)
{
    struct dtls_link *dtls = of_link(link);

    for (uint32_t i = 0; dtls->sessions != NULL && i < dtls->count; i++) {
        close_session(&dtls->sessions[i]);
        SSL_SESSION_free(dtls->sessions[i].ticket);
    }
    link_close(dtls->below);
    SSL_CTX_free(dtls->context);
    BIO_meth_free(dtls->method);
    free(dtls->sessions);
    free(dtls);
}

static int descriptor(const struct link *link, uint32_t client, uint32_t endpoint, bool *ret_is_up)
{
    const struct dtls_link *dtls = (const struct dtls_link *)link; /* base is the first member */
    const struct session *session = &dtls->sessions[client];
    bool is_up;

    (void)endpoint;
    *ret_is_up = session->state == SESSION_UP;
    return link_descriptor(dtls->below, client, session->endpoint, &is_up);
}

static const struct link_ops dtls_ops = {
    connect_all,      renew,      reopen,    send_message, wait_for_messages,
    deliver_messages, close_link, descriptor};

int link_open_dtls(const struct link_options *options, struct link **ret_link)
{
    struct dtls_link *dtls = calloc(1, sizeof(*dtls));
    int err;

    if (dtls == NULL) {
        return -ENOMEM;
    }
    dtls->base.ops = &dtls_ops;
    dtls->client = (struct tls_client){options->identity, options->key, options->suites};
    dtls->count = options->clients;
    dtls->are_devices = options->are_devices;
    dtls->sessions = calloc(options->clients, sizeof(*dtls->sessions));
    dtls->context = tls_client_context(true, &dtls->client);
    err = dtls->sessions == NULL ? -ENOMEM : dtls->context == NULL ? -EINVAL : make_method(dtls);
    if (err == 0) {
        err = link_open_udp(options, &dtls->below);
    }
    if (err != 0) {
        close_link(&dtls->base);
        return err;
    }
    for (uint32_t i = 0; i < dtls->count; i++) {
        dtls->sessions[i].dtls = dtls;
    }
    *ret_link = &dtls->base;
    return 0;
}
