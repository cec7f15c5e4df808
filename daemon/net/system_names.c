/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How it works. Questions wait in a list; threads, started as they are needed,
 * take them, ask getaddrinfo() and post the answer to the loop that asked.
 *
 * getaddrinfo() cannot be interrupted and may take minutes. So the threads are
 * detached and the pool is counted, by its owner, its threads and the answers on
 * their way; the last one frees it. "Forgotten" marks a question whose asker has
 * gone; the thread that holds it then only frees it.
 *
 *     WAITING --thread takes it--> ASKED --posted--> ANSWERED --on_result--> freed
 *
 * Locks: the pool's may be held while the loop's is taken (in loop_post_task()),
 * never the other way about.
 */
#include "net/system_names.h"

#include "net/loop_internal.h"
#include "net/sockaddr.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum question_state {
    QUESTION_WAITING,
    QUESTION_ASKED,
    QUESTION_ANSWERED,
};

struct system_question {
    struct system_question *next, *previous;
    struct system_names *names;
    struct system_names_waiter waiter;
    uint64_t source;
    enum question_state state;
    bool is_forgotten;
    struct loop_task task;
    struct resolve_result result;
    char name[RESOLVE_NAME_MAX + 1];
};

struct system_names {
    pthread_mutex_t mutex; /* of everything here, and of states and forgotten marks */
    pthread_cond_t has_work;
    struct system_question *first, *last; /* all questions, the oldest first */
    unsigned waiting_count;               /* in state WAITING */
    unsigned thread_count, thread_max, idle_count;
    unsigned holder_count; /* owner, threads, answers on their way */
    bool is_closed;
    bool has_more; /* sources besides files and DNS; never changed */
};

/* ---- bookkeeping; all with the mutex held ---- */

static void question_link(struct system_names *names, struct system_question *question)
{
    question->previous = names->last;
    if (names->last != NULL) {
        names->last->next = question;
    } else {
        names->first = question;
    }
    names->last = question;
    names->waiting_count++;
}

static void question_set_state(struct system_question *question, enum question_state state)
{
    question->names->waiting_count -= question->state == QUESTION_WAITING;
    question->names->waiting_count += state == QUESTION_WAITING;
    question->state = state;
}

static void question_discard(struct system_question *question)
{
    struct system_names *names = question->names;

    names->waiting_count -= question->state == QUESTION_WAITING;
    if (question->previous != NULL) {
        question->previous->next = question->next;
    } else {
        names->first = question->next;
    }
    if (question->next != NULL) {
        question->next->previous = question->previous;
    } else {
        names->last = question->previous;
    }
    free(question);
}

/* Threads that work for @p source. Not many questions are being asked: thread_max is small. */
static unsigned count_asked(const struct system_names *names, uint64_t source)
{
    unsigned count = 0;

    for (const struct system_question *each = names->first; each != NULL; each = each->next) {
        count += each->state == QUESTION_ASKED && each->source == source;
    }
    return count;
}

/*
 * The oldest question of the source with the fewest threads: a source that has asked for a
 * thousand names that hang gets the next thread only if no other source waits.
 */
static struct system_question *question_waiting(const struct system_names *names)
{
    struct system_question *best = NULL;
    unsigned best_count = 0;

    if (names->waiting_count == 0) {
        return NULL;
    }
    for (struct system_question *each = names->first; each != NULL; each = each->next) {
        if (each->state != QUESTION_WAITING || (best != NULL && each->source == best->source)) {
            continue;
        }
        unsigned count = count_asked(names, each->source);
        if (best == NULL || count < best_count) {
            best = each;
            best_count = count;
        }
        if (best_count == 0) {
            break;
        }
    }
    return best;
}

/*
 * Drop one holder, unlock, and free the pool if it was the last. No question is
 * left then: the owner took those waiting with it, and a thread that works on
 * another is a holder itself.
 */
static void names_leave(struct system_names *names)
{
    bool is_last = --names->holder_count == 0;

    pthread_mutex_unlock(&names->mutex);
    if (is_last) {
        pthread_cond_destroy(&names->has_work);
        pthread_mutex_destroy(&names->mutex);
        free(names);
    }
}

