/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/handover_store.h"

#include "base/log.h"
#include "net/handover_file.h"
#include "ops/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define FIRST_INHERITED 3

/* ---- the service manager ---- */

static bool manager_keeps(void)
{
    const char *count = getenv("FDSTORE");

    return count != NULL && count[0] >= '1' && count[0] <= '9' && getenv("NOTIFY_SOCKET") != NULL;
}

bool handover_store_is_named(const char *name, size_t len)
{
    return len == strlen(HANDOVER_STORE_NAME) && memcmp(name, HANDOVER_STORE_NAME, len) == 0;
}

/* Of the descriptors that the manager has passed, or -1. */
static int find_passed(void)
{
    const char *pid = getenv("LISTEN_PID"), *names = getenv("LISTEN_FDNAMES");

    if (pid == NULL || names == NULL || strtol(pid, NULL, 10) != (long)getpid()) {
        return -1;
    }
    for (int fd = FIRST_INHERITED; names[0] != '\0'; fd++) {
        size_t len = strcspn(names, ":");
        if (handover_store_is_named(names, len)) {
            (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
            notify_unstore(HANDOVER_STORE_NAME);
            return fd;
        }
        names += len + (names[len] == ':');
    }
    return -1;
}

/* ---- the runtime directory ---- */

/* @return false where there is no such directory */
static bool file_path(char ret_path[PATH_MAX])
{
    const char *folder = getenv("RUNTIME_DIRECTORY");
    size_t len = folder == NULL ? 0 : strcspn(folder, ":");

    return len > 0 && folder[0] == '/' &&
           snprintf(ret_path, PATH_MAX, "%.*s/" HANDOVER_STORE_NAME, (int)len, folder) < PATH_MAX;
}

/* Keys do not go to a disk, where they could be found again. */
static bool is_in_memory(int fd)
{
    struct statfs system;

    return fstatfs(fd, &system) == 0 && ((unsigned long)system.f_type == TMPFS_MAGIC ||
                                         (unsigned long)system.f_type == RAMFS_MAGIC);
}

static int create_file(void)
{
    char path[PATH_MAX];

    if (!file_path(path)) {
        return -ENOENT;
    }
    (void)unlink(path); /* of a process that was never followed */
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return -errno;
    }
    if (!is_in_memory(fd)) {
        (void)unlink(path);
        (void)close(fd);
        return -ENOENT;
    }
    return fd;
}

static bool is_ours_alone(int fd)
{
    struct stat file;

    return fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_uid == geteuid() &&
           (file.st_mode & 077) == 0 && file.st_nlink == 1 && is_in_memory(fd);
}

static int find_file(void)
{
    char path[PATH_MAX];
    int fd = file_path(path) ? open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK) : -1;

    if (fd < 0) {
        return -1;
    }
    if (!is_ours_alone(fd)) {
        log_event(LOG_ERROR, "handover_refused", "error=\"a file that others could have written\"");
        (void)close(fd);
        return -1;
    }
    (void)unlink(path);
    return fd;
}

/* ---- both ---- */

int handover_store_create(void)
{
    return manager_keeps() ? handover_file_open_memory() : create_file();
}

int handover_store_keep(int fd)
{
    return manager_keeps() ? notify_store(HANDOVER_STORE_NAME, fd) : 0;
}

void handover_store_remove(void)
{
    char path[PATH_MAX];

    if (!manager_keeps() && file_path(path)) {
        (void)unlink(path);
    }
}

int handover_store_find(void)
{
    int fd = find_passed();

    return fd >= 0 ? fd : find_file();
}
