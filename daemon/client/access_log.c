/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/access_log.h"

#include "base/escape.h"
#include "base/log.h"
#include "client/side.h"
#include "coap/method.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The fields of a line, put together. */
struct line {
    size_t len;
    char text[LOG_LINE_MAX];
};

__attribute__((format(printf, 2, 3))) static void add(struct line *line, const char *format, ...)
{
    size_t left = sizeof(line->text) - line->len;
    va_list args;

    if (line->len > 0 && left > 1) {
        line->text[line->len++] = ' ';
        left--;
    }
    va_start(args, format);
    int len = vsnprintf(line->text + line->len, left, format, args);
    va_end(args);
    line->len += len > 0 && (size_t)len < left ? (size_t)len : left - 1;
}

const char *cache_answer_name(enum cache_answer answer)
{
    switch (answer) {
    case CACHE_ANSWER_OFF:
        break;
    case CACHE_ANSWER_HIT:
        return "hit";
    case CACHE_ANSWER_MISS:
        return "miss";
    case CACHE_ANSWER_STALE:
        return "stale";
    case CACHE_ANSWER_VALIDATED:
        return "validated";
    case CACHE_ANSWER_SHARED:
        return "shared";
    case CACHE_ANSWER_FOLLOWS:
        return "follows";
    }
    return "none";
}

/* The fields of a request with a known target. */
static void add_way(struct line *line, const struct origin_side *below,
                    const struct access_record *record, enum access_field field)
{
    const struct fetch *fetch = record->request != NULL ? record->request->fetch : NULL;
    char target[TARGET_TEXT_MAX], address[ADDRESS_TEXT_MAX];
    bool was_sent = fetch != NULL && request_was_sent(record->request);
    bool was_looked_up = fetch != NULL || record->cache != CACHE_ANSWER_OFF;

    if (field == ACCESS_form) {
        add(line, "form=%s", describe_form(record->target->form));
    } else if (field == ACCESS_target) {
        add(line, "target=%s", describe_target(record->target, target, sizeof(target)));
    } else if (field == ACCESS_cache && was_looked_up) {
        add(line, "cache=%s", cache_answer_name(record->cache));
    } else if (field == ACCESS_route && fetch != NULL && fetch->hop.route.len > 0) {
        add(line, "route=%.*s", (int)fetch->hop.route.len, (const char *)fetch->hop.route.data);
    } else if (field == ACCESS_origin && was_sent) {
        add(line, "origin=%s", device_format(below, &fetch->candidates[fetch->candidate], address));
    } else if (field == ACCESS_sent && was_sent) {
        add(line, "sent=%u", fetch->sending.again.count + 1u);
    }
}

static void access_add_client(struct line *line, const struct client_side *side,
                              const struct leg *leg, enum access_field field)
{
    char text[ADDRESS_TEXT_MAX + IDENTITY_TEXT_MAX];

    if (field == ACCESS_client) {
        add(line, "client=%s", address_format(&leg->asker.path.remote, text));
    } else if (field == ACCESS_identity && identity_is_known(leg->asker.identity)) {
        add(line, "identity=%s", identity_format(leg->asker.identity, text));
    } else if (field == ACCESS_over) {
        const struct scheme *scheme =
            config_scheme_by_number(side->context.config, leg->asker.scheme);
        add(line, "over=%s", scheme != NULL ? scheme->name : "-");
    } else if (field == ACCESS_rule) {
        add(line, "rule=%s", leg->asker.rule != NULL ? leg->asker.rule : "-");
    }
}

static void add_outcome(struct line *line, const struct client_side *side,
                        const struct access_record *record, enum access_field field)
{
    char why[2 * PROBLEM_TEXT_MAX];

    if (field == ACCESS_exchange && record->request != NULL) {
        add(line, "exchange=%" PRIu64, record->request->trail.id);
    } else if (field == ACCESS_method && record->method != 0) {
        add(line, "method=%s", method_name(record->method));
    } else if (field == ACCESS_code) {
        add(line, "code=%u.%02u", CODE_CLASS(record->code), CODE_DETAIL(record->code));
    } else if (field == ACCESS_why && record->why != NULL && record->why[0] != '\0') {
        add(line, "why=%s", escape_value(why, sizeof(why), record->why, strlen(record->why)));
    } else if (field == ACCESS_ms && record->request != NULL) {
        uint64_t us = loop_clock_us(side->context.loop) - record->request->trail.started_us;
        add(line, "ms=%" PRIu64 ".%03u", us / 1000, (unsigned)(us % 1000));
    }
}

static void access_add_field(struct line *line, const struct client_side *side,
                             const struct access_record *record, enum access_field field)
{
    switch (field) {
    case ACCESS_form:
    case ACCESS_target:
    case ACCESS_route:
    case ACCESS_origin:
    case ACCESS_sent:
    case ACCESS_cache:
        if (record->target != NULL) {
            add_way(line, &side->origin, record, field);
        }
        break;
    case ACCESS_client:
    case ACCESS_identity:
    case ACCESS_over:
    case ACCESS_rule:
        access_add_client(line, side, record->leg, field);
        break;
    case ACCESS_exchange:
    case ACCESS_method:
    case ACCESS_code:
    case ACCESS_why:
    case ACCESS_ms:
        add_outcome(line, side, record, field);
        break;
    case ACCESS_FIELD_COUNT:
        break;
    }
}

void access_log(struct client_side *side, const struct access_record *record)
{
    const struct access_format *format = &side->context.config->access_format;
    struct line line;

    const char *event = reason_row(record->reason)->name;

    /* A client could fill the log with requests that fail, so their lines are limited. */
    if (side->context.config->log_access == LOG_ACCESS_ERRORS && !log_take(event)) {
        return;
    }
    line.len = 0;
    line.text[0] = '\0';
    for (size_t i = 0; i < format->count; i++) {
        access_add_field(&line, side, record, format->fields[i]);
    }
    log_access(event, "%s", line.text);
}
