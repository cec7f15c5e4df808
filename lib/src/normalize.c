/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How it works: the input is decoded without the rules that normalising is to make
 * true; then every text goes through NFC on its way into the writer. Each is gone
 * through twice, for CBOR wants its length first. At the end the result has to pass
 * cri_decode() like any other.
 */
#include <cri/normalize.h>

#include "nfc.h"

#include <string.h>

struct normalizer {
    struct cri_writer out;
    enum cri_error error; /* The first one; afterwards nothing is sensible, but all is defined. */
    bool to_lower;        /* In a host. */
};

/* NFC of text, in lower case for a host, to the writer or only counted. */
static size_t map_text(struct normalizer *n, struct cri_slice text, bool is_written)
{
    uint8_t piece[CRI__NFC_PIECE_MAX];
    size_t len = 0;

    while (text.len > 0) {
        struct cri_slice mapped;
        if (!cri__nfc_next(&text, n->to_lower, piece, &mapped)) {
            n->error = CRI_ERR_NFC;
            break;
        }
        len += mapped.len;
        for (size_t i = 0; is_written && i < mapped.len; i++) {
            uint8_t octet = mapped.data[i];
            /* After NFC, which makes a K of the Kelvin sign. */
            if (n->to_lower && octet >= 'A' && octet <= 'Z') {
                octet |= 0x20u;
            }
            cri__put_raw(&n->out, &octet, 1);
        }
    }
    return len;
}

static void put_text(struct normalizer *n, struct cri_slice text)
{
    cri__put_head(&n->out, CRI__MAJOR_TEXT, map_text(n, text, false));
    (void)map_text(n, text, true);
}

static void put_item(struct normalizer *n, const struct cri_item *item)
{
    struct cri_iter iter;
    struct cri_slice piece;
    bool is_bytes;
    size_t count = 0;

    if (!item->is_pet) {
        put_text(n, item->text);
        return;
    }
    cri_piece_init(&iter, item);
    while (cri_piece_next(&iter, &is_bytes, &piece)) {
        count++;
    }
    cri__put_head(&n->out, CRI__MAJOR_ARRAY, count);
    cri_piece_init(&iter, item);
    while (cri_piece_next(&iter, &is_bytes, &piece)) {
        if (is_bytes) {
            cri__put_bytes(&n->out, piece);
        } else {
            put_text(n, piece);
        }
    }
}

static void put_list(struct normalizer *n, const struct cri_list *list, bool null_is_empty)
{
    struct cri_iter iter;
    struct cri_item item;

    if (!list->is_set && !null_is_empty) {
        cri__put_null(&n->out);
        return;
    }
    cri__put_head(&n->out, CRI__MAJOR_ARRAY, list->count);
    cri_iter_init(&iter, list);
    while (cri_iter_next(&iter, &item)) {
        put_item(n, &item);
    }
}

/* Reads labels as the pieces between dots: of texts, also those beside bytes. */
struct splitter {
    struct cri_iter labels;
    struct cri_iter pieces;
    struct cri_slice text;
    bool has_text; /* There is more of the text, perhaps an empty rest. */
    bool is_pet;
};

struct chunk {
    struct cri_slice data;
    bool is_bytes;
    bool ends_label;
};

static bool next_piece(struct splitter *s, struct chunk *ret_chunk)
{
    bool is_bytes;
    struct cri_slice piece;

    if (!cri_piece_next(&s->pieces, &is_bytes, &piece)) {
        return false;
    }
    if (!is_bytes) {
        s->text = piece;
        s->has_text = true;
        return true;
    }
    *ret_chunk = (struct chunk){piece, true, s->pieces.rest.len == 0};
    return true;
}

static bool next_chunk(struct splitter *s, struct chunk *ret_chunk)
{
    struct cri_item label;

    if (!s->has_text && s->pieces.rest.len == 0) {
        if (!cri_iter_next(&s->labels, &label)) {
            return false;
        }
        s->has_text = !label.is_pet;
        s->text = label.text;
        s->pieces.rest = label.pieces;
    }
    if (!s->has_text) {
        if (!next_piece(s, ret_chunk)) {
            return false;
        }
        if (!s->has_text) {
            return true;
        }
    }
    const uint8_t *dot = s->text.len == 0 ? NULL : memchr(s->text.data, '.', s->text.len);
    if (dot == NULL) {
        *ret_chunk = (struct chunk){s->text, false, s->pieces.rest.len == 0};
        s->has_text = false;
        return true;
    }
    size_t len = (size_t)(dot - s->text.data);
    *ret_chunk = (struct chunk){{s->text.data, len}, false, true};
    s->text.data += len + 1;
    s->text.len -= len + 1;
    return true;
}

