/* SPDX-License-Identifier: BSD-2-Clause */
#include "fetch/forward.h"

#include "cache/freshness.h"
#include "coap/block.h"
#include "coap/option.h"
#include "conf/device.h"
#include "context/capture.h"
#include "context/faults.h"
#include "fetch/admit.h"
#include "fetch/group.h"
#include "fetch/hops.h"
#include "fetch/keyring.h"
#include "fetch/redirect.h"
#include "fetch/self.h"
#include "fetch/side.h"
#include "fetch/transfer.h"
#include "origin/device_wait.h"

#include <stdlib.h>
#include <string.h>

/* --- receive ------------------------------------------------------------ */

static struct fetch *fetch_of_sending(struct sending *sending)
{
    return HASH_ENTRY(sending, struct fetch, sending);
}

/*
 * RFC 7959 section 2.2: size 7 is for reliable transports, and a block that more follow is
 * whole. How a client would take another one is unknown (BLK-3, BLK-6).
 */
static bool is_good_block(const struct message *message, const struct option *option,
                          const struct scheme *scheme)
{
    const struct block block = block_of(option->value);
    if (transport_is_datagram(scheme->transport) && block.szx == BLOCK_SZX_BERT) {
        return false;
    }
    return option->number == OPTION_block1 || CODE_CLASS(message->code) != 2 || !block.more ||
           block_fits_payload(&block, message->payload.len);
}

/*
 * An unsafe option that is not recognised makes an answer unusable (OPT-8, OPT-9). Otherwise all
 * were looked at: @p ret_absent is for a struct reply.
 */
static bool has_bad_option(const struct message *message, const struct scheme *scheme,
                           uint64_t *ret_absent)
{
    struct option_iter iter;
    struct option option;
    const struct option_row *last = NULL;
    uint64_t present = 0;
    option_iter_init(&iter, message->options);
    while (option_iter_next(&iter, &option)) {
        present |= reply_bit(option.number);
        const struct option_row *row = option_row(option.number);
        bool is_recognised = row != NULL && row->in_response != OPTION_USE_NONE &&
                             option_length_is_good(row, option.value) &&
                             (row != last || row->repeats_in_response);
        last = row;
        bool is_block = option.number == OPTION_block1 || option.number == OPTION_block2;
        if (!is_recognised && option_is_unsafe(option.number)) {
            return true;
        }
        if (is_block && !is_good_block(message, &option, scheme)) {
            return true;
        }
    }
    *ret_absent = ~present;
    return false;
}

/* 2.31 asks for the next block (RFC 7959 section 2.9.1): of a request that has one. */
static bool is_stray_continue(const struct fetch *fetch)
{
    struct message request;
    struct bytes block1;
    return message_decode(fetch->sending.datagram, fetch->sending.datagram_len, &request) !=
               MESSAGE_OK ||
           !option_find(request.options, OPTION_block1, &block1) || !block_of(block1).more;
}

/*
 * A 5.08 on its way back takes our name along (HOP-5). One that has it already is not
 * passed on: the request has come around, and the 5.08 that says so is our own (HOP-6).
 */
static void pass_hop_limit_back(struct fetch_side *side, struct fetch *fetch,
                                const struct reply *reply)
{
    char names[HOPS_NAMES_MAX + 1];
    struct reply named = *reply;
    size_t len = 0;
    switch (hops_pass_back(side->context.config, reply->payload, names, &len)) {
    case HOPS_LOOP:
        names[len] = '\0';
        fetch_fail(side, fetch, REASON_hop_loop, names);
        return;
    case HOPS_NAMED:
        named.payload = (struct bytes){(const uint8_t *)names, len};
        break;
    case HOPS_UNCHANGED:
        break;
    }
    cached_answer(side, fetch, &named);
}

