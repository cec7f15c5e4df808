/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire.h"

#include <string.h>

struct output {
    uint8_t *buffer;
    size_t capacity, len;
    bool is_full;
};

struct input {
    const uint8_t *data;
    size_t len;
};

static void wire_put(struct output *output, const void *data, size_t len)
{
    if (len > output->capacity - output->len) {
        output->is_full = true;
        return;
    }
    if (len > 0) {
        memcpy(output->buffer + output->len, data, len);
    }
    output->len += len;
}

static void wire_put_byte(struct output *output, size_t byte)
{
    uint8_t value = (uint8_t)byte;
    wire_put(output, &value, 1);
}

/* The nibble for a number that has 13, 14 and, where it is a length in a stream, 15 as escapes. */
static unsigned wire_nibble(size_t value)
{
    return value < 13 ? (unsigned)value : value < 269 ? 13 : value < 65805 ? 14 : 15;
}

static void wire_put_extension(struct output *output, size_t value)
{
    if (value >= 65805) {
        wire_put_byte(output, (value - 65805) >> 24);
        wire_put_byte(output, (value - 65805) >> 16);
        wire_put_byte(output, (value - 65805) >> 8);
        wire_put_byte(output, value - 65805);
    } else if (value >= 269) {
        wire_put_byte(output, (value - 269) >> 8);
        wire_put_byte(output, value - 269);
    } else if (value >= 13) {
        wire_put_byte(output, value - 13);
    }
}

/* Options in order of their numbers (RFC 7252 section 3.1); there are few, so by insertion. */
static void sort_options(const struct wire_message *message, size_t order[static WIRE_OPTIONS_MAX])
{
    for (size_t i = 0; i < message->option_count; i++) {
        size_t at = i;
        while (at > 0 && message->options[order[at - 1]].number > message->options[i].number) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = i;
    }
}

static void put_content(const struct wire_message *message, struct output *output)
{
    size_t order[WIRE_OPTIONS_MAX] = {0};
    uint32_t number = 0;
    sort_options(message, order);
    for (size_t i = 0; i < message->option_count; i++) {
        const struct wire_option *option = &message->options[order[i]];
        uint32_t delta = option->number - number;
        wire_put_byte(output, wire_nibble(delta) << 4 | wire_nibble(option->value.len));
        wire_put_extension(output, delta);
        wire_put_extension(output, option->value.len);
        wire_put(output, option->value.data, option->value.len);
        number = option->number;
    }
    if (message->payload.len > 0) {
        wire_put_byte(output, 0xff);
        wire_put(output, message->payload.data, message->payload.len);
    }
}

static size_t content_len(const struct wire_message *message)
{
    static const size_t roomy = SIZE_MAX / 2;
    size_t order[WIRE_OPTIONS_MAX] = {0};
    size_t len = message->payload.len > 0 ? 1 + message->payload.len : 0;
    uint32_t number = 0;
    sort_options(message, order);
    for (size_t i = 0; i < message->option_count && len < roomy; i++) {
        const struct wire_option *option = &message->options[order[i]];
        size_t delta = option->number - number, value_len = option->value.len;
        len += 1 + (delta >= 269 ? 2u : delta >= 13 ? 1u : 0u);
        len += value_len + (value_len >= 269 ? 2u : value_len >= 13 ? 1u : 0u);
        number = option->number;
    }
    return len;
}

size_t wire_encode(const struct wire_message *message, uint8_t *buffer, size_t capacity)
{
    struct output output = {.buffer = buffer, .capacity = capacity};
    unsigned tkl = wire_nibble(message->token.len);
    if (message->framing == WIRE_DATAGRAM) {
        wire_put_byte(&output, 0x40u | (unsigned)message->type << 4 | tkl);
        wire_put_byte(&output, message->code);
        wire_put_byte(&output, message->mid >> 8);
        wire_put_byte(&output, message->mid);
    } else if (message->framing == WIRE_CONTENT) {
        wire_put_byte(&output, message->code);
    } else {
        size_t len = message->framing == WIRE_STREAM ? content_len(message) : 0;
        wire_put_byte(&output, wire_nibble(len) << 4 | tkl);
        wire_put_extension(&output, len);
        wire_put_byte(&output, message->code);
    }
    if (message->framing != WIRE_CONTENT) {
        wire_put_extension(&output, message->token.len);
        wire_put(&output, message->token.data, message->token.len);
    }
    put_content(message, &output);
    return output.is_full ? 0 : output.len;
}

/* --- reading ------------------------------------------------------------- */

static bool wire_take(struct input *input, size_t len, struct wire_bytes *ret_bytes)
{
    if (len > input->len) {
        return false;
    }
    *ret_bytes = (struct wire_bytes){input->data, len};
    input->data += len;
    input->len -= len;
    return true;
}

/* The number that @p nibble begins; 15 has none but as a length in a stream. */
static bool take_extended(struct input *input, unsigned nibble, bool has_long, size_t *ret_value)
{
    static const size_t bases[] = {13, 269, 65805};
    static const size_t lens[] = {1, 2, 4};
    struct wire_bytes extension;
    if (nibble < 13) {
        *ret_value = nibble;
        return true;
    }
    if (nibble == 15 && !has_long) {
        return false;
    }
    if (!wire_take(input, lens[nibble - 13], &extension)) {
        return false;
    }
    *ret_value = bases[nibble - 13] + (size_t)wire_uint(extension);
    return true;
}

