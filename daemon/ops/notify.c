/* SPDX-License-Identifier: BSD-2-Clause */
#include "ops/notify.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* @return a socket to the manager, with its address, or -errno */
static int open_manager(struct sockaddr_un *ret_address, socklen_t *ret_len)
{
    const char *path = getenv("NOTIFY_SOCKET");
    size_t len = path == NULL ? 0 : strlen(path);

    *ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (len < 2 || len >= sizeof(ret_address->sun_path) || (path[0] != '/' && path[0] != '@')) {
        return -ENOENT;
    }
    memcpy(ret_address->sun_path, path, len);
    if (path[0] == '@') {
        ret_address->sun_path[0] = '\0'; /* the abstract namespace */
    }
    *ret_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return fd < 0 ? -errno : fd;
}

/* Nothing depends on whether the manager hears us: failures are not reported. */
static void send_state(const char *state)
{
    struct sockaddr_un address;
    socklen_t address_len = 0;
    int fd = open_manager(&address, &address_len);

    if (fd >= 0) {
        (void)sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&address,
                     address_len);
        (void)close(fd);
    }
}

int notify_store(const char *name, int fd)
{
    _Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(int))] = {0};
    struct sockaddr_un address;
    socklen_t address_len = 0;
    char state[128];

    (void)snprintf(state, sizeof(state), "FDSTORE=1\nFDNAME=%s", name);
    int manager = open_manager(&address, &address_len);
    if (manager < 0) {
        return manager;
    }
    struct iovec part = {.iov_base = state, .iov_len = strlen(state)};
    struct msghdr message = {.msg_name = &address,
                             .msg_namelen = address_len,
                             .msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof(control)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &fd, sizeof(fd));
    int error = sendmsg(manager, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
    (void)close(manager);
    return error;
}

void notify_unstore(const char *name)
{
    char state[128];

    (void)snprintf(state, sizeof(state), "FDSTOREREMOVE=1\nFDNAME=%s", name);
    send_state(state);
}

static void put_state(char *text, size_t capacity, enum notify_state state)
{
    static const char *const words[] = {
        [NOTIFY_READY] = "READY=1",
        [NOTIFY_RELOADING] = "RELOADING=1",
        [NOTIFY_STOPPING] = "STOPPING=1",
        [NOTIFY_ALIVE] = "WATCHDOG=1",
    };
    struct timespec now = {0};

    if (state != NOTIFY_RELOADING) {
        (void)snprintf(text, capacity, "%s", words[state]);
        return;
    }
    /* Type=notify-reload wants to know that READY=1 belongs to this reload. */
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t now_us = (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
    (void)snprintf(text, capacity, "%s\nMONOTONIC_USEC=%" PRIu64, words[state], now_us);
}

void notify_manager(enum notify_state state, const char *status)
{
    char text[1024];

    put_state(text, sizeof(text), state);
    if (status != NULL) {
        size_t len = strlen(text);
        (void)snprintf(text + len, sizeof(text) - len, "\nSTATUS=%s", status);
        /* A newline would begin another assignment. */
        for (char *at = text + len + 1; *at != '\0'; at++) {
            *at = *at == '\n' ? ' ' : *at;
        }
    }
    send_state(text);
}

/* @p text as a number; 0 if it is not one. */
static uint64_t parse_number(const char *text)
{
    char *end = NULL;

    if (text == NULL || text[0] < '0' || text[0] > '9') {
        return 0;
    }
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0' ? value : 0;
}

uint64_t notify_watchdog_ms(void)
{
    const char *pid = getenv("WATCHDOG_PID");

    /* The variables are inherited: they may be meant for the process that started us. */
    if (pid != NULL && parse_number(pid) != (uint64_t)getpid()) {
        return 0;
    }
    uint64_t interval_us = parse_number(getenv("WATCHDOG_USEC"));
    return interval_us > 0 && interval_us < 1000 ? 1 : interval_us / 1000;
}
