/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * criproxyctl restart: the process executes the program that is installed now, in place. Its id,
 * command line, sockets and DTLS sessions stay.
 *
 *  1. Trial: a child runs the program with --check-config. It reads the configuration, binds what
 *     is new in it, and says that it can take over; or the restart is refused.
 *  2. Hold: workers receive no more datagrams (they wait in the kernel) until nothing is in flight,
 *     for HOLD_MS at most.
 *  3. Park: workers stop between two turns, for good unless something fails.
 *  4. Sockets and sessions go to a file in memory (net/handover_file.h).
 *  5. execve(): the new program finds the file's descriptor in the environment, takes what is in it
 *     and destroys it before its workers start. Then it answers criproxyctl.
 *
 * Where anything fails up to execve() itself, the file is destroyed and the workers go on.
 * Connections on reliable transports end with execve(): their state is in libraries.
 */
#include "server/handover.h"

#include "base/json.h"
#include "base/log.h"
#include "base/pack.h"
#include "conf/admin_listen.h"
#include "net/handover_file.h"
#include "net/loop.h"
#include "net/watch.h"
#include "ops/notify.h"
#include "server/control.h"
#include "server/server.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The descriptor of the hand-over file, in the environment of the program that follows. */
#define HANDOVER_VARIABLE "CRIPROXYD_HANDOVER"

/* How long a trial may take: it may read large files of keys on a slow machine. */
#define TRIAL_MS 120000u

/* What is in flight has this long; the clients send their requests again after 2 s. */
#define HOLD_MS 1000u

#define PARK_S 5

#define ARGUMENTS_EXTRA 2u /* --check-config, NULL */

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
    pack_raw(out, &listener->wanted, sizeof(listener->wanted));
    pack_raw(out, &listener->bound, sizeof(listener->bound));
    pack_uint(out, listener->is_inherited, 1);
    for (unsigned i = 0; i < server->worker_count; i++) {
        pack_descriptor(listener->fds[i], out);
    }
}

/* Everything but sessions. @p reply_fd: -1 for a trial */
static void pack_places(const struct server *server, int reply_fd, struct pack *out)
{
    pack_uint(out, server->worker_count, 4);
    pack_descriptor(reply_fd, out);
    pack_text(server_config(server)->admin_listen, out);
    pack_text(server_config(server)->admin_socket, out);
    pack_uint(out, server->listener_count, 4);
    for (size_t i = 0; i < server->listener_count; i++) {
        pack_listener(server, &server->listeners[i], out);
    }
}

/* Workers are parked: what they have may be read. */
static void pack_sessions(struct server *server, struct pack *out)
{
    for (unsigned i = 0; i < server->worker_count; i++) {
        struct pack sessions = {0};
        worker_hand_over(server->workers[i], &sessions);
        pack_bytes(out, sessions.data, sessions.len);
        out->has_failed = out->has_failed || sessions.has_failed;
        pack_clear(&sessions);
    }
}

/* ---- descriptors that the next program has ---- */

static void set_close_on_exec(int fd, bool closes)
{
    if (fd >= 0) {
        (void)fcntl(fd, F_SETFD, closes ? FD_CLOEXEC : 0);
    }
}

/* Libraries may have left it out for some. */
static void close_all_on_exec(void)
{
    DIR *folder = opendir("/proc/self/fd");

    if (folder == NULL) {
        return;
    }
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char *end = NULL;
        long fd = strtol(entry->d_name, &end, 10);
        if (end != entry->d_name && fd > STDERR_FILENO) {
            set_close_on_exec((int)fd, true);
        }
    }
    (void)closedir(folder);
}

/* Those of the file and of what is in it. In a child after fork(), too: only calls that may be
 * made there. */
static void pass_descriptors(const struct server *server, int file_fd, int reply_fd, bool passes)
{
    set_close_on_exec(file_fd, !passes);
    set_close_on_exec(reply_fd, !passes);
    for (size_t i = 0; i < server->listener_count; i++) {
        for (unsigned k = 0; k < server->worker_count; k++) {
            set_close_on_exec(server->listeners[i].fds[k], !passes);
        }
    }
}

