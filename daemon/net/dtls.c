/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The listener: it finds the session of a datagram.
 *
 * A ClientHello goes to one SSL that is there for all newcomers. DTLSv1_listen()
 * answers those without a valid cookie and forgets them; at the first valid one
 * that SSL becomes the client's, and a fresh one takes its place. Everything else
 * goes to the sessions of its path, or nowhere.
 *
 * DTLSv1_listen() wants a ClientHello in one record: the fragments of a longer one would have to be
 * kept, for any sender, until they are complete.
 */
#include "net/cookie.h"

#include "net/credentials.h"
#include "net/dtls_internal.h"
#include "net/entropy.h"
#include "net/loop.h"
#include "net/reserve.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>

/* ---- the cookie that a client has to bring back (RFC 6347 section 4.2.1) ---- */

static struct dtls_listener *listener_of(const SSL *ssl)
{
    return dtls_listener_of(BIO_get_data(SSL_get_rbio(ssl)));
}

int dtls_on_cookie_generate(SSL *ssl, unsigned char *cookie, unsigned *ret_len)
{
    struct dtls_listener *listener = listener_of(ssl);
    uint8_t whole[COOKIE_LEN];
    if (!cookie_make(listener->cookies, listener->now_ms, listener->io.path, whole)) {
        return 0;
    }
    memcpy(cookie, whole, DTLS_COOKIE_LEN);
    *ret_len = DTLS_COOKIE_LEN;
    return 1;
}

int dtls_on_cookie_verify(SSL *ssl, const unsigned char *cookie, unsigned len)
{
    struct dtls_listener *listener = listener_of(ssl);
    return len == DTLS_COOKIE_LEN &&
           cookie_is_good(listener->cookies, listener->now_ms, listener->io.path, cookie, len);
}

/* ---- connection ids (RFC 9146), for an OpenSSL that has none ---- */

/*
 * The extension is one of ours. During the
 * handshake OpenSSL sees records without ids: the client's Finished is opened and sealed again
 * without one, and OpenSSL's own Finished, which never leaves as it is, with the client's id and
 * under a number of ours, DTLS_CID_GAP above OpenSSL's.
 *
 * Our ids are random, of one length for each listener, and their first byte is the worker's, so
 * that the kernel can give a datagram to the worker that has the session (udp_steer()). Where there
 * are replicas the next two are the tag of the one that gave the id: DTLS_CID_TAG_AT.
 */

#define TRIES 16u /* to find an id that no other session has */

static struct dtls_session *session_of_ssl(const SSL *ssl)
{
    struct tls_peer *peer = SSL_get_app_data(ssl);

    return peer == NULL ? NULL : HASH_ENTRY(peer, struct dtls_shake, peer)->session;
}

void dtls_transmit(struct dtls_listener *listener, const struct udp_path *path, const uint8_t *data,
                   size_t len)
{
    if (path->via == 0) {
        udp_send(listener->socket, path, data, len);
    } else if (listener->options.passing != NULL) {
        listener->options.passing->answer(listener->options.passing_context, path, data, len);
    }
}

/* @return the session of the first record of type tls12_cid in the datagram; NULL: there is none
 */
static struct dtls_session *cid_find(const struct dtls_listener *listener, const uint8_t *data,
                                     size_t len)
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
    struct hash_node *node = hash_map_find(&listener->cids, dtls_cid_key(view.cid, cid_len));
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
        if (dtls_has_tags(listener)) {
            uint16_t tag = listener->options.passing->tag(listener->options.passing_context);
            ret_cid[DTLS_CID_TAG_AT] = (uint8_t)(tag >> 8);
            ret_cid[DTLS_CID_TAG_AT + 1] = (uint8_t)tag;
        }
        uint64_t key = dtls_cid_key(ret_cid, len);
        if (hash_map_find(&listener->cids, key) == NULL) {
            hash_map_add(&listener->cids, &session->by_cid, key);
            return true;
        }
    }
    return false;
}

static struct records *note_cid_of_client_in(const SSL *ssl)
{
    struct dtls_session *session = session_of_ssl(ssl);
    bool is_used = session != NULL && session->listener->options.cid_bytes > 0 &&
                   session->listener->crypto != NULL;

