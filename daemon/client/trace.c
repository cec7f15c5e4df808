/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/trace.h"

#include "base/escape.h"
#include "base/log.h"
#include "client/access_log.h"
#include "client/describe.h"
#include "client/side.h"
#include "coap/method.h"
#include "coap/option.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *code_text(uint8_t code, char text[8])
{
    snprintf(text, 8, "%u.%02u", CODE_CLASS(code), CODE_DETAIL(code));
    return text;
}

/* Text for "client=": the address, and the identity if there is one. */
#define CLIENT_TEXT_MAX (ADDRESS_TEXT_MAX + IDENTITY_TEXT_MAX + 16)

static const char *client_text(const struct leg *leg, char text[CLIENT_TEXT_MAX])
{
    char address[ADDRESS_TEXT_MAX], identity[IDENTITY_TEXT_MAX];
    bool is_known = identity_is_known(leg->asker.identity);
    snprintf(text, CLIENT_TEXT_MAX, "%s%s%s", address_format(&leg->asker.path.remote, address),
             is_known ? " identity=" : "",
             is_known ? identity_format(leg->asker.identity, identity) : "");
    return text;
}

/* Which access rule decided. */
static const char *rule_text(const struct leg *leg)
{
    return leg->asker.rule != NULL ? leg->asker.rule : "-";
}

static const char *type_name(bool is_confirmable)
{
    return is_confirmable ? "CON" : "NON";
}

/* --- readers of the trace ----------------------------------------------- */

static int start_tracing(struct client_side *side)
{
    if (side->context.events == NULL) {
        side->context.events = calloc(1, sizeof(struct event_ring));
    }
    side->context.trace = side->context.events != NULL;
    return side->context.trace ? 0 : -ENOMEM;
}

int trace_to_log(struct client_side *side)
{
    side->tracer.to_log = true;
    return start_tracing(side);
}

int trace_add_tap(struct client_side *side, const struct trace_tap *tap)
{
    for (unsigned i = 0; i < TRACE_TAPS_MAX; i++) {
        struct trace_tap *slot = &side->tracer.taps[i];
        if (slot->id == 0) {
            *slot = *tap;
            return start_tracing(side);
        }
    }
    return -ENOSPC;
}

void trace_remove_tap(struct client_side *side, uint64_t id)
{
    struct tracer *tracer = &side->tracer;
    bool is_wanted = tracer->to_log;
    for (unsigned i = 0; i < TRACE_TAPS_MAX; i++) {
        if (tracer->taps[i].id == id) {
            tracer->taps[i].id = 0;
        }
        is_wanted = is_wanted || tracer->taps[i].id != 0;
    }
    side->context.trace = is_wanted && side->context.events != NULL;
}

void trace_clear(struct client_side *side)
{
    free(side->context.events);
    side->context.events = NULL;
    side->context.trace = false;
    side->tracer = (struct tracer){.to_log = false};
}

static bool trace_matches(const struct trace_tap *tap, const struct trace_view *view)
{
    return strncmp(view->client, tap->client, strlen(tap->client)) == 0 &&
           strstr(view->target, tap->target) != NULL &&
           (tap->reason[0] == '\0' || strcmp(view->reason, tap->reason) == 0) &&
           strstr(view->identity, tap->identity) != NULL;
}

/* To all readers, with the fields that every request has. */
static void give(const struct client_side *side, struct log_block *block, const struct leg *leg,
                 struct trace_view *view)
{
    if (identity_is_known(leg->asker.identity)) {
        (void)identity_format(leg->asker.identity, view->identity);
    }
    view->rule = leg->asker.rule != NULL ? leg->asker.rule : "";
    const struct tracer *tracer = &side->tracer;
    view->text = block->text;
    view->text_len = block->len;
    for (unsigned i = 0; i < TRACE_TAPS_MAX; i++) {
        const struct trace_tap *tap = &tracer->taps[i];
        if (tap->id != 0 && trace_matches(tap, view)) {
            tap->emit(tap->context, tap->id, view);
        }
    }
    if (tracer->to_log) {
        log_block_write(block);
    }
}

/* --- events ------------------------------------------------------------- */

static void add_events(const struct client_side *side, const struct request *request,
                       struct log_block *block)
{
    const struct event *events[EVENTS_SHOWN_MAX];
    char text[128];
    size_t count = event_ring_collect(side->context.events, request->trail.id,
                                      request->trail.last_event, events);
    for (size_t i = 0; i < count; i++) {
        event_format(events[i], text, sizeof(text));
        uint64_t us = events[i]->at_us - request->trail.started_us;
        log_block_line(block, "  +%" PRIu64 ".%03u ms  %s", us / 1000, (unsigned)(us % 1000), text);
    }
}

/* --- blocks ------------------------------------------------------------- */

/* The form of the target, and the target; @p uri: as text. */
static void add_target(struct log_block *block, const struct target *target, const char *uri)
{
    char text[TARGET_TEXT_MAX];
    log_block_line(block, "  named by   %s", target_form_name(target->form));
    log_block_line(block, "  target     %s", uri);
    log_block_line(block, "  CRI        %s", describe_cri(target, text, sizeof(text)));
}

