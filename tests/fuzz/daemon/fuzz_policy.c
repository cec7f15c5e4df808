/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Patterns of targets and the search for the first rule that matches. The input is
 * lines: a target as a URI, the identity of the client, an address that the host leads
 * to, and then rules, each a letter ('a' to 'd': allow or deny, for all or for that
 * identity), a digit (methods) and a pattern. What the index finds is what going
 * through the rules finds; decisions hold what policy/access.h promises of them.
 */
#include "base/arena.h"
#include "client/scan.h"
#include "coap/option.h"
#include "conf/config.h"
#include "context/target.h"
#include "policy/access.h"
#include "policy/ranges.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RULES_MAX 64u
#define DATAGRAM_MAX 4096u
#define MEMORY_BYTES 8192u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct config *config_once(void)
{
    static struct config *config;
    struct config_errors errors;
    if (config == NULL && config_load(NULL, &errors, &config) != 0) {
        abort();
    }
    return config;
}

/* The next line; an empty one at the end. */
static struct bytes next_line(struct bytes *rest)
{
    const uint8_t *end = rest->len > 0 ? memchr(rest->data, '\n', rest->len) : NULL;
    struct bytes line = {rest->data, end != NULL ? (size_t)(end - rest->data) : rest->len};
    size_t taken = line.len + (end != NULL ? 1 : 0);
    *rest = (struct bytes){taken > 0 ? rest->data + taken : rest->data, rest->len - taken};
    return line;
}

static bool find_target(struct bytes uri, uint8_t *memory, struct target *ret_target)
{
    static uint8_t datagram[DATAGRAM_MAX];
    struct message_writer writer;
    struct message message;
    struct request_options options;
    struct problem problem;
    const struct address local = {.family = ADDRESS_IPV4, .ip = {192, 0, 2, 9}};
    message_writer_init(&writer, datagram, sizeof(datagram), MESSAGE_CON, CODE_GET, 1,
                        (struct bytes){0});
    message_writer_option(&writer, OPTION_proxy_uri, uri);
    return !writer.overflow && message_decode(datagram, writer.len, &message) == MESSAGE_OK &&
           scan_options(&message, &options, &problem) &&
           target_find(config_once(), &message, &options, &local,
                       (struct target_memory){memory, MEMORY_BYTES}, ret_target, &problem);
}

/* --- patterns ----------------------------------------------------------- */

static void check_pattern(const struct target_pattern *pattern, struct bytes text)
{
    uint32_t at = 0, count = 0;
    assert(strlen(pattern->text) <= text.len);
    assert(pattern->first_port >= 1 && pattern->first_port <= pattern->last_port);
    for (size_t i = 0; i < pattern->name_len; i++) {
        assert(pattern->name[i] != '\0' && !(pattern->name[i] >= 'A' && pattern->name[i] <= 'Z'));
    }
    bool has_name = pattern->host == PATTERN_HOST_NAME || pattern->host == PATTERN_HOST_SUFFIX;
    assert(has_name == (pattern->name_len > 0));
    if (has_name) {
        assert(pattern->name[0] != '.' && pattern->name[pattern->name_len - 1] != '.');
    }
    if (pattern->host == PATTERN_HOST_ADDRESS) {
        assert(pattern->range.bits <= 8 * address_ip_len(&pattern->range.base));
        assert(address_prefix_covers(&pattern->range, &pattern->range.base));
    }
    while (at < pattern->path_len) {
        at += 1u + pattern->path[at];
        count++;
    }
    assert(at == pattern->path_len && count == pattern->path_count);
}

/* One rule of a line; false where its pattern is none. */
static bool make_rule(struct bytes line, const char *const *names, struct config_arena *arena,
                      struct access_rule *ret_rule)
{
    struct pattern_error error = {SIZE_MAX, NULL};
    if (line.len < 2) {
        return false;
    }
    struct bytes text = {line.data + 2, line.len - 2};
    struct target_pattern *pattern = arena_alloc(arena, sizeof(*pattern));
    assert(pattern != NULL);
    int result = target_pattern_parse((const char *)text.data, text.len,
                                      &config_once()->scheme_table, arena, pattern, &error);
    if (result != 0) {
        assert(error.what != NULL && error.offset <= text.len);
        return false;
    }
    check_pattern(pattern, text);
    *ret_rule = (struct access_rule){
        .name = "rule",
        .is_allow = (line.data[0] & 1u) != 0,
        .methods = (uint8_t)(line.data[1] & 7u),
        .names[IDENTITY_PSK] = {names, (line.data[0] & 2u) != 0 ? 1 : 0},
        .patterns = pattern,
        .pattern_count = 1,
    };
    return true;
}

