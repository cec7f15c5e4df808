/* SPDX-License-Identifier: BSD-2-Clause */
#include "worker/internal.h"

#include "base/log.h"
#include "net/conn.h"
#include "net/dtls.h"
#include "net/loop.h"
#include "net/reserve.h"
#include "net/resolve.h"
#include "net/udp.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void tell_main(struct worker *worker)
{
    static const uint64_t one = 1;

    /* The counter cannot overflow: each worker writes once a reload, and twice at the end. */
    ssize_t written = write(worker->event_fd, &one, sizeof(one));
    (void)written;
}

static void tell_state(struct worker *worker, unsigned more)
{
    atomic_fetch_or(&worker->state, more);
    tell_main(worker);
}

unsigned worker_state(const struct worker *worker)
{
    return atomic_load(&worker->state);
}

/* ---- other replicas ---- */

static bool worker_on_passed(void *context, const struct datagram *datagram)
{
    struct worker *worker = context;

    return listen_take_passed(&worker->engine->client, datagram);
}

static bool worker_on_answer(void *context, uint16_t listener, const struct udp_path *path,
                             struct bytes records)
{
    struct worker *worker = context;

    return listen_send_passed(&worker->engine->client, listener, path, records);
}

static uint16_t worker_tag(void *context)
{
    struct worker *worker = context;

    return peer_book_tag(worker->peers);
}

static void worker_on_held(void *context, uint16_t tag)
{
    const struct worker *worker = context;

    peer_book_hold(worker->peers, tag);
}

void worker_tell_peers(void *context)
{
    const struct worker *worker = context;

    peer_link_hurry(worker->peer_link);
}

static bool worker_pass(void *context, uint16_t number, const uint8_t *cid,
                        const struct datagram *datagram)
{
    const struct worker *worker = context;

    return peer_link_pass(worker->peer_link, number, cid, datagram);
}

static void worker_answer(void *context, const struct udp_path *path, const uint8_t *data,
                          size_t len)
{
    const struct worker *worker = context;

    peer_link_answer(worker->peer_link, path, data, len);
}

static const struct dtls_passing worker_passing = {
    .tag = worker_tag, .on_held = worker_on_held, .pass = worker_pass, .answer = worker_answer};

static struct bytes cluster_secret(const struct config *config)
{
    return (struct bytes){config->cluster_secret, config->cluster_secret_len};
}

static int open_peer_link(struct worker *worker, const struct worker_options *options)
{
    static const struct peer_handler handler = {.on_passed = worker_on_passed,
                                                .on_answer = worker_on_answer};
    const struct peer_link_options link = {.book = options->peers,
                                           .listen = options->config->cluster.listen,
                                           .worker = options->index,
                                           .worker_count = options->count,
                                           .secret = cluster_secret(options->config)};

    worker->peers = options->peers;
    return options->peers == NULL
               ? 0
               : peer_link_open(worker->loop, &link, &handler, worker, &worker->peer_link);
}

static void publish_peers(struct worker *worker)
{
    const struct peer_counters *counters = peer_link_counters(worker->peer_link);
    struct metrics *metrics = &worker->engine->context.metrics;

    metric_set(&metrics->peers_passed, metric_get(&counters->passed));
    metric_set(&metrics->peers_not_passed, metric_get(&counters->not_passed));
    metric_set(&metrics->peers_taken, metric_get(&counters->taken));
    metric_set(&metrics->peers_answers, metric_get(&counters->answers));
    for (unsigned i = 0; i < PEER_REFUSAL_COUNT; i++) {
        metric_set(&metrics->peers_refused[i], metric_get(&counters->refused[i]));
    }
}

/* After the engine's turn, which may have left datagrams for others. */
static uint64_t turn_peer_link(struct worker *worker, uint64_t now_ms)
{
    uint64_t next_ms = peer_link_turn(worker->peer_link, now_ms);

    peer_link_flush(worker->peer_link);
    publish_peers(worker);
    return next_ms;
}

/*
 * It has nothing in flight any more; it may owe changes to the server of cache.shared, which the
 * log says, or a stop would seem to hang.
 */