    return is_used ? &session->records : NULL;
}

/* Called where the client has offered. */
static const uint8_t *cid_for_client(const SSL *ssl)
{
    struct dtls_session *session = session_of_ssl(ssl);

    if (session == NULL || !session->records.has_cid) {
        return NULL;
    }
    uint8_t *extension = session->shake->cid_extension;
    uint8_t len = session->listener->options.cid_bytes;
    if (session->by_cid.link == NULL && !take_cid(session, extension + 1)) {
        session->records.has_cid = false;
        session->records.peer_cid_len = 0;
        return NULL;
    }
    session->records.cid_len = len;
    extension[0] = len;
    return extension;
}

const struct cid_extension dtls_cid_extension = {note_cid_of_client_in, cid_for_client};

/* ---- records of the handshake ---- */

static void cid_send(struct dtls_session *session, const uint8_t *data, size_t len)
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
        dtls_transmit(listener, &session->path, out, used);
    }
}

#define VERSION_MAJOR 0xfe
#define CLIENT_HELLO 1

/* Record and handshake header, then client_version, then the random (RFC 6347 section 4.2). */
#define HELLO_TYPE_AT DTLS_RECORD_HEADER
#define HELLO_RANDOM_AT (DTLS_RECORD_HEADER + 12u + 2u)

static void advance_clock(struct dtls_listener *listener, uint64_t now_ms)
{
    if (now_ms > listener->now_ms) {
        listener->now_ms = now_ms;
    }
}

/* ---- one BIO for all sessions ---- */

/* Queues a datagram to the current peer. */
static bool dtls_io_put(struct dtls_pipe *pipe, const uint8_t *data, size_t len)
{
    struct dtls_listener *listener = dtls_listener_of(pipe);
    struct dtls_session *session = listener->io.session;
    bool is_handshake = session != NULL && session->state == SESSION_HANDSHAKING;

    if (listener->io.path == NULL) {
        return false;
    }
    if (is_handshake) {
        own_note_sent(session, data, len);
    }
    if (is_handshake && session->records.peer_cid_len > 0) {
        cid_send(session, data, len);
    } else {
        dtls_transmit(listener, listener->io.path, data, len);
    }
    listener->io.written++;
    return true;
}

void dtls_io_begin(struct dtls_listener *listener, struct dtls_session *session,
                   const struct udp_path *path, const uint8_t *input, size_t input_len)
{
    listener->io = (struct dtls_io){
        .pipe = {.input = input,
                 .input_len = input_len,
                 .mtu = DTLS_HANDSHAKE_MTU,
                 .put = dtls_io_put},
        .path = path,
        .session = session,
    };
}

/* ---- newcomers ---- */

static int make_newcomer(struct dtls_listener *listener)
{
    SSL *ssl = reserve_is_low() ? NULL : SSL_new(credentials_dtls(listener->options.credentials));

    if (ssl == NULL) {
        ERR_clear_error();
        return -ENOMEM;
    }
    (void)BIO_up_ref(listener->bio);
    SSL_set_bio(ssl, listener->bio, listener->bio);
    SSL_set_accept_state(ssl);
    (void)SSL_set_mtu(ssl, DTLS_HANDSHAKE_MTU);
    listener->newcomer = ssl;
    return 0;
}

static void take_newcomer(struct dtls_listener *listener, const struct datagram *datagram)
{
    struct dtls_session *pending = session_find(listener, &datagram->path, SESSION_HANDSHAKING);
    /* Before 3.2 DTLSv1_listen() leaves the ClientHello to be read again. */
    size_t left = listener->io.pipe.input == NULL ? 0 : listener->io.pipe.input_len;
    const uint8_t *data = datagram->data;

    /* The client sends its ClientHello again, a second later at first (RFC 6347 section 4.2.4.1).
     */
    if (!rate_has(&listener->begun, listener->options.handshakes_per_s, listener->now_ms)) {
        dtls_count(&listener->counters.handshakes_put_off);
        (void)SSL_clear(listener->newcomer);
        return;
    }
    rate_take(&listener->begun);
    if (pending != NULL) {
        session_doom(pending, "started again");
    }
    struct dtls_session *session =
        session_new(listener, &datagram->path, data + HELLO_RANDOM_AT, listener->newcomer);
    if (session == NULL) {
        (void)SSL_clear(listener->newcomer);
        return;
    }
    listener->newcomer = NULL;
    (void)make_newcomer(listener); /* where that fails, the next ClientHello tries again */
    (void)session_feed(session, left > 0 ? data : NULL, left);
}

