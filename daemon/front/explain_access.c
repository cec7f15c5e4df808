/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/explain_access.h"

#include "coap/message.h"
#include "coap/method.h"
#include "net/interfaces.h"
#include "origin/route.h"

#include <string.h>

#define EXPLAIN_OWN_MAX 1024

/* What stands in --client: ADDRESS[,transport=SCHEME][,identity=NAME][,certificate=NAME]. */
struct client_text {
    const char *address, *transport, *identity, *certificate;
    size_t address_len, transport_len, identity_len, certificate_len;
};

static bool take_field(const char *text, size_t len, const char *key, const char **ret_value,
                       size_t *ret_len)
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
        if (!take_field(text, len, "transport=", &client.transport, &client.transport_len) &&
            !take_field(text, len, "identity=", &client.identity, &client.identity_len) &&
            !take_field(text, len, "certificate=", &client.certificate, &client.certificate_len)) {
            return false;
        }
        text += len;
    }
    *ret_client = client;
    return client.identity == NULL || client.certificate == NULL;
}

/* With or without brackets around IPv6; no port. */
static bool parse_address(const char *text, size_t len, struct address *ret_address)
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

static bool find_transport(const struct config *config, const struct client_text *text,
                           uint32_t *ret_scheme)
{
    bool is_known = text->identity != NULL || text->certificate != NULL;
    *ret_scheme = is_known ? CRI_SCHEME_COAPS : CRI_SCHEME_COAP;
    if (text->transport == NULL) {
        return true;
    }
    for (size_t i = 0; i < config->scheme_count; i++) {
        const struct config_scheme *scheme = &config->schemes[i];
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
    if (!split_client(client, &text) || !parse_address(text.address, text.address_len, &address)) {
        return "expected a client as ADDRESS[,transport=SCHEME][,identity=NAME|,certificate=NAME]";
    }
    if (!find_transport(config, &text, &scheme)) {
        return "expected a client's transport: coap, coaps, coap+tcp, coaps+tcp, coap+ws, coaps+ws";
    }
    if (text.identity != NULL || text.certificate != NULL) {
        question->identity = make_identity(&text);
        if (question->identity == NULL) {
            return "out of memory";
        }
    }
    question->request.client = access_client_of(&address, scheme, question->identity);
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
        if (!parse_address(options->address, strlen(options->address), &question.address)) {
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
    const struct config_scheme *scheme = config_scheme_by_number(config, client->scheme);
    char address[ADDRESS_TEXT_MAX], identity[IDENTITY_TEXT_MAX];
    fprintf(out, "client     %s over %s", format_host(&client->address, address),
            scheme != NULL ? scheme->name : "-");
    if (client->identity != NULL) {
        fprintf(out, ", %s", identity_format(client->identity, identity));
    }
    fprintf(out, ": %s\n", standings[question->request.standing]);
}

static void judge_host(const struct config *config, const struct access_request *request,
                       const struct address *address, struct access_verdict *verdict)
{
    struct address own[EXPLAIN_OWN_MAX];
    if (!config->policy_own_host) {
        size_t count = interfaces_list(own, EXPLAIN_OWN_MAX);
        access_check_own_host(config->access, &request->client, own, count, address, verdict);
    }
}

enum reason explain_access(const struct config *config, struct explain_question *question,
                           const struct target *target, FILE *out)
{
    struct access_request *request = &question->request;
    char address[ADDRESS_TEXT_MAX];
    request->target = target;
    print_client(config, question, out);
    if (request->standing == STANDING_NONE) {
        return access_refusal(&request->client);
    }
    struct access_verdict verdict = access_check_target(config->access, request);
    if (verdict.may_be_opened && !route_is_to_parent(config, target)) {
        verdict.reason = REASON_none; /* as admit_target() does */
    }
    judge_host(config, request, &target->address, &verdict);
    bool is_open = target->is_name && verdict.reason == REASON_none && !question->has_address;
    fprintf(out, "rule       %s%s%s\n", verdict.rule,
            verdict.reason == REASON_none ? "" : ", which refuses",
            is_open ? "; each address of the name is checked as well" : "");
    if (!target->is_name || verdict.reason != REASON_none || !question->has_address) {
        return verdict.reason;
    }
    verdict = access_check_address(config->access, request, &question->address);
    judge_host(config, request, &question->address, &verdict);
    fprintf(out, "address    %s: rule %s%s\n", format_host(&question->address, address),
            verdict.rule, verdict.reason == REASON_none ? "" : ", which refuses");
    return verdict.reason;
}
