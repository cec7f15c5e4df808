/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A proxy on the fake network, as Appendix B of the conformance list has it: it
 * listens on 192.0.2.9:5683; the name h is 192.0.2.5; a client and an origin
 * server are there to be scripted.
 */
#ifndef CRIPROXY_REPLAY_H
#define CRIPROXY_REPLAY_H

#include "support/test.h"

#include "support/fake_net.h"

#include "engine/engine.h"

#define PROXY "192.0.2.9:5683"

/** The seed of what follows replay_start(); 1 unless a program sets another one. */
extern uint64_t replay_seed;

/* Workers at most: of a proxy that has several the others listen where a scenario says. */
#define REPLAY_WORKERS_MAX 4

/* A worker after the first. */
struct replay_worker {
    struct loop *loop;
    struct resolver *resolver;
    struct engine *engine;
};

struct replay {
    struct config *config;
    struct loop *loop;
    struct resolver *resolver;
    struct engine *engine;
    struct fake_peer *client; /* 192.0.2.7:40001 */
    struct fake_peer *origin; /* 192.0.2.5:5683 */
    unsigned more_count;      /* further workers: */
    struct replay_worker more[REPLAY_WORKERS_MAX - 1];
    struct switchboard *switchboard; /* of all; NULL where there is one, as is */
    struct changes *changes;         /* this */
    uint64_t passed;                 /* requests of others that were answered (passers.h) */
};

/**
 * Start a proxy with @p settings: "SECTION.KEY=VALUE" strings up to a NULL, laid
 * over hop-limit = no, without cache and coalescing; NULL for none. Unless one of them is of
 * the section policy, all clients are served and all ports are open; unless one sets
 * policy.echo-..., all addresses are believed.
 */
void replay_start(struct replay *replay, const char *const *settings);

/**
 * Whether a proxy can be started with @p settings, as for replay_start(), or take them over.
 *
 * @return NULL, or the first thing that is wrong: static, until the next call.
 */
const char *replay_settings_fault(const char *const *settings);

/** The same with so many workers, as threads have them: each has its turn after the other. */
void replay_start_workers(struct replay *replay, const char *const *settings, unsigned count);

/** The engine of the worker @p number, from 1. */
struct engine *replay_worker(const struct replay *replay, unsigned number);

/** That worker serves UDP at @p address as well: a client chooses its worker by the address. */
void replay_listen(const struct replay *replay, unsigned number, const char *address);

/** As by a reload: @p config, which the replay then owns, instead of what it has. */
void replay_take_config(struct replay *replay, struct config *config);

/** As by a reload, with settings as for replay_start(). */
void replay_reload(struct replay *replay, const char *const *settings);

/** Checks that nothing is left in flight, in any table, list or timer, and nothing leaks. */
void replay_stop(struct replay *replay);

/** Ends with requests under way: nothing is looked at. */
void replay_cut(struct replay *replay);

/** A metric's value now. */
#define replay_metric(replay, name) metric_get(&engine_metrics((replay)->engine)->name)

/** How many requests ended for @p reason. */
uint64_t replay_ended(const struct replay *replay, enum reason reason);

/** The client sends @p hex to the proxy. */
void replay_ask(struct replay *replay, const char *hex);

/** The next datagram to the client is an answer with @p head ("61 84 0001 aa") whose
 * payload contains @p words; it may have options. */
void replay_expect_words(struct replay *replay, const char *head, const char *words);

#endif
