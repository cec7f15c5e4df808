/* SPDX-License-Identifier: BSD-2-Clause */
/* What keys mean together, and the listeners. */
#include "conf/loader.h"

#include <string.h>

#define COAP_PORT 5683 /* RFC 7252 section 6.1 */

static const struct place *place_of(const struct loader *loader, const char *section,
                                    const char *key)
{
    const struct config_row *row = schema_find(section, key);

    return row == NULL ? &loader->here : &loader->set_at[row - config_rows];
}

/* The scheme of a URI we could be asked to listen on one day. */
static bool is_later_scheme(const char *uri, size_t len)
{
    static const char *const later[] = {"coaps", "coap+tcp", "coaps+tcp", "coap+ws", "coaps+ws"};

    for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++) {
        if (strlen(later[i]) == len && memcmp(later[i], uri, len) == 0) {
            return true;
        }
    }
    return false;
}

/* NULL, or what is wrong with @p uri. */
static const char *parse_listener(const char *uri, struct address *ret_address)
{
    static const char separator[] = "://";
    const char *authority = strstr(uri, separator);

    if (authority == NULL) {
        return "expected coap://ADDRESS:PORT";
    }
    size_t scheme_len = (size_t)(authority - uri);
    if (is_later_scheme(uri, scheme_len)) {
        return "this version listens on coap:// only";
    }
    if (scheme_len != 4 || memcmp(uri, "coap", 4) != 0) {
        return "expected coap://ADDRESS:PORT";
    }
    authority += sizeof(separator) - 1;
    size_t len = strlen(authority);
    if (len > 0 && authority[len - 1] == '/') {
        len--;
    }
    struct address address;
    if (!address_parse(authority, len, COAP_PORT, &address)) {
        return "expected coap://ADDRESS:PORT with an IPv4 address, or an IPv6 address in brackets";
    }
    if (address_is_multicast(&address)) {
        return "a multicast address cannot be listened on";
    }
    *ret_address = address;
    return NULL;
}

/* Port 0 twice is two ports. */
static bool is_taken(const struct config_listener *listeners, size_t count,
                     const struct address *address)
{
    for (size_t i = 0; i < count; i++) {
        if (address->port != 0 && address_equal(&listeners[i].bind, address)) {
            return true;
        }
    }
    return false;
}

static void check_listeners(struct loader *loader)
{
    struct config *config = loader->config;
    const struct config_list *uris = &config->listen_uri;
    const struct place *place = place_of(loader, "listen", "uri");
    struct config_listener *listeners =
        arena_alloc(config->arena, uris->count * sizeof(struct config_listener));
    size_t count = 0;
    char got[GOT_MAX];

    if (listeners == NULL) {
        loader->no_memory = true;
        return;
    }
    for (size_t i = 0; i < uris->count; i++) {
        struct config_listener *listener = &listeners[count];
        const char *uri = uris->items[i];
        const char *wrong = parse_listener(uri, &listener->bind);
        if (wrong == NULL && is_taken(listeners, count, &listener->bind)) {
            wrong = "address given twice";
        }
        if (wrong != NULL) {
            loader_error(loader, place, "listen", "uri", "%s, got %s", wrong,
                         got_text(got, uri, strlen(uri)));
            continue;
        }
        listener->uri = uri;
        listener->is_default = place->kind == PLACE_PRESET;
        count++;
    }
    config->listeners = listeners;
    config->listener_count = count;
}

/* A token and a header have to leave room for an answer (RFC 8974 section 2.1). */
static void check_token(struct loader *loader)
{
    const struct config *config = loader->config;

    if (config->proxy_max_token_bytes > config->limits_datagram_bytes / 2) {
        const struct place *place = place_of(loader, "proxy", "max-token-bytes");
        if (place->kind == PLACE_PRESET) {
            place = place_of(loader, "limits", "datagram-bytes");
        }
        loader_error(loader, place, "proxy", "max-token-bytes",
                     "more than half of limits.datagram-bytes");
    }
}

void loader_check(struct loader *loader)
{
    check_listeners(loader);
    check_token(loader);
    loader_check_schemes(loader);
}
