/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How the first matching rule is found.
 *
 * The shape of a pattern is the set of things that it compares exactly: the kind of host (any, this
 * name, names under so many labels, a range of so many bits), the kind of client (any, a range of
 * so many bits, an identity of one kind), whether it names one port, and how many path
 * segments. All patterns of one shape are in one hash table, keyed by the values that they compare;
 * a request has one key for each shape (one for each of its names where the shape has an
 * identity). So a search costs one probe a shape, however many rules there are, and real rule
 * sets have few shapes. This is the tuple space search of packet classifiers (Srinivasan, Suri,
 * Varghese 1999).
 *
 * Under one key the entries are in the order of the rules; each is compared in full,
 * so the key need not hold everything. Shapes are tried in the order of their first
 * rule, until that comes after the best match.
 */
#include "policy/rules.h"

#include "base/arena.h"
#include "base/hash.h"
#include "coap/target.h"

#include <string.h>

#define HASH_SEED UINT64_C(0x5bd1e995c0a8f00d) /* strangers put nothing into the table */
#define ENTRY_NONE UINT32_MAX
#define PATH_DEPTH_MAX 4u /* segments that are in the key; the rest is compared */

/* A rule with more combinations of clients and patterns has its patterns alone in the keys. */
#define COMBINATIONS_MAX 256u

enum who_kind {
    WHO_ANY,
    WHO_ADDRESS,
    WHO_IDENTITY,
};

struct shape {
    uint8_t host;        /* enum pattern_host */
    uint8_t host_family; /* ADDRESS: of the range */
    uint8_t host_size;   /* ADDRESS: bits; SUFFIX: labels */
    uint8_t who;         /* enum who_kind */
    uint8_t who_family;  /* ADDRESS: of the range; IDENTITY: an enum identity_kind */
    uint8_t who_bits;    /* ADDRESS */
    uint8_t has_port;
    uint8_t path_depth;
};

_Static_assert(sizeof(struct shape) == 8, "shapes are compared as bytes");

struct shape_row {
    struct shape shape;
    uint32_t first_rule;
    uint32_t number; /* is in the keys */
};

struct entry {
    uint64_t key;
    uint32_t rule;
    uint32_t next; /* in its bucket; the rules ascend */
    const struct target_pattern *pattern;
};

struct rule_index {
    const struct access_rule *rules;
    struct shape_row *shapes; /* by first_rule */
    uint32_t shape_count;
    struct entry *entries;
    uint32_t entry_count;
    uint32_t *buckets;
    unsigned shift; /* 64 - log2 of how many */
};

/* --- keys --------------------------------------------------------------- */

static uint64_t hash_address(const struct address *address, unsigned bits)
{
    struct address cut = address_truncate(address, bits);
    return hash_bytes(cut.ip, sizeof(cut.ip), HASH_SEED);
}

static uint64_t index_hash_text(const char *text)
{
    return hash_bytes((const uint8_t *)text, strlen(text), HASH_SEED);
}

/* Hashes of the parts of a shape; 0 for a part that the shape does not have. */
struct key_parts {
    uint64_t host, who, path;
    uint16_t port;
};

static uint64_t make_key(uint32_t shape_number, const struct key_parts *parts)
{
    uint64_t key = hash_mix(parts->host, parts->who ^ (uint64_t)shape_number << 32);
    return hash_mix(key ^ parts->path, HASH_SEED ^ parts->port);
}

static uint32_t *index_bucket_of(const struct rule_index *index, uint64_t key)
{
    return &index->buckets[key >> index->shift];
}

/* Bytes of the first @p depth segments, or 0 where there are fewer. */
static size_t path_bytes(const uint8_t *packed, size_t len, unsigned depth)
{
    size_t at = 0;
    for (unsigned i = 0; i < depth; i++) {
        if (at >= len) {
            return 0;
        }
        at += 1u + packed[at];
    }
    return at;
}

/* --- making ------------------------------------------------------------- */

/* One way of matching a rule: a pattern (or none), and a client (or any). */
struct combination {
    uint32_t rule;
    const struct target_pattern *pattern;
    enum who_kind who;
    const struct address_prefix *range; /* of an ADDRESS */
    enum identity_kind kind;            /* of an IDENTITY */
    const char *name;
};