bool receive_is_usable(const struct message *message, const struct scheme *scheme,
                       uint64_t *ret_absent)
{
    unsigned class = CODE_CLASS(message->code);
    bool is_good_code = message->code == CODE(2, 31) ? options_have(message->options, OPTION_block1)
                                                     : class == 2 || class == 4 || class == 5;
    return is_good_code && !has_bad_option(message, scheme, ret_absent); /* MSG-40, MSG-41 */
}

/*
 * A response to the request of a fetch, whatever transport brought it: checked, and given to its
 * waiter or turned into a failure. The message layer has done its part. The fetch may be freed.
 */
static void forward_on_response(struct origin_side *below, struct sending *sending,
                                const struct message *message, bool truncated)
{
    struct fetch_side *side = fetch_side_of(below);
    struct fetch *fetch = fetch_of_sending(sending);
    trail_event(&side->context, fetch->trail, EVENT_answer, (uint32_t)message->payload.len);
    if (fetch->asking.name != NULL) { /* a notification: its address is in use still */
        names_forget(&side->origin, &fetch->asking);
        timer_cancel(&side->context.wheel, &fetch->timer);
    }
    if (truncated) {
        fetch_fail(side, fetch, REASON_response_too_large, NULL);
        return;
    }
    /* Before anything in it counts: libcoap's 4.02 has the option that it does not know. */
    if (fetch->hop.is_parent && rename_and_ask_again(side, fetch, message->code)) {
        return;
    }
    uint64_t absent = 0;
    if (!receive_is_usable(message, fetch->hop.scheme, &absent) ||
        (message->code == CODE(2, 31) && is_stray_continue(fetch))) {
        fetch_fail(side, fetch, REASON_origin_invalid, NULL);
        return;
    }
    if (side->context.lab != 0 && capture_takes_answers(&side->context)) {
        fetch_tell_answer(side, fetch, message);
    }
    if (message->code == CODE(4, 29)) {
        throttle_note(&side->origin, &fetch->target, fetch->sending.datagram[1],
                      freshness_max_age_s(message->options));
    }
    struct reply reply = {
        .code = message->code,
        .options = message->options,
        .absent = absent,
        .payload = message->payload,
    };
    /* With a diagnostic payload, not a representation (RFC 7252 section 5.5.2). */
    if (message->code == CODE(5, 8) && !options_have(message->options, OPTION_content_format)) {
        pass_hop_limit_back(side, fetch, &reply);
    } else {
        cached_answer(side, fetch, &reply);
    }
}

/* --- forward ------------------------------------------------------------ */

/* --- what comes of it --------------------------------------------------- */

/*
 * Send to its origin server, or wait for the window. If @p is_new, that server is chosen now: the
 * first candidate, from the present one on, that can be asked from here.
 */
static void enqueue(struct fetch_side *side, struct fetch *fetch, bool is_new);

/*
 * The candidate address failed for @p reason: try the next one, or end.
 *
 * @param text diagnostic payload; NULL or "": the reason's own.
 */
static void forward_failed(struct fetch_side *side, struct fetch *fetch, enum reason reason,
                           const char *text);

/* It has left, at once or from the queue. */
static void forward_note_sent(struct fetch_side *side, struct fetch *fetch)
{
    fetch_set_state(side, fetch, FETCH_sent);
    if (fetch->sending.is_group) {
        group_collect(side, fetch);
    }
}

static void forward_on_sent(struct origin_side *below, struct sending *sending)
{
    struct fetch_side *side = fetch_side_of(below);
    forward_note_sent(side, fetch_of_sending(sending));
}

static void forward_on_acknowledged(struct origin_side *below, struct sending *sending)
{
    struct fetch_side *side = fetch_side_of(below);
    struct fetch *fetch = fetch_of_sending(sending);
    fetch_set_state(side, fetch, FETCH_acknowledged);
    trail_event(&side->context, fetch->trail, EVENT_acknowledged, 0);
}

