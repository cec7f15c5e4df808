/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The target is put into a request as a client would send it, and taken through
 * the same code as any request: what is printed is what would happen.
 */
#include "client/explain.h"

#include "base/escape.h"
#include "client/explain_question.h"
#include "client/scan.h"
#include "client/trace.h"
#include "coap/http_uri.h"
#include "coap/message.h"
#include "coap/option.h"
#include "conf/config.h"
#include "conf/recording.h"
#include "context/target.h"
#include "fetch/admit.h"
#include "fetch/encode.h"
#include "fetch/group.h"
#include "fetch/hops.h"
#include "fetch/published.h"
#include "fetch/self.h"
#include "fetch/zones.h"
#include "origin/names.h"
#include "policy/hostname.h"
#include "policy/ranges.h"

#include <assert.h>
#include <cri/diag.h>
#include <string.h>

/* The way of the request by its target and the routes, before the client is looked at. */
struct explain_way {
    bool is_to_parent; /* which resolves the name, or to a device: addresses are not checked */
    bool is_group;     /* the request has Multicast-Timeout */
};

struct explain_verdict {
    enum explain_outcome outcome;
    enum reason reason;                           /* of REFUSED */
    bool is_by_address, is_by_client, is_by_echo; /* what DEPENDS, or a refusal, comes from */
};

/* --- what the rules say -------------------------------------------------------- */

/* Without the port, which is nothing to the rules. */
static const char *format_host(const struct address *address, char text[ADDRESS_TEXT_MAX])
{
    (void)address_format(address, text);
    char *port = strrchr(text, ':');
    if (port != NULL) {
        *port = '\0';
    }
    return text;
}

static void print_client(const struct config *config, const struct explain_question *question,
                         FILE *out)
{
    static const char *const standings[] = {
        [STANDING_UNKNOWN] = "unknown",
        [STANDING_NONE] = "not served, and a datagram not answered: no rule that allows names it",
        [STANDING_BY_RULE] = "served, because a rule that allows names it",
        [STANDING_CLIENT] = "served, as policy.clients says",
    };
    const struct access_client *client = &question->request.client;
    const struct scheme *scheme = config_scheme_by_number(config, client->scheme);
    char address[ADDRESS_TEXT_MAX], identity[IDENTITY_TEXT_MAX];
    fprintf(out, "client     %s over %s", format_host(&client->address, address),
            scheme != NULL ? scheme->name : "-");
    if (client->identity != NULL) {
        fprintf(out, ", %s", identity_format(client->identity, identity));
    }
    fprintf(out, ": %s\n", standings[question->request.standing]);
}

/* --- the decision ------------------------------------------------------- */

static struct explain_verdict refused_for(enum reason reason)
{
    return (struct explain_verdict){.outcome = EXPLAIN_REFUSED, .reason = reason};
}

/*
 * Whether the client may have the target at the question's address, as a name that has led there.
 * The verdict has the reason of a refusal, and borrows the rule from @p config.
 */
static struct access_verdict explain_address(const struct config *config,
                                             const struct explain_question *question)
{
    const struct access_request *request = &question->request;
    struct access_verdict verdict =
        access_check_address(config->access, request, &question->address);
    if (!config->policy_own_host) {
        access_check_own_host(config->access, &request->client, question->own, question->own_count,
                              &question->address, &verdict);
    }
    return verdict;
}

/* As fetch/admit.c does it; the rule is that of the last question that was asked. */
static struct explain_verdict judge_client(const struct config *config,
                                           const struct explain_question *question,
                                           const struct explain_way *way,
                                           struct access_verdict *ret_name,
                                           struct access_verdict *ret_address)
{
    const struct access_request *request = &question->request;
    const struct target *target = request->target;
    *ret_name = *ret_address = (struct access_verdict){.reason = REASON_none};
    if (request->standing == STANDING_NONE) {
        return refused_for(access_refusal(request->client.identity));
    }
    *ret_name = access_check_target(config->access, request);
    bool is_put_off = ret_name->may_be_opened && !way->is_to_parent;
    if (!config->policy_own_host) {
        access_check_own_host(config->access, &request->client, question->own, question->own_count,
                              &target->address, ret_name);
    }
    if (ret_name->reason != REASON_none && !is_put_off) {
        return refused_for(ret_name->reason);
    }
    if (!target->is_name || way->is_to_parent) {
        return (struct explain_verdict){.outcome = EXPLAIN_FORWARDED};
    }
    if (!question->has_address) {
        return (struct explain_verdict){.outcome = EXPLAIN_DEPENDS, .is_by_address = true};
    }
    *ret_address = explain_address(config, question);
    struct explain_verdict verdict = refused_for(ret_address->reason);
    verdict.is_by_address = true;
    return ret_address->reason != REASON_none
               ? verdict
               : (struct explain_verdict){.outcome = EXPLAIN_FORWARDED};
}

