/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A session's handshake: OpenSSL does it, record by record. Protected records of the client are
 * opened here first, so that the window against replays knows them from the start, and what comes
 * too early (the network has put it before what it needs) is kept and tried once more.
 */
#include "net/dtls_internal.h"

#include "base/log.h"
#include "net/credentials.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#define FINISHED_LEN (12u + 12u) /* handshake header and verify_data of TLS 1.2 */

/* ---- life ---- */

struct dtls_shake *shake_new(struct dtls_session *session)
{
    struct dtls_listener *listener = session->listener;
    struct dtls_shake *shake = calloc(1, sizeof *shake);

    if (shake != NULL) {
        shake->session = session;
        shake->credentials = credentials_acquire(listener->options.credentials);
        shake->deadline_ms = session->started_ms + listener->options.handshake_ms;
    }
    return shake;
}

/* How long what handshakes have freed may wait in the heap for the next ones. */
#define GIVE_BACK_MS 10000u

/*
 * A thousand handshakes at once leave 1.5 MiB in the heap, more than their sessions take. glibc
 * gives back by itself only what is at the heap's end, where sessions are.
 */
static void on_give_back(void *context, struct timer *timer, uint64_t now_ms)
{
    (void)context;
    (void)timer;
    (void)now_ms;
#ifdef __GLIBC__
    (void)malloc_trim(0);
#endif
}

void shake_free(struct dtls_shake *shake)
{
    if (shake == NULL) {
        return;
    }
    struct dtls_listener *listener = shake->session->listener;
    if (!timer_is_set(&listener->give_back)) {
        timer_set(&listener->wheel, &listener->give_back, listener->now_ms + GIVE_BACK_MS,
                  on_give_back);
    }
    SSL_free(shake->ssl);
    identity_release(shake->peer.refused);
    credentials_release(shake->credentials);
    own_free_flight(shake->flight);
    free(shake->early);
    free(shake);
}

/* ---- failures of handshakes ---- */

/* Counts and reports the failure, and ends the session. */
static void fail_for(struct dtls_session *session, enum handshake reason, const char *detail)
{
    const struct dtls_listener *listener = session->listener;
    struct identity *claimed = tls_claimed(session->shake->ssl, &session->shake->peer);
    const struct handshake_failure failure = {
        .remote = &session->path.remote, .why = reason, .detail = detail, .identity = claimed};

    dtls_count(&session->listener->counters.failed[reason]);
    session_doom(session, handshake_rows[reason].name);
    handshake_log("dtls_handshake_failed", &failure);
    if (listener->handler->on_failure != NULL) {
        listener->handler->on_failure(listener->context, &failure);
    }
    identity_release(claimed);
}

