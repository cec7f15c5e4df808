/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any bytes as what came over a reliable transport (RFC 8323 section 3.2): a whole
 * frame that can be written again byte for byte, the wish for more bytes, or a
 * fault; and the same in the form of WebSockets. The first byte gives the limits.
 */
#include "coap/frame.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HEAD_ROOM 8u

static void check_good(const uint8_t *data, size_t len, const struct message *message, bool is_ws)
{
    struct message_writer writer;
    struct option_iter iter;
    struct option option;
    uint8_t *buffer = malloc(len + HEAD_ROOM);
    if (buffer == NULL) {
        return;
    }
    frame_writer_init(&writer, buffer, len + HEAD_ROOM, message->token);
    option_iter_init(&iter, message->options);
    while (option_iter_next(&iter, &option)) {
        message_writer_option(&writer, option.number, option.value);
    }
    message_writer_payload(&writer, message->payload);
    struct bytes again = frame_finish(&writer, message->code, message->token, is_ws);
    assert(again.len == len && memcmp(again.data, data, len) == 0);
    free(buffer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const size_t limits[] = {2, 64, 1152, 65536};
    struct message message;
    size_t len = 0;
    if (size < 1) {
        return 0;
    }
    size_t message_max = limits[data[0] & 3], token_max = (data[0] & 4) != 0 ? 8 : 65804;
    data++;
    size--;
    switch (frame_decode(data, size, message_max, token_max, &len, &message)) {
    case FRAME_OK:
        assert(len <= size && len <= message_max && message.token.len <= token_max);
        check_good(data, len, &message, false);
        break;
    case FRAME_MORE:
        assert(len > size);
        break;
    case FRAME_TOO_LARGE:
    case FRAME_MALFORMED:
        break;
    }
    if (frame_decode_ws(data, size, token_max, &message) == FRAME_OK) {
        check_good(data, size, &message, true);
    }
    return 0;
}
