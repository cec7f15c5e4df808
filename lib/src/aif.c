/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * AIF-CRI. The whole document is walked once as plain CBOR before the first entry is looked at;
 * from then on a faulty entry is skipped by its extent, which is known to be right.
 */
#include "internal.h"

#include <cri/aif.h>

#define HEAD_INDEFINITE_ARRAY 0x9fu
#define HEAD_INDEFINITE_MAP 0xbfu
#define METHOD_CODE_MAX 31 /* class 0 has codes 0.00 to 0.31 */

/* Containers that are open while an item is skipped. */
struct skipper {
    struct cri__reader in;
    struct {
        uint64_t left;
        uint8_t head; /* first byte of the container */
        bool is_indefinite;
    } levels[CRI_AIF_DEPTH_MAX];
    size_t depth;
};

static enum cri_error open_level(struct skipper *s, uint64_t count, bool is_indefinite,
                                 struct cri_fault *ret_fault)
{
    if (s->depth == CRI_AIF_DEPTH_MAX) {
        return cri__fail(ret_fault, CRI_ERR_STRUCTURE, s->in.at, "nested too deep");
    }
    s->levels[s->depth].left = count;
    s->levels[s->depth].is_indefinite = is_indefinite;
    s->levels[s->depth].head = s->in.data[s->in.at];
    s->depth++;
    return CRI_OK;
}

/* Inside an indefinite string only strings of its kind, each with a length, may stand. */
static bool is_wrong_chunk(const struct skipper *s)
{
    if (s->depth == 0 || !s->levels[s->depth - 1].is_indefinite) {
        return false;
    }
    const uint8_t head = s->levels[s->depth - 1].head;
    if (head == HEAD_INDEFINITE_ARRAY || head == HEAD_INDEFINITE_MAP) {
        return false;
    }
    const uint8_t chunk = s->in.data[s->in.at];
    return s->in.kind != CRI__BREAK && (chunk >> 5 != head >> 5 || s->in.kind == CRI__INDEFINITE);
}

/* A break ends the innermost container, if that is one that a break ends. */
static enum cri_error close_level(struct skipper *s, struct cri_fault *ret_fault)
{
    /* A map counts its items in left, downwards from 0: odd between key and value. */
    const bool is_closed = s->depth > 0 && s->levels[s->depth - 1].is_indefinite &&
                           (s->levels[s->depth - 1].head != HEAD_INDEFINITE_MAP ||
                            s->levels[s->depth - 1].left % 2 == 0);
    if (!is_closed) {
        return cri__fail(ret_fault, CRI_ERR_CBOR, s->in.at, "break outside of indefinite length");
    }
    s->depth--;
    return CRI_OK;
}

/* An item is whole, and with it perhaps the containers around it. */
static void item_done(struct skipper *s)
{
    while (s->depth > 0) {
        s->levels[s->depth - 1].left--;
        if (s->levels[s->depth - 1].is_indefinite || s->levels[s->depth - 1].left > 0) {
            return;
        }
        s->depth--;
    }
}

static enum cri_error skip_step(struct skipper *s, struct cri_fault *ret_fault)
{
    enum cri_error error = cri__read(&s->in, ret_fault);
    if (error != CRI_OK) {
        return error;
    }
    if (is_wrong_chunk(s)) {
        return cri__fail(ret_fault, CRI_ERR_CBOR, s->in.at, "not a chunk of a string");
    }
    uint64_t count = 0;
    if (s->in.kind == CRI__BREAK) {
        error = close_level(s, ret_fault);
    } else if (s->in.kind == CRI__INDEFINITE) {
        return open_level(s, 0, true, ret_fault);
    } else if (s->in.kind == CRI__ARRAY || s->in.kind == CRI__MAP) {
        count =
            s->in.kind == CRI__MAP ? s->in.arg * 2 : s->in.arg; /* fits: checked by the reader */
    } else if (s->in.kind == CRI__TAG) {
        count = 1;
    }
    if (count > 0) {
        return open_level(s, count, false, ret_fault);
    }
    if (error == CRI_OK) {
        item_done(s);
    }
    return error;
}

/* Where the item that begins at @p pos ends. */
static enum cri_error skip_item(struct cri_slice encoded, size_t pos, size_t *ret_end,
                                struct cri_fault *ret_fault)
{
    struct skipper s = {.in = {.data = encoded.data, .len = encoded.len, .pos = pos}};
    do {
        enum cri_error error = skip_step(&s, ret_fault);
        if (error != CRI_OK) {
            return error;
        }
    } while (s.depth > 0);
    *ret_end = s.in.pos;
    return CRI_OK;
}

static bool is_indefinite_array(const struct cri__reader *in)
{
    return in->kind == CRI__INDEFINITE && in->data[in->at] == HEAD_INDEFINITE_ARRAY;
}

