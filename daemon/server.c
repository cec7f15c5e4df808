/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How it works. The main thread blocks the signals it wants, so that every thread
 * made later has them blocked too, and reads them from a signalfd. It makes the
 * resolver's threads, then the workers with their sockets, starts the workers, and
 * waits in poll() for a signal or for word from a worker.
 *
 * Stopping goes the other way round: workers drain (or run into the deadline),
 * their loops end, their threads are joined; the engines go, which take back what
 * they have asked the resolver; then the resolver, then the snapshots.
 *
 * A snapshot that a reload has replaced is kept until every worker uses the newest.
 */
#include "server.h"

#include "conf/config.h"
#include "net/address.h"
#include "net/credentials.h"
#include "net/resolve.h"
#include "ops/escape.h"
#include "ops/log.h"
#include "ops/notify.h"
#include "worker.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#define WORKERS_MAX 256 /* as in options.def */

struct snapshot {
    struct snapshot *older;
    struct config *config;
    struct credentials *credentials; /* NULL: none are configured */
};

struct server {
    const struct config_source *source;
    bool trace;
    struct snapshot *newest; /* and behind it those that may still be in use */
    struct resolver *resolver;
    struct worker *workers[WORKERS_MAX];
    unsigned worker_count;
    int signal_fd;
    int event_fd; /* a worker has drained or failed */
    bool is_ready;
    bool is_draining;
    uint64_t deadline_ms; /* of the drain */
};

static const struct config *current(const struct server *server)
{
    return server->newest->config;
}

static uint64_t clock_ms(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

static void log_failure(const char *event, int error)
{
    log_event(LOG_ERROR, event, "error=\"%s\"", strerror(-error));
}

/* ---- snapshots ---- */

static int push_snapshot(struct server *server, struct config *config,
                         struct credentials *credentials)
{
    struct snapshot *snapshot = malloc(sizeof(struct snapshot));

    if (snapshot == NULL) {
        return -ENOMEM;
    }
    *snapshot =
        (struct snapshot){.older = server->newest, .config = config, .credentials = credentials};
    server->newest = snapshot;
    return 0;
}

static void free_snapshots(struct snapshot *snapshot)
{
    while (snapshot != NULL) {
        struct snapshot *older = snapshot->older;
        config_free(snapshot->config);
        credentials_release(snapshot->credentials);
        free(snapshot);
        snapshot = older;
    }
}

/*
 * What the [tls] section names; *ret_credentials is NULL where it names nothing.
 * What is wrong is in the log.
 */
static int load_credentials(const struct config *config, struct credentials **ret_credentials)
{
    const char *keylog = config->tls_keylog ? getenv("SSLKEYLOGFILE") : NULL;
    const struct credentials_options options = {
        .certificate_file = config->tls_certificate[0] != '\0' ? config->tls_certificate : NULL,
        .key_file = config->tls_key[0] != '\0' ? config->tls_key : NULL,
        .client_ca_file = config->tls_client_ca[0] != '\0' ? config->tls_client_ca : NULL,
        .require_client_certificate = config->tls_require_client_certificate,
        .psk_file = config->tls_psk_file[0] != '\0' ? config->tls_psk_file : NULL,
        .keylog_file = keylog,
    };
    char why[256] = "", shown[2 * sizeof(why)];

    *ret_credentials = NULL;
    if (options.certificate_file == NULL && options.psk_file == NULL) {
        return 0;
    }
    *ret_credentials = credentials_load(&options, why, sizeof(why));
    if (*ret_credentials == NULL) {
        escape_value(shown, sizeof(shown), why, strlen(why));
        log_event(LOG_ERROR, "credentials_failed", "error=%s", shown);
        return -EINVAL;
    }
    return 0;
}

static void sweep_snapshots(struct server *server)
{
    for (unsigned i = 0; i < server->worker_count; i++) {
        if (worker_config(server->workers[i]) != current(server)) {
            return;
        }
    }
    free_snapshots(server->newest->older);
    server->newest->older = NULL;
}

static void apply_log(const struct config *config)
{
    log_set((enum log_level)config->log_level, config->log_format == LOG_FORMAT_JSON);
}

/* ---- start ---- */

static unsigned count_workers(const struct config *config)
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
        enum config_listener_kind kind = config->listeners[i].kind;
        count += kind == LISTENER_COAP || kind == LISTENER_COAPS ? 0 : config->stream_connections;
    }
    return count;
}

