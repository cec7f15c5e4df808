/* SPDX-License-Identifier: BSD-2-Clause */
/* criproxyctl fault. */
#include "base/escape.h"
#include "conf/value.h"
#include "context/faults.h"
#include "engine/engine.h"
#include "engine/inspect.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PARTS_MAX 16u
#define PART_MAX 512u

/* ---- add ---- */

/* SECTION.KEY=VALUE of each part after the first, which is the name. @return how many, 0: none */
static size_t make_sets(const char *text, char sets[PARTS_MAX][PART_MAX])
{
    size_t name_len = strcspn(text, FAULT_PART), count = 1;
    const char *at = text + name_len;

    (void)snprintf(sets[0], PART_MAX, "lab.enabled=yes");
    while (*at != '\0' && count < PARTS_MAX) {
        at++;
        size_t len = strcspn(at, FAULT_PART);
        int wrote =
            snprintf(sets[count], PART_MAX, "fault %.*s.%.*s", (int)name_len, text, (int)len, at);
        if (wrote < 0 || (size_t)wrote >= PART_MAX || memchr(at, '=', len) == NULL) {
            return 0;
        }
        count++;
        at += len;
    }
    return *at == '\0' ? count : 0;
}

struct config *fault_config_load(const struct config *running, const char *text, char *ret_error,
                                 size_t capacity)
{
    char sets[PARTS_MAX][PART_MAX];
    const char *texts[PARTS_MAX];
    struct config_errors errors = {.count = 0};
    struct config *config = NULL;
    size_t count = make_sets(text, sets);

    for (size_t i = 0; i < count; i++) {
        texts[i] = sets[i];
    }
    const struct config_source source = {.sets = texts, .set_count = count};
    int failed = count < 2 ? -EINVAL : config_load(&source, &errors, &config);
    if (failed == 0 && config->fault_count != 1) {
        config_free(config); /* its name had the form of another section's */
        failed = -EINVAL;
        config = NULL;
    }
    if (failed != 0) {
        (void)snprintf(ret_error, capacity, "%s",
                       failed == -ENOMEM  ? "out of memory"
                       : errors.count > 0 ? errors.text[0]
                                          : "expected add NAME KEY=VALUE...");
    } else if (config_fault_is_idle(running, &config->faults[0], ret_error, capacity)) {
        config_free(config);
        config = NULL;
    }
    return config;
}

/* NULL: done; or the error, static or in @p error. */
static const char *fault_add(struct engine *engine, const char *text,
                             char error[CONFIG_ERROR_TEXT_MAX])
{
    struct config *config =
        fault_config_load(engine->context.config, text, error, CONFIG_ERROR_TEXT_MAX);

    if (config == NULL) {
        return error;
    }
    int failed = faults_add(&engine->context, config);
    if (failed != 0) {
        config_free(config);
    }
    switch (failed) {
    case 0:
        return NULL;
    case -EEXIST:
        return "the configuration has a fault of that name";
    case -ENOSPC:
        return "too many faults";
    default:
        return "out of memory";
    }
}

/* ---- list ---- */

/* Text that is cut where it is too long. */
struct cut_text {
    char *text;
    size_t capacity, len;
};

static void put_fault_key(struct cut_text *out, const struct config_row *row, const char *value)
{
    int wrote = snprintf(out->text + out->len, out->capacity - out->len, "%s%s=%s",
                         out->len > 0 ? " " : "", schema_key(row).text, value);
    size_t len = wrote > 0 ? (size_t)wrote : 0;
    out->len = len < out->capacity - out->len ? out->len + len : out->capacity - 1;
}

/* What is set, as criproxyctl fault add has it: "target=coap://h loss=0.2". */
static void describe_fault(const struct config_fault *rule, struct cut_text *out)
{
    const struct config_named_kind *kind = &config_named_kinds[CONFIG_NAMED_FAULT];
    char text[VALUE_TEXT_MAX], shown[256];

    for (size_t i = 0; i < kind->row_count; i++) {
        const struct config_row *row = &kind->rows[i];
        const char *field = (const char *)rule + row->offset, *value = "";
        struct config_list list = {.count = 0};
        if (row->type == CONFIG_TYPE_LIST) {
            memcpy(&list, field, sizeof(list));
        } else if (row->type == CONFIG_TYPE_TEXT) {
            memcpy(&value, field, sizeof(value));
        } else if (strcmp(row->name, "seed") != 0) {
            uint64_t number = value_load(rule, row);
            value = number != 0 ? value_format(row, number, text) : "";
        }
        for (size_t item = 0; item < list.count; item++) {
            put_fault_key(
                out, row,
                escape_text(shown, sizeof(shown), list.items[item], strlen(list.items[item])));
        }
        if (value[0] != '\0') {
            put_fault_key(out, row, value);
        }
    }
}

static bool put_fault(const struct engine *engine, const struct fault_view *view,
                      struct json_writer *out)
{
    static const char *const names[] = {
#define FAULT(name, words) #name,
#include "context/faults.def"
#undef FAULT
    };
    char keys[1024] = "";
    struct cut_text text = {.text = keys, .capacity = sizeof(keys)};

    describe_fault(view->rule, &text);
    json_begin(out);
    json_uint(out, "worker", engine->context.worker_index);
    json_text(out, "name", view->rule->name);
    json_text(out, "from", view->is_added ? "criproxyctl" : "configuration");
    json_text(out, "keys", keys);
    json_uint(out, "seed", view->seed);
    json_uint(out, "requests", view->requests);
    json_uint(out, "from_clients", view->messages[FAULT_FROM_CLIENT]);
    json_uint(out, "to_clients", view->messages[FAULT_TO_CLIENT]);
    json_uint(out, "to_origins", view->messages[FAULT_TO_ORIGIN]);
    json_uint(out, "from_origins", view->messages[FAULT_FROM_ORIGIN]);
    for (unsigned i = 0; i < FAULT_KINDS; i++) {
        json_uint(out, names[i], view->counts[i]);
    }
    return json_end(out);
}

static bool list_faults(const struct engine *engine, uint64_t *cursor, struct json_writer *out)
{
    for (; *cursor < FAULTS_MAX; ++*cursor) {
        const struct fault_view view = faults_look(&engine->context, (unsigned)*cursor);
        if (view.rule != NULL && !put_fault(engine, &view, out)) {
            return false;
        }
    }
    return true;
}

/* ---- all three ---- */

static void put_result(const struct engine *engine, const char *key, uint64_t number,
                       struct json_writer *out)
{
    json_begin(out);
    json_uint(out, "worker", engine->context.worker_index);
    json_uint(out, key, number);
    (void)json_end(out);
}

bool inspect_fault(struct engine *engine, const char *argument, uint64_t *cursor,
                   struct json_writer *out)
{
    size_t word_len = strcspn(argument, FAULT_PART);
    const char *rest = argument + word_len + (argument[word_len] != '\0');

    if (argument[0] == 'l') {
        return list_faults(engine, cursor, out);
    }
    if (argument[0] == 'c') {
        put_result(engine, "cleared", faults_clear(&engine->context, rest), out);
        return true;
    }
    char error[CONFIG_ERROR_TEXT_MAX];
    const char *wrong = fault_add(engine, rest, error);
    if (wrong == NULL) {
        put_result(engine, "added", 1, out);
        return true;
    }
    json_begin(out);
    json_uint(out, "worker", engine->context.worker_index);
    json_text(out, "error", wrong);
    (void)json_end(out);
    return true;
}
