/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How it works: scheme.def has the rows in the order of their numbers, and
 * scheme_names.def the row indexes in the order of the names, both made from
 * Appendix B by schemes/generate.py, so each look-up is a binary search. The
 * numbers that CoAP and http use stand at their own index, or just behind.
 *
 * A freestanding build has the six schemes of CoAP, which are looked through one by one.
 */
#include <cri/scheme.h>

#include <string.h>

#ifdef CRI_FREESTANDING
static const struct cri_scheme builtin_rows[] = {
    {CRI_SCHEME_COAP, "coap", 5683},         {CRI_SCHEME_COAPS, "coaps", 5684},
    {CRI_SCHEME_COAP_TCP, "coap+tcp", 5683}, {CRI_SCHEME_COAPS_TCP, "coaps+tcp", 5684},
    {CRI_SCHEME_COAP_WS, "coap+ws", 80},     {CRI_SCHEME_COAPS_WS, "coaps+ws", 443},
};
#else
static const struct cri_scheme builtin_rows[] = {
#define SCHEME(number, name, default_port) {number, name, default_port},
#include "scheme.def"
#undef SCHEME
};

static const uint16_t rows_by_name[] = {
#define ROW(index) index,
#include "scheme_names.def"
#undef ROW
};

/* Rows 0 to 7 have the numbers 0 to 7. */
#define DIRECT_COUNT 8u

_Static_assert(sizeof rows_by_name / sizeof rows_by_name[0] ==
                   sizeof builtin_rows / sizeof builtin_rows[0],
               "both tables come from the same run of generate.py");
#endif

#define BUILTIN_COUNT (sizeof builtin_rows / sizeof builtin_rows[0])

#ifdef CRI_FREESTANDING
static const struct cri_scheme *builtin_by_number(uint64_t number)
{
    for (size_t i = 0; i < BUILTIN_COUNT; i++) {
        if (builtin_rows[i].number == number) {
            return &builtin_rows[i];
        }
    }
    return NULL;
}
#else
static const struct cri_scheme *builtin_by_number(uint64_t number)
{
    if (number < DIRECT_COUNT) {
        return &builtin_rows[number];
    }
    size_t low = DIRECT_COUNT;
    size_t high = BUILTIN_COUNT;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (builtin_rows[middle].number < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < BUILTIN_COUNT && builtin_rows[low].number == number ? &builtin_rows[low] : NULL;
}
#endif

const struct cri_scheme *cri_scheme_by_number(const struct cri_scheme_table *table, uint64_t number)
{
    for (size_t i = 0; table != NULL && i < table->count; i++) {
        if (table->rows[i].number == number) {
            return &table->rows[i];
        }
    }
    return builtin_by_number(number);
}

static unsigned char ascii_lower(uint8_t c)
{
    return (unsigned char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
}

/* Order of the lower-cased slice against a NUL-terminated lower-case name. */
static int compare_name(struct cri_slice slice, const char *name)
{
    for (size_t i = 0; i < slice.len; i++) {
        /* At the name's NUL an input byte 0 goes on being equal; the name is over all the same. */
        if (name[i] == '\0') {
            return 1;
        }
        int difference = ascii_lower(slice.data[i]) - (unsigned char)name[i];
        if (difference != 0) {
            return difference;
        }
    }
    return name[slice.len] == '\0' ? 0 : -1;
}

#ifdef CRI_FREESTANDING
static const struct cri_scheme *builtin_by_name(struct cri_slice name)
{
    for (size_t i = 0; i < BUILTIN_COUNT; i++) {
        if (compare_name(name, builtin_rows[i].name) == 0) {
            return &builtin_rows[i];
        }
    }
    return NULL;
}
#else
static const struct cri_scheme *builtin_by_name(struct cri_slice name)
{
    for (size_t i = 0; i < DIRECT_COUNT; i++) { /* Those that are asked for. */
        if (compare_name(name, builtin_rows[i].name) == 0) {
            return &builtin_rows[i];
        }
    }
    size_t low = 0;
    size_t high = BUILTIN_COUNT;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct cri_scheme *row = &builtin_rows[rows_by_name[middle]];
        int order = compare_name(name, row->name);
        if (order == 0) {
            return row;
        }
        if (order > 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
}
#endif

const struct cri_scheme *cri_scheme_by_name(const struct cri_scheme_table *table,
                                            struct cri_slice name)
{
    for (size_t i = 0; table != NULL && i < table->count; i++) {
        if (compare_name(name, table->rows[i].name) == 0) {
            return &table->rows[i];
        }
    }
    return builtin_by_name(name);
}

const struct cri_scheme *cri_scheme_builtin(size_t *ret_count)
{
    *ret_count = BUILTIN_COUNT;
    return builtin_rows;
}
