/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An AIF-CRI document (RFC 9237, draft section 8.3) as a rule uses it: which methods
 * it grants for which path and query, ready to be looked up.
 *
 * The library reads documents; here its entries become a sorted table over the packed
 * segments that targets have, so that a look-up is a binary search and compares bytes.
 */
#ifndef CRIPROXY_AIF_H
#define CRIPROXY_AIF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct aif_table;
struct config_arena;
struct target;

/* Longest document that is read. */
#define AIF_BYTES_MAX ((size_t)1 << 20)

/* Why a document is malformed, or which entry of it is ignored. */
struct aif_fault {
    size_t offset; /* byte of the document */
    const char *what;
};

/**
 * Make the table of a document.
 *
 * @param ret_fault where it is malformed; else the first entry that is faulty, which grants nothing
 * while the others hold (AIF-5). Its text is NULL if there is no fault.
 * @return 0; -EINVAL for a document that is not AIF-CRI; -ENOMEM.
 */
int aif_table_make(const uint8_t *document, size_t len, struct config_arena *arena,
                   const struct aif_table **ret_table, struct aif_fault *ret_fault);

/**
 * Whether the document grants the method with @p code for exactly the target's path and query.
 * False for a target that it does not list. Allocates nothing.
 */
bool aif_table_permits(const struct aif_table *table, const struct target *target, uint8_t code);

/**
 * Number of different resources for which the document grants a method; 0 for an empty document.
 */
size_t aif_table_count(const struct aif_table *table);

#endif
