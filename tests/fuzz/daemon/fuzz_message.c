/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any bytes as a datagram: refused, or understood so well that they can be
 * written again byte for byte (RFC 7252 section 3 leaves no choice), in exactly
 * as much room and in no less.
 */
#include "coap/message.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_again(struct message_writer *writer, uint8_t *buffer, size_t capacity,
                        const struct message *message)
{
    struct option_iter iter;
    struct option option;
    uint16_t number = 0;
    message_writer_init(writer, buffer, capacity, message->type, message->code, message->mid,
                        message->token);
    option_iter_init(&iter, message->options);
    while (option_iter_next(&iter, &option)) {
        assert(option.number >= number);
        number = option.number;
        message_writer_option(writer, option.number, option.value);
    }
    message_writer_payload(writer, message->payload);
}

static void check_good(const uint8_t *data, size_t size, const struct message *message)
{
    uint8_t *buffer = malloc(size);
    struct message_writer writer;
    if (buffer == NULL) {
        return;
    }
    write_again(&writer, buffer, size, message);
    assert(!writer.overflow && writer.len == size && memcmp(buffer, data, size) == 0);
    free(buffer);

    buffer = malloc(size - 1);
    if (buffer == NULL) {
        return;
    }
    write_again(&writer, buffer, size - 1, message);
    assert(writer.overflow);
    free(buffer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct message message;
    switch (message_decode(data, size, &message)) {
    case MESSAGE_TOO_SHORT:
        assert(size < 4);
        break;
    case MESSAGE_VERSION:
        assert(data[0] >> 6 != 1);
        break;
    case MESSAGE_FORMAT_ERROR:
        assert(message.code == data[1] && message.mid == (data[2] << 8 | data[3]));
        break;
    case MESSAGE_OK:
        check_good(data, size, &message);
        break;
    }
    return 0;
}
