/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sessions on DTLS 1.2 of our own, towards origin servers:
 *
 *     requests     upstream_pool.c         which session; back-off, repetition, idle time
 *     messages     upstream_message.c      CON, ACK, RST, message ids
 *     records      upstream_dtls_record.c  after the handshake: dtls_record.h, alerts
 *     handshake    this file             OpenSSL, as long as it lasts
 *     datagrams    this file             a connected UDP socket for each session
 *
 *                 Finished verified             closed, fatal alert, ICMP error
 *     connecting -------------------> open -----------------------------------> dead
 *         |                                                                      ^
 *         +---- alert, certificate refused, ICMP error, the pool's time-out -----+
 *
 * As for clients (dtls.h), OpenSSL does the handshake and all cryptography, and its memory goes
 * when the handshake is done. Where OpenSSL's FIPS provider is loaded its SSL stays, and with it
 * its records. What is dead is freed in upstream_pool.c, never from inside a call here.
 *
 * A session may be resumed once more after it has ended (RFC 5246 section 7.3): OpenSSL's session
 * is kept with the pool for that. What has to be repeated then is in upstream_dtls_record.c.
 *
 * A socket for each session, connected: the kernel then reports an ICMP error for this origin
 * server and for none other, so a closed port is known at once. It also has a source port of its
 * own, so that a session can be made beside one that has fallen silent.
 */
#include "net/upstream_dtls_internal.h"

#include "base/log.h"
#include "net/loop.h"
#include "net/loop_internal.h"
#include "net/sockaddr.h"

#include <errno.h>
#include <event2/event.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define CHAIN_MAX 6

/* Handshake datagrams fit the smallest IPv6 link: 1280 - 40 (IPv6) - 8 (UDP), also with what a
 * connection id adds. */
#define HANDSHAKE_MTU (1232 - (int)RECORD_CID_MAX - 1)

/* Datagrams read in one callback; the rest is read in the next turn. */
#define READS_MAX 64u

bool upstream_has(enum upstream_engine engine, enum transport transport)
{
    /* Nothing of libcoap's need start for what is not its own. */
    return transport != TRANSPORT_DTLS || engine == UPSTREAM_ENGINE_NATIVE ||
           upstream_coap_is_there();
}

/* ---- the box ---- */

static struct dtls_box *acquire_box(struct upstream *upstream)
{
    struct dtls_box *box = upstream->dtls_box;

    if (box == NULL) {
        box = calloc(1, sizeof *box);
        if (box == NULL) {
            return NULL;
        }
        if (!upstream->options.has_openssl_records) {
            box->crypto = record_crypto_new();
        }
        upstream->dtls_box = box;
    }
    box->sessions++;
    return box;
}

static void release_box(struct upstream *upstream)
{
    struct dtls_box *box = upstream->dtls_box;

    if (--box->sessions == 0) {
        record_crypto_free(box->crypto);
        OPENSSL_cleanse(box, sizeof *box);
        free(box);
        upstream->dtls_box = NULL;
    }
}

/* ---- datagrams ---- */

/* The network leads nowhere, or its port is closed; anything else may pass. */
static bool is_unreachable_error(int error)
{
    return error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH ||
           error == EACCES || error == EPERM || error == EHOSTDOWN || error == ENETDOWN;
}

/* A session that is up ends only where the port is closed: a route may come back. */
static void on_socket_error(struct session *session, int error)
{
    if (session->state == SESSION_CONNECTING && !session->is_up && is_unreachable_error(error)) {
        session_die(session, UPSTREAM_REFUSED, NULL);
    } else if (error == ECONNREFUSED) {
        session_die(session, UPSTREAM_CLOSED, "its port is closed");
    }
}