static uint8_t label_count(const uint8_t *name, size_t len)
{
    unsigned count = 1;
    for (size_t i = 0; i < len; i++) {
        count += name[i] == '.';
    }
    return (uint8_t)count;
}

static void take_pattern(const struct target_pattern *pattern, struct shape *shape,
                         struct key_parts *parts)
{
    shape->host = (uint8_t)pattern->host;
    switch (pattern->host) {
    case PATTERN_HOST_ANY:
        break;
    case PATTERN_HOST_SUFFIX:
        shape->host_size = label_count(pattern->name, pattern->name_len);
        parts->host = hash_bytes(pattern->name, pattern->name_len, HASH_SEED);
        break;
    case PATTERN_HOST_NAME:
        parts->host = hash_bytes(pattern->name, pattern->name_len, HASH_SEED);
        break;
    case PATTERN_HOST_ADDRESS:
        shape->host_family = (uint8_t)pattern->range.base.family;
        shape->host_size = pattern->range.bits;
        parts->host = hash_address(&pattern->range.base, pattern->range.bits);
        break;
    }
    if (pattern->first_port == pattern->last_port) {
        shape->has_port = 1;
        parts->port = pattern->first_port;
    }
    if (pattern->path_count > 0) {
        shape->path_depth =
            (uint8_t)(pattern->path_count < PATH_DEPTH_MAX ? pattern->path_count : PATH_DEPTH_MAX);
        size_t len = path_bytes(pattern->path, pattern->path_len, shape->path_depth);
        parts->path = hash_bytes(pattern->path, len, HASH_SEED);
    }
}

static void take_combination(const struct combination *combination, struct shape *shape,
                             struct key_parts *parts)
{
    *shape = (struct shape){.who = (uint8_t)combination->who};
    *parts = (struct key_parts){0};
    if (combination->pattern != NULL) {
        take_pattern(combination->pattern, shape, parts);
    }
    if (combination->who == WHO_ADDRESS) {
        shape->who_family = (uint8_t)combination->range->base.family;
        shape->who_bits = combination->range->bits;
        parts->who = hash_address(&combination->range->base, combination->range->bits);
    } else if (combination->who == WHO_IDENTITY) {
        shape->who_family = (uint8_t)combination->kind;
        parts->who = index_hash_text(combination->name);
    }
}

/* The index while it is made: entries are counted first, then filled in from the last rule. */
struct maker {
    struct rule_index *index;
    bool is_counting;
};

/* Rules come in falling order: the last one to name a shape is the shape's first. */
static uint32_t shape_number(struct rule_index *index, const struct shape *shape, uint32_t rule)
{
    for (uint32_t i = 0; i < index->shape_count; i++) {
        if (memcmp(&index->shapes[i].shape, shape, sizeof(*shape)) == 0) {
            index->shapes[i].first_rule = rule;
            return i;
        }
    }
    index->shapes[index->shape_count] =
        (struct shape_row){.shape = *shape, .first_rule = rule, .number = index->shape_count};
    return index->shape_count++;
}

static void add(struct maker *maker, const struct combination *combination)
{
    struct rule_index *index = maker->index;
    struct shape shape;
    struct key_parts parts;
    if (maker->is_counting) {
        index->entry_count++;
        return;
    }
    take_combination(combination, &shape, &parts);
    uint64_t key = make_key(shape_number(index, &shape, combination->rule), &parts);
    uint32_t *bucket = index_bucket_of(index, key);
    index->entries[index->entry_count] = (struct entry){
        .key = key,
        .rule = combination->rule,
        .next = *bucket,
        .pattern = combination->pattern,
    };
    *bucket = index->entry_count++;
}

static bool has_wildcard(const struct access_rule *rule)
{
    for (unsigned kind = 0; kind < IDENTITY_KINDS; kind++) {
        for (uint32_t i = 0; i < rule->names[kind].count; i++) {
            if (strcmp(rule->names[kind].items[i], "*") == 0) {
                return true;
            }
        }
    }
    return false;
}

/* One pattern with each client of the rule, by identity where it names any. */
static void add_for_clients(struct maker *maker, const struct access_rule *rule,
                            struct combination combination)
{
    for (unsigned kind = 0; kind < IDENTITY_KINDS; kind++) {
        for (uint32_t i = 0; i < rule->names[kind].count; i++) {
            combination.who = WHO_IDENTITY;
            combination.kind = (enum identity_kind)kind;
            combination.name = rule->names[kind].items[i];
            add(maker, &combination);
        }
    }
    bool is_by_identity = rule_name_count(rule) > 0;
    for (uint32_t i = 0; i < rule->client_count && !is_by_identity; i++) {
        combination.who = WHO_ADDRESS;
        combination.range = &rule->clients[i];
        add(maker, &combination);
    }
}