static void drain_turn(struct worker *worker, uint64_t now_ms)
{
    uint64_t owed = engine_owes_changes(worker->engine);
    const struct config *config = worker->engine->context.config;

    if (owed > 0 && worker->owes_since_ms == 0) {
        worker->owes_since_ms = now_ms;
        log_event(LOG_WARNING, "stop_waits",
                  "why=\"cache.shared has not taken changes\" worker=%u changes=%" PRIu64
                  " at_most_ms=%" PRIu64,
                  worker->index, owed, (uint64_t)config->proxy_drain_timeout);
    }
    if (owed == 0 && worker->owes_since_ms != 0) {
        log_event(LOG_INFO, "stop_goes_on", "worker=%u waited_ms=%" PRIu64, worker->index,
                  now_ms - worker->owes_since_ms);
    }
    if (owed == 0) {
        worker->is_draining = false;
        tell_state(worker, WORKER_DRAINED);
    }
}

/* The loop is there before the engine, so it cannot have the engine's own function. */
static uint64_t on_turn(void *context, uint64_t now_ms)
{
    struct worker *worker = context;
    uint64_t next_ms = engine_turn(worker->engine, now_ms);

    /* It goes on answering newcomers with 5.03 until the main thread stops it. */
    if (worker->is_draining && engine_in_flight(worker->engine) == 0 &&
        worker->engine->client.stream_count == 0) {
        drain_turn(worker, now_ms);
    }
    if (worker->is_holding && (worker_state(worker) & WORKER_QUIET) == 0 &&
        engine_in_flight(worker->engine) == 0) {
        tell_state(worker, WORKER_QUIET);
    }
    if (worker->peer_link != NULL) {
        uint64_t link_ms = turn_peer_link(worker, now_ms);
        next_ms = link_ms < next_ms ? link_ms : next_ms;
    }
    return next_ms;
}

/* A condition and not a semaphore: sem_clockwait() is not in every C library. */
static int fence_init(struct worker *worker)
{
    pthread_condattr_t attributes;
    int error = pthread_condattr_init(&attributes);

    if (error != 0) {
        return -error;
    }
    error = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    if (error == 0) {
        error = pthread_cond_init(&worker->fence_passed, &attributes);
    }
    if (error == 0) {
        error = pthread_mutex_init(&worker->fence_lock, NULL);
        if (error != 0) {
            (void)pthread_cond_destroy(&worker->fence_passed);
        }
    }
    (void)pthread_condattr_destroy(&attributes);
    return -error;
}

int worker_new(const struct worker_options *options, struct worker **ret_worker)
{
    struct worker *worker = calloc(1, sizeof(struct worker));

    if (worker == NULL) {
        return -ENOMEM;
    }
    worker->index = options->index;
    worker->event_fd = options->event_fd;
    atomic_init(&worker->wanted, options->config);
    atomic_init(&worker->in_use, options->config);
    atomic_init(&worker->credentials, options->credentials);
    int error = fence_init(worker);
    if (error != 0) {
        free(worker);
        return error;
    }
    error = loop_new(on_turn, worker, &worker->loop);
    if (error != 0) {
        goto fail;
    }
    error = resolver_new(worker->loop, options->system_names, &worker->resolver);
    if (error != 0) {
        goto fail;
    }
    const struct engine_options engine_options = {.config = options->config,
                                                  .worker_index = options->index,
                                                  .worker_count = options->count,
                                                  .loop = worker->loop,
                                                  .resolver = worker->resolver,
                                                  .changes = options->changes,
                                                  .switchboard = options->switchboard,
                                                  .origin_labels = options->origin_labels,
                                                  .trace = options->trace};
    error = engine_new(&engine_options, &worker->engine);
    if (error == 0) {
        error = open_peer_link(worker, options);
    }
    if (error != 0) {
        goto fail;
    }
    *ret_worker = worker;
    return 0;

fail:
    worker_free(worker);
    return error;
}

void worker_free(struct worker *worker)
{
    if (worker == NULL) {
        return;
    }
    engine_free(worker->engine); /* which may say farewell to clients by way of others */
    peer_link_close(worker->peer_link);
    resolver_free(worker->resolver);
    loop_free(worker->loop);
    (void)pthread_cond_destroy(&worker->fence_passed);
    (void)pthread_mutex_destroy(&worker->fence_lock);
    free(worker);
}

