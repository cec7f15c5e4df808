/* SPDX-License-Identifier: BSD-2-Clause */
/* The [publish NAME] sections, and proxy.names: paths and hosts of the proxy's own. */
#include "conf/publish.h"

#include "coap/method.h"
#include "conf/loader.h"

#include <cri/cri.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#define PUBLISH_URI_MAX 2048u /* bytes of a CRI, or of packed segments */
#define LINK_MAX 3072u

/* One section while it is checked. */
struct publish_draft {
    struct loader *loader;
    const struct named_draft *draft;
    struct config_publish *row;
};

static void publish_error(const struct publish_draft *from, const char *key, const char *wrong,
                          const char *got)
{
    const struct place *place = named_place(CONFIG_NAMED_PUBLISH, from->draft, key);
    char text[GOT_MAX];
    if (place->kind == PLACE_PRESET) {
        place = named_any_place(CONFIG_NAMED_PUBLISH, from->draft);
    }
    named_error(from->loader, CONFIG_NAMED_PUBLISH, from->draft, place, key, "%s, got %s", wrong,
                got_text(text, got, strlen(got)));
}

/* --- URIs --------------------------------------------------------------- */

/* The items of @p list packed, in the arena. @return what is wrong, static; or NULL. */
static const char *pack_items(struct loader *loader, const struct cri_list *list,
                              struct segments *ret_segments)
{
    uint8_t packed[PUBLISH_URI_MAX];
    struct segments segments = {0};
    struct cri_iter iter;
    struct cri_item item;
    cri_iter_init(&iter, list);
    while (cri_iter_next(&iter, &item)) {
        if (item.is_pet) {
            return "percent-encoding of a byte that is no text";
        }
        if (item.text.len > UINT8_MAX || item.text.len + 1 > sizeof(packed) - segments.len) {
            return "longer than CoAP options";
        }
        packed[segments.len] = (uint8_t)item.text.len;
        if (item.text.len > 0) {
            memcpy(packed + segments.len + 1, item.text.data, item.text.len);
        }
        segments.len += 1 + (uint32_t)item.text.len;
        segments.count++;
    }
    if (segments.count == 1 && segments.len == 1) {
        segments = (struct segments){0}; /* "/" is the empty path (RFC 7252 section 6.4) */
    }
    uint8_t *copy = arena_alloc(loader->config->arena, segments.len + 1);
    if (copy == NULL) {
        loader->no_memory = true;
        return "no memory";
    }
    memcpy(copy, packed, segments.len);
    segments.packed = copy;
    *ret_segments = segments;
    return NULL;
}

static bool leads_to_host(struct loader *loader, const struct cri *cri, struct target *target)
{
    if (cri->authority == CRI_AUTHORITY_HOST_NAME) {
        const char *name = loader_join_labels(loader, &cri->labels);
        size_t len = name != NULL ? strlen(name) : 0;
        target->is_name = true;
        target->name_len = (uint8_t)len;
        memcpy(target->name, name != NULL ? name : "", len);
        return len > 0 && len <= TARGET_NAME_MAX;
    }
    if (cri->authority != CRI_AUTHORITY_HOST_IP) {
        return false;
    }
    address_set_ip(&target->address, cri->ip.data, cri->ip.len, 0); /* URIs have no zones */
    return !address_is_multicast(&target->address) && !address_is_unspecified(&target->address) &&
           !address_is_ipv4_mapped(&target->address);
}

const char *loader_target_of(struct loader *loader, const struct cri *cri,
                             struct target *ret_target)
{
    struct target *target = ret_target;
    if (!cri_is_full(cri) || cri->has_fragment || cri->has_userinfo) {
        return "expected a URI, SCHEME://HOST[:PORT]/PATH[?QUERY]";
    }
    target->form = TARGET_FORM_PUBLISHED;
    target->scheme = cri->scheme == CRI_SCHEME_NAME
                         ? NULL
                         : config_scheme_by_number(loader->config, cri->scheme_number);
    if (target->scheme == NULL) {
        return "expected a scheme that is served";
    }
    if (!leads_to_host(loader, cri, target)) {
        return "expected the name or the address of a host";
    }
    target->port = cri->has_port ? (uint16_t)cri->port : (uint16_t)target->scheme->default_port;
    target->address.port = target->port;
    if (target->port == 0) {
        return "needs a port";
    }
    const char *wrong = pack_items(loader, &cri->path, &target->path);
    return wrong != NULL ? wrong : pack_items(loader, &cri->query, &target->query);
}