/* The same question by a client that has shown to be @p name; changes *verdict where it differs. */
static void judge_as(const struct config *config, const struct explain_question *question,
                     const struct explain_way *way, enum identity_kind kind, const char *name,
                     struct explain_verdict *verdict)
{
    struct access_verdict unused;
    struct explain_question other = *question;
    size_t len = strlen(name);
    other.identity = identity_new(kind, len + 1, NULL);
    if (other.identity != NULL && other.identity->names_capacity > len) {
        /* Not by identity_add_name(): rules have names as they are when they are escaped. */
        memcpy(other.identity->names, name, len + 1);
        other.identity->names_len = (uint16_t)(len + 1);
        other.request.client.identity = other.identity;
        other.request.standing = access_standing(config->access, &other.request.client);
    }
    /* Without memory the question is open, which "depends" says. */
    struct explain_verdict theirs = judge_client(config, &other, way, &unused, &unused);
    verdict->is_by_client =
        verdict->is_by_client || other.identity == NULL || theirs.outcome != verdict->outcome;
    verdict->is_by_address = verdict->is_by_address || theirs.is_by_address;
    identity_release(other.identity);
}

/*
 * A client on a secure transport has an identity or none. Which names it may have is not
 * known, but which make a difference is: those in the rules, and any other. What one with
 * several names of a certificate gets is what one of them gets, as the first rule decides.
 */
static void judge_others(const struct config *config, const struct explain_question *question,
                         const struct explain_way *way, struct explain_verdict *verdict)
{
    static const char stranger[] = "(not in any rule)";
    const struct access *access = config->access;
    for (unsigned kind = IDENTITY_PSK; kind < IDENTITY_KINDS; kind++) {
        judge_as(config, question, way, (enum identity_kind)kind, stranger, verdict);
    }
    for (uint32_t i = 0; i < access->rule_count && !verdict->is_by_client; i++) {
        for (unsigned kind = IDENTITY_PSK; kind < IDENTITY_KINDS; kind++) {
            const struct rule_names *names = &access->rules[i].names[kind];
            for (uint32_t k = 0; k < names->count; k++) {
                judge_as(config, question, way, (enum identity_kind)kind, names->items[k], verdict);
            }
        }
    }
}

/* A request that changes something is not forwarded before Echo has been answered. */
static bool is_challenged(const struct config *config, const struct explain_question *question,
                          const struct explain_way *way)
{
    const struct access_request *request = &question->request;
    bool is_safe = request->method == CODE_GET || request->method == CODE_FETCH;
    return request->client.scheme == CRI_SCHEME_COAP && (!is_safe || way->is_group) &&
           !access_is_echo_exempt(config->access, &request->client.address);
}

static void print_rules(const struct explain_question *question, const struct explain_way *way,
                        const struct access_verdict *name, const struct access_verdict *address,
                        FILE *out)
{
    const struct target *target = question->request.target;
    char text[ADDRESS_TEXT_MAX];
    bool is_open = target->is_name && !way->is_to_parent && address->rule == NULL;
    bool is_refused = name->reason != REASON_none;
    fprintf(out, "rule       %s%s%s\n", name->rule, is_refused ? ", which refuses" : "",
            !is_open              ? ""
            : !is_refused         ? "; each address of the name is checked as well"
            : name->may_be_opened ? "; a rule may allow an address of the name"
                                  : "");
    if (address->rule != NULL) {
        fprintf(out, "address    %s: rule %s%s\n", format_host(&question->address, text),
                address->rule, address->reason == REASON_none ? "" : ", which refuses");
    }
}