/* ---- command line and environment ---- */

static bool is_of_ours(const char *variable)
{
    static const char *const names[] = {HANDOVER_VARIABLE "=",
                                        "LISTEN_PID=", "LISTEN_FDS=", "LISTEN_FDNAMES="};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strncmp(variable, names[i], strlen(names[i])) == 0) {
            return true;
        }
    }
    return false;
}

struct execution {
    char **arguments, **environment; /* heap; what they point to is not theirs */
    char handover[64];
};

static void clear_execution(struct execution *execution)
{
    free((void *)execution->arguments);
    free((void *)execution->environment);
}

/* As this process was started, with what the next one has to know. @return false without memory */
static bool prepare_execution(const struct server *server, int file_fd, bool is_trial,
                              struct execution *ret)
{
    size_t count = 0, variables = 0, used = 0;

    while (server->arguments[count] != NULL) {
        count++;
    }
    while (environ[variables] != NULL) {
        variables++;
    }
    ret->arguments = calloc(count + ARGUMENTS_EXTRA, sizeof(char *));
    ret->environment = calloc(variables + 2, sizeof(char *));
    if (ret->arguments == NULL || ret->environment == NULL) {
        clear_execution(ret);
        return false;
    }
    memcpy((void *)ret->arguments, (const void *)server->arguments, count * sizeof(char *));
    static char check[] = "--check-config";
    ret->arguments[count] = is_trial ? check : NULL;
    for (size_t i = 0; i < variables; i++) {
        if (!is_of_ours(environ[i])) {
            ret->environment[used++] = environ[i];
        }
    }
    (void)snprintf(ret->handover, sizeof(ret->handover), HANDOVER_VARIABLE "=%d", file_fd);
    ret->environment[used] = ret->handover;
    return true;
}

/* ---- the end of a restart that has failed ---- */

static void clear_restart(struct server *server)
{
    struct restart *restart = &server->restart;

    watch_free(restart->watch);
    if (restart->output_fd >= 0) {
        (void)close(restart->output_fd);
    }
    *restart = (struct restart){.state = RESTART_NONE, .output_fd = -1};
}

static void refuse_restart(struct server *server, const char *why)
{
    uint64_t client = server->restart.client;

    log_event(LOG_ERROR, "restart_refused", "error=\"%s\"", why);
    if (server->restart.state == RESTART_HOLDING) {
        for (unsigned i = 0; i < server->worker_count; i++) {
            worker_go_on(server->workers[i]);
        }
    }
    clear_restart(server);
    control_finish(server, client, why);
    server_notify_ready(server);
}

/* ---- execve ---- */

static bool park_workers(struct server *server)
{
    struct timespec deadline;

    (void)clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += PARK_S;
    for (unsigned i = 0; i < server->worker_count; i++) {
        if (!worker_park(server->workers[i], &deadline)) {
            return false;
        }
    }
    return true;
}

/* Does not return where it succeeds. */
static void execute(struct server *server, int file_fd, int reply_fd)
{
    struct execution execution = {.arguments = NULL};

    if (!prepare_execution(server, file_fd, false, &execution)) {
        errno = ENOMEM;
        return;
    }
    close_all_on_exec();
    pass_descriptors(server, file_fd, reply_fd, true);
    (void)execve(server->program, execution.arguments, execution.environment);
    int error = errno;
    pass_descriptors(server, file_fd, reply_fd, false);
    clear_execution(&execution);
    errno = error;
}

/* All are parked. @return only where it has failed: what was written is destroyed, why */
static const char *hand_over_and_execute(struct server *server)
{
    struct pack body = {0};
    int reply_fd = control_descriptor(server, server->restart.client);
    int fd = handover_file_open_memory();

    if (fd < 0) {
        return "no file in memory";
    }
    pack_places(server, reply_fd, &body);
    pack_sessions(server, &body);
    int error = handover_file_write(fd, &body);
    pack_clear(&body);
    if (error == 0) {
        log_event(LOG_INFO, "restarting", "program=%s", server->program);
        notify_reloading();
        execute(server, fd, reply_fd);
        error = -errno;
        (void)handover_file_destroy(fd);
    }
    (void)close(fd);
    return strerror(-error);
}

