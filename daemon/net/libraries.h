/* SPDX-License-Identifier: BSD-2-Clause */
/* The libraries that the proxy runs with, for --version and the metrics. */
#ifndef CRIPROXY_LIBRARIES_H
#define CRIPROXY_LIBRARIES_H

#include <stdbool.h>

/* A library that the process uses, and its version; both static. */
struct library {
    const char *name; /* fit for a label: a-z, _, and digits but at the start */
    const char *version;
    const char *use; /* what of it is used, where it could be more; or NULL */
};

/** Name and version of each, those of the shared libraries that were found at run time where
 * they can be asked; the last has no name. One that is loaded when it is needed has the version of
 * its headers before. Static. */
const struct library *libraries(void);

/** Loads those that are loaded late, so that libraries() has what is there. Cannot fail: what is
 * not there is told as such. */
void libraries_load(void);

/* What a build can leave out (CRI_WITH_...). */
struct feature {
    const char *name;
    bool is_built_in;
};

/** What this build has and what it was made without, for --version; the last has no name. Static.
 */
const struct feature *features(void);

#endif