static void forward_on_member(struct origin_side *below, struct sending *sending,
                              const struct message *response, const struct address *remote)
{
    struct fetch_side *side = fetch_side_of(below);
    group_on_response(side, fetch_of_sending(sending), response, remote);
}

static void forward_on_redirect(struct origin_side *below, struct sending *sending,
                                struct bytes cri)
{
    redirect_follow(fetch_side_of(below), fetch_of_sending(sending), cri);
}

/*
 * Its device is there, or it may wait for that, and has its time afterwards; not where it would not
 * wait, or an answer that is no longer fresh may be given in place of the device's.
 */
static bool expect_device(struct fetch_side *side, struct fetch *fetch)
{
    const struct config *config = side->context.config;
    uint64_t until_ms = context_now_ms(&side->context) + config->devices_wait;
    uint64_t patience_ms = context_patience_ms(&side->context, fetch->sending.is_for_http);
    const struct address *address = &fetch->candidates[fetch->candidate];
    if (device_has_line(&side->origin, address) &&
        (config->devices_wait == 0 || !device_is_silent(&side->origin, address))) {
        return true;
    }
    /* Else a stale answer would hide that it is back. */
    device_probe(&side->origin, address);
    fetch->sending.deadline_ms = until_ms + patience_ms;
    return config->devices_wait > 0 && !cached_can_help(side, fetch);
}

/*
 * Its session has ended. Where another one is there, or waited for, what does the same again as
 * once (RFC 7252 section 5.1, RFC 8132) is sent over that one, and nothing twice.
 */
static bool may_go_on(const struct fetch_side *side, const struct fetch *fetch, enum reason reason)
{
    uint8_t method = fetch->sending.datagram[1];
    bool is_repeatable =
        fetch->is_safe || method == CODE_PUT || method == CODE_DELETE || method == CODE_IPATCH;
    bool is_known = fetch->hop.is_device &&
                    device_at(&side->origin, &fetch->candidates[fetch->candidate]) != NULL;
    bool may_repeat = !fetch->sending.is_sent || (is_repeatable && !fetch->went_on);
    return reason == REASON_device_gone && is_known && may_repeat &&
           device_line_is_over(&side->origin, &fetch->sending) &&
           (fetch->state == FETCH_sent || fetch->state == FETCH_acknowledged);
}

static void forward_on_failure(struct origin_side *below, struct sending *sending,
                               enum reason reason, const char *text)
{
    struct fetch_side *side = fetch_side_of(below);
    struct fetch *fetch = fetch_of_sending(sending);
    bool had_session = sending->has_oscore || transport_has_session(sending->scheme->transport);
    if (had_session && reason != REASON_displaced && fetch_lost(side, fetch)) {
        return; /* it is registered again (RFC 8323 section 7.4) */
    }
    if (may_go_on(side, fetch, reason) && expect_device(side, fetch)) {
        fetch->went_on = fetch->went_on || sending->is_sent;
        trail_event(&side->context, fetch->trail, EVENT_another_session, 0);
        sending_take_back(&side->origin, sending);
        enqueue(side, fetch, false);
        return;
    }
    forward_failed(side, fetch, reason, text);
}

static void forward_on_timeout(struct origin_side *below, struct sending *sending,
                               enum reason reason)
{
    struct fetch_side *side = fetch_side_of(below);
    struct fetch *fetch = fetch_of_sending(sending);
    if (fetch->may_stay_unanswered &&
        (sending->stage == SENDING_ACKNOWLEDGED || !sending->is_confirmable)) {
        fetch_fail(side, fetch, REASON_unanswered, NULL);
    } else {
        fetch_fail(side, fetch, reason, NULL);
    }
}

static void forward_on_event(struct origin_side *below, struct sending *sending,
                             enum event_kind kind, uint32_t number)
{
    struct fetch_side *side = fetch_side_of(below);
    trail_event(&side->context, fetch_of_sending(sending)->trail, kind, number);
}

