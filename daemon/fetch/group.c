/* SPDX-License-Identifier: BSD-2-Clause */
#include "fetch/group.h"

#include "coap/option.h"
#include "fetch/forward.h"
#include "fetch/make.h"
#include "fetch/side.h"

static bool is_global(const struct address *address)
{
    return address->family == ADDRESS_IPV6 && (address->ip[1] & 0x0fu) == 0x0eu;
}

enum reason group_check(const struct config *config, const struct target *target,
                        const struct request_options *options)
{
    bool has_timeout = options->multicast_timeout.data != NULL;
    if (has_timeout && !config->multicast_enabled) {
        return REASON_option_unknown;
    }
    if (target->is_name) {
        return REASON_none; /* its addresses will show */
    }
    if (!address_is_multicast(&target->address)) {
        return has_timeout ? REASON_option_unknown : REASON_none;
    }
    if (target->scheme->transport != TRANSPORT_UDP || is_global(&target->address)) {
        return REASON_target_refused; /* SCH-6, MCAST-4, MCAST-16 */
    }
    if (options->block1.data != NULL) {
        return REASON_multicast; /* MCAST-15 */
    }
    return has_timeout ? REASON_none : REASON_group_timeout;
}

enum reason group_reason_against(const struct config *config, const struct next_hop *hop,
                                 bool is_group, const struct address *address)
{
    if (!address_is_multicast(address)) {
        return is_group ? REASON_option_unknown : REASON_none;
    }
    if (hop->scheme->transport != TRANSPORT_UDP) {
        return REASON_target_refused; /* SCH-6, MCAST-4: whatever is enabled or asked for */
    }
    if (!config->multicast_enabled || hop->is_parent || hop->has_oscore) {
        return REASON_multicast;
    }
    if (!is_group) {
        return REASON_group_timeout;
    }
    return is_global(address) ? REASON_target_refused : REASON_none;
}

static void on_time(void *context, struct timer *timer, uint64_t now_ms)
{
    (void)now_ms;
    fetch_fail(context, HASH_ENTRY(timer, struct fetch, timer), REASON_group_done, NULL);
}

void group_collect(struct fetch_side *side, struct fetch *fetch)
{
    uint64_t most_ms = side->context.config->multicast_timeout_max;
    uint64_t asked_ms = (uint64_t)fetch->group_timeout_s * 1000;
    metric_add(&side->context.metrics.group_requests, 1);
    fetch_set_state(side, fetch, FETCH_collecting);
    timer_set(&side->context.wheel, &fetch->timer,
              context_now_ms(&side->context) + (asked_ms < most_ms ? asked_ms : most_ms), on_time);
}

/* The member as a CRI of scheme and authority (draft-ietf-core-groupcomm-proxy section 3). */
static struct bytes reply_from(const struct fetch *fetch, const struct address *remote,
                               uint8_t room[NAMING_CRI_ROOM])
{
    size_t len = 0;
    const struct target member = {
        .scheme = fetch->hop.scheme,
        .address = *remote,
        .port = remote->port,
    };
    return (struct bytes){room, naming_cri(&member, room, &len) ? len : 0};
}

/* What a member says of itself is not told: only the proxy has seen where the answer came from. */
static bool is_no_reply_from(uint16_t number)
{
    return number != OPTION_reply_from;
}

void group_on_response(struct fetch_side *side, struct fetch *fetch, const struct message *message,
                       const struct address *remote)
{
    uint8_t room[NAMING_CRI_ROOM];
    uint64_t absent; /* of no use: it gets another option */
    if (fetch->group_timeout_s == 0 || !receive_is_usable(message, fetch->hop.scheme, &absent)) {
        return;
    }
    /* Free at this time: it is for requests while they are looked at. */
    struct message_writer writer = {.buffer = side->context.target_memory,
                                    .capacity = side->context.target_memory_bytes};
    const struct option member = {OPTION_reply_from, reply_from(fetch, remote, room)};
    message_writer_options(&writer, message->options, is_no_reply_from,
                           member.value.len > 0 ? &member : NULL);
    const struct reply reply = {
        .code = message->code,
        .options = {writer.buffer, writer.len},
        .payload = message->payload,
    };
    if (!writer.overflow) {
        metric_add(&side->context.metrics.group_responses, 1);
        const struct waiter *waiter = fetch_first_waiter(fetch); /* its key keeps others away */
        if (waiter != NULL && waiter->calls->on_member != NULL) {
            waiter->calls->on_member(side, waiter->owner, fetch, &reply);
        }
    }
}
