/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by the files of the main thread: server.c (what is started in which order,
 * signals, the stop), server/reload.c (snapshots), server/listen.c (listeners).
 */
#ifndef CRIPROXY_SERVER_INTERNAL_H
#define CRIPROXY_SERVER_INTERNAL_H

#include "conf/config.h"
#include "net/bind.h"
#include "net/handover_file.h"
#include "ops/prometheus.h"
#include "worker/worker.h"

#include <sys/types.h>

#define WORKERS_MAX 256 /* as in options.def */

/* As many as an engine has slots for: configured and inherited ones. */
#define SERVER_LISTENERS_MAX 64

struct certificate_times;
struct handover;
struct json_writer;
struct loop;
struct peer_book;
struct server_peers;
struct system_names;
struct watch;

/* Of our own; in the configuration's arena. */
struct server_certificates {
    struct certificate_times *items;
    size_t count;
};

struct snapshot {
    struct snapshot *older;
    struct config *config;
    struct credentials *credentials; /* NULL: none are configured */
    struct keyring *keyring;         /* for origin servers; the config leads to it too */
    struct server_certificates certificates;
};

/* One place that is listened on, by all workers. */
struct server_listener {
    enum transport transport;
    struct address wanted; /* as configured, perhaps with port 0 */
    struct address bound;
    bool is_inherited;    /* the service manager's: stays until the end */
    int fds[WORKERS_MAX]; /* the workers'; -1: that one has none */
};

/* A listener that has been bound and is not in any loop yet: a descriptor a worker. */
struct opened_listener {
    struct server_listener listener;
    int fds[WORKERS_MAX]; /* -1: that worker has none */
};

/* Of a text for people, which as JSON fits a line of the control socket. */
#define RELOAD_ERROR_MAX CONFIG_ERROR_TEXT_MAX

enum restart_state {
    RESTART_NONE,
    RESTART_TRYING,  /* the program that is installed now looks at its configuration */
    RESTART_HOLDING, /* what is in flight ends */
};

/* criproxyctl restart, see server/restart.c. */
struct restart {
    enum restart_state state;
    uint64_t client; /* the one that has asked, by its number */
    uint64_t deadline_ms;
    pid_t child;   /* 0: none */
    int output_fd; /* what the child prints; -1: none */
    struct watch *watch;
    size_t output_len;
    char output[4096]; /* with a NUL */
};

/* The clients of the control socket and of HTTP; of server/control.c. */
struct control_clients {
    struct control_client *clients;
    uint64_t last_id;
    unsigned tracing_count, capturing_count;
};

/* criproxyctl drain with other replicas, see server/peers.c. */
struct giving {
    bool is_on;
    bool ends_process;
    uint64_t client; /* the one that has asked, by its number */
    uint64_t deadline_ms;
};

struct server {
    const struct config_source *source;
    char **arguments;          /* of the command line; borrowed */
    const char *program;       /* the path to execute at a restart; borrowed */
    struct handover *handover; /* of the process before; NULL: none, or not any more */
    struct restart restart;
    struct giving giving;
    struct server_peers *sessions; /* to and from other replicas; NULL: not configured */
    bool trace;
    struct snapshot *newest; /* and behind it those that may still be in use */
    struct system_names *system_names;
    struct changes *changes;         /* for the workers' caches; NULL: there is one worker */
    struct switchboard *switchboard; /* for devices; likewise */
    struct peer_book *peers;         /* NULL: there are no other replicas */
    struct origin_labels *origin_labels;
    char *route_names[ROUTE_LABELS]; /* by their labels; a name keeps its label to the end */
    struct loop *loop;               /* of the main thread */
    struct worker *workers[WORKERS_MAX];
    unsigned worker_count;
    struct server_listener listeners[SERVER_LISTENERS_MAX];
    size_t listener_count;
    int signal_fd;
    int event_fd; /* a worker has drained or failed */
    struct watch *signal_watch, *event_watch;
    struct admin_http *http;               /* NULL: not configured */
    struct control_socket *control_socket; /* likewise */
    struct control_clients control;
    char reload_error[RELOAD_ERROR_MAX];     /* of the last reload: what was not done, and why */
    char restart_keys[RELOAD_ERROR_MAX / 2]; /* changed, but only a restart takes them over */
    uint64_t handovers_refused[HANDOVER_REFUSAL_COUNT];
    bool is_ready;
    bool is_draining;                     /* newcomers are refused */
    bool is_ending;                       /* and the process ends when nothing is in flight */
    bool was_reload_good;                 /* everything was taken over */
    double started_s, reloaded_s;         /* Unix time */
    int status;                           /* of the process, when the loop has ended */
    uint64_t deadline_ms;                 /* of the drain */
    uint64_t watchdog_ms, watchdog_at_ms; /* 0: the service manager wants no sign of life */
};

static inline const struct config *server_config(const struct server *server)
{
    return server->newest->config;
}

/** Adds the counters of all workers to @p sum, which the caller owns. */
void server_sum_metrics(const struct server *server, struct metrics *sum);

/** The status as far as it is known without asking the system. A copy. */
struct process_status server_status(const struct server *server);

