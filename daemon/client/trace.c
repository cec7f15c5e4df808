/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/trace.h"

#include "base/escape.h"
#include "base/log.h"
#include "client/access_log.h"
#include "client/directory.h"
#include "client/side.h"
#include "coap/method.h"
#include "context/capture.h"
#include "context/faults.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- access log --------------------------------------------------------- */

static bool access_is_wanted(struct client_side *side, enum reason reason)
{
    const struct config *config = side->context.config;

    switch (config->log_access) {
    case LOG_ACCESS_OFF:
        return false;
    case LOG_ACCESS_ERRORS:
        return !reason_is_success(reason);
    case LOG_ACCESS_SAMPLED:
        return side->access_count++ % config->log_access_sample == 0;
    case LOG_ACCESS_ON:
        break;
    }
    return true;
}

/* --- trace -------------------------------------------------------------- */

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
    timer_cancel(&side->context.wheel, &side->tracer.tell_lost);
    free(side->context.events);
    side->context.events = NULL;
    side->context.trace = false;
    side->tracer = (struct tracer){.to_log = false};
}

/* For how long a reader may not know of what it did not get. */
#define TELL_LOST_MS 1000u

static void on_tell_lost(void *context, struct timer *timer, uint64_t now_ms);

static void trace_lost(struct client_side *side, struct trace_tap *tap)
{
    tap->lost++;
    if (!timer_is_set(&side->tracer.tell_lost)) {
        timer_set(&side->context.wheel, &side->tracer.tell_lost,
                  context_now_ms(&side->context) + TELL_LOST_MS, on_tell_lost);
    }
}

static void on_tell_lost(void *context, struct timer *timer, uint64_t now_ms)
{
    struct client_side *side = context;
    const struct trace_view nothing = {.text = NULL};
    bool is_left = false;
    for (unsigned i = 0; i < TRACE_TAPS_MAX; i++) {
        struct trace_tap *tap = &side->tracer.taps[i];
        struct trace_view view = nothing;
        view.lost = tap->lost;
        if (tap->id == 0 || tap->lost == 0) {
            continue;
        }
        if (tap->emit(tap->context, tap->id, &view)) {
            tap->lost = 0;
        } else {
            is_left = true; /* it has not room even for that now */
        }
    }
    if (is_left) {
        timer_set(&side->context.wheel, timer, now_ms + TELL_LOST_MS, on_tell_lost);
    }
}

/*
 * Formats no more than the filters of the reader ask for, and that one after the other: this is
 * what a request costs that a reader does not want.
 */
static bool trace_matches(const struct trace_tap *tap, const struct leg *leg, enum reason reason,
                          const struct target *target)
{
    char text[TARGET_TEXT_MAX];
    if (tap->reason[0] != '\0' && strcmp(reason_row(reason)->name, tap->reason) != 0) {
        return false;
    }
    if (tap->client[0] != '\0' && strncmp(address_format(&leg->asker.path.remote, text),
                                          tap->client, strlen(tap->client)) != 0) {
        return false;
    }
    if (tap->identity[0] != '\0' &&
        (!identity_is_known(leg->asker.identity) ||
         strstr(identity_format(leg->asker.identity, text), tap->identity) == NULL)) {
        return false;
    }
    return tap->target[0] == '\0' ||
           (target != NULL &&
            strstr(target_format(target, text, sizeof(text)), tap->target) != NULL);
}

/* A bit for each reader, and one for the log. */
#define TRACE_LOG_BIT (1u << TRACE_TAPS_MAX)

/*
 * Who wants a block, before a word of it is written. One that is over its reader's share is lost
 * where it is a request, and with @p is_more nothing: the reader is told of requests alone.
 */
static unsigned trace_wanted_by(struct client_side *side, const struct leg *leg, enum reason reason,
                                const struct target *target, bool is_more)
{
    uint64_t now_ms = context_now_ms(&side->context);
    unsigned wanted = side->tracer.to_log ? TRACE_LOG_BIT : 0;
    for (unsigned i = 0; i < TRACE_TAPS_MAX; i++) {
        struct trace_tap *tap = &side->tracer.taps[i];
        if (tap->id == 0 || !trace_matches(tap, leg, reason, target)) {
            continue;
        }
        if (rate_has(&tap->given, tap->per_s, now_ms)) {
            rate_take(&tap->given);
            wanted |= 1u << i;
        } else if (!is_more) {
            trace_lost(side, tap);
        }
    }
    return wanted;
}

