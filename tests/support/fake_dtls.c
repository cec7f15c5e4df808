/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/fake_dtls.h"

#include "support/test.h"

#include "support/fake_net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUEUE_MAX 256
#define DATAGRAM_MAX 2048

struct dtls_session {
    struct dtls_listener *listener;
    struct dtls_session *next;
    struct udp_path path;
    struct identity *identity;
    bool is_open, is_closing;
    size_t room;
    size_t head, count;
    size_t len[QUEUE_MAX];
    struct address sent_to[QUEUE_MAX], taken_at; /* what fake_dtls_take() gave last */
    uint64_t sent_ms[QUEUE_MAX], taken_ms;       /* likewise */
    uint8_t data[QUEUE_MAX][DATAGRAM_MAX];
};

struct dtls_listener {
    struct dtls_options options;
    const struct dtls_handler *handler;
    void *context;
    struct dtls_counters counters;
};

/* In the order in which they were made; NULL: closed. */
#define LISTENERS_MAX 8
static struct dtls_listener *made[LISTENERS_MAX];
static unsigned made_count;
static struct dtls_session *sessions;

int dtls_listen(struct loop *loop, const struct dtls_options *options,
                const struct dtls_handler *handler, void *context,
                struct dtls_listener **ret_listener)
{
    (void)loop;
    assert_true(made_count < LISTENERS_MAX);
    struct dtls_listener *listener = calloc(1, sizeof(*listener));
    assert_non_null(listener);
    listener->options = *options;
    listener->handler = handler;
    listener->context = context;
    made[made_count++] = listener;
    *ret_listener = listener;
    return 0;
}

static void end(struct dtls_session *session)
{
    if (session->is_open) {
        session->is_open = false;
        session->listener->handler->on_close(session->listener->context, session, "closed");
    }
}

void dtls_close_listener(struct dtls_listener *listener)
{
    if (listener == NULL) {
        return;
    }
    for (struct dtls_session *session = sessions; session != NULL; session = session->next) {
        if (session->listener == listener) {
            end(session);
        }
    }
    for (unsigned i = 0; i < made_count; i++) {
        made[i] = made[i] == listener ? NULL : made[i];
    }
    while (made_count > 0 && made[made_count - 1] == NULL) {
        made_count--;
    }
    free(listener);
}

void dtls_set_credentials(struct dtls_listener *listener, struct credentials *credentials)
{
    listener->options.credentials = credentials;
}

uint32_t dtls_close_matching(struct dtls_listener *listener, peer_match_fn *is_match,
                             const void *context, const char *why)
{
    uint32_t count = 0;
    (void)why;
    for (struct dtls_session *session = sessions; session != NULL; session = session->next) {
        if (session->listener == listener && session->is_open && !session->is_closing &&
            is_match(context, &session->path.remote, session->identity)) {
            session->is_closing = true;
            count++;
        }
    }
    return count;
}

void dtls_close(struct dtls_session *session, const char *why)
{
    (void)why;
    session->is_closing = true;
}

/* Whether a record with @p len bytes in it fits the listener's datagrams; 0: any does. */
static bool fits(const struct dtls_session *session, size_t len)
{
    uint32_t most = session->listener->options.udp.datagram_max;
    return most == 0 || len + DTLS_RECORD_OVERHEAD <= most;
}

void dtls_send(struct dtls_session *session, const uint8_t *data, size_t len)
{
    assert_true(fits(session, len) && len <= session->room);
    assert_true(session->is_open);
    assert_true(session->count < QUEUE_MAX && len <= DATAGRAM_MAX);
    size_t at = (session->head + session->count++) % QUEUE_MAX;
    memcpy(session->data[at], data, len);
    session->len[at] = len;
    session->sent_to[at] = session->path.remote;
    session->sent_ms[at] = fake_net_now_ms();
}

/* As dtls_send(): a test sees where it went by fake_dtls_sent_to(). */
void dtls_send_to(struct dtls_session *session, const struct udp_path *path, const uint8_t *data,
                  size_t len)
{
    dtls_send(session, data, len);
    session->sent_to[(session->head + session->count - 1) % QUEUE_MAX] = path->remote;
}

void dtls_believe(struct dtls_session *session, const struct udp_path *path)
{
    const struct udp_path before = session->path;
    session->path = *path;
    session->listener->handler->on_move(session->listener->context, session, &before);
}

bool dtls_session_is_open(const struct dtls_session *session)
{
    return session->is_open && !session->is_closing;
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
    (void)session;
    return DTLS_RECORD_OVERHEAD;
}

size_t dtls_session_room(const struct dtls_session *session)
{
    return session->room;
}