static void session_fail(struct dtls_session *session)
{
    const char *detail = "";
    enum handshake reason = tls_failure(session->shake->ssl, &session->shake->peer, &detail);

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

    if (session->shake->next_plain >> 48 != 0) {
        return;
    }
    for (unsigned i = 0; i < 8; i++) {
        record[3 + i] = (uint8_t)(session->shake->next_plain >> (8 * (7 - i)));
    }
    record[12] = 2;
    record[13] = SSL3_AL_FATAL;
    record[14] = SSL_AD_DECRYPT_ERROR;
    dtls_transmit(session->listener, &session->path, record, sizeof record);
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

/* The next retransmission, by OpenSSL's own clock, or the end. */
static void set_handshake_timer(struct dtls_session *session, uint64_t now_ms)
{
    struct dtls_shake *shake = session->shake;
    struct timeval left = {0};
    uint64_t at_ms = shake->deadline_ms;

    if (DTLSv1_get_timeout(shake->ssl, &left) == 1) {
        uint64_t left_ms = (uint64_t)left.tv_sec * 1000 + (uint64_t)left.tv_usec / 1000 + 1;
        at_ms = now_ms + left_ms < at_ms ? now_ms + left_ms : at_ms;
    }
    timer_set(&session->listener->wheel, &shake->timer, at_ms, on_handshake_timer);
}

static void on_handshake_timer(void *context, struct timer *timer, uint64_t now_ms)
{
    struct dtls_shake *shake = HASH_ENTRY(timer, struct dtls_shake, timer);
    struct dtls_session *session = shake->session;
    (void)context;

    if (now_ms >= shake->deadline_ms) {
        fail_for(session, HANDSHAKE_timeout, SSL_state_string_long(shake->ssl));
        return;
    }
    struct dtls_io before;
    bool good = session_begin(session, NULL, 0, &before) && DTLSv1_handle_timeout(shake->ssl) >= 0;
    session_end(session, &before);
    if (good) {
        set_handshake_timer(session, now_ms);
    } else {
        session_fail(session);
    }
}

/* ---- the end ---- */

static void log_established(const struct dtls_session *session)
{
    char client[ADDRESS_TEXT_MAX], identity[IDENTITY_TEXT_MAX];
    const SSL *ssl = session->shake->ssl;

    if (!log_is_on(LOG_DEBUG)) {
        return;
    }
    log_event(LOG_DEBUG, "dtls_session", "client=%s identity=%s suite=%s resumed=%s",
              address_format(&session->path.remote, client),
              identity_format(session->identity, identity), SSL_get_cipher_name(ssl),
              SSL_session_reused(ssl) == 1 ? "yes" : "no");
}

/* Of an established session: what only the handshake needed goes, with OpenSSL's memory; the owner
 * is told. */
static void finish_shake(struct dtls_session *session)
{
    struct dtls_shake *shake = session->shake;

    timer_cancel(&session->listener->wheel, &shake->timer);
    uint8_t fragment = SSL_SESSION_get_max_fragment_length(SSL_get_session(shake->ssl));
    session->records.fragment = fragment <= TLSEXT_max_fragment_length_4096 ? fragment : 0;
    if (session->listener->crypto != NULL) {
        credentials_note_anchor(shake->ssl, session->anchor);
        own_take_over(session);
        session->shake = NULL;
        shake_free(shake);
    } else {
        SSL_set_app_data(shake->ssl, NULL);
        credentials_release(shake->credentials);
        shake->credentials = NULL;
    }
    if (session->listener->handler->on_open != NULL) {
        session->listener->handler->on_open(session->listener->context, session);
    }
}

static bool may_be_established(struct dtls_session *session)
{
    struct dtls_shake *shake = session->shake;

    session->identity = tls_identity(shake->ssl);
    if (session->identity == NULL) { /* rules may depend on the identity */
        fail_for(session, HANDSHAKE_out_of_memory, "");
        return false;
    }
    /* A reload has come during the handshake. */
    if (!credentials_still_hold(shake->credentials, session->listener->options.credentials,
                                shake->ssl)) {
        fail_for(session, HANDSHAKE_credentials_gone, "");
        return false;
    }
    return true;
}

/* ---- records ---- */

/* OpenSSL reads what it was begun with. */
static void shake_on(struct dtls_session *session)
{
    SSL *ssl = session->shake->ssl;
    int result = SSL_do_handshake(ssl);

    if (result == 1) {
        if (may_be_established(session)) {
            session_establish(session);
            log_established(session);
        }
    } else if (SSL_get_error(ssl, result) != SSL_ERROR_WANT_READ) {
        session_fail(session);
    } else {
        set_handshake_timer(session, session->listener->now_ms);
    }
}

/* A datagram for OpenSSL, or some records of one; none: it goes on by itself. */
static bool feed_openssl(struct dtls_session *session, const uint8_t *data, size_t len)
{
    struct dtls_io before;
    bool can = session_begin(session, data, len, &before);

    if (can) {
        shake_on(session);
    }
    session_end(session, &before);
    return can;
}

/*
 * DTLS drops a record that cannot be decrypted without a word. Where that is the Finished it means
 * another key, and waiting would only hide it: a forged one ends the handshake no sooner than a
 * forged alert would.
 */
static void fail_of_key(struct dtls_session *session)
{
    send_decrypt_error(session);
    ERR_clear_error();
    session_fail(session);
}

static bool waits_for_finished(const struct dtls_session *session)
{
    return SSL_get_state(session->shake->ssl) == TLS_ST_SR_CHANGE;
}

/* Too early for OpenSSL or for us: once more when the handshake has come further. */
static void keep_early(struct dtls_shake *shake, const struct record_view *view)
{
    if (shake->early == NULL) {
        shake->early = malloc(DTLS_EARLY_MAX);
    }
    if (shake->early != NULL && view->whole_len <= DTLS_EARLY_MAX - shake->early_len) {
        memcpy(shake->early + shake->early_len, view->whole, view->whole_len);
        shake->early_len += view->whole_len;
    }
}

/* @return whether OpenSSL was given it: handshake messages and alerts, as they came */
static bool feed_protected(struct dtls_session *session, const struct record_view *view)
{
    struct dtls_listener *listener = session->listener;
    uint8_t type = 0;
    size_t len = 0;

    if (!own_has_keys(session)) {
        keep_early(session->shake, view);
        return false;
    }
    if (!session_has_id_of(session, view)) {
        listener->unopened++;
        return false;
    }
    switch (
        records_open(listener->crypto, &session->records, view, listener->plaintext, &len, &type)) {
    case RECORD_OPENED:
        break;
    case RECORD_UNOPENED:
        listener->unopened++;
        if (waits_for_finished(session) &&
            (view->type == CONTENT_HANDSHAKE || view->type == CONTENT_CID) &&
            records_may_hold(&session->records, view, FINISHED_LEN)) {
            fail_of_key(session);
        }
        return false;
    case RECORD_REPLAYED:
        return false;
    }
    if (!waits_for_finished(session) || type == CONTENT_APPLICATION_DATA) {
        keep_early(session->shake, view); /* its ChangeCipherSpec, or its Finished, comes later */
        return false;
    }
    records_accept(&session->records, view->number);
    if (view->type != CONTENT_CID) {
        return feed_openssl(session, view->whole, view->whole_len);
    }
    const struct record_content_of content = {type, listener->plaintext, len};
    size_t plain =
        records_seal_theirs(listener->crypto, &session->records, view, &content, listener->sealed);
    return plain > 0 && feed_openssl(session, listener->sealed, plain);
}

/*
 * How many bytes of @p data, which begins with @p view, are records in the clear. OpenSSL has to
 * see the same records there: of type tls12_cid it would look for a length where we have an id, and
 * find records that we have not looked at.
 */
static size_t plain_len(const uint8_t *data, size_t len, struct record_view view)
{
    size_t used = 0;

    while (view.epoch == 0 && view.type != CONTENT_CID) {
        used += view.whole_len;
        if (!record_parse(data + used, len - used, 0, &view)) {
            break;
        }
    }
    return used;
}

/*
 * Records in the clear go to OpenSSL together, others one by one, until the handshake is done.
 *
 * @param ret_was_fed whether OpenSSL was given any
 * @return how many bytes were used
 */
static size_t feed_records(struct dtls_session *session, const uint8_t *data, size_t len,
                           bool *ret_was_fed)
{
    struct record_view view;
    size_t used = 0;

    *ret_was_fed = false;
    while (session->state == SESSION_HANDSHAKING &&
           record_parse(data + used, len - used, session->records.cid_len, &view)) {
        size_t plain = plain_len(data + used, len - used, view);
        if (plain > 0) {
            *ret_was_fed |= feed_openssl(session, data + used, plain);
        } else if (view.epoch != 0) { /* an id in the clear is of no session: RFC 9146 section 4 */
            *ret_was_fed |= feed_protected(session, &view);
        }
        used += plain > 0 ? plain : view.whole_len;
    }
    return used;
}

/* Once more what came too early, as often as that brings the handshake further. */
static void feed_early(struct dtls_session *session)
{
    struct dtls_shake *shake = session->shake;
    struct record_view view;
    bool was_fed = true;

    while (was_fed && session->state == SESSION_HANDSHAKING && shake->early_len > 0 &&
           own_has_keys(session)) {
        uint8_t *early = shake->early;
        size_t len = shake->early_len;
        shake->early = NULL;
        shake->early_len = 0;
        size_t used = feed_records(session, early, len, &was_fed);
        while (session->state == SESSION_ESTABLISHED &&
               record_parse(early + used, len - used, session->records.cid_len, &view)) {
            keep_early(shake, &view); /* data */
            used += view.whole_len;
        }
        free(early);
    }
}

/* The handshake is done: what it needed goes, and what came with its end or before is data. */
static bool leave_shake(struct dtls_session *session, const uint8_t *data, size_t len)
{
    struct dtls_shake *shake = session->shake;
    uint8_t *early = shake->early;
    size_t early_len = shake->early_len;

    shake->early = NULL;
    finish_shake(session);
    bool of_use = early != NULL && own_feed(session, early, early_len);
    free(early);
    return own_feed(session, data, len) || of_use;
}

/* On OpenSSL's records: a datagram is OpenSSL's to take apart. */
static bool feed_whole(struct dtls_session *session, const uint8_t *data, size_t len)
{
    bool of_use = feed_openssl(session, data, len);

    if (session->state == SESSION_HANDSHAKING && waits_for_finished(session) &&
        has_finished(session->shake->ssl, data, len)) {
        fail_of_key(session);
    }
    if (session->state == SESSION_ESTABLISHED) {
        finish_shake(session);
        (void)session_feed(session, NULL, 0);
    }
    return of_use;
}

bool shake_feed(struct dtls_session *session, const uint8_t *data, size_t len)
{
    if (session->listener->crypto == NULL) {
        return feed_whole(session, data, len);
    }
    if (len == 0) {
        return feed_openssl(session, NULL, 0);
    }
    bool was_fed = false;
    size_t used = feed_records(session, data, len, &was_fed);
    if (was_fed) {
        feed_early(session);
    }
    if (session->state == SESSION_ESTABLISHED) {
        (void)leave_shake(session, data + used, len - used);
        return true;
    }
    return used > 0;
}
