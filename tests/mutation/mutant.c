/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Linked into every program and library of a build with mutants (run.py): which mutant is
 * active comes from the environment variable MUTANT, and which ones are reached is noted in
 * the file that MUTANT_SEEN names, a byte for each.
 */
#include "mutant.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static unsigned char mutant_unseen[MUTANT_MAX + 1];

unsigned char *mutant_seen = mutant_unseen;
int mutant_active;

__attribute__((constructor)) static void mutant_read_environment(void)
{
    const char *number = getenv("MUTANT"), *path = getenv("MUTANT_SEEN");
    int file = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (number != NULL) {
        mutant_active = (int)strtol(number, NULL, 10);
    }
    if (file >= 0) {
        void *seen = mmap(NULL, MUTANT_MAX + 1, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (seen != MAP_FAILED) {
            mutant_seen = seen;
        }
        close(file);
    }
}
