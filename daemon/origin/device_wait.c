/* SPDX-License-Identifier: BSD-2-Clause */
#include "origin/device_wait.h"

#include "origin/device.h"
#include "origin/origin.h"
#include "origin/relay.h"
#include "origin/room.h"
#include "origin/side.h"

/* After how long one that is told to be silent, and for which nothing waits, gets another Ping:
 * with one half of the least PROBING_RATE. */
#define PROBE_AGAIN_MS (2u * MESSAGE_HEADER_LEN * 1000u)

/* --- who is away ------------------------------------------------------------ */

static struct origin *origin_at(const struct origin_side *side, const struct address *address)
{
    return origin_find(&side->origins, address, TRANSPORT_NONE);
}

bool device_is_silent(const struct origin_side *side, const struct address *address)
{
    const struct device *device = device_at(side, address);
    if (device == NULL || device->line.owner == NULL) {
        return false;
    }
    const struct origin *origin = origin_at(side, address);
    const struct scheme *scheme = config_scheme_by_number(
        side->context.config, transport_row(device->line.transport)->number);
    return device->pings >= DEVICE_PINGS_SILENT ||
           (origin != NULL && scheme != NULL &&
            silence_is_on(&origin->silence, scheme, context_now_ms(&side->context)));
}

bool device_holds_back(const struct origin_side *side, const struct sending *sending)
{
    return side->context.config->devices_wait > 0 &&
           device_is_silent(side, &sending->origin->address);
}

bool device_is_away(const struct origin_side *side, const struct sending *sending)
{
    return sending->is_device && side->context.config->devices_wait > 0 &&
           (!device_has_line(side, &sending->origin->address) ||
            device_is_silent(side, &sending->origin->address));
}

void device_note_silence(struct origin_side *side, const struct sending *sending, uint64_t since_ms)
{
    const struct device *device =
        sending->is_device && sending->origin != NULL && side->context.config->devices_wait > 0
            ? device_at(side, &sending->origin->address)
            : NULL;
    if (device == NULL || device->line.owner == NULL || device->line.calls->take_mid != NULL ||
        device->heard_ms > since_ms || sending->origin->silence.bytes > 0) {
        return;
    }
    silence_on_send(&sending->origin->silence, MESSAGE_HEADER_LEN, since_ms);
    origin_probe(side, sending->origin);
}

bool device_was_away(struct origin_side *side, struct sending *sending)
{
    uint64_t now_ms = context_now_ms(&side->context);
    uint64_t waited_ms = side->context.config->limits_origin_queue_time;
    if (sending->waiting_bytes == 0 && now_ms > waited_ms) {
        device_note_silence(side, sending, now_ms - waited_ms);
    }
    return device_is_away(side, sending);
}

void device_probe(struct origin_side *side, const struct address *address)
{
    struct origin *origin = origin_at(side, address);
    uint64_t now_ms = context_now_ms(&side->context);
    if (origin != NULL && origin->silence.bytes > 0 && now_ms >= origin->ping_ms) {
        carrier_device.ping(side, origin);
        origin->ping_ms = now_ms + PROBE_AGAIN_MS;
    }
}

/* --- waiting ---------------------------------------------------------------- */

bool sending_await_device(struct origin_side *side, struct sending *sending)
{
    uint64_t until_ms = context_now_ms(&side->context) + side->context.config->devices_wait;
    if (!room_to_wait(side, sending)) {
        return false;
    }
    sending->deadline_ms = until_ms + context_patience_ms(&side->context, sending->is_for_http);
    sending_event(side, sending, EVENT_away, sending->origin->queue.count);
    if (sending->is_relayed) {
        relay_tell_wait(sending);
    }
    sending_await_turn(side, sending, until_ms);
    return true;
}

enum reason device_wait_longer(struct origin_side *side, struct sending *sending)
{
    bool has_waited = sending->waiting_bytes > 0;
    if (has_waited || !sending_may_wait(side, sending)) {
        return device_has_line(side, &sending->origin->address) ? REASON_origin_timeout
                                                                : REASON_device_gone;
    }
    return sending_await_device(side, sending) ? REASON_none : REASON_origin_busy;
}

/* One of the queue, when the session has ended. @return REASON_none, or why it cannot wait */
static enum reason wait_for_next(struct origin_side *side, struct sending *sending)
{
    if (sending->waiting_bytes > 0) {
        return REASON_none;
    }
    if (!sending_may_wait(side, sending)) {
        return REASON_device_gone;
    }
    return sending_await_device(side, sending) ? REASON_none : REASON_origin_busy;
}

void device_wait_on(struct origin_side *side, const struct device *device)
{
    const struct config *config = side->context.config;
    const struct address address = {.family = ADDRESS_DEVICE, .scope = device->number};
    struct origin *origin = origin_at(side, &address);
    struct list_node *next;
    if (origin == NULL || config->devices_wait == 0 || device_has_line(side, &address)) {
        return;
    }
    for (struct list_node *node = origin->queue.list.first; node != NULL; node = next) {
        struct sending *sending = HASH_ENTRY(node, struct sending, queued.node);
        next = node->next;
        if (sending->is_relayed) {
            sending_give_way(side, sending, REASON_device_gone); /* it waits at its own worker */
        }
    }
    while (origin->queue.count > config->devices_wait_requests) {
        sending_give_way(side, HASH_ENTRY(origin->queue.list.last, struct sending, queued.node),
                         REASON_origin_busy);
    }
    for (struct list_node *node = origin->queue.list.first; node != NULL; node = next) {
        struct sending *sending = HASH_ENTRY(node, struct sending, queued.node);
        enum reason reason = wait_for_next(side, sending);
        next = node->next; /* now: the last one may have given way */
        if (reason != REASON_none) {
            sending_give_way(side, sending, reason);
        }
    }
}
