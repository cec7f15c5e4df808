/* SPDX-License-Identifier: BSD-2-Clause */
/* Included before each source file of a build with mutants: see run.py. */
#ifndef MUTANT_H
#define MUTANT_H

#define MUTANT_MAX 4095

#pragma GCC visibility push(hidden)
extern unsigned char *mutant_seen; /* MUTANT_MAX + 1 bytes: 1 where the mutant was reached */
extern int mutant_active;          /* 0: none */
#pragma GCC visibility pop

/* Whether mutant @p n, 1 to MUTANT_MAX, is the one that this run is about. */
#define MUTANT(n) (mutant_seen[n] = 1, mutant_active == (n))

#endif