static int open_stream(struct worker *worker, enum transport transport, const struct address *bound,
                       int fd)
{
    const struct config *config = worker_config(worker);
    const struct conn_options options = {
        .transport = transport,
        .bind = *bound,
        .fd = fd,
        .credentials = atomic_load(&worker->credentials),
        .connections_max = config->stream_connections,
        .connections_per_address = config->stream_connections_per_address,
        .ipv6_bits = config->limits_ipv6_prefix,
        .handshakes_per_s = config->tls_handshakes_per_second,
        .handshake_ms = config->stream_handshake_timeout,
        .idle_ms = config->stream_idle_timeout,
        .output_max = (uint32_t)config->stream_output_bytes,
        .write_ms = config->stream_write_timeout,
        .message_ms = config->stream_message_timeout,
        .needs_alpn = config->stream_require_alpn,
        .allow_origins = config->stream_web_pages,
    };

    return listen_stream(&worker->engine->client, &options, NULL);
}

static int open_dtls(struct worker *worker, const struct udp_options *udp)
{
    const struct config *config = worker_config(worker);
    const struct dtls_options options = {
        .udp = *udp,
        .credentials = atomic_load(&worker->credentials),
        .sessions_max = config->tls_sessions,
        .cid_bytes = (uint8_t)config->tls_cid_bytes,
        .worker = (uint8_t)worker->index,
        .ipv6_bits = config->limits_ipv6_prefix,
        .handshakes_max = config->tls_handshakes,
        .handshakes_per_s = config->tls_handshakes_per_second,
        .handshake_ms = config->tls_handshake_timeout,
        .idle_ms = config->tls_idle_timeout,
        .passing = worker->peers != NULL ? &worker_passing : NULL,
        .passing_context = worker,
    };

    return listen_dtls(&worker->engine->client, &options, NULL);
}

/* In the worker's thread, or before there is one. @p fd is taken over in any case. */
static int listen_on(struct worker *worker, enum transport transport, const struct address *bound,
                     int fd)
{
    const struct udp_options options = {
        .bind = *bound,
        .want_local = address_is_unspecified(bound),
        .buffer_bytes = (uint32_t)worker_config(worker)->listen_buffer_bytes,
        .tells_buffers = worker->index == 0, /* once for all workers */
        .gso = worker_config(worker)->listen_gso,
        .gro = worker_config(worker)->listen_gro,
        .fd = fd,
    };

    if (transport_is_stream(transport)) {
        return open_stream(worker, transport, bound, fd);
    }
    int error = transport == TRANSPORT_DTLS ? open_dtls(worker, &options)
                                            : listen_udp(&worker->engine->client, &options, NULL);
    if (error != 0) {
        (void)close(fd);
    }
    return error;
}

struct listen_task {
    struct worker *worker;
    enum transport transport;
    struct address bound;
    int fd; /* -1: it is taken out */
};

static void listen_task(void *context)
{
    struct listen_task task = *(struct listen_task *)context;
    char text[ADDRESS_TEXT_MAX];

    free(context);
    if (task.fd < 0) {
        listen_retire(&task.worker->engine->client, transport_is_stream(task.transport),
                      &task.bound);
        return;
    }
    int error = listen_on(task.worker, task.transport, &task.bound, task.fd);
    if (error != 0) {
        log_event(LOG_ERROR, "listen_failed", "worker=%u address=%s error=\"%s\"",
                  task.worker->index, address_format(&task.bound, text), strerror(-error));
    }
}

static int post_listen(struct worker *worker, enum transport transport, const struct address *bound,
                       int fd)
{
    struct listen_task *task = malloc(sizeof(struct listen_task));
    int error = -ENOMEM;

    if (task != NULL) {
        *task = (struct listen_task){
            .worker = worker, .transport = transport, .bound = *bound, .fd = fd};
        error = loop_post(worker->loop, listen_task, task);
    }
    if (error != 0) {
        free(task);
        if (fd >= 0) {
            (void)close(fd);
        }
    }
    return error;
}

int worker_listen(struct worker *worker, enum transport transport, const struct address *bound,
                  int fd)
{
    return worker->is_started ? post_listen(worker, transport, bound, fd)
                              : listen_on(worker, transport, bound, fd);
}

