/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections of the fake network: same symbols as net/conn.h. A test connects,
 * sends bytes in pieces of its choice, and looks at what came back.
 *
 *     struct fake_stream *client = fake_stream_connect(TRANSPORT_TCP, "192.0.2.7:40001");
 *     fake_stream_expect(client, "?? e1 ...");      the proxy's CSM
 *     fake_stream_send(client, "00 e1");            ours
 */
#ifndef CRIPROXY_FAKE_CONN_H
#define CRIPROXY_FAKE_CONN_H

#include "net/conn.h"

struct fake_stream;

/** To the listener of that transport; NULL where it refuses. Freed by fake_streams_free(). */
struct fake_stream *fake_stream_connect(enum transport transport, const char *from);

/** The same with the listener on @p loop, of several workers; NULL: any. */
struct fake_stream *fake_stream_connect_at(enum transport transport, const struct loop *loop,
                                           const char *from);

/** The Host field of its handshake was @p host, borrowed. */
void fake_stream_set_host(struct fake_stream *stream, const char *host);

/** The peer is the owner of the key of @p psk_identity: set before its CSM comes. */
void fake_stream_identify(struct fake_stream *stream, const char *psk_identity);

/** Bytes arrive, in one piece. On WebSockets: one message. */
void fake_stream_send(struct fake_stream *stream, const char *hex);

/** The same, one byte at a time. */
void fake_stream_send_slowly(struct fake_stream *stream, const char *hex);

/**
 * What has come back and was not looked at yet begins with @p pattern: hex with
 * '?' for any nibble; those bytes count as looked at.
 */
void fake_stream_expect(struct fake_stream *stream, const char *pattern);

/** What has come back counts as looked at, and its room is free again. */
void fake_stream_forget(struct fake_stream *stream);

/** The same with the bytes themselves. */
void fake_stream_send_bytes(struct fake_stream *stream, const uint8_t *data, size_t len);

/** What has come back and was not looked at yet, as far as it fits. @return how many bytes */
size_t fake_stream_take(struct fake_stream *stream, uint8_t *buffer, size_t capacity);

/** The same, but of WebSockets no more than one message. */
size_t fake_stream_take_message(struct fake_stream *stream, uint8_t *buffer, size_t capacity);

/** Bytes that have come back and were not looked at yet. */
size_t fake_stream_waiting(const struct fake_stream *stream);

/**
 * Nothing has come or gone for the idle time-out. What the proxy said: how long the
 * connection stays, in ms; where that is 0, it is closed.
 */
uint32_t fake_stream_idle(struct fake_stream *stream);

/** How much the proxy says that it needs the connection, where it has too many. */
enum conn_need fake_stream_need(const struct fake_stream *stream);

/** The peer closes the connection. */
void fake_stream_close(struct fake_stream *stream);

/** Whether the proxy has closed it. */
bool fake_stream_is_closed(const struct fake_stream *stream);
bool fake_stream_is_paused(const struct fake_stream *stream);

/** From now on nothing is taken from the proxy: conn_send() says that it is too much. */
void fake_stream_stop_reading(struct fake_stream *stream, bool stop);

/** After the engine has gone. */
void fake_streams_free(void);

#endif
