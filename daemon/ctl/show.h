/* SPDX-License-Identifier: BSD-2-Clause */
/* Answers of the proxy for people: flat JSON objects as text. */
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

/** Number of characters, not bytes, that @p text takes when it is shown. */
size_t show_width(const char *text);

/**
 * Writes at most @p width characters of @p text, as it is shown. Errors of @p out are the caller's
 * to check.
 */
void show_cut(const char *text, size_t width, FILE *out);

/**
 * Writes one item, of a shape that is no list, with control characters escaped. Errors of @p out
 * are the caller's to check.
 */
void show_item(enum shape shape, const struct json_object *item, FILE *out);

#endif
