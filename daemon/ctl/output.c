/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl/output.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

FILE *output_open(const char *name)
{
    if (strcmp(name, "-") == 0) {
        return stdout;
    }
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
    if (out == NULL && fd >= 0) {
        int error = errno;
        (void)close(fd);
        errno = error;
    }
    return out;
}

bool output_close(FILE *out)
{
    bool is_good = fflush(out) == 0;
    if (out != stdout) {
        is_good = fclose(out) == 0 && is_good;
    }
    return is_good;
}
