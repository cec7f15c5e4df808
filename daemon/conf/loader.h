/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A configuration while it is being read. Private to conf/.
 *
 * The way of a key: read.c cuts a file into lines and has inih split them;
 * assign.c finds the row and stores the value; check.c, when everything is read,
 * looks at what keys mean together and derives the rest; load.c runs these.
 */
#ifndef CRIPROXY_CONF_LOADER_H
#define CRIPROXY_CONF_LOADER_H

#include "base/arena.h"
#include "conf/config.h"
#include "conf/schema.h"

#include <stdarg.h>

#define CONFIG_FILES_MAX 64 /* one and what it includes */
#define CONFIG_FILE_MAX_BYTES (4u << 20)
#define CONFIG_SECTION_MAX 50 /* inih cuts the text between the brackets to fit, NUL included */

#define SCHEME_NUMBER_NONE UINT32_MAX

enum place_kind {
    PLACE_PRESET = 0, /* never set */
    PLACE_FILE,
    PLACE_SET,    /* --set */
    PLACE_LISTEN, /* --listen */
};

/* Where a value was set. */
struct place {
    enum place_kind kind;
    uint32_t line;    /* of a file, from 1 */
    const char *file; /* its name; equal pointers are the same file */
};

enum section_kind {
    SECTION_UNKNOWN,
    SECTION_PLAIN, /* has rows in options.def */
    SECTION_NAMED, /* has a kind and a name */
    SECTION_INCLUDE,
};

struct section {
    enum section_kind kind;
    enum config_named named;       /* of a NAMED one */
    char name[CONFIG_SECTION_MAX]; /* of a NAMED one: without its kind */
};

/* A named section while it is being read; in the snapshot's arena. */
struct named_draft {
    void *row;            /* the struct of the kind */
    struct place *set_at; /* for each key of the kind */
    uint32_t next;        /* in its bucket: index of another, plus one; 0: none */
};

#define NAMED_BUCKETS 1024u /* a power of two */

struct named_drafts {
    struct named_draft items[CONFIG_NAMED_MAX]; /* in the order in which they were met */
    uint32_t buckets[NAMED_BUCKETS];            /* by name: index plus one; 0: none */
    size_t count;
};

struct loader {
    struct config *config;
    struct config_errors *errors;
    bool may_include;  /* reading from a file */
    bool no_memory;    /* what was being made may be NULL: nothing more is read or checked */
    struct place here; /* of what is being assigned */
    struct place set_at[CONFIG_ROW_COUNT];
    struct named_drafts named[CONFIG_NAMED_COUNT];
    const char *files[CONFIG_FILES_MAX]; /* read, and still to be read */
    size_t file_count;
};

/** One more error. */
void config_errors_add(struct config_errors *errors, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** An error about a key (both may be NULL) that was set at @p place. */
void loader_error(struct loader *loader, const struct place *place, const char *section,
                  const char *key, const char *format, ...) __attribute__((format(printf, 5, 6)));

/** @p text quoted, escaped and cut for an error message; returns @p buffer. */
#define GOT_MAX 80
const char *got_text(char buffer[GOT_MAX], const char *text, size_t len);

/* assign.c */

/** Every field at its default, and the schemes that are built in. */
void loader_preset(struct loader *loader);

/** The field of @p row in @p base at its default. */
void loader_preset_row(struct loader *loader, void *base, const struct config_row *row);

/**
 * The field of @p row in @p base takes @p value, set at loader->here.
 *
 * @param set_at where the key was set before; changed to where it is now.
 * @param section what error messages call the section.
 */
void loader_assign_row(struct loader *loader, void *base, const struct config_row *row,
                       struct place *set_at, const char *section, const char *value);

/** Report that @p section, whose keys are those of @p rows, has no @p key. */
void loader_unknown_key(struct loader *loader, const char *section, const char *key,
                        const struct config_row *rows, size_t row_count);

/** What stands between the brackets, or before the key in --set; reports what is not a section. */
void section_parse(struct loader *loader, const char *text, size_t len,
                   struct section *ret_section);

/** One key, set at loader->here. */
void loader_assign(struct loader *loader, const struct section *section, const char *key,
                   const char *value);

/* read.c */

/** The lines of @p text, which came from @p file. */
void loader_read_text(struct loader *loader, const char *file, const char *text, size_t len);

/* named.c */

/** A draft at the defaults of its kind; NULL when there is no memory. It has to fit. */
struct named_draft *named_add(struct loader *loader, enum config_named kind, const char *name);

/** One key of a named section, set at loader->here; the section begins to exist with it. */
void named_assign(struct loader *loader, const struct section *section, const char *key,
                  const char *value);

/** Whether @p name, of @p kind, can be one; that of a scheme is lowered on the way. */
bool named_take_name(enum config_named kind, char *name);

/** Its NAME; of the configuration's arena. */
const char *named_name(const struct named_draft *draft);

/** Where @p key, which exists, was set last; a PLACE_PRESET for never. */
const struct place *named_place(enum config_named kind, const struct named_draft *draft,
                                const char *key);

/** Any place where the section was mentioned, for what is missing from it. */
const struct place *named_any_place(enum config_named kind, const struct named_draft *draft);

/** An error about a key, at @p place. */
void named_error(struct loader *loader, enum config_named kind, const struct named_draft *draft,
                 const struct place *place, const char *key, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/**
 * Keys that a named section does not set and a plain section of the same word has, such
 * as those of [upstream NAME] and [upstream], take the value of the plain one.
 */
void named_inherit(struct loader *loader);

/** The drafts of all kinds but SCHEME become the snapshot's tables, in their order. */
void named_freeze(struct loader *loader);

struct target_pattern;

/**
 * The patterns of a list of named sections: reports the bad ones, and a list that is empty
 * where @p is_needed. After loader_check_schemes(), whose schemes they may name.
 *
 * @return an array in the snapshot's arena, as long as @p ret_count says; or NULL.
 */
const struct target_pattern *named_patterns(struct loader *loader, enum config_named kind,
                                            const struct named_draft *draft, const char *key,
                                            const struct config_list *list, bool is_needed,
                                            size_t *ret_count);

/*
 * check.c, scheme.c, route.c and access.c: what everything means together; fill the snapshot's
 * derived parts
 */
void loader_check(struct loader *loader);
void loader_check_schemes(struct loader *loader);
void loader_check_routes(struct loader *loader);

/** The patterns of [upstream NAME], and that [upstream] and each of them is whole. */
void loader_check_upstreams(struct loader *loader);
void loader_check_access(struct loader *loader);

#endif
