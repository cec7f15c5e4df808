/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A configuration while it is being read. Private to conf/.
 *
 * The way of a key: load.c cuts a file into lines and has inih split them; assign.c finds the row
 * and stores the value; check.c, when everything is read, checks the rules between keys and derives
 * the rest.
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
    bool no_memory;    /* a result may be NULL: nothing more is read or checked */
    struct place here; /* of the key that is being assigned */
    struct place set_at[CONFIG_ROW_COUNT];
    struct named_drafts named[CONFIG_NAMED_COUNT];
    const char *files[CONFIG_FILES_MAX]; /* read, and still to be read */
    size_t file_count;
};

/** An error about a key (both may be NULL) that was set at @p place. */
void loader_error(struct loader *loader, const struct place *place, const char *section,
                  const char *key, const char *format, ...) __attribute__((format(printf, 5, 6)));

#define GOT_MAX 80 /* bytes, NUL included */

/** @p text quoted, escaped and cut for an error message. Returns @p buffer, the caller's. */
const char *got_text(char buffer[GOT_MAX], const char *text, size_t len);

/* assign.c */

/**
 * Sets every field to its default, and adds the built-in schemes. Without memory sets
 * loader->no_memory.
 */
void loader_preset(struct loader *loader);

/** Gives the keys of sizes.def that are not set the defaults of proxy.size; after all files. */
void loader_size(struct loader *loader);

/**
 * Sets the field of @p row in @p base to its default, with texts and lists in the loader's arena.
 * Without memory sets loader->no_memory.
 */
void loader_preset_row(struct loader *loader, void *base, const struct config_row *row);

/**
 * The field of @p row in @p base takes @p value, set at loader->here.
 *
 * @param set_at where the key was set before; changed to the new place.
 * @param section name of the section for error messages.
 */
void loader_assign_row(struct loader *loader, void *base, const struct config_row *row,
                       struct place *set_at, const char *section, const char *value);

/**
 * Reports the error that @p section, whose keys are those of @p rows, has no key @p key, with the
 * most similar one.
 */
void loader_unknown_key(struct loader *loader, const char *section, const char *key,
                        const struct config_row *rows, size_t row_count);

/**
 * Reads the text between the brackets of a section's line, or before the key in --set. Reports an
 * error if it is no section; @p ret_section then has no name. The result is a copy.
 */
void section_parse(struct loader *loader, const char *text, size_t len,
                   struct section *ret_section);

/**
 * Sets one key at loader->here. Reports an unknown key and an invalid value as errors; the field
 * then keeps its value. @p value is copied.
 */
void loader_assign(struct loader *loader, const struct section *section, const char *key,
                   const char *value);

/* named.c */

/** A draft at the defaults of its kind; NULL when there is no memory. It has to fit. */
struct named_draft *named_add(struct loader *loader, enum config_named kind, const char *name);

/**
 * Sets one key of a named section at loader->here; the first key creates the section. Reports
 * unknown keys, invalid values and too many sections as errors. @p value is copied.
 */
void named_assign(struct loader *loader, const struct section *section, const char *key,
                  const char *value);

/**
 * Whether @p name is valid for a section of @p kind; the name of a scheme is converted to lower
 * case in place. False for an invalid name.
 */
bool named_take_name(enum config_named kind, char *name);

/**
 * Where @p key was set last; a PLACE_PRESET if it never was. Borrowed from @p draft. @p key has to
 * exist.
 */
const struct place *named_place(enum config_named kind, const struct named_draft *draft,
                                const char *key);

/** Any place where the section occurs, for errors about a missing key. Borrowed from @p draft. */
const struct place *named_any_place(enum config_named kind, const struct named_draft *draft);

/** An error about a key, at @p place. */
void named_error(struct loader *loader, enum config_named kind, const struct named_draft *draft,
                 const struct place *place, const char *key, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

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

/* check.c */

/**
 * The rules between keys, in the order of rules.def, until one has set loader->no_memory. Each
 * reports errors, and fills the derived parts of the snapshot in its arena.
 */
void loader_check(struct loader *loader);

/* A rule that is in a file of its own; rules.def says of what. */
#define RULE(function)
#define SHARED(function) void function(struct loader *loader);
#include "conf/rules.def"
#undef RULE
#undef SHARED

struct cri;
struct cri_list;

/**
 * Read @p text, a URI or IRI, into a CRI.
 *
 * @param encoded room for the CRI, of @p capacity bytes, which @p ret_cri borrows from.
 * @return false where it is no URI, or too long.
 */
bool loader_read_uri(const struct loader *loader, const char *text, uint8_t *encoded,
                     size_t capacity, struct cri *ret_cri);

struct target;

/**
 * The target that @p cri names in full; its packed path and query are in the snapshot's arena.
 *
 * @param ret_target zeroed; the scheme borrowed from the configuration. May have changed on errors.
 * @return NULL, or what is wrong, static.
 */
const char *loader_target_of(struct loader *loader, const struct cri *cri,
                             struct target *ret_target);

/** The labels of a host name, joined, in the snapshot's arena; NULL if no resolver takes it. */
const char *loader_join_labels(struct loader *loader, const struct cri_list *labels);

/** Whether @p name is good for a [device NAME]; converted to lower case in place. */
bool loader_take_device_name(char *name);

/** Where the key of options.def was set. Static, or borrowed from @p loader. */
const struct place *check_place_of(const struct loader *loader, const char *section,
                                   const char *key);

struct address_prefix;

/**
 * The ranges in a list of a named section, as in policy.clients; reports the bad ones.
 *
 * @param ret_ranges in the snapshot's arena; NULL without memory.
 * @return how many
 */
size_t loader_take_ranges(struct loader *loader, enum config_named kind,
                          const struct named_draft *draft, const char *key,
                          const struct config_list *list, const struct address_prefix **ret_ranges);

#endif