static const char *take_option(struct input *input, struct wire_message *message)
{
    struct wire_bytes head;
    size_t delta, len;
    uint32_t before =
        message->option_count == 0 ? 0 : message->options[message->option_count - 1].number;
    if (message->option_count == WIRE_OPTIONS_MAX) {
        return "too many options";
    }
    if (!wire_take(input, 1, &head) || !take_extended(input, head.data[0] >> 4, false, &delta) ||
        !take_extended(input, head.data[0] & 15u, false, &len)) {
        return "the head of an option is cut short or reserved";
    }
    struct wire_option *option = &message->options[message->option_count];
    option->number = before + (uint32_t)delta;
    if (!wire_take(input, len, &option->value)) {
        return "the value of an option is cut short";
    }
    message->option_count++;
    return NULL;
}

static const char *take_content(struct input *input, struct wire_message *message)
{
    while (input->len > 0 && input->data[0] != 0xff) {
        const char *fault = take_option(input, message);
        if (fault != NULL) {
            return fault;
        }
    }
    if (input->len == 1) {
        return "a payload marker without payload";
    }
    if (input->len > 1) {
        message->payload = (struct wire_bytes){input->data + 1, input->len - 1};
    }
    return NULL;
}

static const char *take_datagram_head(struct input *input, struct wire_message *message,
                                      unsigned *ret_tkl)
{
    struct wire_bytes head;
    if (!wire_take(input, 4, &head)) {
        return "shorter than a header";
    }
    if (head.data[0] >> 6 != 1) {
        return "the version is not 1";
    }
    message->type = (enum wire_type)(head.data[0] >> 4 & 3);
    message->code = head.data[1];
    message->mid = (uint16_t)((unsigned)head.data[2] << 8 | head.data[3]);
    *ret_tkl = head.data[0] & 15u;
    if (message->code == 0 && (*ret_tkl != 0 || input->len > 0)) {
        return "an Empty message with more than a header";
    }
    return NULL;
}

static const char *take_stream_head(struct input *input, struct wire_message *message,
                                    unsigned *ret_tkl)
{
    struct wire_bytes head, code;
    size_t len;
    if (!wire_take(input, 1, &head) || !take_extended(input, head.data[0] >> 4, true, &len) ||
        !wire_take(input, 1, &code)) {
        return "shorter than a header";
    }
    if (message->framing == WIRE_WEBSOCKET && head.data[0] >> 4 != 0) {
        return "a length in a WebSocket message";
    }
    message->code = code.data[0];
    *ret_tkl = head.data[0] & 15u;
    return NULL;
}

const char *wire_decode(enum wire_framing framing, const uint8_t *data, size_t len,
                        struct wire_message *ret_message)
{
    struct input input = {data, len};
    struct wire_bytes code;
    const char *fault = NULL;
    unsigned tkl = 0;
    size_t token_len = 0;
    ret_message->framing = framing;
    ret_message->type = WIRE_CON;
    ret_message->code = 0;
    ret_message->mid = 0;
    ret_message->option_count = 0;
    ret_message->token = ret_message->payload = (struct wire_bytes){NULL, 0};
    if (framing == WIRE_CONTENT) {
        if (!wire_take(&input, 1, &code)) {
            return "no code";
        }
        ret_message->code = code.data[0];
        return take_content(&input, ret_message);
    }
    fault = framing == WIRE_DATAGRAM ? take_datagram_head(&input, ret_message, &tkl)
                                     : take_stream_head(&input, ret_message, &tkl);
    if (fault != NULL) {
        return fault;
    }
    if (!take_extended(&input, tkl, false, &token_len) ||
        !wire_take(&input, token_len, &ret_message->token)) {
        return "the token is cut short or its length reserved";
    }
    return take_content(&input, ret_message);
}

size_t wire_frame_len(const uint8_t *data, size_t len)
{
    struct input input = {data, len};
    struct wire_bytes head, code;
    size_t content, token;
    if (!wire_take(&input, 1, &head) || !take_extended(&input, head.data[0] >> 4, true, &content) ||
        !wire_take(&input, 1, &code) || !take_extended(&input, head.data[0] & 15u, true, &token)) {
        return 0;
    }
    size_t used = len - input.len;
    return token <= input.len && content <= input.len - token ? used + token + content : 0;
}

uint64_t wire_uint(struct wire_bytes value)
{
    uint64_t number = 0;
    if (value.len > 8) {
        return UINT64_MAX;
    }
    for (size_t i = 0; i < value.len; i++) {
        number = number << 8 | value.data[i];
    }
    return number;
}

size_t wire_put_uint(uint64_t value, uint8_t buffer[static 8])
{
    size_t len = 0;
    for (uint64_t left = value; left > 0; left >>= 8) {
        len++;
    }
    for (size_t i = 0; i < len; i++) {
        buffer[i] = (uint8_t)(value >> (8 * (len - 1 - i)));
    }
    return len;
}
