/* SPDX-License-Identifier: BSD-2-Clause */
/* What clients ask for: mostly what makes sense. */
#include "replay/chaos.h"

#include "coap/frame.h"
#include "coap/option.h"

#include <stdio.h>

static const char *const targets[] = {
    "coap://h/x",
    "coap://h/x",
    "coap://h/y",
    "coap://g/x",
    "coap://192.0.2.5/x",
    "coap://h/p/z",
    "coap+tcp://h/x",
    "coap+tcp://g/y",
    "coaps://h/x",
    "coaps://h/y",
    "coaps+tcp://h/x",
    "coap+ws://h/x",
    "coap://me/x",
    "coap://nx/x",
    "coap://slow/x",
    "coap://224.0.1.187/x",
    "coap://[2001:db8::5]/x",
    "coap://h/w",
    "coap+tcp://me/.well-known/core",
};

#define TARGETS (sizeof(targets) / sizeof(targets[0]))
#define URI_MAX 96u
#define HOST_MAX 24u

uint32_t chaos_block_value(void)
{
    static const uint32_t numbers[] = {0, 0, 0, 1, 2, 3, 63, 1048575};
    uint32_t szx = one_in(6) ? below(8) : 2 + below(3);
    return numbers[below(8)] << 4 | (one_in(3) ? 8u : 0u) | szx;
}

/*
 * Mostly one host, and now and then one of more names and addresses than there are places for in
 * the tables of names and origin servers; most of those have no server.
 */
static const char *choose_host(char host[HOST_MAX])
{
    switch (below(6)) {
    case 0:
        (void)snprintf(host, HOST_MAX, "n%u", below(CHAOS_NAMES));
        break;
    case 1:
        (void)snprintf(host, HOST_MAX, "198.51.100.%u", below(CHAOS_NAMES));
        break;
    default:
        (void)snprintf(host, HOST_MAX, "h");
        break;
    }
    return host;
}

/*
 * What the cache, coalescing, observations and groups are about naturally has one target for
 * many: half of what may have an answer that others get, and a sixth of what changes it. All
 * others have a target of their own, each with its number in path and query.
 */
static bool is_for_many(uint8_t code)
{
    return one_in(code == CODE_GET || code == CODE_FETCH ? 2 : 6);
}

/* The same as the client asked for before, by the same method, or a new one. */
static uint32_t choose_number(unsigned client, uint8_t code, unsigned target)
{
    uint32_t number = chaos.own[client] - 1;
    if (chaos.own[client] == 0 || !one_in(4) || chaos.asked_count - number >= ASKED ||
        chaos.asked[number % ASKED].code != code) {
        number = chaos.asked_count++;
        chaos.asked[number % ASKED] =
            (struct asked){number, (uint16_t)target, code, (uint8_t)('a' + below(26))};
        chaos.own[client] = number + 1;
    }
    return number;
}

static const char *own_target(unsigned client, uint8_t code, char uri[URI_MAX])
{
    static const char *const schemes[] = {"coap", "coap", "coap+tcp", "coaps"};
    char host[HOST_MAX];
    unsigned target = one_in(3) ? TARGETS : one_in(3) ? below(TARGETS) : below(4);
    uint32_t number = choose_number(client, code, target);
    const struct asked *asked = &chaos.asked[number % ASKED];
    chaos.letter = asked->letter;
    if (asked->target == TARGETS) {
        (void)snprintf(uri, URI_MAX, "%s://%s/%u-%07u?of=%u-%07u", schemes[below(4)],
                       choose_host(host), client, (unsigned)number, client, (unsigned)number);
        return uri;
    }
    const char *base = targets[asked->target];
    (void)snprintf(uri, URI_MAX, "%.*s/%u-%07u?of=%u-%07u", (int)(strrchr(base, '/') - base), base,
                   client, (unsigned)number, client, (unsigned)number);
    return uri;
}

/*
 * A target, and chaos.letter, of which the payload is. Path and query always belong together, and
 * the payload to both, which chaos_check_request() looks at.
 */
static const char *choose_target(unsigned client, uint8_t code, char uri[URI_MAX])
{
    if (!is_for_many(code)) {
        return own_target(client, code, uri);
    }
    const char *target = targets[one_in(3) ? below(TARGETS) : below(4)];
    const char *name = strrchr(target, '/') + 1;
    chaos.letter = (uint8_t)name[0];
    chaos.shared_count++;
    if (strstr(target, "//me/") != NULL) {
        return target; /* the proxy's own, which has no queries */
    }
    (void)snprintf(uri, URI_MAX, "%s?of=%s", target, name);
    return uri;
}

