/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/local.h"

#include "client/links.h"
#include "client/serve.h"
#include "client/side.h"
#include "client/trace.h"
#include "conf/publish.h"
#include "fetch/admit.h"
#include "fetch/self.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for the proxy's own link, and that to each mapping of the HTTP front. */
#define LINKS_BYTES 4096u
#define MAPPING_MAX 1024u

static bool is_mapping(const struct stream_listener *listener)
{
    return listener->listener != NULL && !listener->is_retiring &&
           transport_is_http(listener->transport);
}

/*
 * RFC 8075 section 5.5: a link to the HC proxy's URI. On CoAP its origin is told, too; an HTTP
 * client knows that.
 */
static size_t link_mapping(const struct client_side *side, const struct leg *leg,
                           const struct stream_listener *listener, char *text, size_t capacity)
{
    const struct config *config = side->context.config;
    char origin[ADDRESS_TEXT_MAX + 64] = "", address_text[ADDRESS_TEXT_MAX];
    struct address address = *conn_listener_local(listener->listener);
    if (address_is_unspecified(&address)) {
        uint16_t port = address.port;
        address = leg->asker.path.local;
        address.port = port;
    }
    if (!transport_is_http(transport_by_number(leg->asker.scheme))) {
        snprintf(origin, sizeof(origin), ";anchor=\"%s://%s\"",
                 transport_row(listener->transport)->scheme,
                 address_format(&address, address_text));
    }
    const char *template = config->http_template;
    int len =
        snprintf(text, capacity, "<%s>%s;rt=\"core.hc\"%s%s%s", config->http_prefix, origin,
                 template[0] != '\0' ? ";hct=\"" : "", template, template[0] != '\0' ? "\"" : "");
    return len > 0 && (size_t)len < capacity ? (size_t)len : 0;
}

/* The mappings: of an HTTP client the one that it uses, on CoAP one for each listener. */
static void add_mappings(const struct client_side *side, const struct leg *leg, struct links *links)
{
    bool is_web = transport_is_http(transport_by_number(leg->asker.scheme));
    for (uint32_t i = 0; i < side->stream_listener_count; i++) {
        const struct stream_listener *listener = &side->stream_listeners[i];
        if (is_mapping(listener)) {
            char text[MAPPING_MAX];
            size_t len = link_mapping(side, leg, listener, text, sizeof(text));
            if (len > 0) {
                links_add(links, (struct bytes){(const uint8_t *)text, len});
            }
            if (is_web) {
                return;
            }
        }
    }
}

/* The sections publish whose targets the client may have, as far as can be told beforehand. */
static void add_published(struct client_side *side, const struct leg *leg, struct links *links)
{
    const struct config *config = side->context.config;
    for (size_t i = 0; i < config->publish_count; i++) {
        const struct config_publish *publish = &config->publishes[i];
        struct asker asker = leg->asker; /* the rule that decides is noted in a copy */
        uint8_t method = CODE_GET;
        while (method < CODE_IPATCH && (publish->method_set & 1u << (method - 1)) == 0) {
            method++;
        }
        if (admit_target(&side->fetch, &asker, publish->leads, method, ADMIT_RESOLVER_BY_ROUTE) ==
            REASON_none) {
            links_add(links, (struct bytes){(const uint8_t *)publish->link, strlen(publish->link)});
        }
    }
}

/*
 * Send @p reply, in blocks if its client takes less. The list is made anew for the first block,
 * which makes a body that is kept for the others.
 */
static void send_list(struct client_side *side, struct leg *leg, const struct message *message,
                      const struct target *target, const struct reply *reply)
{
    const struct target own = {.form = TARGET_FORM_PUBLISHED,
                               .scheme = side->context.coap,
                               .path = target->path,
                               .query = target->query,
                               .port = 1}; /* no target elsewhere has an address of no family */
    const struct serve_subject subject = {
        .target = &own, .code = message->code, .options = message->options};
    struct reply cut;
    enum reason reason;
    if (!leg->has_block2 || leg->block2.num == 0 ||
        !serve_kept(side, leg, &subject, &cut, &reason)) {
        reason = serve_cut(side, leg, &subject, reply, &cut);
    }
    (void)reason; /* the words of one are in the answer */
    reply_at_once(side, leg, &cut);
}

/* All that can be asked for here: our own list, mappings of HTTP, what sections publish. */
static void answer_list(struct client_side *side, struct leg *leg, const struct message *message,
                        const struct target *target, struct reply *reply)
{
    uint8_t few[LINKS_BYTES]; /* room enough where nothing is published */
    size_t further = side->context.config->publish_link_bytes, capacity = sizeof(few) + further;
    struct links links = {&target->query, further > 0 ? malloc(capacity) : few, 0, capacity};
    if (links.text == NULL) {
        reply_reason_at_once(side, leg, REASON_proxy_busy, NULL);
        return;
    }
    links_add(&links, reply->payload);
    add_mappings(side, leg, &links);
    add_published(side, leg, &links);
    reply->payload = (struct bytes){(const uint8_t *)links.text, links.len};
    send_list(side, leg, message, target, reply);
    if (further > 0) {
        free(links.text);
    }
}

void local_answer(struct client_side *side, struct leg *leg, const struct message *message,
                  const struct target *target)
{
    struct reply reply;
    enum reason reason = self_answer_for(message->code, &target->path, &reply);
    struct problem problem = {.reason = reason};
    trace_answered(side, leg, NULL, message, &problem,
                   reason == REASON_local ? CODE(2, 5) : reason_row(reason)->code);
    if (reason == REASON_local) {
        answer_list(side, leg, message, target, &reply);
    } else {
        reply_reason_at_once(side, leg, reason, NULL);
    }
}
