/* SPDX-License-Identifier: BSD-2-Clause */
/* Clients on datagrams, connections and sessions. */
#include "replay/chaos.h"

#include "coap/frame.h"
#include "coap/option.h"

#include <errno.h>
#include <stdio.h>

/* --- on datagrams --------------------------------------------------------- */

void chaos_client_asks(void)
{
    uint8_t buffer[MESSAGE_MAX];
    unsigned which = below(CLIENTS);
    struct fake_datagram *last = &chaos.last[which];
    if (!one_in(8) || last->len == 0) {
        last->len = chaos_request(buffer, sizeof(buffer), which);
        assert_true(last->len <= sizeof(last->data));
        memcpy(last->data, buffer, last->len);
    }
    fake_peer_send_bytes(chaos.clients[which], &chaos.proxy, last->data, last->len);
}

static void note_echo(unsigned client, const struct message *message)
{
    struct bytes echo;
    if (option_find(message->options, OPTION_echo, &echo) && echo.len <= sizeof(chaos.echo[0])) {
        memcpy(chaos.echo[client], echo.data, echo.len);
        chaos.echo_len[client] = echo.len;
    }
}

void chaos_to_client(void *context, struct fake_peer *peer, const struct fake_datagram *datagram)
{
    struct message message;
    (void)context;
    assert_true(chaos_decode(datagram, &message));
    for (unsigned i = 0; i < CLIENTS; i++) {
        if (chaos.clients[i] == peer) {
            note_echo(i, &message);
            chaos_check_answer(i, &message);
        }
    }
    if (message.code == CODE_EMPTY || message.type == MESSAGE_ACK) {
        return;
    }
    assert_true(message_is_response(&message));
    switch (below(8)) {
    case 0:
        fake_peer_reply(peer, datagram, "70 00 MID");
        break;
    case 1:
        break;
    case 2:
        fake_peer_reject(peer, datagram, ECONNREFUSED);
        break;
    default:
        if (message.type == MESSAGE_CON) {
            fake_peer_reply(peer, datagram, "60 00 MID");
        }
        break;
    }
}

/* --- on connections and sessions ------------------------------------------ */

static void send_hex(void (*send)(void *to, const char *hex), void *to, const uint8_t *data,
                     size_t len)
{
    static char hex[2 * MESSAGE_MAX + 1];
    for (size_t i = 0; i < len; i++) {
        (void)snprintf(hex + 2 * i, 3, "%02x", data[i]);
    }
    hex[2 * len] = '\0';
    send(to, hex);
}

static void on_stream(void *to, const char *hex)
{
    fake_stream_send(to, hex);
}

static void on_session(void *to, const char *hex)
{
    fake_dtls_send(to, hex);
}

static bool is_ws(unsigned which)
{
    return which % 2 == 1;
}

static void open_stream_again(unsigned which)
{
    static unsigned opened;
    char from[32];
    (void)snprintf(from, sizeof(from), "192.0.2.%u:%u", one_in(2) ? 7u : 65u,
                   1024 + opened++ % 60000);
    chaos.streams[which] = fake_stream_connect(is_ws(which) ? TRANSPORT_WS : TRANSPORT_TCP, from);
    if (chaos.streams[which] != NULL && !one_in(20)) {
        /* A CSM with blocks and, half the time, long messages. */
        bool is_long = one_in(2);
        fake_stream_send(chaos.streams[which], is_ws(which)
                                                   ? (is_long ? "00 e1 22 2000 20" : "00 e1")
                                               : is_long ? "40 e1 22 2000 20"
                                                         : "00 e1");
    }
}

/* What has come on a connection, in messages. */
static void look_at(struct fake_stream *stream, unsigned which)
{
    static uint8_t bytes[1 << 18];
    struct message message;
    for (size_t len, at; (len = fake_stream_take_message(stream, bytes, sizeof(bytes))) > 0;) {
        size_t used = len;
        for (at = 0; at < len; at += used) {
            enum frame_error error =
                is_ws(which)
                    ? frame_decode_ws(bytes, len, 64, &message)
                    : frame_decode(bytes + at, len - at, sizeof(bytes), 64, &used, &message);
            if (error != FRAME_OK) {
                break; /* the connection closes in the middle of it */
            }
            chaos_check_answer(CLIENTS + which, &message);
        }
    }
}

void chaos_stream_acts(void)
{
    uint8_t buffer[MESSAGE_MAX];
    unsigned which = below(STREAMS);
    struct fake_stream *stream = chaos.streams[which];
    if (stream == NULL || fake_stream_is_closed(stream)) {
        open_stream_again(which);
        return;
    }
    look_at(stream, which);
    if (fake_stream_is_closed(stream)) {
        return;
    }
    switch (below(24)) {
    case 0:
        fake_stream_close(stream);
        break;
    case 1:
        (void)fake_stream_idle(stream);
        break;
    case 2:
        fake_stream_stop_reading(stream, one_in(3));
        break;
    default: {
        struct bytes frame = chaos_frame(buffer, CLIENTS + which, is_ws(which));
        send_hex(on_stream, stream, frame.data, frame.len);
        break;
    }
    }
}

void chaos_session_acts(void)
{
    uint8_t buffer[MESSAGE_MAX];
    size_t len;
    unsigned which = below(SESSIONS);
    struct dtls_session **session = &chaos.sessions[which];
    if (*session == NULL || !fake_dtls_is_open(*session)) {
        *session = fake_dtls_open(which == 0 ? "192.0.2.7:50001" : "192.0.2.65:50002");
        if (one_in(2)) {
            fake_dtls_identify(*session, which == 0 ? "alice" : "bob", NULL);
        }
        return;
    }
    while (fake_dtls_take(*session, buffer, sizeof(buffer), &len)) {
        struct message message;
        assert_int_equal(message_decode(buffer, len, &message), MESSAGE_OK);
        chaos_check_answer(CLIENTS + STREAMS + which, &message);
        if (message.type == MESSAGE_CON && message.code != CODE_EMPTY && !one_in(4)) {
            uint8_t empty[4] = {one_in(8) ? 0x70 : 0x60, 0, buffer[2], buffer[3]};
            send_hex(on_session, *session, empty, sizeof(empty));
            if (!fake_dtls_is_open(*session)) {
                return;
            }
        }
    }
    if (one_in(12)) {
        fake_dtls_close(*session);
    } else if (one_in(20)) {
        *session = fake_dtls_replace(*session);
    } else {
        len = chaos_request(buffer, sizeof(buffer), CLIENTS + STREAMS + which);
        send_hex(on_session, *session, buffer, len);
    }
}
