/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sections that name something: [scheme NAME], [route NAME], [upstream NAME] and
 * [access NAME], [limit NAME], [media N], [publish NAME], [device NAME]. Each is a draft until
 * everything is read and checked; then the drafts of a kind become one table of the snapshot, in
 * the order in which they were met, because of routes and rules the first that matches decides.
 */
#include "conf/loader.h"

#include "base/hash.h"
#include "policy/pattern.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* "route lab", as error messages call it. */
struct title {
    char text[CONFIG_SECTION_MAX + 16];
};

static struct title title_of(enum config_named kind, const char *name)
{
    struct title title;

    (void)snprintf(title.text, sizeof(title.text), "%s %s", config_named_kinds[kind].word, name);
    return title;
}

/* Its NAME; of the configuration's arena. */
static const char *named_name(const struct named_draft *draft)
{
    const char *name;

    memcpy(&name, draft->row, sizeof(name)); /* the first field of all of them */
    return name;
}

/* RFC 3986 section 3.1; @p name is lowered on the way. */
static bool take_scheme_name(char *name)
{
    for (size_t i = 0; name[i] != '\0'; i++) {
        char c = name[i];
        if (c >= 'A' && c <= 'Z') {
            c = (char)(c + ('a' - 'A'));
            name[i] = c;
        }
        bool letter = c >= 'a' && c <= 'z';
        bool later = (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
        if (!letter && (i == 0 || !later)) {
            return false;
        }
    }
    return name[0] != '\0';
}

/* Names go into logs, metrics and answers as they are: nothing in them needs quotes. */
static bool is_plain_name(const char *name)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_.+";

    return name[0] != '\0' && name[strspn(name, plain)] == '\0';
}

/* A Content-Format is 16 bits (RFC 7252 section 5.10.3); each has one spelling. */
static bool is_format_name(const char *name)
{
    size_t len = strspn(name, "0123456789");

    return len > 0 && len <= 5 && name[len] == '\0' && (name[0] != '0' || len == 1) &&
           strtoul(name, NULL, 10) <= UINT16_MAX;
}

bool named_take_name(enum config_named kind, char *name)
{
    if (kind == CONFIG_NAMED_MEDIA) {
        return is_format_name(name);
    }
    if (kind == CONFIG_NAMED_DEVICE) {
        return loader_take_device_name(name);
    }
    return kind == CONFIG_NAMED_SCHEME ? take_scheme_name(name) : is_plain_name(name);
}

/* Number and port of a scheme that libcri knows by name. */
static void know_scheme(struct scheme *scheme)
{
    struct cri_slice name = {.data = (const uint8_t *)scheme->name, .len = strlen(scheme->name)};
    const struct cri_scheme *known = cri_scheme_by_name(NULL, name);

    if (known != NULL && known->number < SCHEME_NUMBER_NONE) {
        scheme->number = (uint32_t)known->number;
        scheme->default_port = known->default_port;
    }
}

/* Ten thousand rules are found by name at once, as every line of them asks for its own. */
static uint32_t *named_bucket_of(struct named_drafts *drafts, const char *name)
{
    uint64_t hash = hash_bytes((const uint8_t *)name, strlen(name), 0);

    return &drafts->buckets[hash & (NAMED_BUCKETS - 1)];
}

struct named_draft *named_add(struct loader *loader, enum config_named kind, const char *name)
{
    const struct config_named_kind *named = &config_named_kinds[kind];
    struct named_drafts *drafts = &loader->named[kind];
    struct config_arena *arena = loader->config->arena;
    const char *copy = arena_text(arena, name, strlen(name));
    struct named_draft draft = {.row = arena_alloc(arena, named->size),
                                .set_at =
                                    arena_alloc(arena, named->row_count * sizeof(struct place))};

    assert(drafts->count < named->max);
    if (copy == NULL || draft.row == NULL || draft.set_at == NULL) {
        loader->no_memory = true;
        return NULL;
    }
    memcpy(draft.row, &copy, sizeof(copy));
    for (size_t i = 0; i < named->row_count; i++) {
        loader_preset_row(loader, draft.row, &named->rows[i]);
    }
    if (kind == CONFIG_NAMED_SCHEME) {
        know_scheme(draft.row);
    }
    uint32_t *bucket = named_bucket_of(drafts, copy);
    draft.next = *bucket;
    drafts->items[drafts->count] = draft;
    drafts->count++;
    *bucket = (uint32_t)drafts->count;
    return &drafts->items[drafts->count - 1];
}

static struct named_draft *find_draft(struct named_drafts *drafts, const char *name)
{
    for (uint32_t at = *named_bucket_of(drafts, name); at != 0; at = drafts->items[at - 1].next) {
        if (strcmp(named_name(&drafts->items[at - 1]), name) == 0) {
            return &drafts->items[at - 1];
        }
    }
    return NULL;
}

