/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/bind.h"

#include "net/sockaddr.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 1024

static int set_one(int fd, int level, int name)
{
    const int one = 1;

    return setsockopt(fd, level, name, &one, sizeof one) == 0 ? 0 : -errno;
}

/* An IPv6 socket is for IPv6 alone, so that both families can have a socket on one port. */
static int prepare(int fd, const struct address *address, bool reuse_port)
{
    int err = 0;

    if (address->family == ADDRESS_IPV6) {
        err = set_one(fd, IPPROTO_IPV6, IPV6_V6ONLY);
    }
    if (err == 0 && reuse_port) {
        err = set_one(fd, SOL_SOCKET, SO_REUSEPORT);
    }
    return err;
}

int bind_socket(enum bind_type type, const struct address *address, bool reuse_port)
{
    bool is_stream = type == BIND_STREAM;
    union sockaddr_any name;
    socklen_t name_len = sockaddr_from_address(address, &name);

    if (name_len == 0) {
        return -EAFNOSUPPORT;
    }
    int fd = socket(name.any.sa_family,
                    (is_stream ? SOCK_STREAM : SOCK_DGRAM) | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    /*
     * Of the ports of UDP the kernel also chooses one that sockets with SO_REUSEPORT of another
     * process of this user have, and each would get some of the clients.
     */
    bool is_shared_later = reuse_port && !is_stream && address->port == 0;
    int err = prepare(fd, address, reuse_port && !is_shared_later);
    if (err == 0 && is_stream) {
        /* Connections of the process before may linger on the port: they are no reason to fail. */
        err = set_one(fd, SOL_SOCKET, SO_REUSEADDR);
    }
    if (err == 0 && bind(fd, &name.any, name_len) != 0) {
        err = -errno;
    }
    if (err == 0 && is_shared_later) {
        err = set_one(fd, SOL_SOCKET, SO_REUSEPORT);
    }
    if (err == 0 && is_stream && listen(fd, BACKLOG) != 0) {
        err = -errno;
    }
    if (err != 0) {
        (void)close(fd);
        return err;
    }
    return fd;
}

/* Whether no process listens on the socket at that path any more. */
static bool is_abandoned(const struct sockaddr_un *name)
{
    struct stat status;
    int fd = -1;

    if (lstat(name->sun_path, &status) == 0 && S_ISSOCK(status.st_mode)) {
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    }
    if (fd < 0) {
        return false;
    }
    bool is_refused =
        connect(fd, (const struct sockaddr *)name, sizeof *name) != 0 && errno == ECONNREFUSED;
    (void)close(fd);
    return is_refused;
}

static int bind_name(int fd, const struct sockaddr_un *name)
{
    const struct sockaddr *any = (const struct sockaddr *)name;

    if (bind(fd, any, sizeof *name) == 0) {
        return 0;
    }
    int err = -errno;
    if (err != -EADDRINUSE || !is_abandoned(name) || unlink(name->sun_path) != 0) {
        return err;
    }
    return bind(fd, any, sizeof *name) == 0 ? 0 : -errno;
}

int bind_unix(const char *path, unsigned mode)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    size_t len = strlen(path);

    if (len == 0 || len >= sizeof name.sun_path) {
        return -ENAMETOOLONG;
    }
    memcpy(name.sun_path, path, len);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    /* Before the socket has a name, so that it never exists with another mode; the umask may remove
     * bits.
     */
    int err = fchmod(fd, (mode_t)mode) == 0 ? bind_name(fd, &name) : -errno;
    if (err == 0 && (chmod(path, (mode_t)mode) != 0 || listen(fd, BACKLOG) != 0)) {
        err = -errno;
        (void)unlink(path);
    }
    if (err != 0) {
        (void)close(fd);
        return err;
    }
    return fd;
}

int bind_address_of(int fd, struct address *ret_address)
{
    union sockaddr_any name = {.any.sa_family = AF_UNSPEC};
    socklen_t name_len = sizeof name;
    struct address address;

    if (getsockname(fd, &name.any, &name_len) != 0) {
        return -errno;
    }
    sockaddr_to_address(&name, name_len, &address);
    if (address.family == ADDRESS_NONE) {
        return -EAFNOSUPPORT;
    }
    *ret_address = address;
    return 0;
}

enum bind_type bind_type_of(int fd)
{
    int type = 0, is_listening = 0;
    socklen_t len = sizeof type;

    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) != 0) {
        return BIND_OTHER;
    }
    if (type == SOCK_DGRAM) {
        return BIND_DATAGRAM;
    }
    len = sizeof is_listening;
    bool listens =
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &len) == 0 && is_listening != 0;
    return type == SOCK_STREAM && listens ? BIND_STREAM : BIND_OTHER;
}
