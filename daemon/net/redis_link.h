/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection to a server that speaks RESP (Redis, Valkey), and a new one when it has ended:
 * commands go out, and each reply comes to a function of the command's. What is asked, and why, is
 * net/shared_store.c's.
 *
 * hiredis writes commands and reads replies, on a bufferevent of ours: its own asynchronous
 * contexts have no limit for a reply, and assert things about what a server says. Here a reply that
 * is too long, too deep, too late or not asked for ends the connection.
 */
#ifndef CRIPROXY_REDIS_LINK_H
#define CRIPROXY_REDIS_LINK_H

#include "net/shared_store.h"

#include <hiredis/hiredis.h>

#define REDIS_BACK_OFF_MIN_MS 200u
#define REDIS_BACK_OFF_MAX_MS 5000u

/* hiredis 0.14 counts elements in int, 1.0 in size_t. */
#if HIREDIS_MAJOR >= 1
typedef size_t redis_count;
#else
typedef int redis_count;
#endif

#define REDIS_ELEMENTS_MAX 16u             /* of a reply that is an array */
#define REDIS_OUT_BYTES ((size_t)16 << 10) /* sent at the end of a turn */
#define REDIS_STRINGS_BYTES ((size_t)4 << 10)

/* The reply that is being read: nothing is allocated for one that is short. */
struct redis_reply {
    redisReply objects[1 + REDIS_ELEMENTS_MAX]; /* the first is the whole */
    redisReply *elements[REDIS_ELEMENTS_MAX];
    char *long_strings[1 + REDIS_ELEMENTS_MAX]; /* on the heap, of an object each; or NULL */
    unsigned count;
    bool is_taken; /* its command looks at it, even if that ends the connection */
    char strings[REDIS_STRINGS_BYTES]; /* each ends with NUL */
    size_t strings_len;
};

struct bufferevent;
struct event;
struct redis_link;
struct redis_tls;
struct resolve_question;
struct resolver;

/* A reply has come, in the order of the commands; it is freed after the call. */
typedef void (*redis_reply_fn)(struct redis_link *link, const redisReply *reply);

struct redis_link_calls {
    const char *name; /* for the log */
    /* A connection has been begun: what is sent now goes out first. */
    void (*begin)(struct redis_link *link);
    /* Of a link that is subscribed: what was not asked for. NULL: that is an error. */
    redis_reply_fn on_message;
    /* The connection has ended; link->changes has not been reset yet. No command may be sent. */
    void (*on_failed)(struct redis_link *link);
};

struct redis_expected {
    redis_reply_fn on_reply;
    uint32_t tag;
};

struct redis_link {
    struct loop *loop;
    struct resolver *resolver;
    struct redis_tls *tls; /* NULL: none */
    const unsigned *turn;  /* which address of the server's name is next: the owner's */
    const struct shared_store_options *options;
    const struct redis_link_calls *calls;
    void *owner;
    struct resolve_question *question; /* NULL: the name is not being resolved */
    struct bufferevent *bev;           /* NULL: there is no connection */
    struct event *readable;            /* of a link that is ready; NULL: bev reads */
    redisReader *reader;
    redisReplyObjectFunctions functions;
    struct redis_reply reply;
    char out[REDIS_OUT_BYTES]; /* what is sent at the end of the turn, over a link that is ready */
    size_t out_len;
    bool is_ready;
    bool has_complained;             /* of this outage, in the log */
    struct redis_expected *expected; /* of commands that have no reply yet: a ring */
    unsigned expected_first, expected_count;
    uint32_t tag;                   /* of the command whose reply is looked at */
    unsigned changes;               /* commands without a reply that tell of changes: the owner's */
    size_t partial_bytes;           /* that have come of a reply */
    uint64_t waiting_since_ms;      /* for the next reply */
    uint64_t next_try_ms, asked_ms; /* for the name */
    uint32_t back_off_ms;
    uint32_t serial; /* of connections: after a call another one means that it has ended */
};

/* The words of a command: borrowed. */
struct redis_words {
    int count;
    const char *at[8];
    size_t len[8];
};

/** One more, of @p len bytes that are borrowed until the command is sent. */
void redis_word(struct redis_words *words, const void *at, size_t len);

/** The same for text that ends with NUL; borrowed. */
void redis_text(struct redis_words *words, const char *text);

/** Room for replies; everything that is set in @p link stays. @return false without memory */
bool redis_link_init(struct redis_link *link);

/** Ends the connection without a word, and frees the room. Takes one that is all zero. */
void redis_link_clear(struct redis_link *link);

/** At the end of a turn: sends what the turn has asked for, in one write where the server takes it.
 */
void redis_link_flush(struct redis_link *link);

/** Begin a connection. One that fails at once tells on_failed(). */
void redis_link_connect(struct redis_link *link);

/** To be called several times a second: connects again, and ends what does not answer. */
void redis_link_tick(struct redis_link *link, uint64_t now_ms);

/** It is of use: says so in the log after an outage, and tries again after the shortest time (ms).
 */
void redis_link_is_up(struct redis_link *link);

/** End the connection and free what it has; the first time in an outage that is logged as @p why,
 * which is borrowed. */
void redis_link_fail(struct redis_link *link, const char *why);

/** Whether so many commands or bytes are on their way that no more should be. There has to be a
 * connection. */
bool redis_link_is_full(const struct redis_link *link);

/** @return false where it cannot be sent: the connection has ended then, if there was one */
bool redis_link_send(struct redis_link *link, redis_reply_fn on_reply, uint32_t tag,
                     struct redis_words *words);

/**
 * Send @p count commands that are there as bytes, in one write.
 *
 * @param text       borrowed for the call
 * @param on_replies of each command, which get no tag
 * @return false where they cannot be sent: the connection has ended then, if there was one
 */
bool redis_link_send_text(struct redis_link *link, struct bytes text,
                          const redis_reply_fn *on_replies, unsigned count);

/** The last command has another reply. @param tag comes back as link->tag; 0: none */
void redis_link_expect(struct redis_link *link, redis_reply_fn on_reply, uint32_t tag);

#endif
