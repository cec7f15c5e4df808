/* SPDX-License-Identifier: BSD-2-Clause */
/* Sessions upstream in scenarios, but for those of the real pool (engine_pool.c). */
#include "engine_stage.h"

void engine_session_begin(void)
{
}

void engine_session_end(void)
{
}

const char *engine_session_act(const struct actor *actor, char **words, size_t count)
{
    (void)actor;
    (void)words;
    (void)count;
    return "";
}
