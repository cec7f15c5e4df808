/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/scripted_sessions.h"

#include "net/reserve.h"
#include "net/shortage.h"
#include "net/udp.h"
#include "net/upstream_message.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENDS_MAX 128u
#define MESSAGES_MAX 256u
#define BYTES_MAX 256u
#define MANNERS_MAX 8u

/* A session, of either kind. */
struct stream_end {
    struct session *session; /* NULL: closed */
    bool is_mute, is_full;
    unsigned pings;
};

struct arrived {
    unsigned number;
    size_t token_len, len;
    uint8_t token[8], bytes[BYTES_MAX];
};

static struct {
    struct stream_end ends[ENDS_MAX];
    unsigned end_count;
    struct arrived messages[MESSAGES_MAX];
    size_t message_count, seen;
    struct {
        struct address address;
        bool is_any;
        enum fake_manner manner;
    } manners[MANNERS_MAX];
    size_t manner_count;
} world;

bool upstream_has(enum upstream_engine engine, enum transport transport)
{
    (void)engine;
    return transport_has_session(transport);
}

const char *upstream_version(void)
{
    return "0.0.0";
}

bool reserve_is_low(void)
{
    return false;
}

bool shortage_of_sockets(void)
{
    return false;
}

/* ---- credentials ---- */

struct upstream_credentials *
upstream_credentials_load(const struct upstream_credentials_options *options, char *ret_error,
                          size_t error_capacity)
{
    struct upstream_credentials *credentials = calloc(1, sizeof *credentials);
    const char *name = options->psk_identity != NULL ? options->psk_identity : options->ca_file;

    (void)ret_error;
    (void)error_capacity;
    assert_non_null(credentials);
    credentials->count = 1;
    if (name != NULL) {
        (void)snprintf((char *)credentials->digest, sizeof credentials->digest, "%s", name);
    }
    return credentials;
}

struct upstream_credentials *upstream_credentials_late(struct upstream_credentials **slot)
{
    static const struct upstream_credentials_options none;
    if (*slot == NULL) {
        *slot = upstream_credentials_load(&none, NULL, 0);
    }
    return *slot;
}

struct upstream_credentials *upstream_credentials_acquire(struct upstream_credentials *credentials)
{
    if (credentials != NULL) {
        credentials->count++;
    }
    return credentials;
}

void upstream_credentials_release(struct upstream_credentials *credentials)
{
    if (credentials != NULL && --credentials->count == 0) {
        free(credentials);
    }
}

/* ---- what the pool calls ---- */

static enum fake_manner manner_of(const struct session *session)
{
    enum fake_manner manner = FAKE_ACCEPTS;
    for (size_t i = 0; i < world.manner_count; i++) {
        if (world.manners[i].is_any ||
            address_equal(&world.manners[i].address, &session->pool->target.address)) {
            manner = world.manners[i].manner;
        }
    }
    return manner;
}

static bool end_open(struct session *session, enum upstream_status *ret_status)
{
    enum fake_manner manner = manner_of(session);
    if (manner == FAKE_REFUSES || manner == FAKE_IS_SHORT) {
        *ret_status = manner == FAKE_REFUSES ? UPSTREAM_REFUSED : UPSTREAM_NO_MEMORY;
        return false;
    }
    assert_true(world.end_count < ENDS_MAX);
    session->stream = &world.ends[world.end_count++];
    *session->stream = (struct stream_end){.session = session};
    if (manner == FAKE_FALLS_SHORT) {
        session_die(session, UPSTREAM_NO_MEMORY, NULL);
    }
    session->is_up = manner == FAKE_ACCEPTS;
    return true;
}

static void end_close(struct session *session)
{
    if (session->stream != NULL) {
        session->stream->session = NULL;
    }
}

static bool end_transmit(struct session *session, const struct message *message,
                         struct upstream_request *request, enum upstream_status *ret_status)
{
    struct arrived *arrived = &world.messages[world.message_count++];
    (void)ret_status;
    (void)request;
    assert_true(world.message_count <= MESSAGES_MAX);
    assert_true(message->token.len <= sizeof arrived->token);
    assert_true(3 + message->options.len + message->payload.len <= BYTES_MAX);
    arrived->number = (unsigned)(session->stream - world.ends) + 1;
    arrived->token_len = message->token.len;
    memcpy(arrived->token, message->token.data, message->token.len);
    arrived->bytes[0] = message->code;
    arrived->len = 1;
    if (message->options.len > 0) {
        memcpy(arrived->bytes + 1, message->options.data, message->options.len);
        arrived->len += message->options.len;
    }
    if (message->payload.len > 0) {
        arrived->bytes[arrived->len++] = 0xff;
        memcpy(arrived->bytes + arrived->len, message->payload.data, message->payload.len);
        arrived->len += message->payload.len;
    }
    return true;
}