/* @return what is wrong with the target, static; or NULL. */
static const char *take_leads(const struct publish_draft *from)
{
    struct loader *loader = from->loader;
    uint8_t encoded[PUBLISH_URI_MAX];
    struct cri cri;
    struct target *target = arena_alloc(loader->config->arena, sizeof(*target));
    if (target == NULL) {
        loader->no_memory = true;
        return "no memory";
    }
    if (!loader_read_uri(loader, from->row->target, encoded, sizeof(encoded), &cri)) {
        return "expected a URI, SCHEME://HOST[:PORT]/PATH[?QUERY]";
    }
    from->row->leads = target;
    return loader_target_of(loader, &cri, target);
}

/* @return what is wrong with the path, static; or NULL. */
static const char *take_prefix(const struct publish_draft *from)
{
    const char *path = from->row->path;
    size_t len = strlen(path);
    uint8_t encoded[PUBLISH_URI_MAX];
    char uri[1024 + sizeof("coap://h")];
    struct cri cri;
    if (path[0] != '/' || (len > 1 && path[len - 1] == '/')) {
        return "expected a path that begins with / and does not end in /";
    }
    (void)snprintf(uri, sizeof(uri), "coap://h%s", path);
    if (!loader_read_uri(from->loader, uri, encoded, sizeof(encoded), &cri) ||
        cri.query.count > 0 || cri.has_fragment || strpbrk(path, "?#<>\"") != NULL) {
        return "expected the path of a URI, without query or fragment";
    }
    return pack_items(from->loader, &cri.path, &from->row->prefix);
}

/* --- methods ------------------------------------------------------------ */

static void take_published_methods(const struct publish_draft *from)
{
    const struct config_list *list = &from->row->methods;
    unsigned set = 0;
    for (size_t i = 0; i < list->count; i++) {
        const char *at = list->items[i] + strspn(list->items[i], " \t,");
        while (*at != '\0') {
            size_t len = strcspn(at, " \t,");
            uint8_t code = method_find(at, len);
            if (code == CODE_EMPTY) {
                publish_error(from, "methods",
                              "expected GET, POST, PUT, DELETE, FETCH, PATCH or iPATCH", at);
                return;
            }
            set |= 1u << (code - 1);
            at += len;
            at += strspn(at, " \t,");
        }
    }
    from->row->method_set = (uint8_t)set;
}

/* --- links (RFC 6690 section 2) ------------------------------------------ */

/* UTF-8 that can stand between quotes as it is: nothing that ends them, or that a terminal obeys.
 */
static bool is_printable(const char *text)
{
    utf8proc_ssize_t left = (utf8proc_ssize_t)strlen(text), len = 0;
    utf8proc_int32_t character = 0;

    for (; left > 0; text += len, left -= len) {
        len = utf8proc_iterate((const utf8proc_uint8_t *)text, left, &character);
        if (len <= 0 || character == '"' || character == '\\') {
            return false;
        }
        utf8proc_category_t category = utf8proc_category(character);
        if (category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_ZL ||
            category == UTF8PROC_CATEGORY_ZP) {
            return false;
        }
    }
    return true;
}

/* Cardinals with blanks between (RFC 7252 section 7.2.1) that are numbers of formats (12.3). */
static bool is_formats(const char *text)
{
    while (*text != '\0') {
        size_t digits = strspn(text, "0123456789");
        if (digits == 0 || digits > 5 || (digits > 1 && text[0] == '0') ||
            strtoul(text, NULL, 10) > UINT16_MAX) {
            return false;
        }
        text += digits;
        if (*text != '\0' && text[strspn(text, " ")] == '\0') {
            return false;
        }
        text += strspn(text, " ");
    }
    return true;
}

static void check_attributes(const struct publish_draft *from)
{
    const struct config_publish *row = from->row;
    if (!is_printable(row->title)) {
        publish_error(from, "title",
                      "expected text without quotes, backslashes and control characters",
                      row->title);
    }
    if (!is_printable(row->resource_type)) {
        publish_error(from, "resource-type", "expected resource types", row->resource_type);
    }
    if (!is_printable(row->interface)) {
        publish_error(from, "interface", "expected interface descriptions", row->interface);
    }
    if (!is_formats(row->content_format)) {
        publish_error(from, "content-format", "expected numbers up to 65535", row->content_format);
    }
}

/* ;NAME="VALUE", if there is one. */
static size_t put_attribute(char *link, size_t len, const char *name, const char *value)
{
    if (value[0] != '\0') {
        len += (size_t)snprintf(link + len, LINK_MAX - len, ";%s=\"%s\"", name, value);
    }
    return len;
}