static struct sending *sending_by_token(struct origin_side *below, struct bytes token)
{
    struct fetch_side *side = fetch_side_of(below);
    struct fetch *fetch = fetch_by_token(&side->fetches, token);
    return fetch != NULL ? &fetch->sending : NULL;
}

/*
 * Where several wait for the fetch, the one that it was made for pays, even when that one is gone:
 * the others have added nothing to what it holds.
 */
static const struct address *forward_source_of(struct origin_side *below, struct sending *sending)
{
    const struct fetch *fetch = fetch_of_sending(sending);
    (void)below;
    return fetch->payer.family != ADDRESS_NONE ? &fetch->payer : &fetch->asker->path.remote;
}

static bool forward_may_wait(struct origin_side *below, struct sending *sending)
{
    return !cached_can_help(fetch_side_of(below), fetch_of_sending(sending));
}

static void forward_each(struct origin_side *below, void (*visit)(struct sending *sending))
{
    struct fetch_table *table = &fetch_side_of(below)->fetches;
    for (uint32_t i = 0; i < table->free.used; i++) {
        struct fetch *fetch = &table->slots[i];
        if (fetch->state != FETCH_free && fetch->sending.origin != NULL) {
            visit(&fetch->sending);
        }
    }
}

static bool forward_pass_on(struct origin_side *below, struct sending *sending)
{
    struct fetch *fetch = fetch_of_sending(sending);
    const uint32_t bits = below->context.config->limits_ipv6_prefix;
    const struct address payer = account_source(forward_source_of(below, sending), bits);
    for (struct list_node *node = fetch->waiters.first; node != NULL; node = node->next) {
        const struct waiter *waiter = HASH_ENTRY(node, struct waiter, node);
        const struct address source = account_source(&waiter->asker->path.remote, bits);
        if (!address_equal(&source, &payer)) {
            fetch->payer = waiter->asker->path.remote;
            return true;
        }
    }
    return false;
}

static uint64_t forward_exchange_of(struct origin_side *below, struct sending *sending)
{
    (void)below;
    return fetch_of_sending(sending)->trail->id;
}

static struct fault *forward_find_fault(struct origin_side *below, struct sending *sending)
{
    const struct fetch *fetch = fetch_of_sending(sending);
    return faults_of_target(&below->context, redirect_target(fetch), &fetch->asker->path.remote);
}

/* The name that a certificate has to be for: as it was asked for (SEC-12), or the parent's. */
static const char *host_of(const struct next_hop *hop, char *buffer, size_t capacity)
{
    size_t len = hop->name.len;
    if (!hop->is_name || len >= capacity) {
        return NULL;
    }
    if (len > 1 && hop->name.data[len - 1] == '.') {
        len--; /* a fully qualified name: SNI and certificates have it without (RFC 6066) */
    }
    memcpy(buffer, hop->name.data, len);
    buffer[len] = '\0';
    return buffer;
}

/* What the configuration has for an HTTP target is for requests that a rule names (CH-12). */
static void find_web_credentials(struct fetch_side *side, const struct fetch *fetch,
                                 struct carrier_way *ret_way)
{
    const struct config *config = side->context.config;
    bool is_secure = fetch->hop.scheme->transport == TRANSPORT_HTTPS;
    bool is_named =
        config->has_web_credentials && (fetch->redirect == NULL || !fetch->redirect->has_left) &&
        admit_is_named(side, fetch->asker, redirect_target(fetch), fetch->sending.datagram[1]);
    ret_way->credentials = is_secure ? keyring_find(config, fetch) : NULL;
    if (is_named) {
        ret_way->lines = keyring_lines(config, fetch, &ret_way->line_count);
        ret_way->shows_certificate = is_secure && keyring_has_certificate(config, fetch);
    }
}