static unsigned trace_wanted(struct client_side *side, const struct leg *leg, enum reason reason,
                             const struct target *target)
{
    return trace_wanted_by(side, leg, reason, target, false);
}

/* To all readers that want it, with the fields that every request has. */
static void give(struct client_side *side, struct log_block *block, const struct leg *leg,
                 struct trace_view *view, unsigned wanted)
{
    struct tracer *tracer = &side->tracer;
    if (identity_is_known(leg->asker.identity)) {
        (void)identity_format(leg->asker.identity, view->identity);
    }
    view->rule = leg->asker.rule != NULL ? leg->asker.rule : "";
    view->text = block->text;
    view->text_len = block->len;
    for (unsigned i = 0; i < TRACE_TAPS_MAX; i++) {
        struct trace_tap *tap = &tracer->taps[i];
        if ((wanted & 1u << i) == 0) {
            continue;
        }
        view->lost = tap->lost;
        if (tap->emit(tap->context, tap->id, view)) {
            tap->lost = 0;
        } else if (!view->is_more) {
            trace_lost(side, tap);
        }
    }
    if ((wanted & TRACE_LOG_BIT) != 0) {
        log_block_write(block);
    }
}

/* --- events ------------------------------------------------------------- */

/* That of a fault begins with its name. */
static void describe_event(const struct client_side *side, const struct event *event, char *text,
                           size_t capacity)
{
    size_t len = 0;
    if (event->kind >= EVENT_fault_lost && event->kind <= EVENT_fault_closed) {
        len = (size_t)snprintf(text, capacity,
                               "fault %.48s: ", faults_name(&side->context, event->number));
    }
    event_format(event, text + len, capacity - len);
}

static void add_events(const struct client_side *side, const struct request *request,
                       struct log_block *block)
{
    const struct event *events[EVENTS_SHOWN_MAX];
    char text[128];
    size_t count = event_ring_collect(side->context.events, request->trail.id,
                                      request->trail.last_event, events);
    for (size_t i = 0; i < count; i++) {
        describe_event(side, events[i], text, sizeof(text));
        uint64_t us = events[i]->at_us - request->trail.started_us;
        log_block_line(block, "  +%" PRIu64 ".%03u ms  %s", us / 1000, (unsigned)(us % 1000), text);
    }
}

/* --- blocks ------------------------------------------------------------- */

/* The form of the target, and the target; @p uri: as text. */
static void add_target(struct log_block *block, const struct target *target, const char *uri)
{
    char text[TARGET_TEXT_MAX];
    log_block_line(block, "  named by   %s", describe_form(target->form));
    log_block_line(block, "  target     %s", uri);
    log_block_line(block, "  CRI        %s", describe_cri(target, text, sizeof(text)));
}

static enum cache_answer answer_of_cache(const struct request *request)
{
    return request->joined_id != 0 ? CACHE_ANSWER_FOLLOWS : request->fetch->ticket.answer;
}

static void trace_block(struct client_side *side, const struct request *request, enum reason reason,
                        uint8_t code)
{
    struct log_block block;
    char text[TARGET_TEXT_MAX], address[ADDRESS_TEXT_MAX], client[CLIENT_TEXT_MAX];
    char target_text[TARGET_TEXT_MAX];
    const struct target *target = &request->fetch->target;
    unsigned wanted = trace_wanted(side, &request->leg, reason, target);
    if (wanted == 0) {
        return;
    }
    struct trace_view view = {.client = client_text(&request->leg, client),
                              .target = target_format(target, target_text, sizeof(target_text)),
                              .reason = reason_row(reason)->name,
                              .method = method_name(request->fetch->sending.datagram[1]),
                              .form = describe_form(target->form),
                              .cache = cache_answer_name(answer_of_cache(request)),
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
                       : request->fetch->hop.is_recording ? "recording"
                                                          : "direct");
    }
    if (request->joined_id != 0) {
        log_block_line(&block, "  cache      follows request %" PRIu64, request->joined_id);
    } else {
        log_block_line(&block, "  cache      %s", view.cache);
    }
    if (request_was_sent(request)) {
        view.origin = device_format(
            &side->origin, &request->fetch->candidates[request->fetch->candidate], address);
        log_block_line(&block, "  sent to    %s, %u time(s)%s", view.origin,
                       request->fetch->sending.again.count + 1u,
                       request->fetch->hop.has_oscore ? ", with OSCORE" : "");
    }
    add_events(side, request, &block);
    log_block_line(&block, "  outcome    %s %s after %" PRIu64 ".%03u ms", view.reason, view.code,
                   view.us / 1000, (unsigned)(view.us % 1000));
    give(side, &block, leg, &view, wanted);
}

