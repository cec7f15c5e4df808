/* SPDX-License-Identifier: BSD-2-Clause */
/* The libraries that the proxy runs with, for --version and the metrics. */
#ifndef CRIPROXY_LIBRARIES_H
#define CRIPROXY_LIBRARIES_H

struct metric_library;

/** Name and version of each, those of the shared libraries that were found at run time where
 * they can be asked; the last has no name. Static. */
const struct metric_library *libraries(void);

#endif
