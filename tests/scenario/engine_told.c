/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the proxy tells of itself in scenarios: a live trace, as the first lines of its blocks in
 * the order in which they come, and the list of devices.
 */
#include "engine_stage.h"

#include "client/trace.h"
#include "engine/inspect.h"

#include <stdio.h>
#include <string.h>

static bool on_trace(void *context, uint64_t id, const struct trace_view *view)
{
    struct engine_stage *engine = context;
    (void)id;
    if (view->text != NULL && engine->traced_count < TRACED_MAX) {
        engine->traced[engine->traced_count++] =
            pool_format(&engine->pool, "%.*s", (int)strcspn(view->text, "\n"), view->text);
    }
    return true;
}

/* trace [client=BEGIN] [target=TEXT] [reason=REASON] [identity=TEXT]: of all workers, from now on
 */
static const char *begin_trace(struct engine_stage *engine, char **words, size_t count)
{
    struct trace_tap tap = {.id = 1, .emit = on_trace, .context = engine};
    const struct {
        const char *name;
        char *to;
    } filters[] = {{"client=", tap.client},
                   {"target=", tap.target},
                   {"reason=", tap.reason},
                   {"identity=", tap.identity}};
    for (size_t i = 1; i < count; i++) {
        bool is_known = false;
        for (size_t j = 0; j < sizeof(filters) / sizeof(filters[0]); j++) {
            size_t len = strlen(filters[j].name);
            if (strncmp(words[i], filters[j].name, len) == 0) {
                (void)snprintf(filters[j].to, TRACE_FILTER_MAX, "%s", words[i] + len);
                is_known = true;
            }
        }
        if (!is_known || engine->is_traced) {
            return "trace [client=BEGIN] [target=TEXT] [reason=REASON] [identity=TEXT], once";
        }
    }
    engine->is_traced = true;
    for (unsigned i = 1; i <= engine->workers; i++) {
        if (trace_add_tap(&replay_worker(&engine->replay, i)->client, &tap) != 0) {
            return "the trace cannot begin";
        }
    }
    return NULL;
}

/* traced LINE, with "..." at its end as far as there; traced nothing: no block is left */
static const char *check_traced(struct engine_stage *engine, char **words, size_t count)
{
    const char *expected = words[1];
    bool is_cut = strcmp(words[count - 1], "...") == 0;
    fake_net_run(0);
    const char *got = engine->traced_taken < engine->traced_count
                          ? engine->traced[engine->traced_taken++]
                          : "nothing";
    for (size_t i = 2; i < count - is_cut; i++) {
        expected = pool_format(&engine->pool, "%s %s", expected, words[i]);
    }
    bool is_right =
        is_cut ? strncmp(got, expected, strlen(expected)) == 0 : strcmp(got, expected) == 0;
    return is_right ? NULL
                    : pool_format(&engine->pool, "traced: expected %s, got %s", expected, got);
}

/* --- the list of devices ---------------------------------------------------- */

/* The row of the device @p name, from the worker that tells it; NULL: there is none. */
static const char *device_row(struct engine_stage *engine, const char *name)
{
    static char text[4096];
    const char *member = pool_format(&engine->pool, "\"device\":\"%s\"", name);
    const char *row = NULL;
    for (unsigned i = 1; i <= engine->workers && row == NULL; i++) {
        struct json_writer out;
        uint64_t cursor = 0;
        json_writer_init(&out, text, sizeof(text) - 1);
        if (inspect_devices(replay_worker(&engine->replay, i), "", &cursor, &out)) {
            text[out.len] = '\0';
            row = strstr(text, member);
        }
    }
    return row != NULL ? pool_format(&engine->pool, "%.*s}", (int)strcspn(row, "}"), row) : NULL;
}

/* listed DEVICE MEMBER=VALUE ...: its row of criproxyctl devices has these */
static const char *check_listed(struct engine_stage *engine, char **words, size_t count)
{
    const char *row = device_row(engine, words[1]);
    if (row == NULL) {
        return "no such device is listed";
    }
    for (size_t i = 2; i < count; i++) {
        size_t len = strcspn(words[i], "=");
        const char *member = pool_format(&engine->pool, "\"%.*s\":", (int)len, words[i]);
        const char *expected = words[i][len] == '=' ? words[i] + len + 1 : "";
        const char *at = strstr(row, member);
        const char *value = at != NULL ? at + strlen(member) : "";
        value += value[0] == '"';
        size_t value_len = strcspn(value, "\",}");
        if (value_len != strlen(expected) || strncmp(value, expected, value_len) != 0) {
            return pool_format(&engine->pool, "listed: expected %s in %s", words[i], row);
        }
    }
    return NULL;
}

const char *engine_told_act(struct engine_stage *engine, char **words, size_t count)
{
    if (strcmp(words[0], "trace") == 0) {
        return begin_trace(engine, words, count);
    }
    if (strcmp(words[0], "traced") == 0 && count > 1) {
        return check_traced(engine, words, count);
    }
    if (strcmp(words[0], "listed") == 0 && count > 2) {
        return check_listed(engine, words, count);
    }
    return "";
}