static void make_link(const struct publish_draft *from)
{
    struct config_publish *row = from->row;
    struct config *config = from->loader->config;
    bool is_one = strchr(row->content_format, ' ') == NULL;
    char link[LINK_MAX]; /* what the lengths of the keys allow */
    size_t len = (size_t)snprintf(link, sizeof(link), "<%s>", row->path);
    len = put_attribute(link, len, "title", row->title);
    len = put_attribute(link, len, "rt", row->resource_type);
    len = put_attribute(link, len, "if", row->interface);
    if (row->content_format[0] != '\0') {
        len += (size_t)snprintf(link + len, LINK_MAX - len, is_one ? ";ct=%s" : ";ct=\"%s\"",
                                row->content_format);
    }
    if (row->observable) {
        len += (size_t)snprintf(link + len, LINK_MAX - len, ";obs");
    }
    row->link = arena_text(config->arena, link, len);
    config->publish_link_bytes += len + 1;
    from->loader->no_memory = from->loader->no_memory || row->link == NULL;
}

/* --- sections ----------------------------------------------------------- */

static bool is_same_prefix(const struct config_publish *a, const struct config_publish *b)
{
    return a->prefix.len == b->prefix.len &&
           (a->prefix.len == 0 || memcmp(a->prefix.packed, b->prefix.packed, a->prefix.len) == 0);
}

static void check_publish(const struct publish_draft *from, const struct named_drafts *drafts,
                          size_t index)
{
    struct config_publish *row = from->row;
    const char *wrong = take_leads(from);
    if (wrong != NULL) {
        publish_error(from, "target", wrong, row->target);
    }
    wrong = take_prefix(from);
    if (wrong != NULL) {
        publish_error(from, "path", wrong, row->path);
        return;
    }
    for (size_t i = 0; i < index; i++) {
        if (is_same_prefix(drafts->items[i].row, row)) {
            publish_error(from, "path", "another section publish has this path", row->path);
            return;
        }
    }
    take_published_methods(from);
    check_attributes(from);
    make_link(from);
}

void loader_check_publish(struct loader *loader)
{
    const struct named_drafts *drafts = &loader->named[CONFIG_NAMED_PUBLISH];
    for (size_t i = 0; i < drafts->count && !loader->no_memory; i++) {
        const struct publish_draft from = {loader, &drafts->items[i], drafts->items[i].row};
        check_publish(&from, drafts, i);
    }
}

/* --- proxy.names -------------------------------------------------------- */

/* HOST or HOST:PORT; false where it is neither. */
static bool take_own_name(struct loader *loader, const char *item, struct config_own_name *own)
{
    char uri[TARGET_NAME_MAX + sizeof("coap://:65535")];
    uint8_t encoded[sizeof(uri) + 64];
    struct cri cri;
    size_t len = strlen(item);
    if (address_parse(item, len, 0, &own->address)) {
        return !address_is_unspecified(&own->address) && !address_is_multicast(&own->address);
    }
    if (len == 0 || len > sizeof(uri) - sizeof("coap://") || strpbrk(item, "/?#@[]") != NULL) {
        return false;
    }
    (void)snprintf(uri, sizeof(uri), "coap://%s", item);
    if (!loader_read_uri(loader, uri, encoded, sizeof(encoded), &cri) ||
        cri.authority != CRI_AUTHORITY_HOST_NAME) {
        return false;
    }
    const char *name = loader_join_labels(loader, &cri.labels);
    own->name = (struct bytes){(const uint8_t *)name, name != NULL ? strlen(name) : 0};
    own->address.port = cri.has_port ? (uint16_t)cri.port : 0;
    return own->name.len > 0 && (!cri.has_port || cri.port != 0);
}

void loader_check_names(struct loader *loader)
{
    struct config *config = loader->config;
    const struct config_list *list = &config->proxy_names;
    const struct config_row *row = schema_find("proxy", "names");
    struct config_own_name *names =
        arena_alloc(config->arena, (list->count + 1) * sizeof(struct config_own_name));
    char got[GOT_MAX];
    if (names == NULL || row == NULL) {
        loader->no_memory = true;
        return;
    }
    for (size_t i = 0; i < list->count; i++) {
        if (!take_own_name(loader, list->items[i], &names[i])) {
            loader_error(loader, &loader->set_at[row - config_rows], "proxy", "names",
                         "expected HOST or HOST:PORT, got %s",
                         got_text(got, list->items[i], strlen(list->items[i])));
        }
    }
    config->own_names = names;
    config->own_name_count = list->count;
}
