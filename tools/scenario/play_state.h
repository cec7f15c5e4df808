/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the player share: a scenario that is being played. */
#ifndef SCENARIO_PLAY_STATE_H
#define SCENARIO_PLAY_STATE_H

#include "play.h"

/* A request and what belongs to it, on the side of the actor that sent or got it. */
struct exchange {
    const char *label;
    struct actor *owner;
    bool is_sent; /* by the owner, which waits for answers; else it got the request */
    bool is_acknowledged, is_answered;
    enum wire_type type;
    uint16_t mid;
    struct wire_bytes token;
    struct play_peer peer;            /* where a server's answers go */
    struct wire_bytes sent, received; /* the last of each */
};

struct rung {
    struct rung *next;
    unsigned long long at_ms;
    const struct actor *actor;
    bool is_sent;
    const char *text;
};

struct play {
    struct pool *pool;
    const struct stage *stage;
    struct play_result *result;
    const struct script_line *line;
    struct captures captures;
    bool is_started;
    size_t setting_count;
    char *settings[PLAY_SETTINGS_MAX];
    const struct script_line *setting_lines[PLAY_SETTINGS_MAX]; /* where each stands */
    size_t actor_count, exchange_count;
    struct actor *actors[PLAY_ACTORS_MAX];
    struct exchange *exchanges[PLAY_EXCHANGES_MAX];
    struct rung *first_rung; /* in the order of time */
    size_t rung_count;
    struct wire_message *message; /* the one that is looked at */
    struct spec *spec;
    uint8_t *buffer; /* WIRE_MESSAGE_MAX */
};

/* Whether it gets requests and answers them. */
static inline bool play_serves(const struct actor *actor)
{
    return actor->role != ACTOR_CLIENT || actor->is_device;
}

static inline bool is_request(uint8_t code)
{
    return code != 0 && code >> 5 == 0;
}

static inline bool is_response(uint8_t code)
{
    return code >> 5 >= 2 && code >> 5 <= 5;
}

/** Notes why the line failed, unless something failed before; @return false. */
bool play_fail(struct play *play, const char *got, const char *why);

/** Fails for @p fault; NULL is none. */
bool play_check(struct play *play, const char *fault);

bool play_is_datagram(const struct actor *actor);

/** A copy that stays until the scenario is over. */
struct wire_bytes play_keep(struct play *play, struct wire_bytes bytes);

/** A line of the ladder, of this moment. */
void play_add_rung(struct play *play, const struct actor *actor, bool is_sent, const char *text);

/** A line of the ladder: what came to @p actor @p from there, when it did. */
void play_add_arrival(struct play *play, const struct actor *actor, const struct play_peer *from,
                      const char *text);

/** The actor is on the stage; starts the stage for the first one. */
bool play_open(struct play *play, struct actor *actor);

/** Its connection or session is open, with CSMs exchanged if @p with_csm. */
bool play_connect(struct play *play, struct actor *actor, bool with_csm);

/** A new exchange; NULL where there are too many. */
struct exchange *exchange_add(struct play *play, struct actor *owner, const char *label);

/**
 * The last exchange of that name; of those that @p actor began if @p is_sent, else of what any
 * server got, for members answer for a group. NULL: there is none.
 */
struct exchange *exchange_labelled(struct play *play, const struct actor *actor, const char *label,
                                   bool is_sent);

/** Without a label: the oldest request that has no answer, else the last one. */
struct exchange *exchange_meant(struct play *play, const struct actor *actor, const char *label,
                                bool is_sent);

/** What @p label means for a message that is repeated. */
struct exchange *exchange_of_label(struct play *play, const struct actor *actor, const char *label);

/** Send bytes, a message, an Empty message; @p to zeroed: to the proxy. */
bool play_send_bytes(struct play *play, struct actor *actor, const struct play_peer *to,
                     struct wire_bytes bytes, bool is_slow);
bool play_send_message(struct play *play, struct actor *actor, const struct play_peer *to,
                       const struct wire_message *message, bool is_slow);
bool play_send_empty(struct play *play, struct actor *actor, const struct play_peer *to,
                     enum wire_type type, uint16_t mid);

/** The message of play->spec is sent. */
bool play_send(struct play *play, struct actor *actor);

/** The message of play->spec is the next that arrives. */
bool play_receive(struct play *play, struct actor *actor);

/** The next whole message of @p actor, in play->buffer until the next call. */
enum arrival play_next(struct play *play, struct actor *actor, unsigned long long wait_ms,
                       struct wire_bytes *ret_bytes, struct play_peer *ret_from);

/** @p bytes in the words of a scenario; play->message has what could be read of them. */
const char *play_show(struct play *play, const struct actor *actor, struct wire_bytes bytes);

#endif