/* ---- getaddrinfo() ---- */

static enum resolve_status status_of_error(int error)
{
    switch (error) {
    case 0:
        return RESOLVE_OK;
    case EAI_NONAME:
    case EAI_NODATA:
    case EAI_ADDRFAMILY:
        return RESOLVE_NOT_FOUND;
    case EAI_AGAIN:
        return RESOLVE_NO_ANSWER;
    case EAI_MEMORY:
        return RESOLVE_SHORTAGE;
    case EAI_SYSTEM:
        return errno == EMFILE || errno == ENFILE ? RESOLVE_SHORTAGE : RESOLVE_FAILED;
    default:
        return RESOLVE_FAILED;
    }
}

static bool system_has_address(const struct resolve_result *result, const struct address *address)
{
    for (size_t i = 0; i < result->address_count; i++) {
        if (address_equal(&result->addresses[i], address)) {
            return true;
        }
    }
    return false;
}

/*
 * Without the mutex. No AI_ADDRCONFIG: with it a host whose only IPv6 address is loopback's could
 * not reach ::1 by name, and the addresses of a name would change with the state of the interfaces;
 * an address out of reach fails when it is used.
 */
static void question_ask(struct system_question *question)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM};
    struct resolve_result *result = &question->result;
    struct addrinfo *list = NULL;

    result->ttl_s = RESOLVE_TTL_UNKNOWN;
    result->status = status_of_error(getaddrinfo(question->name, NULL, &hints, &list));
    if (result->status != RESOLVE_OK) {
        return;
    }
    for (const struct addrinfo *info = list;
         info != NULL && result->address_count < RESOLVE_ADDRESSES_MAX; info = info->ai_next) {
        struct address address;
        sockaddr_to_address(info->ai_addr, info->ai_addrlen, &address);
        address.port = 0;
        if (address.family != ADDRESS_NONE && !system_has_address(result, &address)) {
            result->addresses[result->address_count++] = address;
        }
    }
    freeaddrinfo(list);
    if (result->address_count == 0) {
        result->status = RESOLVE_NOT_FOUND;
    }
}

/* ---- threads ---- */

/* In the loop's thread. */
static void question_deliver(void *context)
{
    struct system_question *question = context;
    struct system_names *names = question->names;

    pthread_mutex_lock(&names->mutex);
    bool is_wanted = !question->is_forgotten && !names->is_closed;
    struct system_question answer = *question;
    question_discard(question);
    names_leave(names);
    if (is_wanted) {
        answer.waiter.on_result(answer.waiter.context, &answer.result);
    }
}

/* In loop_free(). */
static void question_drop(void *context)
{
    struct system_question *question = context;
    struct system_names *names = question->names;

    pthread_mutex_lock(&names->mutex);
    question_discard(question);
    names_leave(names);
}

/* With the mutex held: it is what keeps the loop from going away (system_names_withdraw()). */
static void question_post(struct system_question *question)
{
    struct system_names *names = question->names;

    if (question->is_forgotten || names->is_closed) {
        question_discard(question);
        return;
    }
    question_set_state(question, QUESTION_ANSWERED);
    question->task.run = question_deliver;
    question->task.drop = question_drop;
    question->task.context = question;
    names->holder_count++;
    if (loop_post_task(question->waiter.loop, &question->task) != 0) {
        names->holder_count--; /* the loop has ended: the query has no waiter any more */
        question_discard(question);
    }
}

static void *names_thread_main(void *context)
{
    struct system_names *names = context;

    pthread_mutex_lock(&names->mutex);
    while (!names->is_closed) {
        struct system_question *question = question_waiting(names);
        if (question == NULL) {
            names->idle_count++;
            pthread_cond_wait(&names->has_work, &names->mutex);
            names->idle_count--;
            continue;
        }
        question_set_state(question, QUESTION_ASKED);
        pthread_mutex_unlock(&names->mutex);
        question_ask(question);
        pthread_mutex_lock(&names->mutex);
        question_post(question);
    }
    names_leave(names);
    return NULL;
}

