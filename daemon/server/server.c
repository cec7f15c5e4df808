/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How it works. The main thread blocks the signals it wants, so that every thread
 * made later has them blocked too, and reads them from a signalfd. It makes the
 * threads for names that only the system knows, then the workers with their sockets, starts the
 * workers, and has a loop of its own for signals, word from workers, and the proxy's
 * administration: none of that takes a worker's time.
 *
 * Stopping goes the other way round: workers drain (or run into the deadline),
 * their loops end, their threads are joined; the engines go, which take back what
 * they have asked the resolver; then the resolver, then the snapshots.
 */
#include "server/server.h"

#include "base/log.h"
#include "cache/changes.h"
#include "engine/budget.h"
#include "net/entropy.h"
#include "net/libraries.h"
#include "net/loop.h"
#include "net/peers.h"
#include "net/system_names.h"
#include "net/watch.h"
#include "ops/notify.h"
#include "origin/switchboard.h"
#include "server/handover.h"
#include "server/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

/* So many signs of life in the time that the service manager allows for one. */
#define WATCHDOG_BEATS 4u

void server_log_failure(const char *event, int error)
{
    log_event(LOG_ERROR, event, "error=\"%s\"", strerror(-error));
}

/* ---- stop ---- */

void server_drain(struct server *server, const char *why)
{
    log_event(LOG_INFO, "stopping", "why=%s", why);
    notify_manager(NOTIFY_STOPPING, "Draining");
    server->is_draining = true;
    server->is_ending = true;
    server_peers_pause(server, true);
    server->deadline_ms = loop_now_ms(server->loop) + server_config(server)->proxy_drain_timeout;
    for (unsigned i = 0; i < server->worker_count; i++) {
        /* Without memory the deadline of the drain applies to it. */
        (void)worker_tell(server->workers[i], WORKER_DRAIN);
    }
}

int server_pause(struct server *server, bool is_paused)
{
    enum worker_order order = is_paused ? WORKER_PAUSE : WORKER_RESUME;
    int error = 0;

    if (is_paused) {
        log_event(LOG_INFO, "draining", "why=criproxyctl");
        server->is_draining = true;
        server_peers_pause(server, true);
    }
    for (unsigned i = 0; i < server->worker_count && error == 0; i++) {
        error = worker_tell(server->workers[i], order);
    }
    if (!is_paused && error == 0) {
        server->is_draining = false;
        server_peers_pause(server, false);
        log_plain(LOG_INFO, "undrained");
    }
    server_notify_ready(server); /* not STOPPING=1, which cannot be taken back */
    return error;
}

static uint64_t count_in_flight(const struct server *server)
{
    uint64_t count = 0;

    for (unsigned i = 0; i < server->worker_count; i++) {
        count += metric_get(&worker_metrics(server->workers[i])->exchanges);
    }
    return count;
}

void server_sum_metrics(const struct server *server, struct metrics *sum)
{
    for (unsigned i = 0; i < server->worker_count; i++) {
        metrics_add(sum, worker_metrics(server->workers[i]));
    }
    for (unsigned i = 0; i < HANDOVER_REFUSAL_COUNT; i++) {
        metric_add(&sum->handovers_refused[i], server->handovers_refused[i]);
    }
    server_peers_count(server, sum);
}

void server_notify_ready(const struct server *server)
{
    char status[RELOAD_ERROR_MAX + 128];

    (void)snprintf(status, sizeof(status), "%s%s%s%s%u listeners, %u workers",
                   server->is_draining ? "Draining, until criproxyctl undrain; " : "",
                   server->was_reload_good ? "" : "Last reload: ",
                   server->was_reload_good ? "" : server->reload_error,
                   server->was_reload_good ? "" : "; ", (unsigned)server->listener_count,
                   server->worker_count);
    notify_manager(NOTIFY_READY, status);
}

