/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The client side of sessions against an origin server that does anything: real sockets on
 * loopback, in this process, on one loop, with a clock that jumps. Input: a byte that chooses
 * the transport, then chunks of
 *
 *   1 byte   what is done (low 4 bits, see act()) and how much time passes before (high 4 bits)
 *   1 byte   length of what follows
 *   n bytes  what is sent, said or asked
 *
 * On TLS, WSS and DTLS of our own the handshake is a real one, unless the input says that bytes are
 * sent in its place; on libcoap's DTLS all is sent as datagrams. When the origin server has gone,
 * every request ends.
 */
#include "base/log.h"
#include "coap/message.h"
#include "net/loop_internal.h"
#include "net/upstream.h"
#include "net/ws_opening.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* NOLINTBEGIN(*-reserved-identifier,cert-dcl*,readability-identifier-naming): ld's names */
int __real_clock_gettime(clockid_t id, struct timespec *ret_time);
int __wrap_clock_gettime(clockid_t id, struct timespec *ret_time);
/* NOLINTEND(*-reserved-identifier,cert-dcl*,readability-identifier-naming) */

#define INPUT_MAX 2048u
#define REQUESTS 6u
#define SESSIONS_MAX 3u
#define TOKEN_LEN 4u
#define TURNS 6u /* of the loop after each chunk: connect, handshake, answer */
#define END_TURNS 400u

struct slot {
    struct upstream_request *request; /* NULL: over */
    uint8_t token[TOKEN_LEN];
    bool is_kept, is_answered;
};

static struct world {
    struct loop *loop;
    struct upstream *upstream;
    struct upstream_credentials *credentials;
    struct upstream_target target;
    enum upstream_engine engine;
    int listener, connection;
    SSL_CTX *context, *dtls_context;
    SSL *ssl;
    struct sockaddr_in peer;  /* on DTLS: which the handshake is with */
    uint16_t last_mid;        /* on DTLS: of the client's last message */
    bool is_upgraded, is_raw; /* raw: no handshake is made */
    char head[WS_HEAD_MAX];
    size_t head_len;
    struct slot slots[REQUESTS];
    uint32_t serial;
} world;

static uint64_t jumped_ms;

int __wrap_clock_gettime(clockid_t id, struct timespec *ret_time)
{
    int error = __real_clock_gettime(id, ret_time);
    if (id == CLOCK_MONOTONIC) {
        ret_time->tv_sec += (time_t)(jumped_ms / 1000);
    }
    return error;
}

/* --- the side that is tested --------------------------------------------- */

static uint64_t on_turn(void *context, uint64_t now_ms)
{
    (void)context;
    (void)upstream_turn(world.upstream, now_ms);
    return now_ms; /* never wait */
}

static void on_response(void *context, void *user, const struct message *response)
{
    struct slot *slot = user;
    struct option_iter iter;
    struct option option;
    (void)context;
    assert(slot->request != NULL);
    assert(CODE_CLASS(response->code) >= 2);
    option_iter_init(&iter, response->options);
    while (option_iter_next(&iter, &option)) {
        assert(option.value.len <= response->options.len);
    }
    slot->is_answered = true;
    if (!slot->is_kept) {
        slot->request = NULL;
    }
}

static void on_failure(void *context, void *user, const struct upstream_failure *failure)
{
    struct slot *slot = user;
    (void)context;
    (void)failure;
    assert(slot->request != NULL);
    slot->request = NULL;
}

static void ask(uint8_t how, const uint8_t *data, size_t len)
{
    static uint8_t payload[256];
    struct slot *slot = &world.slots[how % REQUESTS];
    if (slot->request != NULL) {
        upstream_cancel(world.upstream, slot->request, slot->is_kept);
        slot->request = NULL;
        return;
    }
    memcpy(payload, data, len);
    world.serial++;
    memcpy(slot->token, &world.serial, TOKEN_LEN);
    slot->is_kept = (how & 0x40) != 0;
    slot->is_answered = false;
    struct message message = {.code = (how & 0x80) != 0 ? CODE(0, 2) : CODE(0, 1),
                              .token = {slot->token, TOKEN_LEN},
                              .payload = {payload, len}};
    slot->request = upstream_send(world.upstream, &world.target, &message, slot->is_kept, slot);
    assert(slot->request != NULL);
}

/* --- the origin server --------------------------------------------------- */

static unsigned on_psk(SSL *ssl, const char *identity, unsigned char *psk, unsigned max)
{
    (void)ssl;
    (void)identity;
    assert(max >= 1);
    psk[0] = 0x01;
    return 1;
}

static bool is_own_dtls(void)
{
    return world.target.transport == TRANSPORT_DTLS && world.engine == UPSTREAM_ENGINE_NATIVE;
}

