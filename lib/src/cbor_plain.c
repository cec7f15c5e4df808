/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CBOR items without libcbor, for a freestanding build: the same functions as cbor_libcbor.c;
 * lib/test_plain compares the two.
 */
#include "internal.h"

#ifdef CRI_FREESTANDING

#define INFO_INDEFINITE 31u
#define FIRST_LONG_SIMPLE 32u /* RFC 8949 section 3.3: smaller ones have one byte. */

/* Major type 7: simple values, and floating-point numbers by the length of their argument. */
static enum cri_error read_simple(struct cri__reader *reader, size_t head_len,
                                  struct cri_fault *ret_fault)
{
    static const uint8_t named[] = {CRI__FALSE, CRI__TRUE, CRI__NULL};
    const unsigned first = 20; /* false */

    reader->kind = CRI__SIMPLE;
    if (head_len > 2) {
        reader->kind = CRI__FLOAT;
    } else if (head_len == 2 && reader->arg < FIRST_LONG_SIMPLE) {
        return cri__fail(ret_fault, CRI_ERR_CBOR, reader->at, "simple value below 32 in two bytes");
    } else if (reader->arg >= first && reader->arg < first + sizeof named) {
        reader->kind = (enum cri__kind)named[reader->arg - first];
    }
    return CRI_OK;
}

enum cri_error cri__read_item(struct cri__reader *reader, struct cri_fault *ret_fault)
{
    static const uint8_t kinds[] = {CRI__UINT,  CRI__NINT, CRI__BYTES, CRI__TEXT,
                                    CRI__ARRAY, CRI__MAP,  CRI__TAG};
    const uint8_t *item = reader->data + reader->pos;
    const size_t head_len = cri__head(item, reader->len - reader->pos, &reader->arg);
    const unsigned major = reader->pos < reader->len ? (unsigned)item[0] >> 5 : 0;

    if (head_len == 0) {
        const unsigned info = reader->pos < reader->len ? item[0] & 0x1fu : 0;
        if (info < 28) {
            return cri__fail(ret_fault, CRI_ERR_TRUNCATED, reader->at, "item ends early");
        }
        const bool has_end = major == 7;
        if (info != INFO_INDEFINITE ||
            (!has_end && (major < CRI__MAJOR_BYTES || major > CRI__MAJOR_MAP))) {
            return cri__fail(ret_fault, CRI_ERR_CBOR, reader->at,
                             "reserved additional information");
        }
        reader->kind = has_end ? CRI__BREAK : CRI__INDEFINITE;
        reader->pos++;
        return CRI_OK;
    }
    reader->pos += head_len;
    if (major == 7) {
        return read_simple(reader, head_len, ret_fault);
    }
    reader->kind = (enum cri__kind)kinds[major];
    if (major == CRI__MAJOR_BYTES || major == CRI__MAJOR_TEXT) {
        /* It was judged: as many bytes are there. */
        reader->string = cri__slice(item + head_len, (size_t)reader->arg);
        reader->pos += reader->string.len;
    }
    return CRI_OK;
}

void cri__put_head(struct cri_writer *writer, enum cri__major major, uint64_t arg)
{
    uint8_t head[9];
    const size_t len = cri__head_len(arg);
    unsigned info = 27;

    for (size_t i = len; i > 1; i--) {
        head[i - 1] = (uint8_t)(arg & 0xff);
        arg >>= 8;
    }
    if (len < 9) {
        info = len == 1 ? (unsigned)arg : len == 2 ? 24 : len == 3 ? 25 : 26;
    }
    head[0] = (uint8_t)((unsigned)major << 5 | info);
    cri__put_raw(writer, head, len);
}

#endif