/*
 * Sockets towards origin servers, and clients' connections, can be more than the usual soft limit
 * of 1024. With a hard limit that is too low the proxy serves with fewer, and says so.
 */
static void raise_file_limit(const struct config *config)
{
    const uint64_t others = 64; /* loops, timers, the resolver's, standard streams: with room */
    uint64_t wanted = others + (uint64_t)count_workers(config) *
                                   (config->limits_origin_ports + config->listener_count +
                                    count_connections(config));
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
    int error = pthread_sigmask(SIG_BLOCK, &signals, NULL);
    if (error != 0) {
        return -error;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    server->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    server->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return server->signal_fd < 0 || server->event_fd < 0 ? -errno : 0;
}

static int make_workers(struct server *server)
{
    unsigned count = count_workers(current(server));

    for (unsigned i = 0; i < count; i++) {
        const struct worker_options options = {.index = i,
                                               .count = count,
                                               .config = current(server),
                                               .resolver = server->resolver,
                                               .credentials = server->newest->credentials,
                                               .trace = server->trace,
                                               .event_fd = server->event_fd};
        int error = worker_new(&options, &server->workers[i]);
        if (error != 0) {
            return error;
        }
        server->worker_count++;
    }
    return 0;
}

/* The first worker's socket decides on the port where the kernel chooses. */
static int bind_listener(struct server *server, const struct config_listener *listener)
{
    const bool shared = server->worker_count > 1;
    struct address bind = listener->bind;
    int error = 0;

    if (shared && bind.port != 0) {
        error = worker_probe(server->workers[0], listener->kind, &bind);
    }
    for (unsigned i = 0; error == 0 && i < server->worker_count; i++) {
        struct address bound;
        error = worker_listen(server->workers[i], listener->kind, &bind, shared, &bound);
        if (error == 0) {
            bind.port = bound.port;
        }
    }
    if (error == 0) {
        char text[ADDRESS_TEXT_MAX];
        log_event(LOG_INFO, "listening", "uri=%s://%s", config_listener_scheme(listener->kind),
                  address_format(&bind, text));
    }
    return error;
}

/* Such is [::1] on a host where IPv6 is off; only who asked for it has to know. */
static bool is_missing_address(int error)
{
    return error == -EADDRNOTAVAIL || error == -EAFNOSUPPORT;
}

static int bind_listeners(struct server *server)
{
    const struct config *config = current(server);
    size_t bound = 0;

    for (size_t i = 0; i < config->listener_count; i++) {
        const struct config_listener *listener = &config->listeners[i];
        char uri[160];
        int error = bind_listener(server, listener);
        if (error == 0) {
            bound++;
            continue;
        }
        bool tolerable = listener->is_default && is_missing_address(error);
        escape_value(uri, sizeof(uri), listener->uri, strlen(listener->uri));
        log_event(tolerable ? LOG_WARNING : LOG_ERROR,
                  tolerable ? "listener_skipped" : "listen_failed", "uri=%s error=\"%s\"", uri,
                  strerror(-error));
        if (!tolerable) {
            return error;
        }
    }
    return bound > 0 ? 0 : -EADDRNOTAVAIL;
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
    const struct config *config = current(server);
    int error = open_descriptors(server);

    raise_file_limit(config);
    if (error == 0) {
        error = resolver_new(config->resolve_threads, config->resolve_queue, &server->resolver);
    }
    if (error == 0) {
        error = make_workers(server);
    }
    if (error == 0) {
        error = bind_listeners(server);
    }
    if (error == 0) {
        error = start_workers(server);
    }
    if (error != 0) {
        log_failure("start_failed", error);
        return error;
    }
    server->is_ready = true;
    log_event(LOG_INFO, "ready", "workers=%u", server->worker_count);
    notify_ready();
    return 0;
}

/* ---- reload ---- */

static void on_key_kept(void *context, const char *key)
{
    (void)context;
    log_event(LOG_WARNING, "restart_needed", "key=%s", key);
}

static void log_refusal(const struct config_errors *errors)
{
    for (size_t i = 0; i < errors->count && i < CONFIG_ERRORS_MAX; i++) {
        char text[2 * CONFIG_ERROR_TEXT_MAX];
        escape_value(text, sizeof(text), errors->text[i], strlen(errors->text[i]));
        log_event(LOG_ERROR, "reload_refused", "error=%s", text);
    }
}

/* The new snapshot, with what needs a restart as it was; NULL with the reason logged. */
static struct config *load_anew(const struct server *server)
{
    struct config_errors *errors = calloc(1, sizeof(struct config_errors));
    struct config *config = NULL;

    if (errors == NULL) {
        log_failure("reload_failed", -ENOMEM);
        return NULL;
    }
    int error = config_load(server->source, errors, &config);
    if (error == -EINVAL) {
        log_refusal(errors);
    } else if (error == 0) {
        error = config_keep_started(config, current(server), on_key_kept, NULL);
    }
    free(errors);
    if (error == 0) {
        return config;
    }
    if (error != -EINVAL) {
        log_failure("reload_failed", error);
    }
    config_free(config);
    return NULL;
}

static void reload(struct server *server)
{
    notify_reloading();
    struct config *config = load_anew(server);
    struct credentials *credentials = NULL;
    if (config != NULL && load_credentials(config, &credentials) != 0) {
        config_free(config);
        config = NULL;
    }
    if (config != NULL && push_snapshot(server, config, credentials) != 0) {
        log_failure("reload_failed", -ENOMEM);
        config_free(config);
        credentials_release(credentials);
        config = NULL;
    }
    for (unsigned i = 0; config != NULL && i < server->worker_count; i++) {
        int error = worker_set_config(server->workers[i], config, credentials);
        if (error != 0) {
            /* It stays with the snapshot it has, which is kept for it. */
            log_event(LOG_ERROR, "reload_failed", "worker=%u error=\"%s\"", i, strerror(-error));
        }
    }
    if (config != NULL) {
        apply_log(config);
        log_plain(LOG_INFO, "reloaded");
    }
    notify_ready();
}

/* ---- stop ---- */

static void begin_drain(struct server *server, const char *why)
{
    log_event(LOG_INFO, "stopping", "why=%s", why);
    notify_stopping();
    server->is_draining = true;
    server->deadline_ms = clock_ms() + current(server)->proxy_drain_timeout;
    for (unsigned i = 0; i < server->worker_count; i++) {
        worker_drain(server->workers[i]);
    }
}

static uint64_t count_in_flight(const struct server *server)
{
    uint64_t count = 0;

    for (unsigned i = 0; i < server->worker_count; i++) {
        count += metric_get(&worker_metrics(server->workers[i])->exchanges);
    }
    return count;
}

static void log_stopped(const struct server *server)
{
    struct metrics *sum = calloc(1, sizeof(struct metrics));

    if (sum == NULL) {
        log_plain(LOG_INFO, "stopped");
        return;
    }
    for (unsigned i = 0; i < server->worker_count; i++) {
        metrics_add(sum, worker_metrics(server->workers[i]));
    }
    log_event(
        LOG_INFO, "stopped", "requests=%" PRIu64 " answered=%" PRIu64 " log_lines_lost=%" PRIu64,
        metric_get(&sum->requests), metric_get(&sum->ended[REASON_answered]), log_lost_count());
    free(sum);
}

static void stop(struct server *server)
{
    for (unsigned i = 0; i < server->worker_count; i++) {
        worker_stop(server->workers[i]);
    }
    for (unsigned i = 0; i < server->worker_count; i++) {
        worker_join(server->workers[i]);
    }
    if (server->is_ready) {
        log_stopped(server);
    }
    /* Each engine takes its questions back; only then may the resolver go. */
    for (unsigned i = 0; i < server->worker_count; i++) {
        worker_free(server->workers[i]);
    }
    resolver_free(server->resolver);
    if (server->signal_fd >= 0) {
        (void)close(server->signal_fd);
    }
    if (server->event_fd >= 0) {
        (void)close(server->event_fd);
    }
    free_snapshots(server->newest);
}

/* ---- the main thread's wait ---- */

/* False when it is time to stop at once. */
static bool handle_signal(struct server *server, uint32_t number)
{
    if (number == SIGHUP) {
        if (!server->is_draining) {
            reload(server);
        }
        return true;
    }
    if (server->is_draining) {
        log_event(LOG_WARNING, "drain_cut_short", "in_flight=%" PRIu64, count_in_flight(server));
        return false;
    }
    begin_drain(server, number == SIGTERM ? "SIGTERM" : "SIGINT");
    return true;
}

static bool handle_signals(struct server *server)
{
    struct signalfd_siginfo info;

    while (read(server->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (!handle_signal(server, info.ssi_signo)) {
            return false;
        }
    }
    return true;
}

static bool has_drained(const struct server *server)
{
    for (unsigned i = 0; i < server->worker_count; i++) {
        if (!worker_has_drained(server->workers[i])) {
            return false;
        }
    }
    return server->is_draining;
}

static bool has_failed(const struct server *server)
{
    for (unsigned i = 0; i < server->worker_count; i++) {
        if (worker_has_failed(server->workers[i])) {
            log_event(LOG_ERROR, "worker_failed", "worker=%u", i);
            return true;
        }
    }
    return false;
}

/* How long poll() may wait: for ever, or to the drain's deadline; 0 when it is over. */
static int wait_ms(const struct server *server)
{
    if (!server->is_draining) {
        return -1;
    }
    uint64_t now_ms = clock_ms();
    return now_ms < server->deadline_ms ? (int)(server->deadline_ms - now_ms) : 0;
}

static int serve(struct server *server)
{
    struct pollfd fds[] = {{.fd = server->signal_fd, .events = POLLIN},
                           {.fd = server->event_fd, .events = POLLIN}};

    for (;;) {
        int timeout_ms = wait_ms(server);
        uint64_t count = 0;
        if (timeout_ms == 0) {
            log_event(LOG_WARNING, "drain_timeout", "in_flight=%" PRIu64, count_in_flight(server));
            return 0;
        }
        if (poll(fds, sizeof(fds) / sizeof(fds[0]), timeout_ms) < 0 && errno != EINTR) {
            log_failure("poll_failed", -errno);
            return 1;
        }
        ssize_t got = read(server->event_fd, &count, sizeof(count)); /* only to reset it */
        (void)got;
        if (has_failed(server)) {
            return 1;
        }
        if (!handle_signals(server) || has_drained(server)) {
            return 0;
        }
        sweep_snapshots(server);
    }
}

int server_run(const struct config_source *source, struct config *config, bool trace)
{
    struct server *server = calloc(1, sizeof(struct server));
    struct credentials *credentials = NULL;
    int status = 1;

    apply_log(config);
    if (load_credentials(config, &credentials) != 0) {
        free(server);
        config_free(config);
        return 2; /* the configuration names what cannot be used */
    }
    if (server == NULL || push_snapshot(server, config, credentials) != 0) {
        log_failure("start_failed", -ENOMEM);
        free(server);
        config_free(config);
        credentials_release(credentials);
        return status;
    }
    server->source = source;
    server->trace = trace;
    server->signal_fd = -1;
    server->event_fd = -1;
    if (start(server) == 0) {
        status = serve(server);
    }
    stop(server);
    free(server);
    return status;
}
