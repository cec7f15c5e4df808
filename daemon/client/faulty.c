/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/faulty.h"

#include "client/handle.h"
#include "client/http_front.h"
#include "client/reply.h"
#include "client/side.h"
#include "client/stream_internal.h"
#include "client/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool faulty_message(struct client_side *side, const struct address *client, enum fault_way way,
                    const struct fault_parcel *parcel)
{
    struct context *context = &side->context;
    struct fault *fault = faults_of_client(context, client);
    if (fault == NULL) {
        return false;
    }
    const struct fault_plan plan = fault_draw_message(context, fault, way, parcel->len);
    if (plan.kinds != 0 && context->trace) {
        trace_fault(side, client, way == FAULT_FROM_CLIENT, &plan);
    }
    fault_carry(context, &plan, parcel);
    return true;
}

/* --- requests ----------------------------------------------------------- */

/* A request of a connection that waits; its bytes stand behind it. */
struct late_request {
    struct leg leg;
    struct message message;
    struct address local;
};

static void move_bytes(uint8_t **at, struct bytes *bytes)
{
    if (bytes->len > 0) {
        memcpy(*at, bytes->data, bytes->len);
    }
    bytes->data = bytes->data != NULL ? *at : NULL;
    *at += bytes->len;
}

static void faulty_on_late(void *owner, void *other, const struct udp_path *path,
                           const uint8_t *data, size_t len)
{
    const struct stream *stream = owner;
    struct late_request late;
    (void)other;
    (void)path;
    (void)len;
    memcpy(&late, data, sizeof(late));
    uint8_t *at = (uint8_t *)(uintptr_t)(data + sizeof(late));
    late.message.token.data = at;
    late.message.options.data =
        late.message.options.data != NULL ? at + late.message.token.len : NULL;
    late.message.payload.data = late.message.payload.data != NULL
                                    ? at + late.message.token.len + late.message.options.len
                                    : NULL;
    if (stream->state == STREAM_CLOSED) {
        return;
    }
    late.leg.is_late = true;
    if (stream->http != NULL) {
        http_front_on_late(stream->http, &late.leg, &late.message, &late.local);
    } else {
        request_handle(stream->side, &late.leg, &late.message, &late.local);
    }
    stream_settle(late.leg.peer);
}

static void hold_request(struct client_side *side, const struct leg *leg,
                         const struct message *message, const struct address *local,
                         struct fault_plan *plan)
{
    size_t len = sizeof(struct late_request) + message->token.len + message->options.len +
                 message->payload.len;
    struct late_request late = {.leg = *leg, .message = *message, .local = *local};
    uint8_t *copy = malloc(len);
    if (copy == NULL) {
        return; /* it is lost */
    }
    uint8_t *at = copy + sizeof(late);
    move_bytes(&at, &late.message.token);
    move_bytes(&at, &late.message.options);
    move_bytes(&at, &late.message.payload);
    memcpy(copy, &late, sizeof(late));
    const struct fault_parcel parcel = {
        .owner = leg->stream, .deliver = faulty_on_late, .data = copy, .len = len};
    plan->len = len;
    if (fault_carry(&side->context, plan, &parcel) && leg->stream->http != NULL) {
        http_front_hold(leg->stream->http);
    }
    free(copy);
}

/* The request has ended here, as the log, the trace and the counters have it. */
static void end_request(struct client_side *side, struct leg *leg, const struct message *message,
                        const struct fault_plan *plan)
{
    struct problem problem = {.reason = REASON_fault};
    char words[64];
    (void)snprintf(problem.text, sizeof(problem.text), "%s: %s",
                   faults_name(&side->context, plan->number),
                   fault_kinds_format(plan->kinds, words, sizeof(words)));
    leg->token = message->token;
    leg->is_safe = true;
    metric_add(&side->context.metrics.requests, 1);
    leg->peer->requests++;
    trace_answered(side, leg, NULL, message, &problem, plan->answer);
}

static void answer_request(struct client_side *side, struct leg *leg, const struct fault_plan *plan)
{
    char words[96];
    (void)snprintf(words, sizeof(words), "fault %s", faults_name(&side->context, plan->number));
    const struct reply reply = {.code = plan->answer,
                                .payload = {(const uint8_t *)words, strlen(words)}};
    reply_at_once(side, leg, &reply);
}

/* However often it is repeated: it is known, and has no answer. */
static void silence_request(struct client_side *side, const struct leg *leg)
{
    if (leg->kind == LEG_DATAGRAM) {
        reply_remember(side, leg, (struct bytes){0});
    }
}

bool faulty_request(struct client_side *side, struct leg *leg, const struct message *message,
                    const struct address *local)
{
    struct fault *fault =
        leg->is_late ? NULL : faults_of_client(&side->context, &leg->asker.path.remote);
    if (fault == NULL) {
        return false;
    }
    bool is_stream = leg->kind == LEG_STREAM;
    bool waits =
        is_stream && (leg->stream->http == NULL || http_front_can_wait(leg->stream->http, leg));
    struct fault_plan plan = fault_draw_request(
        &side->context, fault, (is_stream ? FAULT_CLOSES : 0u) | (waits ? FAULT_WAITS : 0u));
    if (plan.kinds == 0) {
        return false;
    }
    if (plan.kinds == FAULT_BIT(FAULT_delayed)) {
        hold_request(side, leg, message, local, &plan);
        return true;
    }
    end_request(side, leg, message, &plan);
    if ((plan.kinds & FAULT_BIT(FAULT_answered)) != 0) {
        answer_request(side, leg, &plan);
    } else if ((plan.kinds & FAULT_BIT(FAULT_closed)) != 0) {
        stream_close(leg->stream, "closed by a fault");
    } else {
        silence_request(side, leg);
    }
    return true;
}
