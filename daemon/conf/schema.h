/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rows of options.def, and of the *_options.def of the named sections, as
 * tables for everything that goes through all keys: the loader, the checks, the
 * reload and the manual.
 */
#ifndef CRIPROXY_CONF_SCHEMA_H
#define CRIPROXY_CONF_SCHEMA_H

#include "conf/words.h"

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
    CONFIG_TYPE_CHANCE,   /* millionths; in files a decimal number from 0 to 1 */
    CONFIG_TYPE_WORD,     /* one of the words of words.h; its enumerator */
    CONFIG_TYPE_LIST,     /* texts; in files the key is repeated */
    CONFIG_TYPE_TEXT,     /* one text; empty: not set */
};

/* The default of a key that has none. */
#define CONFIG_NO_DEFAULT "-"

struct config_row {
    const char *section; /* of a named one the kind: "scheme" for the keys of [scheme NAME] */
    const char *name;    /* the key with '_' where files have '-': schema_key() */
    enum config_type type;
    uint64_t min, max;  /* in the unit of the field; of a TEXT: bytes */
    const char *preset; /* the default, as in files; a list's items are separated by spaces */
    bool live;          /* a reload takes it over */
    const char *help;
    const char *const *words; /* of a WORD, in the order of the enumerators */
    size_t word_count;
    size_t offset; /* in struct config, or in the struct of the named kind */
};

/*
 * The kinds of sections that name something, [KIND NAME]. X(KIND, kind, all, max): the rows
 * are those of kind_options.def, the struct is CONFIG_STRUCT_kind, struct config has them as
 * `all` and kind_count, and at most max may be named, which is CONFIG_KIND_MAX.
 */
#define CONFIG_NAMED_KINDS(X)                                                                      \
    X(SCHEME, scheme, schemes, 32)                                                                 \
    X(ROUTE, route, routes, 256)                                                                   \
    X(UPSTREAM, upstream, upstreams, 256)                                                          \
    X(ACCESS, access, access_rules, 16384)                                                         \
    X(LIMIT, limit, limits, 1024)                                                                  \
    X(MEDIA, media, media_sections, 256)                                                           \
    X(PUBLISH, publish, publishes, 256)                                                            \
    X(FAULT, fault, faults, 16)                                                                    \
    X(DEVICE, device, devices, 16384)

#define CONFIG_STRUCT_scheme struct scheme
#define CONFIG_STRUCT_route struct config_route
#define CONFIG_STRUCT_upstream struct config_upstream
#define CONFIG_STRUCT_access struct config_access
#define CONFIG_STRUCT_limit struct config_limit
#define CONFIG_STRUCT_media struct config_media
#define CONFIG_STRUCT_publish struct config_publish
#define CONFIG_STRUCT_fault struct config_fault
#define CONFIG_STRUCT_device struct config_device

#define CONFIG_NAMED_ENUMERATOR(KIND, kind, all, max) CONFIG_NAMED_##KIND,
enum config_named { CONFIG_NAMED_KINDS(CONFIG_NAMED_ENUMERATOR) CONFIG_NAMED_COUNT };
#undef CONFIG_NAMED_ENUMERATOR

#define CONFIG_NAMED_LIMIT(KIND, kind, all, max) CONFIG_##KIND##_MAX = (max),
enum { CONFIG_NAMED_KINDS(CONFIG_NAMED_LIMIT) };
#undef CONFIG_NAMED_LIMIT
#define CONFIG_NAMED_MAX CONFIG_ACCESS_MAX /* the largest */

struct config_named_kind {
    const char *word; /* the word before the name */
    const struct config_row *rows;
    size_t row_count;
    size_t size;      /* of the struct; its first field is the name */
    unsigned max;     /* named at once */
    size_t all;       /* offset in struct config: the pointer to the structs */
    size_t all_count; /* offset in struct config: how many */
};

/* Rows of options.def. */
enum {
    CONFIG_ROW_COUNT = 0
#define OPTION(section, key, type, min, max, preset, reload, help) +1
#include "conf/options.def"
#undef OPTION
};

struct config_key {
    char text[40];
};

extern const struct config_row config_rows[CONFIG_ROW_COUNT];
extern const struct config_named_kind config_named_kinds[CONFIG_NAMED_COUNT];

/** The key as it is written in files, a copy; use `.text` within the expression. */
struct config_key schema_key(const struct config_row *row);

/**
 * The default of a key with that proxy.size: row->preset where sizes.def does not have it. Static.
 *
 * @param row of options.def, or of a named section, which no size is about.
 */
const char *schema_preset(const struct config_row *row, enum config_proxy_size size);

/** The row of a key, static; NULL if there is none. */
const struct config_row *schema_find(const char *section, const char *key);
const struct config_row *schema_find_named(enum config_named kind, const char *key);

#endif
