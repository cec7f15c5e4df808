/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults of a lab: messages are lost, late, twice there, changed; requests are answered with a
 * code, with silence, or find their connection closed. They come from [fault NAME] and from
 * criproxyctl fault add. Without any, context->faults is NULL, and context->lab says so.
 *
 * A fault counts the messages of each way by itself. What becomes of the n-th one is a function of
 * the seed, the worker, the way and n: the same seed gives the same faults, and one probability
 * more or less moves no other.
 *
 * Who has a message asks for its fault, draws a plan, and has the plan carried out: the message is
 * delivered now, later, twice or never. Copies that wait are bounded (FAULTS_HELD_MAX).
 */
#ifndef CRIPROXY_FAULTS_H
#define CRIPROXY_FAULTS_H

#include "base/address.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct config;
struct config_fault;
struct context;
struct fault;
struct target;

/* Of the configuration, and as many again of criproxyctl. */
#define FAULTS_MAX 32u

/* Copies of messages that wait; one more is lost. */
#define FAULTS_HELD_MAX 4096u

/* How much later a reordered message comes. */
#define FAULTS_REORDER_MS 100u

enum fault_way {
    FAULT_FROM_CLIENT,
    FAULT_TO_CLIENT,
    FAULT_TO_ORIGIN,
    FAULT_FROM_ORIGIN,
    FAULT_WAYS,
};

enum fault_kind {
#define FAULT(name, words) FAULT_##name,
#include "context/faults.def"
#undef FAULT
    FAULT_KINDS,
};

#define FAULT_BIT(kind) (UINT32_C(1) << (kind))

/* What becomes of one message. */
struct fault_plan {
    uint32_t kinds; /* FAULT_BIT() of each that happens */
    uint8_t answer; /* FAULT_answered: the code */
    uint8_t number; /* of the fault, as in faults_name() */
    uint8_t copies; /* that are delivered: 0 to 2 */
    uint8_t flip;   /* FAULT_corrupted: this is mixed into */
    size_t flip_at; /* that byte */
    size_t len;     /* bytes that are delivered */
    uint64_t delay_ms[2];
};

/* Delivers a message: the datagram @p data, or what the caller has put there. Borrowed. */
typedef void fault_deliver_fn(void *owner, void *other, const struct udp_path *path,
                              const uint8_t *data, size_t len);

/* A message, borrowed for the call; copied where it waits. */
struct fault_parcel {
    void *owner; /* what deliver() needs; faults_forget() tells that it goes */
    void *other; /* handed to deliver(), too */
    fault_deliver_fn *deliver;
    struct udp_path path;
    const uint8_t *data;
    size_t len;
};

/**
 * Uses the faults of context->config from now on, counted from the begin. Those of criproxyctl
 * stay while lab.enabled does. Without memory, which is logged, there are none.
 */
void faults_configure(struct context *context);

/**
 * Adds a fault, in place of one of the same name that was added before.
 *
 * @param config has it as its only one; taken over with 0, else the caller's.
 * @return 0; -ENOMEM; -ENOSPC: FAULTS_MAX are there; -EEXIST: the configuration has that name.
 */
int faults_add(struct context *context, struct config *config);

/** Removes those of criproxyctl named @p name, or all with "". @return how many there were */
uint32_t faults_clear(struct context *context, const char *name);

/** Frees all; what waits is lost. Takes a context without. */
void faults_free(struct context *context);

/** What is delivered by or to @p owner is dropped, as it goes. Takes a context without faults. */
void faults_forget(struct context *context, const void *owner);

/**
 * The first fault for messages with the client at @p client, or NULL. Borrowed until the
 * configuration or the faults change.
 */
struct fault *faults_of_client(const struct context *context, const struct address *client);

/** The first for messages with the origin servers of @p target, on behalf of @p client; or NULL. */
struct fault *faults_of_target(const struct context *context, const struct target *target,
                               const struct address *client);

/** The fault with that number, or NULL where it is gone. */
struct fault *faults_by_number(const struct context *context, unsigned number);

/** Its number: how faults_name() and events know it. @p fault is of the context; cannot fail. */
unsigned fault_number(const struct context *context, const struct fault *fault);

/** The name of the fault with that number; "-" where it is gone. Borrowed. */
const char *faults_name(const struct context *context, unsigned number);

/** What becomes of the next message of @p len bytes on that way; counted. Cannot fail. */
struct fault_plan fault_draw_message(struct context *context, struct fault *fault,
                                     enum fault_way way, size_t len);

/* What may become of a request, besides a code and silence. */
enum {
    FAULT_CLOSES = 1, /* there is a connection */
    FAULT_WAITS = 2,  /* it may be late, for both ways at once: no datagrams of it are */
};

/**
 * What becomes of the next request: silenced, closed, or answered, or delayed; counted. An answer
 * may be late, too. A plan without kinds: it goes on.
 *
 * @param may a sum of the above.
 */
struct fault_plan fault_draw_request(struct context *context, struct fault *fault, unsigned may);

/**
 * Delivers @p parcel, borrowed for the call, as the plan of fault_draw_message() has it; may call
 * back at once. A copy that has no room or memory to wait in is lost, and counted.
 *
 * @return whether a copy waits
 */
bool fault_carry(struct context *context, const struct fault_plan *plan,
                 const struct fault_parcel *parcel);

/** "lost, delayed" into @p text, the caller's, of @p capacity bytes, cut to fit; returns it. */
const char *fault_kinds_format(uint32_t kinds, char *text, size_t capacity);

/* A fault as criproxyctl fault list shows it. */
struct fault_view {
    const struct config_fault *rule; /* NULL: there is none with this number */
    bool is_added;                   /* by criproxyctl */
    uint64_t seed;
    uint64_t messages[FAULT_WAYS], requests, counts[FAULT_KINDS];
};

/** The fault with that number; its rule is borrowed as a fault is, and NULL where there is none. */
struct fault_view faults_look(const struct context *context, unsigned number);

#endif