/** Tells the service manager that clients are served. Failures are ignored. */
void server_notify_ready(const struct server *server);

/** Seconds of Unix time. */
double server_wall_clock_s(void);

/** Log @p event with the words of @p error, which is -errno. */
void server_log_failure(const char *event, int error);

/* ---- server/reload.c ---- */

/** The first snapshot; @p config is taken over in any case. @return 0, -errno, or -EINVAL. */
int server_first_snapshot(struct server *server, struct config *config);

/**
 * SIGHUP: all of the new configuration, or none of it, but for keys that need a restart.
 *
 * @return whether everything was taken over; if not, server->reload_error says what was not
 */
bool server_reload(struct server *server);

/** Free what no worker uses any more. */
void server_sweep_snapshots(struct server *server);

/** Frees all snapshots; the workers must have been joined. */
void server_free_snapshots(struct server *server);

/** Days until the first one expires, below zero afterwards. @return false: there is none. */
bool server_certificate_days(const struct server *server, int64_t *ret_days);

/**
 * Writes the certificates' metrics, after those of prometheus_write(); errors of @p out are the
 * caller's to check.
 */
void server_write_certificates(const struct server *server, FILE *out);

/* ---- server/admin_http.c ---- */

/** Listen where admin.listen says, if it does. What is wrong is logged. @return 0 or -errno */
int server_http_open(struct server *server);
void server_http_close(struct server *server);

/* ---- server/control_socket.c ---- */

/** Listen for criproxyctl where admin.socket says, if it does. @return 0 or -errno */
int server_control_open(struct server *server);
void server_control_close(struct server *server);

/* ---- server.c ---- */

/** Refuses new requests, and stops when none is in flight. @p why is static text for the log. */
void server_drain(struct server *server, const char *why);

/** Refuse newcomers, or serve them again; not while the proxy is ending. @return 0 or -errno */
int server_pause(struct server *server, bool is_paused);

/* ---- server/peers.c ---- */

/** Takes sessions of other replicas from now on, if that is configured. @return 0 or -errno, logged
 */
int server_peers_open(struct server *server);

/** Takes none any more; before the workers stop. Cannot fail. */
void server_peers_close(struct server *server);

/**
 * Begins to drain and to give all DTLS sessions to another replica, for the client @p client of the
 * control socket, which is told of the end. @p ends_process: the process ends afterwards.
 *
 * @return NULL, or why not
 */
const char *server_give(struct server *server, uint64_t client, bool ends_process);

/** What is due of it. @return when to be called next, ms of the loop */
uint64_t server_give_turn(struct server *server, uint64_t now_ms);

/** While newcomers are refused, sessions of other replicas are, too. Cannot fail. */
void server_peers_pause(struct server *server, bool is_paused);

/** Adds what was refused to @p sum, borrowed. Cannot fail. */
void server_peers_count(const struct server *server, struct metrics *sum);

/* ---- server/restart.c ---- */

/** Parks all workers. @return whether they have stopped; worker_go_on() is needed in any case */
bool server_park_workers(struct server *server);

/**
 * Begins a restart in place for @p client of the control socket, which is told of its end.
 *
 * @return NULL, or why not
 */
const char *server_restart(struct server *server, uint64_t client);

/** What is due of a restart. @return when to be called next; does not where it succeeds */
uint64_t server_restart_turn(struct server *server, uint64_t now_ms);

/** The process ends: so does a trial. */
void server_restart_cancel(struct server *server);

/* ---- server/control.c ---- */

/** Ends the answer to the client with the number @p id if it is still there. @p error as in
 * control_end(). */
void control_finish(struct server *server, uint64_t id, const char *error);

/** Sends @p line, copied, to that client, if it is still there. */
void control_tell(struct server *server, uint64_t id, const struct json_writer *line);

/** The descriptor of the connection of client @p id; -1: it has gone. */
int control_descriptor(const struct server *server, uint64_t id);

/* ---- server/listen.c ---- */

/**
 * Bind what is configured, and take what was inherited; before the workers start. What is wrong is
 * logged. @return 0 or -errno; -EADDRNOTAVAIL where there is no listener then
 */
int server_listen(struct server *server);

/* What a reload changes of the listeners. */
struct listen_change {
    struct opened_listener *opened; /* heap */
    size_t opened_count;
    bool is_kept[SERVER_LISTENERS_MAX]; /* of server->listeners */
};

/** Prepares the caller's struct, without any descriptor yet; @p listener is copied. */
void server_opened_init(struct opened_listener *opened, const struct server_listener *listener);

/**
 * Bind what @p config has and the server does not have yet. Nothing has changed when
 * this fails, and it has been logged. @return 0 or -errno; give to server_listen_commit().
 */
int server_listen_prepare(struct server *server, const struct config *config,
                          struct listen_change *ret_change);

/**
 * Hands the new listeners' descriptors, which are the workers' then, over to them, and retires the
 * removed listeners. Failures are logged.
 */
void server_listen_commit(struct server *server, struct listen_change *change);

/** Closes the prepared descriptors and frees the change's memory. */
void server_listen_cancel(struct listen_change *change);

#endif
