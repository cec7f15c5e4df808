/* SPDX-License-Identifier: BSD-2-Clause */
/* The configuration in use, for criproxyctl config. */
#include "engine/inspect.h"

#include "base/escape.h"
#include "conf/schema.h"
#include "conf/value.h"
#include "engine/engine.h"

#include <stdio.h>
#include <string.h>

/* A row under way: rows before @a from have been listed already. */
struct listing {
    struct json_writer *out;
    const char *wanted; /* section; "": all */
    enum config_proxy_size size;
    uint64_t at, from;
    bool is_full;
};

/* The key's default as it is in files; a size has defaults of its own. */
static const char *preset_of(const struct listing *listing, const struct config_row *row)
{
    const char *preset = schema_preset(row, listing->size);
    return strcmp(preset, CONFIG_NO_DEFAULT) == 0 ? "" : preset;
}

/* Both are texts, and "1.5" is 1.50. */
static bool is_preset(const struct listing *listing, const struct config_row *row,
                      const char *value)
{
    const char *preset = preset_of(listing, row);
    uint64_t theirs = 0, ours = 0;

    if (strcmp(value, preset) == 0) {
        return true;
    }
    return row->type != CONFIG_TYPE_TEXT && value_parse(row, preset, &theirs) &&
           value_parse(row, value, &ours) && theirs == ours;
}

/* A list is the default as a whole, whose items have a space between them. */
static bool is_preset_list(const struct listing *listing, const struct config_row *row,
                           const struct config_list *list)
{
    const char *at = preset_of(listing, row);

    for (size_t i = 0; i < list->count; i++) {
        size_t len = strlen(list->items[i]);
        if (i > 0 && *at++ != ' ') {
            return false;
        }
        if (strncmp(at, list->items[i], len) != 0) {
            return false;
        }
        at += len;
    }
    return *at == '\0';
}

/* Whether the value of the key is a secret; false for a key that names a file with one. */
static bool schema_is_secret(const struct config_row *row)
{
    static const char *const endings[] = {"psk_key", "secret", "password", "header"};
    size_t len = strlen(row->name);

    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        size_t ending_len = strlen(endings[i]);
        if (len >= ending_len && strcmp(row->name + len - ending_len, endings[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void put_value(struct listing *listing, const char *section, const struct config_row *row,
                      const char *value, bool is_default)
{
    char shown[1024];

    if (listing->is_full || listing->at++ < listing->from) {
        return;
    }
    bool is_secret = schema_is_secret(row) && value[0] != '\0';
    json_begin(listing->out);
    json_text(listing->out, "section", section);
    json_text(listing->out, "key", schema_key(row).text);
    json_text(listing->out, "value",
              is_secret ? "(hidden)" : escape_text(shown, sizeof(shown), value, strlen(value)));
    json_bool(listing->out, "default", is_default);
    if (!json_end(listing->out)) {
        listing->is_full = true;
        listing->at--;
    }
}

static uint64_t number_of(const struct config_row *row, const char *field)
{
    uint64_t wide = 0;
    uint32_t narrow = 0;
    bool flag = false;

    if (row->type == CONFIG_TYPE_SIZE) {
        memcpy(&wide, field, sizeof(wide));
    } else if (row->type == CONFIG_TYPE_BOOL) {
        memcpy(&flag, field, sizeof(flag));
        wide = flag ? 1 : 0;
    } else {
        memcpy(&narrow, field, sizeof(narrow)); /* an enumerator, too */
        wide = narrow;
    }
    return wide;
}

static void put_list(struct listing *listing, const char *section, const struct config_row *row,
                     const char *field)
{
    struct config_list list;

    memcpy(&list, field, sizeof(list));
    bool is_default = is_preset_list(listing, row, &list);
    for (size_t i = 0; i < list.count; i++) {
        put_value(listing, section, row, list.items[i], is_default);
    }
    if (list.count == 0) {
        put_value(listing, section, row, "", is_default);
    }
}

/* @p owner: the struct to which the row's offset applies. */
static void put_row(struct listing *listing, const char *section, const struct config_row *row,
                    const void *owner)
{
    const char *field = (const char *)owner + row->offset, *value = NULL;
    char text[VALUE_TEXT_MAX];

    if (row->type == CONFIG_TYPE_LIST) {
        put_list(listing, section, row, field);
        return;
    }
    if (row->type == CONFIG_TYPE_TEXT) {
        memcpy(&value, field, sizeof(value));
        value = value != NULL ? value : "";
    } else {
        value = value_format(row, number_of(row, field), text);
    }
    put_value(listing, section, row, value, is_preset(listing, row, value));
}

/* One [KIND NAME] section. */
static void put_named(struct listing *listing, const struct config_named_kind *kind,
                      const char *item)
{
    const char *name = NULL;
    char section[128];

    memcpy(&name, item, sizeof(name));
    (void)snprintf(section, sizeof(section), "%s %s", kind->word, name);
    for (size_t i = 0; i < kind->row_count; i++) {
        put_row(listing, section, &kind->rows[i], item);
    }
}

static bool is_wanted(const struct listing *listing, const char *section)
{
    return listing->wanted[0] == '\0' || strcmp(listing->wanted, section) == 0;
}

bool inspect_config(struct engine *engine, const char *argument, uint64_t *cursor,
                    struct json_writer *out)
{
    const char *config = (const char *)engine->context.config;
    struct listing listing = {.out = out,
                              .wanted = argument,
                              .size = engine->context.config->proxy_size,
                              .from = *cursor};

    for (size_t i = 0; i < CONFIG_ROW_COUNT && !listing.is_full; i++) {
        if (is_wanted(&listing, config_rows[i].section)) {
            put_row(&listing, config_rows[i].section, &config_rows[i], config);
        }
    }
    for (size_t k = 0; k < CONFIG_NAMED_COUNT && !listing.is_full; k++) {
        const struct config_named_kind *kind = &config_named_kinds[k];
        const char *items = NULL;
        size_t count = 0;
        memcpy(&items, config + kind->all, sizeof(items));
        memcpy(&count, config + kind->all_count, sizeof(count));
        for (size_t i = 0; i < count && !listing.is_full && is_wanted(&listing, kind->word); i++) {
            put_named(&listing, kind, items + i * kind->size);
        }
    }
    *cursor = listing.at;
    return !listing.is_full;
}
