/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * criproxyctl top: what a proxy does now, in a terminal of 80 columns or more. Everything in it
 * comes from other commands (status, stats, fronts, origins, sources, busiest); rates are the
 * differences of two answers.
 */
#ifndef CRIPROXYCTL_TOP_H
#define CRIPROXYCTL_TOP_H

/**
 * Runs it until it is interrupted, or q is typed; with --once until the first frame.
 *
 * @param argv "top", and its arguments.
 * @return the exit status; the reason for another than 0 was printed.
 */
int top_run(const char *socket, int argc, char **argv);

#endif
