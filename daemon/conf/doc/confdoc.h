/* SPDX-License-Identifier: BSD-2-Clause */
/* The documents that confdoc writes; one function for each. */
#ifndef CRIPROXY_CONFDOC_H
#define CRIPROXY_CONFDOC_H

#include "conf/schema.h"

#include <stdio.h>

/* A section of the configuration and its purpose. */
struct doc_section {
    const char *name;
    const char *help;
};

/**
 * The sections in the order of options.def, static; ends with a NULL name. Aborts if a section has
 * no description.
 */
const struct doc_section *doc_sections(void);

/**
 * The kinds of named sections, static, in the order of enum config_named; ends with a NULL name.
 */
const struct doc_section *doc_named_sections(void);

/** The rows of @p section, one after the other; NULL after the last. @p index begins at 0. */
const struct config_row *doc_next_row(const char *section, size_t *index);

/**
 * Describes the values of a key: "a size with its unit ... from 0 to 256MiB". Returns @p text, the
 * caller's buffer of VALUE_TEXT_MAX bytes, or a static text.
 */
const char *doc_expected(const struct config_row *row, char *text);

/**
 * Each of these writes one document, or the rows of one, to @p out, whose errors the caller checks.
 */
void doc_write_conf(FILE *out);
void doc_write_schemes(FILE *out);
void doc_write_man_rows(FILE *out);
void doc_write_man_reasons(FILE *out);
void doc_write_markdown(FILE *out);

#endif
