/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CoRI: reference resolution and URI recomposition, functionally equal to the
 * reference code in sections 4.1 and 4.2 of draft-ietf-core-href-02.
 *
 * That code builds lists; here the result is never held. It is some first options
 * of the base, perhaps a relation, and the reference's own options, so these are
 * walked once to count and once to write.
 */
#include "host.h"
#include "internal.h"

#include <cri/cori.h>

/* Walks the result of a resolution, one option after the other. */
struct walk {
    const struct cri_cori *base;
    const struct cri_cori *reference;
    size_t base_count;     /* first options of the base that stay */
    size_t reference_skip; /* 1: its path type has been used up */
    bool has_relation;
    struct cri_slice relation; /* appended between the two */
};

static size_t count_below(const struct cri_cori *cori, unsigned limit, size_t *ret_paths)
{
    struct cri_iter iter;
    struct cri_cori_option option;
    size_t count = 0;
    size_t paths = 0;
    cri_cori_init(&iter, cori);
    while (cri_cori_next(&iter, &option) && (unsigned)option.number < limit) {
        count++;
        paths += option.number == CRI_CORI_PATH ? 1 : 0;
    }
    *ret_paths = paths;
    return count;
}

/* How far the base is copied, by the reference's first option. */
static void plan(struct walk *walk)
{
    struct cri_iter iter;
    struct cri_cori_option first = {.number = CRI_CORI_FRAGMENT};
    size_t paths = 0;
    size_t discard = 0;
    cri_cori_init(&iter, walk->reference);
    (void)cri_cori_next(&iter, &first); /* an empty reference acts as a fragment does */
    unsigned limit = first.number;
    if (first.number == CRI_CORI_HOST_IP) {
        limit = CRI_CORI_HOST_NAME;
    } else if (first.number == CRI_CORI_PATH) {
        limit = CRI_CORI_QUERY;
        discard = 1;
    } else if (first.number == CRI_CORI_PATH_TYPE) {
        walk->reference_skip = 1;
        if (first.value != CRI_CORI_ABSOLUTE_PATH) {
            limit = CRI_CORI_QUERY;
            walk->has_relation = first.value == CRI_CORI_APPEND_RELATION;
        }
        if (first.value > CRI_CORI_APPEND_PATH) {
            discard = (size_t)first.value - CRI_CORI_APPEND_PATH;
        }
    }
    const size_t count = count_below(walk->base, limit, &paths);
    walk->base_count = count - (discard < paths ? discard : paths);
}

static void put_option(struct cri_writer *writer, const struct cri_cori_option *option)
{
    cri__put_head(writer, CRI__MAJOR_UINT, (uint64_t)option->number);
    switch (option->number) {
    case CRI_CORI_HOST_IP:
        cri__put_bytes(writer, option->string);
        return;
    case CRI_CORI_PORT:
    case CRI_CORI_PATH_TYPE:
        cri__put_head(writer, CRI__MAJOR_UINT, option->value);
        return;
    case CRI_CORI_SCHEME:
    case CRI_CORI_HOST_NAME:
    case CRI_CORI_PATH:
    case CRI_CORI_QUERY:
    case CRI_CORI_FRAGMENT:
        cri__put_text(writer, option->string);
        return;
    }
}

/* Where the walk is: in the base, at the relation, in the reference. */
struct position {
    struct cri_iter base;
    struct cri_iter reference;
    size_t base_left;
    size_t skip_left;
    bool relation_left;
};

static void walk_start(const struct walk *walk, struct position *position)
{
    cri_cori_init(&position->base, walk->base);
    cri_cori_init(&position->reference, walk->reference);
    position->base_left = walk->base_count;
    position->skip_left = walk->reference_skip;
    position->relation_left = walk->has_relation;
}

static bool walk_next(const struct walk *walk, struct position *position,
                      struct cri_cori_option *ret_option)
{
    if (position->base_left > 0) {
        position->base_left--;
        return cri_cori_next(&position->base, ret_option);
    }
    if (position->relation_left) {
        position->relation_left = false;
        *ret_option = (struct cri_cori_option){.number = CRI_CORI_PATH, .string = walk->relation};
        return true;
    }
    for (; position->skip_left > 0; position->skip_left--) {
        (void)cri_cori_next(&position->reference, ret_option);
    }
    return cri_cori_next(&position->reference, ret_option);
}

static size_t format_decimal(uint32_t number, uint8_t digits[10])
{
    size_t len = 0;
    for (uint32_t n = number; len == 0 || n > 0; n /= 10) {
        len++;
    }
    for (size_t i = len; i > 0; i--) {
        digits[i - 1] = (uint8_t)('0' + number % 10);
        number /= 10;
    }
    return len;
}

