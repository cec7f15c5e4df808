/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The clients and targets with most requests, for criproxyctl busiest and top: counted only as
 * long as a command asks for them. Without, side->busiest is NULL, and context->lab says so.
 */
#ifndef CRIPROXY_BUSIEST_H
#define CRIPROXY_BUSIEST_H

#include "ops/sketch.h"

struct client_side;
struct leg;
struct target;

/* For how long requests are counted after the last one has asked. */
#define BUSIEST_MS 60000u

struct busiest {
    struct sketch clients, targets;
    uint64_t until_ms;
};

/** Counts from now on. @return the counts, borrowed until the turn ends; NULL without memory */
const struct busiest *busiest_look(struct client_side *side);

/**
 * Counts a request that has ended, while side->busiest is not NULL; ends counting when its time is
 * over. Both are borrowed for the call.
 * @param target NULL: for the proxy itself, or not known.
 */
void busiest_count(struct client_side *side, const struct leg *leg, const struct target *target);

/** Ends counting. Takes a side without. */
void busiest_free(struct client_side *side);

#endif