/* Print the client and the rules that decide, a line each: whether it gets the target, and why not.
 */
static struct explain_verdict explain_access(const struct config *config,
                                             const struct explain_question *question,
                                             const struct explain_way *way, FILE *out)
{
    struct access_verdict name, address;
    const struct access_client *client = &question->request.client;
    struct explain_verdict verdict = judge_client(config, question, way, &name, &address);
    print_client(config, question, out);
    if (name.rule != NULL) {
        print_rules(question, way, &name, &address, out);
    }
    if (client->identity == NULL && access_is_secure_client(client->scheme)) {
        judge_others(config, question, way, &verdict);
    }
    verdict.is_by_echo = verdict.outcome != EXPLAIN_REFUSED && is_challenged(config, question, way);
    if (verdict.is_by_client || verdict.is_by_echo) {
        verdict.outcome = EXPLAIN_DEPENDS;
        verdict.reason = REASON_none;
    }
    return verdict;
}

#define CRI_MAX 1023u
#define GROUP_TIMEOUT_S 1u /* a request to a group has to have one */

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

/* The request as a client would send it, and what it is for. */
struct asked {
    struct option option;
    uint8_t datagram[2048], memory[8192];
    struct message request;
    struct request_options options;
    struct target target;
};

static bool explain_make_request(struct asked *asked, bool is_group)
{
    struct message_writer writer;
    message_writer_init(&writer, asked->datagram, sizeof(asked->datagram), MESSAGE_CON, CODE_GET, 0,
                        (struct bytes){0});
    if (is_group) {
        message_writer_option_uint(&writer, OPTION_multicast_timeout, GROUP_TIMEOUT_S);
    }
    message_writer_option(&writer, asked->option.number, asked->option.value);
    return !writer.overflow &&
           message_decode(asked->datagram, writer.len, &asked->request) == MESSAGE_OK;
}

/* --- the outcome -------------------------------------------------------- */

static struct explain_result print_refusal(const struct problem *problem, FILE *out)
{
    char why[2 * PROBLEM_TEXT_MAX];
    const struct reason_row *row = reason_row(problem->reason);
    const char *text = problem->text[0] != '\0' ? problem->text : row->diagnostic;
    uint8_t code = problem->reason == REASON_local ? CODE(2, 5) : row->code;
    fprintf(out, "outcome    refused %u.%02u %s: %s\n", CODE_CLASS(code), CODE_DETAIL(code),
            row->name,
            problem->reason == REASON_local ? "not forwarded, the proxy itself is the target"
                                            : escape_text(why, sizeof(why), text, strlen(text)));
    fprintf(out, "           %s\n", row->help);
    return (struct explain_result){EXPLAIN_REFUSED, problem->reason};
}

static struct explain_result print_reason(enum reason reason, FILE *out)
{
    const struct problem problem = {.reason = reason};
    return print_refusal(&problem, out);
}

static struct explain_result print_verdict(const struct explain_verdict *verdict, FILE *out)
{
    const char *separator = "depends on ";
    if (verdict->outcome == EXPLAIN_FORWARDED) {
        fprintf(out, "outcome    forwarded\n");
        return (struct explain_result){EXPLAIN_FORWARDED, REASON_none};
    }
    if (verdict->outcome == EXPLAIN_REFUSED) {
        return print_reason(verdict->reason, out);
    }
    fprintf(out, "outcome    ");
    if (verdict->is_by_client) {
        fprintf(out, "%swho the client turns out to be", separator);
        separator = ", and on ";
    }
    if (verdict->is_by_address) {
        fprintf(out, "%sthe addresses that the name leads to", separator);
        separator = ", and on ";
    }
    if (verdict->is_by_echo) {
        fprintf(out, "%sthe client's answer to Echo, which it is sent with 4.01", separator);
    }
    fprintf(out, "\n           %s\n",
            verdict->is_by_client    ? "Say identity=NAME or certificate=NAME of the client."
            : verdict->is_by_address ? "Say one of them with --resolves-to."
                                     : "Clients that policy.echo-exempt names are not asked.");
    return (struct explain_result){EXPLAIN_DEPENDS, REASON_none};
}