static void trace_block(struct client_side *side, const struct request *request, enum reason reason,
                        uint8_t code)
{
    struct log_block block;
    char text[TARGET_TEXT_MAX], address[ADDRESS_TEXT_MAX], client[CLIENT_TEXT_MAX];
    char target_text[TARGET_TEXT_MAX];
    const struct target *target = &request->fetch->target;
    struct trace_view view = {.client = client_text(&request->leg, client),
                              .target = target_format(target, target_text, sizeof(target_text)),
                              .reason = reason_row(reason)->name,
                              .method = method_name(request->fetch->sending.datagram[1]),
                              .form = target_form_name(target->form),
                              .cache = cache_answer_name(request->fetch->ticket.answer),
                              .route = request->fetch->hop.route,
                              .exchange = request->trail.id,
                              .us = loop_clock_us(side->context.loop) - request->trail.started_us};
    const struct leg *leg = &request->leg;
    log_block_init(&block);
    (void)code_text(code, view.code);
    log_block_line(&block, "request %" PRIu64 " from %s: %s %s", request->trail.id, client,
                   type_name(request->leg.confirmable),
                   method_name(request->fetch->sending.datagram[1]));
    add_target(&block, target, target_text);
    log_block_line(&block, "  options    %s",
                   describe_options(request->fetch->sending.datagram,
                                    request->fetch->sending.datagram_len, text, sizeof(text)));
    log_block_line(&block, "  rule       %s", rule_text(&request->leg));
    if (request->fetch->hop.route.len > 0) {
        log_block_line(&block, "  route      %.*s: %s", (int)request->fetch->hop.route.len,
                       (const char *)request->fetch->hop.route.data,
                       request->fetch->hop.is_parent
                           ? next_hop_format(&request->fetch->hop, text, sizeof(text))
                           : "direct");
    }
    if (request->fetch->ticket.answer == CACHE_ANSWER_FOLLOWS) {
        log_block_line(&block, "  cache      follows request %" PRIu64,
                       request->fetch->ticket.leader_id);
    } else {
        log_block_line(&block, "  cache      %s", cache_answer_name(request->fetch->ticket.answer));
    }
    if (request->fetch->candidate_count > 0) {
        view.origin = &request->fetch->candidates[request->fetch->candidate];
        log_block_line(
            &block, "  sent to    %s, %u time(s)",
            address_format(&request->fetch->candidates[request->fetch->candidate], address),
            request->fetch->sending.again.count + 1u);
    }
    add_events(side, request, &block);
    log_block_line(&block, "  outcome    %s %s after %" PRIu64 ".%03u ms", view.reason, view.code,
                   view.us / 1000, (unsigned)(view.us % 1000));
    give(side, &block, leg, &view);
}

void trace_delivered(struct client_side *side, const struct request *request)
{
    struct log_block block;
    char client[CLIENT_TEXT_MAX];
    struct trace_view view = {.client = client_text(&request->leg, client),
                              .target = "",
                              .reason = reason_row(request->reason)->name,
                              .exchange = request->trail.id,
                              .us = loop_clock_us(side->context.loop) - request->trail.started_us};
    const struct leg *leg = &request->leg;
    log_block_init(&block);
    log_block_line(&block, "request %" PRIu64 " from %s: its separate answer", request->trail.id,
                   client);
    add_events(side, request, &block);
    give(side, &block, leg, &view);
}

void trace_count(struct client_side *side, const struct leg *leg, enum reason reason, uint8_t code,
                 uint8_t upstream)
{
    const struct metric_end end = {.reason = reason,
                                   .code = code,
                                   .scheme = leg->asker.scheme,
                                   .upstream = upstream,
                                   .route = leg->route_label};
    metrics_count_end(&side->context.metrics, &end);
}

/* @p duration_us up to now, not to the begin of this turn: what was done in it took time too. */
static void count_duration(struct client_side *side, const struct leg *leg, bool is_hit,
                           uint64_t duration_us)
{
    struct metrics *metrics = &side->context.metrics;
    histogram_add(&metrics->durations[transport_by_number(leg->asker.scheme)][is_hit ? 1 : 0],
                  duration_us);
    if (!is_hit) {
        histogram_add(&metrics->by_route[leg->route_label], duration_us);
    }
}

/* For criproxyctl why: all that no good answer came of. */
static void note_refusal(struct client_side *side, const struct leg *leg, enum reason reason,
                         const char *why)
{
    const struct refusal_note note = {.client = &leg->asker.path.remote,
                                      .kind = REFUSAL_REQUEST,
                                      .word = reason_row(reason)->name,
                                      .identity = leg->asker.identity,
                                      .detail = why};
    refusals_add(&side->refusals, &note);
}