/* Options of a request, in ascending order; @p client: of which the Echo is known. */
static void add_options(struct message_writer *writer, unsigned client, uint8_t code)
{
    char uri[URI_MAX];
    static const uint8_t one = 1, tag[2] = {7, 7};
    uint32_t mask = below(1u << 12) & below(1u << 12) & below(1u << 12); /* few of many */
    const char *target = choose_target(client, code, uri);
    bool is_group = strstr(target, "224.") != NULL;
    bool is_observing = (code == CODE_GET || code == CODE_FETCH) && one_in(3);
    if (mask & 1) {
        message_writer_option(writer, OPTION_if_match, (struct bytes){tag, 1});
    }
    if (is_group != one_in(30)) {
        message_writer_option_uint(writer, OPTION_multicast_timeout, below(4) * 10);
    }
    if (mask & 2) {
        message_writer_option(writer, OPTION_etag, (struct bytes){tag, 1 + below(2)});
    }
    if (is_observing) {
        message_writer_option_uint(writer, OPTION_observe, one_in(4) ? 1 : 0);
    }
    if ((mask & 4) && one_in(6)) {
        message_writer_option(writer, OPTION_oscore, (struct bytes){tag, 2});
    }
    if (mask & 8) {
        message_writer_option_uint(writer, OPTION_hop_limit, one_in(4) ? 1 : 2 + below(9));
    }
    if (mask & 16) {
        message_writer_option_uint(writer, OPTION_accept, below(2) * 40);
    }
    if (mask & 32) {
        message_writer_option_uint(writer, OPTION_block2, chaos_block_value());
    }
    if ((mask & 64) && code != CODE_GET) {
        message_writer_option_uint(writer, OPTION_block1, chaos_block_value());
    }
    if (!one_in(25)) {
        message_writer_option(writer, OPTION_proxy_uri, text_bytes(target));
    }
    if ((mask & 64) && one_in(2)) {
        message_writer_option_uint(writer, OPTION_size1, below(3000));
    }
    if (client < CLIENTS && chaos.echo_len[client] > 0 && one_in(2)) {
        message_writer_option(writer, OPTION_echo,
                              (struct bytes){chaos.echo[client], chaos.echo_len[client]});
    }
    if (mask & 128) {
        message_writer_option_uint(writer, OPTION_no_response, one_in(3) ? 26 : 2u << below(4));
    }
    if (mask & 256) {
        message_writer_option(writer, OPTION_request_tag, (struct bytes){&one, below(2)});
    }
}

static uint8_t method(void)
{
    static const uint8_t codes[] = {CODE_GET, CODE_GET,   CODE_GET,    CODE_GET,
                                    CODE_PUT, CODE_FETCH, CODE_DELETE, CODE_POST};
    return codes[below(8)];
}

/* Mostly of a length that is a block. */
static struct bytes payload(uint8_t code, size_t most)
{
    static const uint16_t lengths[] = {0, 1, 16, 64, 64, 128, 300, 1024, 2500};
    static uint8_t bytes[MESSAGE_MAX];
    size_t len = code == CODE_GET ? 0 : lengths[below(sizeof(lengths) / sizeof(lengths[0]))];
    memset(bytes, chaos.letter, sizeof(bytes));
    return (struct bytes){bytes, len < most ? len : most};
}

/* Few tokens, so that they are used again. */
static struct bytes token(void)
{
    static uint8_t bytes[12];
    size_t len = one_in(40) ? 12 : below(3);
    memset(bytes, (int)below(6), sizeof(bytes));
    return (struct bytes){bytes, len};
}

size_t chaos_request(uint8_t *buffer, size_t capacity, unsigned client)
{
    struct message_writer writer;
    uint8_t code = method();
    uint16_t mid = one_in(12) ? chaos.mid : ++chaos.mid;
    message_writer_init(&writer, buffer, capacity, one_in(4) ? MESSAGE_NON : MESSAGE_CON, code, mid,
                        token());
    add_options(&writer, client, code);
    message_writer_payload(&writer, payload(code, 1100));
    assert_false(writer.overflow);
    return writer.len;
}

struct bytes chaos_frame(uint8_t *buffer, unsigned client, bool is_ws)
{
    struct message_writer writer;
    struct bytes own = token();
    uint8_t code = method();
    frame_writer_init(&writer, buffer, MESSAGE_MAX, own);
    if (one_in(10)) {
        code = (uint8_t)(CODE_CSM + below(4)); /* Abort would be the end of it */
        if (code == CODE_CSM && one_in(2)) {
            message_writer_option_uint(&writer, 2, one_in(2) ? below(200) : 5000);
        }
        if (one_in(3)) {
            message_writer_option(&writer, code == CODE_PING ? 2 : 4, (struct bytes){0});
        }
    } else if (one_in(30)) {
        code = CODE(2, 5);
    } else {
        add_options(&writer, client, code);
    }
    message_writer_payload(&writer, payload(code, 2600));
    return frame_finish(&writer, code, own, is_ws);
}
