/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How it works: the bytes behind a list were checked when the CRI was decoded, so that iterating is
 * a matter of reading heads. Still, every length is checked: a list that a program made by hand
 * ends early instead of reading on.
 */
#include "internal.h"

#include <string.h>

#ifndef CRI_FREESTANDING
/* Initial byte of a text whose length is in the byte behind it. */
#define TEXT_LEN_IN_BYTE 0x78
#endif

#ifndef CRI_FREESTANDING
const struct cri cri__zeros = {.discard = 0};
#endif

#ifdef CRI_FREESTANDING
enum cri_error cri__fail_at(struct cri_fault *ret_fault, enum cri_error error, size_t offset)
{
    if (ret_fault != NULL) {
        ret_fault->offset = offset;
        ret_fault->rule = "";
    }
    return error;
}
#endif

bool cri__slice_is_equal(struct cri_slice a, struct cri_slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

size_t cri__head(const uint8_t *data, size_t len, uint64_t *ret_arg)
{
    if (len == 0) {
        return 0;
    }
    unsigned info = data[0] & 0x1fu;
    if (info < 24) {
        *ret_arg = info;
        return 1;
    }
    if (info > 27) {
        return 0;
    }
    size_t arg_len = (size_t)1 << (info - 24);
    if (arg_len > len - 1) {
        return 0;
    }
    uint64_t arg = 0;
    for (size_t i = 1; i <= arg_len; i++) {
        arg = arg << 8 | data[i];
    }
    *ret_arg = arg;
    return arg_len + 1;
}

bool cri__options_are_known(const void *options, size_t size, size_t known)
{
    const uint8_t *octets = options;

    for (size_t i = known; i < size; i++) {
        if (octets[i] != 0) {
            return false;
        }
    }
    return size == 0 || size >= known;
}

bool cri_is_full(const struct cri *cri)
{
    return cri__is_full(cri);
}

/* Take a string of the major type off the front of *rest. */
static bool take_string(struct cri_slice *rest, struct cri_slice *ret_string)
{
    uint64_t arg;
    size_t head_len = cri__head(rest->data, rest->len, &arg);

    if (head_len == 0 || arg > rest->len - head_len) {
        return false;
    }
    *ret_string = cri__slice(rest->data + head_len, (size_t)arg);
    rest->data += head_len + (size_t)arg;
    rest->len -= head_len + (size_t)arg;
    return true;
}

static unsigned major_of(const struct cri_slice *rest)
{
    return (unsigned)rest->data[0] >> 5;
}

void cri_iter_init(struct cri_iter *iter, const struct cri_list *list)
{
    iter->rest = list->encoded;
}

/* An item with a head of more than one byte, or a text-pet-sequence. */
CRI__APART static bool next_long(struct cri_iter *iter, struct cri_item *ret_item)
{
    struct cri_slice rest = iter->rest;

    if (rest.len == 0) {
        return false;
    }
    if (major_of(&rest) == CRI__MAJOR_TEXT) {
        struct cri_slice text;
        if (!take_string(&rest, &text)) {
            return false;
        }
        iter->rest = rest;
        ret_item->is_pet = false;
        ret_item->text = text;
        ret_item->pieces = cri__slice(NULL, 0);
        return true;
    }
    uint64_t count;
    size_t head_len = cri__head(rest.data, rest.len, &count);
    if (head_len == 0 || major_of(&rest) != CRI__MAJOR_ARRAY) {
        return false;
    }
    rest.data += head_len;
    rest.len -= head_len;
    const uint8_t *pieces = rest.data;
    for (uint64_t i = 0; i < count; i++) {
        struct cri_slice piece;
        if (!take_string(&rest, &piece)) {
            return false;
        }
    }
    iter->rest = rest;
    ret_item->is_pet = true;
    ret_item->text = cri__slice(NULL, 0);
    ret_item->pieces = cri__slice(pieces, (size_t)(rest.data - pieces));
    return true;
}

bool cri_iter_next(struct cri_iter *iter, struct cri_item *ret_item)
{
    /* At the end nothing is written; anything longer is written anew. */
    if (!cri__take_short(&iter->rest, CRI__EMPTY_TEXT, &ret_item->text)) {
        return next_long(iter, ret_item);
    }
    ret_item->is_pet = false;
    ret_item->pieces = cri__slice(NULL, 0);
    return true;
}

bool cri__next_long_text(struct cri_iter *iter, struct cri_slice *ret_text)
{
    struct cri_item item;

#ifndef CRI_FREESTANDING
    struct cri_slice *rest = &iter->rest;
    /* Texts of 24 to 255 bytes, which are the most that an option takes. */
    if (rest->len >= 2 && rest->data[0] == TEXT_LEN_IN_BYTE && rest->data[1] <= rest->len - 2) {
        *ret_text = cri__slice(rest->data + 2, rest->data[1]);
        rest->data += 2 + ret_text->len;
        rest->len -= 2 + ret_text->len;
        return true;
    }
#endif
    if (!next_long(iter, &item)) {
        return false;
    }
    *ret_text = item.text;
    return true;
}

void cri_piece_init(struct cri_iter *iter, const struct cri_item *item)
{
    iter->rest = item->pieces;
}

bool cri_piece_next(struct cri_iter *iter, bool *ret_is_bytes, struct cri_slice *ret_piece)
{
    if (iter->rest.len == 0) {
        return false;
    }
    unsigned major = major_of(&iter->rest);
    if ((major != CRI__MAJOR_TEXT && major != CRI__MAJOR_BYTES) ||
        !take_string(&iter->rest, ret_piece)) {
        return false;
    }
    *ret_is_bytes = major == CRI__MAJOR_BYTES;
    return true;
}
