/* SPDX-License-Identifier: BSD-2-Clause */
/*
 *     refuse_calls ERROR CALL... -- PROGRAM [ARGUMENT]...
 *
 * Becomes the program, in a sandbox where each CALL fails with ERROR: what a container or a unit
 * with a list of system calls does (EPERM), or a kernel that lacks them (ENOSYS). Exits with 77
 * where the kernel takes no filter, and with 2 where a word is not known.
 */
#include "support/seccomp.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SKIPPED 77

static const struct {
    const char *name;
    unsigned number;
} known_calls[] = {
    {"recvmmsg", __NR_recvmmsg},
#ifdef __NR_recvmmsg_time64
    {"recvmmsg", __NR_recvmmsg_time64}, /* what libc takes where time_t was of 32 bits */
#endif
    {"sendmmsg", __NR_sendmmsg},
};

struct refused {
    unsigned numbers[SECCOMP_CALLS_MAX];
    size_t count;
};

static bool refused_add(struct refused *refused, const char *name)
{
    bool is_known = false;

    for (size_t i = 0; i < sizeof(known_calls) / sizeof(known_calls[0]); i++) {
        if (strcmp(known_calls[i].name, name) == 0 && refused->count < SECCOMP_CALLS_MAX) {
            refused->numbers[refused->count++] = known_calls[i].number;
            is_known = true;
        }
    }
    return is_known;
}

int main(int argc, char **argv)
{
    struct refused refused = {.count = 0};
    int error = 0, i = 2;

    if (argc > 1) {
        error = strcmp(argv[1], "EPERM") == 0 ? EPERM : strcmp(argv[1], "ENOSYS") == 0 ? ENOSYS : 0;
    }
    while (i < argc && strcmp(argv[i], "--") != 0 && refused_add(&refused, argv[i])) {
        i++;
    }
    if (error == 0 || i + 1 >= argc || strcmp(argv[i], "--") != 0) {
        (void)fprintf(stderr, "usage: refuse_calls EPERM|ENOSYS CALL... -- PROGRAM...\n");
        return 2;
    }
    if (!seccomp_refuse(refused.numbers, refused.count, error)) {
        return SKIPPED;
    }
    (void)execv(argv[i + 1], argv + i + 1);
    perror(argv[i + 1]);
    return 2;
}
