/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Several datagrams with one system call, recvmmsg() and sendmmsg(); where a sandbox refuses these,
 * one call for each datagram. Which it is shows at the first socket that is opened.
 */
#ifndef CRIPROXY_MMSG_H
#define CRIPROXY_MMSG_H

#include <stdbool.h>
#include <sys/socket.h>

/**
 * Finds out once for the process, in any thread, which calls are refused, and logs a line if one
 * is. Before this mmsg_receive() and mmsg_send() take the quick calls.
 */
void mmsg_probe(void);

/** Whether each datagram takes a call of its own, in this or that direction. */
bool mmsg_is_slow(void);

/** As recvmmsg() without waiting: the number of datagrams, at least 1, or -1 with errno. */
int mmsg_receive(int fd, struct mmsghdr *headers, unsigned count);

/** As sendmmsg() without waiting and without SIGPIPE: the number of datagrams, at least 1, or -1
 * with errno for the first one. */
int mmsg_send(int fd, struct mmsghdr *headers, unsigned count);

#endif
