/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The client's request is gone by the time the answer comes. Our own is there still, and
 * has everything: all of its options go along again but those that name the target.
 */
#include "fetch/rename.h"

#include "base/log.h"
#include "coap/option.h"
#include "fetch/encode.h"
#include "fetch/forward.h"
#include "fetch/side.h"

#include <string.h>

/* The parent may be replaced by one that takes other forms. */
#define REMEMBERED_MS 600000u

/*
 * Requests to a parent that may be asked in every form in vain within a time. Refusals may be of
 * the target, and in a chain of proxies each would ask the next one three times: past this only
 * what has helped before is used.
 */
#define IN_VAIN_MAX 16u
#define IN_VAIN_MS 10000u

/* The forms of RFC 7252, the first to be tried first. */
static const enum config_route_form known_forms[] = {ROUTE_FORM_PROXY_SCHEME, ROUTE_FORM_PROXY_URI};

#define KNOWN_FORM_COUNT (sizeof(known_forms) / sizeof(known_forms[0]))

static unsigned form_bit(unsigned form)
{
    return 1u << form;
}

/* --- what is known about parents ---------------------------------------- */

enum config_route_form rename_form(const struct fetch_side *side, const struct next_hop *hop,
                                   enum config_route_form form)
{
    const struct parent_memory *memory = &side->parents;
    const struct parent_habits *habits = &memory->parents[hop->parent_index];
    if (memory->epoch != side->context.policy_epoch || (habits->refused & form_bit(form)) == 0 ||
        context_now_ms(&side->context) >= habits->refused_until_ms) {
        return form;
    }
    for (size_t i = 0; i < KNOWN_FORM_COUNT; i++) {
        if ((habits->taken & form_bit(known_forms[i])) != 0) {
            return known_forms[i];
        }
    }
    return form;
}

bool rename_host_is_bare(const struct fetch_side *side, const struct next_hop *hop)
{
    const struct parent_memory *memory = &side->parents;
    return memory->epoch == side->context.policy_epoch &&
           context_now_ms(&side->context) < memory->parents[hop->parent_index].bare_until_ms;
}

/* NULL where the fetch is from before a reload: its index says nothing any more. */
static struct parent_habits *habits_of(struct fetch_side *side, const struct fetch *fetch)
{
    struct parent_memory *memory = &side->parents;
    if (fetch->route_epoch != side->context.policy_epoch) {
        return NULL;
    }
    if (memory->epoch != side->context.policy_epoch) {
        *memory = (struct parent_memory){.epoch = side->context.policy_epoch};
    }
    return &memory->parents[fetch->hop.parent_index];
}

/* The parent has gone for the target: it takes the form, whatever it said to those before. */
static void learn(struct fetch_side *side, const struct fetch *fetch)
{
    struct parent_habits *habits = habits_of(side, fetch);
    uint64_t now_ms = context_now_ms(&side->context);
    if (habits == NULL) {
        return;
    }
    if (now_ms >= habits->taken_until_ms) {
        habits->taken = 0;
        habits->taken_until_ms = now_ms + REMEMBERED_MS;
    }
    if (fetch->hop.has_bare_ipv6) {
        habits->bare_until_ms = now_ms + REMEMBERED_MS;
    }
    habits->taken |= (uint8_t)form_bit(fetch->form);
    habits->refused &= (uint8_t)~form_bit(fetch->form);
    /* Proxy-Scheme is asked twice where the host was written in two ways. */
    uint8_t tried = (uint8_t)(fetch->forms_tried & ~form_bit(fetch->form));
    if (tried == 0) {
        return;
    }
    if (now_ms >= habits->refused_until_ms) {
        log_event(LOG_WARNING, "parent_takes_another_form", "route=%.*s form=%s",
                  (int)fetch->hop.route.len, (const char *)fetch->hop.route.data,
                  fetch->form == ROUTE_FORM_PROXY_URI ? "proxy-uri" : "proxy-scheme");
        habits->refused = 0;
    }
    habits->refused |= tried;
    habits->taken &= (uint8_t)~tried;
    habits->refused_until_ms = now_ms + REMEMBERED_MS;
    /* A choice that lasts as long as what made it necessary. */
    habits->taken_until_ms = habits->refused_until_ms;
}

/* Whether the parent is known to take the form: what it refuses is then not the form. */
static bool is_known_to_take(struct fetch_side *side, const struct fetch *fetch)
{
    const struct parent_habits *habits = habits_of(side, fetch);
    return habits != NULL && (habits->taken & form_bit(fetch->form)) != 0 &&
           context_now_ms(&side->context) < habits->taken_until_ms;
}

static bool may_be_in_vain(struct fetch_side *side, const struct fetch *fetch)
{
    const struct parent_habits *habits = habits_of(side, fetch);
    return habits == NULL || habits->in_vain < IN_VAIN_MAX ||
           context_now_ms(&side->context) >= habits->in_vain_until_ms;
}

static void note_in_vain(struct fetch_side *side, const struct fetch *fetch)
{
    struct parent_habits *habits = habits_of(side, fetch);
    uint64_t now_ms = context_now_ms(&side->context);
    if (habits == NULL) {
        return;
    }
    if (now_ms >= habits->in_vain_until_ms) {
        habits->in_vain = 0;
        habits->in_vain_until_ms = now_ms + IN_VAIN_MS;
    }
    habits->in_vain++;
}

