/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records of a session towards an origin server. dtls_record.h has the rules of the records
 * themselves; those about what is in them are the same as for clients (dtls_own.c), with the roles
 * exchanged: close_notify and fatal alerts end the session, other alerts do nothing, a HelloRequest
 * gets no_renegotiation, records in the clear are never looked at, and one that does not open
 * changes nothing.
 *
 * Connection ids (RFC 9146): ours is of length 0, which asks for none in the records that come, as
 * the socket tells whose they are. The origin server's, where it gives one, is in all that we send,
 * so that it knows us when a NAT has changed our port. OpenSSL knows nothing of it: its Finished is
 * opened and sealed again, under a number UPSTREAM_CID_GAP above its own, and never leaves as it
 * was: without memory to derive the keys not at all, until OpenSSL repeats it; where it has nothing
 * to repeat, at the end of a resumed handshake, the session ends (shake_done()).
 *
 * In a resumed handshake our flight is the last one, and OpenSSL is gone when it may have to be
 * repeated: its Finished is kept as plaintext, and sealed again under a new number each time that
 * an authenticated Finished of the origin server comes again, as dtls_own.c does for clients.
 */
#include "net/upstream_dtls_internal.h"

#include "net/loop.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <string.h>

#define UPSTREAM_CID_GAP 65536u
#define HELLO_REQUEST 0
#define END_FINISHED 20
#define HANDSHAKE_HEADER 12u /* RFC 6347 section 4.2.2 */

/* ---- the extension ---- */

static struct records *note_cid_of_server_in(const SSL *ssl)
{
    const struct session *session = SSL_get_app_data(ssl);

    return session != NULL ? &session->dtls->records : NULL;
}

/* An empty id: the connected socket tells whose records they are. */
static const uint8_t *cid_for_server(const SSL *ssl)
{
    static const uint8_t none[] = {0};
    const struct session *session = SSL_get_app_data(ssl);

    return session != NULL && session->upstream->dtls_box->crypto != NULL ? none : NULL;
}

const struct cid_extension upstream_cid_extension = {note_cid_of_server_in, cid_for_server};

/* ---- what OpenSSL sends ---- */

/* Of epoch 1: our numbers and nonces begin above it. @return whether there are keys */
static bool note_openssl_record(struct session *session, const struct record_view *view)
{
    struct dtls_end *end = session->dtls;
    struct record_crypto *crypto = session->upstream->dtls_box->crypto;

    if (crypto != NULL && !end->has_keys) {
        end->has_keys = records_begin(crypto, end->ssl, &end->records);
    }
    if (end->has_keys) {
        records_note_own(&end->records, view, end->records.peer_cid_len > 0 ? UPSTREAM_CID_GAP : 0);
    }
    return end->has_keys;
}

/* @return how many bytes it takes in @p ret_out, which has room; 0: it cannot be sealed */
static size_t seal_again(struct session *session, const struct record_view *view, uint8_t *ret_out)
{
    struct dtls_end *end = session->dtls;
    struct record_crypto *crypto = session->upstream->dtls_box->crypto;
    uint8_t content[256]; /* a Finished, or an alert */
    size_t content_len = 0, len = 0;

    if (view->payload_len <= sizeof content &&
        records_open_own(crypto, &end->records, view, content, &content_len)) {
        len = records_seal(crypto, &end->records, view->type, content, content_len, ret_out);
    }
    OPENSSL_cleanse(content, sizeof content);
    return len;
}

/* The number of a record of ours in the clear, or a Finished that ends a resumed handshake. */
static void note_flight(struct session *session, const struct record_view *view)
{
    struct dtls_end *end = session->dtls;
    struct record_crypto *crypto = session->upstream->dtls_box->crypto;
    uint8_t content[64];
    size_t len = 0;

    if (view->epoch == 0) {
        end->flight.next_plain = view->number + 1;
    } else if (end->has_keys && view->type == CONTENT_HANDSHAKE &&
               SSL_session_reused(end->ssl) == 1 && view->payload_len <= sizeof content &&
               records_open_own(crypto, &end->records, view, content, &len) &&
               len == sizeof end->flight.finished) {
        memcpy(end->flight.finished, content, len);
        end->flight.is_kept = true;
        end->flight.first_ms = end->flight.sent_ms = loop_now_ms(session->upstream->loop);
    }
    OPENSSL_cleanse(content, sizeof content);
}

