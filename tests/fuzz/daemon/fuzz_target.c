/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any options of a request, from scan_options() over target_find() to the request
 * that would be sent on: refused with a reason that can be told, or a target that
 * is within its limits, can be shown, and makes a good request.
 *
 * Input: a byte of flags (1: strict, 2: the other port, 4: the other port rule), the
 * code, then encoded options and payload.
 */
#include "client/scan.h"
#include "client/trace.h"
#include "coap/option.h"
#include "conf/config.h"
#include "context/target.h"
#include "fetch/encode.h"
#include "fetch/make.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY_BYTES 8192u
#define DATAGRAM_MAX 4096u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct config *load(bool is_strict, bool is_target_default)
{
    const char *const sets[] = {
        is_strict ? "proxy.strict=yes" : "proxy.strict=no",
        is_target_default ? "proxy.scheme-port=target-default" : "proxy.scheme-port=literal",
        "scheme coap+tcp.transport=udp", /* another default port over the same transport */
    };
    const struct config_source source = {.sets = sets, .set_count = 3};
    struct config_errors errors;
    struct config *config = NULL;
    if (config_load(&source, &errors, &config) != 0) {
        config_errors_print(&errors, "", stderr);
        abort();
    }
    return config;
}

static void check_text(const char *text, size_t capacity)
{
    size_t len = strnlen(text, capacity);
    assert(len < capacity);
    for (size_t i = 0; i < len; i++) {
        assert((unsigned char)text[i] >= 0x20 && (unsigned char)text[i] < 0x7f);
    }
}

/* The same for text that may be UTF-8: no control characters, those of two bytes (C1) included. */
static void check_shown(const char *text, size_t capacity)
{
    size_t len = strnlen(text, capacity);
    assert(len < capacity);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        assert(c >= 0x20); /* DEL stays in diagnostic notation; the log escapes it */
        assert(c != 0xc2 || (unsigned char)text[i + 1] >= 0xa0);
    }
}

static void check_problem(const struct problem *problem)
{
    assert(problem->reason != REASON_none && problem->reason != REASON_internal);
    uint8_t code = reason_row(problem->reason)->code;
    assert(CODE_CLASS(code) == 4 || CODE_CLASS(code) == 5);
    check_text(problem->text, sizeof(problem->text));
}

static void check_segments(const struct segments *segments, const uint8_t *memory)
{
    uint32_t offset = 0, count = 0;
    struct bytes item;
    while (segments_next(segments, &offset, &item)) {
        count++;
    }
    assert(count == segments->count && offset == segments->len);
    if (segments->len > 0) {
        assert(segments->packed >= memory &&
               segments->packed + segments->len <= memory + MEMORY_BYTES);
    }
}

/* Options @p number of @p message are the items of @p segments, in order. */
static void check_options(const struct message *message, uint16_t number,
                          const struct segments *segments)
{
    struct option_iter iter;
    struct option option;
    struct bytes item;
    uint32_t offset = 0;
    option_iter_init(&iter, message->options);
    while (option_iter_next(&iter, &option)) {
        if (option.number == number) {
            assert(segments_next(segments, &offset, &item));
            assert(item.len == option.value.len &&
                   memcmp(item.data, option.value.data, item.len) == 0);
        }
        const struct option_row *row = option_row(option.number);
        assert(row == NULL || row->in_request != OPTION_USE_PROXY);
    }
    assert(!segments_next(segments, &offset, &item));
}

/* From the options that a scan has noted, what leaves is the same as from all: @p sent. */
static void check_noted(const struct target *target, const struct naming *naming,
                        const struct message *request, struct bytes sent)
{
    struct request_options options;
    struct problem problem;
    const struct additions noted = {.hop_limit = 16, .passed = &options.passed};
    if (!scan_options(request, &options, &problem)) {
        return;
    }
    uint8_t *buffer = malloc(DATAGRAM_MAX);
    assert(buffer != NULL);
    size_t len =
        encode_request(target, naming, &noted, request,
                       (struct bytes){sent.data + 4, sent.data[0] & 15u}, buffer, DATAGRAM_MAX);
    assert(bytes_equal((struct bytes){buffer, len}, sent));
    free(buffer);
}

