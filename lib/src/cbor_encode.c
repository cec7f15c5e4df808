/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How it works: everything goes through a writer that counts all bytes and keeps those that fit, so
 * the same code sizes and writes.
 */
#include "internal.h"

#include <string.h>

void cri__put_raw(struct cri_writer *writer, const void *data, size_t len)
{
    if (len > 0 && writer->len <= writer->capacity && len <= writer->capacity - writer->len) {
        memcpy(writer->buffer + writer->len, data, len);
    }
    writer->len += len;
}

size_t cri__head_len(uint64_t arg)
{
    if (arg < 24) {
        return 1;
    }
    if (arg <= UINT8_MAX) {
        return 2;
    }
    if (arg <= UINT16_MAX) {
        return 3;
    }
    return arg <= UINT32_MAX ? 5 : 9;
}

void cri__put_bool(struct cri_writer *writer, bool value)
{
    cri__put_raw(writer, value ? "\xf5" : "\xf4", 1);
}

void cri__put_null(struct cri_writer *writer)
{
    cri__put_raw(writer, "\xf6", 1);
}

void cri__put_text(struct cri_writer *writer, struct cri_slice text)
{
    cri__put_head(writer, CRI__MAJOR_TEXT, text.len);
    cri__put_raw(writer, text.data, text.len);
}

void cri__put_bytes(struct cri_writer *writer, struct cri_slice bytes)
{
    cri__put_head(writer, CRI__MAJOR_BYTES, bytes.len);
    cri__put_raw(writer, bytes.data, bytes.len);
}

void cri__put_item(struct cri_writer *writer, const struct cri_item *item)
{
    if (!item->is_pet) {
        cri__put_text(writer, item->text);
        return;
    }
    struct cri_iter iter;
    struct cri_slice piece;
    bool is_bytes;
    size_t count = 0;

    cri_piece_init(&iter, item);
    while (cri_piece_next(&iter, &is_bytes, &piece)) {
        count++;
    }
    cri__put_head(writer, CRI__MAJOR_ARRAY, count);
    cri_piece_init(&iter, item);
    while (cri_piece_next(&iter, &is_bytes, &piece)) {
        if (is_bytes) {
            cri__put_bytes(writer, piece);
        } else {
            cri__put_text(writer, piece);
        }
    }
}

/* The items alone, without the array's head. */
static void put_items(struct cri_writer *writer, const struct cri_list *list)
{
    struct cri_iter iter;
    struct cri_item item;

    cri_iter_init(&iter, list);
    while (cri_iter_next(&iter, &item)) {
        cri__put_item(writer, &item);
    }
}

enum cri_error cri__writer_finish(const struct cri_writer *writer, size_t *ret_len)
{
    *ret_len = writer->len;
    return writer->len <= writer->capacity ? CRI_OK : CRI_ERR_SPACE;
}

static void put_authority(struct cri_writer *writer, const struct cri *cri)
{
    if (cri->authority == CRI_AUTHORITY_NULL) {
        cri__put_null(writer);
        return;
    }
    if (cri->authority == CRI_AUTHORITY_ROOTLESS) {
        cri__put_bool(writer, true);
        return;
    }
    bool is_ip = cri->authority == CRI_AUTHORITY_HOST_IP;
    size_t host_count = is_ip ? 1u + (cri->has_zone ? 1u : 0u) : cri->labels.count;
    cri__put_head(writer, CRI__MAJOR_ARRAY,
                  (cri->has_userinfo ? 2u : 0u) + host_count + (cri->has_port ? 1u : 0u));
    if (cri->has_userinfo) {
        cri__put_bool(writer, false);
        cri__put_item(writer, &cri->userinfo);
    }
    if (is_ip) {
        cri__put_bytes(writer, cri->ip);
        if (cri->has_zone) {
            cri__put_text(writer, cri->zone);
        }
    } else {
        put_items(writer, &cri->labels);
    }
    if (cri->has_port) {
        cri__put_head(writer, CRI__MAJOR_UINT, cri->port);
    }
}

static void put_list(struct cri_writer *writer, const struct cri_list *list,
                     const struct cri_list *prefix, bool null_is_empty)
{
    size_t prefix_count = prefix == NULL ? 0 : prefix->count;

    if (!list->is_set && prefix_count == 0 && !null_is_empty) {
        cri__put_null(writer);
        return;
    }
    cri__put_head(writer, CRI__MAJOR_ARRAY, prefix_count + list->count);
    if (prefix != NULL) {
        put_items(writer, prefix);
    }
    put_items(writer, list);
}

/*
 * Sections of the local part that have to be written (section 5.1, Table 2). An
 * empty array is a default, except where it says more than null does: behind
 * discard 0 it drops what the base has there (AMB-5).
 */
unsigned cri__local_count(const struct cri *cri, bool is_discard, size_t prefix_count)
{
    bool is_append = is_discard && cri->discard == 0;

    if (cri->has_fragment) {
        return 3;
    }
    if (cri->query.is_set && (cri->query.count > 0 || (is_append && !cri->path.is_set))) {
        return 2;
    }
    return prefix_count > 0 || (cri->path.is_set && (cri->path.count > 0 || is_append)) ? 1 : 0;
}

