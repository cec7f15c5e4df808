/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/dtls_internal.h"

#include "base/log.h"
#include "net/credentials.h"

#include <errno.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#define CONTENT_ALERT 21
#define CONTENT_HANDSHAKE 22
#define FINISHED_LEN (12u + 12u) /* handshake header and verify_data of TLS 1.2 */

/* ---- lists and map ---- */

static void list_append(struct session_list *list, struct dtls_session *session)
{
    session->previous = list->last;
    session->next = NULL;
    if (list->last != NULL) {
        list->last->next = session;
    } else {
        list->first = session;
    }
    list->last = session;
}

static void session_list_remove(struct session_list *list, struct dtls_session *session)
{
    if (session->previous != NULL) {
        session->previous->next = session->next;
    } else {
        list->first = session->next;
    }
    if (session->next != NULL) {
        session->next->previous = session->previous;
    } else {
        list->last = session->previous;
    }
}

static uint64_t session_key_of(const struct dtls_listener *listener, const struct udp_path *path)
{
    return hash_mix(address_hash(&path->remote, listener->map.seed),
                    address_hash(&path->local, listener->map.seed));
}

struct dtls_session *session_find(const struct dtls_listener *listener, const struct udp_path *path,
                                  enum session_state state)
{
    struct hash_node *node = hash_map_find(&listener->map, session_key_of(listener, path));

    for (; node != NULL; node = hash_map_find_next(node)) {
        struct dtls_session *session = HASH_ENTRY(node, struct dtls_session, node);
        if (session->state == state && address_equal(&session->path.remote, &path->remote) &&
            address_equal(&session->path.local, &path->local)) {
            return session;
        }
    }
    return NULL;
}

/* ---- ends ---- */

void session_doom(struct dtls_session *session, const char *why)
{
    struct dtls_listener *listener = session->listener;

    switch (session->state) {
    case SESSION_HANDSHAKING:
        session_list_remove(&listener->handshaking, session);
        account_discharge(&listener->handshake_accounts, &session->holding);
        listener->handshaking_count--;
        break;
    case SESSION_ESTABLISHED:
        session_list_remove(&listener->established, session);
        account_discharge(&listener->session_accounts, &session->holding);
        atomic_fetch_sub_explicit(&listener->counters.sessions, 1, memory_order_relaxed);
        break;
    case SESSION_DOOMED:
        return;
    }
    hash_map_remove(&session->node);
    timer_cancel(&listener->wheel, &session->timer);
    session->state = SESSION_DOOMED;
    session->why = why;
    list_append(&listener->doomed, session);
}

/*
 * Around all work of OpenSSL for one session. Such work may come up in the middle of another
 * session's (the owner answers, one is evicted), so the state of the outer call is saved and
 * restored. OpenSSL's buffers, 34 kB, are there only in between.
 */
static bool begin(struct dtls_session *session, const uint8_t *input, size_t len,
                  struct dtls_io *ret_before)
{
    *ret_before = session->listener->io;
    dtls_io_begin(session->listener, session, &session->path, input, len);
    ERR_clear_error();
    return SSL_alloc_buffers(session->ssl) == 1;
}

/* Buffers that hold something still to be read stay: SSL_free_buffers() sees to it. */
static void session_end(struct dtls_session *session, const struct dtls_io *before)
{
    if (session->state == SESSION_ESTABLISHED) {
        (void)SSL_free_buffers(session->ssl);
    }
    session->listener->io = *before;
}

void session_shut(struct dtls_session *session, const char *why)
{
    struct dtls_io before;

    if (session->state == SESSION_ESTABLISHED) {
        if (begin(session, NULL, 0, &before)) {
            (void)SSL_shutdown(session->ssl);
        }
        session_end(session, &before);
        ERR_clear_error();
    }
    session_doom(session, why);
}

#define CREDENTIALS_GONE "credentials gone"

void session_shut_strangers(struct dtls_listener *listener, const struct credentials *now)
{
    struct dtls_session *session = listener->established.first;

    while (session != NULL) {
        struct dtls_session *next = session->next; /* shutting takes it off the list */
        if (!credentials_still_hold(listener->options.credentials, now, session->ssl)) {
            session_shut(session, CREDENTIALS_GONE);
        }
        session = next;
    }
}

uint32_t dtls_close_matching(struct dtls_listener *listener, peer_match_fn *is_match,
                             const void *context, const char *why)
{
    struct dtls_session *session = listener->established.first;
    uint32_t count = 0;

    while (session != NULL) {
        struct dtls_session *next = session->next; /* shutting takes it off the list */
        if (is_match(context, &session->path.remote, session->identity)) {
            session_shut(session, why);
            count++;
        }
        session = next;
    }
    return count;
}

