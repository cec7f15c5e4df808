/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The target is put into a request as a client would send it, and taken through
 * the same code as any request: what is printed is what would happen.
 */
#include "front/explain.h"

#include "coap/option.h"
#include "front/describe.h"
#include "front/explain_access.h"
#include "front/hops.h"
#include "front/scan.h"
#include "front/zones.h"
#include "ops/escape.h"
#include "origin/encode.h"
#include "origin/names.h"

#include <cri/diag.h>
#include <string.h>

#define CRI_MAX 1023u

/* Whole bytes of hex, or 0. */
static size_t parse_hex(const char *text, uint8_t *bytes, size_t capacity)
{
    size_t len = 0;
    for (; text[0] != '\0' && text[1] != '\0' && len < capacity; text += 2) {
        int high = escape_hex_digit(text[0]), low = escape_hex_digit(text[1]);
        if (high < 0 || low < 0) {
            return 0;
        }
        bytes[len++] = (uint8_t)(high << 4 | low);
    }
    return text[0] == '\0' ? len : 0;
}

/* The option that carries the target: a CRI where it looks like one, else a URI. */
static struct option option_for(const char *target, uint8_t *room, size_t capacity)
{
    struct cri_slice text = {(const uint8_t *)target, strlen(target)};
    size_t len = parse_hex(target, room, capacity);
    if (len == 0 && target[0] == '[' &&
        cri_diag_parse(text, room, capacity, &len, NULL) != CRI_OK) {
        len = 0;
    }
    if (len > 0) {
        return (struct option){OPTION_proxy_cri, {room, len}};
    }
    return (struct option){OPTION_proxy_uri, {text.data, text.len}};
}

static void print_refusal(const struct problem *problem, FILE *out)
{
    char why[2 * PROBLEM_TEXT_MAX];
    const struct reason_row *row = reason_row(problem->reason);
    const char *text = problem->text[0] != '\0' ? problem->text : row->diagnostic;
    fprintf(out, "outcome    %u.%02u %s: %s\n", CODE_CLASS(row->code), CODE_DETAIL(row->code),
            row->name, escape_text(why, sizeof(why), text, strlen(text)));
    fprintf(out, "           %s\n", row->help);
}

static void print_route(const struct config_route *route, const struct target *target, FILE *out)
{
    char name[80] = "";
    if (route != NULL) {
        snprintf(name, sizeof(name), " (route %s)", route->name);
    }
    if (target->zone[0] != '\0') {
        fprintf(out, "zone       %s, interface %u\n", target->zone, target->address.scope);
    }
    if (route != NULL && route->kind != ROUTE_KIND_DIRECT) {
        fprintf(out, "route      %s%s\n", route->via, name);
    } else {
        fprintf(out, "route      direct, %s, port %u%s\n",
                target->is_name ? "to the addresses that the name resolves to" : "to the address",
                target->port, name);
    }
}

static bool print_way(const struct config *config, struct explain_question *question,
                      const struct target *target, const struct message *request, FILE *out)
{
    char text[4096];
    uint8_t upstream[4096];
    struct additions additions = {.hop_limit = 0};
    (void)hops_take(config, (struct bytes){0}, &additions.hop_limit);
    struct naming_room room;
    struct naming naming = naming_for_origin(target);
    const struct config_route *route;
    struct next_hop hop;
    struct problem problem = {.reason = route_find(config, target, &hop, &route)};
    fprintf(out, "target     %s\n", target_format(target, text, sizeof(text)));
    fprintf(out, "CRI        %s\n", describe_cri(target, text, sizeof(text)));
    enum reason refusal = explain_access(config, question, target, out);
    if (refusal != REASON_none) {
        problem.reason = refusal;
        print_refusal(&problem, out);
        return false;
    }
    print_route(route, target, out);
    if (problem.reason == REASON_none && hop.is_parent) {
        problem.reason = naming_for_parent(target, route->form, &hop, &room, &naming);
    }
    if (problem.reason == REASON_none) {
        size_t len = encode_request(target, &naming, &additions, request, (struct bytes){0},
                                    upstream, sizeof(upstream));
        fprintf(out, "options    %s\n", describe_options(upstream, len, text, sizeof(text)));
    }
    if (problem.reason == REASON_none && hop.is_name &&
        !name_is_askable(hop.name.data, hop.name.len)) {
        problem.reason = REASON_name_unresolvable;
    }
    if (problem.reason != REASON_none) {
        print_refusal(&problem, out);
        return false;
    }
    fprintf(out, "outcome    forwarded\n");
    return true;
}

const char *explain_check(const struct config *config, const struct explain_options *options)
{
    struct explain_question question;
    const char *problem = explain_question_init(config, options, &question);
    if (problem == NULL) {
        explain_question_clear(&question);
    }
    return problem;
}

bool explain_target(const struct config *config, const struct explain_options *asking,
                    const char *target, FILE *out)
{
    static const struct explain_options none;
    struct explain_question question;
    uint8_t room[CRI_MAX + 1], datagram[2048], memory[8192];
    struct option option = option_for(target, room, sizeof(room));
    struct message_writer writer;
    struct message request;
    struct request_options options;
    struct problem problem = {.reason = REASON_request_too_large};
    struct target found = {.form = TARGET_FORM_NONE};
    struct address local = {.family = ADDRESS_IPV4, .port = 0};
    struct zone_table zones;
    zones_look_up(config, &zones);

    fprintf(out, "named by   %s\n", option.number == OPTION_proxy_cri ? "Proxy-Cri" : "Proxy-Uri");
    message_writer_init(&writer, datagram, sizeof(datagram), MESSAGE_CON, CODE_GET, 0,
                        (struct bytes){0});
    message_writer_option(&writer, option.number, option.value);
    if (writer.overflow || message_decode(datagram, writer.len, &request) != MESSAGE_OK ||
        !scan_options(&request, &options, &problem) ||
        !target_find(config, &request, &options, &local,
                     (struct target_memory){memory, sizeof(memory)}, &found, &problem) ||
        !zones_apply(&zones, &local, &found, &problem)) {
        print_refusal(&problem, out);
        return false;
    }
    if (explain_question_init(config, asking != NULL ? asking : &none, &question) != NULL) {
        return false; /* no memory: the options have been checked */
    }
    bool is_forwarded = print_way(config, &question, &found, &request, out);
    explain_question_clear(&question);
    return is_forwarded;
}
