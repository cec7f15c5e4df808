/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading CBOR, one item at a time: the common half. The other half is cbor_libcbor.c,
 * or cbor_plain.c in a freestanding build.
 */
#include "internal.h"

#ifndef CRI_FREESTANDING
/* By major type; strings and arrays, whose argument counts what has to follow, are marked. */
const uint8_t cri__short_kinds[8] = {CRI__UINT,
                                     CRI__NINT,
                                     CRI__COUNTS | CRI__BYTES,
                                     CRI__COUNTS | CRI__TEXT,
                                     CRI__COUNTS | CRI__ARRAY,
                                     CRI__NOT_SHORT,
                                     CRI__NOT_SHORT,
                                     CRI__NOT_SHORT};
#endif

/*
 * Whether the content that a head announces fits the remaining bytes: a string's own bytes, at
 * least one for each item of an array, two for each pair of a map (by division, because a product
 * may wrap).
 */
static bool can_follow(unsigned major, uint64_t arg, uint64_t left)
{
    switch (major) {
    case CRI__MAJOR_BYTES:
    case CRI__MAJOR_TEXT:
    case CRI__MAJOR_ARRAY:
        return arg <= left;
    case CRI__MAJOR_MAP:
        return arg <= left / 2;
    default:
        return true;
    }
}

/*
 * An argument has up to 64 bits, size_t perhaps 32: the head is judged in full width before
 * anything narrows it. The rest of the input fits into size_t on any machine.
 */
enum cri_error cri__read_long(struct cri__reader *reader, struct cri_fault *ret_fault)
{
    const uint8_t *item = reader->data + reader->pos;
    size_t left = reader->len - reader->pos;
    uint64_t arg;
    size_t head_len = cri__head(item, left, &arg);

    reader->at = reader->pos;

    if (head_len > 0 && !can_follow((unsigned)item[0] >> 5, arg, left - head_len)) {
        bool is_string = item[0] >> 5 <= CRI__MAJOR_TEXT;
        return cri__fail(ret_fault, CRI_ERR_TRUNCATED, reader->at,
                         is_string ? "item ends early"
                                   : "more items announced than bytes are left");
    }
    return cri__read_item(reader, ret_fault);
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
