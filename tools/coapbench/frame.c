/* SPDX-License-Identifier: BSD-2-Clause */
#include "frame.h"

#include "wire.h"

#include <stdbool.h>
#include <string.h>

enum {
    LEN_8 = 13,  /* one more byte holds the length less 13 */
    LEN_16 = 14, /* two more bytes hold it less 269 */
    LEN_32 = 15, /* four, less 65805: longer than anything we take */
    LEN_8_BASE = 13,
    LEN_16_BASE = 269,
    LEN_32_BASE = 65805,
    TOKEN_RESERVED = 15,
};

/* Bytes of the token and of its extended length (RFC 8974 section 2.1), of @p left bytes. */
static bool token_bytes(unsigned nibble, const uint8_t *at, size_t left, size_t *ret_bytes)
{
    size_t extension = nibble == LEN_8 ? 1 : nibble == LEN_16 ? 2 : 0;

    if (nibble == TOKEN_RESERVED || extension > left) {
        return false;
    }
    *ret_bytes = nibble;
    if (extension == 1) {
        *ret_bytes = 1 + LEN_8_BASE + (size_t)at[0];
    } else if (extension == 2) {
        *ret_bytes = 2 + LEN_16_BASE + ((size_t)at[0] << 8 | at[1]);
    }
    return true;
}

size_t frame_of_datagram(const uint8_t *datagram, size_t len, uint8_t *frame, size_t capacity)
{
    size_t token, body, head = 2;

    if (len < WIRE_HEADER_LEN || len > LEN_32_BASE || capacity < FRAME_HEAD_MAX ||
        !token_bytes(datagram[0] & 15u, datagram + WIRE_HEADER_LEN, len - WIRE_HEADER_LEN,
                     &token) ||
        token > len - WIRE_HEADER_LEN || len - WIRE_HEADER_LEN > capacity - FRAME_HEAD_MAX) {
        return 0;
    }
    body = len - WIRE_HEADER_LEN - token;
    frame[0] = (uint8_t)(datagram[0] & 15u);
    if (body < LEN_8_BASE) {
        frame[0] |= (uint8_t)(body << 4);
    } else if (body < LEN_16_BASE) {
        frame[0] |= LEN_8 << 4;
        frame[1] = (uint8_t)(body - LEN_8_BASE);
        head = 3;
    } else {
        frame[0] |= LEN_16 << 4;
        frame[1] = (uint8_t)((body - LEN_16_BASE) >> 8);
        frame[2] = (uint8_t)(body - LEN_16_BASE);
        head = 4;
    }
    frame[head - 1] = datagram[1];
    memcpy(frame + head, datagram + WIRE_HEADER_LEN, token + body);
    return head + token + body;
}

/* The length of options and payload, and of the head that says it. */
static enum frame_result read_length(const uint8_t *bytes, size_t len, size_t *ret_head,
                                     size_t *ret_body)
{
    unsigned nibble;

    if (len < 1) {
        return FRAME_MORE;
    }
    nibble = bytes[0] >> 4;
    *ret_head = nibble == LEN_8 ? 3 : nibble == LEN_16 ? 4 : nibble == LEN_32 ? 6 : 2;
    if (len < *ret_head) {
        return FRAME_MORE;
    }
    *ret_body = nibble;
    if (nibble == LEN_8) {
        *ret_body = LEN_8_BASE + (size_t)bytes[1];
    } else if (nibble == LEN_16) {
        *ret_body = LEN_16_BASE + ((size_t)bytes[1] << 8 | bytes[2]);
    }
    return nibble == LEN_32 ? FRAME_MALFORMED : FRAME_WHOLE;
}

enum frame_result frame_to_datagram(const uint8_t *bytes, size_t len, size_t *ret_used,
                                    uint8_t *datagram, size_t capacity, size_t *ret_len)
{
    static const size_t token_extension[16] = {[LEN_8] = 1, [LEN_16] = 2};
    size_t head = 0, body = 0, token = 0;
    enum frame_result result = read_length(bytes, len, &head, &body);

    if (result != FRAME_WHOLE) {
        return result;
    }
    if (len - head < token_extension[bytes[0] & 15u]) {
        return FRAME_MORE;
    }
    if (!token_bytes(bytes[0] & 15u, bytes + head, len - head, &token) ||
        capacity < WIRE_HEADER_LEN || token + body > capacity - WIRE_HEADER_LEN) {
        return FRAME_MALFORMED;
    }
    if (len - head < token + body) {
        return FRAME_MORE;
    }
    datagram[0] = (uint8_t)(1 << 6 | WIRE_NON << 4 | (bytes[0] & 15u));
    datagram[1] = bytes[head - 1];
    datagram[2] = 0;
    datagram[3] = 0;
    memcpy(datagram + WIRE_HEADER_LEN, bytes + head, token + body);
    *ret_used = head + token + body;
    *ret_len = WIRE_HEADER_LEN + token + body;
    return FRAME_WHOLE;
}