static void session_free(struct dtls_session *session)
{
    SSL_free(session->ssl);
    identity_release(session->peer.refused);
    credentials_release(session->credentials);
    identity_release(session->identity);
    free(session);
}

void session_free_doomed(struct dtls_listener *listener)
{
    while (listener->doomed.first != NULL) {
        struct dtls_session *session = listener->doomed.first;
        session_list_remove(&listener->doomed, session);
        if (session->was_established) {
            listener->handler->on_close(listener->context, session, session->why);
        }
        session_free(session);
    }
}

/* ---- failures of handshakes ---- */

/* Counts and reports the failure, and ends the session. */
static void fail_for(struct dtls_session *session, enum handshake reason, const char *detail)
{
    const struct dtls_listener *listener = session->listener;
    struct identity *claimed = tls_claimed(session->ssl, &session->peer);
    const struct handshake_failure failure = {
        .remote = &session->path.remote, .why = reason, .detail = detail, .identity = claimed};

    dtls_count(&session->listener->counters.failed[reason]);
    session_doom(session, handshake_name(reason));
    handshake_log("dtls_handshake_failed", &failure);
    if (listener->handler->on_failure != NULL) {
        listener->handler->on_failure(listener->context, &failure);
    }
    identity_release(claimed);
}

static void session_fail(struct dtls_session *session)
{
    const char *detail = "";
    enum handshake reason = tls_failure(session->ssl, &session->peer, &detail);

    fail_for(session, reason, detail);
}

/*
 * decrypt_error, as RFC 4279 section 2 has it for a wrong key and, so that identities cannot be
 * told apart, for an unknown identity. OpenSSL has no call that sends a chosen alert; at this point
 * of a full handshake our messages are not encrypted yet. In an abbreviated one they are, and the
 * client only notices a time-out.
 */
static void send_decrypt_error(struct dtls_session *session)
{
    uint8_t record[DTLS_RECORD_HEADER + 2] = {CONTENT_ALERT, 0xfe, 0xfd};

    if (session->next_alert >> 48 != 0) {
        return;
    }
    for (unsigned i = 0; i < 8; i++) {
        record[3 + i] = (uint8_t)(session->next_alert >> (8 * (7 - i)));
    }
    record[12] = 2;
    record[13] = SSL3_AL_FATAL;
    record[14] = SSL_AD_DECRYPT_ERROR;
    udp_send(session->listener->socket, &session->path, record, sizeof record);
}

/* Bytes of a record that are neither header nor plaintext: explicit nonce and tag. */
static size_t record_overhead(const SSL_CIPHER *cipher)
{
    bool is_short = SSL_CIPHER_get_cipher_nid(cipher) == NID_chacha20_poly1305 ||
                    SSL_CIPHER_get_protocol_id(cipher) == 0xC0A8 ||
                    SSL_CIPHER_get_protocol_id(cipher) == 0xC0AE; /* no nonce; half a tag */

    return is_short ? 16 : 24;
}

/*
 * Whether the datagram has a whole Finished, encrypted: 12 bytes and the header.
 * Where it ends a datagram a client may have cut it in two.
 */
static bool has_finished(const SSL *ssl, const uint8_t *data, size_t len)
{
    const SSL_CIPHER *cipher = SSL_get_pending_cipher(ssl);
    size_t wanted = DTLS_RECORD_HEADER + FINISHED_LEN;

    wanted += cipher == NULL ? 0 : record_overhead(cipher);
    while (cipher != NULL && len >= DTLS_RECORD_HEADER) {
        size_t record_len = DTLS_RECORD_HEADER + ((size_t)data[11] << 8 | data[12]);
        if (record_len > len) {
            break;
        }
        if (data[0] == CONTENT_HANDSHAKE && (data[3] | data[4]) != 0 && record_len >= wanted) {
            return true;
        }
        data += record_len;
        len -= record_len;
    }
    return false;
}

/* ---- time ---- */

static void on_handshake_timer(void *context, struct timer *timer, uint64_t now_ms);
static void on_idle_timer(void *context, struct timer *timer, uint64_t now_ms);

