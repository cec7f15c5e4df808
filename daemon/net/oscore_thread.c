/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * All security contexts, and the thread that they belong to. It is started for the first request,
 * and ends with the last context.
 */
#include "net/oscore_internal.h"

#include "net/digest.h"
#include "net/reserve.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define EVENTS_MAX 32

/* Contexts, and whether the thread runs. The thread itself never takes the mutex. */
static pthread_mutex_t registry_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct list registry;
static bool is_running;

static struct {
    pthread_t id;
    int epoll_fd, wake_fd;
    pthread_mutex_t mutex; /* for the calls */
    struct oscore_call *calls, **calls_end;
    struct list alive; /* the thread's: contexts that have had a call */
} thread = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* ---- the thread ---- */

static struct oscore_call *take_calls(void)
{
    uint64_t count;
    ssize_t len = read(thread.wake_fd, &count, sizeof count);

    (void)len;
    (void)pthread_mutex_lock(&thread.mutex);
    struct oscore_call *first = thread.calls;
    thread.calls = NULL;
    thread.calls_end = &thread.calls;
    (void)pthread_mutex_unlock(&thread.mutex);
    return first;
}

static void note_alive(struct upstream_oscore *oscore)
{
    if (!oscore->is_alive) {
        oscore->is_alive = true;
        list_add(&thread.alive, &oscore->alive);
    }
}

static void note_dead(struct upstream_oscore *oscore)
{
    if (oscore->is_alive) {
        oscore->is_alive = false;
        list_remove(&thread.alive, &oscore->alive);
    }
}

/* @return false: it was the thread's last. */
static bool run_calls(void)
{
    struct oscore_call *call = take_calls();
    bool goes_on = true;

    while (call != NULL) {
        struct oscore_call *next = call->next;
        struct upstream_oscore *oscore = call->oscore;
        if (call->kind == OSCORE_STOP) {
            goes_on = false;
        } else if (call->kind == OSCORE_END) {
            note_dead(oscore);
            oscore_take(oscore, call);
        } else {
            note_alive(oscore);
            oscore_take(oscore, call);
        }
        call = next;
    }
    return goes_on;
}

static void *run_thread(void *context)
{
    struct epoll_event events[EVENTS_MAX];

    (void)context;
    reserve_begin_thread();
    do {
        int count = epoll_wait(thread.epoll_fd, events, EVENTS_MAX, -1);
        for (int i = 0; i < count; i++) {
            const struct oscore_watch *watch = events[i].data.ptr;
            if (watch != NULL) {
                oscore_context_on_readable(watch->oscore, watch->source);
            }
        }
        if (!run_calls()) {
            return NULL;
        }
        for (struct list_node *at = thread.alive.first; at != NULL; at = at->next) {
            oscore_work(HASH_ENTRY(at, struct upstream_oscore, alive));
        }
    } while (true);
}