/* --- another form ------------------------------------------------------- */

/* Codes with which parents refuse the option that names the target. */
static bool may_be_about_form(uint8_t code)
{
    return code == CODE(4, 2) || code == CODE(4, 0) || code == CODE(5, 1) || code == CODE(5, 5);
}

/* Whether to ask in another form: a 4.02 says that nothing was done, the others do not. */
static bool is_refusal(struct fetch_side *side, const struct fetch *fetch, uint8_t code)
{
    return may_be_about_form(code) && may_be_in_vain(side, fetch) &&
           (code == CODE(4, 2) || (fetch->is_safe && !is_known_to_take(side, fetch)));
}

/*
 * Whether the parent has gone for the target. That it has not refused a form is a sign only
 * where it had refused another: else it may have looked no further than at the client.
 */
static bool shows_taken(const struct fetch *fetch, uint8_t code)
{
    return CODE_CLASS(code) == 2 || (fetch->forms_tried != 0 && !may_be_about_form(code));
}

/* The request in another form, in place of the one that was sent; false where it does not fit. */
static bool rename_request(struct fetch_side *side, struct fetch *fetch,
                           enum config_route_form form)
{
    struct message sent;
    struct naming naming;
    struct naming_room room;
    if (message_decode(fetch->sending.datagram, fetch->sending.datagram_len, &sent) != MESSAGE_OK ||
        naming_for_parent(&fetch->target, form, &fetch->hop, &room, &naming) != REASON_none ||
        naming_form(&naming) != form) {
        return false;
    }
    /* A new token: whatever else the old request may still bring is not an answer to this. */
    uint8_t old_token[FETCH_TOKEN_LEN];
    memcpy(old_token, fetch->token, sizeof(old_token));
    fetch_set_token(fetch, entropy_u64(&side->context.entropy));
    size_t at = (size_t)(fetch->sending.datagram - fetch->memory.bytes);
    size_t capacity = fetch->memory.capacity - at;
    if (capacity > side->context.config->limits_datagram_bytes) {
        capacity = (size_t)side->context.config->limits_datagram_bytes;
    }
    size_t len = encode_renamed(&fetch->target, &naming, &sent,
                                (struct bytes){fetch->token, FETCH_TOKEN_LEN},
                                side->context.scratch, capacity);
    if (len == 0) {
        memcpy(fetch->token, old_token, sizeof(old_token));
        return false;
    }
    sending_take_back(&side->origin,
                      &fetch->sending); /* a session may still look at what was sent */
    memcpy(fetch->sending.datagram, side->context.scratch, len);
    fetch->sending.datagram_len = (uint32_t)len;
    fetch->memory.used = (uint32_t)(at + len);
    fetch->form = (uint8_t)form;
    return true;
}

static bool rename_to_next(struct fetch_side *side, struct fetch *fetch)
{
    fetch->forms_tried |= (uint8_t)form_bit(fetch->form);
    for (size_t i = 0; i < KNOWN_FORM_COUNT; i++) {
        if ((fetch->forms_tried & form_bit(known_forms[i])) == 0 &&
            rename_request(side, fetch, known_forms[i])) {
            return true;
        }
    }
    return false;
}

/*
 * Last, an IPv6 address in Uri-Host without its brackets: so some parents take it, against RFC
 * 7252 section 6.4, and with them in no form (PXO-26).
 */
static bool rename_to_bare(struct fetch_side *side, struct fetch *fetch, uint8_t code)
{
    const struct target *target = &fetch->target;
    bool is_ipv6 = !target->is_name && target->address.family == ADDRESS_IPV6;
    bool was_done = code != CODE(4, 2) && !fetch->is_safe;
    if (!is_ipv6 || fetch->hop.has_bare_ipv6 || !may_be_about_form(code) || was_done ||
        !may_be_in_vain(side, fetch)) {
        return false;
    }
    enum config_route_form form = fetch->form == ROUTE_FORM_PROXY_SCHEME_NUMBER
                                      ? ROUTE_FORM_PROXY_SCHEME_NUMBER
                                      : ROUTE_FORM_PROXY_SCHEME;
    fetch->hop.has_bare_ipv6 = true;
    return rename_request(side, fetch, form);
}

bool rename_and_ask_again(struct fetch_side *side, struct fetch *fetch, uint8_t code)
{
    if (shows_taken(fetch, code)) {
        learn(side, fetch);
    }
    bool is_about_form = is_refusal(side, fetch, code);
    if (!(is_about_form && rename_to_next(side, fetch)) && !rename_to_bare(side, fetch, code)) {
        if (is_about_form || (fetch->hop.has_bare_ipv6 && may_be_about_form(code))) {
            note_in_vain(side, fetch);
        }
        return false;
    }
    metric_add(&side->context.metrics.upstream_renamed, 1);
    trail_event(&side->context, fetch->trail, EVENT_renamed, 0);
    forward_renamed(side, fetch);
    return true;
}