void cri__put_discard(struct cri_writer *writer, const struct cri *cri, unsigned count)
{
    if (count == 0 && cri->discard == 0) {
        cri__put_head(writer, CRI__MAJOR_ARRAY, 0);
        return;
    }
    cri__put_head(writer, CRI__MAJOR_ARRAY, 1 + count);
    if (cri->discard >= CRI_DISCARD_ALL) {
        cri__put_bool(writer, true);
    } else {
        cri__put_head(writer, CRI__MAJOR_UINT, cri->discard);
    }
}

void cri__put_cri(struct cri_writer *writer, const struct cri *cri, const struct cri_list *prefix)
{
    bool is_full = cri__is_full(cri);
    bool is_discard = !is_full && cri->authority == CRI_AUTHORITY_NULL;
    unsigned count = cri__local_count(cri, is_discard, prefix == NULL ? 0 : prefix->count);

    if (is_discard) {
        cri__put_discard(writer, cri, count);
    } else {
        bool has_authority = count > 0 || cri->authority != CRI_AUTHORITY_NULL;
        cri__put_head(writer, CRI__MAJOR_ARRAY, 1 + (has_authority ? 1u : 0u) + count);
        if (cri->scheme == CRI_SCHEME_ID) {
            cri__put_head(writer, CRI__MAJOR_NINT, cri->scheme_number);
        } else if (cri->scheme == CRI_SCHEME_NAME) {
            cri__put_text(writer, cri->scheme_name);
        } else {
            cri__put_null(writer);
        }
        if (has_authority) {
            put_authority(writer, cri);
        }
    }
    if (count > 0) {
        put_list(writer, &cri->path, prefix, is_full);
    }
    if (count > 1) {
        put_list(writer, &cri->query, NULL, is_full);
    }
    if (count > 2) {
        cri__put_item(writer, &cri->fragment);
    }
}

/* Whether the pieces can all be read: an item that cannot would be cut short. */
static bool is_whole_item(const struct cri_item *item)
{
    struct cri_iter iter;
    struct cri_slice piece;
    bool is_bytes;

    cri_piece_init(&iter, item);
    while (item->is_pet && cri_piece_next(&iter, &is_bytes, &piece)) {
    }
    return !item->is_pet || iter.rest.len == 0;
}

/* Whether a list has as many items as it says, and none where it is not set. */
static bool is_whole_list(const struct cri_list *list)
{
    struct cri_iter iter;
    struct cri_item item;
    size_t count = 0;

    cri_iter_init(&iter, list);
    while (cri_iter_next(&iter, &item)) {
        if (!is_whole_item(&item)) {
            return false;
        }
        count++;
    }
    return iter.rest.len == 0 && count == list->count && (list->is_set || count == 0);
}

/*
 * Faults of a struct made by hand that the encoding would hide: fields that contradict each other,
 * of which encoding would drop one, and lists whose counts are wrong. Other faults are found by
 * decoding the result.
 */
static enum cri_error check_fields(const struct cri *cri)
{
    bool is_name = cri->authority == CRI_AUTHORITY_HOST_NAME;
    bool is_ip = cri->authority == CRI_AUTHORITY_HOST_IP;

    if ((unsigned)cri->scheme > CRI_SCHEME_NAME ||
        (unsigned)cri->authority > CRI_AUTHORITY_HOST_IP || cri->discard > CRI_DISCARD_ALL) {
        return CRI_ERR_ARGUMENT;
    }
    if (!is_name && !is_ip && (cri->has_userinfo || cri->has_port)) {
        return CRI_ERR_AUTHORITY;
    }
    if (!is_ip && cri->has_zone) {
        return CRI_ERR_HOST;
    }
    bool is_whole = is_whole_list(&cri->path) && is_whole_list(&cri->query) &&
                    (!is_name || is_whole_list(&cri->labels)) &&
                    (!cri->has_userinfo || is_whole_item(&cri->userinfo)) &&
                    (!cri->has_fragment || is_whole_item(&cri->fragment));
    return is_whole ? CRI_OK : CRI_ERR_STRUCTURE;
}

enum cri_error cri_encode(const struct cri *cri, uint8_t *buffer, size_t capacity, size_t *ret_len)
{
    struct cri_writer writer = {buffer, capacity, 0};
    struct cri checked;
    enum cri_error error = check_fields(cri);

    if (error != CRI_OK) {
        return error;
    }
    cri__put_cri(&writer, cri, NULL);
    if (writer.len <= capacity) {
        error = cri_decode(cri__slice(buffer, writer.len), NULL, &checked, NULL);
    } else {
        error = CRI_ERR_SPACE;
    }
    if (error == CRI_OK || error == CRI_ERR_SPACE) {
        *ret_len = writer.len;
    }
    return error;
}
