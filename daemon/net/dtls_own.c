/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A session after its handshake, on records of our own: what an opened record does, and the last
 * flight. dtls_record.h has the rules of the records themselves; these are about what is in them:
 *
 *  - The client repeats its Finished until it has ours (RFC 6347 section 4.2.4). OpenSSL's SSL has
 *    gone by then, so the plaintext of our last flight is kept and sealed again, under new sequence
 *    numbers, when an authenticated Finished comes; at most once in DTLS_FLIGHT_PAUSE_MS, and
 *    until the first authenticated application data or for DTLS_FLIGHT_MS. In a resumed handshake
 *    the client sends last, and there is nothing to keep.
 *  - close_notify is answered with close_notify, a fatal alert ends the session, other alerts do
 *    nothing. A ClientHello in epoch 1 gets the warning no_renegotiation, and the session goes on.
 *  - Records of epoch 0 are never looked at: their sender is not known.
 */
#include "net/dtls_internal.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#define HANDSHAKE_HEADER 12u /* RFC 6347 section 4.2.2 */
#define CLIENT_HELLO 1
#define FINISHED 20

#define FLIGHT_FIRST_BYTES 512u
#define FLIGHT_HEADER 4u /* type, epoch, length */

/* ---- during the handshake ---- */

bool own_has_keys(struct dtls_session *session)
{
    struct dtls_shake *shake = session->shake;

    if (!shake->has_keys) {
        shake->has_keys = records_begin(session->listener->crypto, shake->ssl, &session->records);
    }
    return shake->has_keys;
}

void own_begin_flight(struct dtls_shake *shake)
{
    if (shake->flight != NULL) {
        shake->flight->len = 0;
        shake->flight->is_whole = true;
    }
}

/* @return whether there is room for @p more bytes */
static bool flight_has_room(struct dtls_shake *shake, size_t more)
{
    struct dtls_flight *flight = shake->flight;
    size_t len = flight == NULL ? 0 : flight->len;
    size_t capacity = flight == NULL ? FLIGHT_FIRST_BYTES : flight->capacity;

    while (capacity - len < more && capacity <= DTLS_FLIGHT_MAX) {
        capacity *= 2;
    }
    if (capacity > DTLS_FLIGHT_MAX) {
        return false;
    }
    if (flight == NULL || capacity > flight->capacity) {
        struct dtls_flight *larger = calloc(1, sizeof *larger + capacity);
        if (larger == NULL) {
            return false;
        }
        larger->is_whole = true;
        if (flight != NULL) {
            memcpy(larger, flight, sizeof *flight + len);
            own_free_flight(flight);
        }
        larger->capacity = capacity;
        shake->flight = larger;
    }
    return true;
}

static void flight_add(struct dtls_shake *shake, uint8_t type, uint8_t epoch,
                       const uint8_t *content, size_t len)
{
    if (!flight_has_room(shake, FLIGHT_HEADER + len)) {
        if (shake->flight != NULL) {
            shake->flight->is_whole = false;
        }
        return;
    }
    uint8_t *at = shake->flight->bytes + shake->flight->len;
    at[0] = type;
    at[1] = epoch;
    at[2] = (uint8_t)(len >> 8);
    at[3] = (uint8_t)len;
    memcpy(at + FLIGHT_HEADER, content, len);
    shake->flight->len += FLIGHT_HEADER + len;
}

/* OpenSSL's Finished, or its alert. */
static void note_protected(struct dtls_session *session, const struct record_view *view)
{
    uint8_t content[256];
    size_t len = 0;

    /* First, because it leaves even where there is no memory for the keys. */
    records_note_own(&session->records, view, session->records.peer_cid_len > 0 ? DTLS_CID_GAP : 0);
    if (own_has_keys(session) && SSL_session_reused(session->shake->ssl) == 0 &&
        view->payload_len <= sizeof content &&
        records_open_own(session->listener->crypto, &session->records, view, content, &len)) {
        flight_add(session->shake, view->type, 1, content, len);
    }
    OPENSSL_cleanse(content, sizeof content);
}

