/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection for each client, TCP or TLS, with messages framed as RFC 8323 has it.
 * A client is there when both CSMs are. Where the peer is on 127.0.0.0/8, client i
 * speaks from 127.16.0.0 + i, as over UDP.
 */
#include "clock.h"
#include "frame.h"
#include "link.h"
#include "tls_client.h"
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define CLIENT_BASE UINT32_C(0x7f100000)        /* 127.16.0.0 */
#define PATIENCE_NS (20 * UINT64_C(1000000000)) /* for one to come up */
#define TICK_NS (20 * UINT64_C(1000000))

enum {
    AT_ONCE = 32, /* that come up */
    EVENTS = 64,
    INPUT_BYTES = 4096,
    OUTPUT_MAX = 1 << 20, /* waiting for the peer to take it */
};

enum conn_state {
    CONN_NONE,
    CONN_CONNECTING,
    CONN_SHAKING, /* TLS */
    CONN_CSM,     /* ours has been sent */
    CONN_UP,
};

struct conn {
    int fd;
    int left_fd; /* of the connection before the last reopen(): open still, and not read; or -1 */
    SSL *ssl;
    SSL_SESSION *ticket;
    enum conn_state state;
    bool wants_output; /* epoll tells when there is room */
    uint64_t since_ns; /* coming up */
    uint64_t up_ns;    /* when it was up */
    size_t input_len;
    uint8_t *output; /* output that the socket has not accepted yet */
    size_t output_len;
    uint8_t input[INPUT_BYTES];
};

struct stream_link {
    struct link base;
    struct link_options options;
    bool are_devices; /* each has its number behind the identity */
    struct tls_client client;
    SSL_CTX *context; /* NULL: TCP */
    int epoll_fd;
    struct conn *conns;
    uint32_t coming_up;
    struct link_handshakes *result; /* while all are brought up */
    uint64_t looked_ns;             /* for late ones */
    link_message_fn on_message;
    void *on_message_context;
    struct epoll_event events[EVENTS];
    int event_count;
};

static struct stream_link *of_link(struct link *link)
{
    return (struct stream_link *)link; /* base is the first member */
}

/* ---- bytes ---- */

/* @return bytes taken or given, 0 where it would block, -1 when the connection is over. */
static ssize_t transfer(struct conn *conn, uint8_t *in, const uint8_t *out, size_t len)
{
    ssize_t count;

    if (conn->ssl != NULL) {
        int done =
            in != NULL ? SSL_read(conn->ssl, in, (int)len) : SSL_write(conn->ssl, out, (int)len);
        int error = done > 0 ? SSL_ERROR_NONE : SSL_get_error(conn->ssl, done);
        ERR_clear_error();
        if (done > 0) {
            return done;
        }
        return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? 0 : -1;
    }
    count = in != NULL ? recv(conn->fd, in, len, 0) : send(conn->fd, out, len, MSG_NOSIGNAL);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
        return 0;
    }
    return count == 0 ? -1 : count;
}

static void want_output(struct stream_link *streams, struct conn *conn, bool wanted)
{
    struct epoll_event event = {.events = EPOLLIN | (wanted ? (uint32_t)EPOLLOUT : 0u),
                                .data.u32 = (uint32_t)(conn - streams->conns)};

    if (conn->wants_output != wanted) {
        conn->wants_output = wanted;
        (void)epoll_ctl(streams->epoll_fd, EPOLL_CTL_MOD, conn->fd, &event);
    }
}

static bool keep_output(struct conn *conn, const uint8_t *data, size_t len)
{
    uint8_t *output;

    if (conn->output_len + len > OUTPUT_MAX) {
        return false;
    }
    output = realloc(conn->output, conn->output_len + len);
    if (output == NULL) {
        return false;
    }
    memcpy(output + conn->output_len, data, len);
    conn->output = output;
    conn->output_len += len;
    return true;
}

static bool put(struct stream_link *streams, struct conn *conn, const uint8_t *data, size_t len)
{
    ssize_t sent = conn->output_len > 0 ? 0 : transfer(conn, NULL, data, len);

    if (sent < 0) {
        return false;
    }
    if ((size_t)sent == len) {
        return true;
    }
    want_output(streams, conn, true);
    return keep_output(conn, data + sent, len - (size_t)sent);
}

static bool flush(struct stream_link *streams, struct conn *conn)
{
    ssize_t sent = 0;

    if (conn->output_len > 0) {
        sent = transfer(conn, NULL, conn->output, conn->output_len);
    }
    if (sent < 0) {
        return false;
    }
    conn->output_len -= (size_t)sent;
    if (conn->output_len > 0) {
        memmove(conn->output, conn->output + sent, conn->output_len);
    } else {
        want_output(streams, conn, false);
    }
    return true;
}