/* The next retransmission, by OpenSSL's own clock, or the end. */
static void set_handshake_timer(struct dtls_session *session, uint64_t now_ms)
{
    struct timeval left = {0};
    uint64_t at_ms = session->deadline_ms;

    if (DTLSv1_get_timeout(session->ssl, &left) == 1) {
        uint64_t left_ms = (uint64_t)left.tv_sec * 1000 + (uint64_t)left.tv_usec / 1000 + 1;
        at_ms = now_ms + left_ms < at_ms ? now_ms + left_ms : at_ms;
    }
    timer_set(&session->listener->wheel, &session->timer, at_ms, on_handshake_timer);
}

static void on_handshake_timer(void *context, struct timer *timer, uint64_t now_ms)
{
    struct dtls_session *session = HASH_ENTRY(timer, struct dtls_session, timer);
    (void)context;

    if (now_ms >= session->deadline_ms) {
        fail_for(session, HANDSHAKE_timeout, SSL_state_string_long(session->ssl));
        return;
    }
    struct dtls_io before;
    bool good = begin(session, NULL, 0, &before) && DTLSv1_handle_timeout(session->ssl) >= 0;
    session_end(session, &before);
    if (good) {
        set_handshake_timer(session, now_ms);
    } else {
        session_fail(session);
    }
}

static void set_idle_timer(struct dtls_session *session)
{
    struct dtls_listener *listener = session->listener;

    if (listener->options.idle_ms == 0) {
        timer_cancel(&listener->wheel, &session->timer);
    } else {
        timer_set(&listener->wheel, &session->timer, session->used_ms + listener->options.idle_ms,
                  on_idle_timer);
    }
}

/* Use does not move the timer: that would be work for every datagram. */
static void on_idle_timer(void *context, struct timer *timer, uint64_t now_ms)
{
    struct dtls_session *session = HASH_ENTRY(timer, struct dtls_session, timer);
    const struct dtls_listener *listener = context;

    if (now_ms - session->used_ms >= listener->options.idle_ms) {
        session_shut(session, "idle");
    } else {
        set_idle_timer(session);
    }
}

static void touch(struct dtls_session *session)
{
    struct dtls_listener *listener = session->listener;

    session->used_ms = listener->now_ms;
    if (listener->established.last != session) {
        session_list_remove(&listener->established, session);
        list_append(&listener->established, session);
        account_touch(&listener->session_accounts, &session->holding);
    }
}

/* To be ended for a newcomer: of the source that has most the one idle for longest. */
static struct dtls_session *first_to_go(const struct account_book *book)
{
    struct holding *holding = account_largest(book);
    account_note_displaced(holding);
    return HASH_ENTRY(holding, struct dtls_session, holding);
}

/* ---- handshake ---- */

struct dtls_session *session_new(struct dtls_listener *listener, const struct udp_path *path,
                                 const uint8_t client_random[DTLS_RANDOM_LEN], SSL *ssl)
{
    struct dtls_session *session = calloc(1, sizeof *session);

    if (session == NULL) {
        return NULL;
    }
    if (listener->handshaking_count >= listener->options.handshakes_max) {
        dtls_count(&listener->counters.handshakes_evicted);
        session_doom(first_to_go(&listener->handshake_accounts), "too many handshakes");
    }
    session->listener = listener;
    session->ssl = ssl;
    session->credentials = credentials_acquire(listener->options.credentials);
    session->state = SESSION_HANDSHAKING;
    session->path = *path;
    session->deadline_ms = listener->now_ms + listener->options.handshake_ms;
    memcpy(session->client_random, client_random, DTLS_RANDOM_LEN);
    SSL_set_app_data(ssl, &session->peer);
    hash_map_add(&listener->map, &session->node, session_key_of(listener, path));
    list_append(&listener->handshaking, session);
    account_charge(&listener->handshake_accounts, &session->holding, &path->remote, 1);
    listener->handshaking_count++;
    return session;
}

static void log_established(const struct dtls_session *session)
{
    char client[ADDRESS_TEXT_MAX], identity[IDENTITY_TEXT_MAX];

    if (!log_is_on(LOG_DEBUG)) {
        return;
    }
    log_event(LOG_DEBUG, "dtls_session", "client=%s identity=%s suite=%s resumed=%s",
              address_format(&session->path.remote, client),
              identity_format(session->identity, identity), SSL_get_cipher_name(session->ssl),
              SSL_session_reused(session->ssl) == 1 ? "yes" : "no");
}

