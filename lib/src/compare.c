/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How it works: cri_is_equal() is made of the parts in equal.c. For the comparison
 * as URIs an item is read as the octets of its URI form, each with the remark
 * whether it is percent-encoded.
 */
#include <cri/compare.h>

#include "internal.h"

#include <string.h>

static bool scheme_is_equal(const struct cri *a, const struct cri *b)
{
    if (a->scheme != b->scheme) {
        return false;
    }
    return (a->scheme != CRI_SCHEME_ID || a->scheme_number == b->scheme_number) &&
           (a->scheme != CRI_SCHEME_NAME || cri__slice_is_equal(a->scheme_name, b->scheme_name));
}

bool cri_is_equal(const struct cri *a, const struct cri *b, bool with_fragment)
{
    if (!scheme_is_equal(a, b) || !cri__authority_is_equal(a, b) || a->discard != b->discard ||
        !cri__list_is_equal(&a->path, &b->path) || !cri__list_is_equal(&a->query, &b->query)) {
        return false;
    }
    return !with_fragment || (a->has_fragment == b->has_fragment &&
                              (!a->has_fragment || cri__item_is_equal(&a->fragment, &b->fragment)));
}

/* --- As URIs --- */

/* Reads an item as the octets of its URI form. */
struct octets {
    enum cri__component component;
    struct cri_iter pieces;
    struct cri_slice current;
    bool is_bytes;
};

static struct octets octets_start(const struct cri_item *item, enum cri__component component)
{
    struct octets octets = {component, {item->pieces}, item->text, false};
    return octets;
}

/* The next octet, with bit 8 where it is percent-encoded; -1 at the end. */
static int octets_next(struct octets *octets)
{
    while (octets->current.len == 0) {
        if (!cri_piece_next(&octets->pieces, &octets->is_bytes, &octets->current)) {
            return -1;
        }
    }
    uint8_t octet = octets->current.data[0];
    octets->current.data++;
    octets->current.len--;
    bool is_raw = !octets->is_bytes && cri__stands_for_itself(octet, octets->component);
    return is_raw ? octet : octet | 0x100;
}

static bool is_same_item(const struct cri_item *a, const struct cri_item *b,
                         enum cri__component component)
{
    if (!a->is_pet && !b->is_pet) {
        return cri__slice_is_equal(a->text, b->text);
    }
    struct octets octets_a = octets_start(a, component);
    struct octets octets_b = octets_start(b, component);
    int octet_a;
    do {
        octet_a = octets_next(&octets_a);
        if (octet_a != octets_next(&octets_b)) {
            return false;
        }
    } while (octet_a >= 0);
    return true;
}

static bool is_same_list(const struct cri_list *a, const struct cri_list *b,
                         enum cri__component component)
{
    struct cri_iter iter_a;
    struct cri_iter iter_b;
    struct cri_item item_a;
    struct cri_item item_b;

    if (a->count != b->count) {
        return false;
    }
    cri_iter_init(&iter_a, a);
    cri_iter_init(&iter_b, b);
    while (cri_iter_next(&iter_a, &item_a)) {
        if (!cri_iter_next(&iter_b, &item_b) || !is_same_item(&item_a, &item_b, component)) {
            return false;
        }
    }
    return true;
}

/* The scheme's name; empty where its number is not known. */
static struct cri_slice scheme_name(const struct cri *cri, const struct cri_scheme_table *table)
{
    if (cri->scheme == CRI_SCHEME_NAME) {
        return cri->scheme_name;
    }
    const struct cri_scheme *row = cri_scheme_by_number(table, cri->scheme_number);
    return row == NULL ? cri__slice(NULL, 0)
                       : cri__slice((const uint8_t *)row->name, strlen(row->name));
}

static bool is_same_scheme(const struct cri *a, const struct cri *b,
                           const struct cri_scheme_table *table)
{
    if (scheme_is_equal(a, b)) {
        return true;
    }
    struct cri_slice name = scheme_name(a, table);
    return name.len > 0 && cri__slice_is_equal(name, scheme_name(b, table));
}

bool cri_is_same_uri(const struct cri *a, const struct cri *b, const struct cri_scheme_table *table,
                     bool with_fragment)
{
    if (!cri__is_full(a) || !cri__is_full(b)) {
        return cri_is_equal(a, b, with_fragment);
    }
    if (!is_same_scheme(a, b, table) || !cri__authority_frame_is_equal(a, b) ||
        (a->has_userinfo && !is_same_item(&a->userinfo, &b->userinfo, CRI__USERINFO)) ||
        (a->authority == CRI_AUTHORITY_HOST_NAME &&
         !is_same_list(&a->labels, &b->labels, CRI__LABEL)) ||
        !is_same_list(&a->path, &b->path, CRI__SEGMENT) ||
        !is_same_list(&a->query, &b->query, CRI__PARAMETER)) {
        return false;
    }
    return !with_fragment ||
           (a->has_fragment == b->has_fragment &&
            (!a->has_fragment || is_same_item(&a->fragment, &b->fragment, CRI__FRAGMENT)));
}
