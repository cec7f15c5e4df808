/* SPDX-License-Identifier: BSD-2-Clause */
#include "origin/faulty.h"

#include "origin/side.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static_assert((int)EVENT_fault_closed - (int)EVENT_fault_lost ==
                  (int)FAULT_closed - (int)FAULT_lost,
              "events of faults are in the order of faults");

void faulty_note(struct origin_side *side, struct sending *sending, const struct fault_plan *plan)
{
    for (unsigned i = 0; i < FAULT_KINDS; i++) {
        if ((plan->kinds & FAULT_BIT(i)) != 0) {
            sending_event(side, sending, (enum event_kind)(EVENT_fault_lost + i), plan->number);
        }
    }
}

static struct sending *sending_of_timer(struct timer *timer)
{
    return HASH_ENTRY(timer, struct sending, timer);
}

/* As if the origin server had answered. */
static void faulty_on_answer(void *context, struct timer *timer, uint64_t now_ms)
{
    (void)now_ms;
    struct origin_side *side = context;
    struct sending *sending = sending_of_timer(timer);
    char words[96];
    (void)snprintf(words, sizeof(words), "fault %s",
                   faults_name(&side->context, sending->origin->fault - 1u));
    const struct message answer = {
        .type = MESSAGE_ACK,
        .code = sending->fault_code,
        .token = {sending->datagram + MESSAGE_HEADER_LEN, sending->datagram[0] & 0x0fu},
        .payload = {(const uint8_t *)words, strlen(words)},
    };
    sending_answered(side, sending, &answer, false);
}

static void faulty_on_close(void *context, struct timer *timer, uint64_t now_ms)
{
    (void)now_ms;
    sending_failed(context, sending_of_timer(timer), REASON_origin_closed, "closed by a fault");
}

/* It has waited for long enough, and does not wait again. */
static void faulty_on_due(void *context, struct timer *timer, uint64_t now_ms)
{
    struct origin_side *side = context;
    struct sending *sending = sending_of_timer(timer);
    if (now_ms >= sending->deadline_ms) {
        sending_timed_out(side, sending);
        return;
    }
    enum carrier_result result = carrier_of_sending(sending)->send(side, sending);
    if (result != CARRIER_SENT) {
        sending_failed(side, sending,
                       result == CARRIER_WAITS ? REASON_origin_busy : sending->reason, NULL);
    }
}

enum carrier_result faulty_send(struct origin_side *side, struct sending *sending)
{
    const struct carrier *carrier = carrier_of_sending(sending);
    struct fault *fault =
        sending->is_relayed ? NULL : side->origins.calls->find_fault(side, sending);
    bool is_udp = carrier == &carrier_udp;
    sending->origin->fault = fault != NULL ? (uint8_t)(fault_number(&side->context, fault) + 1) : 0;
    if (fault == NULL) {
        return carrier->send(side, sending);
    }
    const struct fault_plan plan =
        fault_draw_request(&side->context, fault, is_udp ? 0 : FAULT_CLOSES | FAULT_WAITS);
    uint64_t at_ms = context_now_ms(&side->context) + plan.delay_ms[0];
    if (plan.kinds == 0) {
        return carrier->send(side, sending);
    }
    carrier->cancel(side, sending); /* what was sent before, under the same token */
    faulty_note(side, sending, &plan);
    sending->is_sent = plan.kinds != FAULT_BIT(FAULT_delayed);
    sending->fault_code = plan.answer;
    sending->again.count = 0;
    if ((plan.kinds & FAULT_BIT(FAULT_silenced)) != 0) {
        sending_await_end(side, sending);
    } else if ((plan.kinds & FAULT_BIT(FAULT_closed)) != 0) {
        timer_set(&side->context.wheel, &sending->timer, at_ms, faulty_on_close);
    } else if ((plan.kinds & FAULT_BIT(FAULT_answered)) != 0) {
        timer_set(&side->context.wheel, &sending->timer, at_ms, faulty_on_answer);
    } else {
        timer_set(&side->context.wheel, &sending->timer, at_ms, faulty_on_due);
    }
    return CARRIER_SENT;
}
