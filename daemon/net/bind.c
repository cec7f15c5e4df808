/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/bind.h"

#include "net/sockaddr.h"

#include <errno.h>
#include <sys/socket.h>
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

static int open_socket(const struct address *address, int type, bool reuse_port)
{
    union sockaddr_any name;
    socklen_t name_len = sockaddr_from_address(address, &name);

    if (name_len == 0) {
        return -EAFNOSUPPORT;
    }
    int fd = socket(name.any.sa_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    int err = prepare(fd, address, reuse_port);
    if (err == 0 && type == SOCK_STREAM) {
        /* Connections of the process before may linger on the port: they are no reason to fail. */
        err = set_one(fd, SOL_SOCKET, SO_REUSEADDR);
    }
    if (err == 0 && bind(fd, &name.any, name_len) != 0) {
        err = -errno;
    }
    if (err == 0 && type == SOCK_STREAM && listen(fd, BACKLOG) != 0) {
        err = -errno;
    }
    if (err != 0) {
        (void)close(fd);
        return err;
    }
    return fd;
}

int bind_datagram(const struct address *address, bool reuse_port)
{
    return open_socket(address, SOCK_DGRAM, reuse_port);
}

int bind_stream(const struct address *address, bool reuse_port)
{
    return open_socket(address, SOCK_STREAM, reuse_port);
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