enum cri_error cri_cori_resolve(const struct cri_cori *base, const struct cri_cori *reference,
                                uint32_t relation, uint8_t *buffer, size_t capacity,
                                size_t *ret_len)
{
    if (!base->is_absolute) {
        return CRI_ERR_NOT_FULL;
    }
    uint8_t digits[10];
    struct walk walk = {.base = base, .reference = reference};
    struct cri_writer writer = {.buffer = buffer, .capacity = capacity};
    struct position position;
    struct cri_cori_option option;
    size_t count = 0;
    size_t paths = 0;
    bool is_lone_empty = false;

    walk.relation = cri__slice(digits, format_decimal(relation, digits));
    plan(&walk);
    walk_start(&walk, &position);
    while (walk_next(&walk, &position, &option)) {
        count++;
        if (option.number == CRI_CORI_PATH) {
            paths++;
            is_lone_empty = paths == 1 && option.string.len == 0;
        }
    }
    /* A path of one empty segment is the same as none, and normalized to none. */
    cri__put_head(&writer, CRI__MAJOR_ARRAY, 2 * (uint64_t)(count - (is_lone_empty ? 1 : 0)));
    walk_start(&walk, &position);
    while (walk_next(&walk, &position, &option)) {
        if (option.number != CRI_CORI_PATH || !is_lone_empty) {
            put_option(&writer, &option);
        }
    }
    return cri__writer_finish(&writer, ret_len);
}

/* --- Recomposition --- */

static void put_octet(struct cri_writer *writer, uint8_t octet)
{
    cri__put_raw(writer, &octet, 1);
}

/* Text, where octets of none of the classes are percent-encoded. */
static void put_encoded(struct cri_writer *writer, struct cri_slice text, uint8_t classes,
                        uint8_t except)
{
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < text.len; i++) {
        const uint8_t octet = text.data[i];
        if ((cri__octet_classes[octet] & classes) != 0 && octet != except) {
            put_octet(writer, octet);
        } else {
            put_octet(writer, '%');
            put_octet(writer, (uint8_t)digits[octet >> 4]);
            put_octet(writer, (uint8_t)digits[octet & 0xfu]);
        }
    }
}

static void put_host_and_port(struct cri_writer *writer, const struct cri_cori_option *option)
{
    char address[CRI__IP_TEXT_MAX];
    uint8_t digits[10];
    if (option->number == CRI_CORI_HOST_NAME) {
        cri__put_raw(writer, "//", 2);
        put_encoded(writer, option->string, CRI__UNRESERVED | CRI__SUB_DELIM, 0);
    } else if (option->number == CRI_CORI_HOST_IP) {
        cri__put_raw(writer, "//", 2);
        cri__put_raw(writer, address, cri__ip_format(option->string, address));
    } else {
        put_octet(writer, ':');
        cri__put_raw(writer, digits, format_decimal(option->value, digits));
    }
}

#define PCHAR (CRI__UNRESERVED | CRI__SUB_DELIM | CRI__COLON | CRI__AT)

/* One option. @p is_first: no path, or no query, has been written before it. */
static void put_component(struct cri_writer *writer, const struct cri_cori_option *option,
                          bool is_first)
{
    switch (option->number) {
    case CRI_CORI_SCHEME:
        cri__put_raw(writer, option->string.data, option->string.len);
        put_octet(writer, ':');
        return;
    case CRI_CORI_HOST_NAME:
    case CRI_CORI_HOST_IP:
    case CRI_CORI_PORT:
        put_host_and_port(writer, option);
        return;
    case CRI_CORI_PATH:
        put_octet(writer, '/');
        put_encoded(writer, option->string, PCHAR, 0);
        return;
    case CRI_CORI_QUERY:
        put_octet(writer, is_first ? '?' : '&');
        put_encoded(writer, option->string, PCHAR | CRI__SLASH, '&');
        return;
    case CRI_CORI_FRAGMENT:
        put_octet(writer, '#');
        put_encoded(writer, option->string, PCHAR | CRI__SLASH, 0);
        return;
    case CRI_CORI_PATH_TYPE: /* never in an absolute sequence */
        return;
    }
}

enum cri_error cri_cori_recompose(const struct cri_cori *cori, char *buffer, size_t capacity,
                                  size_t *ret_len)
{
    if (!cori->is_absolute) {
        return CRI_ERR_NOT_FULL;
    }
    struct cri_writer writer = {.buffer = (uint8_t *)buffer, .capacity = capacity};
    struct cri_iter iter;
    struct cri_cori_option option;
    unsigned previous = 0;
    cri_cori_init(&iter, cori);
    while (cri_cori_next(&iter, &option)) {
        if (previous == CRI_CORI_PORT && option.number != CRI_CORI_PATH) {
            put_octet(&writer, '/');
        }
        put_component(&writer, &option, previous != CRI_CORI_QUERY);
        previous = option.number;
    }
    if (previous == CRI_CORI_PORT) {
        put_octet(&writer, '/');
    }
    return cri__writer_finish(&writer, ret_len);
}