/* One more thread, detached; signals are for others. With the mutex held. */
static int names_thread_start(struct system_names *names)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    pthread_t thread;

    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int err = pthread_create(&thread, &attributes, names_thread_main, names);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (err == 0) {
        names->thread_count++;
        names->holder_count++;
    }
    return -err;
}

/* ---- which sources the system has ---- */

/* Whether @p line, the part behind "hosts:", has a source besides files and dns. */
static bool has_more_sources(const char *line)
{
    bool is_action = false; /* in "[NOTFOUND=return]" */

    while (*line != '\0' && *line != '#') {
        size_t len = strcspn(line, " \t\n[]#");
        bool is_plain = (len == 5 && memcmp(line, "files", len) == 0) ||
                        (len == 3 && memcmp(line, "dns", len) == 0);
        if (len > 0 && !is_action && !is_plain) {
            return true;
        }
        line += len;
        if (*line != '\0' && *line != '#') {
            is_action = *line == '[' || (is_action && *line != ']');
            line++;
        }
    }
    return false;
}

static bool read_sources(const char *nsswitch)
{
    static const char key[] = "hosts:";
    FILE *file = fopen(nsswitch, "re");
    bool has_more = false;
    char line[512];

    if (file == NULL) {
        return false;
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        const char *text = line + strspn(line, " \t");
        if (strncmp(text, key, sizeof(key) - 1) == 0) {
            has_more = has_more_sources(text + sizeof(key) - 1);
        }
    }
    (void)fclose(file);
    return has_more;
}

/* ---- interface ---- */

int system_names_new(unsigned thread_count, const char *nsswitch, struct system_names **ret_names)
{
    if (thread_count == 0) {
        return -EINVAL;
    }
    struct system_names *names = calloc(1, sizeof *names);
    if (names == NULL) {
        return -ENOMEM;
    }
    pthread_mutex_init(&names->mutex, NULL); /* neither can fail with default attributes */
    pthread_cond_init(&names->has_work, NULL);
    names->thread_max = thread_count;
    names->holder_count = 1;
    names->has_more = read_sources(nsswitch);
    *ret_names = names;
    return 0;
}

/* With the mutex held. */
static void question_forget(struct system_question *question)
{
    question->is_forgotten = true;
    if (question->state == QUESTION_WAITING) {
        question_discard(question);
    }
}

void system_names_free(struct system_names *names)
{
    struct system_question *next;

    if (names == NULL) {
        return;
    }
    pthread_mutex_lock(&names->mutex);
    names->is_closed = true;
    for (struct system_question *each = names->first; each != NULL; each = next) {
        next = each->next;
        question_forget(each);
    }
    pthread_cond_broadcast(&names->has_work);
    names_leave(names);
}

bool system_names_has_more(const struct system_names *names)
{
    return names != NULL && names->has_more;
}

void system_names_withdraw(struct system_question *question)
{
    if (question != NULL) {
        struct system_names *names = question->names;
        pthread_mutex_lock(&names->mutex);
        question_forget(question);
        pthread_mutex_unlock(&names->mutex);
    }
}

/* With the mutex held. @return 0 where some thread will take the question. */
static int need_thread(struct system_names *names)
{
    int err = 0;

    if (names->waiting_count >= names->idle_count && names->thread_count < names->thread_max) {
        err = names_thread_start(names);
    }
    return names->thread_count > 0 ? 0 : err;
}

int system_names_ask(struct system_names *names, const char *name, uint64_t source,
                     const struct system_names_waiter *waiter,
                     struct system_question **ret_question)
{
    size_t name_len = strlen(name);

    if (name_len > RESOLVE_NAME_MAX) {
        return -EINVAL;
    }
    struct system_question *question = calloc(1, sizeof *question);
    if (question == NULL) {
        return -ENOMEM;
    }
    question->names = names;
    question->waiter = *waiter;
    question->source = source;
    memcpy(question->name, name, name_len);
    pthread_mutex_lock(&names->mutex);
    int err = need_thread(names);
    if (err == 0) {
        question_link(names, question);
        pthread_cond_signal(&names->has_work);
    }
    pthread_mutex_unlock(&names->mutex);
    if (err != 0) {
        free(question);
        return err;
    }
    *ret_question = question;
    return 0;
}
