/* SPDX-License-Identifier: BSD-2-Clause */
/* The libraries that the proxy runs with, for --version and the metrics. */
#ifndef CRIPROXY_LIBRARIES_H
#define CRIPROXY_LIBRARIES_H

/* A library that the process uses, and its version; both static. */
struct library {
    const char *name; /* fit for a label: a-z and _ */
    const char *version;
};

/** Name and version of each, those of the shared libraries that were found at run time where
 * they can be asked; the last has no name. Static. */
const struct library *libraries(void);

#endif