static void on_newcomer(struct dtls_listener *listener, const struct datagram *datagram)
{
    if (listener->newcomer == NULL && make_newcomer(listener) != 0) {
        dtls_count(&listener->counters.records_dropped);
        return;
    }
    /* The ClientHello alone: from 3.2 on OpenSSL would keep what is behind it, unseen by us. */
    struct record_view hello;
    if (!record_parse(datagram->data, datagram->len, 0, &hello)) {
        dtls_count(&listener->counters.records_dropped);
        return;
    }
    dtls_io_begin(listener, NULL, &datagram->path, datagram->data, hello.whole_len);
    ERR_clear_error();
    int result = DTLSv1_listen(listener->newcomer, listener->no_address);
    ERR_clear_error();
    if (result == 1) {
        take_newcomer(listener, datagram);
    } else if (listener->io.written > 0) {
        dtls_count(&listener->counters.hellos_without_cookie);
    } else {
        dtls_count(&listener->counters.records_dropped);
    }
    dtls_io_begin(listener, NULL, NULL, NULL, 0);
}

/* ---- datagrams ---- */

static bool is_client_hello(const uint8_t *data, size_t len)
{
    return len >= HELLO_RANDOM_AT + DTLS_RANDOM_LEN && data[0] == CONTENT_HANDSHAKE &&
           (data[3] | data[4]) == 0 && data[HELLO_TYPE_AT] == CLIENT_HELLO;
}

/*
 * A retransmission: the same ClientHello but perhaps for the cookie. Later than a
 * handshake may take it is a client whose random numbers are always the same.
 */
static bool is_repeated_hello(const struct dtls_listener *listener, const struct datagram *hello)
{
    const struct dtls_session *session =
        session_find_hello(listener, &hello->path, hello->data + HELLO_RANDOM_AT);

    return session != NULL &&
           listener->now_ms - session->started_ms < listener->options.handshake_ms;
}

/* Once: what another replica has passed on stays here. @return whether a replica gets it */
static bool pass_on(struct dtls_listener *listener, const struct datagram *datagram)
{
    const struct dtls_passing *passing = listener->options.passing;
    struct record_view view;

    return dtls_has_tags(listener) && !listener->is_passed &&
           record_parse(datagram->data, datagram->len, DTLS_CID_MAX, &view) &&
           passing->pass(listener->options.passing_context, listener->options.number, view.cid,
                         datagram);
}

static void on_datagram(void *context, struct udp_socket *socket, const struct datagram *datagram)
{
    struct dtls_listener *listener = context;
    const uint8_t *data = datagram->data;
    size_t len = datagram->len;
    (void)socket;

    advance_clock(listener, loop_now_ms(listener->loop));
    if (listener->is_frozen) {
        return;
    }
    /* RFC 7252 section 8.1: nothing secure is multicast. */
    if (len < DTLS_RECORD_HEADER || data[1] != VERSION_MAJOR || datagram->truncated ||
        address_is_multicast(&datagram->path.local)) {
        dtls_count(&listener->counters.records_dropped);
        return;
    }
    /* Mostly no handshake is in progress, and then there is no need to search. */
    struct dtls_session *pending =
        listener->handshaking_count > 0
            ? session_find(listener, &datagram->path, SESSION_HANDSHAKING)
            : NULL;
    struct dtls_session *current = session_find(listener, &datagram->path, SESSION_ESTABLISHED);
    listener->from = &datagram->path;
    if (is_client_hello(data, len) && !is_repeated_hello(listener, datagram)) {
        on_newcomer(listener, datagram);
        return;
    }
    /*
     * While a new handshake goes on beside a session, a record without encryption
     * is of the handshake. An encrypted one may be of either, and whose it is not
     * cannot decrypt it.
     */
    bool is_plain = (data[3] | data[4]) == 0;
    bool of_use = false;
    listener->unopened = 0;
    struct dtls_session *named = cid_find(listener, data, len);
    if (named != NULL || data[0] == CONTENT_CID) {
        current = named;
        pending = NULL;
        is_plain = false;
    }
    if (current != NULL && (pending == NULL || !is_plain)) {
        of_use = session_feed(current, data, len);
    }
    if (pending != NULL && !of_use) {
        of_use = session_feed(pending, data, len);
    }
    if (!of_use && named == NULL && data[0] == CONTENT_CID && pass_on(listener, datagram)) {
        return;
    }
    if (!of_use) {
        dtls_count(&listener->counters.records_dropped);
        if (listener->unopened > 0) {
            dtls_count(&listener->counters.records_unopened);
        }
    }
}