static void forward_find_way(struct origin_side *below, struct sending *sending,
                             struct carrier_way *ret_way)
{
    struct fetch_side *side = fetch_side_of(below);
    struct fetch *fetch = fetch_of_sending(sending);
    ret_way->source = fetch->asker->path.remote;
    ret_way->client = fetch->asker->serial;
    if (fetch->hop.is_recording) {
        const struct config_route *route = route_recorded(side->context.config, &fetch->hop);
        ret_way->target = &fetch->target;
        ret_way->recording = route != NULL ? route->recording : NULL;
        ret_way->speed = route != NULL ? route->speed : 1;
        return;
    }
    ret_way->host = host_of(&fetch->hop, ret_way->room, sizeof(ret_way->room));
    ret_way->lines = NULL;
    ret_way->line_count = 0;
    ret_way->shows_certificate = false;
    ret_way->oscore =
        fetch->hop.has_oscore ? keyring_find_oscore(side->context.config, fetch) : NULL;
    if (transport_is_http(sending->scheme->transport)) {
        find_web_credentials(side, fetch, ret_way);
    } else {
        ret_way->credentials = keyring_find(side->context.config, fetch);
    }
}

const struct sending_calls forward_calls = {
    .on_sent = forward_on_sent,
    .on_acknowledged = forward_on_acknowledged,
    .on_response = forward_on_response,
    .on_member = forward_on_member,
    .on_redirect = forward_on_redirect,
    .on_failure = forward_on_failure,
    .on_timeout = forward_on_timeout,
    .on_event = forward_on_event,
    .by_token = sending_by_token,
    .source_of = forward_source_of,
    .each = forward_each,
    .pass_on = forward_pass_on,
    .may_wait = forward_may_wait,
    .exchange_of = forward_exchange_of,
    .find_fault = forward_find_fault,
    .find_way = forward_find_way,
};

/* --- where to ----------------------------------------------------------- */

static void keep_reason(struct fetch *fetch, enum reason reason, const char *text)
{
    free(fetch->kept_text);
    fetch->kept_text = text != NULL ? strdup(text) : NULL; /* without memory: the reason's own */
    fetch->kept_reason = reason;
}

/*
 * No address is left. Where an earlier one had a server, and this one has none, that one's reason
 * says more. Not to a registration: what may pass in a moment at one address has it tried again.
 */
static void fail_at_last(struct fetch_side *side, struct fetch *fetch, enum reason reason,
                         const char *text)
{
    const struct reason_row *row = reason_row(reason);
    if (fetch->kept_reason != REASON_none && row->may_do_better_elsewhere && !row->is_kept &&
        !fetch->sending.is_kept) {
        reason = fetch->kept_reason;
        text = fetch->kept_text;
    }
    fetch_fail(side, fetch, reason, text);
}

static void enqueue(struct fetch_side *side, struct fetch *fetch, bool is_new)
{
    fetch_set_state(side, fetch, FETCH_queued);
    timer_cancel(&side->context.wheel, &fetch->timer);
    fetch->sending.scheme = fetch->hop.scheme;
    fetch->sending.is_device = fetch->hop.is_device;
    fetch->sending.is_recorded = fetch->hop.is_recording;
    fetch->sending.has_oscore = fetch->hop.has_oscore;
    enum reason reason = REASON_none;
    while (is_new &&
           (reason = sending_choose(&side->origin, &fetch->sending,
                                    &fetch->candidates[fetch->candidate])) == REASON_no_route &&
           fetch->candidate + 1 < fetch->candidate_count) {
        fetch->candidate++;
    }
    if (reason == REASON_none) {
        fetch->sending.is_group =
            fetch->is_group && address_is_multicast(&fetch->candidates[fetch->candidate]);
        reason = sending_start(&side->origin, &fetch->sending);
    }
    if (reason != REASON_none) {
        fail_at_last(side, fetch, reason, NULL);
    } else if (fetch->sending.stage == SENDING_OUT) {
        forward_note_sent(side, fetch);
    }
}

