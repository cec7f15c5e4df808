/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/inspect.h"

#include "base/arena.h"
#include "engine/engine.h"
#include "policy/pattern.h"

#include <string.h>

/* Entries that are looked at in one piece. */
#define PIECE_ENTRIES 2048u

/* A pattern of this configuration's, and whether it could be had. */
struct search {
    struct engine *engine;
    struct config_arena *arena;
    struct target_pattern pattern;
};

/* The pattern has been checked before it was handed to the workers. */
static bool search_begin(struct search *search, struct engine *engine, const char *text)
{
    struct pattern_error error;
    *search = (struct search){.engine = engine, .arena = arena_new()};
    return search->arena != NULL &&
           target_pattern_parse(text, strlen(text), &engine->context.config->scheme_table,
                                search->arena, &search->pattern, &error) == 0;
}

static bool matches(void *context, const struct target *target, uint32_t scheme)
{
    const struct search *search = context;
    struct target whole = *target;
    whole.scheme = config_scheme_by_number(search->engine->context.config, scheme);
    return whole.scheme != NULL && target_pattern_matches(&search->pattern, &whole);
}

static bool add_entry(struct engine *engine, const struct cache_entry *entry,
                      const struct target *target, struct json_writer *out)
{
    const struct representation held = cache_entry_get(&engine->fetch.cache, entry);
    uint64_t now_ms = context_now_ms(&engine->context);
    uint32_t cap_s = engine->context.config->cache_max_age / 1000;
    char text[1024];
    json_begin(out);
    json_text(out, "target", target_format(target, text, sizeof(text)));
    json_text(out, "state",
              entry->is_invalid || entry->is_superseded  ? "to be validated"
              : freshness_is_fresh(&held, cap_s, now_ms) ? "fresh"
                                                         : "stale");
    json_uint(out, "bytes", held.payload.len);
    json_uint(out, "age_s", (now_ms - held.received_ms) / 1000);
    json_uint(out, "max_age_s", held.max_age_s);
    json_bool(out, "etag", freshness_etag(held.options).len > 0);
    return json_end(out);
}

static bool look_at(struct search *search, const struct cache_entry *entry, struct json_writer *out)
{
    struct target target;
    uint32_t scheme;
    struct cache_key key;
    if (!entry->is_used || entry->is_gone) {
        return true;
    }
    key = cache_entry_key(&search->engine->fetch.cache, entry);
    cache_key_read_target(&key, &target, &scheme);
    if (!matches(search, &target, scheme)) {
        return true;
    }
    target.scheme = config_scheme_by_number(search->engine->context.config, scheme);
    target.form = TARGET_FORM_PROXY_CRI; /* any: it is not for the proxy itself */
    return add_entry(search->engine, entry, &target, out);
}

bool inspect_cache(struct engine *engine, const char *argument, uint64_t *cursor,
                   struct json_writer *out)
{
    const struct cache_store *store = &engine->fetch.cache;
    uint64_t end = *cursor + PIECE_ENTRIES;
    struct search search;
    if (!search_begin(&search, engine, argument)) {
        arena_free(search.arena);
        return true;
    }
    while (*cursor < store->free.used && *cursor < end &&
           look_at(&search, &store->entries[*cursor], out)) {
        (*cursor)++;
    }
    arena_free(search.arena);
    return *cursor >= store->free.used;
}

bool inspect_cache_flush(struct engine *engine, const char *argument, uint64_t *cursor,
                         struct json_writer *out)
{
    struct search search;
    uint32_t count = 0;
    (void)cursor;
    if (search_begin(&search, engine, argument)) {
        count = cache_flush(&engine->fetch.cache, matches, &search);
    }
    arena_free(search.arena);
    json_begin(out);
    json_uint(out, "flushed", count);
    return json_end(out);
}
