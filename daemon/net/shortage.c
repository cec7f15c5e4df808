/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/shortage.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

bool shortage_of_sockets(void)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd >= 0) {
        (void)close(fd);
        return false;
    }
    return errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
}