void upstream_dtls_put_openssl(struct session *session, const uint8_t *data, size_t len)
{
    struct dtls_end *end = session->dtls;
    uint8_t *out = session->upstream->dtls_box->sealed;
    size_t capacity = sizeof session->upstream->dtls_box->sealed, used = 0;
    enum upstream_status status;
    struct record_view view;
    const uint8_t *at = data;

    for (size_t left = len; !end->is_open && record_parse(at, left, 0, &view);
         at += view.whole_len, left -= view.whole_len) {
        bool is_ours = view.epoch != 0 && note_openssl_record(session, &view);
        note_flight(session, &view);
        if (view.whole_len + RECORD_OVERHEAD_MAX > capacity - used) {
            break;
        }
        if (view.epoch != 0 && end->records.peer_cid_len > 0) {
            used += is_ours ? seal_again(session, &view, out + used) : 0;
        } else {
            memcpy(out + used, view.whole, view.whole_len);
            used += view.whole_len;
        }
    }
    (void)(end->is_open ? upstream_dtls_put(session, data, len, &status)
                        : used > 0 && upstream_dtls_put(session, out, used, &status));
}

/* ---- what comes ---- */

static void take_end_alert(struct session *session, const uint8_t *alert, size_t len)
{
    if (len < 2) {
        return;
    }
    if (alert[1] == SSL_AD_CLOSE_NOTIFY) {
        session_die(session, UPSTREAM_CLOSED, "closed by the other side");
    } else if (alert[0] == SSL3_AL_FATAL) {
        session->dtls->was_cut = true;
        session_die(session, UPSTREAM_CLOSED, SSL_alert_desc_string_long(alert[1]));
    }
}

static bool seal_and_put(struct session *session, uint8_t type, const uint8_t *data, size_t len,
                         enum upstream_status *ret_status)
{
    struct dtls_box *box = session->upstream->dtls_box;
    size_t sealed_len =
        records_seal(box->crypto, &session->dtls->records, type, data, len, box->sealed);

    if (sealed_len == 0) {
        *ret_status = UPSTREAM_CLOSED;
        session_die(session, UPSTREAM_CLOSED, "cannot be written to");
        return false;
    }
    return upstream_dtls_put(session, box->sealed, sealed_len, ret_status);
}

static void put_alert(struct session *session, uint8_t description)
{
    const uint8_t alert[] = {SSL3_AL_WARNING, description};
    enum upstream_status status;

    (void)seal_and_put(session, CONTENT_ALERT, alert, sizeof alert, &status);
}

static void drop_end_flight(struct dtls_end *end)
{
    OPENSSL_cleanse(end->flight.finished, sizeof end->flight.finished);
    end->flight.is_kept = false;
}

/* The origin server has not got it: its Finished comes again. */
static void repeat_end_flight(struct session *session)
{
    struct dtls_end *end = session->dtls;
    struct end_flight *flight = &end->flight;
    uint8_t *out = session->upstream->dtls_box->sealed;
    uint64_t now_ms = loop_now_ms(session->upstream->loop);
    enum upstream_status status;

    if (now_ms - flight->first_ms >= DTLS_FLIGHT_MS || flight->next_plain >> 48 != 0) {
        drop_end_flight(end);
        return;
    }
    if (now_ms - flight->sent_ms < DTLS_FLIGHT_PAUSE_MS) {
        return;
    }
    static const uint8_t change[] = {CONTENT_CHANGE_CIPHER_SPEC, 0xfe, 0xfd, 0, 0};
    memcpy(out, change, sizeof change);
    for (unsigned i = 0; i < 6; i++) {
        out[5 + i] = (uint8_t)(flight->next_plain >> (8 * (5 - i)));
    }
    out[11] = 0;
    out[12] = out[13] = 1;
    size_t used = DTLS_RECORD_HEADER + 1u;
    size_t sealed =
        records_seal(session->upstream->dtls_box->crypto, &end->records, CONTENT_HANDSHAKE,
                     flight->finished, sizeof flight->finished, out + used);
    flight->next_plain++;
    flight->sent_ms = now_ms;
    if (sealed > 0) {
        (void)upstream_dtls_put(session, out, used + sealed, &status);
    }
}

