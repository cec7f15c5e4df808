/* SPDX-License-Identifier: BSD-2-Clause */
/* The checks of a run: which there are, which apply to this proxy, and what came of each. */
#ifndef COAPCHECK_CHECK_H
#define COAPCHECK_CHECK_H

#include "link.h"

enum outcome {
    OUTCOME_NONE, /* not played yet */
    OUTCOME_PASSED,
    OUTCOME_FAILED,
    OUTCOME_NOT_APPLICABLE,
};

struct check {
    const struct script_scenario *scenario;
    const char *section;   /* "CACHE" */
    char id[32];           /* no other check has it */
    const char *reference; /* "RFC 7252 5.6", or "" */
    enum outcome outcome;
    const char *why_not;       /* static: OUTCOME_NOT_APPLICABLE */
    struct play_result result; /* OUTCOME_FAILED */
};

/* What the proxy was found to take and to do. */
struct abilities {
    bool takes[SPEC_FORMS];
    bool observes, counts_hops, takes_blocks;
};

struct run {
    struct proxy proxy;
    struct sockaddr_storage local;
    struct abilities abilities;
    enum spec_form form;
    bool plays_slow, plays_all_forms, shows_progress;
    unsigned long long end_ms, patience_ms;
    size_t script_count, count;
    struct script *scripts;
    struct check *checks;
};

/**
 * Read all *.scn files of @p folder, in the order of their names.
 *
 * @return false with a message on standard error. Free with check_clear() in either case.
 */
bool check_load(struct run *run, const char *folder);

void check_clear(struct run *run);

/**
 * Keep the checks whose section or id is in @p only (comma-separated; NULL: all) and not in
 * @p exclude (NULL: none).
 */
void check_select(struct run *run, const char *only, const char *exclude);

/** Ask for something in each form, and find out what the proxy does. */
void check_probe(struct run *run);

/** Play all checks that apply, side by side. */
void check_play(struct run *run);

#endif