bool dtls_has_id_of(const struct dtls_listener *listener, const uint8_t *data, size_t len)
{
    struct record_view view;

    return dtls_has_tags(listener) && record_parse(data, len, DTLS_CID_MAX, &view) &&
           view.type == CONTENT_CID &&
           hash_map_find(&listener->cids, dtls_cid_key(view.cid, DTLS_CID_MAX)) != NULL;
}

void dtls_take_passed(struct dtls_listener *listener, const struct datagram *datagram)
{
    listener->is_passed = true;
    on_datagram(listener, NULL, datagram);
    listener->is_passed = false;
}

void dtls_send_passed(struct dtls_listener *listener, const struct udp_path *path,
                      const uint8_t *data, size_t len)
{
    const struct udp_path here = {.remote = path->remote, .local = path->local};

    udp_send(listener->socket, &here, data, len);
}

/* ---- the listener ---- */

static int init_accounts(struct dtls_listener *listener, uint64_t seed)
{
    const struct dtls_options *options = &listener->options;
    uint32_t bits = options->ipv6_bits != 0 ? options->ipv6_bits : ACCOUNT_IPV6_BITS;
    int error = account_book_init(&listener->handshake_accounts, options->handshakes_max,
                                  options->handshakes_max, bits, seed);

    return error != 0 ? error
                      : account_book_init(&listener->session_accounts, options->sessions_max,
                                          options->sessions_max, bits, seed);
}

/* For the credentials that @p listener has. @return 0 or -ENOMEM */
static int make_cookies(const struct dtls_listener *listener, struct cookies **ret_cookies)
{
    return cookies_new(listener->loop, listener->now_ms,
                       credentials_cookie_secret(listener->options.credentials), "cookies",
                       ret_cookies);
}

static int init(struct dtls_listener *listener, struct loop *loop)
{
    /* ICMP errors can be forged by a host that knows the addresses, so they end no session; one
     * that is really gone ends by its time-out. */
    static const struct udp_handler udp_handler = {.on_datagram = on_datagram, .on_error = NULL};
    size_t capacity = (size_t)listener->options.sessions_max + listener->options.handshakes_max;
    struct entropy *entropy = malloc(sizeof *entropy); /* 4 kB: not for the stack of a worker */

    if (entropy == NULL) {
        return -ENOMEM;
    }
    entropy_init(entropy);
    uint64_t seed = entropy_u64(entropy);
    free(entropy);
    int error = hash_map_init(&listener->map, capacity, seed);
    if (error == 0 && listener->options.cid_bytes > 0) {
        error = hash_map_init(&listener->cids, capacity, seed);
    }
    if (error == 0) {
        error = init_accounts(listener, seed);
    }
    if (error == 0) {
        error = make_cookies(listener, &listener->cookies);
    }
    if (error == 0) {
        dtls_io_begin(listener, NULL, NULL, NULL, 0);
        listener->bio = dtls_bio_new(&listener->io.pipe);
        error = listener->bio == NULL ? -ENOMEM : 0;
    }
    if (error != 0) {
        return error;
    }
    slab_init(&listener->slab, sizeof(struct dtls_session));
    slab_init(&listener->flights, sizeof(struct dtls_flight) + DTLS_FLIGHT_SLOT);
    if (!listener->options.has_openssl_records) {
        listener->crypto = record_crypto_new();
    }
    listener->no_address = BIO_ADDR_new();
    if (listener->no_address == NULL || make_newcomer(listener) != 0) {
        return -ENOMEM;
    }
    error = udp_open(loop, &listener->options.udp, &udp_handler, listener, &listener->socket);
    if (error == 0 && listener->options.cid_bytes > 1) {
        udp_steer(listener->socket, CONTENT_CID, CID_AT);
    }
    return error;
}

