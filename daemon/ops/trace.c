/* SPDX-License-Identifier: BSD-2-Clause */
#include "ops/trace.h"

#include "coap/option.h"
#include "front/describe.h"
#include "ops/access.h"
#include "ops/escape.h"
#include "ops/log.h"
#include "state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *code_text(uint8_t code, char text[8])
{
    snprintf(text, 8, "%u.%02u", CODE_CLASS(code), CODE_DETAIL(code));
    return text;
}

/*
 * While a separate answer is delivered it has the memory that the target was in;
 * the request has been logged before, with its target.
 */
static bool has_target(const struct exchange *exchange)
{
    return exchange->state != EXCHANGE_delivering;
}

/* Text for "client=": the address, and what else is known of who it is. */
#define CLIENT_TEXT_MAX (ADDRESS_TEXT_MAX + IDENTITY_TEXT_MAX + 16)

static const char *client_text(const struct leg *leg, char text[CLIENT_TEXT_MAX])
{
    char address[ADDRESS_TEXT_MAX], identity[IDENTITY_TEXT_MAX];
    bool is_known = identity_is_known(leg->identity);
    snprintf(text, CLIENT_TEXT_MAX, "%s%s%s", address_format(&leg->path.remote, address),
             is_known ? " identity=" : "",
             is_known ? identity_format(leg->identity, identity) : "");
    return text;
}

/* Which access rule decided. */
static const char *rule_text(const struct leg *leg)
{
    return leg->rule != NULL ? leg->rule : "-";
}

static const char *type_name(bool is_confirmable)
{
    return is_confirmable ? "CON" : "NON";
}

static void trace_block(struct engine *engine, const struct exchange *exchange, enum reason reason,
                        uint8_t code)
{
    struct log_block block;
    char text[TARGET_TEXT_MAX], address[ADDRESS_TEXT_MAX], client[CLIENT_TEXT_MAX], shown[8];
    const struct target *target = &exchange->target;
    log_block_init(&block);
    log_block_line(&block, "request %" PRIu64 " from %s: %s %s", exchange->id,
                   client_text(&exchange->leg, client), type_name(exchange->leg.confirmable),
                   method_name(exchange->datagram[1]));
    log_block_line(&block, "  named by   %s", target_form_name(target->form));
    log_block_line(&block, "  target     %s", target_format(target, text, sizeof(text)));
    log_block_line(&block, "  CRI        %s", describe_cri(target, text, sizeof(text)));
    log_block_line(
        &block, "  options    %s",
        describe_options(exchange->datagram, exchange->datagram_len, text, sizeof(text)));
    log_block_line(&block, "  rule       %s", rule_text(&exchange->leg));
    if (exchange->candidate_count > 0) {
        log_block_line(&block, "  sent to    %s, %u time(s), message id %u",
                       address_format(&exchange->candidates[exchange->candidate], address),
                       exchange->retransmit_count + 1u,
                       (unsigned)exchange->datagram[2] << 8 | exchange->datagram[3]);
    }
    log_block_line(&block, "  outcome    %s %s after %" PRIu64 " ms", reason_row(reason)->name,
                   code_text(code, shown), engine_now_ms(engine) - exchange->started_ms);
    log_block_write(&block);
}

void trace_ended(struct engine *engine, const struct exchange *exchange, enum reason reason,
                 uint8_t code)
{
    if (has_target(exchange)) {
        metrics_add_duration(&engine->metrics, engine_now_ms(engine) - exchange->started_ms);
    }
    const struct access_record record = {
        .leg = &exchange->leg,
        .exchange = exchange,
        .has_target = has_target(exchange),
        .reason = reason,
        .method = has_target(exchange) ? exchange->datagram[1] : 0,
        .code = code,
    };
    access_log(engine, &record);
    if (engine->trace && has_target(exchange)) {
        trace_block(engine, exchange, reason, code);
    }
}

void trace_answered(struct engine *engine, const struct leg *leg, const struct message *request,
                    const struct problem *problem, uint8_t code)
{
    char client[CLIENT_TEXT_MAX], shown[8], why[2 * PROBLEM_TEXT_MAX];
    const struct reason_row *row = reason_row(problem->reason);
    metric_add(&engine->metrics.ended[problem->reason], 1);
    const struct access_record record = {.leg = leg,
                                         .reason = problem->reason,
                                         .method = request->code,
                                         .code = code,
                                         .why = problem->text};
    access_log(engine, &record);
    if (engine->trace) {
        struct log_block block;
        log_block_init(&block);
        log_block_line(&block, "request from %s: %s %s", client_text(leg, client),
                       type_name(leg->confirmable), method_name(request->code));
        if (leg->rule != NULL) {
            log_block_line(&block, "  rule       %s", leg->rule);
        }
        log_block_line(&block, "  outcome    %s %s%s%s", row->name, code_text(code, shown),
                       problem->text[0] != '\0' ? ": " : "",
                       escape_text(why, sizeof(why), problem->text, strlen(problem->text)));
        log_block_write(&block);
    }
}

void trace_refused(struct engine *engine, const struct leg *leg, const struct message *request,
                   const struct problem *problem)
{
    trace_answered(engine, leg, request, problem, reason_row(problem->reason)->code);
}
