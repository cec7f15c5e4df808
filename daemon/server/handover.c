/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a process leaves for the one that follows, be it the same one with another program
 * (server/restart.c) or another one, and how that takes it: sockets, where it is the same process,
 * and DTLS sessions.
 */
#include "server/handover.h"

#include "base/log.h"
#include "base/pack.h"
#include "client/listen.h"
#include "conf/admin_listen.h"
#include "net/handover_file.h"
#include "ops/metrics.h"
#include "ops/notify.h"
#include "server/server.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* ---- the store: where sessions wait for the process that is started next ---- */

/*
 * In a file as of net/handover_file.h: with the service manager, as a file in memory, where it says
 * that it keeps one ($FDSTORE, sd_notify(3)); else in $RUNTIME_DIRECTORY, where that is memory.
 * Without either, sessions end with their process, and are told so.
 *
 * Both keep it for as long as a restart takes: FileDescriptorStoreMax= and
 * RuntimeDirectoryPreserve=restart in the unit.
 */

#define FIRST_INHERITED 3

static bool manager_keeps(void)
{
    const char *count = getenv("FDSTORE");

    return count != NULL && count[0] >= '1' && count[0] <= '9' && getenv("NOTIFY_SOCKET") != NULL;
}

static bool is_store_named(const char *name, size_t len)
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
        if (is_store_named(names, len)) {
            (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
            notify_unstore(HANDOVER_STORE_NAME);
            return fd;
        }
        names += len + (names[len] == ':');
    }
    return -1;
}

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

/* Logs and counts it. */
static void refuse_handover(struct handover *handover, enum handover_refusal why)
{
    handover->refused[why]++;
    log_event(LOG_ERROR, "handover_refused", "error=\"%s\"", handover_refusals[why].text);
}

static int find_file(struct handover *handover)
{
    char path[PATH_MAX];
    int fd = file_path(path) ? open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK) : -1;

    if (fd < 0) {
        return -1;
    }
    if (!is_ours_alone(fd)) {
        refuse_handover(handover, HANDOVER_REFUSAL_exposed);
        (void)close(fd);
        return -1;
    }
    if (unlink(path) != 0) { /* another process has been quicker, or cannot be kept from it */
        refuse_handover(handover, HANDOVER_REFUSAL_in_use);
        (void)close(fd);
        return -1;
    }
    return fd;
}

/* An empty file of this user alone. @return the descriptor, -ENOENT: there is no place, or -errno
 */
static int handover_store_create(void)
{
    return manager_keeps() ? handover_file_open_memory() : create_file();
}

/* What was written to @p fd, of handover_store_create(), is complete. @return 0 or -errno */
static int handover_store_keep(int fd)
{
    return manager_keeps() ? notify_store(HANDOVER_STORE_NAME, fd) : 0;
}

/* It is not to be found: the caller has destroyed what was in it. Cannot fail. */
static void handover_store_remove(void)
{
    char path[PATH_MAX];

    if (!manager_keeps() && file_path(path)) {
        (void)unlink(path);
    }
}

/*
 * What a process before has kept, out of the store from now on. A file that another user could have
 * written, or that is not in memory, is left alone, which is logged and counted.
 *
 * @return the descriptor, or -1
 */
static int handover_store_find(struct handover *handover)
{
    int fd = find_passed();

    return fd >= 0 ? fd : find_file(handover);
}

/* ---- what is handed over ---- */

static void pack_text(const char *text, struct pack *out)
{
    pack_bytes(out, text, strlen(text));
}

/* 0: there is none. */
static void pack_descriptor(int fd, struct pack *out)
{
    pack_uint(out, fd < 0 ? 0 : (uint64_t)fd + 1, 4);
}

static void pack_listener(const struct server *server, const struct server_listener *listener,
                          struct pack *out)
{
    pack_text(transport_row(listener->transport)->scheme, out);
    pack_address(out, &listener->wanted);
    pack_address(out, &listener->bound);
    pack_uint(out, listener->is_inherited, 1);
    for (unsigned i = 0; i < server->worker_count; i++) {
        pack_descriptor(listener->fds[i], out);
    }
}

