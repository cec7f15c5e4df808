/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A server that keeps answers for several replicas: Redis or Valkey, by hiredis, on the loop of a
 * worker. What is kept there, and whether it is believed, is fetch/shared.h's; here are the
 * keys, and what goes over two connections (net/redis_link.h).
 *
 * Keys, with PREFIX and the server's own number, which changes when it is started, so that nothing
 * is found that was there before (changes of targets since would be unknown):
 *
 *   PREFIX:RUN:v2:ENTRY   an answer, as long as it is fresh
 *   PREFIX:RUN:g:TARGET   the generation of a target: random bytes, which a change deletes
 *   PREFIX:RUN:e          the same for all targets: deleted where changes could not be told
 *
 * An answer is kept with the generations that were there before it was asked for, and counts only
 * while both are there still: a server that evicts, forgets or loses them makes it useless, never
 * wrong. Answer and generations are read by one command.
 *
 * The channel PREFIX:changes tells all replicas which targets have changed. It is up while the
 * beats that are sent through the server come back; each worker has one of its own. On the channel
 * of its beats a worker is also told which of its changes others know of.
 *
 * The server may be slow, gone, full, or hostile: nothing waits for it here, replies have limits,
 * and whatever is not understood ends the connection, which is made anew after a while.
 */
#ifndef CRIPROXY_SHARED_STORE_H
#define CRIPROXY_SHARED_STORE_H

#include "base/address.h"
#include "coap/message.h"

/* Bytes of the names of entries and of targets: digests. */
#define SHARED_NAME_LEN 32u
#define SHARED_TARGET_LEN 16u

/* Bytes by which a store is told apart from others, for confirmations. */
#define SHARED_ID_LEN 8u

/* Bytes of both generations. */
#define SHARED_GENERATION_LEN 16u

struct loop;
struct resolver;
struct shared_keys;
struct shared_store;

struct shared_store_options {
    const char *path;                /* of a Unix socket; NULL: */
    struct address address;          /* with the port; only the port where there is a name: */
    const char *host;                /* NULL: none. Resolved anew for each connection */
    const char *const *name_servers; /* "ADDRESS:PORT" each; none: those of resolv.conf */
    size_t name_server_count;
    bool may_ask_system; /* for names that DNS does not know */
    bool has_tls;
    const char *server_name; /* that its certificate has to have */
    /* PEM, read once; NULL: the system's authorities, and no certificate. */
    const char *ca_file, *certificate_file, *key_file;
    uint32_t database;
    const char *user, *password; /* NULL: none; a user has a password */
    const char *prefix;
    size_t value_bytes_max;   /* of an answer, as it is kept; longer ones end the connection */
    struct bytes all_changed; /* what is told when all targets count as changed; borrowed */
    const struct shared_keys *keys; /* of beats and confirmations; borrowed, may be derived anew */
};

/* What the server has; value and generation are read at one moment. */
struct shared_found {
    struct bytes value;      /* data NULL: none */
    struct bytes generation; /* SHARED_GENERATION_LEN; empty: not known, nothing can be kept */
    uint64_t left_ms;        /* for so long the server keeps it, or the one that it has replaced */
};

/* Called in a turn of the loop. What is given is borrowed for the call. */
struct shared_store_handler {
    /* To a shared_store_look() that returned true, once or never. NULL: the server refuses. */
    void (*on_found)(void *context, uint64_t number, const struct shared_found *found);
    /* What another one has told with shared_store_change(); this one's own are heard, too. */
    void (*on_change)(void *context, struct bytes told);
    /* The channel is up, and what was told meanwhile is lost; or it is down. */
    void (*on_channel)(void *context, bool is_up);
    /* The server has done what shared_store_change() of this tag asked for. */
    void (*on_told)(void *context, uint32_t tag);
    /* All changes that could not be told, or may have been lost, count for it now. */
    void (*on_all_told)(void *context);
    /* The change with this number, its lower half, was passed on to so many stores, this one too.
     */
    void (*on_passed_on)(void *context, uint32_t number, uint64_t receivers);
    /* One of them has said by shared_store_confirm() that it knows of it; may come before that. */
    void (*on_confirmed)(void *context, uint64_t number);
    /* On this one's own channel of beats was something without the right MAC, or for another one.
     */
    void (*on_refused)(void *context);
};

/**
 * Connects, and again whenever a connection has ended.
 *
 * @param resolver borrowed as long as the store lives, for a server that has a name
 * @param options  the same; the files are read once
 * @return 0, -ENOMEM, -EINVAL where a file of certificates is no good, or -ENOTSUP where it is left
 * out (CRI_WITH_REDIS). Free with shared_store_free().
 */
int shared_store_new(struct loop *loop, struct resolver *resolver,
                     const struct shared_store_options *options,
                     const struct shared_store_handler *handler, void *context,
                     struct shared_store **ret_store);

/** Ends the connections; nothing is called any more. Takes NULL. */
void shared_store_free(struct shared_store *store);

/** At the end of a turn: sends what it has asked for. */
void shared_store_flush(struct shared_store *store);

/** Whether questions can be sent: false while connecting, and after an error until the next try. */
bool shared_store_is_ready(const struct shared_store *store);

/** Whether changes that others tell are heard: a beat has come within the last 3 seconds. */
bool shared_store_hears(const struct shared_store *store);

/**
 * Ask for an entry, and for the generations of its target, which are made where there are none.
 *
 * @param number comes back with the answer
 * @return false where it cannot be asked now
 */
bool shared_store_look(struct shared_store *store, const uint8_t entry[SHARED_NAME_LEN],
                       const uint8_t target[SHARED_TARGET_LEN], uint64_t number);

/** Keep @p value for @p ttl_ms. @return false where it cannot be sent now; it may get lost later */
bool shared_store_put(struct shared_store *store, const uint8_t entry[SHARED_NAME_LEN],
                      struct bytes value, uint64_t ttl_ms);

/**
 * A target has changed: what is kept of it counts no more, and others are told @p told. Where that
 * cannot be said to the server now, or gets lost, all targets count as changed as soon as it can
 * be reached again, and nothing is asked before.
 *
 * @param target NULL: it has no name here, so that all targets count as changed
 * @param tag    comes back by on_told, or on_all_told() is called later
 * @param number comes back by on_passed_on, if it can be said now; 0: no need
 */
void shared_store_change(struct shared_store *store, const uint8_t target[SHARED_TARGET_LEN],
                         struct bytes told, uint32_t tag, uint64_t number);

/** Random; borrowed from the store. */
const uint8_t *shared_store_id(const struct shared_store *store);

/** Say to the store with @p id that its change of this number is known here; not sent without a
 * connection, and may get lost. @param id borrowed for the call */
void shared_store_confirm(struct shared_store *store, const uint8_t id[SHARED_ID_LEN],
                          uint64_t number);

#endif
