/* SPDX-License-Identifier: BSD-2-Clause */
/* What a run has shown: for people, as JSON (an object a line), as JUnit's XML. */
#ifndef COAPCHECK_REPORT_H
#define COAPCHECK_REPORT_H

#include "check.h"

/** The checks, a line each: id, title, RFC section. */
void report_list(const struct run *run);

/** By section, with what failed; with @p is_verbose the conversation of each failure, too. */
void report_text(const struct run *run, bool is_verbose);

/** An object a line: id, title, section, reference, result, expected, got, because. */
void report_json(const struct run *run);

void report_junit(const struct run *run);

/** How many checks ended so. */
size_t report_count(const struct run *run, enum outcome outcome);

#endif
