/* SPDX-License-Identifier: BSD-2-Clause */
/* Files that capture and record write: what was encrypted stands in them. */
#ifndef CRIPROXYCTL_OUTPUT_H
#define CRIPROXYCTL_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

/**
 * Opens @p name, for its owner alone and empty, or standard output for "-". A command does so only
 * once the proxy has accepted it: before, the file may have something worth keeping.
 *
 * @return close with output_close(); NULL with errno
 */
FILE *output_open(const char *name);

/** Writes what is buffered, and closes all but standard output. @return false, with errno */
bool output_close(FILE *out);

#endif
