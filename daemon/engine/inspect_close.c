/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ends the sessions and connections of one client for an operator. They are few enough for one
 * piece; the table of UDP clients is not, so the lower half of the cursor is the next slot, and the
 * upper half is the number that was ended so far.
 */
#include "engine/inspect.h"

#include "base/escape.h"
#include "base/log.h"
#include "client/datagram.h"
#include "engine/engine.h"
#include "net/dtls.h"

#include <string.h>

/* Slots that are looked at in one piece. */
#define PIECE_CLIENTS 4096u

#define WHY "closed by the operator"

/* Which clients are meant: those at an address, or those with an identity. */
struct close_match {
    struct address address; /* its port 0: any */
    const char *identity;   /* "psk:NAME", as identity_take_kind() takes it; NULL: by the address */
};

static bool has_identity(const struct identity *identity, const char *text)
{
    char formatted[IDENTITY_TEXT_MAX];
    enum identity_kind kind = IDENTITY_NONE;
    if (!identity_is_known(identity)) {
        return false;
    }
    if (strcmp(identity_format(identity, formatted), text) == 0) {
        return true;
    }
    const char *name = identity_take_kind(text, &kind);
    return name != NULL && identity_has_name(identity, kind, name);
}

static bool is_to_close(const void *context, const struct address *remote,
                        const struct identity *identity)
{
    const struct close_match *match = context;
    if (match->identity != NULL) {
        return has_identity(identity, match->identity);
    }
    return address_same_host(remote, &match->address) &&
           (match->address.port == 0 || match->address.port == remote->port);
}

static uint32_t close_sessions(struct engine *engine, const struct close_match *match)
{
    uint32_t count = stream_close_matching(&engine->client, is_to_close, match, WHY);
    for (uint32_t i = 0; i < LISTENERS_MAX; i++) {
        if (engine->client.listeners[i].dtls != NULL) {
            count += dtls_close_matching(engine->client.listeners[i].dtls, is_to_close, match, WHY);
        }
    }
    return count;
}

/* A client whose session has ended is only in the list of closed ones, and is not counted again. */
static uint32_t forget_clients(struct engine *engine, const struct close_match *match,
                               uint32_t from, uint32_t end)
{
    uint32_t count = 0;
    for (uint32_t i = from; i < end; i++) {
        struct client *client = &engine->client.clients.slots[i];
        if (client->address.family != ADDRESS_NONE && client->session == NULL &&
            !client->is_secure && is_to_close(match, &client->address, NULL)) {
            datagram_client_gone(&engine->client, client);
            client_table_forget(&engine->client.clients, client);
            count++;
        }
    }
    return count;
}

static bool tell(const struct engine *engine, const char *argument, uint32_t count,
                 struct json_writer *out)
{
    char text[512];
    if (count > 0) {
        log_event(LOG_INFO, "clients_closed", "client=%s ended=%u",
                  escape_value(text, sizeof(text), argument, strlen(argument)), count);
    }
    json_begin(out);
    json_uint(out, "worker", engine->context.worker_index);
    json_uint(out, "ended", count);
    return json_end(out);
}

/* The argument has been checked: an address, or an identity after CLOSE_IDENTITY. */
bool inspect_close(struct engine *engine, const char *argument, uint64_t *cursor,
                   struct json_writer *out)
{
    struct close_match match = {.identity = NULL};
    uint32_t at = (uint32_t)*cursor, count = (uint32_t)(*cursor >> 32);
    if (!address_parse(argument, strlen(argument), 0, &match.address)) {
        match.identity = argument + strlen(CLOSE_IDENTITY);
    }
    if (at == 0) {
        count += close_sessions(engine, &match);
    }
    uint32_t used = match.identity != NULL ? 0 : engine->client.clients.used; /* UDP proves none */
    uint32_t end = used - at < PIECE_CLIENTS ? used : at + PIECE_CLIENTS;
    count += forget_clients(engine, &match, at, end);
    *cursor = (uint64_t)count << 32 | end;
    return end == used && tell(engine, argument, count, out);
}
