/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Plays a scenario (docs/SCENARIOS.md) on a stage: the engine on a network in virtual time
 * (tests/scenario), or any proxy over sockets (tools/coapcheck). What the lines mean is decided
 * here; a stage only carries bytes, lets time pass, and knows what is special to it.
 */
#ifndef SCENARIO_PLAY_H
#define SCENARIO_PLAY_H

#include "script.h"
#include "spec.h"

enum {
    PLAY_ACTORS_MAX = 2048,
    PLAY_EXCHANGES_MAX = 8192,
    PLAY_SETTINGS_MAX = 48,
};

enum actor_role {
    ACTOR_CLIENT,
    ACTOR_SERVER, /* an origin server, a parent proxy */
    ACTOR_GROUP,  /* what is sent to a group's address; its members are servers */
};

enum actor_way {
    WAY_DEFAULT, /* the stage's: UDP unless it says otherwise */
    WAY_UDP,
    WAY_DTLS,
    WAY_TCP,
    WAY_TLS,
    WAY_WS,
    WAY_WSS,
    WAY_HTTP,    /* a client that speaks HTTP: its messages are the stage's */
    WAY_WEB,     /* an HTTP server, as well */
    WAY_SESSION, /* what the engine sends over a session upstream */
};

/* Where a datagram came from: the stage's business. With raw zeroed: the proxy. */
struct play_peer {
    _Alignas(8) unsigned char raw[128];
    unsigned long long at_ms; /* when it came, where the stage knows; 0: when it was taken */
};

struct actor {
    const char *name;
    enum actor_role role;
    enum actor_way way;
    const char *address;         /* as written, or NULL */
    const char *identity, *host; /* of a key, and in the handshake; or NULL */
    const char *certificate;     /* name in it, or NULL */
    const char *session;         /* WAY_SESSION: where it goes, in words */
    void *end;                   /* the stage's, NULL before the actor is there */
    bool is_device;              /* a client that answers requests, too */
    unsigned worker;             /* that the kernel gives it to, from 1; 0: as the stage likes */
    bool is_connected, ignores_rest, ignores_repetitions;
    uint16_t next_mid, last_sent_mid, last_received_mid;
    uint16_t next_token;
    struct wire_bytes last_sent, last_received;
    struct play_peer last_to;
    uint8_t *input; /* of a stream, before a message is whole */
    size_t input_len;
};

enum arrival {
    ARRIVAL_MESSAGE,
    ARRIVAL_NOTHING,
    ARRIVAL_CLOSED,
};

/* What a stage gives as an error is text that it or the pool owns; NULL: none. */
struct stage {
    void *context;
    bool is_loose; /* options that are not written and retransmissions are passed over */
    enum spec_form form;
    unsigned long long patience_ms; /* for "<" without a time */
    /* An error about one of the settings, from 0 on, sets @p ret_at to it; else to @p count. */
    const char *(*start)(void *context, char *const *settings, size_t count, size_t *ret_at);
    const char *(*reload)(void *context, char *const *settings, size_t count);
    const char *(*open)(void *context, struct actor *actor);    /* the actor is there */
    const char *(*connect)(void *context, struct actor *actor); /* streams and DTLS */
    const char *(*send)(void *context, struct actor *actor, const struct play_peer *to,
                        struct wire_bytes bytes, bool is_slow);
    enum arrival (*receive)(void *context, struct actor *actor, unsigned long long wait_ms,
                            uint8_t *buffer, size_t capacity, size_t *ret_len,
                            struct play_peer *ret_from);
    void (*wait)(void *context, unsigned long long ms);
    unsigned long long (*now_ms)(void *context);
    /* A line of the stage's own; @p actor is NULL where it begins with none. */
    const char *(*act)(void *context, struct actor *actor, char **words, size_t count);
    /* Host and port by which the proxy reaches a server; false: as written in the scenario. */
    bool (*authority)(void *context, struct actor *actor, char host[static 64], unsigned *ret_port);
};

struct play_result {
    bool has_passed;
    struct pool pool; /* of the texts */
    int line;
    const char *text;         /* of the line */
    const char *got, *why;    /* "" where there is nothing to say */
    const char *conversation; /* a ladder of all messages up to there */
    struct play *play;        /* of which play_conversation() makes one */
};

/**
 * Play @p scenario; @p stage->start is called before the first line that is not a setting.
 *
 * @param ret_result where the stage does not come back, it has the line that was played last.
 *                   End with play_result_clear().
 */
void play_scenario(const struct script_scenario *scenario, const struct stage *stage,
                   struct play_result *ret_result);

void play_result_clear(struct play_result *result);

/** A ladder of all messages so far, also where nothing has failed; in the pool of @p result. */
const char *play_conversation(struct play_result *result);

/** The framing of an actor's messages; of WAY_DEFAULT that of a datagram. */
enum wire_framing play_framing(enum actor_way way);

#endif