static bool end_ping(struct session *session)
{
    session->stream->pings++;
    return true;
}

static bool end_is_acknowledged(const struct session *session)
{
    return !session->stream->is_mute;
}

static bool end_is_almost_up(const struct session *session)
{
    (void)session;
    return false;
}

static bool end_is_never_full(const struct session *session)
{
    (void)session;
    return false;
}

static bool end_is_full(const struct session *session)
{
    return session->stream->is_full;
}

#define KIND                                                                                       \
    {                                                                                              \
        .open = end_open, .close = end_close, .transmit = end_transmit, .ping = end_ping,          \
        .is_acknowledged = end_is_acknowledged, .is_almost_up = end_is_almost_up,                  \
        .is_full = end_is_full,                                                                    \
    }

const struct session_kind session_kind_coap = KIND;

/* ---- our DTLS: its message layer, over the fake network in the clear ---- */

struct dtls_end {
    struct session *session;
    struct stream_end *end; /* it counts among the others */
    struct udp_socket *socket;
    struct message_layer layer;
    uint8_t room[2048];
};

static void clear_on_datagram(void *context, struct udp_socket *socket,
                              const struct datagram *datagram)
{
    const struct dtls_end *clear = context;
    struct session *session = clear->session;
    (void)socket;
    if (session->is_dead ||
        !address_equal(&datagram->path.remote, &session->pool->target.address)) {
        return;
    }
    session->upstream->inside = session;
    session_heard(session);
    upstream_message_input(session, datagram->data, datagram->len);
    session->upstream->inside = NULL;
}

/* As the socket of a session: the kernel tells of its own server's host alone. */
static void clear_on_error(void *context, struct udp_socket *socket, const struct address *remote,
                           int error, const uint8_t *quoted, size_t quoted_len)
{
    const struct dtls_end *clear = context;
    (void)socket, (void)remote, (void)error, (void)quoted, (void)quoted_len;
    session_die(clear->session, UPSTREAM_CLOSED, "its port is closed");
}

static bool clear_write(struct session *session, struct bytes datagram,
                        enum upstream_status *ret_status)
{
    const struct udp_path path = {.remote = session->pool->target.address};
    if (session->is_dead) {
        *ret_status = UPSTREAM_CLOSED;
        return false;
    }
    udp_send(session->dtls->socket, &path, datagram.data, datagram.len);
    udp_flush(session->dtls->socket);
    return true;
}

static bool clear_open(struct session *session, enum upstream_status *ret_status)
{
    static const struct udp_handler on_udp = {clear_on_datagram, clear_on_error};
    const struct udp_options options = {
        .bind = {.family = session->pool->target.address.family}, .datagram_max = 2048, .fd = -1};
    if (!end_open(session, ret_status)) {
        return false;
    }
    struct dtls_end *clear = calloc(1, sizeof *clear);
    assert_non_null(clear);
    clear->end = session->stream;
    session->stream = NULL;
    session->dtls = clear;
    clear->session = session;
    clear->layer.write = clear_write;
    clear->layer.room = clear->room;
    clear->layer.room_len = sizeof clear->room;
    upstream_message_begin(session, &clear->layer);
    assert_int_equal(udp_open(session->upstream->loop, &options, &on_udp, clear, &clear->socket),
                     0);
    return true;
}

static void clear_close(struct session *session)
{
    struct dtls_end *clear = session->dtls;
    if (clear != NULL) {
        clear->end->session = NULL;
        udp_close(clear->socket);
        free(clear);
        session->dtls = NULL;
        session->messages = NULL;
    }
}

/* Nothing is resumed in the clear. */
void upstream_dtls_forget(struct session_pool *pool)
{
    assert_null(pool->resumable);
}

const struct session_kind session_kind_dtls = {
    .open = clear_open,
    .close = clear_close,
    .transmit = upstream_message_send,
    .ping = upstream_message_ping,
    .is_acknowledged = upstream_message_is_acknowledged,
    .is_almost_up = end_is_almost_up,
    .is_full = end_is_never_full,
};
const struct session_kind session_kind_oscore = KIND;
const struct session_kind session_kind_stream = KIND;