static void add_rule(struct maker *maker, uint32_t number)
{
    const struct access_rule *rule = &maker->index->rules[number];
    uint32_t names = rule_name_count(rule);
    uint32_t whos = names > 0 ? names : rule->client_count;
    uint32_t patterns = rule->pattern_count > 0 ? rule->pattern_count : 1;
    bool is_split =
        whos > 0 && (uint64_t)whos * patterns <= COMBINATIONS_MAX && !has_wildcard(rule);
    for (uint32_t i = 0; i < patterns; i++) {
        struct combination combination = {.rule = number, .who = WHO_ANY};
        if (rule->pattern_count > 0) {
            combination.pattern = &rule->patterns[i];
        }
        if (is_split) {
            add_for_clients(maker, rule, combination);
        } else {
            add(maker, &combination);
        }
    }
}

static void add_rules(struct maker *maker, size_t count)
{
    maker->index->entry_count = 0;
    for (size_t i = count; i > 0; i--) {
        add_rule(maker, (uint32_t)(i - 1));
    }
}

/* By first rule, so that a search can stop early: few shapes, so insertion does. */
static void sort_shapes(struct rule_index *index)
{
    for (uint32_t i = 1; i < index->shape_count; i++) {
        struct shape_row row = index->shapes[i];
        uint32_t at = i;
        for (; at > 0 && index->shapes[at - 1].first_rule > row.first_rule; at--) {
            index->shapes[at] = index->shapes[at - 1];
        }
        index->shapes[at] = row;
    }
}

struct rule_index *rule_index_make(const struct access_rule *rules, size_t count,
                                   struct config_arena *arena)
{
    struct rule_index *index = arena_alloc(arena, sizeof(*index));
    if (index == NULL) {
        return NULL;
    }
    index->rules = rules;
    struct maker maker = {.index = index, .is_counting = true};
    add_rules(&maker, count);
    unsigned bits = 1;
    while (((uint64_t)1 << bits) < 2 * (uint64_t)index->entry_count) {
        bits++;
    }
    index->shift = 64 - bits;
    size_t bucket_count = (size_t)1 << bits;
    size_t room = (size_t)index->entry_count + 1;
    index->buckets = arena_alloc(arena, bucket_count * sizeof(index->buckets[0]));
    index->entries = arena_alloc(arena, room * sizeof(index->entries[0]));
    index->shapes = arena_alloc(arena, room * sizeof(index->shapes[0]));
    if (index->buckets == NULL || index->entries == NULL || index->shapes == NULL) {
        return NULL;
    }
    memset(index->buckets, 0xff, bucket_count * sizeof(index->buckets[0])); /* ENTRY_NONE */
    maker.is_counting = false;
    add_rules(&maker, count);
    sort_shapes(index);
    return index;
}

/* --- searching ---------------------------------------------------------- */

struct search {
    const struct rule_index *index;
    const struct rule_query *query;
    const struct address *address; /* of the host; NULL: ranges do not count */
    bool only_deny;
    struct rule_match best;
};

static bool index_matches(const struct search *search, const struct entry *entry)
{
    const struct access_rule *rule = &search->index->rules[entry->rule];
    const struct rule_query *query = search->query;
    if (search->only_deny && rule->is_allow) {
        return false;
    }
    if (query->method != 0 && rule->methods != 0 &&
        (query->method > 8 || (rule->methods >> (query->method - 1) & 1u) == 0)) {
        return false;
    }
    static const struct address none;
    const struct address *address = search->address != NULL ? search->address : &none;
    return (entry->pattern == NULL || query->target == NULL ||
            target_pattern_matches_address(entry->pattern, query->target, address)) &&
           rule_takes_client(rule, query->client);
}

