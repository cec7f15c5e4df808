/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The section policy and the sections [access NAME], checked and compiled for policy/access.h.
 */
#include "conf/loader.h"

#include "coap/message.h"
#include "coap/method.h"
#include "net/raw_keys.h"
#include "policy/access.h"
#include "policy/aif.h"
#include "policy/ranges.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The place of the values that are being checked, for error messages. */
struct origin_of_values {
    struct loader *loader;
    enum config_named kind;
    const struct named_draft *draft; /* of a section of that kind; NULL: the section policy */
    const char *key;
};

__attribute__((format(printf, 2, 3))) static void report(const struct origin_of_values *from,
                                                         const char *format, ...)
{
    char message[200];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    if (from->draft != NULL) {
        named_error(from->loader, from->kind, from->draft,
                    named_place(from->kind, from->draft, from->key), from->key, "%s", message);
    } else {
        const struct config_row *row = schema_find("policy", from->key);
        loader_error(from->loader,
                     row == NULL ? &from->loader->here : &from->loader->set_at[row - config_rows],
                     "policy", from->key, "%s", message);
    }
}

static void *take_memory(const struct origin_of_values *from, size_t count, size_t size)
{
    void *memory = arena_alloc(from->loader->config->arena, (count + 1) * size);

    if (memory == NULL) {
        from->loader->no_memory = true;
    }
    return memory;
}

/* --- words in lists ----------------------------------------------------- */

/* The values of a key, each of which may hold several words. */
struct words {
    const struct config_list *list;
    size_t item;
    const char *at;
};

static bool next_word(struct words *words, const char **ret_word, size_t *ret_len)
{
    for (;;) {
        if (words->at == NULL || *words->at == '\0') {
            if (words->item == words->list->count) {
                return false;
            }
            words->at = words->list->items[words->item++];
        }
        words->at += strspn(words->at, " \t");
        size_t len = strcspn(words->at, " \t");
        if (len > 0) {
            *ret_word = words->at;
            *ret_len = len;
            words->at += len;
            return true;
        }
    }
}

/* How many there are at most: blanks separate them. */
static size_t count_words(const struct config_list *list)
{
    struct words words = {.list = list};
    const char *word;
    size_t len, count = 0;

    while (next_word(&words, &word, &len)) {
        count++;
    }
    return count;
}

/* --- values ------------------------------------------------------------- */

/* A word stands for up to three ranges. */
#define RANGES_A_WORD_MAX 3u

static size_t take_ranges(const struct origin_of_values *from, const struct config_list *list,
                          const struct address_prefix **ret_ranges)
{
    struct words words = {.list = list};
    struct address_prefix *ranges =
        take_memory(from, RANGES_A_WORD_MAX * count_words(list), sizeof(ranges[0]));
    const struct address_prefix *known;
    const char *word;
    size_t len, count = 0;
    char got[GOT_MAX];

    while (ranges != NULL && next_word(&words, &word, &len)) {
        size_t known_count = ranges_of_word(word, len, &known);
        if (known_count > 0 && known_count <= RANGES_A_WORD_MAX) {
            memcpy(ranges + count, known, known_count * sizeof(ranges[0]));
            count += known_count;
            continue;
        }
        const char *wrong = address_prefix_parse(word, len, &ranges[count]);
        if (wrong != NULL) {
            report(from, "%s, got %s", wrong, got_text(got, word, len));
        } else {
            count++;
        }
    }
    *ret_ranges = ranges;
    return count;
}

/* Six arguments: those of named_patterns(). */
/* NOLINTNEXTLINE(readability-function-size) */
size_t loader_take_ranges(struct loader *loader, enum config_named kind,
                          const struct named_draft *draft, const char *key,
                          const struct config_list *list, const struct address_prefix **ret_ranges)
{
    const struct origin_of_values from = {loader, kind, draft, key};
    return take_ranges(&from, list, ret_ranges);
}

/* "none" by itself: no client. */
static bool is_none(const struct config_list *list)
{
    return list->count == 1 && strcmp(list->items[0], "none") == 0;
}