/* ---- coming up, and the end ---- */

static void end_conn(struct stream_link *streams, struct conn *conn)
{
    bool was_coming = conn->state != CONN_NONE && conn->state != CONN_UP;

    if (was_coming) {
        streams->coming_up--;
    }
    if (was_coming && streams->result != NULL) {
        streams->result->failed++;
    }
    SSL_free(conn->ssl);
    conn->ssl = NULL;
    if (conn->fd >= 0) {
        close(conn->fd);
    }
    conn->fd = -1;
    free(conn->output);
    conn->output = NULL;
    conn->output_len = 0;
    conn->input_len = 0;
    conn->wants_output = false;
    conn->state = CONN_NONE;
}

/* The connection of before, if there is one, gives its ticket. */
static void close_conn(struct stream_link *streams, struct conn *conn)
{
    if (conn->state == CONN_UP && conn->ssl != NULL) {
        SSL_SESSION_free(conn->ticket);
        conn->ticket = SSL_get1_session(conn->ssl);
        (void)SSL_shutdown(conn->ssl);
        ERR_clear_error();
    }
    end_conn(streams, conn);
}

static void is_up(struct stream_link *streams, struct conn *conn)
{
    conn->state = CONN_UP;
    conn->up_ns = clock_now_ns();
    streams->coming_up--;
    if (streams->result != NULL) {
        streams->result->done++;
        streams->result->resumed += conn->ssl != NULL && SSL_session_reused(conn->ssl) == 1;
    }
}

static bool say_csm(struct stream_link *streams, struct conn *conn)
{
    static const uint8_t csm[] = {0x00, FRAME_CSM};

    conn->state = CONN_CSM;
    return put(streams, conn, csm, sizeof(csm));
}

static bool shake(struct stream_link *streams, struct conn *conn)
{
    int done = SSL_do_handshake(conn->ssl);
    int error = done == 1 ? SSL_ERROR_NONE : SSL_get_error(conn->ssl, done);

    ERR_clear_error();
    if (done == 1) {
        want_output(streams, conn, false);
        return say_csm(streams, conn);
    }
    want_output(streams, conn, error == SSL_ERROR_WANT_WRITE);
    return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
}

static bool connected(struct stream_link *streams, struct conn *conn)
{
    int error = 0;
    socklen_t len = sizeof(error);

    if (getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0 || error != 0) {
        return false;
    }
    want_output(streams, conn, false);
    if (streams->context == NULL) {
        return say_csm(streams, conn);
    }
    conn->ssl = SSL_new(streams->context);
    if (conn->ssl == NULL || SSL_set_fd(conn->ssl, conn->fd) != 1) {
        return false;
    }
    SSL_set_connect_state(conn->ssl);
    if (streams->are_devices) {
        SSL_set_app_data(conn->ssl, (void *)(uintptr_t)(conn - streams->conns + 1));
    }
    /* Waiting output is copied, and sent in the pieces that the socket accepts. */
    SSL_set_mode(conn->ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    if (conn->ticket != NULL) {
        (void)SSL_set_session(conn->ssl, conn->ticket);
    }
    conn->state = CONN_SHAKING;
    return shake(streams, conn);
}

static int open_socket(const struct stream_link *streams, uint32_t client, int *ret_fd)
{
    const union address *peer = &streams->options.peer;
    const int one = 1;
    int fd = socket(peer->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return -errno;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (peer->any.sa_family == AF_INET && address_is_loopback(peer)) {
        union address from = address_v4(CLIENT_BASE + client, 0);
        (void)setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one));
        if (bind(fd, &from.any, address_len(&from)) != 0) {
            int err = -errno;
            close(fd);
            return err;
        }
    }
    *ret_fd = fd;
    return 0;
}

static int start(struct stream_link *streams, uint32_t client)
{
    struct conn *conn = &streams->conns[client];
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT, .data.u32 = client};
    int err;

    close_conn(streams, conn);
    err = open_socket(streams, client, &conn->fd);
    if (err != 0) {
        return err;
    }
    conn->wants_output = true;
    if (epoll_ctl(streams->epoll_fd, EPOLL_CTL_ADD, conn->fd, &event) != 0) {
        return -errno;
    }
    conn->state = CONN_CONNECTING;
    conn->since_ns = clock_now_ns();
    streams->coming_up++;
    if (connect(conn->fd, &streams->options.peer.any, address_len(&streams->options.peer)) != 0 &&
        errno != EINPROGRESS) {
        end_conn(streams, conn);
    }
    return 0;
}

