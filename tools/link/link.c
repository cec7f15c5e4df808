/* SPDX-License-Identifier: BSD-2-Clause */
#include "link.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <wslay/wslay.h>

#define HEAD_MAX 4096u
#define INPUT_MAX 65536u
#define SUITES "PSK-AES128-CCM8:PSK-AES128-GCM-SHA256:PSK-AES128-CBC-SHA256"

struct ws_message {
    struct ws_message *next;
    size_t len;
    uint8_t bytes[];
};

struct link {
    const struct proxy *proxy;
    int fd;
    bool is_closed;
    SSL_CTX *context;
    SSL *ssl;
    wslay_event_context_ptr ws;
    struct ws_message *first, **end; /* WebSocket messages that have come */
    size_t input_len;                /* bytes behind the head of the WebSocket handshake */
    uint8_t input[INPUT_MAX];
};

unsigned long long link_now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000;
}

unsigned long long link_now_ms(void)
{
    return link_now_us() / 1000;
}

/* Whether @p fd is ready for @p events before the deadline. */
static bool link_wait(int fd, short events, unsigned long long deadline_ms)
{
    struct pollfd wanted = {.fd = fd, .events = events};
    unsigned long long now_ms = link_now_ms();
    int left_ms = deadline_ms > now_ms ? (int)(deadline_ms - now_ms) : 0;
    return poll(&wanted, 1, left_ms) > 0;
}

/* --- DTLS ------------------------------------------------------------------ */

/* OpenSSL's own six parameters. NOLINTNEXTLINE(readability-function-size) */
static unsigned give_key(SSL *ssl, const char *hint, char *identity, unsigned identity_capacity,
                         unsigned char *key, unsigned key_capacity)
{
    const struct proxy *proxy = SSL_get_app_data(ssl);
    size_t identity_len = strlen(proxy->identity), key_len = strlen(proxy->key);
    (void)hint;
    if (identity_len >= identity_capacity || key_len > key_capacity) {
        return 0;
    }
    memcpy(identity, proxy->identity, identity_len + 1);
    memcpy(key, proxy->key, key_len);
    return (unsigned)key_len;
}

static const char *shake_hands(struct link *link, unsigned long long deadline_ms)
{
    for (;;) {
        int done = SSL_connect(link->ssl);
        int error = done == 1 ? SSL_ERROR_NONE : SSL_get_error(link->ssl, done);
        ERR_clear_error();
        if (done == 1) {
            return NULL;
        }
        if (error != SSL_ERROR_WANT_READ || link_now_ms() >= deadline_ms) {
            return "the DTLS handshake failed";
        }
        unsigned long long soon_ms = link_now_ms() + 250;
        (void)link_wait(link->fd, POLLIN, soon_ms < deadline_ms ? soon_ms : deadline_ms);
        (void)DTLSv1_handle_timeout(link->ssl);
    }
}

static const char *open_dtls(struct link *link, unsigned long long deadline_ms)
{
    link->context = SSL_CTX_new(DTLS_client_method());
    if (link->context == NULL) {
        return "no memory for DTLS";
    }
    SSL_CTX_set_security_level(link->context, 0); /* CCM_8, which RFC 7252 demands, is below */
    SSL_CTX_set_psk_client_callback(link->context, give_key);
    if (SSL_CTX_set_min_proto_version(link->context, DTLS1_2_VERSION) != 1 ||
        SSL_CTX_set_cipher_list(link->context, SUITES) != 1) {
        return "OpenSSL has none of the suites";
    }
    BIO *bio = BIO_new_dgram(link->fd, BIO_NOCLOSE);
    link->ssl = SSL_new(link->context);
    if (bio == NULL || link->ssl == NULL) {
        BIO_free(bio);
        return "no memory for DTLS";
    }
    (void)BIO_ctrl(bio, BIO_CTRL_DGRAM_SET_CONNECTED, 0, (void *)(uintptr_t)&link->proxy->address);
    SSL_set_app_data(link->ssl, (void *)(uintptr_t)link->proxy);
    SSL_set_bio(link->ssl, bio, bio);
    return shake_hands(link, deadline_ms);
}

/* --- WebSockets ------------------------------------------------------------ */

