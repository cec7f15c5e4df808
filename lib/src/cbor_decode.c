/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading CBOR, one item at a time.
 *
 * How it works: libcbor's streaming decoder is called once per item and calls back
 * once; the callback only notes what the item is. Nothing is allocated and nothing
 * recurses. What libcbor does not do is done here: simple values and tags it has no
 * name for, and a look at whether as many items as an array announces can follow.
 */
#include "internal.h"

#include <cbor.h>

static void on_uint8(void *context, uint8_t value)
{
    struct cri__reader *reader = context;
    reader->kind = CRI__UINT;
    reader->arg = value;
}

static void on_uint16(void *context, uint16_t value)
{
    struct cri__reader *reader = context;
    reader->kind = CRI__UINT;
    reader->arg = value;
}

static void on_uint32(void *context, uint32_t value)
{
    struct cri__reader *reader = context;
    reader->kind = CRI__UINT;
    reader->arg = value;
}

static void on_uint64(void *context, uint64_t value)
{
    struct cri__reader *reader = context;
    reader->kind = CRI__UINT;
    reader->arg = value;
}

static void on_negint8(void *context, uint8_t value)
{
    struct cri__reader *reader = context;
    reader->kind = CRI__NINT;
    reader->arg = value;
}

static void on_negint16(void *context, uint16_t value)
{
    struct cri__reader *reader = context;
    reader->kind = CRI__NINT;
    reader->arg = value;
}

static void on_negint32(void *context, uint32_t value)
{
    struct cri__reader *reader = context;
    reader->kind = CRI__NINT;
    reader->arg = value;
}

static void on_negint64(void *context, uint64_t value)
{
    struct cri__reader *reader = context;
    reader->kind = CRI__NINT;
    reader->arg = value;
}

static void on_bytes(void *context, cbor_data data, size_t len)
{
    struct cri__reader *reader = context;
    reader->kind = CRI__BYTES;
    reader->string = cri__slice(data, len);
}

static void on_text(void *context, cbor_data data, size_t len)
{
    struct cri__reader *reader = context;
    reader->kind = CRI__TEXT;
    reader->string = cri__slice(data, len);
}

static void on_array(void *context, size_t count)
{
    struct cri__reader *reader = context;
    reader->kind = CRI__ARRAY;
    reader->arg = count;
}

static void on_map(void *context, size_t count)
{
    struct cri__reader *reader = context;
    reader->kind = CRI__MAP;
    reader->arg = count;
}

static void on_tag(void *context, uint64_t value)
{
    struct cri__reader *reader = context;
    reader->kind = CRI__TAG;
    reader->arg = value;
}

static void on_float(void *context, float value)
{
    struct cri__reader *reader = context;
    reader->kind = CRI__FLOAT;
    reader->number = (double)value;
}

static void on_double(void *context, double value)
{
    struct cri__reader *reader = context;
    reader->kind = CRI__FLOAT;
    reader->number = value;
}

static void on_undefined(void *context)
{
    struct cri__reader *reader = context;
    reader->kind = CRI__SIMPLE;
    reader->arg = 23;
}

static void on_null(void *context)
{
    struct cri__reader *reader = context;
    reader->kind = CRI__NULL;
}

static void on_bool(void *context, bool value)
{
    struct cri__reader *reader = context;
    reader->kind = value ? CRI__TRUE : CRI__FALSE;
}

static void on_indefinite(void *context)
{
    struct cri__reader *reader = context;
    reader->kind = CRI__INDEFINITE;
}

static void on_break(void *context)
{
    struct cri__reader *reader = context;
    reader->kind = CRI__BREAK;
}

static const struct cbor_callbacks callbacks = {
    .uint8 = on_uint8,
    .uint16 = on_uint16,
    .uint32 = on_uint32,
    .uint64 = on_uint64,
    .negint64 = on_negint64,
    .negint32 = on_negint32,
    .negint16 = on_negint16,
    .negint8 = on_negint8,
    .byte_string_start = on_indefinite,
    .byte_string = on_bytes,
    .string = on_text,
    .string_start = on_indefinite,
    .indef_array_start = on_indefinite,
    .array_start = on_array,
    .indef_map_start = on_indefinite,
    .map_start = on_map,
    .tag = on_tag,
    .float2 = on_float,
    .float4 = on_float,
    .float8 = on_double,
    .undefined = on_undefined,
    .null = on_null,
    .boolean = on_bool,
    .indef_break = on_break,
};

/*
 * What libcbor refuses as unassigned is well-formed all the same: simple values other
 * than the four with names, and the tags 6 to 20, among them those of COSE.
 */