/* ---- messages ---- */

static bool on_frame(struct stream_link *streams, struct conn *conn, uint8_t *message, size_t len)
{
    uint8_t frame[WIRE_DATAGRAM_MAX + FRAME_HEAD_MAX];
    uint32_t client = (uint32_t)(conn - streams->conns);

    if (message[1] == FRAME_CSM) {
        if (conn->state == CONN_CSM) {
            is_up(streams, conn);
        }
    } else if (message[1] == FRAME_PING) {
        message[1] = FRAME_PONG;
        len = frame_of_datagram(message, len, frame, sizeof(frame));
        return put(streams, conn, frame, len);
    } else if (WIRE_CODE_CLASS(message[1]) == 7) {
        return message[1] == FRAME_PONG; /* Release or Abort: it is over */
    } else if (conn->state == CONN_UP && streams->on_message != NULL) {
        streams->on_message(streams->on_message_context, client, 0, message, len);
    }
    return true;
}

static bool take_frames(struct stream_link *streams, struct conn *conn)
{
    uint8_t message[WIRE_DATAGRAM_MAX];
    size_t at = 0, used = 0, len = 0;
    enum frame_result result = FRAME_WHOLE;

    while (result == FRAME_WHOLE && conn->fd >= 0) {
        result = frame_to_datagram(conn->input + at, conn->input_len - at, &used, message,
                                   sizeof(message), &len);
        if (result == FRAME_WHOLE) {
            at += used;
            if (!on_frame(streams, conn, message, len)) {
                return false;
            }
        }
    }
    conn->input_len -= at;
    memmove(conn->input, conn->input + at, conn->input_len);
    return result == FRAME_MORE;
}

static bool read_frames(struct stream_link *streams, struct conn *conn)
{
    for (;;) {
        ssize_t got = transfer(conn, conn->input + conn->input_len, NULL,
                               sizeof(conn->input) - conn->input_len);
        if (got <= 0) {
            return got == 0;
        }
        conn->input_len += (size_t)got;
        if (!take_frames(streams, conn)) {
            return false;
        }
    }
}

static void on_event(struct stream_link *streams, const struct epoll_event *event)
{
    struct conn *conn = &streams->conns[event->data.u32];
    bool good = true;

    switch (conn->state) {
    case CONN_NONE:
        return;
    case CONN_CONNECTING:
        good = connected(streams, conn);
        break;
    case CONN_SHAKING:
        good = shake(streams, conn);
        break;
    case CONN_CSM:
    case CONN_UP:
        good = (event->events & EPOLLOUT) == 0 || flush(streams, conn);
        break;
    }
    if (good && (conn->state == CONN_CSM || conn->state == CONN_UP)) {
        good = read_frames(streams, conn);
    }
    if (!good) {
        end_conn(streams, conn);
    }
}

/* ---- for the load ---- */

static int wait_for_messages(struct link *link, uint64_t timeout_ns)
{
    struct stream_link *streams = of_link(link);
    int count = clock_wait(streams->epoll_fd, streams->events, EVENTS, timeout_ns);

    streams->event_count = count > 0 ? count : 0;
    return count < 0 ? count : 0;
}

static void take_events(struct stream_link *streams)
{
    for (int i = 0; i < streams->event_count; i++) {
        on_event(streams, &streams->events[i]);
    }
    streams->event_count = 0;
}

static void give_up_late_ones(struct stream_link *streams)
{
    uint64_t now_ns = clock_now_ns();

    if (streams->coming_up == 0 || now_ns - streams->looked_ns < PATIENCE_NS / 20) {
        return;
    }
    streams->looked_ns = now_ns;
    for (uint32_t i = 0; i < streams->options.clients; i++) {
        struct conn *conn = &streams->conns[i];
        if (conn->state != CONN_NONE && conn->state != CONN_UP &&
            now_ns - conn->since_ns > PATIENCE_NS) {
            end_conn(streams, conn);
        }
    }
}

static int deliver_messages(struct link *link, link_message_fn on_message, void *context)
{
    struct stream_link *streams = of_link(link);

    streams->on_message = on_message;
    streams->on_message_context = context;
    take_events(streams);
    give_up_late_ones(streams);
    return 0;
}