void own_note_sent(struct dtls_session *session, const uint8_t *data, size_t len)
{
    struct dtls_shake *shake = session->shake;
    struct record_view view;

    for (; record_parse(data, len, 0, &view); data += view.whole_len, len -= view.whole_len) {
        if (view.epoch == 0) {
            shake->next_plain =
                view.number + 1 > shake->next_plain ? view.number + 1 : shake->next_plain;
        }
        if (session->listener->crypto == NULL) {
            continue;
        }
        if (view.epoch != 0) {
            note_protected(session, &view);
        } else if (SSL_session_reused(shake->ssl) == 0) {
            flight_add(shake, view.type, 0, view.payload, view.payload_len);
        }
    }
}

/* ---- the last flight ---- */

void own_free_flight(struct dtls_flight *flight)
{
    if (flight != NULL) {
        OPENSSL_cleanse(flight, sizeof *flight + flight->len);
        free(flight);
    }
}

void own_drop_flight(struct dtls_session *session)
{
    struct dtls_flight *flight = session->flight;

    if (flight == NULL) {
        return;
    }
    timer_cancel(&session->listener->wheel, &flight->timer);
    if (flight->is_slot) {
        slab_give(&session->listener->flights, flight); /* which wipes it */
    } else {
        own_free_flight(flight);
    }
    session->flight = NULL;
}

static void on_flight_timer(void *context, struct timer *timer, uint64_t now_ms)
{
    (void)context;
    (void)now_ms;
    own_drop_flight(HASH_ENTRY(timer, struct dtls_flight, timer)->session);
}

/*
 * The session has a copy of what was sent then, until it is dropped. Most are in slots: in the
 * heap, a hundred thousand that go after four minutes leave holes between what stays. Without
 * memory there is none.
 */
static struct dtls_flight *keep_flight(struct dtls_session *session, const uint8_t *bytes,
                                       size_t len, uint64_t first_ms)
{
    struct dtls_listener *listener = session->listener;
    bool is_slot = len <= DTLS_FLIGHT_SLOT;
    struct dtls_flight *flight =
        is_slot ? slab_take(&listener->flights) : calloc(1, sizeof *flight + len);

    if (flight == NULL) {
        return NULL;
    }
    flight->session = session;
    flight->first_ms = flight->sent_ms = first_ms;
    flight->len = flight->capacity = len;
    flight->is_whole = true;
    flight->is_slot = is_slot;
    memcpy(flight->bytes, bytes, len);
    session->flight = flight;
    timer_set(&listener->wheel, &flight->timer, first_ms + DTLS_FLIGHT_MS, on_flight_timer);
    return flight;
}

void own_take_over(struct dtls_session *session)
{
    const struct dtls_shake *shake = session->shake;
    const struct dtls_flight *flight = shake->flight; /* which goes with the handshake */

    if (flight != NULL && flight->len > 0 && flight->is_whole &&
        SSL_session_reused(shake->ssl) == 0) {
        struct dtls_flight *kept =
            keep_flight(session, flight->bytes, flight->len, session->listener->now_ms);
        if (kept != NULL) {
            kept->next_plain = shake->next_plain;
        }
    }
}

void own_pack_flight(const struct dtls_session *session, struct pack *out)
{
    const struct dtls_flight *flight = session->flight;

    pack_uint(out, flight != NULL, 1);
    if (flight != NULL) {
        pack_uint(out, flight->first_ms, 8);
        pack_uint(out, flight->sent_ms, 8);
        pack_uint(out, flight->next_plain, 8);
        pack_bytes(out, flight->bytes, flight->len);
    }
}