/* --- rules -------------------------------------------------------------- */

static uint32_t find_slowly(const struct access_rule *rules, uint32_t count,
                            const struct rule_query *query, const struct address *address)
{
    static const struct address none;
    for (uint32_t i = 0; i < count; i++) {
        const struct target_pattern *pattern = rules[i].patterns;
        bool is_range = pattern->host == PATTERN_HOST_ADDRESS;
        if ((rules[i].methods == 0 || (rules[i].methods & 1u) != 0) &&
            rule_takes_client(&rules[i], query->client) && is_range == (address != NULL) &&
            target_pattern_matches_address(pattern, query->target,
                                           address != NULL ? address : &none)) {
            return i;
        }
    }
    return RULE_NONE;
}

static void check_index(const struct rule_index *index, const struct access_rule *rules,
                        uint32_t count, const struct rule_query *query,
                        const struct address *address)
{
    assert(rule_index_find(index, query).rule == find_slowly(rules, count, query, NULL));
    assert(rule_index_find_address(index, query, address, false).rule ==
           find_slowly(rules, count, query, address));
}

/* A forbidden address is never allowed by anything but a rule with a range. */
static void check_decision(struct access *access, const struct access_request *request,
                           const struct address *address)
{
    struct access_verdict verdict = access_check_address(access, request, address);
    assert(verdict.rule != NULL);
    bool is_never;
    if (verdict.reason != REASON_none || ranges_reserved(address, &is_never) == NULL) {
        return;
    }
    assert(!is_never);
    bool is_local = address_is_loopback(address) && address_is_loopback(&request->client.address);
    bool is_opened = false;
    for (uint32_t i = 0; i < access->rule_count; i++) {
        const struct access_rule *rule = &access->rules[i];
        is_opened = is_opened || (rule->is_allow && rule->patterns->host == PATTERN_HOST_ADDRESS &&
                                  address_prefix_covers(&rule->patterns->range, address));
    }
    assert(is_local || is_opened);
}

static void check_all(struct access *access, const struct identity *identity,
                      const struct target *target, const struct address *address)
{
    const struct access_client client = {
        .address = {.family = ADDRESS_IPV4, .ip = {10, 0, 0, 7}},
        .scheme = CRI_SCHEME_COAPS,
        .identity = identity,
    };
    const struct access_request request = {
        .client = client, .standing = STANDING_CLIENT, .target = target, .method = CODE_GET};
    const struct rule_query query = {.client = &client, .target = target, .method = CODE_GET};
    check_index(access->index, access->rules, access->rule_count, &query, address);
    check_decision(access, &request, address);
    if (!target->is_name) {
        check_decision(access, &request, &target->address);
        (void)access_check_target(access, &request);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes rest = {data, size};
    struct bytes uri = next_line(&rest), who = next_line(&rest), at = next_line(&rest);
    struct config_arena *arena = arena_new();
    struct access_rule *rules = calloc(RULES_MAX, sizeof(*rules));
    uint8_t *memory = malloc(MEMORY_BYTES);
    struct identity *identity =
        identity_new(IDENTITY_PSK, identity_name_bytes(who.data, who.len), NULL);
    uint32_t count = 0;
    struct target target;
    struct address address;
    assert(arena != NULL && rules != NULL && memory != NULL && identity != NULL);
    identity_add_name(identity, who.data, who.len);
    const char *names[] = {identity_name(identity)};
    while (rest.len > 0 && count < RULES_MAX) {
        count += make_rule(next_line(&rest), names, arena, &rules[count]) ? 1 : 0;
    }
    struct access access = *config_once()->access;
    access.rules = rules;
    access.rule_count = count;
    access.index = rule_index_make(rules, count, arena);
    assert(access.index != NULL);
    if (find_target(uri, memory, &target) &&
        address_parse((const char *)at.data, at.len, 0, &address)) {
        check_all(&access, identity, &target, &address);
    }
    identity_release(identity);
    free(memory);
    free(rules);
    arena_free(arena);
    return 0;
}
