/* SPDX-License-Identifier: BSD-2-Clause */
/* The [route NAME] sections: their patterns, and the parent proxy. */
#include "conf/loader.h"
#include "conf/recording.h"

#include "policy/hostname.h"

#include <cri/cri.h>
#include <cri/uri.h>
#include <string.h>

#define HOST_NAME_MAX_BYTES 253u /* RFC 1035 section 2.3.4, without the last dot */
#define LABEL_MAX_BYTES 63u
#define URI_TEXT_MAX 1024u

static bool route_is_name_byte(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
}

/* Whether it can be asked for: letters, digits and hyphens, labels as long as the DNS has them. */
static bool is_askable(const struct hostname *name)
{
    size_t label = 0;
    for (size_t i = 0; i < name->len; i++) {
        bool is_dot = name->text[i] == '.';
        if (!route_is_name_byte(name->text[i]) || (!is_dot && i - label >= LABEL_MAX_BYTES)) {
            return false;
        }
        label = is_dot ? i + 1 : label;
    }
    return name->len <= HOST_NAME_MAX_BYTES;
}

const char *loader_join_labels(struct loader *loader, const struct cri_list *labels)
{
    uint8_t text[HOSTNAME_MAX];
    struct hostname name = {.text = text};
    size_t len = 0;
    struct cri_iter iter;
    struct cri_item item;

    cri_iter_init(&iter, labels);
    for (bool is_first = true; cri_iter_next(&iter, &item); is_first = false) {
        if (item.is_pet || item.text.len + !is_first > sizeof(text) - len) {
            return NULL;
        }
        if (!is_first) {
            text[len++] = '.';
        }
        if (item.text.len > 0) {
            memcpy(text + len, item.text.data, item.text.len);
        }
        len += item.text.len;
    }
    if (hostname_read(text, len, &name) != HOSTNAME_NAME || !is_askable(&name)) {
        return NULL;
    }
    const char *copy = arena_text(loader->config->arena, (const char *)name.text, name.len);
    loader->no_memory = loader->no_memory || copy == NULL;
    return copy;
}

/* The scheme that @p via begins with, its transport included; NULL where it has none. */
static const struct scheme *route_scheme_of(const struct config *config, const char *via,
                                            const char **ret_authority)
{
    static const char separator[] = "://";
    const char *end = strstr(via, separator);
    struct cri_slice name = {(const uint8_t *)via, end == NULL ? 0 : (size_t)(end - via)};
    const struct cri_scheme *known = cri_scheme_by_name(&config->scheme_table, name);

    if (end == NULL || known == NULL) {
        return NULL;
    }
    *ret_authority = end + sizeof(separator) - 1;
    return config_scheme_by_number(config, known->number);
}

/* The URI of an IRI (RFC 3987 section 3.1): people write names as they are read. */
static bool escape_iri(const char *iri, char *uri, size_t capacity)
{
    static const char hex[] = "0123456789ABCDEF";
    size_t len = 0;
    for (; *iri != '\0'; iri++) {
        uint8_t c = (uint8_t)*iri;
        if (len + 4 > capacity) {
            return false;
        }
        if (c < 0x80) {
            uri[len++] = (char)c;
        } else {
            uri[len++] = '%';
            uri[len++] = hex[c >> 4];
            uri[len++] = hex[c & 15];
        }
    }
    uri[len] = '\0';
    return true;
}

bool loader_read_uri(const struct loader *loader, const char *text, uint8_t *encoded,
                     size_t capacity, struct cri *ret_cri)
{
    const struct cri_uri_options how = {.table = &loader->config->scheme_table};
    char escaped[3 * URI_TEXT_MAX];
    size_t len = 0;

    if (!escape_iri(text, escaped, sizeof(escaped))) {
        return false;
    }
    const struct cri_slice uri = {(const uint8_t *)escaped, strlen(escaped)};
    return cri_uri_parse(uri, &how, encoded, capacity, &len, NULL) == CRI_OK &&
           cri_decode((struct cri_slice){encoded, len}, NULL, ret_cri, NULL) == CRI_OK;
}

/* A host name and a port out of a URI; false where it is something else, or has more. */
static bool parse_named(struct loader *loader, const char *via, struct config_parent *parent)
{
    uint8_t encoded[1024];
    struct cri cri;

    if (!loader_read_uri(loader, via, encoded, sizeof(encoded), &cri)) {
        return false;
    }
    struct cri_iter path;
    struct cri_item segment;
    cri_iter_init(&path, &cri.path);
    bool has_path = cri_iter_next(&path, &segment) && (segment.is_pet || segment.text.len > 0);
    if (cri.authority != CRI_AUTHORITY_HOST_NAME || has_path || cri.path.count > 1 ||
        cri.query.count > 0 || cri.has_fragment || cri.has_userinfo) {
        return false;
    }
    parent->name = loader_join_labels(loader, &cri.labels);
    if (cri.has_port) {
        parent->address.port = cri.port;
    }
    return parent->name != NULL;
}

/* The error in @p via as static text, or NULL. */
static const char *parse_parent(struct loader *loader, const char *via,
                                struct config_parent *ret_parent)
{
    const char *authority = "";
    const struct scheme *scheme = route_scheme_of(loader->config, via, &authority);

