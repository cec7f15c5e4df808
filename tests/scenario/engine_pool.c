/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sessions in scenarios of the real pool ("session s1 number 1 -": the first that is opened), in
 * place of engine_sessions.c and of those of fake_client.h.
 */
#include "engine_stage.h"

#include "support/fake_client.h"
#include "support/scripted_sessions.h"

#include <stdlib.h>
#include <string.h>

static uint64_t chosen; /* the message that an answer is to */

void engine_session_begin(void)
{
    fake_sessions_start();
}

void engine_session_end(void)
{
    fake_session_expect_nothing();
    fake_sessions_stop();
}

static unsigned number_of_session(const char *session)
{
    return (unsigned)strtoul(session + strcspn(session, " "), NULL, 10);
}

uint64_t fake_client_take(const char *target, const uint8_t **ret_bytes, size_t *ret_len)
{
    return fake_session_take(number_of_session(target), ret_bytes, ret_len);
}

bool fake_client_choose(uint64_t number)
{
    chosen = number;
    return true;
}

void fake_client_answer_bytes(const uint8_t *bytes, size_t len)
{
    fake_session_answer_bytes(chosen, bytes, len);
}

void fake_client_fail(enum upstream_status status, bool was_sent, const char *why)
{
    (void)was_sent;
    (void)why;
    fake_session_end((unsigned)chosen, status); /* as engine_session_act() has chosen it */
}

bool fake_client_is_cancelled(void)
{
    return false;
}

/* servers accept|refuse|are-silent|are-short|fall-short [ADDRESS] */
static const char *act_servers(char **words, size_t count)
{
    static const char *const manners[] = {"accept", "are-silent", "refuse", "are-short",
                                          "fall-short"};
    for (unsigned i = 0; i < sizeof(manners) / sizeof(manners[0]); i++) {
        if (strcmp(words[1], manners[i]) == 0) {
            fake_session_manner(count > 2 ? words[2] : NULL, (enum fake_manner)i);
            return NULL;
        }
    }
    return "servers accept, are-silent, refuse, are-short or fall-short";
}

static const char *act_of_one(unsigned number, char **words, size_t count)
{
    const char *verb = words[0];
    if (strcmp(verb, "accepts") == 0) {
        fake_session_accept(number);
    } else if (strcmp(verb, "releases") == 0) {
        fake_session_release(number);
    } else if (strcmp(verb, "mute") == 0 || strcmp(verb, "heard") == 0) {
        fake_session_set_mute(number, *verb == 'm');
    } else if (strcmp(verb, "full") == 0 || strcmp(verb, "free") == 0) {
        fake_session_set_full(number, verb[1] == 'u');
    } else if (strcmp(verb, "pongs") == 0) {
        fake_session_pong(number);
    } else if (strcmp(verb, "pinged") == 0 && count == 2) {
        return fake_session_pings(number) == strtoul(words[1], NULL, 10)
                   ? NULL
                   : "another number of Pings";
    } else if (strcmp(verb, "closes") == 0) {
        fake_session_end(number, UPSTREAM_CLOSED);
    } else {
        chosen = number; /* fails HOW */
        return "";
    }
    fake_net_run(0);
    return NULL;
}

const char *engine_session_act(const struct actor *actor, char **words, size_t count)
{
    if (actor != NULL) {
        return act_of_one(number_of_session(actor->session), words, count);
    }
    if (strcmp(words[0], "servers") == 0 && count > 1) {
        return act_servers(words, count);
    }
    bool is_opened = strcmp(words[0], "opened") == 0;
    if (count == 3 && (is_opened || strcmp(words[0], "sessions") == 0)) {
        unsigned got = is_opened ? fake_session_opened() : fake_session_count();
        return got == strtoul(words[2], NULL, 10) ? NULL : "another number of sessions";
    }
    return "";
}