static int connect_all(struct link *link, struct link_handshakes *ret_handshakes)
{
    struct stream_link *streams = of_link(link);
    uint64_t start_ns = clock_now_ns();
    uint32_t next = 0;
    int err = 0;

    streams->result = ret_handshakes;
    while (err == 0 && clock_stop == 0 &&
           ret_handshakes->done + ret_handshakes->failed < streams->options.clients) {
        while (streams->coming_up < AT_ONCE && next < streams->options.clients && err == 0) {
            err = start(streams, next++);
        }
        if (err == 0) {
            err = wait_for_messages(link, TICK_NS);
        }
        if (err == 0) {
            /* Those that are up have messages already, which a stream does not repeat. */
            take_events(streams);
        }
        give_up_late_ones(streams);
    }
    streams->result = NULL;
    ret_handshakes->ns = clock_now_ns() - start_ns;
    return err;
}

/* The one that it has stays open, but nothing is read or written there any more. */
static void leave(struct stream_link *streams, struct conn *conn)
{
    if (conn->left_fd >= 0) {
        close(conn->left_fd);
    }
    conn->left_fd = conn->fd;
    if (conn->fd >= 0) {
        (void)epoll_ctl(streams->epoll_fd, EPOLL_CTL_DEL, conn->fd, NULL);
        conn->fd = -1;
    }
    end_conn(streams, conn);
}

static int reopen(struct link *link, uint32_t client, uint64_t since_ns)
{
    struct stream_link *streams = of_link(link);
    struct conn *conn = &streams->conns[client];
    bool is_new = (conn->state == CONN_UP && conn->up_ns > since_ns) ||
                  (conn->state != CONN_UP && conn->state != CONN_NONE && conn->since_ns > since_ns);

    if (is_new || streams->coming_up >= AT_ONCE) {
        return 0;
    }
    leave(streams, conn);
    link->reopened++;
    return start(streams, client);
}

static int renew(struct link *link, uint32_t client, uint32_t *ret_endpoint)
{
    (void)link;
    (void)client;
    *ret_endpoint = 0;
    return 0;
}

static void send_message(struct link *link, uint32_t client, uint32_t endpoint, const uint8_t *data,
                         size_t len)
{
    struct stream_link *streams = of_link(link);
    struct conn *conn = &streams->conns[client];
    uint8_t frame[WIRE_DATAGRAM_MAX + FRAME_HEAD_MAX];
    size_t frame_len = frame_of_datagram(data, len, frame, sizeof(frame));

    (void)endpoint;
    /* One that fails is closed by its next event: we may be inside one of them. */
    if (conn->state != CONN_UP || frame_len == 0 || !put(streams, conn, frame, frame_len)) {
        link->refused++;
    }
}

static void close_link(struct link *link)
{
    struct stream_link *streams = of_link(link);

    for (uint32_t i = 0; streams->conns != NULL && i < streams->options.clients; i++) {
        close_conn(streams, &streams->conns[i]);
        SSL_SESSION_free(streams->conns[i].ticket);
        if (streams->conns[i].left_fd >= 0) {
            close(streams->conns[i].left_fd);
        }
    }
    if (streams->epoll_fd >= 0) {
        close(streams->epoll_fd);
    }
    SSL_CTX_free(streams->context);
    free(streams->conns);
    free(streams);
}

static const struct link_ops stream_ops = {
    connect_all,      renew,      reopen, send_message, wait_for_messages,
    deliver_messages, close_link, NULL};

static int open_stream(struct stream_link *streams)
{
    const struct link_options *options = &streams->options;

    streams->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (streams->epoll_fd < 0) {
        return -errno;
    }
    streams->conns = calloc(options->clients, sizeof(*streams->conns));
    if (streams->conns == NULL) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < options->clients; i++) {
        streams->conns[i].fd = -1;
        streams->conns[i].left_fd = -1;
    }
    streams->are_devices = options->are_devices;
    streams->client = (struct tls_client){options->identity, options->key, options->suites};
    if (options->kind == LINK_TLS) {
        streams->context = tls_client_context(false, &streams->client);
    }
    return options->kind == LINK_TLS && streams->context == NULL ? -EINVAL : 0;
}

int link_open_stream(const struct link_options *options, struct link **ret_link)
{
    struct stream_link *streams = calloc(1, sizeof(*streams));
    int err;

    if (streams == NULL) {
        return -ENOMEM;
    }
    streams->base.ops = &stream_ops;
    streams->options = *options;
    streams->epoll_fd = -1;
    err = open_stream(streams);
    if (err != 0) {
        close_link(&streams->base);
        return err;
    }
    link_raise_descriptor_limit();
    *ret_link = &streams->base;
    return 0;
}