void named_assign(struct loader *loader, const struct section *section, const char *key,
                  const char *value)
{
    const struct config_named_kind *named = &config_named_kinds[section->named];
    struct named_drafts *drafts = &loader->named[section->named];
    const struct config_row *row = schema_find_named(section->named, key);
    const struct title title = title_of(section->named, section->name);

    if (row == NULL) {
        loader_unknown_key(loader, title.text, key, named->rows, named->row_count);
        return;
    }
    struct named_draft *draft = find_draft(drafts, section->name);
    if (draft == NULL && drafts->count == named->max) {
        loader_error(loader, &loader->here, title.text, NULL, "more than %u of them", named->max);
        return;
    }
    if (draft == NULL) {
        draft = named_add(loader, section->named, section->name);
    }
    if (draft != NULL) {
        loader_assign_row(loader, draft->row, row, &draft->set_at[row - named->rows], title.text,
                          value);
    }
}

const struct place *named_place(enum config_named kind, const struct named_draft *draft,
                                const char *key)
{
    const struct config_row *row = schema_find_named(kind, key);

    assert(row != NULL);
    return &draft->set_at[row - config_named_kinds[kind].rows];
}

const struct place *named_any_place(enum config_named kind, const struct named_draft *draft)
{
    for (size_t i = 0; i < config_named_kinds[kind].row_count; i++) {
        if (draft->set_at[i].kind != PLACE_PRESET) {
            return &draft->set_at[i];
        }
    }
    return &draft->set_at[0];
}

void named_error(struct loader *loader, enum config_named kind, const struct named_draft *draft,
                 const struct place *place, const char *key, const char *format, ...)
{
    const struct title title = title_of(kind, named_name(draft));
    char message[256];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    loader_error(loader, place, title.text, key, "%s", message);
}

/* Bytes of a field. */
static size_t field_size(enum config_type type)
{
    switch (type) {
    case CONFIG_TYPE_BOOL:
        return sizeof(bool);
    case CONFIG_TYPE_UINT:
    case CONFIG_TYPE_WORKERS:
    case CONFIG_TYPE_DURATION:
    case CONFIG_TYPE_FACTOR:
    case CONFIG_TYPE_CHANCE:
    case CONFIG_TYPE_WORD:
        return sizeof(uint32_t);
    case CONFIG_TYPE_SIZE:
        return sizeof(uint64_t);
    case CONFIG_TYPE_LIST:
        return sizeof(struct config_list);
    case CONFIG_TYPE_TEXT:
        return sizeof(const char *);
    }
    return 0;
}

static void inherit(const struct config *config, const struct config_named_kind *named,
                    const struct named_draft *draft)
{
    for (size_t i = 0; i < named->row_count; i++) {
        const struct config_row *row = &named->rows[i];
        const struct config_row *plain = schema_find(named->word, schema_key(row).text);
        if (draft->set_at[i].kind == PLACE_PRESET && plain != NULL && plain->type == row->type) {
            memcpy((char *)draft->row + row->offset, (const char *)config + plain->offset,
                   field_size(row->type));
        }
    }
}

void named_inherit(struct loader *loader)
{
    for (size_t kind = 0; kind < CONFIG_NAMED_COUNT; kind++) {
        for (size_t i = 0; i < loader->named[kind].count; i++) {
            inherit(loader->config, &config_named_kinds[kind], &loader->named[kind].items[i]);
        }
    }
}

/* Seven arguments: the list, and the array that it becomes. */
/* NOLINTNEXTLINE(readability-function-size) */
const struct target_pattern *named_patterns(struct loader *loader, enum config_named kind,
                                            const struct named_draft *draft, const char *key,
                                            const struct config_list *list, bool is_needed,
                                            size_t *ret_count)
{
    const struct place *place = named_place(kind, draft, key);
    struct target_pattern *patterns =
        arena_alloc(loader->config->arena, (list->count + 1) * sizeof(struct target_pattern));
    size_t count = 0;
    char got[GOT_MAX];

    if (patterns == NULL) {
        loader->no_memory = true;
        return NULL;
    }
    if (is_needed && list->count == 0) {
        named_error(loader, kind, draft, named_any_place(kind, draft), key, "needed");
    }
    for (size_t i = 0; i < list->count; i++) {
        struct pattern_error error = {0};
        const char *text = list->items[i];
        int status = target_pattern_parse(text, strlen(text), &loader->config->scheme_table,
                                          loader->config->arena, &patterns[count], &error);
        if (status == -ENOMEM) {
            loader->no_memory = true;
            return NULL;
        }
        if (status != 0) {
            named_error(loader, kind, draft, place, key, "byte %zu: %s, got %s", error.offset,
                        error.what, got_text(got, text, strlen(text)));
            continue;
        }
        count++;
    }
    *ret_count = count;
    return patterns;
}

static void freeze_draft(struct loader *loader, const struct config_named_kind *named,
                         const struct named_drafts *drafts)
{
    char *table = arena_alloc(loader->config->arena, (drafts->count + 1) * named->size);

    if (table == NULL) {
        loader->no_memory = true;
        return;
    }
    for (size_t i = 0; i < drafts->count; i++) {
        memcpy(table + i * named->size, drafts->items[i].row, named->size);
    }
    memcpy((char *)loader->config + named->all, &table, sizeof(table));
    memcpy((char *)loader->config + named->all_count, &drafts->count, sizeof(drafts->count));
}

void named_freeze(struct loader *loader)
{
    for (size_t kind = 0; kind < CONFIG_NAMED_COUNT; kind++) {
        if (kind != CONFIG_NAMED_SCHEME) {
            freeze_draft(loader, &config_named_kinds[kind], &loader->named[kind]);
        }
    }
}
