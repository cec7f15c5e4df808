/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl/wire.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define REQUEST_MAX 4096u

static int ctl_connect_to(const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    size_t len = strlen(path);

    if (len == 0 || len >= sizeof(name.sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(name.sun_path, path, len);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&name, sizeof(name)) != 0) {
        int error = errno;
        (void)close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

/* A hint about the likely cause, or "". */
static const char *hint_for(int error)
{
    switch (error) {
    case ENOENT:
    case ECONNREFUSED:
        return "; is criproxyd running, with this as its admin.socket?";
    case EACCES:
        return "; only root, and the proxy's user and groups, may use it";
    default:
        return "";
    }
}

bool wire_open(struct wire *wire, const char *path)
{
    wire->fd = ctl_connect_to(path);
    wire->stop = NULL;
    wire->used = 0;
    wire->len = 0;
    if (wire->fd < 0) {
        int error = errno;
        (void)fprintf(stderr, "criproxyctl: %s: %s%s\n", path, strerror(error), hint_for(error));
        return false;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    return true;
}

void wire_close(struct wire *wire)
{
    (void)close(wire->fd);
    wire->fd = -1;
}

bool wire_ask(const struct wire *wire, const char *command, char *const *arguments, int count)
{
    char buffer[REQUEST_MAX];
    struct json_writer request;
    size_t sent = 0;

    json_writer_init(&request, buffer, sizeof(buffer));
    json_begin(&request);
    json_text(&request, "command", command);
    for (int i = 0; i < count; i++) {
        char key[24];
        (void)snprintf(key, sizeof(key), "argument%d", i + 1);
        json_text(&request, key, arguments[i]);
    }
    if (!json_end(&request)) {
        (void)fprintf(stderr, "criproxyctl: %s\n", strerror(EMSGSIZE));
        return false;
    }
    while (sent < request.len) {
        ssize_t written = write(wire->fd, buffer + sent, request.len - sent);
        if (written < 0 && errno != EINTR) {
            (void)fprintf(stderr, "criproxyctl: %s\n", strerror(errno));
            return false;
        }
        sent += written > 0 ? (size_t)written : 0;
    }
    return true;
}

static enum wire_result break_off(const char *why)
{
    (void)fprintf(stderr, "criproxyctl: %s\n", why);
    return WIRE_BROKEN;
}

/* The line that is there is read. */
static enum wire_result wire_take_line(struct wire *wire, size_t len)
{
    wire->line = wire->buffer + wire->used;
    wire->line_len = len;
    wire->used += len + 1;
    if (!json_read(wire->line, len, wire->memory, sizeof(wire->memory), &wire->object)) {
        return break_off("the answer is not understood");
    }
    const char *end = json_get(&wire->object, "end");
    if (end == NULL) {
        return WIRE_ITEM;
    }
    if (strcmp(end, "ok") == 0) {
        return WIRE_END;
    }
    const char *error = json_get(&wire->object, "error");
    (void)fprintf(stderr, "criproxyctl: %s\n", error == NULL ? "refused" : error);
    return WIRE_REFUSED;
}

enum wire_result wire_read(struct wire *wire)
{
    for (;;) {
        const char *end = memchr(wire->buffer + wire->used, '\n', wire->len - wire->used);
        if (end != NULL) {
            return wire_take_line(wire, (size_t)(end - wire->buffer) - wire->used);
        }
        memmove(wire->buffer, wire->buffer + wire->used, wire->len - wire->used);
        wire->len -= wire->used;
        wire->used = 0;
        if (wire->len == sizeof(wire->buffer)) {
            return break_off("the answer is not understood");
        }
        if (wire->stop != NULL && *wire->stop != 0) {
            return WIRE_STOPPED;
        }
        ssize_t got = read(wire->fd, wire->buffer + wire->len, sizeof(wire->buffer) - wire->len);
        if (got == 0 || (got < 0 && errno != EINTR)) {
            return break_off(got < 0 ? strerror(errno) : "the proxy closed the connection");
        }
        wire->len += got > 0 ? (size_t)got : 0;
    }
}

enum wire_result wire_read_all(struct wire *wire,
                               bool (*take)(void *context, const struct wire *wire), void *context)
{
    bool is_taken = true;
    enum wire_result result;

    while ((result = wire_read(wire)) == WIRE_ITEM) {
        is_taken = is_taken && (take == NULL || take(context, wire));
    }
    return result == WIRE_END && !is_taken ? WIRE_BROKEN : result;
}