/*
 * A name may lead where a literal address would not be let (ERR-12, MCAST-3). An address
 * that the request named was asked about as the target; a parent proxy is the
 * configuration's choice, and looks after what it forwards to itself. Gives @p address the
 * interface that it has by default.
 */
static enum reason reason_against(struct fetch_side *side, struct fetch *fetch,
                                  struct address *address)
{
    /* A link-local address needs an interface: the operator's, or one that clients may use. */
    bool has_zone = fetch->hop.is_parent && address->scope != 0;
    if (!has_zone && address_is_ipv6_link_local(address) && !zones_admit(zones_of(side), address)) {
        return REASON_zone_needed;
    }
    if (fetch->is_group || address_is_multicast(address)) {
        enum reason reason =
            group_reason_against(side->context.config, &fetch->hop, fetch->is_group, address);
        if (reason != REASON_none) {
            return reason;
        }
    }
    if (fetch->hop.is_parent && address_is_unspecified(address)) {
        return REASON_target_refused; /* Linux would take it for the host itself */
    }
    const struct target *target = redirect_target(fetch);
    if (!target->is_name || fetch->hop.is_parent) {
        return REASON_none;
    }
    return admit_address(side, fetch->asker, target, fetch->sending.datagram[1], address);
}

/* A request that is sent again stays at its address for as long as the name has that one. */
static void prefer_present(struct fetch *fetch)
{
    for (unsigned i = 1; fetch->sending.origin != NULL && i < fetch->candidate_count; i++) {
        struct address address = fetch->candidates[i];
        if (address_equal(&address, &fetch->sending.origin->address)) {
            fetch->candidates[i] = fetch->candidates[0];
            fetch->candidates[0] = address;
            return;
        }
    }
}

/* Send what was sent before once more, to its present address if that is the first candidate. */
static void try_again(struct fetch_side *side, struct fetch *fetch)
{
    const struct origin *origin = fetch->sending.origin;
    prefer_present(fetch);
    if (origin != NULL && address_equal(&fetch->candidates[0], &origin->address)) {
        enqueue(side, fetch, false);
        return;
    }
    forward_release(side, fetch); /* what still comes from there is rejected */
    trail_event(&side->context, fetch->trail, EVENT_next_address, 1);
    enqueue(side, fetch, true);
}

/* The way leads to one of our own listeners. */
static void meet_ourselves(struct fetch_side *side, struct fetch *fetch)
{
    if (fetch->redirect != NULL) {
        fetch_fail(side, fetch, REASON_redirect_refused, NULL);
    } else if (fetch->hop.is_parent) {
        fetch_fail(side, fetch, REASON_route_loop, NULL);
    } else {
        self_answer(side, fetch); /* TGT-4 */
    }
}

/*
 * The addresses of its name are known; copied. The fetch fails, and may be freed, where none of
 * them may be used.
 */
static void forward_with_addresses(struct fetch_side *side, struct fetch *fetch,
                                   const struct address *addresses, size_t count)
{
    const size_t max = sizeof(fetch->candidates) / sizeof(fetch->candidates[0]);
    enum reason against = REASON_target_refused;
    keep_reason(fetch, REASON_none, NULL);
    fetch->candidate = 0;
    fetch->candidate_count = 0;
    for (size_t i = 0; i < count && fetch->candidate_count < max; i++) {
        struct address address = addresses[i];
        address.port = fetch->hop.port;
        /* A name by default that leads to where it came in is the proxy's own (TGT-5). */
        bool is_entrance = redirect_target(fetch)->is_entrance_name &&
                           address_same_host(&address, &fetch->asker->path.local);
        if (is_entrance || own_hosts_has_entrance(&side->own, context_now_ms(&side->context),
                                                  fetch->hop.scheme->transport, &address)) {
            meet_ourselves(side, fetch);
            return;
        }
        against = reason_against(side, fetch, &address);
        if (against == REASON_none) {
            fetch->candidates[fetch->candidate_count++] = address;
        }
    }
    if (fetch->candidate_count == 0) {
        fetch_fail(side, fetch, against, NULL);
    } else if (fetch->sending.origin != NULL) {
        try_again(side, fetch);
    } else {
        enqueue(side, fetch, true);
    }
}