/* --- the way ------------------------------------------------------------ */

/* As own_hosts_has_entrance(), of the listeners that the configuration names. */
static bool leads_to_listener(const struct config *config, const struct explain_question *question,
                              const struct scheme *scheme, const struct address *address)
{
    for (size_t i = 0; i < config->listener_count; i++) {
        const struct config_listener *listener = &config->listeners[i];
        const struct address *bound = &listener->bind;
        bool is_there = address_same_host(bound, address) ||
                        (bound->family == address->family && address_is_unspecified(bound) &&
                         (address_is_loopback(address) || address_is_unspecified(address) ||
                          address_is_among(question->own, question->own_count, address)));
        if (is_there && bound->port == address->port && listener->transport == scheme->transport) {
            return true;
        }
    }
    return false;
}

/* As admit_is_own(), of the listeners that the configuration names. */
static bool explain_is_own(const struct config *config, const struct explain_question *question,
                           const struct target *target)
{
    bool is_port = false;
    for (size_t i = 0; i < config->listener_count; i++) {
        is_port = is_port || (config->listeners[i].transport == target->scheme->transport &&
                              config->listeners[i].bind.port == target->port);
    }
    return admit_is_own_name(config, target, is_port) ||
           (!target->is_name &&
            leads_to_listener(config, question, target->scheme, &target->address));
}

static void print_route(const struct config *config, const struct next_hop *hop,
                        const struct config_route *route, const struct target *target, FILE *out)
{
    char name[80] = "";
    if (route != NULL) {
        snprintf(name, sizeof(name), " (route %s)", route->name);
    }
    if (target->zone[0] != '\0') {
        fprintf(out, "zone       %s, interface %u\n", target->zone, target->address.scope);
    }
    if (hop->is_device) {
        fprintf(out, "route      to a device, over the session that it has opened\n");
    } else if (route != NULL && route->kind != ROUTE_KIND_DIRECT) {
        fprintf(out, "route      %s%s\n", route->via, name);
    } else {
        fprintf(out, "route      direct, %s, port %u%s\n",
                target->is_name ? "to the addresses that the name resolves to" : "to the address",
                target->port, name);
    }
    if (hop->is_recording) {
        assert(route != NULL); /* only a section [route] leads to one */
        fprintf(out, "recording  %u requests, played %u time(s) as fast\n",
                route->recording->entry_count, (unsigned)route->speed);
    }
    if (hop->has_oscore) {
        fprintf(out, "protection OSCORE, by the section upstream %s\n",
                target_oscore_section(config, target)->name);
    }
}

/* Why the request cannot take its way, for any client; prints what it becomes. */
static enum reason print_request(const struct config *config, const struct target *target,
                                 const struct message *request, const struct next_hop *hop,
                                 const struct config_route *route, FILE *out)
{
    char text[4096];
    uint8_t upstream[4096];
    struct additions additions = {.hop_limit = 0};
    struct naming_room room;
    struct naming naming = naming_for_origin(target);
    (void)hops_take(config, (struct bytes){0}, &additions.hop_limit);
    print_route(config, hop, route, target, out);
    if (route != NULL && hop->is_parent) { /* only a route leads to one */
        enum reason reason = naming_for_parent(target, route->form, hop, &room, &naming);
        if (reason != REASON_none) {
            return reason;
        }
    }
    size_t len = encode_request(target, &naming, &additions, request, (struct bytes){0}, upstream,
                                sizeof(upstream));
    if (len == 0 || len > config->limits_datagram_bytes) {
        return REASON_request_too_large;
    }
    fprintf(out, "options    %s\n", describe_options(upstream, len, text, sizeof(text)));
    return hop->is_name && !resolve_is_host_name((const char *)hop->name.data, hop->name.len)
               ? REASON_name_unresolvable
               : REASON_none;
}