struct dtls_session_view dtls_session_look(const struct dtls_session *session)
{
    (void)session;
    return (struct dtls_session_view){.suite = "none"};
}

struct dtls_session *dtls_next(const struct dtls_listener *listener, uint64_t *cursor)
{
    struct dtls_session *session = sessions;
    for (uint64_t i = 0;
         session != NULL && (i < *cursor || !session->is_open || session->listener != listener);
         i++) {
        session = session->next;
        *cursor += i == *cursor;
    }
    *cursor += session != NULL;
    return session;
}

void dtls_hold(struct dtls_listener *listener, bool is_held)
{
    (void)listener, (void)is_held;
}

void dtls_count_shares(const struct dtls_listener *listener, uint32_t *counts)
{
    (void)listener, (void)counts;
}

void dtls_hand_over(struct dtls_listener *listener, const struct dtls_gift *gift, struct pack *out)
{
    (void)listener, (void)gift, (void)out;
}

void dtls_thaw(struct dtls_listener *listener)
{
    (void)listener;
}

uint32_t dtls_forget(struct dtls_listener *listener, const struct dtls_gift *gift)
{
    (void)listener, (void)gift;
    return 0;
}

bool dtls_take_over(struct dtls_listener *listener, struct unpack *in,
                    const struct dtls_taking *how)
{
    (void)how;
    (void)listener, (void)in;
    return true;
}

const struct address *dtls_local(const struct dtls_listener *listener)
{
    return &listener->options.udp.bind;
}

const struct account_book *dtls_session_accounts(const struct dtls_listener *listener)
{
    (void)listener;
    return NULL;
}

const struct account_book *dtls_handshake_accounts(const struct dtls_listener *listener)
{
    (void)listener;
    return NULL;
}

const struct dtls_counters *dtls_counters(const struct dtls_listener *listener)
{
    return &listener->counters;
}

uint64_t dtls_turn(struct dtls_listener *listener, uint64_t now_ms)
{
    (void)now_ms;
    for (struct dtls_session *session = sessions; session != NULL; session = session->next) {
        if (session->is_closing && session->listener == listener) {
            end(session);
        }
    }
    return UINT64_MAX;
}

void dtls_flush(struct dtls_listener *listener)
{
    (void)listener;
}

/* --- the test's side ---------------------------------------------------- */

static struct dtls_session *new_session(void)
{
    struct dtls_session *session = calloc(1, sizeof(*session));
    assert_non_null(session);
    session->identity = identity_new(IDENTITY_NONE, 0, NULL);
    assert_non_null(session->identity);
    session->room = DTLS_DATAGRAM_MAX;
    return session;
}

void fake_dtls_set_room(struct dtls_session *session, size_t bytes)
{
    session->room = bytes;
}

void fake_dtls_identify(struct dtls_session *session, const char *psk_identity,
                        const char *server_name)
{
    const unsigned char *bytes = (const unsigned char *)psk_identity;
    size_t len = strlen(psk_identity);
    identity_release(session->identity);
    session->identity = identity_new(IDENTITY_PSK, identity_name_bytes(bytes, len), server_name);
    assert_non_null(session->identity);
    identity_add_name(session->identity, bytes, len);
}

void fake_dtls_certify(struct dtls_session *session, const char *name)
{
    size_t len = name != NULL ? strlen(name) : 0;
    identity_release(session->identity);
    const unsigned char *bytes = (const unsigned char *)(name != NULL ? name : "");
    session->identity = identity_new(IDENTITY_CERTIFICATE, identity_name_bytes(bytes, len), NULL);
    assert_non_null(session->identity);
    if (name != NULL) {
        identity_add_name(session->identity, bytes, len);
    }
}

void fake_dtls_establish(struct dtls_session *session)
{
    if (session->listener->handler->on_open != NULL) {
        session->listener->handler->on_open(session->listener->context, session);
    }
    fake_net_run(0);
}

struct dtls_session *fake_dtls_open(const char *from)
{
    return fake_dtls_open_at(0, from);
}

struct dtls_session *fake_dtls_open_at(unsigned number, const char *from)
{
    struct dtls_session *session = new_session();
    assert_true(number < made_count && made[number] != NULL);
    session->listener = made[number];
    session->path.local = session->listener->options.udp.bind;
    session->is_open = true;
    assert_true(address_parse(from, strlen(from), 0, &session->path.remote));
    for (struct dtls_session *older = sessions; older != NULL; older = older->next) {
        if (address_equal(&older->path.remote, &session->path.remote)) {
            fake_dtls_close(older);
        }
    }
    session->next = sessions;
    sessions = session;
    return session;
}

struct dtls_session *fake_dtls_replace(struct dtls_session *older)
{
    struct dtls_session *session = new_session();
    session->listener = older->listener;
    session->path = older->path;
    session->is_open = true;
    session->next = sessions;
    sessions = session;
    older->is_closing = true;
    return session;
}