static void check_request(const struct target *target, const struct message *request)
{
    static const uint8_t token[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const struct additions additions = {.hop_limit = 16};
    uint8_t *buffer = malloc(DATAGRAM_MAX);
    struct message message;
    char text[2048];
    assert(buffer != NULL);
    struct naming naming = naming_for_origin(target);
    size_t len = encode_request(target, &naming, &additions, request,
                                (struct bytes){token, sizeof(token)}, buffer, DATAGRAM_MAX);
    if (len > 0) {
        check_noted(target, &naming, request, (struct bytes){buffer, len});
        assert(message_decode(buffer, len, &message) == MESSAGE_OK);
        assert(message.type == MESSAGE_CON && message.code == request->code);
        assert(message.payload.len == request->payload.len);
        check_options(&message, OPTION_uri_path, &target->path);
        check_options(&message, OPTION_uri_query, &target->query);
        check_shown(describe_options(buffer, len, text, sizeof(text)), sizeof(text));
    }
    free(buffer);
}

static bool same_segments(const struct segments *a, const struct segments *b)
{
    return a->len == b->len && (a->len == 0 || memcmp(a->packed, b->packed, a->len) == 0);
}

static void check_same_target(const struct target *a, const struct target *b)
{
    assert(a->scheme == b->scheme && a->is_name == b->is_name && a->port == b->port);
    if (a->is_name) {
        assert(a->name_len == b->name_len && memcmp(a->name, b->name, a->name_len) == 0);
    } else {
        assert(address_equal(&a->address, &b->address));
    }
    assert(same_segments(&a->path, &b->path) && same_segments(&a->query, &b->query));
}

/* A name that Uri-Host cannot have: it is not resolved (C2O-18), and a parent says so. */
static bool is_odd_name(const struct target *target)
{
    for (size_t i = 0; target->is_name && i < target->name_len; i++) {
        uint8_t c = target->name[i];
        if (c < 0x80 && (c <= 0x20 || strchr("%:/?#[]@\"<>\\^`{|}", c) != NULL || c == 0x7f)) {
            return true;
        }
    }
    return false;
}

/* What a parent proxy makes of the naming is the target that we had (O2C-12, TGT-13). */
static void check_naming(const struct config *config, const struct target *target,
                         const struct message *request, enum config_route_form form)
{
    static const struct additions additions = {.hop_limit = 16};
    const struct next_hop hop = {
        .scheme = config_scheme_by_number(config, 0), .is_parent = true, .port = 5683};
    struct address at = {.family = ADDRESS_IPV4, .ip = {192, 0, 2, 77}};
    struct naming_room room;
    struct naming naming;
    if (naming_for_parent(target, form, &hop, &room, &naming) != REASON_none) {
        return;
    }
    uint8_t *buffer = malloc(DATAGRAM_MAX), *memory = malloc(MEMORY_BYTES);
    assert(buffer != NULL && memory != NULL);
    size_t len = encode_request(target, &naming, &additions, request, (struct bytes){0}, buffer,
                                DATAGRAM_MAX);
    struct message message;
    struct request_options options;
    struct problem problem;
    struct target found;
    if (len > 0) {
        assert(message_decode(buffer, len, &message) == MESSAGE_OK);
        assert(scan_options(&message, &options, &problem));
        assert(!target_is_mixed(&options));
        bool good = target_find(config, &message, &options, &at,
                                (struct target_memory){memory, MEMORY_BYTES}, &found, &problem);
        assert(good || is_odd_name(target));
        if (good) {
            check_same_target(target, &found);
        }
    }
    free(buffer);
    free(memory);
}

static void check_target(const struct config *config, const struct target *target,
                         const struct message *request, const uint8_t *memory)
{
    char text[2048], small[8];
    check_segments(&target->path, memory);
    check_segments(&target->query, memory);
    if (target->form == TARGET_FORM_NONE) {
        return;
    }
    assert(target->scheme != NULL && target->port != 0);
    assert(target->path.count != 1 || target->path.len != 1); /* one empty segment is none */
    if (target->is_name) {
        assert(target->name_len > 0);
    } else {
        assert(target->address.port == target->port && !address_is_multicast(&target->address));
    }
    check_text(target_format(target, text, sizeof(text)), sizeof(text));
    check_text(target_format(target, small, sizeof(small)), sizeof(small));
    check_shown(describe_cri(target, text, sizeof(text)), sizeof(text));
    check_request(target, request);
    check_naming(config, target, request, ROUTE_FORM_PROXY_CRI);
    check_naming(config, target, request, ROUTE_FORM_PROXY_SCHEME_NUMBER);
    check_naming(config, target, request, ROUTE_FORM_PROXY_URI);
    check_naming(config, target, request, ROUTE_FORM_PROXY_SCHEME);
}

static void find(const struct config *config, const struct message *message, uint16_t port)
{
    struct request_options options;
    struct problem problem = {.reason = REASON_none};
    struct target target;
    const uint8_t ip[4] = {192, 0, 2, 9};
    struct address local;
    address_set_ip(&local, ip, sizeof(ip), 0);
    local.port = port;
    if (!scan_options(message, &options, &problem)) {
        check_problem(&problem);
        return;
    }
    uint8_t *memory = malloc(MEMORY_BYTES);
    assert(memory != NULL);
    if (target_find(config, message, &options, &local, (struct target_memory){memory, MEMORY_BYTES},
                    &target, &problem)) {
        check_target(config, &target, message, memory);
    } else {
        check_problem(&problem);
    }
    free(memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct config *configs[4];
    struct message message;
    if (size < 2 || size > DATAGRAM_MAX) {
        return 0;
    }
    unsigned which = (data[0] & 1u) | (data[0] >> 1 & 2u);
    if (configs[which] == NULL) {
        configs[which] = load((data[0] & 1u) != 0, (data[0] & 4u) != 0);
    }
    size_t len = size - 2 + 4;
    uint8_t *datagram = malloc(len);
    if (datagram == NULL) {
        return 0;
    }
    memcpy(datagram, "\x40\x01\x00\x01", 4);
    datagram[1] = data[1] & 0x1f;
    memcpy(datagram + 4, data + 2, size - 2);
    if (message_decode(datagram, len, &message) == MESSAGE_OK && message_is_request(&message)) {
        find(configs[which], &message, (data[0] & 2u) != 0 ? 7777 : 5683);
    }
    free(datagram);
    return 0;
}
