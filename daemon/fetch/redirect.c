/* SPDX-License-Identifier: BSD-2-Clause */
#include "fetch/redirect.h"

#include "coap/option.h"
#include "context/target.h"
#include "fetch/admit.h"
#include "fetch/encode.h"
#include "fetch/forward.h"
#include "fetch/side.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Packed segments of a target, and the CRI that they come from. */
#define SEGMENT_BYTES 4096u

static void refuse_redirect(struct fetch_side *side, struct fetch *fetch, const char *why)
{
    char text[PROBLEM_TEXT_MAX];
    (void)snprintf(text, sizeof(text), "%s: %.80s", reason_row(REASON_redirect_refused)->diagnostic,
                   why);
    fetch_fail(side, fetch, REASON_redirect_refused, text);
}

/* RFC 6454: credentials of one origin are not for another. */
static bool is_same_origin(const struct target *a, const struct target *b)
{
    if (a->scheme->number != b->scheme->number || a->port != b->port || a->is_name != b->is_name) {
        return false;
    }
    return a->is_name ? a->name_len == b->name_len && memcmp(a->name, b->name, a->name_len) == 0
                      : address_same_host(&a->address, &b->address);
}

static const char *words_of(enum reason reason)
{
    return reason_row(reason)->diagnostic;
}

/* The target of @p cri in @p ret_redirect; else why there is none. */
static const char *find_redirected(const struct fetch_side *side, struct bytes cri,
                                   struct redirect *ret_redirect, struct problem *problem)
{
    const struct message none = {0};
    const struct address local = {0};
    const struct request_options options = {.proxy_cri = cri};
    const struct target_memory memory = {ret_redirect->bytes, SEGMENT_BYTES};
    struct target *target = &ret_redirect->target;
    if (!target_find(side->context.config, &none, &options, &local, memory, target, problem)) {
        return problem->text[0] != '\0' ? problem->text : words_of(problem->reason);
    }
    if (!transport_is_http(target->scheme->transport)) {
        return "not http";
    }
    return target->zone[0] != '\0' ? words_of(REASON_zone_misplaced) : NULL;
}

/* Whether the client may be led there, and which way it is; NULL, or why not. */
static const char *why_not_there(struct fetch_side *side, struct fetch *fetch,
                                 const struct target *target, struct next_hop *ret_hop)
{
    const struct config_route *route;
    if (transport_is_secure(fetch->hop.scheme->transport) &&
        !transport_is_secure(target->scheme->transport)) {
        return "from https to http";
    }
    enum reason reason =
        admit_target(side, fetch->asker, target, fetch->sending.datagram[1], ADMIT_RESOLVER_PROXY);
    if (reason == REASON_none) {
        reason = route_find(side->context.config, target, ret_hop, &route);
    }
    if (reason != REASON_none) {
        return words_of(reason);
    }
    return ret_hop->is_parent      ? "its route leads to a parent proxy"
           : ret_hop->is_recording ? "its route leads to a recording"
                                   : NULL;
}

/*
 * The options of @p message without ETag: what the cache or the client has of one resource says
 * nothing about another (RFC 9110 section 15.4). If-Match stays, as what it protects is written.
 */
static size_t copy_without_etags(const struct message *message, uint8_t *buffer, size_t capacity)
{
    struct message_writer writer = {.buffer = buffer, .capacity = capacity};
    struct option_iter iter;
    struct option option;
    option_iter_init(&iter, message->options);
    while (option_iter_next(&iter, &option)) {
        if (option.number != OPTION_etag) {
            message_writer_option(&writer, option.number, option.value);
        }
    }
    return writer.len;
}

/* What is sent there, in @p buffer. @return bytes; 0 where it does not fit. */
static size_t encode_redirected(const struct fetch *fetch, const struct target *target,
                                uint8_t *buffer, size_t capacity)
{
    struct message sent;
    const struct naming naming = naming_for_origin(target);
    uint8_t *options = malloc(fetch->sending.datagram_len);
    size_t len = 0;
    if (options != NULL &&
        message_decode(fetch->sending.datagram, fetch->sending.datagram_len, &sent) == MESSAGE_OK) {
        sent.options = (struct bytes){
            options, copy_without_etags(&sent, options, fetch->sending.datagram_len)};
        len = encode_renamed(target, &naming, &sent, (struct bytes){fetch->token, FETCH_TOKEN_LEN},
                             buffer, capacity);
    }
    free(options);
    return len;
}

/* The fetch becomes one to the new target. */
static void take_redirect(struct fetch_side *side, struct fetch *fetch, struct redirect *redirect,
                          const struct next_hop *hop, size_t datagram_len)
{
    struct redirect *before = fetch->redirect;
    struct bytes route = fetch->hop.route; /* kept with the fetch, as the other's is not */
    redirect->count = (uint8_t)(before != NULL ? before->count + 1 : 1);
    redirect->has_left = (before != NULL && before->has_left) ||
                         !is_same_origin(redirect_target(fetch), &redirect->target);
    redirect->first_hop = before != NULL ? before->first_hop : fetch->hop;
    redirect->first_datagram = before != NULL ? before->first_datagram : fetch->sending.datagram;
    redirect->first_len = before != NULL ? before->first_len : fetch->sending.datagram_len;
    forward_release(side, fetch);
    fetch->hop = *hop;
    fetch->hop.route = route;
    fetch->sending.known_len = 0; /* it is of another resource */
    fetch->sending.is_elsewhere = true;
    fetch->sending.datagram = redirect->bytes + SEGMENT_BYTES;
    fetch->sending.datagram_len = (uint32_t)datagram_len;
    fetch->redirect = redirect;
    free(before);
}

void redirect_follow(struct fetch_side *side, struct fetch *fetch, struct bytes cri)
{
    size_t capacity = (size_t)side->context.config->limits_datagram_bytes;
    struct redirect *redirect = malloc(sizeof(*redirect) + SEGMENT_BYTES + capacity);
    struct next_hop hop;
    struct problem problem;
    const char *why = NULL;
    if (redirect == NULL) {
        fetch_fail(side, fetch, REASON_proxy_busy, NULL);
        return;
    }
    if (fetch->redirect != NULL && fetch->redirect->count >= side->context.config->http_redirects) {
        why = "too many";
    }
    why = why != NULL ? why : find_redirected(side, cri, redirect, &problem);
    why = why != NULL ? why : why_not_there(side, fetch, &redirect->target, &hop);
    size_t len = why != NULL ? 0
                             : encode_redirected(fetch, &redirect->target,
                                                 redirect->bytes + SEGMENT_BYTES, capacity);
    why = why == NULL && len == 0 ? "too long" : why;
    if (why != NULL) {
        refuse_redirect(side, fetch, why);
        free(redirect);
        return;
    }
    take_redirect(side, fetch, redirect, &hop, len);
    trail_event(&side->context, fetch->trail, EVENT_redirected, redirect->count);
    forward_start(side, fetch);
}

void redirect_forget(struct fetch *fetch)
{
    struct redirect *redirect = fetch->redirect;
    if (redirect != NULL) {
        fetch->hop = redirect->first_hop;
        fetch->sending.datagram = redirect->first_datagram;
        fetch->sending.datagram_len = redirect->first_len;
        fetch->sending.is_elsewhere = false;
        fetch->redirect = NULL;
        free(redirect);
    }
}
