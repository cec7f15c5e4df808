/* SPDX-License-Identifier: BSD-2-Clause */
/* criproxyctl busiest. */
#include "client/busiest.h"
#include "engine/engine.h"
#include "engine/inspect.h"

/* Slots of clients, then those of targets. */
static bool put_slot(const struct engine *engine, const char *kind, const struct sketch_slot *slot,
                     struct json_writer *out)
{
    json_begin(out);
    json_uint(out, "worker", engine->context.worker_index);
    json_text(out, "kind", kind);
    json_text(out, "name", slot->text);
    json_uint(out, "requests", slot->count);
    json_uint(out, "at_least", slot->count - slot->error);
    return json_end(out);
}

bool inspect_busiest(struct engine *engine, const char *argument, uint64_t *cursor,
                     struct json_writer *out)
{
    const struct busiest *busiest = busiest_look(&engine->client);
    (void)argument;
    for (; busiest != NULL && *cursor < 2 * SKETCH_SLOTS; ++*cursor) {
        bool is_client = *cursor < SKETCH_SLOTS;
        const struct sketch *sketch = is_client ? &busiest->clients : &busiest->targets;
        uint64_t at = *cursor % SKETCH_SLOTS;
        if (at < sketch->used &&
            !put_slot(engine, is_client ? "client" : "target", &sketch->slots[at], out)) {
            return false;
        }
    }
    return true;
}