static uint32_t take_transports(const struct origin_of_values *from, const struct config_list *list)
{
    struct words words = {.list = list};
    const char *word;
    uint32_t set = 0;
    size_t len;
    char got[GOT_MAX];

    while (next_word(&words, &word, &len)) {
        enum transport transport = transport_by_scheme(word, len);
        if (transport == TRANSPORT_NONE) {
            report(from,
                   "expected coap, coaps, coap+tcp, coaps+tcp, coap+ws, coaps+ws, http or "
                   "https, got %s",
                   got_text(got, word, len));
            continue;
        }
        set |= UINT32_C(1) << transport_row(transport)->number;
    }
    return set;
}

static uint8_t take_methods(const struct origin_of_values *from, const struct config_list *list)
{
    struct words words = {.list = list};
    const char *word;
    unsigned set = 0;
    size_t len;
    char got[GOT_MAX];

    while (next_word(&words, &word, &len)) {
        uint8_t code = method_find(word, len);
        if (code == CODE_EMPTY) {
            report(from, "expected GET, POST, PUT, DELETE, FETCH, PATCH or iPATCH, got %s",
                   got_text(got, word, len));
            continue;
        }
        set |= 1u << (code - 1);
    }
    return (uint8_t)set;
}

/* --- AIF ---------------------------------------------------------------- */

static uint8_t *read_document(const struct origin_of_values *from, const char *name,
                              size_t *ret_len)
{
    FILE *file = fopen(name, "re");
    uint8_t *document = NULL;

    if (file == NULL && errno == ENOMEM) {
        from->loader->no_memory = true;
        return NULL;
    }
    if (file == NULL) {
        report(from, "%s cannot be read: %s", name, strerror(errno));
        return NULL;
    }
    document = malloc(AIF_BYTES_MAX + 1);
    if (document == NULL) {
        from->loader->no_memory = true;
    } else {
        errno = 0;
        *ret_len = fread(document, 1, AIF_BYTES_MAX + 1, file);
        bool is_unread = ferror(file) != 0;
        if (is_unread || *ret_len > AIF_BYTES_MAX) {
            report(from, "%s %s", name, is_unread ? "cannot be read" : "is longer than 1 MiB");
            free(document);
            document = NULL;
        }
    }
    (void)fclose(file);
    return document;
}

static const struct aif_table *take_aif(const struct origin_of_values *from, const char *name,
                                        struct aif_fault *ret_fault)
{
    struct config_arena *arena = from->loader->config->arena;
    const struct aif_table *table = NULL;
    struct aif_fault fault = {0, NULL};
    size_t len = 0;
    uint8_t *document = read_document(from, name, &len);

    if (document == NULL) {
        return NULL;
    }
    uint8_t *kept = arena_alloc(arena, len + 1);
    int result = -ENOMEM;
    if (kept != NULL) {
        memcpy(kept, document, len);
        result = aif_table_make(kept, len, arena, &table, &fault);
    }
    free(document);
    if (result == -ENOMEM) {
        from->loader->no_memory = true;
    } else if (result != 0) {
        report(from, "%s: byte %zu: %s", name, fault.offset, fault.what);
    }
    *ret_fault = fault;
    return table;
}

/* --- rules -------------------------------------------------------------- */

static void take_names(struct origin_of_values *from, enum identity_kind kind,
                       const struct config_list *list, struct access_rule *rule)
{
    rule->names[kind] = (struct rule_names){list->items, (uint32_t)list->count};
    if (kind == IDENTITY_PUBLIC_KEY && list->count > 0 && !raw_keys_are_there()) {
        from->key = "public-key";
        report(from, RAW_KEYS_LACK);
    }
}

static void compile_rule(struct loader *loader, const struct named_draft *draft,
                         struct access_rule *ret_rule)
{
    const struct config_access *row = draft->row;
    struct access_rule rule = {.name = row->name, .is_allow = row->action == ACCESS_ALLOW};
    struct origin_of_values from = {loader, CONFIG_NAMED_ACCESS, draft, NULL};
    size_t pattern_count = 0;

