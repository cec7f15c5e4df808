/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How it works. Questions wait in a list; threads, started as they are needed,
 * take them, ask getaddrinfo() and post the answer to the loop that asked.
 *
 * getaddrinfo() cannot be interrupted and may take minutes. So nobody waits for
 * it: the threads are detached and the pool is counted, by its owner, its threads
 * and the answers on their way; the last one frees it. "Forgotten" marks a
 * question whose asker has gone; whoever holds it then only frees it.
 *
 *     WAITING --thread takes it--> ASKED --posted--> ANSWERED --on_result--> freed
 *
 * Locks: the pool's may be held while the loop's is taken (in loop_post_task()),
 * never the other way about.
 */
#include "net/resolve.h"

#include "net/loop_internal.h"
#include "net/sockaddr.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum question_state {
    QUESTION_WAITING,
    QUESTION_ASKED,
    QUESTION_ANSWERED,
};

struct question {
    struct question *next, *previous;
    struct resolver *resolver;
    struct loop *loop;
    resolve_fn on_result;
    void *context;
    enum question_state state;
    bool is_forgotten;
    struct loop_task task;
    enum resolve_status status;
    size_t address_count;
    struct address addresses[RESOLVE_ADDRESSES_MAX];
    char name[RESOLVE_NAME_MAX + 1];
};

struct resolver {
    pthread_mutex_t mutex; /* of everything here, and of states and forgotten marks */
    pthread_cond_t has_work;
    struct question *first, *last; /* all questions, the oldest first */
    unsigned question_count, question_max;
    unsigned waiting_count; /* in state WAITING */
    unsigned thread_count, thread_max, idle_count;
    unsigned holder_count; /* owner, threads, answers on their way */
    bool is_closed;
};

/* ---- bookkeeping; all with the mutex held ---- */

static void question_link(struct resolver *resolver, struct question *question)
{
    question->previous = resolver->last;
    if (resolver->last != NULL) {
        resolver->last->next = question;
    } else {
        resolver->first = question;
    }
    resolver->last = question;
    resolver->question_count++;
    resolver->waiting_count++;
}

static void question_set_state(struct question *question, enum question_state state)
{
    question->resolver->waiting_count -= question->state == QUESTION_WAITING;
    question->resolver->waiting_count += state == QUESTION_WAITING;
    question->state = state;
}

static void question_discard(struct question *question)
{
    struct resolver *resolver = question->resolver;

    resolver->waiting_count -= question->state == QUESTION_WAITING;
    resolver->question_count--;
    if (question->previous != NULL) {
        question->previous->next = question->next;
    } else {
        resolver->first = question->next;
    }
    if (question->next != NULL) {
        question->next->previous = question->previous;
    } else {
        resolver->last = question->previous;
    }
    free(question);
}

static struct question *question_waiting(const struct resolver *resolver)
{
    struct question *question = resolver->waiting_count > 0 ? resolver->first : NULL;

    /* Those before it are being asked or delivered: never many. */
    while (question != NULL && question->state != QUESTION_WAITING) {
        question = question->next;
    }
    return question;
}

/*
 * Drop one holder, unlock, and free the pool if it was the last. No question is
 * left then: the owner took those waiting with it, and who holds another is a
 * holder of the pool.
 */
static void resolver_leave(struct resolver *resolver)
{
    bool is_last = --resolver->holder_count == 0;

    pthread_mutex_unlock(&resolver->mutex);
    if (is_last) {
        pthread_cond_destroy(&resolver->has_work);
        pthread_mutex_destroy(&resolver->mutex);
        free(resolver);
    }
}

/* ---- the system's resolver ---- */

static enum resolve_status status_of(int error)
{
    switch (error) {
    case 0:
        return RESOLVE_OK;
    case EAI_NONAME:
    case EAI_NODATA:
    case EAI_ADDRFAMILY:
        return RESOLVE_NOT_FOUND;
    case EAI_AGAIN:
        return RESOLVE_TRY_AGAIN;
    default:
        return RESOLVE_FAILED;
    }
}

static bool has_address(const struct question *question, const struct address *address)
{
    for (size_t i = 0; i < question->address_count; i++) {
        if (address_equal(&question->addresses[i], address)) {
            return true;
        }
    }
    return false;
}

/*
 * Without the mutex. No AI_ADDRCONFIG: with it a host whose only IPv6 address is
 * loopback's could not reach ::1 by name, and what a name means would change with
 * the weather of the interfaces; an address out of reach fails when it is used.
 */
static void question_ask(struct question *question)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM};
    struct addrinfo *list = NULL;

    question->status = status_of(getaddrinfo(question->name, NULL, &hints, &list));
    if (question->status != RESOLVE_OK) {
        return;
    }
    for (const struct addrinfo *info = list;
         info != NULL && question->address_count < RESOLVE_ADDRESSES_MAX; info = info->ai_next) {
        struct address address;
        sockaddr_to_address(info->ai_addr, info->ai_addrlen, &address);
        address.port = 0;
        if (address.family != ADDRESS_NONE && !has_address(question, &address)) {
            question->addresses[question->address_count++] = address;
        }
    }
    freeaddrinfo(list);
    if (question->address_count == 0) {
        question->status = RESOLVE_NOT_FOUND;
    }
}

/* ---- threads ---- */

/* In the loop's thread. */
static void question_deliver(void *context)
{
    struct question *question = context;
    struct resolver *resolver = question->resolver;

    pthread_mutex_lock(&resolver->mutex);
    bool is_wanted = !question->is_forgotten && !resolver->is_closed;
    struct question answer = *question;
    question_discard(question);
    resolver_leave(resolver);
    if (is_wanted) {
        answer.on_result(answer.context, answer.status, answer.addresses, answer.address_count);
    }
}