static void finish_restart(struct server *server)
{
    const char *why =
        park_workers(server) ? hand_over_and_execute(server) : "a worker does not stop";

    refuse_restart(server, why);
}

/* ---- the trial ---- */

/* In the child: no call that may wait for a lock. */
static void run_trial(const struct server *server, const struct execution *execution, int file_fd,
                      int output_fd)
{
    sigset_t none;

    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)dup2(output_fd, STDOUT_FILENO);
    (void)dup2(output_fd, STDERR_FILENO);
    pass_descriptors(server, file_fd, -1, true);
    (void)execve(server->program, execution->arguments, execution->environment);
    _exit(127);
}

/* What the child has said last, as a reason for people. */
static const char *last_line(char *text, size_t len)
{
    while (len > 0 && text[len - 1] == '\n') {
        text[--len] = '\0';
    }
    const char *line = strrchr(text, '\n');
    line = line != NULL ? line + 1 : text;
    if (line[0] == '<' && line[1] != '\0' && line[2] == '>') { /* the level, for the journal */
        line += 3;
    }
    return line[0] != '\0' ? line : "the program that is installed now cannot be executed";
}

static void on_trial_end(struct server *server)
{
    struct restart *restart = &server->restart;
    char text[sizeof(restart->output)];
    int status = 0;

    (void)waitpid(restart->child, &status, 0);
    restart->child = 0;
    memcpy(text, restart->output, sizeof(text));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        refuse_restart(server, last_line(text, restart->output_len));
    } else if (strstr(text, HANDOVER_READY "\n") == NULL) {
        refuse_restart(server, "the program that is installed now cannot take over: use systemctl "
                               "restart, or stop and start it");
    } else if (server->is_ending) {
        refuse_restart(server, "the proxy is stopping");
    } else {
        restart->state = RESTART_HOLDING;
        restart->deadline_ms = loop_now_ms(server->loop) + HOLD_MS;
        for (unsigned i = 0; i < server->worker_count; i++) {
            (void)worker_hold(server->workers[i]);
        }
    }
}

static void on_trial_output(void *context, int fd)
{
    struct server *server = context;
    struct restart *restart = &server->restart;
    char rest[512];
    size_t room = sizeof(restart->output) - 1 - restart->output_len;
    ssize_t got = room > 0 ? read(fd, restart->output + restart->output_len, room)
                           : read(fd, rest, sizeof(rest));

    if (got < 0 && (errno == EINTR || errno == EAGAIN)) {
        return;
    }
    if (got > 0) {
        restart->output_len += room > 0 ? (size_t)got : 0;
        return;
    }
    watch_free(restart->watch);
    restart->watch = NULL;
    on_trial_end(server);
}

/* @return the child, or -errno; @p pipe_fds[0] is the caller's */
static pid_t start_trial(struct server *server, int file_fd, int pipe_fds[2])
{
    struct execution execution = {.arguments = NULL};

    if (!prepare_execution(server, file_fd, true, &execution)) {
        return -ENOMEM;
    }
    close_all_on_exec();
    pid_t child = fork();
    if (child == 0) {
        run_trial(server, &execution, file_fd, pipe_fds[1]);
    }
    int error = errno;
    clear_execution(&execution);
    return child < 0 ? -error : child;
}

static int begin_trial(struct server *server, int file_fd)
{
    struct restart *restart = &server->restart;
    struct pack places = {0};
    int pipe_fds[2];

    pack_places(server, -1, &places);
    int error = handover_file_write(file_fd, &places);
    pack_clear(&places);
    if (error != 0) {
        return error;
    }
    if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
        return -errno;
    }
    restart->output_fd = pipe_fds[0];
    error = watch_new(server->loop, pipe_fds[0], on_trial_output, server, &restart->watch);
    if (error == 0) {
        restart->child = start_trial(server, file_fd, pipe_fds);
        error = restart->child < 0 ? (int)restart->child : 0;
    }
    (void)close(pipe_fds[1]);
    return error;
}