    from.key = "clients";
    rule.client_count = (uint32_t)take_ranges(&from, &row->clients, &rule.clients);
    from.key = "transport";
    rule.transports = take_transports(&from, &row->transport);
    from.key = "methods";
    rule.methods = take_methods(&from, &row->methods);
    rule.patterns = named_patterns(loader, CONFIG_NAMED_ACCESS, draft, "target", &row->target,
                                   false, &pattern_count);
    rule.pattern_count = (uint32_t)pattern_count;
    take_names(&from, IDENTITY_PSK, &row->identity, &rule);
    take_names(&from, IDENTITY_CERTIFICATE, &row->certificate, &rule);
    take_names(&from, IDENTITY_PUBLIC_KEY, &row->public_key, &rule);
    if (row->aif[0] != '\0') {
        from.key = "aif";
        rule.aif = take_aif(&from, row->aif, &rule.aif_fault);
        if (!rule.is_allow) {
            report(&from, "needs action = allow");
        }
    }
    *ret_rule = rule;
}

static void compile_limits(struct loader *loader, struct access *access)
{
    const struct named_drafts *drafts = &loader->named[CONFIG_NAMED_LIMIT];
    struct origin_of_values from = {loader, CONFIG_NAMED_LIMIT, NULL, NULL};
    struct client_limits *limits = take_memory(&from, drafts->count, sizeof(limits[0]));

    for (size_t i = 0; i < drafts->count && limits != NULL; i++) {
        const struct config_limit *row = drafts->items[i].row;
        struct access_rule clients = {.name = row->name};
        from.draft = &drafts->items[i];
        from.key = "clients";
        clients.client_count = (uint32_t)take_ranges(&from, &row->clients, &clients.clients);
        from.key = "transport";
        clients.transports = take_transports(&from, &row->transport);
        take_names(&from, IDENTITY_PSK, &row->identity, &clients);
        take_names(&from, IDENTITY_CERTIFICATE, &row->certificate, &clients);
        take_names(&from, IDENTITY_PUBLIC_KEY, &row->public_key, &clients);
        limits[i] = (struct client_limits){clients,        row->rate,         row->burst,
                                           row->exchanges, row->observations, row->bodies};
    }
    access->limits = limits;
    access->limits_count = (uint32_t)drafts->count;
}

/* The client selectors of the rules that allow and have any, as rules of their own. */
static void compile_admission(const struct origin_of_values *from, struct access *access)
{
    struct access_rule *admitting = take_memory(from, access->rule_count, sizeof(admitting[0]));

    if (admitting == NULL) {
        return;
    }
    for (uint32_t i = 0; i < access->rule_count; i++) {
        bool selects = rule_selects_clients(&access->rules[i]);
        access->selects_clients = access->selects_clients || selects;
        if (access->rules[i].is_allow && selects) {
            struct access_rule *rule = &admitting[access->admitting_count++];
            *rule = access->rules[i];
            rule->patterns = NULL;
            rule->pattern_count = 0;
            rule->methods = 0;
            rule->aif = NULL;
        }
    }
    access->admitting = admitting;
}

static void note_address_allow(struct access *access, const struct access_rule *rule)
{
    for (uint32_t i = 0; i < rule->pattern_count && rule->is_allow; i++) {
        if (rule->patterns[i].host == PATTERN_HOST_ADDRESS) {
            access->has_address_allow = true;
        }
    }
}

static void compile_rules(const struct origin_of_values *from, struct access *access)
{
    const struct named_drafts *drafts = &from->loader->named[CONFIG_NAMED_ACCESS];
    struct access_rule *rules = take_memory(from, drafts->count, sizeof(rules[0]));

    if (rules == NULL) {
        return;
    }
    for (size_t i = 0; i < drafts->count; i++) {
        compile_rule(from->loader, &drafts->items[i], &rules[i]);
        note_address_allow(access, &rules[i]);
    }
    access->rules = rules;
    access->rule_count = (uint32_t)drafts->count;
    compile_admission(from, access);
}

/* --- the section policy ------------------------------------------------- */

static void compile_clients(struct origin_of_values *from, struct access *access)
{
    const struct config_list *list = &from->loader->config->policy_clients;
    struct access_rule *rule = take_memory(from, 1, sizeof(*rule));

    from->key = "clients";
    if (rule == NULL) {
        return;
    }
    *rule = (struct access_rule){.name = ACCESS_BUILTIN "clients", .is_allow = true};
    if (!is_none(list)) {
        rule->client_count = (uint32_t)take_ranges(from, list, &rule->clients);
    }
    access->clients = rule;
}