void trace_ended(struct client_side *side, struct request *request, enum reason reason,
                 uint8_t code)
{
    /* Without a fetch it is being delivered: it has been logged before, with its target. */
    const struct fetch *fetch = request->fetch;
    const struct access_record record = {
        .leg = &request->leg,
        .request = request,
        .target = fetch != NULL ? &fetch->target : NULL,
        .cache = fetch != NULL ? fetch->ticket.answer : CACHE_ANSWER_OFF,
        .reason = reason,
        .method = fetch != NULL ? fetch->sending.datagram[1] : 0,
        .code = code,
    };
    /* For the counters, when the request is over for the client, too. */
    request->ended_code = code;
    if (!reason_is_success(reason)) {
        note_refusal(side, &request->leg, reason, NULL);
    }
    if (fetch != NULL) {
        request->ended_upstream =
            fetch->candidate_count > 0 ? (uint8_t)(fetch->hop.scheme->transport + 1) : 0;
        count_duration(side, &request->leg, false,
                       loop_clock_us(side->context.loop) - request->trail.started_us);
    }
    access_log(side, &record);
    if (side->context.trace && fetch != NULL) {
        trace_block(side, request, reason, code);
        request->trail.last_event = 0; /* these were shown */
    }
}

static void trace_short_block(struct client_side *side, const struct access_record *record,
                              const struct message *request)
{
    const struct leg *leg = record->leg;
    struct log_block block;
    char client[CLIENT_TEXT_MAX], why[2 * PROBLEM_TEXT_MAX], uri[TARGET_TEXT_MAX] = "";
    struct trace_view view = {
        .client = client_text(leg, client),
        .target = uri,
        .reason = reason_row(record->reason)->name,
        .method = method_name(request->code),
        .form = record->target != NULL ? target_form_name(record->target->form) : ""};
    log_block_init(&block);
    (void)code_text(record->code, view.code);
    log_block_line(&block, "request from %s: %s %s", client, type_name(leg->confirmable),
                   method_name(request->code));
    if (record->target != NULL) {
        add_target(&block, record->target, target_format(record->target, uri, sizeof(uri)));
    }
    if (leg->asker.rule != NULL) {
        log_block_line(&block, "  rule       %s", leg->asker.rule);
    }
    log_block_line(&block, "  outcome    %s %s%s%s", view.reason, view.code,
                   record->why[0] != '\0' ? ": " : "",
                   escape_text(why, sizeof(why), record->why, strlen(record->why)));
    give(side, &block, leg, &view);
}

static void trace_hit_block(struct client_side *side, const struct leg *leg,
                            const struct target *target, const struct message *request,
                            uint8_t code)
{
    struct log_block block;
    char target_text[TARGET_TEXT_MAX], client[CLIENT_TEXT_MAX];
    struct trace_view view = {.client = client_text(leg, client),
                              .target = target_format(target, target_text, sizeof(target_text)),
                              .reason = reason_row(REASON_cached)->name,
                              .method = method_name(request->code),
                              .form = target_form_name(target->form),
                              .cache = cache_answer_name(CACHE_ANSWER_HIT)};
    log_block_init(&block);
    (void)code_text(code, view.code);
    log_block_line(&block, "request from %s: %s %s", client, type_name(leg->confirmable),
                   method_name(request->code));
    add_target(&block, target, target_text);
    log_block_line(&block, "  rule       %s", rule_text(leg));
    log_block_line(&block, "  cache      %s", cache_answer_name(CACHE_ANSWER_HIT));
    log_block_line(&block, "  outcome    %s %s", view.reason, view.code);
    give(side, &block, leg, &view);
}

void trace_hit(struct client_side *side, const struct leg *leg, const struct target *target,
               const struct message *request, uint8_t code)
{
    trace_count(side, leg, REASON_cached, code, 0);
    count_duration(side, leg, true,
                   loop_clock_us(side->context.loop) - context_now_us(&side->context));
    const struct access_record record = {.leg = leg,
                                         .target = target,
                                         .cache = CACHE_ANSWER_HIT,
                                         .reason = REASON_cached,
                                         .method = request->code,
                                         .code = code};
    access_log(side, &record);
    if (side->context.trace) {
        trace_hit_block(side, leg, target, request, code);
    }
}

void trace_answered(struct client_side *side, const struct leg *leg, const struct target *target,
                    const struct message *request, const struct problem *problem, uint8_t code)
{
    const struct access_record record = {.leg = leg,
                                         .target = target,
                                         .reason = problem->reason,
                                         .method = request->code,
                                         .code = code,
                                         .why = problem->text};
    trace_count(side, leg, problem->reason, code, 0);
    if (!reason_is_success(problem->reason)) {
        note_refusal(side, leg, problem->reason, problem->text);
    }
    access_log(side, &record);
    if (side->context.trace) {
        trace_short_block(side, &record, request);
    }
}

void trace_refused(struct client_side *side, const struct leg *leg, const struct target *target,
                   const struct message *request, const struct problem *problem)
{
    trace_answered(side, leg, target, request, problem, reason_row(problem->reason)->code);
}