int worker_unlisten(struct worker *worker, enum transport transport, const struct address *bound)
{
    return post_listen(worker, transport, bound, -1);
}

static void *worker_run(void *context)
{
    struct worker *worker = context;
    char name[16];

    (void)snprintf(name, sizeof(name), "worker-%u", worker->index % 1000);
    (void)pthread_setname_np(pthread_self(), name);
    reserve_begin_thread();
    if (loop_run(worker->loop) != 0) {
        tell_state(worker, WORKER_FAILED);
    }
    return NULL;
}

/*
 * Ours, because the system's is too much for a small box (8 MiB with glibc, which count against
 * RLIMIT_AS) or too little for OpenSSL's handshakes (128 KiB with musl). Sanitizers' frames are
 * larger.
 */
#define WORKER_STACK_BYTES ((size_t)1 << 20)

int worker_start(struct worker *worker)
{
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);

    if (error != 0) {
        return -error;
    }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    error = pthread_attr_setstacksize(&attributes, WORKER_STACK_BYTES);
#endif
    if (error == 0) {
        error = pthread_create(&worker->thread, &attributes, worker_run, worker);
    }
    (void)pthread_attr_destroy(&attributes);
    worker->is_started = error == 0;
    return -error;
}

int worker_post(struct worker *worker, loop_task_fn task, void *context)
{
    return loop_post(worker->loop, task, context);
}

static void beat_task(void *context)
{
    struct worker *worker = context;

    atomic_fetch_add_explicit(&worker->beats, 1, memory_order_relaxed);
}

bool worker_beat(struct worker *worker)
{
    bool has_answered =
        worker->beats_asked == atomic_load_explicit(&worker->beats, memory_order_relaxed);

    /* One question at a time: a loop that stands still does not gather a queue of them. */
    if (has_answered && loop_post(worker->loop, beat_task, worker) == 0) {
        worker->beats_asked++;
    }
    return has_answered;
}

static void fence_task(void *context)
{
    struct worker *worker = context;

    (void)pthread_mutex_lock(&worker->fence_lock);
    worker->fences++;
    (void)pthread_cond_signal(&worker->fence_passed);
    (void)pthread_mutex_unlock(&worker->fence_lock);
}

void worker_fence(struct worker *worker)
{
    if (loop_post(worker->loop, fence_task, worker) == 0) {
        worker->fences_asked++;
    }
}

bool worker_wait(struct worker *worker, const struct timespec *deadline)
{
    int error = 0;

    (void)pthread_mutex_lock(&worker->fence_lock);
    while (worker->fences != worker->fences_asked && error == 0) {
        error = pthread_cond_timedwait(&worker->fence_passed, &worker->fence_lock, deadline);
    }
    bool have_passed = worker->fences == worker->fences_asked;
    (void)pthread_mutex_unlock(&worker->fence_lock);
    return have_passed;
}

static void answered_task(void *context)
{
    struct worker_ask *ask = context;

    ask->on_answer(ask);
}

static void ask_task(void *context)
{
    struct worker_ask *ask = context;

    json_writer_init(&ask->out, ask->buffer, sizeof(ask->buffer));
    ask->is_done = ask->run(ask->worker->engine, ask->argument, &ask->cursor, &ask->out);
    ask->task = (struct loop_task){.run = answered_task, .drop = free, .context = ask};
    if (loop_post_task(ask->answer_to, &ask->task) != 0) {
        free(ask); /* the process is ending */
    }
}

int worker_ask(struct worker *worker, struct worker_ask *ask)
{
    ask->worker = worker;
    ask->task = (struct loop_task){.run = ask_task, .drop = free, .context = ask};
    return loop_post_task(worker->loop, &ask->task);
}

static void drain_task(void *context)
{
    struct worker *worker = context;

    engine_drain(worker->engine);
    worker->is_draining = true;
}

static void pause_task(void *context)
{
    struct worker *worker = context;

    engine_refuse_newcomers(worker->engine, true);
}

static void resume_task(void *context)
{
    struct worker *worker = context;

    engine_refuse_newcomers(worker->engine, false);
}