    if (scheme == NULL || scheme->transport == TRANSPORT_NONE) {
        return "expected direct, refuse, recording:FILE, or SCHEME://HOST:PORT with a scheme that "
               "has "
               "a transport";
    }
    if (transport_is_http(scheme->transport)) {
        return "a parent proxy is asked over CoAP, not over HTTP";
    }
    size_t len = strlen(authority);
    if (len > 0 && authority[len - 1] == '/') {
        len--;
    }
    *ret_parent = (struct config_parent){.scheme_number = scheme->number};
    ret_parent->address.port = (uint16_t)scheme->default_port;
    if (!address_parse(authority, len, (uint16_t)scheme->default_port, &ret_parent->address) &&
        !parse_named(loader, via, ret_parent)) {
        return "expected SCHEME://HOST:PORT with a host name, an IPv4 address, or an IPv6 address "
               "in brackets, and nothing after it";
    }
    if (ret_parent->address.port == 0) {
        return "needs a port";
    }
    if (address_is_ipv6_link_local(&ret_parent->address) && ret_parent->address.scope == 0) {
        return "a link-local address needs its interface, as in coap://[fe80::1%eth0]";
    }
    if (address_is_multicast(&ret_parent->address) ||
        address_is_unspecified(&ret_parent->address)) {
        return "a parent proxy cannot have this address";
    }
    return NULL;
}

/* Why a recording cannot be read: an error of the route. */
struct recording_report {
    struct loader *loader;
    const struct named_draft *draft;
};

static void report_recording(void *context, const char *text)
{
    const struct recording_report *report = context;
    named_error(report->loader, CONFIG_NAMED_ROUTE, report->draft,
                named_place(CONFIG_NAMED_ROUTE, report->draft, "via"), "via", "%s", text);
}

static void take_recording(struct loader *loader, const struct named_draft *draft, const char *path)
{
    struct config_route *route = draft->row;
    struct recording_report report = {loader, draft};
    route->kind = ROUTE_KIND_RECORDING;
    route->recording = recording_load(loader, path, report_recording, &report);
    if (route->recording != NULL) {
        route->recording->next = loader->config->recordings;
        loader->config->recordings = route->recording;
    }
}

/* A key that is set, and is for routes of another kind. */
static void refuse_key(struct loader *loader, const struct named_draft *draft, const char *key,
                       const char *what)
{
    const struct place *place = named_place(CONFIG_NAMED_ROUTE, draft, key);
    if (place->kind != PLACE_PRESET) {
        named_error(loader, CONFIG_NAMED_ROUTE, draft, place, key, "%s", what);
    }
}

static void check_via(struct loader *loader, const struct named_draft *draft)
{
    static const char recording_prefix[] = "recording:";
    struct config_route *route = draft->row;
    const struct place *place = named_place(CONFIG_NAMED_ROUTE, draft, "via");
    char got[GOT_MAX];

    if (place->kind == PLACE_PRESET) {
        named_error(loader, CONFIG_NAMED_ROUTE, draft, named_any_place(CONFIG_NAMED_ROUTE, draft),
                    "via", "needed");
        return;
    }
    if (strncmp(route->via, recording_prefix, sizeof(recording_prefix) - 1) == 0) {
        refuse_key(loader, draft, "form", "only for a route to a parent proxy");
        take_recording(loader, draft, route->via + sizeof(recording_prefix) - 1);
        return;
    }
    refuse_key(loader, draft, "speed", "only for a route to a recording");
    if (strcmp(route->via, "direct") == 0 || strcmp(route->via, "refuse") == 0) {
        route->kind = route->via[0] == 'd' ? ROUTE_KIND_DIRECT : ROUTE_KIND_REFUSE;
        refuse_key(loader, draft, "form", "only for a route to a parent proxy");
        return;
    }
    route->kind = ROUTE_KIND_PARENT;
    const char *wrong = parse_parent(loader, route->via, &route->parent);
    if (wrong != NULL) {
        named_error(loader, CONFIG_NAMED_ROUTE, draft, place, "via", "%s, got %s", wrong,
                    got_text(got, route->via, strlen(route->via)));
    }
}

static bool same_parent(const struct config_route *a, const struct config_route *b)
{
    const struct config_parent *x = &a->parent, *y = &b->parent;
    if (a->kind != ROUTE_KIND_PARENT || b->kind != ROUTE_KIND_PARENT ||
        x->scheme_number != y->scheme_number || (x->name == NULL) != (y->name == NULL)) {
        return false;
    }
    return x->name != NULL ? strcmp(x->name, y->name) == 0 && x->address.port == y->address.port
                           : address_equal(&x->address, &y->address);
}

/* The state of a parent is shared by all routes to it. */
static uint32_t find_parent(const struct named_drafts *drafts, size_t route)
{
    uint32_t first = 0;
    while (first < route && !same_parent(drafts->items[first].row, drafts->items[route].row)) {
        first++;
    }
    return first;
}

void loader_check_routes(struct loader *loader)
{
    const struct named_drafts *drafts = &loader->named[CONFIG_NAMED_ROUTE];

    for (size_t i = 0; i < drafts->count && !loader->no_memory; i++) {
        const struct named_draft *draft = &drafts->items[i];
        struct config_route *route = draft->row;
        check_via(loader, draft);
        route->parent_index = find_parent(drafts, i);
        route->label = (uint8_t)(i + 1 < ROUTE_LABEL_OTHER ? i + 1 : ROUTE_LABEL_OTHER);
        route->patterns = named_patterns(loader, CONFIG_NAMED_ROUTE, draft, "target",
                                         &route->target, true, &route->pattern_count);
    }
}
