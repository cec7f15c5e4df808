/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests to devices whose session another worker has (docs/DEVICES.md, section 3). The request
 * stays where its client is: cache, coalescing, observations and access rules are that worker's.
 * Only what carrier_device would send is passed on, and what has become of it is passed back.
 *
 *     worker of the client (asker)                      worker of the session (holder)
 *         carrier_device_send()                         its own struct sending, with a token of
 *           relay_send()  ------ order: message ----->    its own, in its queue and window
 *         sending_answered()    <------ news -----------  on_response
 *         sending_acknowledged()                          on_acknowledged
 *         its deadline moves                              relay_tell_wait()
 *         sending_failed()                                on_failure, on_timeout
 *         carrier_device_cancel()
 *           relay_cancel()  ---------- end ----------->  sending_release()
 *
 * A struct relay is memory of the asker's, counted: each worker, and each task on its way, has a
 * reference; the last one frees it, whichever thread that is in. Each field is of one worker, or
 * never changes. Tasks are posted with memory that is there already, but for orders, which are
 * refused without memory.
 *
 * News is a mailbox with room for one: what the asker has not yet looked at is replaced. So a
 * device that sends notifications faster than the asker reads leaves out states, as any slow
 * observer does (RFC 7641 section 1.3), and no queue grows. A request that is not kept has one
 * answer or failure, and an acknowledgement is posted only into an empty mailbox.
 *
 * A registration that is renewed on the same session is another order of the same relay, and keeps
 * its token, which is what the device knows it by.
 */
#ifndef CRIPROXY_RELAY_H
#define CRIPROXY_RELAY_H

#include "base/hash.h"
#include "base/list.h"
#include "coap/message.h"
#include "coap/reason.h"

struct config_device;
struct device;
struct line_holding;
struct origin_side;
struct queue_turn;
struct sending;
struct sending_calls;

/* Turns in queues here of clients of other workers; those that share one have one together. */
#define RELAY_TURNS 1024u

/* What a worker has of others' requests. */
struct relay_table {
    struct hash_map by_token; /* what it does for others, */
    uint32_t count;           /* as many of them */
    struct queue_turn *turns; /* RELAY_TURNS of them */
};

/** @return 0 or -ENOMEM */
int relay_table_init(struct relay_table *table, uint64_t seed);

/** Frees it, and what others have given; nothing is told any more. Takes a zeroed table. */
void relay_table_clear(struct relay_table *table);

/**
 * Pass the request on to the worker that @p holding says; again, if that has it already. The
 * caller sets what it waits for.
 *
 * @return REASON_none, and sending->relay is there until it is answered, failed or cancelled;
 *         REASON_proxy_busy without memory, or where others have too many of this worker's
 *         requests; REASON_device_gone where that worker is ending.
 */
enum reason relay_send(struct origin_side *side, struct sending *sending, struct device *device,
                       const struct line_holding *holding);

/** What another worker has of it is taken back; cannot fail. Takes one of which none has any. */
void relay_cancel(struct origin_side *side, struct sending *sending);

/** Likewise, and nothing is told there: both workers have ended. Cannot fail. */
void relay_abandon(struct sending *sending);

/** What is relayed waits for its device, which is silent: its asker is told. Cannot fail. */
void relay_tell_wait(struct sending *sending);

/** What is sent here for another worker under @p token, borrowed; NULL: nothing. */
struct sending *relay_by_token(const struct origin_side *side, struct bytes token);

/** The configuration has changed. Cannot fail. */
void relay_set_config(struct origin_side *side);

/* Of what a worker sends for another one. */
extern const struct sending_calls relay_calls;

#endif
