/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CRI references to URI references and IRI references (section 6.1).
 *
 * How it works: each component has its set of octets that stand for themselves;
 * the rest is percent-encoded, and so is every byte string of a text-pet-sequence.
 * An IRI (RFC 3987 section 3.2) differs only in the characters over U+007F that may
 * stand for themselves. What a URI reference cannot say, or would say differently
 * once it is resolved, fails (AMB-22).
 */
#include <cri/iri.h>

#include "host.h"
#include "pct.h"

#include <string.h>

struct formatter {
    struct cri_writer out;
    const struct cri *cri;
    bool is_iri;
    struct cri_fault *ret_fault;
};

static void put_char(struct formatter *f, char c)
{
    cri__put_raw(&f->out, &c, 1);
}

static void put_encoded(struct formatter *f, uint8_t octet)
{
    const char triplet[3] = {'%', "0123456789ABCDEF"[octet >> 4], "0123456789ABCDEF"[octet & 0xf]};
    cri__put_raw(&f->out, triplet, sizeof triplet);
}

/* Length of the stretch at the front of text that stands for itself; 0 when none does. */
static size_t literal_span(const struct formatter *f, struct cri_slice text,
                           enum cri__component component)
{
    size_t at = 0;

    while (at < text.len) {
        if (text.data[at] < 0x80) {
            if (!cri__stands_for_itself(text.data[at], component)) {
                break;
            }
            at++;
            continue;
        }
        struct cri_slice rest = cri__slice(text.data + at, text.len - at);
        size_t len = f->is_iri ? cri__iri_character_len(rest, component, true) : 0;
        if (len == 0) {
            break;
        }
        at += len;
    }
    return at;
}

static void put_text(struct formatter *f, struct cri_slice text, enum cri__component component)
{
    while (text.len > 0) {
        size_t len = literal_span(f, text, component);
        if (len > 0) {
            cri__put_raw(&f->out, text.data, len);
        } else {
            /* The octets behind the first of a character are not literal either. */
            put_encoded(f, text.data[0]);
            len = 1;
        }
        text.data += len;
        text.len -= len;
    }
}

static void put_item(struct formatter *f, const struct cri_item *item,
                     enum cri__component component)
{
    struct cri_iter iter;
    struct cri_slice piece;
    bool is_bytes;

    if (!item->is_pet) {
        put_text(f, item->text, component);
        return;
    }
    cri_piece_init(&iter, item);
    while (cri_piece_next(&iter, &is_bytes, &piece)) {
        if (!is_bytes) {
            put_text(f, piece, component);
            continue;
        }
        for (size_t i = 0; i < piece.len; i++) {
            put_encoded(f, piece.data[i]);
        }
    }
}

static void put_list(struct formatter *f, const struct cri_list *list, char separator,
                     enum cri__component component)
{
    struct cri_iter iter;
    struct cri_item item;
    bool is_first = true;

    cri_iter_init(&iter, list);
    while (cri_iter_next(&iter, &item)) {
        if (!is_first) {
            put_char(f, separator);
        }
        is_first = false;
        put_item(f, &item, component);
    }
}

static void put_port(struct formatter *f, unsigned port)
{
    char digits[5];
    size_t at = sizeof digits;

    do {
        digits[--at] = (char)('0' + port % 10);
        port /= 10;
    } while (port > 0);
    put_char(f, ':');
    cri__put_raw(&f->out, digits + at, sizeof digits - at);
}

static enum cri_error put_scheme(struct formatter *f, const struct cri_scheme_table *table)
{
    if (f->cri->scheme == CRI_SCHEME_ID) {
        const struct cri_scheme *scheme = cri_scheme_by_number(table, f->cri->scheme_number);
        if (scheme == NULL) {
            return cri__fail(f->ret_fault, CRI_ERR_SCHEME_UNKNOWN, 0, "unknown scheme number");
        }
        cri__put_raw(&f->out, scheme->name, strlen(scheme->name));
    } else if (f->cri->scheme == CRI_SCHEME_NAME) {
        cri__put_raw(&f->out, f->cri->scheme_name.data, f->cri->scheme_name.len);
    } else {
        return CRI_OK;
    }
    put_char(f, ':');
    return CRI_OK;
}

static bool has_host(const struct cri *cri)
{
    return cri->authority == CRI_AUTHORITY_HOST_NAME || cri->authority == CRI_AUTHORITY_HOST_IP;
}

static enum cri_error put_authority(struct formatter *f)
{
    const struct cri *cri = f->cri;

    if (!has_host(cri)) {
        return CRI_OK;
    }
    if (cri->has_zone) {
        return cri__fail(f->ret_fault, CRI_ERR_ZONE, 0,
                         "zone-id has no place in a URI"); /* C2U-8 */
    }
    cri__put_raw(&f->out, "//", 2);
    if (cri->has_userinfo) {
        put_item(f, &cri->userinfo, CRI__USERINFO);
        put_char(f, '@');
    }
    if (cri->authority == CRI_AUTHORITY_HOST_IP) {
        char text[CRI__IP_TEXT_MAX];
        cri__put_raw(&f->out, text, cri__ip_format(cri->ip, text));
    } else {
        put_list(f, &cri->labels, '.', CRI__LABEL);
    }
    if (cri->has_port) {
        put_port(f, cri->port);
    }
    return CRI_OK;
}