int dtls_listen(struct loop *loop, const struct dtls_options *options,
                const struct dtls_handler *handler, void *context,
                struct dtls_listener **ret_listener)
{
    struct dtls_listener *listener = calloc(1, sizeof *listener);

    if (listener == NULL) {
        return -ENOMEM;
    }
    listener->loop = loop;
    listener->options = *options;
    listener->handler = handler;
    listener->context = context;
    listener->now_ms = loop_now_ms(loop);
    (void)credentials_acquire(options->credentials);
    timer_wheel_init(&listener->wheel, listener->now_ms, listener);
    int error = init(listener, loop);
    if (error != 0) {
        dtls_close_listener(listener);
        return error;
    }
    *ret_listener = listener;
    return 0;
}

void dtls_close_listener(struct dtls_listener *listener)
{
    if (listener == NULL) {
        return;
    }
    while (listener->handshaking.first != NULL) {
        session_doom(listener->handshaking.first, "shutdown");
    }
    while (listener->established.first != NULL) {
        session_shut(listener->established.first, "shutdown");
    }
    session_free_doomed(listener);
    udp_close(listener->socket);
    SSL_free(listener->newcomer);
    BIO_ADDR_free(listener->no_address);
    BIO_free(listener->bio);
    cookies_free(listener->cookies);
    record_crypto_free(listener->crypto);
    hash_map_clear(&listener->map);
    hash_map_clear(&listener->cids);
    account_book_clear(&listener->handshake_accounts);
    account_book_clear(&listener->session_accounts);
    credentials_release(listener->options.credentials);
    OPENSSL_cleanse(listener->plaintext, sizeof listener->plaintext);
    free(listener);
}

void dtls_set_credentials(struct dtls_listener *listener, struct credentials *credentials)
{
    struct bytes before = credentials_cookie_secret(listener->options.credentials);
    bool has_other_cookies = !bytes_equal(before, credentials_cookie_secret(credentials));
    struct cookies *cookies = NULL;

    (void)credentials_acquire(credentials);
    SSL_free(listener->newcomer);
    listener->newcomer = NULL;
    session_shut_strangers(listener, credentials);
    credentials_release(listener->options.credentials);
    listener->options.credentials = credentials;
    if (has_other_cookies && make_cookies(listener, &cookies) == 0) {
        cookies_free(listener->cookies);
        listener->cookies = cookies;
    }
    (void)make_newcomer(listener); /* or at the next ClientHello */
}

/* Sessions idle for too long are ended. @return when the next one will be, or UINT64_MAX */
static uint64_t session_end_idle(struct dtls_listener *listener)
{
    uint64_t idle_ms = listener->options.idle_ms;

    while (idle_ms != 0 && listener->established.first != NULL) {
        struct dtls_session *session = listener->established.first;
        if (listener->now_ms - session->used_ms < idle_ms) {
            return session->used_ms + idle_ms;
        }
        session_shut(session, "idle");
    }
    return UINT64_MAX;
}

uint64_t dtls_turn(struct dtls_listener *listener, uint64_t now_ms)
{
    advance_clock(listener, now_ms);
    timer_wheel_advance(&listener->wheel, listener->now_ms);
    uint64_t idle_ms = session_end_idle(listener);
    session_free_doomed(listener);
    uint64_t timer_ms = timer_wheel_next_ms(&listener->wheel);
    return timer_ms < idle_ms ? timer_ms : idle_ms;
}

void dtls_flush(struct dtls_listener *listener)
{
    udp_flush(listener->socket);
}

const struct address *dtls_local(const struct dtls_listener *listener)
{
    return udp_local(listener->socket);
}

const struct account_book *dtls_session_accounts(const struct dtls_listener *listener)
{
    return &listener->session_accounts;
}

const struct account_book *dtls_handshake_accounts(const struct dtls_listener *listener)
{
    return &listener->handshake_accounts;
}

const struct dtls_counters *dtls_counters(const struct dtls_listener *listener)
{
    return &listener->counters;
}