void handover_pack_places(const struct server *server, int reply_fd, bool has_sockets,
                          struct pack *out)
{
    size_t count = has_sockets ? server->listener_count : 0;

    pack_uint(out, server->worker_count, 4);
    pack_descriptor(reply_fd, out);
    pack_text(server_config(server)->admin_listen, out);
    pack_text(server_config(server)->admin_socket, out);
    pack_uint(out, count, 4);
    for (size_t i = 0; i < count; i++) {
        pack_listener(server, &server->listeners[i], out);
    }
}

void handover_pack_sessions(struct server *server, const struct dtls_gift *gift, struct pack *out)
{
    for (unsigned i = 0; i < server->worker_count; i++) {
        size_t at = pack_open(out);
        listen_hand_over(worker_clients(server->workers[i]), gift, out);
        pack_close(out, at);
    }
}

/* ---- the end of the process ---- */

static uint64_t count_dtls_sessions(const struct server *server)
{
    uint64_t count = 0;

    for (unsigned i = 0; i < server->worker_count; i++) {
        count += metric_get(&worker_metrics(server->workers[i])->sessions);
    }
    return count;
}

void handover_leave(struct server *server)
{
    struct pack body = {0};
    uint64_t count = count_dtls_sessions(server);
    int fd = count > 0 ? handover_store_create() : -ENOENT;

    if (fd == -ENOENT) {
        return; /* nothing to keep, or nowhere */
    }
    int error = fd < 0 ? fd : 0;
    if (error == 0) {
        handover_pack_places(server, -1, false, &body);
        handover_pack_sessions(server, NULL, &body);
        error = handover_file_write(fd, &body);
        pack_clear(&body);
    }
    if (error == 0) {
        error = handover_store_keep(fd);
    }
    if (error == 0) {
        log_event(LOG_INFO, "sessions_left", "sessions=%" PRIu64, count);
    } else {
        log_event(LOG_ERROR, "sessions_not_left", "error=\"%s\"", strerror(-error));
        if (fd >= 0) {
            (void)handover_file_destroy(fd);
            handover_store_remove();
        }
        for (unsigned i = 0; i < server->worker_count; i++) {
            listen_thaw(worker_clients(server->workers[i]));
        }
    }
    if (fd >= 0) {
        (void)close(fd);
    }
}

/* ---- in the program that follows ---- */

/* The number of a descriptor that was passed, or -1. */
static int unpack_descriptor(struct unpack *in)
{
    uint64_t value = unpack_uint(in, 4);

    return value > INT32_MAX ? -1 : (int)value - 1;
}

static void unpack_text(struct unpack *in, char *ret_text, size_t capacity)
{
    size_t len = 0;
    const uint8_t *bytes = unpack_bytes(in, &len);

    if (bytes == NULL || len >= capacity) {
        in->has_failed = true;
        len = 0;
    }
    if (len > 0) {
        memcpy(ret_text, bytes, len);
    }
    ret_text[len] = '\0';
}

/* A descriptor that is not what it should be is not taken. */
static int check_descriptor(int fd, const struct server_listener *listener)
{
    enum bind_type wanted = transport_is_stream(listener->transport) ? BIND_STREAM : BIND_DATAGRAM;
    struct address bound;

    if (fd < 0 || bind_type_of(fd) != wanted || bind_address_of(fd, &bound) != 0 ||
        !address_equal(&bound, &listener->bound)) {
        return -1;
    }
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    return fd;
}

static void unpack_listener(struct unpack *in, unsigned worker_count,
                            struct opened_listener *ret_opened)
{
    struct server_listener listener = {.transport = TRANSPORT_NONE};
    char scheme[32];

    unpack_text(in, scheme, sizeof(scheme));
    listener.transport = transport_by_scheme(scheme, strlen(scheme));
    listener.wanted = unpack_address(in);
    listener.bound = unpack_address(in);
    listener.is_inherited = unpack_uint(in, 1) != 0;
    server_opened_init(ret_opened, &listener);
    for (unsigned i = 0; i < worker_count; i++) {
        int fd = unpack_descriptor(in);
        ret_opened->fds[i] =
            listener.transport == TRANSPORT_NONE ? -1 : check_descriptor(fd, &listener);
    }
}

