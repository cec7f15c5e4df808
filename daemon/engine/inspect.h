/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lists of one engine's tables for criproxyctl. They are made in the engine's thread, in pieces so
 * small that clients do not notice. Between two pieces the engine continues to work, so a list is
 * no snapshot: entries that are added or removed meanwhile may be in it or not.
 */
#ifndef CRIPROXY_INSPECT_H
#define CRIPROXY_INSPECT_H

#include "base/json.h"

struct engine;

/*
 * The next piece of a list, one JSON object an item.
 *
 * @param argument of the command; "" where it takes none
 * @param cursor where to go on; 0 at first
 * @return whether that was all
 */
typedef bool inspect_fn(struct engine *engine, const char *argument, uint64_t *cursor,
                        struct json_writer *out);

inspect_fn inspect_sessions, inspect_origins, inspect_upstreams, inspect_devices;
inspect_fn inspect_exchanges, inspect_observations, inspect_why, inspect_config;

/* Sources that inspect_sources() lists at most, the largest holders first. */
#define INSPECT_SOURCES_MAX 64u
inspect_fn inspect_sources;

/* The clients and targets with most requests (client/busiest.h), counted from the first call on. */
inspect_fn inspect_busiest;

/* What is in the cache, and taking it out; the argument is a pattern of targets. */
inspect_fn inspect_cache, inspect_cache_flush;

/*
 * Faults of a lab (context/faults.h). The argument: "list"; "clear", or with a name, "clear NAME";
 * or "add" and what fault_config_load() takes. Parts are separated by FAULT_PART.
 */
#define FAULT_PART "\n"
inspect_fn inspect_fault;

struct config;

/**
 * A fault as criproxyctl names it: "NAME" and "KEY=VALUE"s, separated by FAULT_PART. A key without
 * effect under the configuration @p running, borrowed for the call, is an error.
 *
 * @param ret_error the first error, of @p capacity bytes.
 * @return the configuration that has it as its only one; free with config_free(). NULL: an error.
 */
struct config *fault_config_load(const struct config *running, const char *text, char *ret_error,
                                 size_t capacity);

/* How the identity of a client begins that is to be closed: as in identity=psk:alice. */
#define CLOSE_IDENTITY "identity="

/*
 * End the sessions and connections of the client that the argument names, an address or an
 * identity, and forget it where it is one of UDP. Its observations end; its requests in
 * flight do as where a client goes (client_gone).
 */
inspect_fn inspect_close;

#endif