static void compile_echo(struct origin_of_values *from, struct access *access)
{
    const struct config_list *list = &from->loader->config->policy_echo_exempt;

    from->key = "echo_exempt";
    if (!is_none(list)) {
        access->echo_exempt_count = (uint32_t)take_ranges(from, list, &access->echo_exempt);
    }
}

static bool access_parse_port(const char *text, size_t len, uint32_t *ret_port)
{
    uint32_t value = 0;

    for (size_t i = 0; i < len && value <= UINT16_MAX; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        value = value * 10 + (uint32_t)(text[i] - '0');
    }
    *ret_port = value;
    return len > 0 && value > 0 && value <= UINT16_MAX;
}

/* "5683", "61616-61631" or "any". */
static bool access_parse_ports(const char *text, size_t len, struct port_range *ret_range)
{
    const char *dash = memchr(text, '-', len);
    size_t first_len = dash == NULL ? len : (size_t)(dash - text);
    const char *last_text = dash == NULL ? text : dash + 1;
    uint32_t first = 0, last = 0;

    if (len == 3 && memcmp(text, "any", 3) == 0) {
        *ret_range = (struct port_range){1, UINT16_MAX};
        return true;
    }
    if (!access_parse_port(text, first_len, &first) ||
        !access_parse_port(last_text, len - (size_t)(last_text - text), &last) || first > last) {
        return false;
    }
    *ret_range = (struct port_range){(uint16_t)first, (uint16_t)last};
    return true;
}

static void compile_ports(struct origin_of_values *from, struct access *access)
{
    const struct config_list *list = &from->loader->config->policy_ports;
    struct words words = {.list = list};
    struct port_range *ports = take_memory(from, count_words(list), sizeof(ports[0]));
    const char *word;
    size_t len;
    char got[GOT_MAX];

    from->key = "ports";
    while (ports != NULL && next_word(&words, &word, &len)) {
        if (access_parse_ports(word, len, &ports[access->port_count])) {
            access->port_count++;
        } else {
            report(from, "expected a port, a range such as 61616-61631, or any, got %s",
                   got_text(got, word, len));
        }
    }
    access->ports = ports;
}

static void compile_nat64(struct origin_of_values *from, struct access *access)
{
    from->key = "nat64-prefix";
    size_t count = take_ranges(from, &from->loader->config->policy_nat64_prefix, &access->nat64);

    if (count > NAT64_PREFIXES_MAX) {
        report(from, "more than %d prefixes", NAT64_PREFIXES_MAX);
        count = NAT64_PREFIXES_MAX;
    }
    for (size_t i = 0; i < count; i++) {
        if (access->nat64[i].base.family != ADDRESS_IPV6 ||
            !embedded_is_nat64_length(access->nat64[i].bits)) {
            report(from, "expected IPv6 prefixes of 32, 40, 48, 56, 64 or 96 bits");
        }
    }
    access->nat64_count = (uint32_t)count;
}

static void make_indexes(struct loader *loader, struct access *access)
{
    struct config_arena *arena = loader->config->arena;

    access->index = rule_index_make(access->rules, access->rule_count, arena);
    access->admission = rule_index_make(access->admitting, access->admitting_count, arena);
    access->clients_index =
        rule_index_make(access->clients, access->clients->client_count > 0 ? 1 : 0, arena);
    if (access->index == NULL || access->admission == NULL || access->clients_index == NULL) {
        loader->no_memory = true;
    }
}

void loader_check_access(struct loader *loader)
{
    struct origin_of_values from = {.loader = loader, .key = "clients"};
    struct access *access = take_memory(&from, 1, sizeof(*access));

    if (access == NULL) {
        return;
    }
    access->needs_secure_leg = loader->config->policy_require_secure_leg;
    access->device_zone = loader->config->devices_zone;
    access->is_open = loader->config->policy_targets == POLICY_TARGETS_ALLOW;
    compile_clients(&from, access);
    compile_echo(&from, access);
    compile_ports(&from, access);
    compile_nat64(&from, access);
    compile_rules(&from, access);
    compile_limits(loader, access);
    if (!loader->no_memory) {
        make_indexes(loader, access);
    }
    loader->config->access = access;
}