static bool unpack_places(struct handover *handover)
{
    struct unpack *in = &handover->rest;
    uint64_t workers = unpack_uint(in, 4);

    handover->reply_fd = unpack_descriptor(in);
    unpack_text(in, handover->admin_listen, sizeof(handover->admin_listen));
    unpack_text(in, handover->admin_socket, sizeof(handover->admin_socket));
    size_t count = (size_t)unpack_uint(in, 4);
    if (in->has_failed || workers == 0 || workers > WORKERS_MAX || count > SERVER_LISTENERS_MAX) {
        return false;
    }
    handover->worker_count = (unsigned)workers;
    handover->opened = calloc(count + 1, sizeof(struct opened_listener));
    for (size_t i = 0; handover->opened != NULL && i < count; i++) {
        unpack_listener(in, handover->worker_count, &handover->opened[i]);
        handover->opened_count++;
    }
    return handover->opened != NULL && !in->has_failed;
}

/* That of the environment, or of a process that has ended before; -1: there is none. */
static int find_handover(struct handover *handover)
{
    const char *text = getenv(HANDOVER_VARIABLE);
    char *end = NULL;

    if (text == NULL) {
        return handover_store_find(handover);
    }
    errno = 0;
    long fd = strtol(text, &end, 10);
    bool is_number =
        errno == 0 && end != text && *end == '\0' && fd > STDERR_FILENO && fd <= INT32_MAX;
    (void)unsetenv(HANDOVER_VARIABLE);
    if (!is_number) {
        refuse_handover(handover, HANDOVER_REFUSAL_no_descriptor);
    }
    return is_number ? (int)fd : -1;
}

bool handover_take(struct handover *ret_handover)
{
    enum handover_refusal why = HANDOVER_REFUSAL_unreadable;

    *ret_handover = (struct handover){.reply_fd = -1};
    int fd = find_handover(ret_handover);
    if (fd < 0) {
        return false;
    }
    bool is_taken = handover_file_take(fd, &ret_handover->whole, &ret_handover->rest, &why);
    (void)close(fd);
    if (is_taken) {
        is_taken = unpack_places(ret_handover);
        why = HANDOVER_REFUSAL_unreadable;
    }
    if (!is_taken) {
        refuse_handover(ret_handover, why);
        handover_clear(ret_handover);
    }
    return is_taken;
}

void handover_clear(struct handover *handover)
{
    for (size_t i = 0; i < handover->opened_count; i++) {
        for (unsigned k = 0; k < WORKERS_MAX; k++) {
            if (handover->opened[i].fds[k] >= 0) {
                (void)close(handover->opened[i].fds[k]);
            }
        }
    }
    if (handover->reply_fd >= 0) {
        (void)close(handover->reply_fd);
    }
    free(handover->opened);
    pack_clear(&handover->whole);
    struct handover cleared = {.reply_fd = -1};
    memcpy(cleared.refused, handover->refused, sizeof(cleared.refused));
    *handover = cleared;
}

/* Whether the configuration still has it; each of its listeners counts once. */
static bool is_configured(const struct server *server, const struct server_listener *listener,
                          bool *is_counted)
{
    const struct config *config = server_config(server);

    for (size_t i = 0; i < config->listener_count; i++) {
        const struct config_listener *wanted = &config->listeners[i];
        if (!is_counted[i] && wanted->transport == listener->transport &&
            address_equal(&wanted->bind, &listener->wanted)) {
            is_counted[i] = true;
            return true;
        }
    }
    return false;
}

static bool has_all_sockets(const struct opened_listener *opened, unsigned worker_count)
{
    for (unsigned i = 0; i < worker_count; i++) {
        if (opened->fds[i] < 0) {
            return false;
        }
    }
    return true;
}