void trace_delivered(struct client_side *side, const struct request *request)
{
    struct log_block block;
    char client[CLIENT_TEXT_MAX];
    unsigned wanted = trace_wanted_by(side, &request->leg, request->reason, NULL, true);
    if (wanted == 0) {
        return;
    }
    struct trace_view view = {.client = client_text(&request->leg, client),
                              .target = "",
                              .reason = reason_row(request->reason)->name,
                              .exchange = request->trail.id,
                              .us = loop_clock_us(side->context.loop) - request->trail.started_us,
                              .is_more = true};
    const struct leg *leg = &request->leg;
    log_block_init(&block);
    log_block_line(&block, "request %" PRIu64 " from %s: its separate answer", request->trail.id,
                   client);
    add_events(side, request, &block);
    give(side, &block, leg, &view, wanted);
}

/* Of what is no request. @param client borrowed */
static struct trace_view view_of_no_request(const char *client, enum reason reason)
{
    return (struct trace_view){.client = client,
                               .target = "",
                               .reason = reason != REASON_none ? reason_row(reason)->name : "",
                               .method = "",
                               .form = "",
                               .cache = "",
                               .is_more = true};
}

void trace_fault(struct client_side *side, const struct address *client, bool is_from,
                 const struct fault_plan *plan)
{
    const struct leg leg = {.asker = {.path = {.remote = *client}}};
    struct log_block block;
    char text[CLIENT_TEXT_MAX], kinds[128];
    unsigned wanted = trace_wanted_by(side, &leg, REASON_fault, NULL, true);
    if (wanted == 0) {
        return;
    }
    struct trace_view view = view_of_no_request(client_text(&leg, text), REASON_fault);
    log_block_init(&block);
    log_block_line(&block, "fault %s: message %s %s: %s", faults_name(&side->context, plan->number),
                   is_from ? "from" : "to", text,
                   fault_kinds_format(plan->kinds, kinds, sizeof(kinds)));
    give(side, &block, &leg, &view, wanted);
}

