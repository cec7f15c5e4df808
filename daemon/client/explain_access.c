/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/explain_access.h"

#include "coap/message.h"
#include "coap/method.h"
#include "conf/config.h"
#include "net/interfaces.h"

#include <string.h>

/* What stands in --client: ADDRESS[,transport=SCHEME][,identity=NAME][,certificate=NAME]. */
struct client_text {
    const char *address, *transport, *identity, *certificate;
    size_t address_len, transport_len, identity_len, certificate_len;
};

static bool explain_take_field(const char *text, size_t len, const char *key,
                               const char **ret_value, size_t *ret_len)
{
    size_t key_len = strlen(key);
    if (len < key_len || memcmp(text, key, key_len) != 0 || *ret_value != NULL) {
        return false;
    }
    *ret_value = text + key_len;
    *ret_len = len - key_len;
    return true;
}

static bool split_client(const char *text, struct client_text *ret_client)
{
    struct client_text client = {.address = text, .address_len = strcspn(text, ",")};
    text += client.address_len;
    while (*text == ',') {
        size_t len = strcspn(++text, ",");
        if (!explain_take_field(text, len, "transport=", &client.transport,
                                &client.transport_len) &&
            !explain_take_field(text, len, "identity=", &client.identity, &client.identity_len) &&
            !explain_take_field(text, len, "certificate=", &client.certificate,
                                &client.certificate_len)) {
            return false;
        }
        text += len;
    }
    *ret_client = client;
    return client.identity == NULL || client.certificate == NULL;
}

/* With or without brackets around IPv6; no port. */
static bool explain_parse_address(const char *text, size_t len, struct address *ret_address)
{
    struct address_prefix single;
    if (len > 2 && text[0] == '[' && text[len - 1] == ']') {
        text++;
        len -= 2;
    }
    if (memchr(text, '/', len) != NULL) {
        return false;
    }
    /* IPv4-mapped ones too, which a range may not be. */
    char bracketed[ADDRESS_TEXT_MAX];
    if (len + 3 > sizeof(bracketed)) {
        return false;
    }
    bracketed[0] = '[';
    memcpy(bracketed + 1, text, len);
    bracketed[len + 1] = ']';
    if (address_prefix_parse(text, len, &single) == NULL) {
        *ret_address = single.base;
        return true;
    }
    return address_parse(bracketed, len + 2, 0, ret_address);
}

static bool explain_find_transport(const struct config *config, const struct client_text *text,
                                   uint32_t *ret_scheme)
{
    bool is_known = text->identity != NULL || text->certificate != NULL;
    *ret_scheme = is_known ? CRI_SCHEME_COAPS : CRI_SCHEME_COAP;
    if (text->transport == NULL) {
        return true;
    }
    for (size_t i = 0; i < config->scheme_count; i++) {
        const struct scheme *scheme = &config->schemes[i];
        if (strlen(scheme->name) == text->transport_len &&
            memcmp(scheme->name, text->transport, text->transport_len) == 0) {
            *ret_scheme = scheme->number;
            return scheme->transport != TRANSPORT_NONE;
        }
    }
    return false;
}

static struct identity *make_identity(const struct client_text *text)
{
    bool is_psk = text->identity != NULL;
    const char *name = is_psk ? text->identity : text->certificate;
    size_t len = is_psk ? text->identity_len : text->certificate_len;
    struct identity *identity =
        identity_new(is_psk ? IDENTITY_PSK : IDENTITY_CERTIFICATE, len + 1, NULL);
    if (identity != NULL) {
        identity_add_name(identity, (const unsigned char *)name, len);
    }
    return identity;
}

static const char *take_client(const struct config *config, const char *client,
                               struct explain_question *question)
{
    struct client_text text;
    struct address address;
    uint32_t scheme;
    if (!split_client(client, &text) ||
        !explain_parse_address(text.address, text.address_len, &address)) {
        return "expected a client as ADDRESS[,transport=SCHEME][,identity=NAME|,certificate=NAME]";
    }
    if (!explain_find_transport(config, &text, &scheme)) {
        return "expected a client's transport: coap, coaps, coap+tcp, coaps+tcp, coap+ws, coaps+ws";
    }
    if (text.identity != NULL || text.certificate != NULL) {
        question->identity = make_identity(&text);
        if (question->identity == NULL) {
            return "out of memory";
        }
    }
    question->request.client = access_client_of(&address, scheme, question->identity);
    question->own_count = interfaces_list(question->own, EXPLAIN_OWN_MAX);
    return NULL;
}

const char *explain_question_init(const struct config *config,
                                  const struct explain_options *options,
                                  struct explain_question *ret_question)
{
    struct explain_question question = {.request = {.method = CODE_GET}};
    if (options->method != NULL) {
        question.request.method = method_find(options->method, strlen(options->method));
        if (question.request.method == 0) {
            return "expected GET, POST, PUT, DELETE, FETCH, PATCH or iPATCH";
        }
    }
    if (options->address != NULL) {
        question.has_address = true;
        if (!explain_parse_address(options->address, strlen(options->address), &question.address)) {
            return "expected an IP address that the target's name leads to";
        }
    }
    const char *problem =
        take_client(config, options->client != NULL ? options->client : "127.0.0.1", &question);
    if (problem != NULL) {
        return problem;
    }
    question.request.standing = access_standing(config->access, &question.request.client);
    *ret_question = question;
    return NULL;
}

void explain_question_clear(struct explain_question *question)
{
    identity_release(question->identity);
    question->identity = NULL;
}

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

struct access_verdict explain_address(const struct config *config,
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
        return refused_for(access_refusal(&request->client));
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
        other.identity->names_len = len + 1;
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
    judge_as(config, question, way, IDENTITY_PSK, stranger, verdict);
    judge_as(config, question, way, IDENTITY_CERTIFICATE, stranger, verdict);
    for (uint32_t i = 0; i < access->rule_count && !verdict->is_by_client; i++) {
        const struct access_rule *rule = &access->rules[i];
        for (uint32_t k = 0; k < rule->identity_count; k++) {
            judge_as(config, question, way, IDENTITY_PSK, rule->identities[k], verdict);
        }
        for (uint32_t k = 0; k < rule->certificate_count; k++) {
            judge_as(config, question, way, IDENTITY_CERTIFICATE, rule->certificates[k], verdict);
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

struct explain_verdict explain_access(const struct config *config,
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
