/* SPDX-License-Identifier: BSD-2-Clause */
#include "conf/config.h"

#include "base/arena.h"
#include "conf/schema.h"
#include "conf/value.h"

#include <errno.h>
#include <string.h>

const struct scheme *config_scheme_by_number(const struct config *config, uint64_t number)
{
    for (size_t i = 0; i < config->scheme_count && config->schemes[i].number <= number; i++) {
        if (config->schemes[i].number == number) {
            return &config->schemes[i];
        }
    }
    return NULL;
}

/* A copy in the arena of @p fresh: the running snapshot will go away. */
static int keep_text(struct config *fresh, const struct config *running,
                     const struct config_row *row, bool *ret_differs)
{
    const char *mine;
    const char *theirs;
    char *field = (char *)fresh + row->offset;

    memcpy(&mine, field, sizeof(mine));
    memcpy(&theirs, (const char *)running + row->offset, sizeof(theirs));
    *ret_differs = strcmp(mine, theirs) != 0;
    mine = arena_text(fresh->arena, theirs, strlen(theirs));
    if (mine == NULL) {
        return -ENOMEM;
    }
    memcpy(field, &mine, sizeof(mine));
    return 0;
}

static bool lists_are_equal(const struct config_list *a, const struct config_list *b)
{
    bool equal = a->count == b->count;
    for (size_t i = 0; i < a->count && equal; i++) {
        equal = strcmp(a->items[i], b->items[i]) == 0;
    }
    return equal;
}

/* As keep_text(), each of a list. */
static int keep_list(struct config *fresh, const struct config *running,
                     const struct config_row *row, bool *ret_differs)
{
    struct config_list mine, theirs;
    char *field = (char *)fresh + row->offset;

    memcpy(&mine, field, sizeof(mine));
    memcpy(&theirs, (const char *)running + row->offset, sizeof(theirs));
    *ret_differs = !lists_are_equal(&mine, &theirs);
    if (!*ret_differs) {
        return 0;
    }
    const char **items = arena_alloc(fresh->arena, theirs.count * sizeof(*items));
    for (size_t i = 0; i < theirs.count && items != NULL; i++) {
        items[i] = arena_text(fresh->arena, theirs.items[i], strlen(theirs.items[i]));
        if (items[i] == NULL) {
            return -ENOMEM;
        }
    }
    if (items == NULL && theirs.count > 0) {
        return -ENOMEM;
    }
    mine = (struct config_list){theirs.count, items};
    memcpy(field, &mine, sizeof(mine));
    return 0;
}

/* The value of @p row, which only a start can change, from @p running. */
static int keep_row(struct config *fresh, const struct config *running,
                    const struct config_row *row, bool *ret_differs)
{
    if (row->type == CONFIG_TYPE_TEXT) {
        return keep_text(fresh, running, row, ret_differs);
    }
    if (row->type == CONFIG_TYPE_LIST) {
        return keep_list(fresh, running, row, ret_differs);
    }
    uint64_t value = value_load(running, row);
    *ret_differs = value_load(fresh, row) != value;
    value_store(fresh, row, value);
    return 0;
}

int config_keep_started(struct config *fresh, const struct config *running,
                        void (*on_kept)(void *context, const char *key), void *context)
{
    for (size_t i = 0; i < CONFIG_ROW_COUNT; i++) {
        const struct config_row *row = &config_rows[i];
        bool differs = false;
        if (row->live) {
            continue;
        }
        int error = keep_row(fresh, running, row, &differs);
        if (error != 0) {
            return error;
        }
        if (differs && on_kept != NULL) {
            char name[64];
            (void)snprintf(name, sizeof(name), "%s.%s", row->section, schema_key(row).text);
            on_kept(context, name);
        }
    }
    return 0;
}
