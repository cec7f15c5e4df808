/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One worker: a thread with a loop and an engine on it.
 *
 * The main thread makes it, gives it sockets and starts it; from then on
 * everything in it belongs to its thread, and the main thread reaches it through
 * the loop's queue. In order: worker_new(), worker_listen(), worker_start(), then
 * WORKER_DRAIN if there is time, worker_stop(), worker_join(), worker_free().
 */
#ifndef CRIPROXY_WORKER_H
#define CRIPROXY_WORKER_H

#include "client/trace.h"
#include "conf/config.h"
#include "context/capture.h"
#include "engine/inspect.h"
#include "net/loop.h"
#include "ops/metrics.h"

#include <stdbool.h>
#include <time.h>

struct loop;
struct system_names;
struct credentials;
struct peer_book;
struct worker;

struct worker_options {
    unsigned index; /* of so many: */
    unsigned count;
    const struct config *config;         /* borrowed until worker_config() is another one */
    struct system_names *system_names;   /* borrowed; freed after the worker */
    struct changes *changes;             /* borrowed; freed after the worker; NULL: the only one */
    struct switchboard *switchboard;     /* likewise */
    struct origin_labels *origin_labels; /* borrowed; freed after the worker */
    struct peer_book *peers;             /* borrowed; NULL: there are no other replicas */
    struct credentials *credentials;     /* borrowed as the config is; NULL: none */
    bool trace;
    int event_fd; /* an eventfd, written to when worker_state() has become more */
};

/** @return 0 or -errno. Free with worker_free(). */
int worker_new(const struct worker_options *options, struct worker **ret_worker);

/** Frees the worker; takes NULL. The thread must have been joined. */
void worker_free(struct worker *worker);

/**
 * Listen on a socket that the main thread has bound. Before worker_start() at once;
 * afterwards soon, and what goes wrong then is in the log.
 *
 * @param transport of the listener.
 * @param bound where the socket is.
 * @param fd taken over in any case.
 * @return 0 or -errno
 */
int worker_listen(struct worker *worker, enum transport transport, const struct address *bound,
                  int fd);

/** Stop listening there, soon, as listen_retire(). @return 0 or -errno */
int worker_unlisten(struct worker *worker, enum transport transport, const struct address *bound);

/** Start the thread. @return 0 or -errno */
int worker_start(struct worker *worker);

/**
 * Ask its loop for a sign of life.
 *
 * @return whether the one asked for before has come.
 */
bool worker_beat(struct worker *worker);

/** Has @p task called in the worker's thread, soon. @return 0 or -errno, as loop_post() */
int worker_post(struct worker *worker, loop_task_fn task, void *context);

/* Lines that a piece of a list may take. */
#define WORKER_ASK_BYTES 32768u

/*
 * A question to a worker: made by the main thread on the heap, the worker's until
 * on_answer gives it back in the main thread's loop, to be asked again or freed. It is
 * freed unanswered where that loop has ended.
 */
struct worker_ask {
    struct loop_task task; /* on its way to the worker, and back */
    inspect_fn *run;
    void (*on_answer)(struct worker_ask *ask);
    void *context;
    uint64_t id; /* the asker's */
    struct loop *answer_to;
    struct worker *worker;
    uint64_t cursor;
    bool is_done; /* with the worker that was asked */
    bool is_of_one_worker;
    char limit[128]; /* told at the end of the list; "": nothing is */
    char argument[512];
    struct json_writer out;
    char buffer[WORKER_ASK_BYTES];
};

/** @return 0, or -ESHUTDOWN and it is still the caller's */
int worker_ask(struct worker *worker, struct worker_ask *ask);

/* A block of the trace on its way to the main thread, on the heap: freed by its reader. */
struct worker_block {
    void (*on_block)(struct worker_block *block);
    void *context;
    uint64_t id;        /* the tracer's */
    uint64_t lost;      /* requests before it that the reader wanted and did not get */
    bool is_lost_alone; /* no request: all below this is empty */
    struct worker *worker;
    char client[128], target[512], reason[64], identity[IDENTITY_TEXT_MAX], code[8];
    char method[16], form[32], rule[128], route[128], cache[16]; /* "": not known */
    char origin[ADDRESS_TEXT_MAX];                               /* or "" */
    uint64_t exchange, us;
    size_t text_len;
    char text[]; /* lines, NUL-terminated */
};

/* A reader of the live trace. At most WORKER_BLOCKS_MAX blocks are on their way; others are left
 * out. */
struct worker_tap {
    uint64_t id;
    char client[TRACE_FILTER_MAX], target[TRACE_FILTER_MAX];   /* as in struct trace_tap, */
    char reason[TRACE_FILTER_MAX], identity[TRACE_FILTER_MAX]; /* all four, and the next */
    uint32_t per_s;
    struct loop *answer_to;
    void (*on_block)(struct worker_block *block); /* in that loop */
    void *context;
};

#define WORKER_BLOCKS_MAX 64u

/** From soon on. @return 0 or -errno */
int worker_tap(struct worker *worker, const struct worker_tap *tap);

/**
 * Ends the tap @p id, soon: blocks that are on their way still arrive. Without memory it goes on,
 * and its reader drops the blocks.
 */
