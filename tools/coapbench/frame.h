/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages on reliable transports (RFC 8323 section 3.2), to and from the datagrams that the load
 * speaks: options and payload are the same bytes, so only the heads differ. A frame, which has no
 * type and message ID, becomes a NON with message ID 0.
 */
#ifndef COAPBENCH_FRAME_H
#define COAPBENCH_FRAME_H

#include <stddef.h>
#include <stdint.h>

enum {
    FRAME_HEAD_MAX = 6, /* Len/TKL, extended length, code: the most bytes that a frame adds */
    FRAME_CSM = 7 << 5 | 1,
    FRAME_PING = 7 << 5 | 2,
    FRAME_PONG = 7 << 5 | 3,
};

enum frame_result {
    FRAME_WHOLE,
    FRAME_MORE,      /* bytes are missing */
    FRAME_MALFORMED, /* or longer than there is room for */
};

/** @return the frame's length; 0 where @p datagram is no message or there is no room. */
size_t frame_of_datagram(const uint8_t *datagram, size_t len, uint8_t *frame, size_t capacity);

/**
 * The first frame of @p bytes as a datagram.
 *
 * @param ret_used  its bytes; set when it is whole
 * @param ret_len   of the datagram
 */
enum frame_result frame_to_datagram(const uint8_t *bytes, size_t len, size_t *ret_used,
                                    uint8_t *datagram, size_t capacity, size_t *ret_len);

#endif