/* The next label, from its first chunk to the one that ends it. */
static void put_label(struct normalizer *n, struct splitter *s)
{
    struct splitter ahead = *s;
    struct chunk chunk = {{NULL, 0}, false, true};
    size_t count = 0;
    bool has_bytes = false;

    while (next_chunk(&ahead, &chunk)) {
        count += chunk.data.len > 0 ? 1 : 0;
        has_bytes = has_bytes || chunk.is_bytes;
        if (chunk.ends_label) {
            break;
        }
    }
    if (has_bytes) {
        cri__put_head(&n->out, CRI__MAJOR_ARRAY, count);
    } else if (count == 0) {
        cri__put_head(&n->out, CRI__MAJOR_TEXT, 0);
    }
    while (next_chunk(s, &chunk)) {
        if (chunk.is_bytes) {
            cri__put_bytes(&n->out, chunk.data);
        } else if (chunk.data.len > 0) {
            put_text(n, chunk.data);
        }
        if (chunk.ends_label) {
            break;
        }
    }
}

static size_t label_count(struct splitter s)
{
    struct chunk chunk;
    size_t count = 0;

    while (next_chunk(&s, &chunk)) {
        count += chunk.ends_label ? 1 : 0;
    }
    return count;
}

static void put_authority(struct normalizer *n, const struct cri *cri, bool has_port)
{
    struct splitter s = {.has_text = false};
    bool is_ip = cri->authority == CRI_AUTHORITY_HOST_IP;

    cri_iter_init(&s.labels, &cri->labels);
    size_t host_count = is_ip ? 1u + (cri->has_zone ? 1u : 0u) : label_count(s);
    cri__put_head(&n->out, CRI__MAJOR_ARRAY,
                  (cri->has_userinfo ? 2u : 0u) + host_count + (has_port ? 1u : 0u));
    if (cri->has_userinfo) {
        cri__put_bool(&n->out, false);
        cri__put_item(&n->out, &cri->userinfo);
    }
    if (is_ip) {
        cri__put_bytes(&n->out, cri->ip);
        if (cri->has_zone) {
            cri__put_text(&n->out, cri->zone);
        }
    } else {
        n->to_lower = true;
        for (size_t i = 0; i < host_count; i++) {
            put_label(n, &s);
        }
        n->to_lower = false;
    }
    if (has_port) {
        cri__put_head(&n->out, CRI__MAJOR_UINT, cri->port);
    }
}

static const struct cri_scheme *scheme_of(const struct cri *cri,
                                          const struct cri_scheme_table *table)
{
    if (cri->scheme == CRI_SCHEME_ID) {
        return cri_scheme_by_number(table, cri->scheme_number);
    }
    return cri->scheme == CRI_SCHEME_NAME ? cri_scheme_by_name(table, cri->scheme_name) : NULL;
}

static void put_scheme(struct normalizer *n, const struct cri *cri)
{
    if (cri->scheme == CRI_SCHEME_ID) {
        cri__put_head(&n->out, CRI__MAJOR_NINT, cri->scheme_number);
    } else if (cri->scheme == CRI_SCHEME_NAME) {
        n->to_lower = true; /* It is ASCII, for which NFC changes nothing. */
        put_text(n, cri->scheme_name);
        n->to_lower = false;
    } else {
        cri__put_null(&n->out);
    }
}

static void put_reference(struct normalizer *n, const struct cri *cri,
                          const struct cri_scheme_table *table)
{
    bool is_full = cri__is_full(cri);
    bool is_discard = !is_full && cri->authority == CRI_AUTHORITY_NULL;
    const struct cri_scheme *scheme = scheme_of(cri, table);
    unsigned count = cri__local_count(cri, is_discard, 0);

    if (is_discard) {
        cri__put_discard(&n->out, cri, count);
    } else {
        bool has_authority = count > 0 || cri->authority != CRI_AUTHORITY_NULL;
        cri__put_head(&n->out, CRI__MAJOR_ARRAY, 1 + (has_authority ? 1u : 0u) + count);
        put_scheme(n, cri);
        if (cri->authority == CRI_AUTHORITY_ROOTLESS) {
            cri__put_bool(&n->out, true);
        } else if (cri->authority != CRI_AUTHORITY_NULL) {
            bool is_default =
                scheme != NULL && scheme->default_port != 0 && cri->port == scheme->default_port;
            put_authority(n, cri, cri->has_port && !is_default);
        } else if (has_authority) {
            cri__put_null(&n->out);
        }
    }
    if (count > 0) {
        put_list(n, &cri->path, is_full);
    }
    if (count > 1) {
        put_list(n, &cri->query, is_full);
    }
    if (count > 2) {
        put_item(n, &cri->fragment);
    }
}

enum cri_error cri_normalize(struct cri_slice encoded, const struct cri_scheme_table *table,
                             uint8_t *buffer, size_t capacity, size_t *ret_len,
                             struct cri_fault *ret_fault)
{
    struct normalizer n = {{buffer, capacity, 0}, CRI_OK, false};
    struct cri cri;
    enum cri_error error = cri__decode_raw(encoded, &cri, ret_fault);

    if (error != CRI_OK) {
        return error;
    }
    put_reference(&n, &cri, table);
    if (n.error != CRI_OK) {
        return cri__fail(ret_fault, n.error, 0, "a character has more than 31 marks");
    }
    error = cri__writer_finish(&n.out, ret_len);
    if (error != CRI_OK) {
        return cri__fail(ret_fault, error, 0, "buffer too small");
    }
    return cri_decode(cri__slice(buffer, *ret_len), NULL, &cri, ret_fault);
}