/*
 * There is no address, for @p reason. A registration that is renewed stays where it is, as only an
 * answer that the name has other addresses, or none, replaces those that were in use (RFC 8767
 * section 4).
 */
static void go_without_name(struct fetch_side *side, struct fetch *fetch, enum reason reason)
{
    if (fetch->sending.origin != NULL && reason != REASON_name_unresolvable) {
        forward_with_addresses(side, fetch, &fetch->sending.origin->address, 1);
    } else {
        fetch_fail(side, fetch, reason, NULL);
    }
}

void forward_on_name(struct origin_side *below, struct name_wait *wait,
                     const struct name_result *result)
{
    struct fetch_side *side = fetch_side_of(below);
    struct fetch *fetch = HASH_ENTRY(wait, struct fetch, asking);
    timer_cancel(&side->context.wheel, &fetch->timer);
    if (result->reason != REASON_none) {
        go_without_name(side, fetch, result->reason);
        return;
    }
    trail_event(&side->context, fetch->trail, EVENT_resolved, (uint32_t)result->address_count);
    forward_with_addresses(side, fetch, result->addresses, result->address_count);
}

static void ask_for_name(struct fetch_side *side, struct fetch *fetch)
{
    fetch->asking.text = fetch->hop.name;
    fetch->asking.client = fetch->asker->path.remote;
    fetch->asking.is_operators = fetch->hop.is_parent;
    if (names_resolve(&side->origin, &fetch->asking)) {
        fetch_set_state(side, fetch, FETCH_resolving);
        trail_event(&side->context, fetch->trail, EVENT_resolving, 0);
        fetch_set_deadline(side, fetch);
    }
}

/* The session that a device has opened may be another one than last time. */
static void start_to_device(struct fetch_side *side, struct fetch *fetch)
{
    struct next_hop hop;
    const struct config_route *route;
    const struct bytes name = target_below(&fetch->target, side->context.config->devices_zone);
    enum reason reason =
        fetch->is_group ? REASON_option_unknown : route_take(side, &fetch->target, &hop, &route);
    if (reason == REASON_none && !device_address(&side->origin, name, &fetch->candidates[0])) {
        reason = REASON_proxy_busy;
    }
    if (reason != REASON_none) {
        fetch_fail(side, fetch, reason, NULL);
        return;
    }
    fetch->candidate = 0;
    if (!expect_device(side, fetch)) {
        fetch_fail(side, fetch, REASON_device_gone, NULL);
        return;
    }
    fetch->hop.scheme = hop.scheme;
    fetch->candidate_count = 1;
    if (fetch->sending.origin != NULL) {
        try_again(side, fetch);
    } else {
        enqueue(side, fetch, true);
    }
}

static void start_to_recording(struct fetch_side *side, struct fetch *fetch)
{
    const struct config *config = side->context.config;
    const struct config_route *route = route_recorded(config, &fetch->hop);
    if (route == NULL || fetch->is_group) {
        fetch_fail(side, fetch,
                   fetch->is_group ? REASON_option_unknown : REASON_recording_unmatched, NULL);
        return;
    }
    fetch->candidates[0] = (struct address){.family = ADDRESS_RECORDING,
                                            .scope = (uint32_t)(route - config->routes) + 1};
    fetch->candidate = 0;
    fetch->candidate_count = 1;
    if (fetch->sending.origin != NULL) {
        try_again(side, fetch);
    } else {
        enqueue(side, fetch, true);
    }
}

void forward_start(struct fetch_side *side, struct fetch *fetch)
{
    if (fetch->hop.is_recording) {
        start_to_recording(side, fetch);
    } else if (fetch->hop.is_device) {
        start_to_device(side, fetch);
    } else if (fetch->hop.is_name) {
        ask_for_name(side, fetch);
    } else {
        forward_with_addresses(side, fetch, &fetch->hop.address, 1);
    }
}

