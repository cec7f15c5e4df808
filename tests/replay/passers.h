/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Other clients that pass while a script goes on: whenever the script's origin server has got
 * what it was expected to get, another client asks for something, with a path, a query and a
 * payload that no other request has. Their origin server checks that it is asked for just that,
 * they check that they are answered just that, and the script's own next step must not have
 * anything of it.
 */
#ifndef CRIPROXY_REPLAY_PASSERS_H
#define CRIPROXY_REPLAY_PASSERS_H

#include "replay/replay.h"

/** After replay_start(): they are not among those that replay_ended() counts. */
void passers_start(struct replay *replay);

/** One more passes: for scripts whose origin server is on a session. */
void passers_pass(void);

#endif