static void establish(struct dtls_session *session)
{
    struct dtls_listener *listener = session->listener;
    struct dtls_session *before = session_find(listener, &session->path, SESSION_ESTABLISHED);

    session->identity = tls_identity(session->ssl);
    if (session->identity == NULL) { /* rules may depend on the identity */
        fail_for(session, HANDSHAKE_out_of_memory, "");
        return;
    }
    /* A reload has come during the handshake. */
    if (!credentials_still_hold(session->credentials, listener->options.credentials,
                                session->ssl)) {
        fail_for(session, HANDSHAKE_credentials_gone, "");
        return;
    }
    if (before != NULL) {
        /* No close_notify: the client has the new keys only (RFC 6347 section 4.2.8). */
        session_doom(before, "replaced by a new handshake");
    } else if (listener->counters.sessions >= listener->options.sessions_max) {
        dtls_count(&listener->counters.sessions_evicted);
        session_shut(first_to_go(&listener->session_accounts), "evicted");
    }
    session_list_remove(&listener->handshaking, session);
    account_discharge(&listener->handshake_accounts, &session->holding);
    account_charge(&listener->session_accounts, &session->holding, &session->path.remote, 1);
    listener->handshaking_count--;
    list_append(&listener->established, session);
    session->state = SESSION_ESTABLISHED;
    session->was_established = true;
    session->used_ms = listener->now_ms;
    SSL_set_app_data(session->ssl, NULL);
    credentials_release(session->credentials);
    session->credentials = NULL;
    dtls_count(&listener->counters.sessions);
    dtls_count(&listener->counters.handshakes);
    if (SSL_session_reused(session->ssl) == 1) {
        dtls_count(&listener->counters.resumptions);
    }
    set_idle_timer(session);
    log_established(session);
}

static void shake(struct dtls_session *session, const uint8_t *data, size_t len)
{
    int result = SSL_do_handshake(session->ssl);

    if (result == 1) {
        establish(session);
        return;
    }
    if (SSL_get_error(session->ssl, result) != SSL_ERROR_WANT_READ) {
        session_fail(session);
        return;
    }
    /*
     * DTLS drops a record that cannot be decrypted without a word. Where that is
     * the Finished it means another key, and waiting would only hide it: a forged
     * one ends the handshake no sooner than a forged alert would.
     */
    if (SSL_get_state(session->ssl) == TLS_ST_SR_CHANGE && has_finished(session->ssl, data, len)) {
        send_decrypt_error(session);
        session_fail(session);
        return;
    }
    set_handshake_timer(session, session->listener->now_ms);
}

/* ---- data ---- */

/* @return whether anything came of it */
static bool read_all(struct dtls_session *session)
{
    struct dtls_listener *listener = session->listener;
    bool of_use = false;

    while (session->state == SESSION_ESTABLISHED) {
        int got = SSL_read(session->ssl, listener->plaintext, sizeof listener->plaintext);
        if (got > 0) {
            const struct datagram datagram = {
                .data = listener->plaintext, .len = (size_t)got, .path = session->path};
            of_use = true;
            touch(session);
            listener->handler->on_datagram(listener->context, session, &datagram);
            continue;
        }
        int error = SSL_get_error(session->ssl, got);
        if (error == SSL_ERROR_WANT_READ) {
            return of_use;
        }
        if (error == SSL_ERROR_ZERO_RETURN) {
            session_shut(session, "closed by the peer");
        } else {
            session_doom(session, "alert of the peer");
        }
        return true;
    }
    return of_use;
}

bool session_feed(struct dtls_session *session, const uint8_t *data, size_t len)
{
    struct dtls_io before;
    bool of_use = begin(session, data, len, &before);

    if (of_use && session->state == SESSION_HANDSHAKING) {
        shake(session, data, len);
    }
    if (of_use && session->state == SESSION_ESTABLISHED) {
        of_use = read_all(session) || session->listener->io.written > 0;
    }
    session_end(session, &before);
    return of_use;
}

void dtls_send(struct dtls_session *session, const uint8_t *data, size_t len)
{
    struct dtls_io before;

    if (session->state != SESSION_ESTABLISHED || len == 0 || len > DTLS_DATAGRAM_MAX) {
        dtls_count(&session->listener->counters.sends_dropped);
        return;
    }
    int sent = begin(session, NULL, 0, &before) ? SSL_write(session->ssl, data, (int)len) : 0;
    session_end(session, &before);
    ERR_clear_error();
    if (sent > 0) {
        touch(session);
    } else {
        dtls_count(&session->listener->counters.sends_dropped);
        session_doom(session, "cannot be written to"); /* such as record numbers used up */
    }
}

/* ---- for the owner ---- */

const struct udp_path *dtls_session_path(const struct dtls_session *session)
{
    return &session->path;
}

struct identity *dtls_session_identity(const struct dtls_session *session)
{
    return session->identity;
}