double server_wall_clock_s(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

struct process_status server_status(const struct server *server)
{
    return (struct process_status){
        .version = CRIPROXYD_VERSION,
        .workers = server->worker_count,
        .listeners = (unsigned)server->listener_count,
        .is_ready = server->is_ready && !server->is_draining,
        .was_reload_good = server->was_reload_good,
        .started_s = server->started_s,
        .reloaded_s = server->reloaded_s,
        .log_lines_lost = log_lost_count(),
        .route_names = server->route_names,
        .origin_labels = server->origin_labels,
        .libraries = libraries(),
    };
}

static void log_stopped(const struct server *server)
{
    struct metrics *sum = calloc(1, sizeof(struct metrics));

    if (sum == NULL) {
        log_plain(LOG_INFO, "stopped");
        return;
    }
    server_sum_metrics(server, sum);
    log_event(LOG_INFO, "stopped",
              "requests=%" PRIu64 " answered=%" PRIu64 " log_lines_lost=%" PRIu64,
              metric_get(&sum->requests), metrics_answered(sum), log_lost_count());
    free(sum);
}

static void close_loop(struct server *server)
{
    watch_free(server->signal_watch);
    watch_free(server->event_watch);
    loop_free(server->loop);
    if (server->signal_fd >= 0) {
        (void)close(server->signal_fd);
    }
    if (server->event_fd >= 0) {
        (void)close(server->event_fd);
    }
}

static void stop(struct server *server)
{
    server_restart_cancel(server);
    /* Clients of these two may wait for answers of workers: end them before the workers. */
    server_http_close(server);
    server_control_close(server);
    server_peers_close(server);
    for (unsigned i = 0; i < server->worker_count; i++) {
        worker_stop(server->workers[i]);
    }
    for (unsigned i = 0; i < server->worker_count; i++) {
        worker_join(server->workers[i]);
    }
    if (server->is_ready && server->status == 0) {
        handover_leave(server);
    }
    if (server->is_ready) {
        log_stopped(server);
    }
    /* Each engine takes its questions back; only then may the resolver go. */
    for (unsigned i = 0; i < server->worker_count; i++) {
        worker_free(server->workers[i]);
    }
    system_names_free(server->system_names);
    free(server->changes);
    free(server->peers);
    switchboard_free(server->switchboard);
    free(server->sessions);
    free(server->origin_labels);
    for (unsigned i = 0; i < ROUTE_LABELS; i++) {
        free(server->route_names[i]);
    }
    close_loop(server);
    server_free_snapshots(server);
}

/* ---- the main thread's loop ---- */

static void end(struct server *server, int status)
{
    server->status = status;
    loop_stop(server->loop);
}

static void on_stop_signal(struct server *server, uint32_t number)
{
    if (server->is_ending) {
        log_event(LOG_WARNING, "drain_cut_short", "in_flight=%" PRIu64, count_in_flight(server));
        end(server, 0);
        return;
    }
    server_drain(server, number == SIGTERM ? "SIGTERM" : "SIGINT");
}

static void reopen_log(const struct server *server)
{
    const char *path = server_config(server)->log_file;
    int error = path[0] == '\0' ? 0 : log_open_file(path);

    if (error != 0) {
        server_log_failure("log_not_reopened", error);
    } else {
        log_plain(LOG_INFO, "log_reopened");
    }
}

static void on_signals(void *context, int fd)
{
    struct server *server = context;
    struct signalfd_siginfo info;

    while (read(fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGUSR1) {
            reopen_log(server);
        } else if (info.ssi_signo != SIGHUP) {
            on_stop_signal(server, info.ssi_signo);
        } else if (!server->is_ending) {
            (void)server_reload(server);
        }
    }
}

static bool has_drained(const struct server *server)
{
    for (unsigned i = 0; i < server->worker_count; i++) {
        if ((worker_state(server->workers[i]) & WORKER_DRAINED) == 0) {
            return false;
        }
    }
    return server->is_ending;
}

static bool has_failed(const struct server *server)
{
    for (unsigned i = 0; i < server->worker_count; i++) {
        if ((worker_state(server->workers[i]) & WORKER_FAILED) != 0) {
            log_event(LOG_ERROR, "worker_failed", "worker=%u", i);
            return true;
        }
    }
    return false;
}

/* Word from a worker. */
static void on_word(void *context, int fd)
{
    struct server *server = context;
    uint64_t count = 0;
    ssize_t got = read(fd, &count, sizeof(count)); /* only to reset it */

    (void)got;
    if (has_failed(server)) {
        end(server, 1);
    } else if (has_drained(server)) {
        end(server, 0);
    }
}

/*
 * The manager restarts us when it does not hear from us: it does only where every
 * worker's loop has answered since the last time. @return when to be called next
 */
static uint64_t feed_watchdog(struct server *server, uint64_t now_ms)
{
    bool is_alive = true;

    if (server->watchdog_ms == 0) {
        return UINT64_MAX;
    }
    if (now_ms >= server->watchdog_at_ms) {
        for (unsigned i = 0; i < server->worker_count; i++) {
            is_alive = worker_beat(server->workers[i]) && is_alive;
        }
        if (is_alive) {
            notify_manager(NOTIFY_ALIVE, NULL);
        }
        server->watchdog_at_ms = now_ms + server->watchdog_ms / WATCHDOG_BEATS + 1;
    }
    return server->watchdog_at_ms;
}

static uint64_t server_on_turn(void *context, uint64_t now_ms)
{
    struct server *server = context;
    uint64_t next_ms = feed_watchdog(server, now_ms);

    server_sweep_snapshots(server);
    uint64_t restart_ms = server_restart_turn(server, now_ms);
    next_ms = restart_ms < next_ms ? restart_ms : next_ms;
    uint64_t give_ms = server_give_turn(server, now_ms);
    next_ms = give_ms < next_ms ? give_ms : next_ms;
    if (server->is_ending && now_ms >= server->deadline_ms) {
        log_event(LOG_WARNING, "drain_timeout", "in_flight=%" PRIu64, count_in_flight(server));
        end(server, 0);
    } else if (server->is_ending && server->deadline_ms < next_ms) {
        next_ms = server->deadline_ms;
    }
    return next_ms;
}

static int open_loop(struct server *server)
{
    int error = loop_new(server_on_turn, server, &server->loop);

    if (error == 0) {
        error =
            watch_new(server->loop, server->signal_fd, on_signals, server, &server->signal_watch);
    }
    if (error == 0) {
        error = watch_new(server->loop, server->event_fd, on_word, server, &server->event_watch);
    }
    return error;
}

static int serve(struct server *server)
{
    int error = loop_run(server->loop);

    if (error != 0) {
        server_log_failure("loop_failed", error);
        return 1;
    }
    return server->status;
}

/* ---- start ---- */

unsigned server_count_workers(const struct config *config)
{
    cpu_set_t processors;
    unsigned count = config->proxy_workers;

    if (count == 0) {
        CPU_ZERO(&processors);
        int usable =
            sched_getaffinity(0, sizeof(processors), &processors) == 0 ? CPU_COUNT(&processors) : 1;
        count = usable > 1 ? (unsigned)usable : 1;
    }
    return count < WORKERS_MAX ? count : WORKERS_MAX;
}

static uint64_t count_connections(const struct config *config)
{
    uint64_t count = 0;

    for (size_t i = 0; i < config->listener_count; i++) {
        bool is_stream = transport_is_stream(config->listeners[i].transport);
        count += is_stream ? config->stream_connections : 0;
    }
    return count;
}

/* A question to DNS has a socket, two where a second server is tried. */
static uint64_t count_questions(const struct config *config)
{
    uint32_t most = config->resolve_names / 2;

    return 2 * (uint64_t)(config->resolve_queue < most ? config->resolve_queue : most);
}

/* libcoap has two descriptors of its own for each on DTLS. */
static uint64_t count_sessions(const struct config *config)
{
    return 3 * (uint64_t)config->upstream_sessions;
}

/*
 * Sockets towards origin servers, and clients' connections, can be more than the usual soft limit
 * of 1024. With a hard limit that is too low the proxy serves with fewer, and says so.
 */
static void raise_file_limit(const struct config *config)
{
    const uint64_t others = 64; /* loops, timers, the resolver's, standard streams: with room */
    uint64_t wanted =
        others + (uint64_t)server_count_workers(config) *
                     (config->limits_origin_ports + config->listener_count +
                      count_connections(config) + count_sessions(config) + count_questions(config));
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return;
    }
    if (limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_max < wanted) {
        log_event(LOG_WARNING, "few_descriptors", "limit=%" PRIu64 " wanted=%" PRIu64,
                  (uint64_t)limit.rlim_max, wanted);
    }
}

