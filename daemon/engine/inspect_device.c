/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices of the configuration, with the sessions that they have opened, for criproxyctl. */
#include "conf/device.h"
#include "engine/engine.h"
#include "engine/inspect.h"
#include "origin/switchboard.h"

#include <string.h>

/* Sections that are looked at in one piece. */
#define PIECE_DEVICES 1024u

static void add_line(const struct engine *engine, const struct device *device,
                     struct json_writer *out)
{
    char address[ADDRESS_TEXT_MAX], identity[IDENTITY_TEXT_MAX];
    const struct device_line *line = &device->line;
    uint64_t now_ms = context_now_ms(&engine->context);
    json_text(out, "identity", identity_format(line->identity, identity));
    json_text(out, "scheme", transport_row(line->transport)->scheme);
    json_text(out, "address", address_format(&line->remote, address));
    json_uint(out, "since_s", (now_ms - device->since_ms) / 1000);
    json_uint(out, "heard_s", (now_ms - device->heard_ms) / 1000);
    if (line->transport == TRANSPORT_UDP) {
        json_uint(out, "lifetime_s", (device->until_ms - now_ms) / 1000);
    }
}

/* A device is told of by the worker that has its session; by the first where there is none. */
static bool is_told_here(const struct engine *engine, struct bytes name, uint32_t *ret_waiting)
{
    struct holder *holder = holder_acquire(engine->origin.switchboard, name);
    struct line_holding holding = holder != NULL ? holder_read(holder) : (struct line_holding){0};
    *ret_waiting = holder != NULL ? atomic_load(&holder->waiting) : 0;
    holder_release(holder);
    return engine->context.worker_index == (holding.is_held ? holding.worker : 0);
}

static bool add_device(const struct engine *engine, const struct config_device *row,
                       struct json_writer *out)
{
    const struct bytes name = {(const uint8_t *)row->name, strlen(row->name)};
    uint32_t waiting;
    if (!is_told_here(engine, name, &waiting)) {
        return true;
    }
    const struct device *device = device_named(&engine->origin, name);
    const struct address address = {.family = ADDRESS_DEVICE,
                                    .scope = device != NULL ? device->number : 0};
    const struct origin *origin = origin_find(&engine->origin.origins, &address, TRANSPORT_NONE);
    bool is_open = device != NULL && device->line.owner != NULL;
    json_begin(out);
    json_text(out, "device", row->name);
    json_text(out, "state", is_open ? "open" : "gone");
    if (is_open) {
        add_line(engine, device, out);
    }
    json_uint(out, "queued", is_open && origin != NULL ? origin->queue.count : waiting);
    json_uint(out, "observed", is_open ? device_count_observed(device) : 0);
    return json_end(out);
}

bool inspect_devices(struct engine *engine, const char *argument, uint64_t *cursor,
                     struct json_writer *out)
{
    const struct config *config = engine->context.config;
    uint64_t end = *cursor + PIECE_DEVICES;
    (void)argument;
    for (; *cursor < config->device_count; (*cursor)++) {
        if (*cursor == end || !add_device(engine, &config->devices[*cursor], out)) {
            return false;
        }
    }
    return true;
}