static enum cri_error read_unassigned(struct cri__reader *reader, struct cri_fault *ret_fault)
{
    const uint8_t *item = reader->data + reader->at;
    const size_t left = reader->len - reader->at;
    const bool is_tag = item[0] >> 5 == CRI__MAJOR_TAG;

    if (item[0] == 0xf8) {
        if (left < 2) {
            return cri__fail(ret_fault, CRI_ERR_TRUNCATED, reader->at, "item ends early");
        }
        if (item[1] < 32) { /* RFC 8949 section 3.3: not well-formed */
            return cri__fail(ret_fault, CRI_ERR_CBOR, reader->at,
                             "simple value below 32 in two bytes");
        }
        reader->arg = item[1];
        reader->pos = reader->at + 2;
    } else if ((is_tag || item[0] >= 0xe0) && (item[0] & 0x1fu) < CRI__SHORT_MAX) {
        reader->arg = item[0] & 0x1fu;
        reader->pos = reader->at + 1;
    } else {
        return cri__fail(ret_fault, CRI_ERR_CBOR, reader->at, "reserved additional information");
    }
    reader->kind = is_tag ? CRI__TAG : CRI__SIMPLE;
    return CRI_OK;
}

/* What libcbor is for: arguments in the bytes behind the initial one. */
static enum cri_error read_long(struct cri__reader *reader, struct cri_fault *ret_fault)
{
    struct cbor_decoder_result result = cbor_stream_decode(
        reader->data + reader->pos, reader->len - reader->pos, &callbacks, reader);
    if (result.status != CBOR_DECODER_FINISHED) {
        if (result.status == CBOR_DECODER_ERROR) {
            return read_unassigned(reader, ret_fault);
        }
        return cri__fail(ret_fault, CRI_ERR_TRUNCATED, reader->at, "item ends early");
    }
    reader->pos += result.read;
    return CRI_OK;
}

/* By major type; strings and arrays, whose argument counts what has to follow, are marked. */
const uint8_t cri__short_kinds[8] = {CRI__UINT,
                                     CRI__NINT,
                                     CRI__COUNTS | CRI__BYTES,
                                     CRI__COUNTS | CRI__TEXT,
                                     CRI__COUNTS | CRI__ARRAY,
                                     CRI__NOT_SHORT,
                                     CRI__NOT_SHORT,
                                     CRI__NOT_SHORT};

enum cri_error cri__read_long(struct cri__reader *reader, struct cri_fault *ret_fault)
{
    enum cri_error error = read_long(reader, ret_fault);
    if (error == CRI_OK && (reader->kind == CRI__ARRAY || reader->kind == CRI__MAP)) {
        /* Every item has at least one byte. Division, because a product may wrap. */
        size_t left = reader->len - reader->pos;
        if (reader->arg > (reader->kind == CRI__MAP ? left / 2 : left)) {
            return cri__fail(ret_fault, CRI_ERR_TRUNCATED, reader->at,
                             "more items announced than bytes are left");
        }
    }
    return error;
}

bool cri__head_is_long(const struct cri__reader *reader)
{
    uint64_t arg;
    size_t head_len = cri__head(reader->data + reader->at, reader->len - reader->at, &arg);
    return reader->data[reader->at] < 0xe0 && head_len > cri__head_len(arg);
}

/*
 * Without indefinite lengths it is enough to know how many items are still to come:
 * no stack, however deep it goes.
 */
enum cri_error cri_skip(struct cri_slice encoded, size_t *ret_extent, struct cri_fault *ret_fault)
{
    struct cri__reader in = {.data = encoded.data, .len = encoded.len};
    uint64_t left = 1;

    while (left > 0) {
        enum cri_error error = cri__read(&in, ret_fault);
        if (error != CRI_OK) {
            return error;
        }
        left--;
        switch ((int)in.kind) { /* NOLINT: the other kinds contain nothing */
        case CRI__INDEFINITE:
            return cri__fail(ret_fault, CRI_ERR_INDEFINITE, in.at, "indefinite length");
        case CRI__BREAK:
            return cri__fail(ret_fault, CRI_ERR_CBOR, in.at, "break outside of indefinite length");
        case CRI__ARRAY:
            left += in.arg;
            break;
        case CRI__MAP:
            left += 2 * in.arg;
            break;
        case CRI__TAG:
            left++;
            break;
        default:
            break;
        }
        /* Also keeps the sum from wrapping: each array has at most that many items. */
        if (left > in.len - in.pos) {
            return cri__fail(ret_fault, CRI_ERR_TRUNCATED, in.at,
                             "more items announced than bytes are left");
        }
    }
    *ret_extent = in.pos;
    return CRI_OK;
}