/* In loop_free(). */
static void question_drop(void *context)
{
    struct question *question = context;
    struct resolver *resolver = question->resolver;

    pthread_mutex_lock(&resolver->mutex);
    question_discard(question);
    resolver_leave(resolver);
}

/* With the mutex held: it is what keeps the loop from going away (resolver_forget()). */
static void question_post(struct question *question)
{
    struct resolver *resolver = question->resolver;

    if (question->is_forgotten || resolver->is_closed) {
        question_discard(question);
        return;
    }
    question_set_state(question, QUESTION_ANSWERED);
    question->task.run = question_deliver;
    question->task.drop = question_drop;
    question->task.context = question;
    resolver->holder_count++;
    if (loop_post_task(question->loop, &question->task) != 0) {
        resolver->holder_count--; /* the loop has ended: nobody is left to be told */
        question_discard(question);
    }
}

static void *thread_main(void *context)
{
    struct resolver *resolver = context;

    pthread_mutex_lock(&resolver->mutex);
    while (!resolver->is_closed) {
        struct question *question = question_waiting(resolver);
        if (question == NULL) {
            resolver->idle_count++;
            pthread_cond_wait(&resolver->has_work, &resolver->mutex);
            resolver->idle_count--;
            continue;
        }
        question_set_state(question, QUESTION_ASKED);
        pthread_mutex_unlock(&resolver->mutex);
        question_ask(question);
        pthread_mutex_lock(&resolver->mutex);
        question_post(question);
    }
    resolver_leave(resolver);
    return NULL;
}

/* One more thread, detached; signals are for others. With the mutex held. */
static int thread_start(struct resolver *resolver)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    pthread_t thread;

    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int err = pthread_create(&thread, &attributes, thread_main, resolver);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (err == 0) {
        resolver->thread_count++;
        resolver->holder_count++;
    }
    return -err;
}

/* ---- what others call ---- */

int resolver_new(unsigned thread_count, unsigned queue_max, struct resolver **ret_resolver)
{
    if (thread_count == 0) {
        return -EINVAL;
    }
    struct resolver *resolver = calloc(1, sizeof *resolver);
    if (resolver == NULL) {
        return -ENOMEM;
    }
    pthread_mutex_init(&resolver->mutex, NULL); /* neither can fail with default attributes */
    pthread_cond_init(&resolver->has_work, NULL);
    resolver->question_max = queue_max;
    resolver->thread_max = thread_count;
    resolver->holder_count = 1;
    *ret_resolver = resolver;
    return 0;
}

/* With the mutex held. @p loop NULL: of all loops. */
static void forget(struct resolver *resolver, const struct loop *loop)
{
    struct question *next;

    for (struct question *question = resolver->first; question != NULL; question = next) {
        next = question->next;
        if (loop != NULL && question->loop != loop) {
            continue;
        }
        question->is_forgotten = true;
        if (question->state == QUESTION_WAITING) {
            question_discard(question);
        }
    }
}

void resolver_free(struct resolver *resolver)
{
    if (resolver == NULL) {
        return;
    }
    pthread_mutex_lock(&resolver->mutex);
    resolver->is_closed = true;
    forget(resolver, NULL);
    pthread_cond_broadcast(&resolver->has_work);
    resolver_leave(resolver);
}

void resolver_forget(struct resolver *resolver, const struct loop *loop)
{
    if (resolver != NULL) {
        pthread_mutex_lock(&resolver->mutex);
        forget(resolver, loop);
        pthread_mutex_unlock(&resolver->mutex);
    }
}

/*
 * getaddrinfo() reads "127.1", "0x7f.1" and "::1" as addresses, whatever the
 * hints; and "127.1 x" too, in older C libraries. None of these is a host name.
 */
static bool is_host_name(const char *name, size_t len)
{
    if (len == 0 || len > RESOLVE_NAME_MAX) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)name[i] <= ' ' || name[i] == 0x7f || name[i] == ':') {
            return false;
        }
    }
    size_t end = name[len - 1] == '.' ? len - 1 : len;
    size_t start = end;
    bool is_all_digits = true;
    while (start > 0 && name[start - 1] != '.') {
        start--;
        is_all_digits = is_all_digits && name[start] >= '0' && name[start] <= '9';
    }
    bool is_hex = end - start >= 2 && strncasecmp(name + start, "0x", 2) == 0;
    return start < end && !is_all_digits && !is_hex;
}

/* With the mutex held. @return 0 where some thread will take the question. */
static int need_thread(struct resolver *resolver)
{
    int err = 0;

    if (resolver->waiting_count >= resolver->idle_count &&
        resolver->thread_count < resolver->thread_max) {
        err = thread_start(resolver);
    }
    return resolver->thread_count > 0 ? 0 : err;
}

int resolver_ask(struct resolver *resolver, struct loop *loop, const char *name, size_t name_len,
                 resolve_fn on_result, void *context)
{
    int err = -EAGAIN;

    if (!is_host_name(name, name_len)) {
        return -EINVAL;
    }
    struct question *question = calloc(1, sizeof *question);
    if (question == NULL) {
        return -ENOMEM;
    }
    question->resolver = resolver;
    question->loop = loop;
    question->on_result = on_result;
    question->context = context;
    memcpy(question->name, name, name_len);
    pthread_mutex_lock(&resolver->mutex);
    if (resolver->question_count < resolver->question_max) {
        err = need_thread(resolver);
    }
    if (err == 0) {
        question_link(resolver, question);
        pthread_cond_signal(&resolver->has_work);
    }
    pthread_mutex_unlock(&resolver->mutex);
    if (err != 0) {
        free(question);
    }
    return err;
}
