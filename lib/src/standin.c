/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How it works: the items are read one after the other and copied as they stand,
 * heads and all; only an enabled tag and its byte string come out as something else.
 */
#include <cri/standin.h>

#include "internal.h"

static const struct {
    uint64_t tag;
    uint32_t bit;
} stand_ins[] = {{21, CRI_STAND_IN_BASE64URL},
                 {22, CRI_STAND_IN_BASE64},
                 {23, CRI_STAND_IN_BASE16},
                 {108, CRI_STAND_IN_BASE16_LOWER}};

static uint32_t bit_of(uint64_t tag)
{
    for (size_t i = 0; i < sizeof stand_ins / sizeof stand_ins[0]; i++) {
        if (stand_ins[i].tag == tag) {
            return stand_ins[i].bit;
        }
    }
    return 0;
}

static void put_base16(struct cri_writer *writer, struct cri_slice bytes, const char *digits)
{
    cri__put_head(writer, CRI__MAJOR_TEXT, (uint64_t)bytes.len * 2);
    for (size_t i = 0; i < bytes.len; i++) {
        const char pair[2] = {digits[bytes.data[i] >> 4], digits[bytes.data[i] & 0xf]};
        cri__put_raw(writer, pair, sizeof pair);
    }
}

/* RFC 4648 sections 4 and 5. */
static void put_base64(struct cri_writer *writer, struct cri_slice bytes, bool is_url)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t whole = bytes.len / 3;
    size_t rest = bytes.len % 3;
    size_t rest_len = rest == 0 ? 0 : is_url ? rest + 1 : 4;

    cri__put_head(writer, CRI__MAJOR_TEXT, (uint64_t)whole * 4 + rest_len);
    for (size_t i = 0; i < bytes.len; i += 3) {
        size_t count = bytes.len - i < 3 ? bytes.len - i : 3;
        uint32_t group = (uint32_t)bytes.data[i] << 16;
        group |= count > 1 ? (uint32_t)bytes.data[i + 1] << 8 : 0;
        group |= count > 2 ? (uint32_t)bytes.data[i + 2] : 0;
        char text[4] = {'=', '=', '=', '='};
        for (size_t digit = 0; digit <= count; digit++) {
            char c = digits[group >> (18 - 6 * digit) & 0x3f];
            text[digit] = is_url && c == '+' ? '-' : is_url && c == '/' ? '_' : c;
        }
        cri__put_raw(writer, text, is_url ? count + 1 : 4);
    }
}

static void put_stand_in(struct cri_writer *writer, uint32_t bit, struct cri_slice bytes)
{
    switch (bit) {
    case CRI_STAND_IN_BASE64URL:
        put_base64(writer, bytes, true);
        break;
    case CRI_STAND_IN_BASE64:
        put_base64(writer, bytes, false);
        break;
    case CRI_STAND_IN_BASE16:
        put_base16(writer, bytes, "0123456789ABCDEF");
        break;
    default:
        put_base16(writer, bytes, "0123456789abcdef");
        break;
    }
}

/* Copy or expand the item that was read last, a tag's content included if it is enabled. */
static enum cri_error put_next(struct cri_writer *writer, struct cri__reader *in, uint32_t enabled,
                               struct cri_fault *ret_fault)
{
    uint32_t bit = in->kind == CRI__TAG ? bit_of(in->arg) & enabled : 0;

    if (bit == 0) {
        cri__put_raw(writer, in->data + in->at, in->pos - in->at);
        return CRI_OK;
    }
    enum cri_error error = cri__read(in, ret_fault);
    if (error == CRI_OK && in->kind != CRI__BYTES) {
        error = cri__fail(ret_fault, CRI_ERR_TAG, in->at, "stand-in tag without a byte string");
    }
    if (error == CRI_OK) {
        put_stand_in(writer, bit, in->string);
    }
    return error;
}

enum cri_error cri_expand_stand_ins(struct cri_slice encoded, uint32_t enabled, uint8_t *buffer,
                                    size_t capacity, size_t *ret_len, struct cri_fault *ret_fault)
{
    struct cri_writer writer = {buffer, capacity, 0};
    struct cri__reader in = {.data = encoded.data, .len = encoded.len};
    size_t extent;
    enum cri_error error = cri_skip(encoded, &extent, ret_fault);

    if (error != CRI_OK) {
        return error;
    }
    if (extent < encoded.len) {
        return cri__fail(ret_fault, CRI_ERR_TRAILING_BYTES, extent, "bytes after the end");
    }
    /* It is one item of definite lengths, so the last of its parts ends the input. */
    while (in.pos < in.len) {
        error = cri__read(&in, ret_fault);
        if (error == CRI_OK) {
            error = put_next(&writer, &in, enabled, ret_fault);
        }
        if (error != CRI_OK) {
            return error;
        }
    }
    error = cri__writer_finish(&writer, ret_len);
    return error == CRI_OK ? error : cri__fail(ret_fault, error, 0, "buffer too small");
}
