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
#include <unistd.h>

/* With a suffix. */
#define FILE_NAME_ROOM (OSCORE_STATE_NAME_LEN + 8u)

/* "free 1099511627776\n" and some. */
#define CONTENT_MAX 40u

struct oscore_state {
    int directory; /* descriptors */
    int lock;
    uint64_t reserved;
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

    if (fd < 0 && errno == ENOENT) {
        state->reserved = 0; /* the first time */
        return true;
    }
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

/* ---- what the header says ---- */

static int open_directory(const char *name)
{
    (void)mkdir(name, 0700); /* where it is there, that is all the better */
    return open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static bool lock_state(struct oscore_state *state, const char **ret_why)
{
    char name[FILE_NAME_ROOM];

    (void)snprintf(name, sizeof name, "%s.lock", state->name);
    state->lock = openat(state->directory, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
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

struct oscore_state *oscore_state_open(const char *directory, const char *name,
                                       const char **ret_why)
{
    struct oscore_state *state = calloc(1, sizeof *state);

    if (state == NULL) {
        *ret_why = "out of memory";
        return NULL;
    }
    state->lock = -1;
    (void)snprintf(state->name, sizeof state->name, "%s", name);
    state->directory = open_directory(directory);
    if (state->directory < 0) {
        *ret_why = "the directory of the sequence numbers cannot be opened";
    } else if (lock_state(state, ret_why) && read_reserved(state, ret_why)) {
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

bool oscore_state_reserve(struct oscore_state *state, uint64_t end, const char **ret_why)
{
    char text[CONTENT_MAX], name[FILE_NAME_ROOM];

    if (end > OSCORE_SEQUENCE_END) {
        *ret_why = "the sequence numbers of the security context are used up";
        return false;
    }
    (void)snprintf(text, sizeof text, "free %" PRIu64 "\n", end);
    (void)snprintf(name, sizeof name, "%s.new", state->name);
    int fd =
        openat(state->directory, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool is_written = fd >= 0 && write_whole(fd, text);
    if (fd >= 0 && close(fd) != 0) {
        is_written = false;
    }
    if (!is_written || renameat(state->directory, name, state->directory, state->name) != 0 ||
        fsync(state->directory) != 0) {
        *ret_why = "the sequence numbers cannot be written";
        return false;
    }
    state->reserved = end;
    return true;
}
