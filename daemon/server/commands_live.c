/* SPDX-License-Identifier: BSD-2-Clause */
/* What criproxyctl shows until it is interrupted: the live trace, messages, answers. */
#include "server/control.h"

#include <stdlib.h>
#include <string.h>

const char *control_value_of(const char *argument, const char *key)
{
    size_t len = strlen(key);

    return strncmp(argument, key, len) == 0 && argument[len] == '=' ? argument + len + 1 : NULL;
}

/* ---- the live trace ---- */

#define TRACE_MOST_MAX 100000ul

/* Requests in a second. NULL, or what is wrong. */
static const char *take_most(const char *text, uint32_t *ret_per_s)
{
    size_t len = strspn(text, "0123456789");
    unsigned long number = len > 0 && len < 7 ? strtoul(text, NULL, 10) : 0;

    if (text[len] != '\0' || number < 1 || number > TRACE_MOST_MAX) {
        return "most: expected 1 to 100000 requests in a second";
    }
    *ret_per_s = (uint32_t)number;
    return NULL;
}

/* NULL, or what is wrong. */
static const char *take_trace_argument(const char *argument, struct control_filter *filter)
{
    const char *client = control_value_of(argument, "client"),
               *target = control_value_of(argument, "target");
    const char *reason = control_value_of(argument, "reason"),
               *identity = control_value_of(argument, "identity");
    const char *most = control_value_of(argument, "most");

    if (most != NULL) {
        return take_most(most, &filter->per_s);
    }
    if (client == NULL && target == NULL && reason == NULL && identity == NULL) {
        return "expected client=ADDRESS, target=TEXT, reason=REASON, identity=TEXT or most=NUMBER";
    }
    if (client != NULL && !control_begins_address(client)) {
        return "client: expected an address, or how one begins, in lower case";
    }
    if (reason != NULL && reason[0] != '\0' && !control_is_reason(reason)) {
        return "reason: no such reason; see criproxyd(8)";
    }
    filter->client = client != NULL ? client : filter->client;
    filter->target = target != NULL ? target : filter->target;
    filter->reason = reason != NULL ? reason : filter->reason;
    filter->identity = identity != NULL ? identity : filter->identity;
    return NULL;
}

/* In any order. */
void run_trace(struct control_client *client, const struct control_request *request)
{
    struct control_filter filter = {
        .client = "", .target = "", .reason = "", .identity = "", .per_s = 0};

    for (size_t i = 0; i < request->argument_count; i++) {
        const char *wrong = take_trace_argument(request->arguments[i], &filter);
        if (wrong != NULL) {
            control_end(client, wrong);
            return;
        }
    }
    control_trace(client, &filter);
}

/* ---- messages ---- */

/* NULL, or what is wrong. */
static const char *take_capture_argument(const char *argument, struct control_capture *wanted)
{
    const char *client = control_value_of(argument, "client"),
               *origin = control_value_of(argument, "origin");
    const char *side = control_value_of(argument, "side");

    if (client == NULL && origin == NULL && side == NULL) {
        return "expected client=ADDRESS, origin=ADDRESS or side=clients|origins";
    }
    if ((client != NULL && !control_begins_address(client)) ||
        (origin != NULL && !control_begins_address(origin))) {
        return "client, origin: expected an address, or how one begins, in lower case";
    }
    if (side != NULL && strcmp(side, "clients") != 0 && strcmp(side, "origins") != 0) {
        return "side: expected clients or origins";
    }
    wanted->client = client != NULL ? client : wanted->client;
    wanted->origin = origin != NULL ? origin : wanted->origin;
    if (side != NULL) {
        wanted->has_clients = side[0] == 'c';
        wanted->has_origins = side[0] == 'o';
    }
    return NULL;
}

void run_messages(struct control_client *client, const struct control_request *request)
{
    struct control_capture wanted = {
        .client = "", .origin = "", .target = "", .has_clients = true, .has_origins = true};

    for (size_t i = 0; i < request->argument_count; i++) {
        const char *wrong = take_capture_argument(request->arguments[i], &wanted);
        if (wrong != NULL) {
            control_end(client, wrong);
            return;
        }
    }
    control_capture(client, &wanted);
}

void run_answers(struct control_client *client, const struct control_request *request)
{
    struct control_capture wanted = {.client = "", .origin = "", .target = "", .has_answers = true};

    if (request->argument_count > 0) {
        wanted.target = control_value_of(request->arguments[0], "target");
    }
    if (wanted.target == NULL) {
        control_end(client, "expected target=TEXT");
        return;
    }
    control_capture(client, &wanted);
}