static enum cri_error fail(struct formatter *f, const char *rule)
{
    return cri__fail(f->ret_fault, CRI_ERR_NOT_EXPRESSIBLE, 0, rule);
}

/* Whether the text of the item has a raw colon; one in a byte string is encoded (A33). */
static bool has_colon(const struct cri_item *item)
{
    struct cri_iter iter;
    struct cri_slice piece;
    bool is_bytes;

    if (!item->is_pet) {
        return item->text.len > 0 && memchr(item->text.data, ':', item->text.len) != NULL;
    }
    cri_piece_init(&iter, item);
    while (cri_piece_next(&iter, &is_bytes, &piece)) {
        if (!is_bytes && memchr(piece.data, ':', piece.len) != NULL) {
            return true;
        }
    }
    return false;
}

static bool is_empty_item(const struct cri_item *item)
{
    return !item->is_pet && item->text.len == 0;
}

/* Path of a reference that begins with a discard section. */
static enum cri_error put_discard_path(struct formatter *f)
{
    const struct cri *cri = f->cri;
    struct cri_iter iter;
    struct cri_item first = {0};

    if (cri->discard == 0) {
        if (cri->path.is_set) {
            return fail(f, "discard 0 with a path"); /* C2U-22 */
        }
        if (cri->query.is_set && cri->query.count == 0) {
            return fail(f, "a URI reference cannot drop the query alone");
        }
        return CRI_OK;
    }
    /* Without a path segment, a URI reference would keep the path of the base. */
    cri_iter_init(&iter, &cri->path);
    if (!cri_iter_next(&iter, &first)) {
        return fail(f, "discard without a path");
    }
    bool is_longer = iter.rest.len > 0;
    if (cri->discard == CRI_DISCARD_ALL) {
        if (is_empty_item(&first) && is_longer) {
            return fail(f, "path would read as an authority"); /* C2U-24 */
        }
        put_char(f, '/');
    } else if (cri->discard == 1 && (is_empty_item(&first) || has_colon(&first))) {
        cri__put_raw(&f->out, "./", 2); /* C2U-23, C2U-25 */
    }
    for (unsigned i = 1; cri->discard != CRI_DISCARD_ALL && i < cri->discard; i++) {
        cri__put_raw(&f->out, "../", 3);
    }
    put_list(f, &cri->path, '/', CRI__SEGMENT);
    return CRI_OK;
}

static enum cri_error put_path(struct formatter *f)
{
    const struct cri *cri = f->cri;

    if (!cri__is_full(cri) && cri->authority == CRI_AUTHORITY_NULL) {
        return put_discard_path(f);
    }
    if (!cri__is_full(cri) && cri->authority == CRI_AUTHORITY_ROOTLESS) {
        return fail(f, "rootless path without a scheme"); /* C2U-26 */
    }
    if (!has_host(cri)) {
        const char *rule = cri__check_full_path(cri);
        if (rule != NULL) {
            return fail(f, rule); /* C2U-20, C2U-21 */
        }
    }
    if (cri->path.count > 0 && cri->authority != CRI_AUTHORITY_ROOTLESS) {
        put_char(f, '/');
    }
    put_list(f, &cri->path, '/', CRI__SEGMENT);
    return CRI_OK;
}

static enum cri_error format(const struct cri *cri, const struct cri_scheme_table *table,
                             bool is_iri, struct cri_writer *writer, struct cri_fault *ret_fault)
{
    struct formatter f = {*writer, cri, is_iri, ret_fault};
    enum cri_error error = put_scheme(&f, table);

    if (error == CRI_OK) {
        error = put_authority(&f);
    }
    if (error == CRI_OK) {
        error = put_path(&f);
    }
    if (error != CRI_OK) {
        return error;
    }
    if (cri->query.count > 0) {
        put_char(&f, '?');
        put_list(&f, &cri->query, '&', CRI__PARAMETER);
    }
    if (cri->has_fragment) {
        put_char(&f, '#');
        put_item(&f, &cri->fragment, CRI__FRAGMENT);
    }
    *writer = f.out;
    return CRI_OK;
}

/* The arguments of cri_uri_format() and cri_iri_format(), and which of the two it is.
 * NOLINTNEXTLINE(readability-function-size) */
static enum cri_error format_to(const struct cri *cri, const struct cri_scheme_table *table,
                                bool is_iri, char *buffer, size_t capacity, size_t *ret_len,
                                struct cri_fault *ret_fault)
{
    struct cri_writer writer = {(uint8_t *)buffer, capacity, 0};
    enum cri_error error = format(cri, table, is_iri, &writer, ret_fault);

    if (error != CRI_OK) {
        return error;
    }
    error = cri__writer_finish(&writer, ret_len);
    return error == CRI_OK ? error : cri__fail(ret_fault, error, 0, "buffer too small");
}

enum cri_error cri_uri_format(const struct cri *cri, const struct cri_scheme_table *table,
                              char *buffer, size_t capacity, size_t *ret_len,
                              struct cri_fault *ret_fault)
{
    return format_to(cri, table, false, buffer, capacity, ret_len, ret_fault);
}

enum cri_error cri_iri_format(const struct cri *cri, const struct cri_scheme_table *table,
                              char *buffer, size_t capacity, size_t *ret_len,
                              struct cri_fault *ret_fault)
{
    return format_to(cri, table, true, buffer, capacity, ret_len, ret_fault);
}
