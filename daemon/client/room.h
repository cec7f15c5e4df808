/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Room for one more request where the tables that it needs are full: the source that holds
 * most of one loses its oldest request there (base/account.h).
 */
#ifndef CRIPROXY_ROOM_H
#define CRIPROXY_ROOM_H

#include <stddef.h>

struct engine;
struct leg;

/**
 * Have room for a request over @p leg, of @p bytes, if that is fair. May end any request, of
 * this client too, and use the engine's memory for keys and messages: nothing may be half made.
 */
void room_make(struct engine *engine, struct leg *leg, size_t bytes);

#endif
