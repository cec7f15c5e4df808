/* SPDX-License-Identifier: BSD-2-Clause */
/* Answers of the proxy for people: flat JSON objects as text. */
#ifndef CRIPROXYCTL_SHOW_H
#define CRIPROXYCTL_SHOW_H

#include "ops/json.h"

#include <stdio.h>

enum shape {
    SHAPE_RECORD, /* a line a member */
    SHAPE_LIST,   /* a line an item: key=value key=value */
    SHAPE_TABLE,  /* a line an item: the values of its first members in columns */
    SHAPE_BLOCK,  /* the lines of its member "text" */
};

/** Write one item. What a terminal could take for commands is escaped. */
void show_item(enum shape shape, const struct json_object *item, FILE *out);

#endif
