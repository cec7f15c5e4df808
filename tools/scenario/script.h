/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files of scenarios, read (docs/SCENARIOS.md): titles, definitions, repetitions and tables are
 * resolved here, so that what is left of a scenario is a plain sequence of lines.
 */
#ifndef SCENARIO_SCRIPT_H
#define SCENARIO_SCRIPT_H

#include "pool.h"

#include <stdbool.h>

enum {
    SCRIPT_WORDS_MAX = 256, /* of a line */
};

struct script_line {
    int number;       /* in the file, from 1 */
    const char *text; /* without comment and outer blanks */
};

struct script_scenario {
    const char *file;
    const char *id; /* the first of its requirements, with ".N" for row N; "" where it has none */
    const char *title; /* with all of them, as it stands there */
    int number;        /* line of the title */
    size_t count;
    struct script_line *lines;
};

struct script {
    struct pool pool;
    size_t count;
    struct script_scenario *scenarios;
};

/**
 * Read @p path. Free with script_clear() in either case.
 *
 * @return false with a message "FILE:LINE: what is wrong" in @p ret_error, which the script owns.
 */
bool script_load(struct script *script, const char *path, const char **ret_error);

void script_clear(struct script *script);

/**
 * Split @p text at blanks outside of quotation marks; the words keep those.
 *
 * @return how many; SIZE_MAX where a quotation does not end or there are more than @p max.
 */
size_t script_split(struct pool *pool, const char *text, char **words, size_t max);

/** "2s", "1500ms", "3min", "1h", "2d"; false for anything else. */
bool script_duration(const char *text, unsigned long long *ret_ms);

#endif