/* Whether these are entries as flight_add() writes them: lengths are believed afterwards. */
static bool flight_is_sound(const uint8_t *bytes, size_t len)
{
    while (len >= FLIGHT_HEADER) {
        size_t entry = FLIGHT_HEADER + ((size_t)bytes[2] << 8 | bytes[3]);
        if (entry > len) {
            return false;
        }
        bytes += entry;
        len -= entry;
    }
    return len == 0;
}

bool own_unpack_flight(struct dtls_session *session, struct unpack *in, int64_t shift_ms)
{
    if (unpack_uint(in, 1) == 0) {
        return !in->has_failed;
    }
    uint64_t first_ms = unpack_uint(in, 8), sent_ms = unpack_uint(in, 8);
    uint64_t next_plain = unpack_uint(in, 8);
    first_ms += (uint64_t)shift_ms;
    sent_ms += (uint64_t)shift_ms;
    size_t len = 0;
    const uint8_t *bytes = unpack_bytes(in, &len);
    if (bytes == NULL || len > DTLS_FLIGHT_MAX || !flight_is_sound(bytes, len)) {
        return false;
    }
    struct dtls_flight *flight = keep_flight(session, bytes, len, first_ms);
    if (flight != NULL) {
        flight->sent_ms = sent_ms;
        flight->next_plain = next_plain;
    }
    return true;
}

/* A record in the clear, such as ChangeCipherSpec. @return its length; 0: no number is left */
static size_t put_plain(struct dtls_flight *flight, uint8_t type, const uint8_t *content,
                        size_t len, uint8_t *ret_record)
{
    const uint8_t header[] = {type, 0xfe, 0xfd, 0, 0};

    if (flight->next_plain >> 48 != 0) {
        return 0;
    }
    memcpy(ret_record, header, sizeof header);
    for (unsigned i = 0; i < 6; i++) {
        ret_record[5 + i] = (uint8_t)(flight->next_plain >> (8 * (5 - i)));
    }
    flight->next_plain++;
    ret_record[11] = (uint8_t)(len >> 8);
    ret_record[12] = (uint8_t)len;
    memcpy(ret_record + DTLS_RECORD_HEADER, content, len);
    return DTLS_RECORD_HEADER + len;
}

/* All of it again, in as few datagrams as the handshake had. */
static void repeat_flight(struct dtls_session *session)
{
    struct dtls_listener *listener = session->listener;
    struct dtls_flight *flight = session->flight;
    size_t used = 0;

    flight->sent_ms = listener->now_ms;
    for (size_t at = 0; at < flight->len;) {
        const uint8_t *entry = flight->bytes + at;
        const uint8_t *content = entry + FLIGHT_HEADER;
        size_t len = (size_t)entry[2] << 8 | entry[3];
        if (used > 0 && used + len + RECORD_OVERHEAD_MAX > DTLS_HANDSHAKE_MTU) {
            dtls_transmit(listener, &session->path, listener->sealed, used);
            used = 0;
        }
        used += entry[1] == 0 ? put_plain(flight, entry[0], content, len, listener->sealed + used)
                              : records_seal(listener->crypto, &session->records, entry[0], content,
                                             len, listener->sealed + used);
        at += FLIGHT_HEADER + len;
    }
    if (used > 0) {
        dtls_transmit(listener, &session->path, listener->sealed, used);
    }
}

/* ---- what comes ---- */

static bool take_alert(struct dtls_session *session, const uint8_t *alert, size_t len)
{
    if (len < 2) {
        return false;
    }
    if (alert[1] == SSL_AD_CLOSE_NOTIFY) {
        session_shut(session, "closed by the peer");
    } else if (alert[0] == SSL3_AL_FATAL) {
        session_doom(session, "alert of the peer");
    }
    return true;
}

