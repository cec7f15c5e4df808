/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How many arguments a row of ops/commands.def takes: criproxyctl looks before it asks,
 * the daemon because others may ask.
 */
#ifndef CRIPROXY_ARGUMENTS_H
#define CRIPROXY_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>

/**
 * Whether @p count arguments fit a command; false if there are too few or too many.
 * @param arguments column of the command's row: words separated by blanks, optional ones in
 *        brackets; a last one that ends in ...] may stand any number of times.
 */
bool arguments_fit(const char *arguments, size_t count);

#endif
