/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting for devices that are away (devices.wait): a device without a session, or one that is
 * silent on the session that it has. What waits is in the queue of the device, and is sent when
 * the device has another session, or is heard of on the one it has; not before, so that a request
 * is not spent on a device that sleeps. Meanwhile a silent one gets Pings.
 *
 * Silent is a device
 * - on datagrams: as any origin server is (struct silence);
 * - on a connection, which acknowledges nothing: when nothing at all has come over it for as long
 *   as a request was out in vain, or waited in vain for the window;
 * - on both, when two Pings of devices.keep-alive are unanswered.
 */
#ifndef CRIPROXY_DEVICE_WAIT_H
#define CRIPROXY_DEVICE_WAIT_H

#include "base/address.h"
#include "coap/reason.h"

#include <stdbool.h>
#include <stdint.h>

struct device;
struct origin_side;
struct sending;

/* Pings of devices.keep-alive that a device has left unanswered when it counts as silent. */
#define DEVICE_PINGS_SILENT 2u

/** Whether the device with @p address has a session with this worker, and is silent on it; cannot
 * fail. */
bool device_is_silent(const struct origin_side *side, const struct address *address);

/** Whether @p sending, which is to a device, has to wait until that is heard of, as it is silent;
 * cannot fail. */
bool device_holds_back(const struct origin_side *side, const struct sending *sending);

/** Whether @p sending is to a device that is away, and may wait for it; cannot fail. */
bool device_is_away(const struct origin_side *side, const struct sending *sending);

/**
 * @p sending has had nothing of its origin server since @p since_ms, of the clock in ms: if that is
 * a device on a connection, and nothing else came either, the device is silent since then, and gets
 * Pings while something waits. Cannot fail.
 */
void device_note_silence(struct origin_side *side, const struct sending *sending,
                         uint64_t since_ms);

/** As device_is_away(), where @p sending has been in the queue for limits.origin-queue-time; cannot
 * fail. */
bool device_was_away(struct origin_side *side, struct sending *sending);

/** The device with @p address gets a Ping, if it is silent and has had none of late. Cannot fail.
 */
void device_probe(struct origin_side *side, const struct address *address);

/**
 * @p sending is in the queue of a device that is away, and waits as devices.wait says. Its
 * time for an answer begins when it is sent (send_one(), origin/origin.c). Others there may make
 * room (origin/room.h).
 *
 * @return false where there is no room.
 */
bool sending_await_device(struct origin_side *side, struct sending *sending);

/**
 * @p sending has been in the queue for as long as it may, for the window or for its device, which
 * is away.
 *
 * @return REASON_none: from now on it waits for the device; else why it ends, for the caller to
 *         tell.
 */
enum reason device_wait_longer(struct origin_side *side, struct sending *sending);

/**
 * @p device has no session any more: what waited for its window waits for the next one, as far as
 * there is room, from the front. Cannot fail.
 */
void device_wait_on(struct origin_side *side, const struct device *device);

#endif
