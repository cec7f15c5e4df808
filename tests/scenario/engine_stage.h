/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine as a stage for scenarios: on the fake network, in virtual time, with the clients and
 * servers at the addresses that docs/SCENARIOS.md names.
 */
#ifndef CRIPROXY_ENGINE_STAGE_H
#define CRIPROXY_ENGINE_STAGE_H

#include "replay/replay.h"

#include "play.h"

/* What stands behind an actor: one of these. */
struct endpoint {
    struct endpoint *next; /* in engine_stage.endpoints */
    const char *name;      /* of its actor */
    struct fake_peer *peer;
    struct fake_stream *stream;
    struct dtls_session *session;
    struct fake_datagram last; /* that came to the peer */
    char address[ADDRESS_TEXT_MAX];
    const char *moved_to; /* whence a session sends now, by its connection ID; NULL: address */
    bool has_left;        /* what is sent to it gets lost */
    unsigned worker;      /* that it is with, from 1 */
    bool is_elsewhere;    /* the proxy is used at this address of its own, not at the first */
    struct address proxy;
};

enum {
    WEB_LABELS_MAX = 16,
    TRACED_MAX = 32,
};

struct engine_stage {
    struct replay replay;
    bool is_started, has_dtls, has_streams, has_passers;
    unsigned workers;                   /* 0: one */
    bool is_at_least;                   /* of a counter that is looked at: it may be more */
    struct endpoint *endpoints;         /* of all actors */
    bool is_listening[WAY_SESSION + 1]; /* by enum actor_way */
    struct pool pool;
    unsigned client_count;
    size_t setting_count;
    char *settings[PLAY_SETTINGS_MAX];
    size_t web_label_count; /* of requests to HTTP servers: "@name", and the last ones' numbers */
    const char *web_labels[WEB_LABELS_MAX];
    uint64_t web_numbers[WEB_LABELS_MAX];
    bool is_traced;
    size_t traced_count, traced_taken;
    const char *traced[TRACED_MAX]; /* first lines of blocks of a live trace */
};

/** Set: all scenarios have two workers, and devices are with the second where they do not say. */
extern bool engine_stage_has_workers;

/** Fills @p ret_stage, for which @p engine stays in place; ends with engine_stage_stop(). */
void engine_stage_init(struct engine_stage *engine, struct stage *ret_stage);

/**
 * Ends what a scenario may leave, observations and registrations. What else is left is a fault of
 * it, or of the proxy.
 *
 * @return NULL: nothing; else what, in words of the stage's, until engine_stage_stop().
 */
const char *engine_stage_left(struct engine_stage *engine);

/** Checks that nothing is left, in any table, as replay_stop() does. */
void engine_stage_stop(struct engine_stage *engine);

/**
 * Clients with connections of @p way ("wss") come to @p address, instead of the proxy's own.
 *
 * @return NULL, or what is wrong.
 */
const char *engine_stage_listen(struct engine_stage *engine, const char *way,
                                const struct address *address);

/** Its DTLS session is open, with the identity that the scenario gives it. */
void engine_stage_establish(const struct actor *actor);

/** Whether the proxy does not let that client connect. */
bool engine_stage_is_refused(const struct actor *actor);

/** Lines of actors that speak HTTP: messages, and what becomes of requests to a server. */
const char *engine_web_act(struct engine_stage *engine, struct actor *actor, char **words,
                           size_t count);

/** Before a proxy starts, and after it has stopped: of sessions that last as long. */
void engine_session_begin(void);
void engine_session_end(void);

/**
 * A line about a session upstream (@p actor), or about all of them (NULL).
 *
 * @return NULL; what is wrong; or "" where it is not for this function.
 */
const char *engine_session_act(const struct actor *actor, char **words, size_t count);

/**
 * Lines about what the proxy tells: "trace [FILTER]...", "traced FIRST LINE OF ITS NEXT BLOCK",
 * "listed DEVICE MEMBER=VALUE ...".
 *
 * @return NULL; what is wrong; or "" where it is not for this function.
 */
const char *engine_told_act(struct engine_stage *engine, char **words, size_t count);

/** The lines that only this stage knows: names, counters, the network's faults. */
const char *engine_stage_act(void *context, struct actor *actor, char **words, size_t count);

#endif
