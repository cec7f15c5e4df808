/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/fake_conn.h"

#include "support/test.h"

#include "net/loop.h"
#include "support/fake_net.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_MAX 65536u
#define OUTPUT_MAX (16u << 20)
#define ENDS_MAX 256u
#define INPUT_MESSAGES_MAX 4096u

/* A connection is the test's end and the proxy's end at once. */
struct conn {
    struct conn_listener *listener;
    struct conn *next;
    struct address remote;
    struct identity *identity;
    const char *host;
    void *context;
    bool is_open, is_closing, is_paused, is_stopped;
    size_t input_len, output_len, output_capacity, seen;
    size_t message_count, messages[INPUT_MESSAGES_MAX]; /* in input, their lengths; WebSockets */
    uint8_t input[BYTES_MAX], *output; /* as long as what is sent until the test takes it */
    size_t end_count, ends[ENDS_MAX];  /* of the messages in output that were not looked at */
};

struct fake_stream {
    struct conn conn;
};

struct conn_listener {
    struct conn_options options;
    struct loop *loop;
    const struct conn_handler *handler;
    void *context;
    struct conn_counters counters;
    struct conn_listener *next;
};

static struct conn_listener *listeners;
static struct conn *conns;

/* --- the proxy's side --------------------------------------------------- */

int conn_listen(struct loop *loop, const struct conn_options *options,
                const struct conn_handler *handler, void *context,
                struct conn_listener **ret_listener)
{
    struct conn_listener *listener = calloc(1, sizeof(*listener));
    assert_non_null(listener);
    listener->loop = loop;
    listener->options = *options;
    listener->handler = handler;
    listener->context = context;
    listener->next = listeners;
    listeners = listener;
    *ret_listener = listener;
    return 0;
}

static void end(struct conn *conn, const char *why)
{
    if (conn->is_open) {
        conn->is_open = false;
        conn->listener->handler->on_close(conn->context, conn, why);
    }
}

void conn_close_listener(struct conn_listener *listener)
{
    if (listener == NULL) {
        return;
    }
    for (struct conn *conn = conns; conn != NULL; conn = conn->next) {
        if (conn->listener == listener) {
            end(conn, "shutting down");
        }
    }
    struct conn_listener **at = &listeners;
    while (*at != listener) {
        at = &(*at)->next;
    }
    *at = listener->next;
    free(listener);
}

void conn_stop_accepting(struct conn_listener *listener)
{
    listener->options.connections_max = 0;
}

void conn_set_credentials(struct conn_listener *listener, struct credentials *credentials)
{
    listener->options.credentials = credentials;
}

bool conn_send(struct conn *conn, const uint8_t *data, size_t len)
{
    assert_true(conn->is_open || conn->context == NULL);
    if (conn->is_closing) {
        return true;
    }
    if (len > conn->output_capacity - conn->output_len) {
        conn->output_capacity = 2 * (conn->output_len + len);
        assert_true(conn->output_capacity <= OUTPUT_MAX);
        conn->output = realloc(conn->output, conn->output_capacity);
        assert_non_null(conn->output);
    }
    memcpy(conn->output + conn->output_len, data, len);
    conn->output_len += len;
    if (conn->end_count < ENDS_MAX) {
        conn->ends[conn->end_count++] = conn->output_len;
    }
    return !conn->is_stopped;
}

int conn_upgrade(struct conn *conn, const uint8_t *head, size_t len)
{
    static const char answer[] = "HTTP/1.1 101 Switching Protocols\r\n\r\n";
    assert_true(len > 4 && memcmp(head + len - 4, "\r\n\r\n", 4) == 0);
    (void)conn_send(conn, (const uint8_t *)answer, sizeof(answer) - 1);
    return 101; /* its bytes are messages already */
}

bool conn_is_behind(struct conn *conn)
{
    return conn->is_stopped && conn->output_len > conn->seen;
}

static void deliver(struct conn *conn);

static void on_resumed(void *context)
{
    deliver(context);
}

/* What has been kept is given soon, and not from within. */
void conn_pause(struct conn *conn, bool paused)
{
    bool is_resumed = conn->is_paused && !paused && conn->input_len > 0;
    conn->is_paused = paused;
    if (is_resumed) {
        assert_int_equal(loop_post(conn->listener->loop, on_resumed, conn), 0);
    }
}

