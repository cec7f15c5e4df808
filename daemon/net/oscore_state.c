/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/oscore_state.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* With a suffix. */
#define FILE_NAME_ROOM (OSCORE_STATE_NAME_LEN + 8u)

/* "free 1099511627776\n" and some. */
#define CONTENT_MAX 40u

struct oscore_state {
    int directory; /* descriptors */
    int lock;
    uint64_t reserved;
    bool made_directory, is_new; /* this process has made it, and the file */
    char name[OSCORE_STATE_NAME_LEN + 1];
};

/* ---- the file ---- */

/* Anything but what oscore_state_reserve() writes is an error: it is no time to guess. */
static bool parse_reserved(const char *text, uint64_t *ret_reserved)
{
    static const char word[] = "free ";
    const char *digits = text + sizeof word - 1;
    char *end = NULL;

    if (strncmp(text, word, sizeof word - 1) != 0 || *digits < '0' || *digits > '9') {
        return false;
    }
    errno = 0;
    *ret_reserved = strtoull(digits, &end, 10);
    return errno == 0 && strcmp(end, "\n") == 0 && *ret_reserved <= OSCORE_SEQUENCE_END;
}

static bool read_reserved(struct oscore_state *state, const char **ret_why)
{
    char text[CONTENT_MAX + 1] = "";
    int fd = openat(state->directory, state->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t len = fd >= 0 ? read(fd, text, CONTENT_MAX) : -1;

    if (fd >= 0) {
        (void)close(fd);
    }
    if (len < 0) {
        *ret_why = "the sequence numbers cannot be read";
        return false;
    }
    if (!parse_reserved(text, &state->reserved)) {
        *ret_why = "the file with the sequence numbers is damaged";
        return false;
    }
    return true;
}

static bool write_whole(int fd, const char *text)
{
    size_t len = strlen(text);

    return write(fd, text, len) == (ssize_t)len && fsync(fd) == 0;
}

/* In the order that a loss of power cannot undo: the new file, its name, the directory. */
static bool write_reserved(const struct oscore_state *state, uint64_t end)
{
    char text[CONTENT_MAX], name[FILE_NAME_ROOM];

    (void)snprintf(text, sizeof text, "free %" PRIu64 "\n", end);
    (void)snprintf(name, sizeof name, "%s.new", state->name);
    int fd =
        openat(state->directory, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool is_written = fd >= 0 && write_whole(fd, text);
    if (fd >= 0 && close(fd) != 0) {
        is_written = false;
    }
    return is_written && renameat(state->directory, name, state->directory, state->name) == 0 &&
           fsync(state->directory) == 0;
}

/* ---- the directory ---- */

/* Others that may write there may also set the numbers back. */
static bool is_safe_directory(int directory)
{
    struct stat status;

    return fstat(directory, &status) == 0 && (status.st_uid == 0 || status.st_uid == geteuid()) &&
           (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* A directory whose name is lost with the power takes its files along. */
static bool sync_parent(int directory)
{
    int parent = openat(directory, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool is_synced = parent >= 0 && fsync(parent) == 0;

    if (parent >= 0) {
        (void)close(parent);
    }
    return is_synced;
}

/* Without slashes at its end, which would follow a symbolic link. @return NULL: no memory */
static char *plain_name(const char *name)
{
    char *plain = strdup(name);
    size_t len = plain != NULL ? strlen(plain) : 0;

    while (len > 1 && plain[len - 1] == '/') {
        plain[--len] = '\0';
    }
    return plain;
}

static bool open_directory(struct oscore_state *state, const char *name, const char **ret_why)
{
    char *plain = plain_name(name);

    *ret_why = "the directory of the sequence numbers cannot be opened";
    if (plain == NULL) {
        return false;
    }
    state->made_directory = mkdir(plain, 0700) == 0;
    state->directory = open(plain, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool is_link = state->directory < 0 && (errno == ENOTDIR || errno == ELOOP);
    free(plain);
    if (is_link) {
        *ret_why = "the directory of the sequence numbers is a symbolic link, or no directory";
        return false;
    }
    if (state->directory < 0) {
        return false;
    }
    if (!is_safe_directory(state->directory)) {
        *ret_why = "the directory of the sequence numbers belongs to another user, or its mode "
                   "lets others write";
        return false;
    }
    return true;
}

/* ---- what the header says ---- */

/* False only for a file that is certainly not there. */
static bool may_have_file(const struct oscore_state *state, const char *name)
{
    struct stat status;

    return fstatat(state->directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

/*
 * The first use of a context in this directory makes its file before the lock, both with the
 * directory locked. So a lock without the file is no first use: the file was taken away.
 */
static bool begin_file(struct oscore_state *state, const char *lock_name, const char **ret_why)
{
    if (may_have_file(state, state->name)) {
        return true;
    }
    if (may_have_file(state, lock_name)) {
        *ret_why = "the file with the sequence numbers is gone, its lock is there: the security "
                   "context needs a new master secret or ID context";
        return false;
    }
    /* Also where a process before us made the directory, and came no further. Of one that was made
     * for us, the parent need not be ours to read. */
    if ((!sync_parent(state->directory) && state->made_directory) || !write_reserved(state, 0)) {
        *ret_why = "nothing can be written to the directory of the sequence numbers";
        return false;
    }
    state->is_new = true;
    return true;
}

static bool take_lock(struct oscore_state *state, const char *lock_name, const char **ret_why)
{
    state->lock =
        openat(state->directory, lock_name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (state->lock < 0) {
        *ret_why = "nothing can be written to the directory of the sequence numbers";
        return false;
    }
    if (flock(state->lock, LOCK_EX | LOCK_NB) != 0) {
        *ret_why = "another process or section uses the security context";
        return false;
    }
    return true;
}

static bool lock_state(struct oscore_state *state, const char **ret_why)
{
    char name[FILE_NAME_ROOM];

    (void)snprintf(name, sizeof name, "%s.lock", state->name);
    /* Every user who can read the directory can lock it: the lock is waited for, for a second. */
    const struct timespec moment = {.tv_nsec = 10000000};
    bool has_directory = false;
    for (int i = 0; i < 100 && !has_directory; i++) {
        has_directory = flock(state->directory, LOCK_EX | LOCK_NB) == 0;
        if (!has_directory) {
            (void)nanosleep(&moment, NULL);
        }
    }
    if (!has_directory) {
        *ret_why = "the directory of the sequence numbers cannot be locked";
        return false;
    }
    bool is_locked = begin_file(state, name, ret_why) && take_lock(state, name, ret_why);
    (void)flock(state->directory, LOCK_UN);
    return is_locked;
}

struct oscore_state *oscore_state_open(const char *directory, const char *name,
                                       const char **ret_why)
{
    struct oscore_state *state = calloc(1, sizeof *state);

    if (state == NULL) {
        *ret_why = "out of memory";
        return NULL;
    }
    state->directory = state->lock = -1;
    (void)snprintf(state->name, sizeof state->name, "%s", name);
    if (open_directory(state, directory, ret_why) && lock_state(state, ret_why) &&
        read_reserved(state, ret_why)) {
        return state;
    }
    oscore_state_close(state);
    return NULL;
}

void oscore_state_close(struct oscore_state *state)
{
    if (state == NULL) {
        return;
    }
    if (state->lock >= 0) {
        (void)close(state->lock);
    }
    if (state->directory >= 0) {
        (void)close(state->directory);
    }
    free(state);
}

uint64_t oscore_state_reserved(const struct oscore_state *state)
{
    return state->reserved;
}

bool oscore_state_is_new(const struct oscore_state *state)
{
    return state->is_new;
}

bool oscore_state_reserve(struct oscore_state *state, uint64_t end, const char **ret_why)
{
    if (end > OSCORE_SEQUENCE_END) {
        *ret_why = "the sequence numbers of the security context are used up";
        return false;
    }
    if (!write_reserved(state, end)) {
        *ret_why = "the sequence numbers cannot be written";
        return false;
    }
    state->reserved = end;
    return true;
}