/* Why @p address, where the next hop is, cannot be used for any client. */
static enum reason check_address(const struct config *config,
                                 const struct explain_question *question,
                                 const struct explain_way *way, const struct next_hop *hop,
                                 const struct address *host)
{
    struct address address = *host;
    address.port = hop->port;
    if (leads_to_listener(config, question, hop->scheme, &address)) {
        return hop->is_parent
                   ? REASON_route_loop
                   : self_reason(question->request.method, &question->request.target->path);
    }
    return group_reason_against(config, hop, way->is_group, &address);
}

/*
 * What "localhost" leads to is known: the address that decides is one of the proxy itself, the
 * first that the client may have, or else the last.
 */
static void take_localhost(const struct config *config, struct explain_question *question)
{
    const struct target *target = question->request.target;
    struct address addresses[RANGES_LOCALHOST_COUNT];
    ranges_localhost(config->resolve_prefer == RESOLVE_PREFER_IPV6, addresses);
    question->has_address = true;
    for (size_t i = 0; i < RANGES_LOCALHOST_COUNT; i++) {
        struct address there = addresses[i];
        there.port = target->port;
        question->address = addresses[i];
        if (leads_to_listener(config, question, target->scheme, &there)) {
            return;
        }
    }
    for (size_t i = 0; i < RANGES_LOCALHOST_COUNT; i++) {
        question->address = addresses[i];
        if (explain_address(config, question).reason == REASON_none) {
            return;
        }
    }
}