void conn_close(struct conn *conn)
{
    conn->is_closing = true;
}

enum transport conn_transport(const struct conn *conn)
{
    return conn->listener->options.transport;
}

const struct address *conn_remote(const struct conn *conn)
{
    return &conn->remote;
}

const struct address *conn_local(const struct conn *conn)
{
    return &conn->listener->options.bind;
}

struct identity *conn_identity(const struct conn *conn)
{
    return conn->identity;
}

const char *conn_host(const struct conn *conn)
{
    return conn->host != NULL ? conn->host : "";
}

const struct address *conn_listener_local(const struct conn_listener *listener)
{
    return &listener->options.bind;
}

const struct account_book *conn_accounts(const struct conn_listener *listener)
{
    (void)listener;
    return NULL;
}

const struct conn_counters *conn_counters(const struct conn_listener *listener)
{
    return &listener->counters;
}

/* --- the test's side ---------------------------------------------------- */

/* Give the proxy what has arrived. */
static void deliver(struct conn *conn)
{
    bool moved = true;
    while (moved && conn->is_open && !conn->is_closing && !conn->is_paused && conn->input_len > 0) {
        /* On WebSockets one message at a time, also when several waited (net/conn.h). */
        bool is_ws = transport_is_ws(conn->listener->options.transport);
        size_t len = is_ws ? conn->messages[0] : conn->input_len;
        size_t used = conn->listener->handler->on_input(conn->context, conn, conn->input, len);
        if (used == SIZE_MAX) {
            end(conn, "refused");
            return;
        }
        assert_true(is_ws ? used == len : used <= len);
        if (is_ws) {
            conn->message_count--;
            memmove(conn->messages, conn->messages + 1,
                    conn->message_count * sizeof(conn->messages[0]));
        }
        memmove(conn->input, conn->input + used, conn->input_len - used);
        conn->input_len -= used;
        moved = used > 0;
    }
}

/* The same, and let what follows from it happen. */
static void pump(struct conn *conn)
{
    deliver(conn);
    fake_net_run(0);
    if (conn->is_closing) {
        end(conn, "closed");
    }
}

struct fake_stream *fake_stream_connect(enum transport transport, const char *from)
{
    return fake_stream_connect_at(transport, NULL, from);
}

struct fake_stream *fake_stream_connect_at(enum transport transport, const struct loop *loop,
                                           const char *from)
{
    struct conn_listener *listener = listeners;
    while (listener != NULL &&
           (listener->options.transport != transport || (loop != NULL && listener->loop != loop))) {
        listener = listener->next;
    }
    if (listener == NULL) {
        fail_msg("there is no listener for such connections");
        return NULL;
    }
    struct fake_stream *stream = calloc(1, sizeof(*stream));
    assert_non_null(stream);
    struct conn *conn = &stream->conn;
    conn->listener = listener;
    assert_true(address_parse(from, strlen(from), 0, &conn->remote));
    conn->next = conns;
    conns = conn;
    conn->context = listener->handler->on_open(listener->context, conn);
    conn->is_open = conn->context != NULL;
    return conn->is_open ? stream : NULL;
}

void fake_stream_set_host(struct fake_stream *stream, const char *host)
{
    stream->conn.host = host;
}

void fake_stream_identify(struct fake_stream *stream, const char *psk_identity)
{
    const unsigned char *bytes = (const unsigned char *)psk_identity;
    size_t len = strlen(psk_identity);
    identity_release(stream->conn.identity);
    stream->conn.identity = identity_new(IDENTITY_PSK, identity_name_bytes(bytes, len), NULL);
    assert_non_null(stream->conn.identity);
    identity_add_name(stream->conn.identity, bytes, len);
}

static void feed(struct conn *conn, const uint8_t *data, size_t len)
{
    assert_true(len <= BYTES_MAX - conn->input_len);
    if (len > 0 && transport_is_ws(conn->listener->options.transport)) {
        assert_true(conn->message_count < INPUT_MESSAGES_MAX);
        conn->messages[conn->message_count++] = len;
    }
    memcpy(conn->input + conn->input_len, data, len);
    conn->input_len += len;
    pump(conn);
}

void fake_stream_send(struct fake_stream *stream, const char *hex)
{
    static uint8_t bytes[BYTES_MAX];
    feed(&stream->conn, bytes, test_hex(hex, bytes, sizeof(bytes)));
}

