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
#include "base/log.h"
#include "net/handover_file.h"
#include "net/loop.h"
#include "net/watch.h"
#include "ops/notify.h"
#include "server/handover.h"
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

/* How long a trial may take: it may read large files of keys on a slow machine. */
#define TRIAL_MS 120000u

/* What is in flight has this long; the clients send their requests again after 2 s. */
#define HOLD_MS 1000u

#define PARK_S 5

#define ARGUMENTS_EXTRA 2u /* --check-config, NULL */

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

bool server_park_workers(struct server *server)
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
    handover_pack_places(server, reply_fd, true, &body);
    handover_pack_sessions(server, NULL, &body);
    int error = handover_file_write(fd, &body);
    pack_clear(&body);
    if (error == 0) {
        log_event(LOG_INFO, "restarting", "program=%s", server->program);
        notify_manager(NOTIFY_RELOADING, NULL);
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
        server_park_workers(server) ? hand_over_and_execute(server) : "a worker does not stop";

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
            (void)worker_tell(server->workers[i], WORKER_HOLD);
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

    handover_pack_places(server, -1, true, &places);
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
    if (server->giving.is_on) {
        return "sessions are being given to another replica";
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
        is_quiet = is_quiet && (worker_state(server->workers[i]) & WORKER_QUIET) != 0;
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