bool upstream_dtls_put(struct session *session, const uint8_t *data, size_t len,
                       enum upstream_status *ret_status)
{
    for (unsigned attempt = 0; attempt < 2; attempt++) {
        if (send(session->dtls->fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) {
            return true;
        }
        if (errno == EMSGSIZE) {
            *ret_status = UPSTREAM_MESSAGE_TOO_LARGE;
            return false;
        }
        on_socket_error(session, errno); /* of an earlier datagram: this one was not sent */
        if (session->is_dead) {
            *ret_status = UPSTREAM_CLOSED;
            return false;
        }
    }
    return true; /* the network has lost it */
}

/* Errors that the kernel keeps: the next read or write tells of each. The rest stays readable. */
static void drain_errors(struct session *session)
{
    uint8_t control[512];

    for (unsigned i = 0; i < READS_MAX; i++) {
        struct msghdr message = {.msg_control = control, .msg_controllen = sizeof control};
        if (recvmsg(session->dtls->fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) {
            return;
        }
    }
}

/* A datagram of the origin server, borrowed for the call; may call handlers. */
static void upstream_dtls_feed(struct session *session, const uint8_t *data, size_t len);

static void on_dtls_readable(evutil_socket_t fd, short what, void *context)
{
    struct session *session = context;
    struct dtls_box *box = session->upstream->dtls_box;
    (void)what;

    loop_turn_begin(session->upstream->loop);
    session->upstream->inside = session;
    for (unsigned i = 0; i < READS_MAX && !session->is_dead; i++) {
        ssize_t got = recv(fd, box->input, sizeof box->input, MSG_DONTWAIT);
        if (got >= 0) {
            upstream_dtls_feed(session, box->input, (size_t)got);
        } else if (errno == EAGAIN) {
            if (i == 0) {
                drain_errors(session); /* or this would be called again and again */
            }
            break;
        } else {
            on_socket_error(session, errno);
            drain_errors(session);
        }
    }
    session->upstream->inside = NULL;
}

static void set_number(int fd, int level, int name, int value)
{
    (void)setsockopt(fd, level, name, &value, sizeof value);
}

/* As udp.c has it. */
static int connect_socket(const struct address *remote)
{
    union sockaddr_any name;
    socklen_t name_len = sockaddr_from_address(remote, &name);
    int fd = socket(name.any.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return -1;
    }
    if (name.any.sa_family == AF_INET) {
        set_number(fd, IPPROTO_IP, IP_RECVERR, 1);
        set_number(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_OMIT);
    } else {
        set_number(fd, IPPROTO_IPV6, IPV6_RECVERR, 1);
    }
    if (connect(fd, &name.any, name_len) != 0) {
        int error = errno;
        (void)close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

/* ---- OpenSSL's way to the socket ---- */

static bool end_put(struct dtls_pipe *pipe, const uint8_t *data, size_t len)
{
    const struct dtls_end *end = HASH_ENTRY(pipe, struct dtls_end, pipe);

    upstream_dtls_put_openssl(end->session, data, len);
    return true;
}

/* ---- the handshake ---- */

static int on_dtls_verify(int is_good, X509_STORE_CTX *store)
{
    const SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    struct session *session = SSL_get_app_data(ssl);

    return upstream_verify(is_good, store, &session->pool->target, &session->dtls->is_wrong_name);
}

/* NULL without memory, or if the host cannot be named. */
static SSL *make_dtls_ssl(struct session *session)
{
    struct session_pool *pool = session->pool;
    SSL *ssl = SSL_new(session->credentials->dtls);

    session->dtls->pipe.put = end_put;
    BIO *bio = ssl != NULL ? dtls_bio_new(&session->dtls->pipe) : NULL;
    if (bio == NULL) {
        SSL_free(ssl);
        return NULL;
    }
    SSL_set_bio(ssl, bio, bio);
    SSL_set_app_data(ssl, session);
    SSL_set_connect_state(ssl);
    (void)SSL_set_mtu(ssl, HANDSHAKE_MTU);
    if (!credentials_have_psk(session->credentials)) {
        SSL_set_verify(ssl, SSL_VERIFY_PEER, on_dtls_verify);
        SSL_set_verify_depth(ssl, CHAIN_MAX);
    }
    if (pool->target.host != NULL && SSL_set_tlsext_host_name(ssl, pool->host) != 1) {
        SSL_free(ssl);
        return NULL;
    }
    if (pool->resumable != NULL &&
        loop_now_ms(session->upstream->loop) >= pool->resumable_until_ms) {
        upstream_dtls_forget(pool);
    }
    if (pool->resumable != NULL) {
        (void)SSL_set_session(ssl, pool->resumable); /* or a full handshake */
    }
    return ssl;
}

/* ---- resumption (RFC 5246 section 7.3, RFC 5077) ---- */

/*
 * One session for each pool, and so for one name and one set of credentials: other credentials
 * are another pool, where nothing is resumed. A certificate is verified in full handshakes only:
 * none is resumed for longer than RESUMABLE_MAX_S after the last one.
 */
#define RESUMABLE_S 7200u /* where the origin server does not say for how long */
#define RESUMABLE_MAX_S 86400u

void upstream_dtls_forget(struct session_pool *pool)
{
    SSL_SESSION_free(pool->resumable);
    pool->resumable = NULL;
}

static void keep_resumable(struct session *session)
{
    struct dtls_end *end = session->dtls;
    struct session_pool *pool = session->pool;
    SSL_SESSION *made = SSL_get1_session(end->ssl);
    bool is_resumed = SSL_session_reused(end->ssl) == 1;

    end->is_resumed = is_resumed;
    if (is_resumed) {
        atomic_fetch_add_explicit(&session->upstream->counters.sessions_resumed, 1,
                                  memory_order_relaxed);
    }
    if (made == NULL || SSL_SESSION_is_resumable(made) != 1) {
        SSL_SESSION_free(made);
        upstream_dtls_forget(pool);
        return;
    }
    unsigned long hint_s = SSL_SESSION_get_ticket_lifetime_hint(made);
    uint64_t for_s = hint_s == 0                ? RESUMABLE_S
                     : hint_s < RESUMABLE_MAX_S ? hint_s
                                                : RESUMABLE_MAX_S;
    uint64_t until_ms = loop_now_ms(session->upstream->loop) + 1000 * for_s;
    upstream_dtls_forget(pool);
    pool->resumable = made;
    if (!is_resumed || until_ms < pool->resumable_until_ms) {
        pool->resumable_until_ms = until_ms;
    }
}

static void shake_fail(struct session *session)
{
    struct dtls_end *end = session->dtls;
    long verdict = SSL_get_verify_result(end->ssl);
    unsigned long error = ERR_peek_last_error();
    const char *why = error != 0 ? ERR_reason_error_string(error) : NULL;

    ERR_clear_error();
    timer_cancel(&session->upstream->wheel, &end->timer);
    upstream_dtls_forget(session->pool);
    if (end->is_wrong_name) {
        session_die(session, UPSTREAM_NAME_MISMATCH, NULL);
    } else if (verdict != X509_V_OK) {
        session_die(session, upstream_certificate_status(verdict),
                    X509_verify_cert_error_string(verdict));
    } else {
        session_die(session, UPSTREAM_HANDSHAKE_FAILED,
                    why != NULL ? why : "closed by the other side");
    }
}

static void shake_done(struct session *session)
{
    struct dtls_end *end = session->dtls;
    char remote[ADDRESS_TEXT_MAX];

    timer_cancel(&session->upstream->wheel, &end->timer);
    if (!end->has_keys && end->records.peer_cid_len > 0) {
        /* No memory to derive them: our Finished has not left, nor could anything after it. */
        session_die(session, UPSTREAM_NO_MEMORY, NULL);
        return;
    }
    if (log_is_on(LOG_DEBUG)) {
        log_event(LOG_DEBUG, "upstream_session", "remote=%s suite=%s cid=%s resumed=%s",
                  address_format(&session->pool->target.address, remote),
                  SSL_get_cipher_name(end->ssl), end->records.has_cid ? "yes" : "no",
                  SSL_session_reused(end->ssl) == 1 ? "yes" : "no");
    }
    keep_resumable(session);
    if (end->has_keys) { /* else its records stay OpenSSL's */
        /* Or SSL_free() takes the session for one that has failed, which is not to be resumed. */
        SSL_set_shutdown(end->ssl, SSL_SENT_SHUTDOWN);
        SSL_free(end->ssl);
        end->ssl = NULL;
    }
    end->is_open = true;
    session->is_up = true;
    session_set_due(session);
}

static void on_shake_timer(void *context, struct timer *timer, uint64_t now_ms);

/* The next retransmission, by OpenSSL's own clock. The end is the pool's to decide. */
static void set_shake_timer(struct session *session)
{
    struct dtls_end *end = session->dtls;
    struct timeval left = {0};

    if (DTLSv1_get_timeout(end->ssl, &left) == 1) {
        uint64_t left_ms = (uint64_t)left.tv_sec * 1000 + (uint64_t)left.tv_usec / 1000 + 1;
        timer_set(&session->upstream->wheel, &end->timer,
                  loop_now_ms(session->upstream->loop) + left_ms, on_shake_timer);
    }
}

static void on_shake_timer(void *context, struct timer *timer, uint64_t now_ms)
{
    const struct dtls_end *end = HASH_ENTRY(timer, struct dtls_end, timer);
    (void)context;
    (void)now_ms;

    if (end->session->is_dead) {
        return;
    }
    ERR_clear_error();
    if (DTLSv1_handle_timeout(end->ssl) < 0) {
        shake_fail(end->session);
    } else {
        set_shake_timer(end->session);
    }
}

/* OpenSSL reads @p data, whole records of one datagram; NULL: it goes on by itself. */
static void upstream_shake_on(struct session *session, const uint8_t *data, size_t len)
{
    struct dtls_end *end = session->dtls;

    ERR_clear_error();
    end->pipe.input = data;
    end->pipe.input_len = len;
    int result = SSL_do_handshake(end->ssl);
    end->pipe.input = NULL;
    if (session->is_dead) {
        return; /* what it has sent was refused */
    }
    if (result == 1) {
        shake_done(session);
    } else if (SSL_get_error(end->ssl, result) == SSL_ERROR_WANT_READ) {
        set_shake_timer(session);
    } else {
        shake_fail(session);
    }
}

/* How many bytes of @p data, which begins with @p view, OpenSSL may be given together: those in the
 * clear, or one record. */
static size_t part_len(const uint8_t *data, size_t len, struct record_view view)
{
    size_t used = 0;

    if (view.epoch != 0) {
        return view.whole_len;
    }
    do {
        used += view.whole_len;
    } while (record_parse(data + used, len - used, 0, &view) && view.epoch == 0);
    return used;
}

/*
 * Protected records before the origin server's ChangeCipherSpec, which OpenSSL keeps until then,
 * each in a buffer of 17 kB, and up to a hundred: a Finished that the network has put first, and a
 * few more. What is left out is sent again.
 */
#define EARLY_RECORDS_MAX 4u

static bool may_be_fed(struct dtls_end *end, const struct record_view *view)
{
    if (view->epoch == 0 || SSL_get_state(end->ssl) == TLS_ST_CR_CHANGE) {
        return true;
    }
    if (end->early_records == EARLY_RECORDS_MAX) {
        return false;
    }
    end->early_records++;
    return true;
}

/*
 * Record by record, so that what follows the Finished in its datagram is ours. The number of the
 * record that has ended the handshake, which is authentic then, is not taken again.
 */
static void shake_feed_client(struct session *session, const uint8_t *data, size_t len)
{
    struct dtls_end *end = session->dtls;
    struct record_view view;

    while (!session->is_dead && !end->is_open && record_parse(data, len, 0, &view)) {
        size_t used = part_len(data, len, view);
        if (may_be_fed(end, &view)) {
            upstream_shake_on(session, data, used);
        }
        if (end->is_open && view.epoch == 1) {
            records_accept(&end->records, view.number);
        }
        data += used;
        len -= used;
    }
    if (!session->is_dead && end->is_open && end->ssl == NULL) {
        upstream_dtls_feed_records(session, data, len);
    }
}

static void upstream_dtls_feed(struct session *session, const uint8_t *data, size_t len)
{
    struct dtls_end *end = session->dtls;

    if (!end->is_open) {
        shake_feed_client(session, data, len);
    } else if (end->ssl == NULL) {
        upstream_dtls_feed_records(session, data, len);
    } else {
        upstream_dtls_feed_openssl(session, data, len);
    }
}

/* ---- its life ---- */

static bool open_client_socket(struct session *session, enum upstream_status *ret_status)
{
    struct dtls_end *end = session->dtls;
    struct event_base *base = session->upstream->loop->base;

    end->fd = connect_socket(&session->pool->target.address);
    if (end->fd < 0) {
        bool is_shortage = errno == ENOMEM || errno == EMFILE || errno == ENFILE ||
                           errno == ENOBUFS || errno == EAGAIN || errno == EADDRNOTAVAIL;
        *ret_status = is_shortage ? UPSTREAM_NO_MEMORY : UPSTREAM_REFUSED; /* or no port is free */
        return false;
    }
    end->event = event_new(base, end->fd, EV_READ | EV_PERSIST, on_dtls_readable, session);
    return end->event != NULL && event_add(end->event, NULL) == 0;
}

static bool dtls_open(struct session *session, enum upstream_status *ret_status)
{
    struct upstream *upstream = session->upstream;
    struct dtls_end *end = calloc(1, sizeof *end);

    *ret_status = UPSTREAM_NO_MEMORY;
    session->dtls = end;
    if (end == NULL) {
        return false;
    }
    end->fd = -1;
    end->session = session;
    struct dtls_box *box = acquire_box(upstream);
    if (box == NULL || !open_client_socket(session, ret_status)) {
        return false;
    }
    ERR_clear_error();
    end->ssl = make_dtls_ssl(session);
    if (end->ssl == NULL) {
        ERR_clear_error();
        return false;
    }
    end->layer.write = upstream_dtls_write;
    end->layer.room = box->message;
    end->layer.room_len = sizeof box->message;
    upstream_message_begin(session, &end->layer);
    upstream_shake_on(session, NULL, 0);
    return true;
}

static void dtls_close(struct session *session)
{
    struct dtls_end *end = session->dtls;

    if (end == NULL) {
        return;
    }
    upstream_dtls_goodbye(session);
    timer_cancel(&session->upstream->wheel, &end->timer);
    if (end->event != NULL) {
        event_free(end->event);
    }
    /* RFC 5246 section 7.2.2; and what has led nowhere is not tried again. */
    if (end->was_cut || (!end->is_open && end->ssl != NULL)) {
        upstream_dtls_forget(session->pool);
    }
    SSL_free(end->ssl);
    ERR_clear_error();
    if (end->fd >= 0) {
        (void)close(end->fd);
    }
    if (session->upstream->dtls_box != NULL) {
        release_box(session->upstream);
    }
    OPENSSL_cleanse(end, sizeof *end);
    free(end);
    session->dtls = NULL;
    session->messages = NULL;
}

static bool dtls_is_almost_up(const struct session *session)
{
    const SSL *ssl = session->dtls->ssl;

    if (ssl == NULL) {
        return false;
    }
    OSSL_HANDSHAKE_STATE state = SSL_get_state(ssl);
    return state == TLS_ST_CW_FINISHED || state == TLS_ST_CR_SESSION_TICKET ||
           state == TLS_ST_CR_CHANGE || state == TLS_ST_CR_FINISHED;
}

/* What the other side does not take is sent again: the engine's window has the measure (MSG-31). */
static bool dtls_is_full(const struct session *session)
{
    (void)session;
    return false;
}

static void dtls_look(const struct session *session, struct upstream_view *ret_view)
{
    const struct dtls_end *end = session->dtls;

    if (end->is_open) {
        ret_view->suite =
            end->ssl == NULL ? records_suite_name(&end->records) : SSL_get_cipher_name(end->ssl);
        ret_view->cid = end->records.peer_cid;
        ret_view->cid_len = end->records.peer_cid_len;
        ret_view->is_resumed = end->is_resumed;
    }
}

const struct session_kind session_kind_dtls = {
    .open = dtls_open,
    .close = dtls_close,
    .transmit = upstream_message_send,
    .ping = upstream_message_ping,
    .is_acknowledged = upstream_message_is_acknowledged,
    .is_almost_up = dtls_is_almost_up,
    .is_full = dtls_is_full,
    .look = dtls_look,
};