/* Another address only where this one cannot have acted on the request, or may twice. */
static bool may_try_next(const struct fetch *fetch, enum reason reason)
{
    return fetch->state == FETCH_sent && reason_row(reason)->may_do_better_elsewhere &&
           fetch->candidate + 1 < fetch->candidate_count &&
           (fetch->is_safe || !fetch_may_have_acted(fetch, reason));
}

static void forward_failed(struct fetch_side *side, struct fetch *fetch, enum reason reason,
                           const char *text)
{
    if (!may_try_next(fetch, reason)) {
        fail_at_last(side, fetch, reason, text);
        return;
    }
    if (reason_row(reason)->is_kept && fetch->kept_reason == REASON_none) {
        keep_reason(fetch, reason, text);
    }
    forward_release(side, fetch);
    fetch->candidate++;
    trail_event(&side->context, fetch->trail, EVENT_next_address, fetch->candidate + 1u);
    enqueue(side, fetch, true);
}

void forward_keep(struct fetch_side *side, struct fetch *fetch)
{
    timer_cancel(&side->context.wheel, &fetch->timer);
    /* From now on no client waits for an answer by HTTP's times (RFC 8075 section 8.5). */
    fetch->sending.is_for_http = false;
    sending_keep(&side->origin, &fetch->sending);
    fetch_set_state(side, fetch, FETCH_observing);
}

void forward_park(struct fetch_side *side, struct fetch *fetch)
{
    forward_release(side, fetch);
    fetch_set_state(side, fetch, FETCH_observing);
}

/* A new time begins for what is sent again. */
static void begin_fetch_anew(const struct fetch_side *side, struct fetch *fetch)
{
    fetch->sending.has_malformed = false;
    fetch->sending.deadline_ms = context_now_ms(&side->context) +
                                 context_patience_ms(&side->context, fetch->sending.is_for_http);
}

void forward_again(struct fetch_side *side, struct fetch *fetch)
{
    if (fetch->redirect != NULL) {
        forward_release(side, fetch);
        redirect_forget(fetch);
    }
    begin_fetch_anew(side, fetch);
    if (fetch->sending.origin == NULL || fetch->hop.is_name) {
        forward_start(side, fetch); /* a name may have other addresses by now */
    } else {
        enqueue(side, fetch, false);
    }
}

void forward_renamed(struct fetch_side *side, struct fetch *fetch)
{
    names_forget(&side->origin, &fetch->asking);
    enqueue(side, fetch, fetch->sending.origin == NULL);
}

bool forward_deregister(struct fetch_side *side, struct fetch *fetch)
{
    if (transport_is_http(fetch->hop.scheme->transport)) {
        return false; /* it polls, the server knows of nothing */
    }
    size_t capacity =
        fetch->memory.capacity - (size_t)(fetch->sending.datagram - fetch->memory.bytes);
    size_t len =
        encode_deregistration(fetch->sending.datagram, fetch->sending.datagram_len, capacity);
    if (len == 0) {
        return false;
    }
    fetch->sending.datagram_len = (uint32_t)len;
    begin_fetch_anew(side, fetch);
    enqueue(side, fetch, false);
    return true;
}

void forward_release(struct fetch_side *side, struct fetch *fetch)
{
    if (fetch->transfer != NULL) {
        transfer_cancel(side, fetch);
    }
    if (fetch->asking.name != NULL) {
        names_forget(&side->origin, &fetch->asking);
    }
    timer_cancel(&side->context.wheel, &fetch->timer);
    /* Else it holds nothing, but a word that it has made room (sending_displace()). */
    if (fetch->sending.origin != NULL || timer_is_set(&fetch->sending.timer)) {
        sending_release(&side->origin, &fetch->sending);
    }
}