void worker_untap(struct worker *worker, uint64_t id);

struct worker_backlog;

/*
 * Messages for criproxyctl capture, as lines of JSON: those of a turn on their way to the main
 * thread, which owns them then. Without a line: some were left out, see worker_lines_lost().
 */
struct worker_lines {
    void (*on_lines)(struct worker_lines *lines);
    void *context;
    struct worker_lines *next; /* the owner's */
    uint64_t id;               /* the reader's */
    uint32_t count;            /* of lines */
    size_t bytes;              /* of the backlog that they are in */
    struct worker_backlog *backlog;
    struct json_writer out;
    char buffer[];
};

/* Which messages; "": any. */
struct worker_capture {
    uint64_t id;
    char client[TRACE_FILTER_MAX], origin[TRACE_FILTER_MAX]; /* its address begins so */
    bool has_clients, has_origins;                           /* the sides */
    bool has_answers;              /* those of origin servers, in place of messages, */
    char target[TRACE_FILTER_MAX]; /* to requests whose target has that text */
    struct loop *answer_to;
    void (*on_lines)(struct worker_lines *lines); /* in that loop */
    void *context;
};

/*
 * Bytes that wait for one reader in the main thread and on the way to it, of each worker, exceeded
 * by less than a turn's: messages are left out then. That thread may be late by seconds, where a
 * machine is busy or it reads a configuration, and no reader is slow.
 */
#define WORKER_LINES_BYTES (4u << 20)

/** From soon on. @return 0 or -errno */
int worker_capture(struct worker *worker, const struct worker_capture *capture);

/** Ends it, soon, as worker_untap(). */
void worker_uncapture(struct worker *worker, uint64_t id);

/** How many were left out before these lines and are not told of yet; the caller will. */
uint64_t worker_lines_lost(struct worker_lines *lines);

/** The lines have been dealt with: frees them, before the worker is freed. */
void worker_lines_free(struct worker_lines *lines);

/** The block has been dealt with: frees it. */
void worker_block_free(struct worker_block *block);

/* What the main thread tells a worker, which does it soon. */
enum worker_order {
    WORKER_PAUSE,  /* refuse newcomers, until WORKER_RESUME */
    WORKER_RESUME, /* serve newcomers again; not after WORKER_DRAIN */
    WORKER_DRAIN,  /* refuse newcomers for good, and tell by WORKER_DRAINED when no work is left */
    WORKER_HOLD,   /* receive no more datagrams of clients, and tell by WORKER_QUIET */
};

/** @return 0 or -errno: -ENOMEM, or the loop has ended. */
int worker_tell(struct worker *worker, enum worker_order order);

/* What the eventfd tells of. */
enum {
    WORKER_DRAINED = 1u, /* what was in flight at WORKER_DRAIN has ended */
    WORKER_QUIET = 2u,   /* nothing is in flight since WORKER_HOLD */
    WORKER_FAILED = 4u,  /* the loop has ended by itself, which is an error */
};

/** @return the sum of those that hold now */
unsigned worker_state(const struct worker *worker);

/*
 * Another process is to take over: WORKER_HOLD, and when all workers are quiet, or it takes too
 * long, worker_park() and listen_hand_over(). From anywhere on the way worker_go_on() leads back.
 */

/**
 * Stop the thread between two tasks, with all sent that was queued.
 *
 * @param deadline by CLOCK_MONOTONIC
 * @return whether it has stopped; worker_go_on() is needed in any case
 */
bool worker_park(struct worker *worker, const struct timespec *deadline);

/**
 * What it has of clients, for listen_hand_over() and its like (client/listen.h): while it is
 * parked, was joined, or has not been started. Borrowed.
 */
struct client_side *worker_clients(struct worker *worker);

/** What was appended is destroyed: the worker thaws its sessions and goes on. Cannot fail. */
void worker_go_on(struct worker *worker);

/** Has the thread leave its loop, soon; tries again without memory. worker_join() waits for it. */
void worker_stop(struct worker *worker);

/** Wait for the thread; nothing where it was never started. */
void worker_join(struct worker *worker);

/**
 * Go over to another snapshot, soon, and to the credentials that belong to it
 * (NULL: keep those there are). @return 0 or -errno
 */
int worker_set_config(struct worker *worker, const struct config *config,
                      struct credentials *credentials);

/**
 * Has the worker say when all that it was told before is done: worker_wait() waits for that.
 * Without memory the worker counts as not asked.
 */
void worker_fence(struct worker *worker);

/**
 * Wait for what worker_fence() asked of it, until @p deadline by CLOCK_MONOTONIC.
 *
 * @return whether it is done; true where the worker was not asked, or is not running.
 */
bool worker_wait(struct worker *worker, const struct timespec *deadline);

/**
 * The snapshot in use, owned by the server. If it is the newest, no older one is in use any more.
 */
const struct config *worker_config(const struct worker *worker);

/** The counters, borrowed; other threads read them with relaxed loads. */
const struct metrics *worker_metrics(const struct worker *worker);

/** A task for worker_post(), of a worker with peers, which it gets: the first one tells the others
 * at once which sessions were taken over. */
void worker_tell_peers(void *context);

#endif
