/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CBOR items by libcbor: its streaming decoder reads those that have more than one
 * byte of head, its encoders choose the shortest head.
 *
 * How it works: the decoder is called once per item and calls back once; the callback
 * only notes what the item is. Nothing is allocated and nothing recurses. libcbor's
 * lengths are size_t, so each head was judged in full width before it comes here
 * (cri__read_long()). What libcbor does not do is done here: simple values and tags
 * that it has no name for.
 *
 * Heads of one byte do not come here, because nearly all heads of a CRI are such: for the
 * typical CRI this decoder alone took 91 ns of the 122 that libcoap's text path takes in all.
 */
#include "internal.h"

#ifndef CRI_FREESTANDING

#include <cbor.h>

/* What libcbor's callbacks are told lengths in: size_t up to 0.8 (Debian 12), then 64 bits. */
#if CBOR_MAJOR_VERSION == 0 && CBOR_MINOR_VERSION < 9
typedef size_t wire_len;
#else
typedef uint64_t wire_len;
#endif

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

static void on_bytes(void *context, cbor_data data, wire_len len)
{
    struct cri__reader *reader = context;
    reader->kind = CRI__BYTES;
    reader->string = cri__slice(data, (size_t)len);
}

static void on_text(void *context, cbor_data data, wire_len len)
{
    struct cri__reader *reader = context;
    reader->kind = CRI__TEXT;
    reader->string = cri__slice(data, (size_t)len);
}

static void on_array(void *context, wire_len count)
{
    struct cri__reader *reader = context;
    reader->kind = CRI__ARRAY;
    reader->arg = count;
}

static void on_map(void *context, wire_len count)
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
    (void)value;
    reader->kind = CRI__FLOAT;
}

static void on_double(void *context, double value)
{
    struct cri__reader *reader = context;
    (void)value;
    reader->kind = CRI__FLOAT;
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

enum cri_error cri__read_item(struct cri__reader *reader, struct cri_fault *ret_fault)
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

void cri__put_head(struct cri_writer *writer, enum cri__major major, uint64_t arg)
{
    unsigned char head[CRI__HEAD_MAX];
    size_t len = 0;

    if (arg < CRI__SHORT_MAX) { /* Most heads: no two calls for one byte. */
        head[0] = (unsigned char)((unsigned)major << 5 | (unsigned)arg);
        cri__put_raw(writer, head, 1);
        return;
    }
    switch (major) {
    case CRI__MAJOR_UINT:
        len = cbor_encode_uint(arg, head, sizeof head);
        break;
    case CRI__MAJOR_NINT:
        len = cbor_encode_negint(arg, head, sizeof head);
        break;
    case CRI__MAJOR_BYTES:
        len = cbor_encode_bytestring_start((size_t)arg, head, sizeof head);
        break;
    case CRI__MAJOR_TEXT:
        len = cbor_encode_string_start((size_t)arg, head, sizeof head);
        break;
    case CRI__MAJOR_ARRAY:
        len = cbor_encode_array_start((size_t)arg, head, sizeof head);
        break;
    case CRI__MAJOR_MAP: /* libcri writes none */
        break;
    case CRI__MAJOR_TAG:
        len = cbor_encode_tag(arg, head, sizeof head);
        break;
    }
    cri__put_raw(writer, head, len);
}

#endif