enum cri_error cri_aif_init(struct cri_aif *aif, struct cri_slice encoded, bool is_strict,
                            struct cri_fault *ret_fault)
{
    struct cri__reader in = {.data = encoded.data, .len = encoded.len};
    size_t end = 0;
    enum cri_error error = cri__read(&in, ret_fault);
    if (error == CRI_OK) {
        error = skip_item(encoded, 0, &end, ret_fault);
    }
    if (error != CRI_OK) {
        return error;
    }
    if (in.kind != CRI__ARRAY && !is_indefinite_array(&in)) {
        return cri__fail(ret_fault, CRI_ERR_STRUCTURE, 0, "not an array");
    }
    if (end < encoded.len) {
        return cri__fail(ret_fault, CRI_ERR_TRAILING_BYTES, end, "bytes after the array");
    }
    *aif = (struct cri_aif){.encoded = encoded,
                            .pos = in.pos,
                            .left = in.kind == CRI__ARRAY ? in.arg : 0,
                            .is_indefinite = in.kind == CRI__INDEFINITE,
                            .is_strict = is_strict};
    return CRI_OK;
}

/* [CRI-local-part, REST-method-set] */
static enum cri_error read_entry(const struct cri_aif *aif, struct cri_aif_entry *entry)
{
    struct cri__reader in = {.data = aif->encoded.data, .len = aif->encoded.len, .pos = aif->pos};
    enum cri_error error = cri__read(&in, &entry->fault);
    const bool is_pair = in.kind == CRI__ARRAY ? in.arg == 2 : is_indefinite_array(&in);
    const bool is_indefinite = in.kind == CRI__INDEFINITE;
    if (error != CRI_OK) {
        return error;
    }
    if (!is_pair) {
        return cri__fail(&entry->fault, CRI_ERR_STRUCTURE, in.at,
                         "an entry is an array of local part and method set");
    }
    size_t extent = 0;
    error = cri__decode_local_part(cri__slice(in.data + in.pos, in.len - in.pos), aif->is_strict,
                                   &entry->path, &entry->query, &extent, &entry->fault);
    if (error != CRI_OK) {
        entry->fault.offset += in.pos;
        return error;
    }
    in.pos += extent;
    error = cri__read(&in, &entry->fault);
    if (error == CRI_OK && in.kind != CRI__UINT) {
        error = cri__fail(&entry->fault, CRI_ERR_STRUCTURE, in.at, "a method set is a number");
    }
    if (error == CRI_OK && aif->is_strict && cri__head_is_long(&in)) {
        error = cri__fail(&entry->fault, CRI_ERR_NOT_STRICT, in.at, "head longer than needed");
    }
    entry->methods = in.arg;
    if (error == CRI_OK && is_indefinite && in.data[in.pos] != 0xff) {
        error = cri__fail(&entry->fault, CRI_ERR_STRUCTURE, in.pos,
                          "an entry is an array of local part and method set");
    }
    return error;
}

bool cri_aif_next(struct cri_aif *aif, struct cri_aif_entry *ret_entry)
{
    if (aif->is_indefinite ? aif->encoded.data[aif->pos] == 0xff : aif->left == 0) {
        return false;
    }
    struct cri_aif_entry entry = {.offset = aif->pos};
    size_t end = 0;
    /* It cannot fail: the document was walked before. */
    if (skip_item(aif->encoded, aif->pos, &end, NULL) != CRI_OK) {
        return false;
    }
    entry.error = read_entry(aif, &entry);
    aif->pos = end;
    aif->left -= aif->is_indefinite ? 0 : 1;
    *ret_entry = entry;
    return true;
}

static bool list_matches(const struct cri_list *list, const struct cri_slice *values, size_t count)
{
    struct cri_iter iter;
    struct cri_item item;
    size_t i = 0;
    if (list->count != count) {
        return false;
    }
    cri_iter_init(&iter, list);
    while (cri_iter_next(&iter, &item)) {
        if (item.is_pet || !cri__slice_is_equal(item.text, values[i++])) {
            return false;
        }
    }
    return true;
}

bool cri_aif_entry_matches(const struct cri_aif_entry *entry, const struct cri_slice *path,
                           size_t path_count, const struct cri_slice *query, size_t query_count)
{
    static const struct cri_slice empty = {0};
    if (entry->error != CRI_OK) {
        return false;
    }
    /* Compare in the form with the lone empty segment, whichever side left it out. */
    const bool has_no_path = path_count == 0 || (path_count == 1 && path[0].len == 0);
    const bool path_matches = has_no_path
                                  ? entry->path.count == 0 || list_matches(&entry->path, &empty, 1)
                                  : list_matches(&entry->path, path, path_count);
    return path_matches && list_matches(&entry->query, query, query_count);
}

uint64_t cri_aif_methods(struct cri_slice encoded, bool is_strict, const struct cri_slice *path,
                         size_t path_count, const struct cri_slice *query, size_t query_count)
{
    struct cri_aif aif;
    struct cri_aif_entry entry;
    uint64_t methods = 0;
    if (cri_aif_init(&aif, encoded, is_strict, NULL) != CRI_OK) {
        return 0;
    }
    while (cri_aif_next(&aif, &entry)) {
        if (cri_aif_entry_matches(&entry, path, path_count, query, query_count)) {
            methods |= entry.methods;
        }
    }
    return methods;
}

bool cri_aif_permits(uint64_t methods, uint8_t code)
{
    return code >= 1 && code <= METHOD_CODE_MAX && (methods >> (code - 1) & 1) != 0;
}
