/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The inside of a running load, shared by load.c (loop and phases), request.c (requests) and
 * answer.c (answers).
 */
#ifndef COAPBENCH_LOAD_STATE_H
#define COAPBENCH_LOAD_STATE_H

#include "args.h"
#include "link.h"
#include "load.h"
#include "pending.h"
#include "random.h"
#include "wheel.h"

enum {
    LOAD_RECENT_SETS = 1 << 17, /* sets of ended requests that a late answer is still known by */
    LOAD_RECENT_WAYS = 8,
    LOAD_ACKED = 1 << 16, /* separate answers that are acknowledged again */
    LOAD_SEGMENT_MAX = 24,
};

struct load_client {
    uint32_t endpoint;
    uint32_t ids_used;
    uint16_t next_mid;
    bool opened;
};

/* The last requests that have ended whose token keys fall into this set, in a ring. */
struct load_recent {
    uint64_t token_keys[LOAD_RECENT_WAYS];
    uint32_t clients[LOAD_RECENT_WAYS];
    uint32_t count; /* ever put here */
};

struct load {
    const struct load_options *options;
    struct load_result result;
    struct link *link;
    struct pending_table pending;
    struct wheel wheel;
    struct random random;
    struct load_client *clients;
    struct load_recent *recent;
    uint64_t *acked; /* keys of message ids, 0: none */
    uint32_t in_flight_cap, in_flight;
    uint64_t taken_count; /* messages that were received before the stop signal */
    uint32_t free_slot;
    uint32_t next_client;
    uint64_t now_ns, start_ns, warm_ns, stop_ns;
    uint64_t due_count; /* open loop: requests that were due so far */
    uint64_t due_ns;    /* open loop: when the one being sent was due */
    bool measuring, sending;
    int error; /* of a callback; ends the loop */
};

/* The texts a request is made of, and the resource that points to them. */
struct wording {
    struct resource resource;
    char number[LOAD_SEGMENT_MAX], query[LOAD_SEGMENT_MAX];
    uint8_t body[LOAD_BODY_MAX];
    struct view payload;
};

/* Path, query and payload of a request: the same each time they are asked for. */
void request_word(const struct load_options *options, const struct pending *request,
                  struct wording *ret_wording);

/** May there be another request? */
bool request_is_wanted(const struct load *load);

/** Send a new request from slot @p number, which is idle; nothing when none is wanted. */
void request_ask(struct load *load, uint32_t number);

/** Send the request of slot @p number once more. */
void request_transmit(struct load *load, const struct pending *request);

/** The message callback of the link: struct load is the context. */
void answer_on_message(void *context, uint32_t client, uint32_t endpoint, const uint8_t *data,
                       size_t len);

/** The request of slot @p number has ended; its slot may ask again. */
void load_end_request(struct load *load, uint32_t number, enum load_end how);

void load_set_timer(struct load *load, uint32_t number, uint64_t delay_ns);

#endif