void trace_device(struct origin_side *below, const struct device *device, const char *why)
{
    struct client_side *side = client_side_of(fetch_side_of(below));
    const struct device_line *line = &device->line;
    const struct leg leg = {
        .asker = {.path = {.remote = line->remote}, .identity = line->identity}};
    const struct target target = directory_target(side, device->name);
    enum reason reason = why[0] != '\0' ? REASON_device_gone : REASON_none;
    struct log_block block;
    char text[CLIENT_TEXT_MAX];
    unsigned wanted = trace_wanted_by(side, &leg, reason, &target, true);
    if (wanted == 0) {
        return;
    }
    struct trace_view view = view_of_no_request(client_text(&leg, text), reason);
    log_block_init(&block);
    log_block_line(&block, "device %s: %s over %s, %s%s%s", device->name,
                   why[0] != '\0' ? "closed" : "opened", transport_row(line->transport)->scheme,
                   text, why[0] != '\0' ? ": " : "", why);
    give(side, &block, &leg, &view, wanted);
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

/* Tells captures and the count of the busiest of the end. @p is_new: it was not counted before. */
__attribute__((cold, noinline)) static void note_for_lab(struct client_side *side,
                                                         const struct access_record *record,
                                                         uint64_t exchange, bool is_new)
{
    const struct leg *leg = record->leg;
    if (side->context.capture != NULL) {
        capture_note(&side->context, &leg->asker.path.remote, leg->token, exchange, record->reason);
    }
    if (side->busiest != NULL && is_new) {
        busiest_count(side, leg, record->target);
    }
}

/* For the access log if it @p is_logged, and for a lab: most requests are for neither. */
__attribute__((cold, noinline)) static void note_ended(struct client_side *side,
                                                       struct request *request, enum reason reason,
                                                       uint8_t code, bool is_logged)
{
    /* Without a fetch it is being delivered: it has been logged before, with its target. */
    const struct fetch *fetch = request->fetch;
    const struct access_record record = {
        .leg = &request->leg,
        .request = request,
        .target = fetch != NULL ? &fetch->target : NULL,
        .cache = fetch != NULL ? answer_of_cache(request) : CACHE_ANSWER_OFF,
        .reason = reason,
        .method = fetch != NULL ? fetch->sending.datagram[1] : 0,
        .code = code,
    };
    if (side->context.lab != 0) {
        note_for_lab(side, &record, request->trail.id, fetch != NULL);
    }
    if (is_logged) {
        access_log(side, &record);
    }
}

void trace_ended(struct client_side *side, struct request *request, enum reason reason,
                 uint8_t code)
{
    const struct fetch *fetch = request->fetch;
    /* For the counters, when the request is over for the client, too. */
    request->ended_code = code;
    if (!reason_is_success(reason)) {
        note_refusal(side, &request->leg, reason, NULL);
    }
    if (fetch != NULL) {
        request->ended_upstream =
            request_was_sent(request) ? (uint8_t)(fetch->hop.scheme->transport + 1) : 0;
        count_duration(side, &request->leg, false,
                       loop_clock_us(side->context.loop) - request->trail.started_us);
    }
    bool is_logged = access_is_wanted(side, reason);
    if (is_logged || side->context.lab != 0) {
        note_ended(side, request, reason, code, is_logged);
    }
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
    unsigned wanted = trace_wanted(side, leg, record->reason, record->target);
    if (wanted == 0) {
        return;
    }
    struct trace_view view = {.client = client_text(leg, client),
                              .target = uri,
                              .reason = reason_row(record->reason)->name,
                              .method = method_name(request->code),
                              .form = record->target != NULL ? describe_form(record->target->form)
                                                             : ""};
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
    give(side, &block, leg, &view, wanted);
}

static void trace_hit_block(struct client_side *side, const struct leg *leg,
                            const struct target *target, const struct message *request,
                            uint8_t code)
{
    struct log_block block;
    char target_text[TARGET_TEXT_MAX], client[CLIENT_TEXT_MAX];
    unsigned wanted = trace_wanted(side, leg, REASON_cached, target);
    if (wanted == 0) {
        return;
    }
    struct trace_view view = {.client = client_text(leg, client),
                              .target = target_format(target, target_text, sizeof(target_text)),
                              .reason = reason_row(REASON_cached)->name,
                              .method = method_name(request->code),
                              .form = describe_form(target->form),
                              .cache = cache_answer_name(CACHE_ANSWER_HIT)};
    log_block_init(&block);
    (void)code_text(code, view.code);
    log_block_line(&block, "request from %s: %s %s", client, type_name(leg->confirmable),
                   method_name(request->code));
    add_target(&block, target, target_text);
    log_block_line(&block, "  rule       %s", rule_text(leg));
    log_block_line(&block, "  cache      %s", cache_answer_name(CACHE_ANSWER_HIT));
    log_block_line(&block, "  outcome    %s %s", view.reason, view.code);
    give(side, &block, leg, &view, wanted);
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
    if (side->context.lab != 0) {
        note_for_lab(side, &record, 0, true);
    }
    if (access_is_wanted(side, record.reason)) {
        access_log(side, &record);
    }
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
    if (side->context.lab != 0) {
        note_for_lab(side, &record, 0, true);
    }
    if (!reason_is_success(problem->reason)) {
        note_refusal(side, leg, problem->reason, problem->text);
    }
    if (access_is_wanted(side, record.reason)) {
        access_log(side, &record);
    }
    if (side->context.trace) {
        trace_short_block(side, &record, request);
    }
}