/* @p data is authentic; borrowed. */
static void take_end_content(struct session *session, uint8_t type, const uint8_t *data, size_t len)
{
    session_heard(session);
    switch (type) {
    case CONTENT_APPLICATION_DATA:
        drop_end_flight(session->dtls);
        upstream_message_input(session, data, len);
        break;
    case CONTENT_ALERT:
        take_end_alert(session, data, len);
        break;
    case CONTENT_HANDSHAKE:
        if (len >= HANDSHAKE_HEADER && data[0] == HELLO_REQUEST) {
            put_alert(session, SSL_AD_NO_RENEGOTIATION);
        } else if (len >= HANDSHAKE_HEADER && data[0] == END_FINISHED &&
                   session->dtls->flight.is_kept) {
            repeat_end_flight(session);
        }
        break;
    default:
        break;
    }
}

void upstream_dtls_feed_records(struct session *session, const uint8_t *data, size_t len)
{
    struct dtls_end *end = session->dtls;
    struct dtls_box *box = session->upstream->dtls_box;
    struct record_view view;

    for (; !session->is_dead && record_parse(data, len, 0, &view);
         data += view.whole_len, len -= view.whole_len) {
        uint8_t type = 0;
        size_t content_len = 0;
        if (view.epoch != 1) {
            continue;
        }
        switch (
            records_open(box->crypto, &end->records, &view, box->plaintext, &content_len, &type)) {
        case RECORD_OPENED:
            records_accept(&end->records, view.number);
            take_end_content(session, type, box->plaintext, content_len);
            break;
        case RECORD_UNOPENED:
            atomic_fetch_add_explicit(&session->upstream->counters.records_unopened, 1,
                                      memory_order_relaxed);
            break;
        case RECORD_REPLAYED:
            break;
        }
    }
}

void upstream_dtls_feed_openssl(struct session *session, const uint8_t *data, size_t len)
{
    struct dtls_end *end = session->dtls;
    struct dtls_box *box = session->upstream->dtls_box;

    end->pipe.input = data;
    end->pipe.input_len = len;
    while (!session->is_dead) {
        ERR_clear_error();
        int got = SSL_read(end->ssl, box->plaintext, sizeof box->plaintext);
        int error = got > 0 ? SSL_ERROR_NONE : SSL_get_error(end->ssl, got);
        if (got > 0) {
            session_heard(session);
            upstream_message_input(session, box->plaintext, (size_t)got);
        } else if (error == SSL_ERROR_WANT_READ) {
            break;
        } else {
            end->was_cut = error != SSL_ERROR_ZERO_RETURN;
            session_die(session, UPSTREAM_CLOSED, "closed by the other side");
        }
    }
    end->pipe.input = NULL;
    ERR_clear_error();
}

/* ---- what goes ---- */

bool upstream_dtls_write(struct session *session, struct bytes datagram,
                         enum upstream_status *ret_status)
{
    struct dtls_end *end = session->dtls;

    *ret_status = UPSTREAM_CLOSED;
    if (session->is_dead || !end->is_open) {
        return false;
    }
    if (end->ssl == NULL && datagram.len > records_room(&end->records)) {
        *ret_status = UPSTREAM_MESSAGE_TOO_LARGE;
        return false;
    }
    if (end->ssl == NULL) {
        return seal_and_put(session, CONTENT_APPLICATION_DATA, datagram.data, datagram.len,
                            ret_status);
    }
    ERR_clear_error();
    int sent = SSL_write(end->ssl, datagram.data, (int)datagram.len);
    ERR_clear_error();
    if (sent <= 0) {
        session_die(session, UPSTREAM_CLOSED, "cannot be written to");
    }
    return sent > 0;
}

void upstream_dtls_goodbye(struct session *session)
{
    struct dtls_end *end = session->dtls;

    if (!end->is_open || end->was_cut) {
        return;
    }
    if (end->ssl == NULL) {
        put_alert(session, SSL_AD_CLOSE_NOTIFY);
    } else {
        (void)SSL_shutdown(end->ssl);
    }
}