/* ---- what tests call ---- */

void fake_sessions_start(void)
{
    memset(&world, 0, sizeof world);
}

void fake_sessions_stop(void)
{
    assert_int_equal(fake_session_count(), 0);
}

void fake_session_manner(const char *address, enum fake_manner manner)
{
    assert_true(world.manner_count < MANNERS_MAX);
    size_t i = world.manner_count++;
    world.manners[i].manner = manner;
    world.manners[i].is_any = address == NULL;
    if (address != NULL) {
        assert_true(address_parse(address, strlen(address), 0, &world.manners[i].address));
    }
}

unsigned fake_session_opened(void)
{
    return world.end_count;
}

unsigned fake_session_count(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < world.end_count; i++) {
        count += world.ends[i].session != NULL;
    }
    return count;
}

static struct session *session_of(unsigned number)
{
    assert_in_range(number, 1, world.end_count);
    assert_non_null(world.ends[number - 1].session);
    return world.ends[number - 1].session;
}

void fake_session_accept(unsigned number)
{
    session_of(number)->is_up = true;
    session_set_due(session_of(number));
}

void fake_session_end(unsigned number, enum upstream_status status)
{
    session_die(session_of(number), status, NULL);
}

void fake_session_release(unsigned number)
{
    session_of(number)->is_leaving = true;
    session_set_due(session_of(number));
}

void fake_session_set_mute(unsigned number, bool is_mute)
{
    session_of(number)->stream->is_mute = is_mute;
}

void fake_session_set_full(unsigned number, bool is_full)
{
    session_of(number)->stream->is_full = is_full;
    session_set_due(session_of(number));
}

unsigned fake_session_pings(unsigned number)
{
    return session_of(number)->stream->pings;
}

void fake_session_pong(unsigned number)
{
    session_pong(session_of(number));
}

static size_t hex_to_bytes(const char *hex, uint8_t *ret_bytes)
{
    size_t len = 0;
    while (*hex != '\0') {
        unsigned byte;
        if (*hex == ' ') {
            hex++;
            continue;
        }
        assert_int_equal(sscanf(hex, "%2x", &byte), 1);
        assert_true(len < BYTES_MAX);
        ret_bytes[len++] = (uint8_t)byte;
        hex += 2;
    }
    return len;
}

void fake_session_expect_at(unsigned number, const char *hex, const char *file, int line)
{
    uint8_t expected[BYTES_MAX];
    size_t len = hex_to_bytes(hex, expected);
    if (world.seen == world.message_count) {
        print_error("%s:%d: nothing came\n", file, line);
        fail();
    }
    const struct arrived *arrived = &world.messages[world.seen++];
    if (arrived->number != number || arrived->len != len ||
        memcmp(arrived->bytes, expected, len) != 0) {
        print_error("%s:%d: over session %u came", file, line, arrived->number);
        for (size_t i = 0; i < arrived->len; i++) {
            print_error(" %02x", arrived->bytes[i]);
        }
        print_error("\n");
        fail();
    }
}

void fake_session_expect_nothing(void)
{
    assert_int_equal(world.message_count - world.seen, 0);
}

uint64_t fake_session_take(unsigned number, const uint8_t **ret_bytes, size_t *ret_len)
{
    const struct arrived *arrived = &world.messages[world.seen];
    if (world.seen == world.message_count || arrived->number != number) {
        return 0;
    }
    *ret_bytes = arrived->bytes;
    *ret_len = arrived->len;
    return ++world.seen;
}

void fake_session_answer_bytes(uint64_t message, const uint8_t *bytes, size_t len)
{
    struct message response = {.type = MESSAGE_CON};
    assert_in_range(message, 1, world.seen);
    const struct arrived *arrived = &world.messages[message - 1];
    struct session *session = session_of(arrived->number);
    assert_true(len > 0 && message_decode_content(bytes + 1, len - 1, &response));
    response.code = bytes[0];
    response.token = (struct bytes){arrived->token, arrived->token_len};
    session->upstream->inside = session;
    (void)session_on_response(session, &response);
    session->upstream->inside = NULL;
}

void fake_session_answer(const char *hex)
{
    uint8_t bytes[BYTES_MAX];
    size_t len = hex_to_bytes(hex, bytes);
    fake_session_answer_bytes(world.seen, bytes, len);
}
