/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CoAP messages over reliable transports (RFC 8323 section 3.2): framing as bytes
 * and back. A decoded frame is a struct message without type and message id.
 */
#ifndef CRIPROXY_FRAME_H
#define CRIPROXY_FRAME_H

#include "coap/message.h"

/* Signalling codes (RFC 8323 section 5). */
enum {
    CODE_CSM = CODE(7, 1),
    CODE_PING = CODE(7, 2),
    CODE_PONG = CODE(7, 3),
    CODE_RELEASE = CODE(7, 4),
    CODE_ABORT = CODE(7, 5),
};

/* Base value of Max-Message-Size. */
#define FRAME_BASE_MESSAGE_SIZE 1152u

/* First byte, 4 bytes of length, code, 2 bytes of token length. */
#define FRAME_HEAD_MAX 8u

enum frame_error {
    FRAME_OK = 0,
    FRAME_MORE,      /* the frame is not complete yet */
    FRAME_TOO_LARGE, /* longer than the limit: found out from its first bytes */
    FRAME_MALFORMED,
};

/**
 * Decode the frame at the start of @p data.
 *
 * @param message_max longest message that is taken, from the first byte of its header.
 * @param token_max   8, or what was negotiated (RFC 8974).
 * @param ret_len     bytes of the frame, on FRAME_OK; bytes needed to get on, on FRAME_MORE.
 * @param ret_message borrowed from @p data.
 */
enum frame_error frame_decode(const uint8_t *data, size_t len, size_t message_max, size_t token_max,
                              size_t *ret_len, struct message *ret_message);

/**
 * As frame_decode(), for one WebSocket message, in which Len is 0 and the content extends to the
 * end. @p ret_message borrows from @p data.
 */
enum frame_error frame_decode_ws(const uint8_t *data, size_t len, size_t token_max,
                                 struct message *ret_message);

/**
 * Encode in two steps: options and payload are written into a struct message_writer by
 * frame_writer_init(), as for a datagram, after room for the longest header; frame_finish() puts
 * the header in front of them. The writer borrows @p buffer; where header and token do not fit its
 * error (overflow) is set.
 */
void frame_writer_init(struct message_writer *writer, uint8_t *buffer, size_t capacity,
                       struct bytes token);

/**
 * @param is_ws WebSocket form: Len 0.
 * @return the frame, inside the writer's buffer; empty where it overflowed.
 */
struct bytes frame_finish(struct message_writer *writer, uint8_t code, struct bytes token,
                          bool is_ws);

#endif
