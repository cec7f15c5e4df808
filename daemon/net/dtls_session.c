/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/dtls_internal.h"

#include "net/credentials.h"
#include "net/loop.h"

#include <openssl/err.h>
#include <string.h>

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

static bool is_at(const struct dtls_session *session, const struct udp_path *path)
{
    return address_equal(&session->path.remote, &path->remote) &&
           address_equal(&session->path.local, &path->local);
}

struct dtls_session *session_find(const struct dtls_listener *listener, const struct udp_path *path,
                                  enum session_state state)
{
    struct hash_node *node = hash_map_find(&listener->map, session_key_of(listener, path));

    for (; node != NULL; node = hash_map_find_next(node)) {
        struct dtls_session *session = HASH_ENTRY(node, struct dtls_session, node);
        bool has_id = session->state == SESSION_ESTABLISHED && session->by_cid.link != NULL;
        if (session->state == state && !has_id && is_at(session, path)) {
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
    hash_map_remove(&session->by_cid);
    if (session->shake != NULL) {
        timer_cancel(&listener->wheel, &session->shake->timer);
    }
    own_drop_flight(session);
    session->state = SESSION_DOOMED;
    session->why = why;
    list_append(&listener->doomed, session);
}

/* OpenSSL's record buffers, 34 kB, are there only between this and session_end(). */
bool session_begin(struct dtls_session *session, const uint8_t *input, size_t len,
                   struct dtls_io *ret_before)
{
    *ret_before = session->listener->io;
    dtls_io_begin(session->listener, session, &session->path, input, len);
    ERR_clear_error();
    own_begin_flight(session->shake);
    return SSL_alloc_buffers(session->shake->ssl) == 1;
}

/* Buffers that hold something still to be read stay: SSL_free_buffers() sees to it. */
void session_end(struct dtls_session *session, const struct dtls_io *before)
{
    if (session->state == SESSION_ESTABLISHED && session->shake != NULL) {
        (void)SSL_free_buffers(session->shake->ssl);
    }
    session->listener->io = *before;
}

void session_shut(struct dtls_session *session, const char *why)
{
    struct dtls_io before;

    if (session->state == SESSION_ESTABLISHED && session->shake == NULL) {
        own_close(session);
    } else if (session->state == SESSION_ESTABLISHED) {
        if (session_begin(session, NULL, 0, &before)) {
            (void)SSL_shutdown(session->shake->ssl);
        }
        session_end(session, &before);
        ERR_clear_error();
    }
    session_doom(session, why);
}

#define CREDENTIALS_GONE "credentials gone"

static bool session_still_holds(const struct dtls_session *session,
                                const struct credentials *before, const struct credentials *now)
{
    return session->shake != NULL
               ? credentials_still_hold(before, now, session->shake->ssl)
               : credentials_hold_for(before, now, session->identity, session->anchor);
}

void session_shut_strangers(struct dtls_listener *listener, const struct credentials *now)
{
    struct dtls_session *session = listener->established.first;

    while (session != NULL) {
        struct dtls_session *next = session->next; /* shutting takes it off the list */
        if (!session_still_holds(session, listener->options.credentials, now)) {
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

void dtls_close(struct dtls_session *session, const char *why)
{
    session_shut(session, why);
}

static void session_free(struct dtls_session *session)
{
    struct slab *slab = &session->listener->slab;

    shake_free(session->shake);
    identity_release(session->identity);
    slab_give(slab, session); /* which wipes the keys */
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

/* ---- time ---- */

void session_touch(struct dtls_session *session)
{
    struct dtls_listener *listener = session->listener;

    session->used_ms = listener->now_ms;
    if (listener->established.last != session) {
        session_list_remove(&listener->established, session);
        list_append(&listener->established, session);
        account_touch(&listener->session_accounts, &session->holding);
    }
}

/* Sessions that are looked at for one that is not needed. */
#define GO_TRIES 32u

/* To be ended for a newcomer: of the source that has most the oldest. */
static struct dtls_session *oldest_handshake(const struct dtls_listener *listener)
{
    struct holding *holding = account_largest(&listener->handshake_accounts);
    account_note_displaced(holding);
    return HASH_ENTRY(holding, struct dtls_session, holding);
}

/* Likewise the one idle for longest, of those that are not needed if there are some. */
static struct dtls_session *first_to_go(const struct dtls_listener *listener)
{
    const struct dtls_handler *handler = listener->handler;
    struct holding *longest = account_largest(&listener->session_accounts);
    struct holding *holding = handler->is_needed != NULL ? longest : NULL;
    for (unsigned i = 0; i < GO_TRIES && holding != NULL && holding->account == longest->account;
         i++) {
        if (!handler->is_needed(listener->context,
                                HASH_ENTRY(holding, struct dtls_session, holding))) {
            longest = holding;
            break;
        }
        holding = account_next(holding);
    }
    account_note_displaced(longest);
    return HASH_ENTRY(longest, struct dtls_session, holding);
}

/* ---- birth ---- */

static uint64_t hash_of_hello(const struct dtls_listener *listener,
                              const uint8_t client_random[DTLS_RANDOM_LEN])
{
    return hash_bytes(client_random, DTLS_RANDOM_LEN, listener->map.seed);
}

struct dtls_session *session_find_hello(const struct dtls_listener *listener,
                                        const struct udp_path *path,
                                        const uint8_t client_random[DTLS_RANDOM_LEN])
{
    struct hash_node *node = hash_map_find(&listener->map, session_key_of(listener, path));
    uint64_t hello = hash_of_hello(listener, client_random);

    for (; node != NULL; node = hash_map_find_next(node)) {
        struct dtls_session *session = HASH_ENTRY(node, struct dtls_session, node);
        if (session->hello == hello && is_at(session, path)) {
            return session;
        }
    }
    return NULL;
}

struct dtls_session *session_new(struct dtls_listener *listener, const struct udp_path *path,
                                 const uint8_t client_random[DTLS_RANDOM_LEN], SSL *ssl)
{
    struct dtls_session *session = slab_take(&listener->slab);

    if (session == NULL) {
        return NULL;
    }
    session->listener = listener;
    session->started_ms = listener->now_ms;
    session->shake = shake_new(session);
    if (session->shake == NULL) {
        slab_give(&listener->slab, session);
        return NULL;
    }
    if (listener->handshaking_count >= listener->options.handshakes_max) {
        dtls_count(&listener->counters.handshakes_evicted);
        session_doom(oldest_handshake(listener), "too many handshakes");
    }
    session->shake->ssl = ssl;
    session->state = SESSION_HANDSHAKING;
    session->path = *path;
    session->hello = hash_of_hello(listener, client_random);
    SSL_set_app_data(ssl, &session->shake->peer);
    hash_map_add(&listener->map, &session->node, session_key_of(listener, path));
    list_append(&listener->handshaking, session);
    account_charge(&listener->handshake_accounts, &session->holding, &path->remote, 1);
    listener->handshaking_count++;
    return session;
}

/* So far as can be told: both have proved the same first name. */
static bool has_same_peer(const struct dtls_session *a, const struct dtls_session *b)
{
    return a->identity->kind == b->identity->kind &&
           strcmp(a->identity->names, b->identity->names) == 0;
}

/*
 * No close_notify: the client has the new keys only (RFC 6347 section 4.2.8). One with a connection
 * id stays where another peer has come to its address.
 *
 * @return whether there was one
 */
static bool doom_replaced(const struct dtls_session *by)
{
    struct hash_node *node = hash_map_find(&by->listener->map, by->node.key);
    bool was_there = false;

    while (node != NULL) {
        struct dtls_session *session = HASH_ENTRY(node, struct dtls_session, node);
        node = hash_map_find_next(node);
        if (session != by && session->state == SESSION_ESTABLISHED && is_at(session, &by->path) &&
            (session->by_cid.link == NULL || has_same_peer(session, by))) {
            session_doom(session, "replaced by a new handshake");
            was_there = true;
        }
    }
    return was_there;
}

void session_establish(struct dtls_session *session)
{
    struct dtls_listener *listener = session->listener;

    if (!doom_replaced(session) && listener->counters.sessions >= listener->options.sessions_max) {
        dtls_count(&listener->counters.sessions_evicted);
        session_shut(first_to_go(listener), "evicted");
    }
    session_list_remove(&listener->handshaking, session);
    account_discharge(&listener->handshake_accounts, &session->holding);
    account_charge(&listener->session_accounts, &session->holding, &session->path.remote, 1);
    listener->handshaking_count--;
    list_append(&listener->established, session);
    session->state = SESSION_ESTABLISHED;
    session->was_established = true;
    session->used_ms = listener->now_ms;
    session_hear(session);
    dtls_count(&listener->counters.sessions);
    dtls_count(&listener->counters.handshakes);
    if (SSL_session_reused(session->shake->ssl) == 1) {
        dtls_count(&listener->counters.resumptions);
    }
}

struct dtls_session *session_adopt(struct dtls_listener *listener, const struct udp_path *path,
                                   const struct records *records, uint64_t cid)
{
    struct dtls_session *session = slab_take(&listener->slab);

    if (session == NULL) {
        return NULL;
    }
    session->listener = listener;
    session->path = *path;
    session->records = *records;
    session->state = SESSION_ESTABLISHED;
    session->was_established = true;
    if (records->cid_len > 0) {
        hash_map_add(&listener->cids, &session->by_cid, cid);
    }
    hash_map_add(&listener->map, &session->node, session_key_of(listener, path));
    list_append(&listener->established, session);
    account_charge(&listener->session_accounts, &session->holding, &path->remote, 1);
    dtls_count(&listener->counters.sessions);
    return session;
}

/* ---- data ---- */

/* @return whether anything came of it */
static bool read_all(struct dtls_session *session)
{
    struct dtls_listener *listener = session->listener;
    SSL *ssl = session->shake->ssl;
    bool of_use = false;

    while (session->state == SESSION_ESTABLISHED) {
        int got = SSL_read(ssl, listener->plaintext, sizeof listener->plaintext);
        if (got > 0) {
            const struct datagram datagram = {
                .data = listener->plaintext, .len = (size_t)got, .path = session->path};
            of_use = true;
            session_hear(session);
            session_touch(session);
            listener->handler->on_datagram(listener->context, session, &datagram);
            continue;
        }
        int error = SSL_get_error(ssl, got);
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

static bool session_read(struct dtls_session *session, const uint8_t *data, size_t len)
{
    struct dtls_io before;
    bool of_use = session_begin(session, data, len, &before) &&
                  (read_all(session) || session->listener->io.written > 0);

    session_end(session, &before);
    return of_use;
}

bool session_feed(struct dtls_session *session, const uint8_t *data, size_t len)
{
    if (session->state == SESSION_HANDSHAKING) {
        return shake_feed(session, data, len);
    }
    return session->shake == NULL ? own_feed(session, data, len) : session_read(session, data, len);
}

static bool write_record(struct dtls_session *session, const uint8_t *data, size_t len)
{
    struct dtls_io before;
    int sent = session_begin(session, NULL, 0, &before)
                   ? SSL_write(session->shake->ssl, data, (int)len)
                   : 0;

    session_end(session, &before);
    ERR_clear_error();
    if (sent <= 0) {
        session_doom(session, "cannot be written to"); /* such as record numbers used up */
    }
    return sent > 0;
}

void dtls_send(struct dtls_session *session, const uint8_t *data, size_t len)
{
    bool can =
        session->state == SESSION_ESTABLISHED && len > 0 && len <= dtls_session_room(session);

    if (can && (session->shake == NULL
                    ? own_send(session, &session->path, CONTENT_APPLICATION_DATA, data, len)
                    : write_record(session, data, len))) {
        session_touch(session);
    } else {
        dtls_count(&session->listener->counters.sends_dropped);
    }
}

void dtls_send_to(struct dtls_session *session, const struct udp_path *path, const uint8_t *data,
                  size_t len)
{
    if (session->state != SESSION_ESTABLISHED || session->shake != NULL || len == 0 ||
        len > dtls_session_room(session) ||
        !own_send(session, path, CONTENT_APPLICATION_DATA, data, len)) {
        dtls_count(&session->listener->counters.sends_dropped);
    }
}

/* ---- another address ---- */

void session_move(struct dtls_session *session, const struct udp_path *path)
{
    struct dtls_listener *listener = session->listener;
    const struct udp_path before = session->path;

    hash_map_remove(&session->node);
    account_discharge(&listener->session_accounts, &session->holding);
    session->path = *path;
    if (session->moves < UINT16_MAX) {
        session->moves++;
    }
    hash_map_add(&listener->map, &session->node, session_key_of(listener, path));
    account_charge(&listener->session_accounts, &session->holding, &path->remote, 1);
    dtls_count(&listener->counters.moves);
    if (listener->handler->on_move != NULL) {
        listener->handler->on_move(listener->context, session, &before);
    }
}

void dtls_believe(struct dtls_session *session, const struct udp_path *path)
{
    if (session->state == SESSION_ESTABLISHED && session->by_cid.link != NULL &&
        !is_at(session, path)) {
        session_move(session, path);
    }
}

/* ---- for the owner ---- */

bool dtls_session_is_open(const struct dtls_session *session)
{
    return session->state == SESSION_ESTABLISHED;
}

const struct udp_path *dtls_session_path(const struct dtls_session *session)
{
    return &session->path;
}

struct identity *dtls_session_identity(const struct dtls_session *session)
{
    return session->identity;
}

size_t dtls_session_overhead(const struct dtls_session *session)
{
    size_t cid_len = session->records.peer_cid_len;

    return DTLS_RECORD_OVERHEAD + (cid_len > 0 ? cid_len + 1 : 0); /* the type is inside then */
}

size_t dtls_session_room(const struct dtls_session *session)
{
    return records_room(&session->records);
}

struct dtls_session_view dtls_session_look(const struct dtls_session *session)
{
    uint64_t now_ms = loop_now_ms(session->listener->loop);
    uint64_t age_ms = now_ms - session->started_ms;
    uint64_t heard_ms = now_ms - (uint64_t)session->heard_s * 1000;
    struct dtls_session_view view = {
        .suite = session->shake == NULL ? records_suite_name(&session->records)
                                        : SSL_get_cipher_name(session->shake->ssl),
        .cid_len = session->records.cid_len,
        .age_ms = age_ms,
        .heard_ms = heard_ms < age_ms ? heard_ms : age_ms, /* it is kept in whole seconds */
        .moves = session->moves,
    };

    for (unsigned i = 0; i < view.cid_len; i++) {
        view.cid[i] = (uint8_t)(session->by_cid.key >> (8 * (view.cid_len - 1 - i)));
    }
    return view;
}

struct dtls_session *dtls_next(const struct dtls_listener *listener, uint64_t *cursor)
{
    struct hash_node *node = NULL;

    while ((node = hash_map_walk(&listener->map, cursor)) != NULL) {
        struct dtls_session *session = HASH_ENTRY(node, struct dtls_session, node);
        if (session->state == SESSION_ESTABLISHED) {
            return session;
        }
    }
    return NULL;
}