void fake_stream_send_bytes(struct fake_stream *stream, const uint8_t *data, size_t len)
{
    feed(&stream->conn, data, len);
}

size_t fake_stream_take(struct fake_stream *stream, uint8_t *buffer, size_t capacity)
{
    struct conn *conn = &stream->conn;
    pump(conn);
    size_t waiting = conn->output_len - conn->seen;
    size_t len = waiting < capacity ? waiting : capacity;
    if (len > 0) {
        memcpy(buffer, conn->output + conn->seen, len);
    }
    conn->seen += len;
    if (conn->seen == conn->output_len) {
        conn->output_len = conn->seen = 0;
    }
    return len;
}

void fake_stream_send_slowly(struct fake_stream *stream, const char *hex)
{
    static uint8_t bytes[BYTES_MAX];
    size_t len = test_hex(hex, bytes, sizeof(bytes));
    for (size_t i = 0; i < len; i++) {
        feed(&stream->conn, bytes + i, 1);
    }
}

size_t fake_stream_take_message(struct fake_stream *stream, uint8_t *buffer, size_t capacity)
{
    struct conn *conn = &stream->conn;
    size_t len = capacity, passed = 0;
    pump(conn);
    if (conn->seen == conn->output_len) {
        return 0;
    }
    while (passed < conn->end_count && conn->ends[passed] <= conn->seen) {
        passed++;
    }
    if (conn->listener->options.transport == TRANSPORT_WS && passed < conn->end_count) {
        len = conn->ends[passed] - conn->seen;
        assert_true(len <= capacity);
    }
    len = fake_stream_take(stream, buffer, len);
    if (conn->output_len == 0) {
        conn->end_count = 0;
    }
    return len;
}

static int nibble_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

void fake_stream_expect(struct fake_stream *stream, const char *pattern)
{
    struct conn *conn = &stream->conn;
    size_t nibble = conn->seen * 2;
    pump(conn);
    for (const char *at = pattern; *at != '\0'; at++) {
        if (*at == ' ') {
            continue;
        }
        if (nibble / 2 >= conn->output_len) {
            fail_msg("\"%s\": only %zu bytes came", pattern, conn->output_len - conn->seen);
        }
        uint8_t byte = conn->output[nibble / 2];
        int got = nibble % 2 == 0 ? byte >> 4 : byte & 15;
        if (*at != '?' && nibble_of(*at) != got) {
            fail_msg("\"%s\": byte %zu is %02x", pattern, nibble / 2 - conn->seen, byte);
        }
        nibble++;
    }
    conn->seen = nibble / 2;
}

void fake_stream_forget(struct fake_stream *stream)
{
    stream->conn.output_len = stream->conn.seen = 0;
}

size_t fake_stream_waiting(const struct fake_stream *stream)
{
    return stream->conn.output_len - stream->conn.seen;
}

uint32_t fake_stream_idle(struct fake_stream *stream)
{
    struct conn *conn = &stream->conn;
    uint32_t stays_ms = conn->listener->handler->on_idle(conn->context, conn);
    pump(conn);
    if (stays_ms == 0) {
        end(conn, "idle");
    }
    return stays_ms;
}

enum conn_need fake_stream_need(const struct fake_stream *stream)
{
    const struct conn *conn = &stream->conn;
    return conn->listener->handler->need_of(conn->context, conn);
}

void fake_stream_close(struct fake_stream *stream)
{
    end(&stream->conn, "closed by the peer");
}

bool fake_stream_is_closed(const struct fake_stream *stream)
{
    return !stream->conn.is_open;
}

bool fake_stream_is_paused(const struct fake_stream *stream)
{
    return stream->conn.is_paused;
}

void fake_stream_stop_reading(struct fake_stream *stream, bool stop)
{
    struct conn *conn = &stream->conn;
    bool was_stopped = conn->is_stopped;
    conn->is_stopped = stop;
    if (was_stopped && !stop && conn->is_open) {
        conn->listener->handler->on_drained(conn->context, conn);
        pump(conn);
    }
}

void fake_streams_free(void)
{
    while (conns != NULL) {
        struct conn *conn = conns;
        conns = conn->next;
        assert_false(conn->is_open);
        identity_release(conn->identity);
        free(conn->output);
        free((struct fake_stream *)(void *)conn);
    }
}