/* Its descriptors are the change's from now on. */
static void move_listener(struct opened_listener *from, struct listen_change *change)
{
    struct opened_listener *to = &change->opened[change->opened_count++];

    *to = *from;
    for (unsigned i = 0; i < WORKERS_MAX; i++) {
        from->fds[i] = -1;
    }
}

int handover_listeners(struct server *server, struct handover *handover,
                       struct listen_change *ret_change)
{
    struct listen_change change = {
        .opened = calloc(handover->opened_count + 1, sizeof(struct opened_listener))};
    bool *is_counted = calloc(server_config(server)->listener_count + 1, sizeof(bool));

    if (change.opened == NULL || is_counted == NULL) {
        free(change.opened);
        free(is_counted);
        return -ENOMEM;
    }
    for (size_t i = 0; i < handover->opened_count; i++) {
        struct opened_listener *opened = &handover->opened[i];
        bool is_wanted = opened->listener.is_inherited ||
                         (is_configured(server, &opened->listener, is_counted) &&
                          has_all_sockets(opened, server->worker_count));
        if (is_wanted) {
            move_listener(opened, &change);
        }
    }
    free(is_counted);
    *ret_change = change;
    return 0;
}

void handover_sessions(struct server *server, struct handover *handover)
{
    if (handover->worker_count != server->worker_count) {
        log_event(LOG_WARNING, "sessions_not_taken_over", "workers=%u before=%u",
                  server->worker_count, handover->worker_count);
        server->handovers_refused[HANDOVER_REFUSAL_other_workers]++;
        return;
    }
    for (unsigned i = 0; i < server->worker_count; i++) {
        struct unpack in = {0};
        in.at = unpack_bytes(&handover->rest, &in.left);
        if (in.at == NULL || !listen_take_over(worker_clients(server->workers[i]), &in)) {
            log_event(LOG_ERROR, "sessions_not_taken_over", "worker=%u error=unreadable", i);
            server->handovers_refused[HANDOVER_REFUSAL_unreadable]++;
        }
    }
}

void handover_reply(struct handover *handover)
{
    static const char done[] = "{\"end\":\"ok\"}\n";

    if (handover->reply_fd >= 0) {
        ssize_t put = write(handover->reply_fd, done, sizeof(done) - 1);
        (void)put; /* criproxyctl may have gone */
    }
}

/* ---- the trial, in the program that would follow ---- */

/* What is open now is there, and is not tried again. */
static int try_admin_listen(const struct handover *handover, const struct config *config)
{
    const char *where = config->admin_listen;
    struct admin_listen listen = {.path = NULL};

    if (where[0] == '\0' || strcmp(where, handover->admin_listen) == 0 ||
        !admin_listen_parse(where, &listen) || listen.path != NULL) {
        return 0;
    }
    int fd = bind_socket(BIND_STREAM, &listen.address, false);
    if (fd < 0) {
        log_event(LOG_ERROR, "admin_failed", "key=admin.listen value=%s error=\"%s\"", where,
                  strerror(-fd));
        return fd;
    }
    (void)close(fd);
    return 0;
}

static int try_listeners(struct server *server, struct handover *handover)
{
    struct listen_change kept = {0}, added = {0};
    int error = handover_listeners(server, handover, &kept);

    for (size_t i = 0; error == 0 && i < kept.opened_count; i++) {
        server->listeners[server->listener_count++] = kept.opened[i].listener;
    }
    if (error == 0) {
        error = server_listen_prepare(server, server_config(server), &added);
    }
    server_listen_cancel(&added);
    server_listen_cancel(&kept);
    return error;
}

int server_try(struct config *config)
{
    struct server *server = calloc(1, sizeof(struct server));
    struct snapshot snapshot = {.config = config};
    struct handover handover;

    if (server == NULL) {
        return -ENOMEM;
    }
    server->newest = &snapshot;
    server->worker_count = server_count_workers(config);
    int error = -EINVAL;
    if (handover_take(&handover)) {
        error = try_listeners(server, &handover);
        error = error == 0 ? try_admin_listen(&handover, config) : error;
        handover_clear(&handover);
    }
    free(server);
    return error;
}