/* Everything that is decided about the target, in the order in which requests meet it. */
static struct explain_result print_way(const struct config *config,
                                       struct explain_question *question,
                                       const struct zone_table *zones, const struct asked *asked,
                                       FILE *out)
{
    char text[4096];
    const struct target *target = &asked->target;
    const struct config_route *route;
    struct next_hop hop = {.is_device = false};
    enum reason reason = route_find(config, target, &hop, &route);
    const struct explain_way way = {
        .is_to_parent = hop.is_device || next_hop_stands_in(&hop),
        .is_group = asked->options.multicast_timeout.data != NULL,
    };
    fprintf(out, "target     %s\n", target_format(target, text, sizeof(text)));
    fprintf(out, "CRI        %s\n", describe_cri(target, text, sizeof(text)));
    if (!way.is_to_parent && target->is_name &&
        hostname_is_localhost(target->name, target->name_len)) {
        take_localhost(config, question);
    }
    /* A link-local address has the scope that the proxy would give it. */
    bool is_resolved = question->has_address && target->is_name && !way.is_to_parent;
    bool has_zone = !is_resolved || zones_admit(zones, &question->address);
    struct explain_verdict verdict = explain_access(config, question, &way, out);
    if (question->request.standing != STANDING_NONE && explain_is_own(config, question, target)) {
        return print_reason(self_reason(question->request.method, &target->path), out);
    }
    enum reason of_group = group_check(config, target, &asked->options);
    if (of_group != REASON_none) {
        return print_reason(of_group, out);
    }
    if (verdict.outcome == EXPLAIN_REFUSED && !verdict.is_by_address) {
        return print_verdict(&verdict, out);
    }
    if (reason == REASON_none) {
        reason = print_request(config, target, &asked->request, &hop, route, out);
    }
    if (reason == REASON_none && is_resolved) {
        reason = has_zone ? check_address(config, question, &way, &hop, &question->address)
                          : REASON_zone_needed;
    } else if (reason == REASON_none && !hop.is_name) {
        reason = check_address(config, question, &way, &hop, &hop.address);
    }
    return reason != REASON_none ? print_reason(reason, out) : print_verdict(&verdict, out);
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

static bool explain_find_target(const struct config *config, const struct zone_table *zones,
                                struct asked *asked, struct problem *ret_problem)
{
    const struct address local = {.family = ADDRESS_IPV4, .port = 0};
    if (!explain_make_request(asked, false) ||
        !scan_options(&asked->request, &asked->options, ret_problem) ||
        !target_find(config, &asked->request, &asked->options, &local,
                     (struct target_memory){asked->memory, sizeof(asked->memory)}, &asked->target,
                     ret_problem) ||
        !zones_apply(zones, &local, &asked->target, ret_problem)) {
        return false;
    }
    bool is_group = !asked->target.is_name && address_is_multicast(&asked->target.address);
    return !is_group || (explain_make_request(asked, true) &&
                         scan_options(&asked->request, &asked->options, ret_problem));
}

/* A path of the proxy's own, which a section publish may lead elsewhere; as take_published(). */
static bool explain_published(const struct config *config, const struct explain_question *question,
                              const struct zone_table *zones, struct asked *asked,
                              struct problem *problem, FILE *out)
{
    static const struct address local = {.family = ADDRESS_IPV4, .port = 0};
    const struct config_publish *published = explain_is_own(config, question, &asked->target)
                                                 ? published_find(config, &asked->target.path)
                                                 : NULL;
    if (published == NULL) {
        return true;
    }
    fprintf(out, "published  %s, by the section publish %s\n", published->path, published->name);
    *problem = (struct problem){
        .reason = published_take(published, question->request.method,
                                 (struct target_memory){asked->memory, sizeof(asked->memory)},
                                 &asked->target)};
    target_note_oscore(config, asked->request.options, &asked->target);
    return problem->reason == REASON_none && zones_apply(zones, &local, &asked->target, problem);
}

/*
 * HC-18: a URI of the HTTP front, http://HOST/hc/..., stands for the target that it is mapped to.
 *
 * @param hex room for a CRI (a template with {cri}), in hexadecimal.
 * @return that target; @p target itself, where it is no such URI.
 */
static const char *explain_mapped(const struct config *config, const char *target,
                                  struct http_uri *uri, char hex[2 * HTTP_URI_MAX + 1], FILE *out)
{
    const struct http_mapping mapping = {.prefix = config->http_prefix,
                                         .template = config->http_template};
    bool is_web = strncmp(target, "http://", 7) == 0 || strncmp(target, "https://", 8) == 0;
    const char *path = is_web ? strchr(strchr(target, ':') + 3, '/') : NULL;
    if (path == NULL || strncmp(path, mapping.prefix, strlen(mapping.prefix)) != 0) {
        return target;
    }
    const struct bytes text = {(const uint8_t *)path, strlen(path)};
    if (http_uri_find(&mapping, text, uri) != 200) {
        fprintf(out, "mapped by   http.prefix, but refused: %s\n", uri->why);
        return target;
    }
    for (size_t i = 0; i < uri->len && uri->kind == HTTP_URI_CRI; i++) {
        (void)snprintf(hex + 2 * i, 3, "%02x", (unsigned)(uint8_t)uri->text[i]);
    }
    const char *mapped = uri->kind == HTTP_URI_CRI ? hex : uri->text;
    fprintf(out, "mapped to  %s\n", mapped);
    return mapped;
}

struct explain_result explain_target(const struct config *config,
                                     const struct explain_options *asking, const char *target,
                                     FILE *out)
{
    static const struct explain_options none;
    struct explain_question question;
    uint8_t room[CRI_MAX + 1];
    struct http_uri uri;
    char hex[2 * HTTP_URI_MAX + 1] = "";
    target = explain_mapped(config, target, &uri, hex, out);
    const struct option option = option_for(target, room, sizeof(room));
    struct asked asked = {.option = option};
    struct problem problem = {.reason = REASON_request_too_large};
    struct zone_table zones;
    zones_look_up(config, &zones);

    fprintf(out, "named by   %s\n", option.number == OPTION_proxy_cri ? "Proxy-Cri" : "Proxy-Uri");
    if (explain_question_init(config, asking != NULL ? asking : &none, &question) != NULL) {
        return print_reason(REASON_internal, out); /* no memory: the options have been checked */
    }
    struct explain_result result;
    if (explain_find_target(config, &zones, &asked, &problem) &&
        explain_published(config, &question, &zones, &asked, &problem, out)) {
        question.request.target = &asked.target;
        result = print_way(config, &question, &zones, &asked, out);
    } else {
        /* Whether a client is served is decided before its target is looked at. */
        if (question.request.standing == STANDING_NONE) {
            problem = (struct problem){.reason = access_refusal(question.request.client.identity)};
        }
        result = print_refusal(&problem, out);
    }
    explain_question_clear(&question);
    return result;
}