static void forget_session(void)
{
    SSL_free(world.ssl);
    world.ssl = NULL;
    ERR_clear_error();
}

static void drop_connection(void)
{
    forget_session();
    if (world.connection >= 0) {
        (void)close(world.connection);
    }
    world.connection = -1;
    world.is_upgraded = false;
    world.head_len = 0;
    ERR_clear_error();
}

static bool is_tls(void)
{
    return world.target.transport == TRANSPORT_TLS || world.target.transport == TRANSPORT_WSS;
}

static bool is_ws(void)
{
    return world.target.transport == TRANSPORT_WS || world.target.transport == TRANSPORT_WSS;
}

/* All that OpenSSL has to say, as one datagram. */
static void send_records(void)
{
    uint8_t records[8192];
    int len = BIO_read(SSL_get_wbio(world.ssl), records, sizeof(records));
    if (len > 0) {
        (void)sendto(world.connection, records, (size_t)len, MSG_DONTWAIT,
                     (const struct sockaddr *)(const void *)&world.peer, sizeof(world.peer));
    }
}

static void send_over_dtls(const uint8_t *data, size_t len)
{
    if (world.ssl != NULL && !world.is_raw) {
        (void)SSL_write(world.ssl, data, (int)len);
        ERR_clear_error();
        send_records();
    } else if (world.peer.sin_port != 0) {
        (void)sendto(world.connection, data, len, MSG_DONTWAIT,
                     (const struct sockaddr *)(const void *)&world.peer, sizeof(world.peer));
    }
}

