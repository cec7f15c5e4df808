/* SPDX-License-Identifier: BSD-2-Clause */
/* The words of --client, --method and --address. */
#include "client/explain_question.h"

#include "coap/message.h"
#include "coap/method.h"
#include "conf/config.h"
#include "net/interfaces.h"

#include <string.h>

/* What stands in --client: ADDRESS[,transport=SCHEME][,identity=NAME], with certificate or
 * public-key in place of identity. */
struct client_text {
    const char *address, *transport;
    size_t address_len, transport_len;
    const char *names[IDENTITY_KINDS]; /* by kind; NULL: none */
    size_t name_lens[IDENTITY_KINDS];
    enum identity_kind kind; /* that is named; NONE: none is */
};

/* The keys of access sections. */
static const char *const identity_keys[IDENTITY_KINDS] = {
    [IDENTITY_PSK] = "identity=",
    [IDENTITY_CERTIFICATE] = "certificate=",
    [IDENTITY_PUBLIC_KEY] = "public-key=",
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

/* One identity, of any kind; a second one is refused. */
static bool explain_take_identity(const char *text, size_t len, struct client_text *client)
{
    for (unsigned kind = IDENTITY_PSK; kind < IDENTITY_KINDS; kind++) {
        if (explain_take_field(text, len, identity_keys[kind], &client->names[kind],
                               &client->name_lens[kind])) {
            bool is_first = client->kind == IDENTITY_NONE;
            client->kind = (enum identity_kind)kind;
            return is_first;
        }
    }
    return false;
}

static bool split_client(const char *text, struct client_text *ret_client)
{
    struct client_text client = {.address = text, .address_len = strcspn(text, ",")};
    text += client.address_len;
    while (*text == ',') {
        size_t len = strcspn(++text, ",");
        if (!explain_take_field(text, len, "transport=", &client.transport,
                                &client.transport_len) &&
            !explain_take_identity(text, len, &client)) {
            return false;
        }
        text += len;
    }
    *ret_client = client;
    return true;
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
    *ret_scheme = text->kind != IDENTITY_NONE ? CRI_SCHEME_COAPS : CRI_SCHEME_COAP;
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
    const unsigned char *name = (const unsigned char *)text->names[text->kind];
    size_t len = text->name_lens[text->kind];
    struct identity *identity = identity_new(text->kind, identity_name_bytes(name, len), NULL);
    if (identity != NULL) {
        identity_add_name(identity, name, len);
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
        return "expected a client as ADDRESS[,transport=SCHEME]"
               "[,identity=NAME|,certificate=NAME|,public-key=NAME]";
    }
    if (!explain_find_transport(config, &text, &scheme)) {
        return "expected a client's transport: coap, coaps, coap+tcp, coaps+tcp, coap+ws, coaps+ws";
    }
    if (text.kind != IDENTITY_NONE) {
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
