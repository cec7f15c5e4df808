/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/scan.h"

#include "coap/option.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct scan {
    uint32_t last; /* number of the option before, to see repetitions; above all: there is none */
    uint16_t bad;  /* first option that must not pass; 0: none */
    bool bad_is_known;
};

/* Not consumed (options.def), or it makes an answer one for its own client. */
static void pass(struct request_options *options, const struct option *option, bool is_repeated)
{
    struct passed_options *passed = &options->passed;
    if (passed->count == PASSED_MAX) {
        passed->of = NULL; /* more than there is room for */
        return;
    }
    passed->items[passed->count++] =
        (struct passed_option){option->number, is_repeated, option->value};
}

static void collect(struct request_options *options, const struct option *option)
{
    switch (option->number) {
    case OPTION_uri_host:
        options->uri_host = option->value;
        break;
    case OPTION_uri_port:
        options->uri_port = option->value;
        break;
    case OPTION_proxy_cri:
        options->proxy_cri = option->value;
        break;
    case OPTION_proxy_uri:
        options->proxy_uri = option->value;
        break;
    case OPTION_proxy_scheme:
        options->proxy_scheme = option->value;
        break;
    case OPTION_proxy_scheme_number:
        options->proxy_scheme_number = option->value;
        break;
    case OPTION_hop_limit:
        options->hop_limit = option->value;
        break;
    case OPTION_observe:
        options->observe = option->value;
        break;
    case OPTION_block2:
        options->block2 = option->value;
        break;
    case OPTION_no_response:
        options->no_response = option->value;
        break;
    case OPTION_echo:
        options->echo = option->value;
        break;
    case OPTION_multicast_timeout:
        options->multicast_timeout = option->value;
        break;
    case OPTION_block1:
        options->block1 = option->value;
        break;
    case OPTION_size2:
        options->size2 = option->value;
        break;
    case OPTION_uri_path:
    case OPTION_uri_query:
        options->has_uri_path_or_query = true;
        break;
    case OPTION_oscore:
    case OPTION_edhoc:
        /* Passed on to the origin server; the proxy itself has no security context. */
        options->not_local = options->not_local == 0 ? option->number : options->not_local;
        break;
    default:
        break;
    }
}

static void scan_option(struct scan *scan, const struct message *message,
                        const struct option *option, struct request_options *options)
{
    const struct option_row *row = option_row(option->number);
    bool is_repeated = option->number == scan->last;
    bool is_extra = row != NULL && is_repeated && !row->repeats_in_request;
    /* RFC 7641 section 2, RFC 8132: only these two methods observe. */
    bool is_defined =
        row != NULL && row->in_request != OPTION_USE_NONE &&
        (row->number != OPTION_observe || message->code == CODE_GET || message->code == CODE_FETCH);
    bool is_recognised = is_defined && !is_extra && option_length_is_good(row, option->value);
    scan->last = option->number;
    if (!is_recognised || row->in_request == OPTION_USE_FORWARD ||
        option->number == OPTION_multicast_timeout) {
        pass(options, option, is_repeated);
    }
    if (is_recognised) {
        collect(options, option);
        return;
    }
    if (scan->bad == 0 && option_is_unsafe(option->number)) {
        scan->bad = option->number;
        scan->bad_is_known = row != NULL;
    }
    if (options->not_local == 0 && option_is_critical(option->number)) {
        options->not_local = option->number;
    }
}

void scan_name_option(struct problem *problem, enum reason reason, const char *what,
                      uint16_t number)
{
    const struct option_row *row = option_row(number);
    problem->reason = reason;
    snprintf(problem->text, sizeof(problem->text), "%s %u%s%s%s", what, number,
             row != NULL ? " (" : "", row != NULL ? row->name : "", row != NULL ? ")" : "");
    for (char *at = problem->text; *at != '\0'; at++) {
        *at = *at == '_' ? '-' : *at;
    }
}

bool scan_options(const struct message *message, struct request_options *ret_options,
                  struct problem *ret_problem)
{
    struct option_iter iter;
    struct option option;
    struct scan scan = {.last = UINT32_MAX};
    memset(ret_options, 0, offsetof(struct request_options, passed.items));
    ret_options->passed.of = message->options.data;
    option_iter_init(&iter, message->options);
    while (option_iter_next(&iter, &option)) {
        scan_option(&scan, message, &option, ret_options);
    }
    if (scan.bad != 0) {
        scan_name_option(
            ret_problem, scan.bad_is_known ? REASON_option_malformed : REASON_option_unknown,
            scan.bad_is_known ? "malformed or misplaced option" : "unrecognized option", scan.bad);
        return false;
    }
    return true;
}