/* Signatures of this and the next three are wslay's. */
static ssize_t ws_take_bytes(wslay_event_context_ptr ws, uint8_t *buffer, size_t capacity,
                             int flags, void *user)
{
    struct link *link = user;
    size_t len = link->input_len < capacity ? link->input_len : capacity;
    (void)flags;
    if (len == 0) {
        wslay_event_set_error(ws, WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    memcpy(buffer, link->input, len);
    memmove(link->input, link->input + len, link->input_len - len);
    link->input_len -= len;
    return (ssize_t)len;
}

static ssize_t ws_give_bytes(wslay_event_context_ptr ws, const uint8_t *data, size_t len, int flags,
                             void *user)
{
    struct link *link = user;
    (void)flags;
    ssize_t sent = send(link->fd, data, len, MSG_NOSIGNAL);
    if (sent < 0) {
        wslay_event_set_error(ws, WSLAY_ERR_CALLBACK_FAILURE);
    }
    return sent;
}

static int ws_make_mask(wslay_event_context_ptr ws, uint8_t *buffer, size_t len, void *user)
{
    (void)ws;
    (void)user;
    return RAND_bytes(buffer, (int)len) == 1 ? 0 : -1;
}

static void ws_on_message(wslay_event_context_ptr ws,
                          const struct wslay_event_on_msg_recv_arg *arrived, void *user)
{
    struct link *link = user;
    (void)ws;
    if (wslay_is_ctrl_frame(arrived->opcode)) {
        link->is_closed = link->is_closed || arrived->opcode == WSLAY_CONNECTION_CLOSE;
        return;
    }
    struct ws_message *message = malloc(sizeof(*message) + arrived->msg_length);
    if (message == NULL) {
        link->is_closed = true;
        return;
    }
    message->next = NULL;
    message->len = arrived->msg_length;
    if (message->len > 0) {
        memcpy(message->bytes, arrived->msg, message->len);
    }
    *link->end = message;
    link->end = &message->next;
}

/* The request that opens the connection (RFC 6455 section 4.1, RFC 8323 section 4). */
static bool ws_ask(struct link *link)
{
    unsigned char nonce[16], key[32];
    char head[512];
    if (RAND_bytes(nonce, sizeof(nonce)) != 1) {
        return false;
    }
    (void)EVP_EncodeBlock(key, nonce, sizeof(nonce));
    int len = snprintf(head, sizeof(head),
                       "GET /.well-known/coap HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\n"
                       "Connection: Upgrade\r\nSec-WebSocket-Key: %s\r\n"
                       "Sec-WebSocket-Protocol: coap\r\nSec-WebSocket-Version: 13\r\n\r\n",
                       link->proxy->host, (const char *)key);
    return len > 0 && (size_t)len < sizeof(head) &&
           send(link->fd, head, (size_t)len, MSG_NOSIGNAL) == len;
}

static const char *open_ws(struct link *link, unsigned long long deadline_ms)
{
    static const struct wslay_event_callbacks calls = {.recv_callback = ws_take_bytes,
                                                       .send_callback = ws_give_bytes,
                                                       .genmask_callback = ws_make_mask,
                                                       .on_msg_recv_callback = ws_on_message};
    const uint8_t *end = NULL;
    if (!ws_ask(link)) {
        return "the WebSocket handshake could not be sent";
    }
    while (end == NULL) {
        if (link->input_len == HEAD_MAX || !link_wait(link->fd, POLLIN, deadline_ms)) {
            return "no answer to the WebSocket handshake";
        }
        ssize_t len = recv(link->fd, link->input + link->input_len, HEAD_MAX - link->input_len, 0);
        if (len <= 0) {
            return "the proxy closed the connection in the WebSocket handshake";
        }
        link->input_len += (size_t)len;
        end = memmem(link->input, link->input_len, "\r\n\r\n", 4);
    }
    if (memcmp(link->input, "HTTP/1.1 101", 12) != 0) {
        return "the proxy does not upgrade to WebSockets";
    }
    size_t head_len = (size_t)(end - link->input) + 4;
    memmove(link->input, link->input + head_len, link->input_len - head_len);
    link->input_len -= head_len;
    return wslay_event_context_client_init(&link->ws, &calls, link) == 0 ? NULL : "no memory";
}

/* The oldest WebSocket message that has come; false: none has. */
static bool ws_take_message(struct link *link, uint8_t *buffer, size_t capacity, size_t *ret_len)
{
    struct ws_message *message = link->first;
    if (message == NULL) {
        return false;
    }
    *ret_len = message->len < capacity ? message->len : capacity;
    memcpy(buffer, message->bytes, *ret_len);
    link->first = message->next;
    link->end = link->first != NULL ? link->end : &link->first;
    free(message);
    return true;
}

static enum arrival receive_ws(struct link *link, unsigned long long deadline_ms, uint8_t *buffer,
                               size_t capacity, size_t *ret_len)
{
    for (;;) {
        if (link->input_len > 0 && wslay_event_recv(link->ws) != 0) {
            link->is_closed = true;
        }
        if (ws_take_message(link, buffer, capacity, ret_len)) {
            return ARRIVAL_MESSAGE;
        }
        if (link->is_closed) {
            return ARRIVAL_CLOSED;
        }
        if (!link_wait(link->fd, POLLIN, deadline_ms)) {
            return ARRIVAL_NOTHING;
        }
        ssize_t len = recv(link->fd, link->input + link->input_len, INPUT_MAX - link->input_len, 0);
        link->is_closed = len <= 0;
        link->input_len += len > 0 ? (size_t)len : 0;
    }
}

/* --- all ------------------------------------------------------------------- */

static const char *connect_socket(struct link *link, unsigned long long deadline_ms)
{
    const struct proxy *proxy = link->proxy;
    bool is_stream = proxy->way == WAY_TCP || proxy->way == WAY_WS;
    int error = 0;
    socklen_t error_len = sizeof(error);
    link->fd = socket(proxy->address.ss_family,
                      (is_stream ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (link->fd < 0) {
        return "no socket";
    }
    if (connect(link->fd, (const struct sockaddr *)&proxy->address, proxy->address_len) != 0 &&
        errno != EINPROGRESS) {
        return "the proxy cannot be reached";
    }
    if (is_stream &&
        (!link_wait(link->fd, POLLOUT, deadline_ms) ||
         getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &error_len) != 0 || error != 0)) {
        return "no connection to the proxy";
    }
    return NULL;
}

const char *link_open(const struct proxy *proxy, unsigned long long deadline_ms,
                      struct link **ret_link)
{
    struct link *link = calloc(1, sizeof(*link));
    *ret_link = NULL;
    if (link == NULL) {
        return "no memory";
    }
    link->proxy = proxy;
    link->end = &link->first;
    const char *fault = connect_socket(link, deadline_ms);
    if (fault == NULL && proxy->way == WAY_DTLS) {
        fault = open_dtls(link, deadline_ms);
    } else if (fault == NULL && proxy->way == WAY_WS) {
        fault = open_ws(link, deadline_ms);
    }
    if (fault != NULL) {
        link_close(link);
        return fault;
    }
    *ret_link = link;
    return NULL;
}

void link_close(struct link *link)
{
    if (link == NULL) {
        return;
    }
    if (link->ws != NULL) {
        wslay_event_context_free(link->ws);
    }
    while (link->first != NULL) {
        struct ws_message *message = link->first;
        link->first = message->next;
        free(message);
    }
    if (link->ssl != NULL) {
        (void)SSL_shutdown(link->ssl);
        ERR_clear_error();
    }
    SSL_free(link->ssl);
    SSL_CTX_free(link->context);
    if (link->fd >= 0) {
        (void)close(link->fd);
    }
    free(link);
}

static const char *send_all(struct link *link, const uint8_t *bytes, size_t len)
{
    unsigned long long deadline_ms = link_now_ms() + 2000;
    while (len > 0) {
        ssize_t sent = send(link->fd, bytes, len, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN && link_wait(link->fd, POLLOUT, deadline_ms)) {
            continue;
        }
        if (sent < 0) {
            return "the connection is closed";
        }
        bytes += sent;
        len -= (size_t)sent;
    }
    return NULL;
}

const char *link_send(struct link *link, const uint8_t *bytes, size_t len)
{
    if (link->ssl != NULL) {
        bool is_sent = len == 0 || SSL_write(link->ssl, bytes, (int)len) > 0;
        ERR_clear_error();
        return is_sent ? NULL : "the DTLS session is over";
    }
    if (link->ws != NULL) {
        struct wslay_event_msg message = {WSLAY_BINARY_FRAME, bytes, len};
        return wslay_event_queue_msg(link->ws, &message) == 0 && wslay_event_send(link->ws) == 0
                   ? NULL
                   : "the connection is closed";
    }
    if (link->proxy->way == WAY_TCP) {
        return send_all(link, bytes, len);
    }
    if (send(link->fd, bytes, len, MSG_NOSIGNAL) < 0) { /* an ICMP error of the one before */
        return send(link->fd, bytes, len, MSG_NOSIGNAL) < 0 ? "the proxy cannot be reached" : NULL;
    }
    return NULL;
}

static enum arrival receive_dtls(struct link *link, unsigned long long deadline_ms, uint8_t *buffer,
                                 size_t capacity, size_t *ret_len)
{
    for (;;) {
        int len = SSL_read(link->ssl, buffer, (int)(capacity < 65536 ? capacity : 65536));
        int error = len > 0 ? SSL_ERROR_NONE : SSL_get_error(link->ssl, len);
        ERR_clear_error();
        if (len > 0) {
            *ret_len = (size_t)len;
            return ARRIVAL_MESSAGE;
        }
        if (error != SSL_ERROR_WANT_READ) {
            return ARRIVAL_CLOSED;
        }
        if (!link_wait(link->fd, POLLIN, deadline_ms)) {
            return ARRIVAL_NOTHING;
        }
    }
}

enum arrival link_receive(struct link *link, unsigned long long deadline_ms, uint8_t *buffer,
                          size_t capacity, size_t *ret_len)
{
    if (link->ssl != NULL) {
        return receive_dtls(link, deadline_ms, buffer, capacity, ret_len);
    }
    if (link->ws != NULL) {
        return receive_ws(link, deadline_ms, buffer, capacity, ret_len);
    }
    while (link_wait(link->fd, POLLIN, deadline_ms)) {
        ssize_t len = recv(link->fd, buffer, capacity, 0);
        if (len > 0 || (len == 0 && link->proxy->way == WAY_UDP)) {
            *ret_len = (size_t)len;
            return ARRIVAL_MESSAGE;
        }
        if (link->proxy->way == WAY_TCP && (len == 0 || errno != EAGAIN)) {
            return ARRIVAL_CLOSED;
        }
    }
    return ARRIVAL_NOTHING;
}