static int open_descriptors(struct server *server)
{
    sigset_t signals;

    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGHUP);
    (void)sigaddset(&signals, SIGUSR1);
    int error = pthread_sigmask(SIG_BLOCK, &signals, NULL);
    if (error != 0) {
        return -error;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    server->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    server->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return server->signal_fd < 0 || server->event_fd < 0 ? -errno : 0;
}

#define KIB 1024

/*
 * glibc's heap, before workers are made. It reserves 64 MiB of addresses for each arena, of which
 * it makes eight a processor: too much for ulimit -v on a small box, and workers do not share what
 * they allocate. Most of their tables is not touched for long, and costs nothing where it comes
 * fresh from the kernel: as mappings, and without a rest of the heap that calloc() has to clear.
 */
static void heap_for_tables(unsigned count)
{
#ifdef M_ARENA_MAX
    (void)mallopt(M_ARENA_MAX, (int)count);
    (void)mallopt(M_MMAP_THRESHOLD, 64 * KIB);
    (void)mallopt(M_TOP_PAD, 0);
#else
    (void)count;
#endif
}

/* From now on for what comes and goes: bodies are no mappings, and the heap grows in steps. */
static void heap_for_service(void)
{
#ifdef M_ARENA_MAX
    (void)mallopt(M_MMAP_THRESHOLD, 4 * KIB * KIB);
    (void)mallopt(M_TOP_PAD, 128 * KIB);
#endif
}

