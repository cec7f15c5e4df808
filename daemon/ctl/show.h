/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Answers of the proxy for people: flat JSON objects as text, and lists of them as rows that are
 * gathered, merged, sorted, and printed in columns.
 */
#ifndef CRIPROXYCTL_SHOW_H
#define CRIPROXYCTL_SHOW_H

#include "base/json.h"

#include <stdio.h>

enum shape {
    SHAPE_RECORD, /* a line a member */
    SHAPE_LIST,   /* gathered in a struct table */
    SHAPE_TABLE,  /* a line an item: the values of its first members in columns */
    SHAPE_BLOCK,  /* the lines of its member "text" */
};

/**
 * Writes one item, of a shape that is no list, with control characters escaped. Errors of @p out
 * are the caller's to check.
 */
void show_item(enum shape shape, const struct json_object *item, FILE *out);

/* ---- lists ---- */

#define TABLE_COLUMNS_MAX 24u

struct table_row {
    char *cells[TABLE_COLUMNS_MAX]; /* NULL: it has none */
    char *line;                     /* as it came, without its end */
};

struct table_column {
    char *key;
    bool is_number; /* every cell so far is a whole number */
};

/* A zeroed one is empty. */
struct table {
    struct table_column columns[TABLE_COLUMNS_MAX];
    size_t column_count;
    struct table_row *rows;
    size_t row_count, capacity;
};

/** Another row; members past TABLE_COLUMNS_MAX are left out. @return false without memory */
bool table_add(struct table *table, const struct json_object *item, const char *line, size_t len);

/**
 * One row for all that have the same cells under the columns @p keys (a NULL ends them): counts
 * are added, of round trips the longest and of idle times the shortest is kept, workers are named
 * one behind the other. @return false without memory
 */
bool table_merge(struct table *table, const char *const *keys);

/**
 * By the column @p key: numbers the largest first, texts in their order; rows without it last.
 *
 * @return false where no row has it; the table is as it was.
 */
bool table_sort(struct table *table, const char *key);

/**
 * Writes the first @p most rows in columns, of at most @p width characters in all (0: no limit).
 * Errors of @p out are the caller's to check.
 */
void table_print(const struct table *table, size_t most, size_t width, FILE *out);

/** Frees the rows of a table, which may be zeroed; the struct is the caller's. */
void table_clear(struct table *table);

#endif