static void hold_task(void *context)
{
    struct worker *worker = context;

    listen_hold(&worker->engine->client, true);
    worker->is_holding = true;
}

int worker_tell(struct worker *worker, enum worker_order order)
{
    static const loop_task_fn tasks[] = {
        [WORKER_PAUSE] = pause_task,
        [WORKER_RESUME] = resume_task,
        [WORKER_DRAIN] = drain_task,
        [WORKER_HOLD] = hold_task,
    };

    return loop_post(worker->loop, tasks[order], worker);
}

/* What was begun in this turn before is sent; what the loop has still to read stays where it is. */
static void park_task(void *context)
{
    struct worker *worker = context;

    listen_flush(&worker->engine->client);
    (void)pthread_mutex_lock(&worker->fence_lock);
    worker->is_parked = true;
    (void)pthread_cond_broadcast(&worker->fence_passed);
    while (!worker->may_go_on) {
        (void)pthread_cond_wait(&worker->fence_passed, &worker->fence_lock);
    }
    worker->is_parked = false;
    worker->may_go_on = false;
    (void)pthread_mutex_unlock(&worker->fence_lock);
}

bool worker_park(struct worker *worker, const struct timespec *deadline)
{
    int error = loop_post(worker->loop, park_task, worker);

    if (error != 0) {
        return false;
    }
    worker->is_asked_to_park = true;
    (void)pthread_mutex_lock(&worker->fence_lock);
    while (!worker->is_parked && error == 0) {
        error = pthread_cond_timedwait(&worker->fence_passed, &worker->fence_lock, deadline);
    }
    bool is_parked = worker->is_parked;
    (void)pthread_mutex_unlock(&worker->fence_lock);
    return is_parked;
}

struct client_side *worker_clients(struct worker *worker)
{
    return &worker->engine->client;
}

static void go_on_task(void *context)
{
    struct worker *worker = context;

    listen_thaw(&worker->engine->client);
    listen_hold(&worker->engine->client, false);
    worker->is_holding = false;
    atomic_fetch_and(&worker->state, ~WORKER_QUIET);
}

void worker_go_on(struct worker *worker)
{
    if (worker->is_asked_to_park) {
        worker->is_asked_to_park = false;
        (void)pthread_mutex_lock(&worker->fence_lock);
        worker->may_go_on = true;
        (void)pthread_cond_broadcast(&worker->fence_passed);
        (void)pthread_mutex_unlock(&worker->fence_lock);
    }
    /* Without memory for the task there is nothing left to try but again. */
    while (loop_post(worker->loop, go_on_task, worker) == -ENOMEM) {
        (void)usleep(1000);
    }
}

static void stop_task(void *context)
{
    struct worker *worker = context;

    loop_stop(worker->loop);
}

void worker_stop(struct worker *worker)
{
    /* Without memory for the task there is nothing left to try but again. */
    while (worker->is_started && loop_post(worker->loop, stop_task, worker) == -ENOMEM) {
        (void)usleep(1000);
    }
}

void worker_join(struct worker *worker)
{
    if (worker->is_started) {
        (void)pthread_join(worker->thread, NULL);
        worker->is_started = false;
    }
}

static void config_task(void *context)
{
    struct worker *worker = context;
    const struct config *config = atomic_load(&worker->wanted);

    struct credentials *credentials = atomic_load(&worker->credentials);
    engine_set_config(worker->engine, config);
    if (worker->peer_link != NULL) {
        peer_link_set_secret(worker->peer_link, cluster_secret(config));
    }
    if (credentials != NULL) {
        listen_set_credentials(&worker->engine->client, credentials);
    }
    atomic_store(&worker->in_use, config);
    tell_main(worker); /* which may free the snapshot before */
}

int worker_set_config(struct worker *worker, const struct config *config,
                      struct credentials *credentials)
{
    atomic_store(&worker->credentials, credentials);
    atomic_store(&worker->wanted, config);
    return loop_post(worker->loop, config_task, worker);
}

const struct config *worker_config(const struct worker *worker)
{
    return atomic_load(&worker->in_use);
}

const struct metrics *worker_metrics(const struct worker *worker)
{
    return engine_metrics(worker->engine);
}