/* The entries under one key, up to the first that matches. */
static void index_probe(struct search *search, uint32_t number, const struct key_parts *parts)
{
    const struct rule_index *index = search->index;
    uint64_t key = make_key(number, parts);
    for (uint32_t at = *index_bucket_of(index, key); at != ENTRY_NONE;
         at = index->entries[at].next) {
        const struct entry *entry = &index->entries[at];
        if (entry->rule >= search->best.rule) {
            return;
        }
        if (entry->key == key && index_matches(search, entry)) {
            search->best = (struct rule_match){entry->rule, entry->pattern};
            return;
        }
    }
}

/* The last @p labels labels of a name that has more than these; false where it has not. */
static bool find_suffix(const struct target *target, unsigned labels, struct bytes *ret_suffix)
{
    size_t len = target_name_len(target);
    for (size_t i = len; i > 0; i--) {
        if (target->name[i - 1] == '.' && --labels == 0) {
            *ret_suffix = (struct bytes){target->name + i, len - i};
            return true;
        }
    }
    return false;
}

/* False where the host cannot match the shape. */
static bool host_part(const struct search *search, const struct shape *shape, uint64_t *ret_host)
{
    const struct target *target = search->query->target;
    struct bytes suffix;
    switch ((enum pattern_host)shape->host) {
    case PATTERN_HOST_ANY:
        return true;
    case PATTERN_HOST_NAME:
        if (!target->is_name) {
            return false;
        }
        *ret_host = hash_bytes(target->name, target_name_len(target), HASH_SEED);
        return true;
    case PATTERN_HOST_SUFFIX:
        if (!target->is_name || !find_suffix(target, shape->host_size, &suffix)) {
            return false;
        }
        *ret_host = hash_bytes(suffix.data, suffix.len, HASH_SEED);
        return true;
    case PATTERN_HOST_ADDRESS:
        if (search->address->family != shape->host_family) {
            return false;
        }
        *ret_host = hash_address(search->address, shape->host_size);
        return true;
    }
    return false;
}

/* Each name of the client's, where the shape is about identities. */
static void probe_names(struct search *search, const struct shape_row *row, struct key_parts *parts)
{
    const struct identity *identity = search->query->client->identity;
    if (!identity_is_known(identity) || identity->kind != row->shape.who_family) {
        return;
    }
    for (size_t at = 0; at < identity->names_len;) {
        const char *name = identity->names + at;
        size_t len = strnlen(name, identity->names_len - at);
        parts->who = hash_bytes((const uint8_t *)name, len, HASH_SEED);
        index_probe(search, row->number, parts);
        at += len + 1;
    }
}

static void try_shape(struct search *search, const struct shape_row *row)
{
    const struct shape *shape = &row->shape;
    const struct rule_query *query = search->query;
    struct key_parts parts = {0};
    if (query->target != NULL) {
        if (!host_part(search, shape, &parts.host)) {
            return;
        }
        parts.port = shape->has_port != 0 ? query->target->port : 0;
        if (shape->path_depth > 0) {
            const struct segments *path = &query->target->path;
            size_t len = path_bytes(path->packed, path->len, shape->path_depth);
            if (len == 0) {
                return;
            }
            parts.path = hash_bytes(path->packed, len, HASH_SEED);
        }
    }
    if (shape->who == WHO_IDENTITY) {
        probe_names(search, row, &parts);
        return;
    }
    if (shape->who == WHO_ADDRESS) {
        if (query->client->address.family != shape->who_family) {
            return;
        }
        parts.who = hash_address(&query->client->address, shape->who_bits);
    }
    index_probe(search, row->number, &parts);
}

static struct rule_match index_find(struct search *search)
{
    const struct rule_index *index = search->index;
    bool is_by_address = search->address != NULL;
    for (uint32_t i = 0; i < index->shape_count; i++) {
        const struct shape_row *row = &index->shapes[i];
        if (row->first_rule >= search->best.rule) {
            break;
        }
        if ((row->shape.host == PATTERN_HOST_ADDRESS) == is_by_address) {
            try_shape(search, row);
        }
    }
    return search->best;
}

struct rule_match rule_index_find(const struct rule_index *index, const struct rule_query *query)
{
    struct search search = {.index = index, .query = query, .best = {RULE_NONE, NULL}};
    return index_find(&search);
}

struct rule_match rule_index_find_address(const struct rule_index *index,
                                          const struct rule_query *query,
                                          const struct address *address, bool only_deny)
{
    struct search search = {
        .index = index,
        .query = query,
        .address = address,
        .only_deny = only_deny,
        .best = {RULE_NONE, NULL},
    };
    return index_find(&search);
}