const char *server_restart(struct server *server, uint64_t client)
{
    if (server->is_ending) {
        return "the proxy is stopping";
    }
    if (server->restart.state != RESTART_NONE) {
        return "a restart is in progress";
    }
    int fd = handover_file_open_memory();
    int error = fd < 0 ? fd : begin_trial(server, fd);
    if (fd >= 0) {
        (void)close(fd); /* the child has its own */
    }
    if (error != 0) {
        clear_restart(server);
        return strerror(-error);
    }
    server->restart.state = RESTART_TRYING;
    server->restart.client = client;
    server->restart.deadline_ms = loop_now_ms(server->loop) + TRIAL_MS;
    return NULL;
}

uint64_t server_restart_turn(struct server *server, uint64_t now_ms)
{
    struct restart *restart = &server->restart;
    bool is_due = now_ms >= restart->deadline_ms, is_quiet = true;

    switch (restart->state) {
    case RESTART_NONE:
        return UINT64_MAX;
    case RESTART_TRYING:
        if (is_due) {
            (void)kill(restart->child, SIGKILL); /* on_trial_end() follows */
        }
        return is_due ? UINT64_MAX : restart->deadline_ms;
    case RESTART_HOLDING:
        break;
    }
    for (unsigned i = 0; i < server->worker_count; i++) {
        is_quiet = is_quiet && worker_is_quiet(server->workers[i]);
    }
    if (!is_quiet && !is_due) {
        return restart->deadline_ms;
    }
    finish_restart(server);
    return UINT64_MAX;
}

void server_restart_cancel(struct server *server)
{
    if (server->restart.child > 0) {
        (void)kill(server->restart.child, SIGKILL);
        (void)waitpid(server->restart.child, NULL, 0);
    }
    clear_restart(server);
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
    set_close_on_exec(fd, true);
    return fd;
}

static void unpack_listener(struct unpack *in, unsigned worker_count,
                            struct opened_listener *ret_opened)
{
    struct server_listener listener = {.transport = TRANSPORT_NONE};
    char scheme[32];

    unpack_text(in, scheme, sizeof(scheme));
    listener.transport = transport_by_scheme(scheme, strlen(scheme));
    unpack_raw(in, &listener.wanted, sizeof(listener.wanted));
    unpack_raw(in, &listener.bound, sizeof(listener.bound));
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

bool handover_take(struct handover *ret_handover)
{
    const char *text = getenv(HANDOVER_VARIABLE);
    const char *why = NULL;
    char *end = NULL;

    *ret_handover = (struct handover){.reply_fd = -1};
    if (text == NULL) {
        return false;
    }
    errno = 0;
    long fd = strtol(text, &end, 10);
    bool is_number =
        errno == 0 && end != text && *end == '\0' && fd > STDERR_FILENO && fd <= INT32_MAX;
    (void)unsetenv(HANDOVER_VARIABLE);
    if (!is_number || !handover_file_take((int)fd, &ret_handover->body, &why)) {
        log_event(LOG_ERROR, "handover_refused", "error=\"%s\"", is_number ? why : "no descriptor");
        return false;
    }
    (void)close((int)fd);
    ret_handover->rest =
        (struct unpack){.at = ret_handover->body.data, .left = ret_handover->body.len};
    if (!unpack_places(ret_handover)) {
        log_event(LOG_ERROR, "handover_refused", "error=\"unreadable\"");
        handover_clear(ret_handover);
        return false;
    }
    return true;
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
    pack_clear(&handover->body);
    *handover = (struct handover){.reply_fd = -1};
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
        return;
    }
    for (unsigned i = 0; i < server->worker_count; i++) {
        struct unpack in = {0};
        in.at = unpack_bytes(&handover->rest, &in.left);
        if (in.at != NULL && !worker_take_over(server->workers[i], &in)) {
            log_event(LOG_ERROR, "sessions_not_taken_over", "worker=%u error=unreadable", i);
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
    int fd = bind_stream(&listen.address, false);
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

bool server_is_tried(void)
{
    return getenv(HANDOVER_VARIABLE) != NULL;
}