bool oscore_thread_watch(int fd, struct oscore_watch *watch)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = watch};

    return epoll_ctl(thread.epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* ---- its start and end: with the registry's mutex ---- */

static void close_thread(void)
{
    if (thread.epoll_fd >= 0) {
        (void)close(thread.epoll_fd);
    }
    if (thread.wake_fd >= 0) {
        (void)close(thread.wake_fd);
    }
}

/* Signals are the main thread's. */
static bool create_thread(void)
{
    sigset_t all, before;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    int err = pthread_create(&thread.id, NULL, run_thread, NULL);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err == 0;
}

bool oscore_thread_start(void)
{
    (void)pthread_mutex_lock(&registry_mutex);
    if (!is_running) {
        thread.calls = NULL;
        thread.calls_end = &thread.calls;
        thread.alive = (struct list){NULL, NULL};
        thread.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        thread.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        is_running = thread.epoll_fd >= 0 && thread.wake_fd >= 0 &&
                     oscore_thread_watch(thread.wake_fd, NULL) && create_thread();
        if (!is_running) {
            close_thread();
        }
    }
    bool has_started = is_running;
    (void)pthread_mutex_unlock(&registry_mutex);
    return has_started;
}

void oscore_hand(struct oscore_call *call)
{
    static const uint64_t one = 1;

    call->next = NULL;
    (void)pthread_mutex_lock(&thread.mutex);
    *thread.calls_end = call;
    thread.calls_end = &call->next;
    (void)pthread_mutex_unlock(&thread.mutex);
    ssize_t written = write(thread.wake_fd, &one, sizeof one);
    (void)written; /* it cannot fail before 2^64 calls */
}

static void stop_thread(void)
{
    struct oscore_call stop = {.kind = OSCORE_STOP};

    oscore_hand(&stop);
    (void)pthread_join(thread.id, NULL);
    close_thread();
    is_running = false;
}

/* ---- contexts ---- */

static void put_parameter(uint8_t *bytes, size_t *len, const void *value, size_t value_len)
{
    bytes[(*len)++] = (uint8_t)value_len;
    memcpy(bytes + *len, value, value_len);
    *len += value_len;
}

/*
 * What makes the keys and nonces of what we send: all but the recipient's id. Two contexts that
 * differ in that alone, or in their directory, would use the same nonces: there is one at a time.
 */
static bool digest_of_sender(const struct oscore_keys *keys, uint8_t ret_digest[DIGEST_LEN])
{
    uint8_t bytes[5 * (OSCORE_SECRET_MAX + 1) + 64];
    size_t len = 0;

    put_parameter(bytes, &len, keys->master_secret.bytes, keys->master_secret.len);
    put_parameter(bytes, &len, keys->master_salt.bytes, keys->master_salt.len);
    put_parameter(bytes, &len, keys->id_context.bytes, keys->id_context.len);
    put_parameter(bytes, &len, keys->sender_id.bytes, keys->sender_id.len);
    put_parameter(bytes, &len, keys->aead_algorithm, strlen(keys->aead_algorithm));
    put_parameter(bytes, &len, keys->hkdf_algorithm, strlen(keys->hkdf_algorithm));
    bool is_made = digest_sha256(bytes, len, ret_digest);
    explicit_bzero(bytes, sizeof bytes);
    return is_made;
}

static struct upstream_oscore *find_context(const uint8_t digest[DIGEST_LEN])
{
    for (struct list_node *at = registry.first; at != NULL; at = at->next) {
        struct upstream_oscore *oscore = HASH_ENTRY(at, struct upstream_oscore, registered);
        if (memcmp(oscore->digest, digest, DIGEST_LEN) == 0) {
            return oscore;
        }
    }
    return NULL;
}

/* With the same keys to send with: whether all else is the same, too. */
static bool is_same_context(const struct upstream_oscore *oscore, const struct oscore_keys *keys,
                            const char *directory)
{
    const struct oscore_value *own = &oscore->keys.recipient_id, *other = &keys->recipient_id;

    return own->len == other->len && memcmp(own->bytes, other->bytes, own->len) == 0 &&
           strcmp(oscore->directory, directory) == 0;
}

/* Registers it, too. */
static struct upstream_oscore *make_oscore(const struct oscore_keys *keys, const char *directory,
                                           const uint8_t sender[DIGEST_LEN])
{
    struct upstream_oscore *oscore = calloc(1, sizeof *oscore);
    char *copy = strdup(directory);

    if (oscore == NULL || copy == NULL) {
        free(oscore);
        free(copy);
        return NULL;
    }
    for (size_t i = 0; i < OSCORE_STATE_NAME_LEN / 2; i++) {
        (void)snprintf(oscore->name + 2 * i, 3, "%02x", sender[i]);
    }
    memcpy(oscore->digest, sender, DIGEST_LEN);
    oscore->keys = *keys;
    oscore->directory = copy;
    oscore->relay_fd = oscore->wire_fd = -1;
    oscore->waiting_end = &oscore->waiting;
    list_add(&registry, &oscore->registered);
    return oscore;
}

struct upstream_oscore *upstream_oscore_load(const struct oscore_keys *keys, const char *directory,
                                             char *ret_error, size_t error_capacity)
{
    uint8_t sender[DIGEST_LEN];
    struct upstream_oscore *oscore = NULL;

    (void)snprintf(ret_error, error_capacity, "out of memory");
    (void)pthread_mutex_lock(&registry_mutex);
    if (digest_of_sender(keys, sender)) {
        oscore = find_context(sender);
        if (oscore == NULL) {
            oscore = make_oscore(keys, directory, sender);
        } else if (!is_same_context(oscore, keys, directory)) {
            (void)snprintf(ret_error, error_capacity,
                           "its sender-id, id-context and master-secret are in use with another "
                           "recipient-id or directory; a restart ends that use");
            oscore = NULL;
        }
    }
    if (oscore != NULL) {
        oscore->references++;
    }
    (void)pthread_mutex_unlock(&registry_mutex);
    return oscore;
}

struct upstream_oscore *upstream_oscore_acquire(struct upstream_oscore *oscore)
{
    (void)pthread_mutex_lock(&registry_mutex);
    oscore->references++;
    (void)pthread_mutex_unlock(&registry_mutex);
    return oscore;
}

void upstream_oscore_release(struct upstream_oscore *oscore)
{
    if (oscore == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&registry_mutex);
    if (--oscore->references == 0) {
        list_remove(&registry, &oscore->registered);
        if (is_running) {
            oscore->end = (struct oscore_call){.kind = OSCORE_END, .oscore = oscore};
            oscore_hand(&oscore->end);
        } else {
            oscore_context_free(oscore);
        }
        if (is_running && registry.first == NULL) {
            stop_thread();
        }
    }
    (void)pthread_mutex_unlock(&registry_mutex);
}