static void send_raw(const uint8_t *data, size_t len)
{
    if (world.connection < 0 || len == 0) {
        return;
    }
    if (is_own_dtls()) {
        send_over_dtls(data, len);
    } else if (world.ssl != NULL && !world.is_raw) {
        (void)SSL_write(world.ssl, data, (int)len);
        ERR_clear_error();
    } else {
        (void)send(world.connection, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

static void accept_connection(void)
{
    int fd = accept4(world.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        return;
    }
    drop_connection();
    world.connection = fd;
    if (is_tls()) {
        world.ssl = SSL_new(world.context);
        assert(world.ssl != NULL && SSL_set_fd(world.ssl, fd) == 1);
        SSL_set_accept_state(world.ssl);
    }
}

/* A datagram socket that has heard of its client is connected to it. */
static void hear_datagrams(void)
{
    struct sockaddr_in from;
    socklen_t from_len = sizeof(from);
    uint8_t buffer[2048];
    while (recvfrom(world.connection, buffer, sizeof(buffer), MSG_DONTWAIT,
                    (struct sockaddr *)(void *)&from, &from_len) > 0) {
        struct sockaddr_in none = {.sin_family = AF_UNSPEC};
        (void)connect(world.connection, (struct sockaddr *)(void *)&none, sizeof(none));
        (void)connect(world.connection, (struct sockaddr *)(void *)&from, from_len);
    }
}

/* OpenSSL's end of a DTLS session, for one client after the other. */
static void begin_session(void)
{
    forget_session();
    world.ssl = SSL_new(world.dtls_context);
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    assert(world.ssl != NULL && in != NULL && out != NULL);
    BIO_set_mem_eof_return(in, -1);
    SSL_set_bio(world.ssl, in, out);
    (void)SSL_set_options(world.ssl, SSL_OP_NO_QUERY_MTU);
    (void)DTLS_set_link_mtu(world.ssl, 1400);
    SSL_set_accept_state(world.ssl);
}

static void hear_own_dtls(void)
{
    struct sockaddr_in from;
    uint8_t buffer[4096];
    for (;;) {
        socklen_t from_len = sizeof(from);
        ssize_t len = recvfrom(world.connection, buffer, sizeof(buffer), MSG_DONTWAIT,
                               (struct sockaddr *)(void *)&from, &from_len);
        if (len <= 0) {
            return;
        }
        if (world.ssl == NULL || from.sin_port != world.peer.sin_port) {
            world.peer = from;
            begin_session();
        }
        if (world.is_raw) {
            continue;
        }
        (void)BIO_write(SSL_get_rbio(world.ssl), buffer, (int)len);
        int got;
        while ((got = SSL_read(world.ssl, buffer, sizeof(buffer))) > 0) {
            if (got >= (int)MESSAGE_HEADER_LEN) {
                world.last_mid = (uint16_t)(buffer[2] << 8 | buffer[3]);
            }
        }
        ERR_clear_error();
        send_records();
    }
}

static void upgrade(const char *data, size_t len)
{
    struct ws_request request;
    char answer[WS_ANSWER_MAX];
    if (world.head_len + len > sizeof(world.head)) {
        return;
    }
    memcpy(world.head + world.head_len, data, len);
    world.head_len += len;
    if (memmem(world.head, world.head_len, "\r\n\r\n", 4) != NULL) {
        int status = ws_upgrade_read(world.head, world.head_len, &request);
        assert(status == 101);
        world.is_upgraded = true;
        send_raw((const uint8_t *)answer, ws_upgrade_answer(status, &request, answer));
    }
}

static void hear(void)
{
    char buffer[4096];
    if (world.target.transport == TRANSPORT_DTLS) {
        if (world.connection >= 0 && is_own_dtls()) {
            hear_own_dtls();
        } else {
            hear_datagrams();
        }
        return;
    }
    accept_connection();
    for (int got = 1; world.connection >= 0 && got > 0;) {
        got = world.ssl != NULL && !world.is_raw
                  ? SSL_read(world.ssl, buffer, sizeof(buffer))
                  : (int)recv(world.connection, buffer, sizeof(buffer), MSG_DONTWAIT);
        ERR_clear_error();
        if (got > 0 && is_ws() && !world.is_upgraded && !world.is_raw) {
            upgrade(buffer, (size_t)got);
        }
    }
}

/* A message of RFC 7252: the acknowledgement of the client's last one, or another. */
static size_t write_head(uint8_t *frame, uint8_t code, const uint8_t *token, size_t token_len)
{
    uint8_t type = code & 3; /* what the input says: all four come up */
    uint16_t mid = type >= 2 ? world.last_mid : (uint16_t)world.serial;
    frame[0] = (uint8_t)(0x40u | (unsigned)type << 4 | token_len);
    frame[1] = code;
    frame[2] = (uint8_t)(mid >> 8);
    frame[3] = (uint8_t)mid;
    if (token_len > 0) {
        memcpy(frame + MESSAGE_HEADER_LEN, token, token_len);
    }
    return MESSAGE_HEADER_LEN + token_len;
}

/* A frame of RFC 8323, in a WebSocket's where there is one; a message where there are datagrams. */
static void send_message(uint8_t code, const uint8_t *token, size_t token_len, const uint8_t *data,
                         size_t len)
{
    uint8_t frame[300] = {0};
    size_t at = 0;
    if (is_own_dtls()) {
        at = write_head(frame, code, token, token_len);
        memcpy(frame + at, data, len);
        send_raw(frame, at + len);
        return;
    }
    if (is_ws()) {
        frame[at++] = 0x82;
        frame[at++] = (uint8_t)(2 + token_len + len < 126 ? 2 + token_len + len : 125);
        frame[at++] = (uint8_t)token_len;
    } else if (len < 13) {
        frame[at++] = (uint8_t)(len << 4 | token_len);
    } else {
        frame[at++] = (uint8_t)(0xd0 | token_len);
        frame[at++] = (uint8_t)(len - 13);
    }
    frame[at++] = code;
    if (token_len > 0) {
        memcpy(frame + at, token, token_len);
    }
    at += token_len;
    memcpy(frame + at, data, len);
    send_raw(frame, at + len);
}

/* --- what the input says ------------------------------------------------- */

static void run_turns(unsigned turns)
{
    for (unsigned i = 0; i < turns; i++) {
        assert(loop_run_turn(world.loop) == 0);
        hear();
        assert(atomic_load(&upstream_counters(world.upstream)->sessions) <= SESSIONS_MAX);
    }
}

static void act(uint8_t what, const uint8_t *data, size_t len)
{
    static const uint8_t csm[] = {0};
    const struct slot *slot = &world.slots[len > 0 ? data[0] % REQUESTS : 0];
    switch (what & 15) {
    case 0:
    case 1:
    case 2:
        ask(len > 0 ? data[0] : 0, data, len);
        break;
    case 3:
    case 4:
        send_message(CODE(7, 1), NULL, 0, csm, 0);
        break;
    case 5:
    case 6:
    case 7: /* a good response, and what is behind its token */
        if (len > 1) {
            send_message((uint8_t)(0x40 | (data[1] & 0x7f)), slot->token, TOKEN_LEN, data + 2,
                         len - 2);
        }
        break;
    case 8:
    case 9: /* any message: signals above all */
        if (len > 0) {
            send_message((uint8_t)(0xe0 | data[0]), NULL, 0, data + 1, len - 1);
        }
        break;
    case 10:
        world.is_raw = !world.is_raw;
        break;
    case 11:
        drop_connection();
        break;
    default:
        send_raw(data, len);
        break;
    }
}

/* --- life ---------------------------------------------------------------- */

static void origin_open(void)
{
    bool is_datagram = world.target.transport == TRANSPORT_DTLS;
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(name);
    int fd =
        socket(AF_INET, (is_datagram ? SOCK_DGRAM : SOCK_STREAM) | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert(fd >= 0 && bind(fd, (struct sockaddr *)(void *)&name, len) == 0);
    assert(is_datagram || listen(fd, 8) == 0);
    assert(getsockname(fd, (struct sockaddr *)(void *)&name, &len) == 0);
    world.listener = is_datagram ? -1 : fd;
    world.connection = is_datagram ? fd : -1;
    char text[32];
    int written = snprintf(text, sizeof(text), "127.0.0.1:%u", ntohs(name.sin_port));
    assert(address_parse(text, (size_t)written, 0, &world.target.address));
}

static void origin_close(void)
{
    drop_connection();
    if (world.listener >= 0) {
        (void)close(world.listener);
    }
    world.listener = -1;
}

static void world_open(uint8_t first)
{
    static const struct upstream_handler handler = {.on_response = on_response,
                                                    .on_failure = on_failure};
    static const enum transport transports[] = {TRANSPORT_TCP, TRANSPORT_WS, TRANSPORT_TLS,
                                                TRANSPORT_WSS, TRANSPORT_DTLS};
    world.target.transport = transports[first % 5];
    world.engine = first / 5 % 2 == 1 ? UPSTREAM_ENGINE_NATIVE : UPSTREAM_ENGINE_LIBCOAP;
    const struct upstream_options options = {
        .engine = world.engine,
        .sessions_max = SESSIONS_MAX,
        .requests_max = 16,
        .idle_ms = 60000,
        .handshake_ms = 10000,
        .back_off_ms = 1000,
        .back_off_max_ms = 60000,
        .message_bytes = 1152,
        .seed = 1,
    };
    world.is_raw = false;
    world.peer.sin_port = 0;
    origin_open();
    assert(loop_new(on_turn, NULL, &world.loop) == 0);
    assert(upstream_new(world.loop, &options, &handler, NULL, &world.upstream) == 0);
}

/* Whether a request may wait for a server that has gone: libcoap's clock does not jump, and of one
 * on datagrams that has answered only the client says when it is silent for too long. */
static bool may_wait(const struct slot *slot)
{
    return world.target.transport == TRANSPORT_DTLS &&
           (!is_own_dtls() || (slot->is_kept && slot->is_answered));
}

/* The origin server has gone: in the end nothing waits for it. */
static void world_close(void)
{
    origin_close();
    for (unsigned i = 0; i < END_TURNS; i++) {
        bool is_over = true;
        jumped_ms += 2000;
        run_turns(1);
        for (size_t j = 0; j < REQUESTS; j++) {
            is_over = is_over && world.slots[j].request == NULL;
        }
        if (is_over) {
            break;
        }
    }
    for (size_t i = 0; i < REQUESTS; i++) {
        assert(world.slots[i].request == NULL || may_wait(&world.slots[i]));
        if (world.slots[i].request != NULL) {
            upstream_cancel(world.upstream, world.slots[i].request, false);
            world.slots[i].request = NULL;
        }
    }
    upstream_free(world.upstream);
    loop_free(world.loop);
}

static void once(void)
{
    const struct upstream_credentials_options options = {.psk_identity = "i", .psk_key_hex = "01"};
    char why[256];
    if (world.context != NULL) {
        return;
    }
    log_set(LOG_ERROR, false);
    (void)signal(SIGPIPE, SIG_IGN); /* as the daemon does */
    world.credentials = upstream_credentials_load(&options, why, sizeof(why));
    world.context = SSL_CTX_new(TLS_server_method());
    assert(world.credentials != NULL && world.context != NULL);
    SSL_CTX_set_psk_server_callback(world.context, on_psk);
    (void)SSL_CTX_set_max_proto_version(world.context, TLS1_2_VERSION);
    world.dtls_context = SSL_CTX_new(DTLS_server_method());
    assert(world.dtls_context != NULL);
    assert(SSL_CTX_set_cipher_list(world.dtls_context, "PSK:@SECLEVEL=0") == 1);
    SSL_CTX_set_psk_server_callback(world.dtls_context, on_psk);
    world.target.credentials = world.credentials;
    world.target.ack_timeout_ms = 2000;
    world.target.ack_random_factor = 150;
    world.target.max_retransmit = 4;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint32_t jumps_ms[16] = {0,    0,    0,    0,     0,     0,     0,      0,
                                          1000, 1000, 5000, 11000, 61000, 61000, 600000, 3600000};
    if (size < 1 || size > INPUT_MAX) {
        return 0;
    }
    once();
    world_open(data[0]);
    run_turns(1);
    for (size_t at = 1; at + 2 <= size;) {
        uint8_t what = data[at];
        size_t len = data[at + 1] < size - at - 2 ? data[at + 1] : size - at - 2;
        jumped_ms += jumps_ms[what >> 4];
        act(what, data + at + 2, len);
        run_turns(TURNS);
        at += 2 + len;
    }
    world_close();
    return 0;
}
