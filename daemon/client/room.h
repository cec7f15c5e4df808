/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Room for one more request where the tables that it needs are full: the source that holds
 * most of one loses its oldest request there (base/account.h).
 */
#ifndef CRIPROXY_ROOM_H
#define CRIPROXY_ROOM_H

#include <stdbool.h>
#include <stddef.h>

struct client_side;
struct leg;

/**
 * Whether there is room for a request over @p leg, of @p bytes, as far as the client side knows;
 * its fetch needs room as well (fetch_has_room()).
 */
bool room_is_there(const struct client_side *side, const struct leg *leg, size_t bytes);

/**
 * Make room for a request over @p leg, of @p bytes, where its source holds less than the largest
 * one, or where an entry has waited for long. If neither is so, nothing is done and the allocation
 * that follows fails. May end and free any request, of this client too, and uses the engine's
 * memory for keys and messages: nothing may be half made.
 */
void room_make(struct client_side *side, struct leg *leg, size_t bytes);

#endif