/* Of cluster.number and cluster.peers; without these there is none. */
static int make_peer_book(struct server *server)
{
    const struct config *config = server_config(server);
    struct cluster_peer peers[PEERS_MAX];
    size_t count = config->cluster.peer_count < PEERS_MAX ? config->cluster.peer_count : PEERS_MAX;

    for (size_t i = 0; i < count; i++) {
        peers[i] = (struct cluster_peer){.number = config->cluster.peers[i].number,
                                         .address = config->cluster.peers[i].address};
    }
    return config->cluster_number == 0
               ? 0
               : peer_book_new((uint8_t)config->cluster_number, peers, count, &server->peers);
}

static int make_workers(struct server *server)
{
    unsigned count = server_count_workers(server_config(server));
    struct entropy entropy;

    entropy_init(&entropy);
    int error = origin_labels_new(&server->origin_labels);
    if (error == 0 && count > 1) {
        error = changes_new(entropy_u64(&entropy), &server->changes);
    }
    if (error == 0 && count > 1) {
        error = switchboard_new(count, entropy_u64(&entropy), &server->switchboard);
    }
    if (error == 0) {
        error = make_peer_book(server);
    }
    if (error != 0) {
        return error;
    }
    heap_for_tables(count);
    for (unsigned i = 0; i < count; i++) {
        const struct worker_options options = {.index = i,
                                               .count = count,
                                               .config = server_config(server),
                                               .system_names = server->system_names,
                                               .changes = server->changes,
                                               .switchboard = server->switchboard,
                                               .origin_labels = server->origin_labels,
                                               .peers = server->peers,
                                               .credentials = server->newest->credentials,
                                               .trace = server->trace,
                                               .event_fd = server->event_fd};
        error = worker_new(&options, &server->workers[i]);
        if (error != 0) {
            return error;
        }
        server->worker_count++;
    }
    heap_for_service();
    return 0;
}

static int start_workers(struct server *server)
{
    for (unsigned i = 0; i < server->worker_count; i++) {
        int error = worker_start(server->workers[i]);
        if (error != 0) {
            return error;
        }
    }
    return 0;
}

static int start(struct server *server)
{
    const struct config *config = server_config(server);
    int error = open_descriptors(server);

    raise_file_limit(config);
    if (error == 0) {
        error = open_loop(server);
    }
    if (error == 0) {
        error =
            system_names_new(config->resolve_threads, SYSTEM_NAMES_NSSWITCH, &server->system_names);
    }
    if (error == 0) {
        error = make_workers(server);
    }
    if (error == 0) {
        error = server_listen(server);
    }
    if (error == 0) {
        error = server_http_open(server);
    }
    if (error == 0) {
        error = server_control_open(server);
    }
    if (error == 0 && server->handover != NULL) {
        handover_sessions(server, server->handover);
    }
    if (error == 0) {
        error = start_workers(server);
    }
    if (error == 0) {
        error = server_peers_open(server);
    }
    if (error != 0) {
        server_log_failure("start_failed", error);
        return error;
    }
    server->is_ready = true;
    log_event(LOG_INFO, "ready", "workers=%u memory_max_mib=%" PRIu64, server->worker_count,
              budget_bytes(config, server->worker_count) >> 20);
    server->watchdog_ms = notify_watchdog_ms();
    server_notify_ready(server);
    if (server->handover != NULL) {
        handover_reply(server->handover);
        handover_clear(server->handover);
        server->handover = NULL;
    }
    return 0;
}

int server_run(const struct server_start *how, struct config *config)
{
    struct handover handover;
    bool has_handover = handover_take(&handover); /* before anything can fail */
    struct server *server = calloc(1, sizeof(struct server));
    int status = 1;

    if (server == NULL) {
        server_log_failure("start_failed", -ENOMEM);
        handover_clear(&handover);
        config_free(config);
        return status;
    }
    *server = (struct server){.source = how->source,
                              .arguments = how->arguments,
                              .program = how->program,
                              .handover = has_handover ? &handover : NULL,
                              .restart = {.output_fd = -1},
                              .trace = how->trace,
                              .signal_fd = -1,
                              .event_fd = -1,
                              .was_reload_good = true,
                              .started_s = server_wall_clock_s()};
    server->reloaded_s = server->started_s;
    memcpy(server->handovers_refused, handover.refused, sizeof(handover.refused));
    int error = server_first_snapshot(server, config);
    if (error == 0) {
        status = start(server) == 0 ? serve(server) : 1;
        stop(server);
    } else if (error == -EINVAL) {
        status = 2; /* the configuration names what cannot be used */
    } else {
        server_log_failure("start_failed", error);
    }
    if (server->handover != NULL) {
        handover_clear(server->handover); /* the start has failed */
    }
    free(server);
    return status;
}