void fake_dtls_close(struct dtls_session *session)
{
    session->is_closing = true;
    fake_net_run(0);
}

void fake_dtls_send(struct dtls_session *session, const char *hex)
{
    uint8_t data[DATAGRAM_MAX];
    struct datagram datagram = {.data = data, .path = session->path};
    datagram.len = test_hex(hex, data, sizeof(data));
    if (!fits(session, datagram.len)) {
        return; /* cut, and so no record of the session */
    }
    session->listener->handler->on_datagram(session->listener->context, session, &datagram);
    fake_net_run(0);
}

void fake_dtls_send_from(struct dtls_session *session, const char *from, const char *hex)
{
    uint8_t data[DATAGRAM_MAX];
    struct datagram datagram = {.data = data, .path = session->path};
    const struct dtls_listener *listener = session->listener;
    datagram.len = test_hex(hex, data, sizeof(data));
    assert_true(address_parse(from, strlen(from), 0, &datagram.path.remote));
    if (listener->handler->is_believed(listener->context, &datagram.path.remote)) {
        dtls_believe(session, &datagram.path);
    }
    listener->handler->on_datagram(listener->context, session, &datagram);
    fake_net_run(0);
}

void fake_dtls_expect_to(struct dtls_session *session, const char *to, const char *pattern)
{
    struct address address;
    fake_net_run(0);
    assert_true(address_parse(to, strlen(to), 0, &address));
    assert_true(session->count > 0);
    assert_true(address_equal(&session->sent_to[session->head], &address));
    fake_dtls_expect(session, pattern);
}

bool fake_dtls_is_open(const struct dtls_session *session)
{
    return session->is_open && !session->is_closing;
}

bool fake_dtls_take(struct dtls_session *session, uint8_t *buffer, size_t capacity, size_t *ret_len)
{
    if (session->count == 0) {
        return false;
    }
    size_t len = session->len[session->head];
    assert_true(len <= capacity);
    memcpy(buffer, session->data[session->head], len);
    session->taken_at = session->sent_to[session->head];
    session->taken_ms = session->sent_ms[session->head];
    session->head = (session->head + 1) % QUEUE_MAX;
    session->count--;
    *ret_len = len;
    return true;
}

uint64_t fake_dtls_taken_ms(const struct dtls_session *session)
{
    return session->taken_ms;
}

bool fake_dtls_is_needed(const struct dtls_session *session)
{
    const struct dtls_listener *listener = session->listener;
    return listener->handler->is_needed(listener->context, session);
}

bool fake_dtls_was_at(const struct dtls_session *session, const char *at)
{
    struct address address;
    return address_parse(at, strlen(at), 0, &address) &&
           address_equal(&session->taken_at, &address);
}

void fake_dtls_expect(struct dtls_session *session, const char *pattern)
{
    char got[2 * DATAGRAM_MAX + 1] = "", want[2 * DATAGRAM_MAX + 1];
    size_t want_len = 0;
    fake_net_run(0);
    for (const char *at = pattern; *at != '\0'; at++) {
        if (*at != ' ') {
            want[want_len++] = *at;
        }
    }
    want[want_len] = '\0';
    if (session->count == 0) {
        fail_msg("nothing came, not %s", want);
    }
    for (size_t i = 0; i < session->len[session->head]; i++) {
        (void)snprintf(got + 2 * i, 3, "%02x", session->data[session->head][i]);
    }
    session->head = (session->head + 1) % QUEUE_MAX;
    session->count--;
    for (size_t i = 0; i <= want_len; i++) {
        if (want[i] != got[i] && want[i] != '?') {
            fail_msg("%s came, not %s", got, want);
        }
    }
}

void fake_dtls_expect_nothing(struct dtls_session *session)
{
    fake_net_run(0);
    assert_int_equal(session->count, 0);
}

void fake_dtls_free(void)
{
    while (sessions != NULL) {
        struct dtls_session *session = sessions;
        sessions = session->next;
        identity_release(session->identity);
        free(session);
    }
}

/* There are no other replicas. */
bool dtls_has_id_of(const struct dtls_listener *listener, const uint8_t *data, size_t len)
{
    (void)listener;
    (void)data;
    (void)len;
    return false;
}

void dtls_take_passed(struct dtls_listener *listener, const struct datagram *datagram)
{
    (void)listener;
    (void)datagram;
    fail();
}

void dtls_send_passed(struct dtls_listener *listener, const struct udp_path *path,
                      const uint8_t *data, size_t len)
{
    (void)listener;
    (void)path;
    (void)data;
    (void)len;
    fail();
}