static bool take_handshake(struct dtls_session *session, const uint8_t *message, size_t len)
{
    static const uint8_t refusal[] = {SSL3_AL_WARNING, SSL_AD_NO_RENEGOTIATION};

    if (len < HANDSHAKE_HEADER) {
        return false;
    }
    bool is_start = (message[6] | message[7] | message[8]) == 0; /* not a later fragment */
    if (message[0] == CLIENT_HELLO && is_start) {
        return own_send(session, &session->path, CONTENT_ALERT, refusal, sizeof refusal);
    }
    if (message[0] != FINISHED || !is_start || session->flight == NULL) {
        return false;
    }
    if (session->listener->now_ms - session->flight->sent_ms >= DTLS_FLIGHT_PAUSE_MS) {
        repeat_flight(session);
    }
    return true;
}

/*
 * RFC 9146 section 6: only the newest record moves its client, and only to an address where it is
 * believed to be. Until then the owner sees the new address, and the session stays at the old one.
 *
 * @return the path for the owner, borrowed
 */
static const struct udp_path *look_at_path(struct dtls_session *session, bool is_newest)
{
    const struct dtls_listener *listener = session->listener;
    const struct udp_path *from = listener->from;

    if (session->by_cid.link == NULL || !is_newest) {
        return &session->path;
    }
    if (address_equal(&from->remote, &session->path.remote) && from->via != session->path.via) {
        session_move(session, from); /* the load balancer has led the same client elsewhere */
        return &session->path;
    }
    if (address_equal(&from->remote, &session->path.remote) &&
        address_equal(&from->local, &session->path.local)) {
        return &session->path;
    }
    if (listener->handler->is_believed != NULL &&
        listener->handler->is_believed(listener->context, &from->remote)) {
        session_move(session, from);
    }
    return from;
}

static bool take_content(struct dtls_session *session, uint8_t type, size_t len, bool is_newest)
{
    struct dtls_listener *listener = session->listener;
    struct datagram datagram = {.data = listener->plaintext, .len = len};

    switch (type) {
    case CONTENT_APPLICATION_DATA:
        own_drop_flight(session); /* the client has it */
        session_touch(session);
        if (len > 0) {
            datagram.path = *look_at_path(session, is_newest);
            listener->handler->on_datagram(listener->context, session, &datagram);
        }
        return true;
    case CONTENT_ALERT:
        return take_alert(session, listener->plaintext, len);
    case CONTENT_HANDSHAKE:
        return take_handshake(session, listener->plaintext, len);
    default:
        return false;
    }
}

static bool take_record(struct dtls_session *session, const struct record_view *view)
{
    struct dtls_listener *listener = session->listener;
    uint8_t type = 0;
    size_t len = 0;

    if (view->epoch == 0) {
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
        return false;
    case RECORD_REPLAYED:
        return false;
    }
    bool is_newest = records_is_newest(&session->records, view->number);
    records_accept(&session->records, view->number);
    session_hear(session);
    return take_content(session, type, len, is_newest);
}

bool own_feed(struct dtls_session *session, const uint8_t *data, size_t len)
{
    struct record_view view;
    bool of_use = false;

    /* The owner, or a close_notify, may end the session at any record. */
    while (session->state == SESSION_ESTABLISHED &&
           record_parse(data, len, session->records.cid_len, &view)) {
        of_use |= take_record(session, &view);
        data += view.whole_len;
        len -= view.whole_len;
    }
    return of_use;
}

/* ---- what goes ---- */

bool own_send(struct dtls_session *session, const struct udp_path *path, uint8_t type,
              const uint8_t *data, size_t len)
{
    struct dtls_listener *listener = session->listener;

    if (listener->is_frozen) {
        return false;
    }
    size_t sealed_len =
        records_seal(listener->crypto, &session->records, type, data, len, listener->sealed);

    if (sealed_len == 0) {
        session_doom(session, "cannot be written to");
        return false;
    }
    dtls_transmit(listener, path, listener->sealed, sealed_len);
    return true;
}

void own_close(struct dtls_session *session)
{
    static const uint8_t close_notify[] = {SSL3_AL_WARNING, SSL_AD_CLOSE_NOTIFY};

    (void)own_send(session, &session->path, CONTENT_ALERT, close_notify, sizeof close_notify);
}
