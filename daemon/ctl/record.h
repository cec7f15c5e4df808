/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * criproxyctl record: what origin servers answer, in a file that [route NAME] via = recording:FILE
 * answers from (docs/RECORDINGS.md). The proxy, which may write no files, sends each answer with
 * its request over the control socket (the command answers); here blocks become whole bodies, and
 * notifications the sequence of their observation.
 */
#ifndef CRIPROXYCTL_RECORD_H
#define CRIPROXYCTL_RECORD_H

/**
 * Runs it until it is interrupted, or a limit is reached; the file is whole then.
 *
 * @param argv "record", and its arguments.
 * @return the exit status; the reason for another than 0 was printed.
 */
int record_run(const char *socket, int argc, char **argv);

#endif
