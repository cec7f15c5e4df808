/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/local.h"

#include "client/reply.h"
#include "client/side.h"
#include "client/trace.h"
#include "coap/option.h"
#include "fetch/self.h"

#include <stdio.h>
#include <string.h>

/* Room for the link to each mapping of the HTTP front. */
#define LINKS_BYTES 4096u

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
static size_t link_mappings(const struct client_side *side, const struct leg *leg, char *text,
                            size_t capacity)
{
    bool is_web = transport_is_http(transport_by_number(leg->asker.scheme));
    size_t len = 0;
    for (uint32_t i = 0; i < side->stream_listener_count; i++) {
        const struct stream_listener *listener = &side->stream_listeners[i];
        if (!is_mapping(listener) || (is_web && len > 0) || len + 1 >= capacity) {
            continue;
        }
        size_t added = link_mapping(side, leg, listener, text + len + 1, capacity - len - 1);
        text[len] = ',';
        len += added > 0 ? added + 1 : 0;
    }
    return len;
}

/* RFC 6690 section 4.1, for the one attribute that tells our links apart. */
static bool asks_for(const struct message *message, const char *filter)
{
    struct bytes query;
    if (!option_find(message->options, OPTION_uri_query, &query)) {
        return true;
    }
    bool is_type = query.len > 3 && memcmp(query.data, "rt=", 3) == 0;
    return !is_type || bytes_equal(query, (struct bytes){(const uint8_t *)filter, strlen(filter)});
}

/* The links of fetch/self.c, and those to the mappings; @p text is room for LINKS_BYTES. */
static struct bytes all_links(const struct client_side *side, const struct leg *leg,
                              const struct message *message, struct bytes own, char *text)
{
    bool has_own = asks_for(message, "");
    size_t len = has_own && own.len < LINKS_BYTES ? own.len : 0;
    memcpy(text, own.data, len);
    if (asks_for(message, "rt=core.hc")) {
        len += link_mappings(side, leg, text + len, LINKS_BYTES - len);
    }
    size_t skip = !has_own && len > 0 ? 1 : 0; /* the comma */
    return (struct bytes){(const uint8_t *)text + skip, len - skip};
}

void local_answer(struct client_side *side, struct leg *leg, const struct message *message,
                  const struct segments *path)
{
    struct reply reply;
    enum reason reason = self_answer_for(message->code, path, &reply);
    struct problem problem = {.reason = reason};
    trace_answered(side, leg, NULL, message, &problem,
                   reason == REASON_local ? CODE(2, 5) : reason_row(reason)->code);
    if (reason == REASON_local) {
        char text[LINKS_BYTES];
        reply.payload = all_links(side, leg, message, reply.payload, text);
        reply_at_once(side, leg, &reply);
    } else {
        reply_reason_at_once(side, leg, reason, NULL);
    }
}
