/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rows of options.def and scheme_options.def as tables, for everything that
 * goes through all keys: the loader, the checks, the reload and the manual.
 */
#ifndef CRIPROXY_CONF_SCHEMA_H
#define CRIPROXY_CONF_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum config_type {
    CONFIG_TYPE_BOOL,     /* yes or no */
    CONFIG_TYPE_UINT,     /* a whole number */
    CONFIG_TYPE_WORKERS,  /* a whole number, or auto (0) */
    CONFIG_TYPE_DURATION, /* ms; in files with its unit */
    CONFIG_TYPE_SIZE,     /* bytes; in files with its unit */
    CONFIG_TYPE_FACTOR,   /* hundredths; in files a decimal number */
    CONFIG_TYPE_WORD,     /* one of the words of words.h; its enumerator */
    CONFIG_TYPE_LIST,     /* texts; in files the key is repeated */
    CONFIG_TYPE_TEXT,     /* one text; empty: not set */
};

/* The default of a key that has none. */
#define CONFIG_NO_DEFAULT "-"

struct config_row {
    const char *section; /* "scheme" for the keys of [scheme NAME] */
    const char *name;    /* the key with '_' where files have '-': schema_key() */
    enum config_type type;
    uint64_t min, max;  /* in the unit of the field; of a TEXT: bytes */
    const char *preset; /* the default, as in files; a list's items are separated by spaces */
    bool live;          /* a reload takes it over */
    const char *help;
    const char *const *words; /* of a WORD, in the order of the enumerators */
    size_t word_count;
    size_t offset; /* in struct config or struct config_scheme */
};

enum {
    CONFIG_ROW_COUNT = 0
#define OPTION(section, key, type, min, max, preset, reload, help) +1
#include "conf/options.def"
#undef OPTION
    ,
    CONFIG_SCHEME_ROW_COUNT = 0
#define SCHEME_OPTION(key, type, min, max, preset, reload, help) +1
#include "conf/scheme_options.def"
#undef SCHEME_OPTION
};

struct config_key {
    char text[40];
};

extern const struct config_row config_rows[CONFIG_ROW_COUNT];
extern const struct config_row config_scheme_rows[CONFIG_SCHEME_ROW_COUNT];

/** Whether any key has this section; not "scheme". */
bool schema_has_section(const char *section);

/** The key as files have it; use `.text` within the expression. */
struct config_key schema_key(const struct config_row *row);

/** The row, or NULL. */
const struct config_row *schema_find(const char *section, const char *key);
const struct config_row *schema_find_scheme_key(const char *key);

#endif
