/* SPDX-License-Identifier: BSD-2-Clause */
/* The requests of the load: their targets, and their bytes. */
#include "load_state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    TOKEN_TRIES = 8,
    ID_DIGITS = 16,
};

static struct view bytes_of(const char *text, size_t len)
{
    return (struct view){(const uint8_t *)text, len};
}

static void add_segment(struct resource *resource, const char *text, size_t len)
{
    if (resource->segment_count < FORM_SEGMENTS_MAX) {
        resource->segments[resource->segment_count++] = bytes_of(text, len);
    }
}

static void hex_id(char *text, uint64_t id)
{
    for (unsigned i = 0; i < ID_DIGITS; i++) {
        text[i] = "0123456789abcdef"[id >> (60 - 4 * i) & 0x0fu];
    }
}

static bool has_body(uint8_t method)
{
    return method != WIRE_GET && method != WIRE_DELETE;
}

void request_word(const struct load_options *options, const struct pending *request,
                  struct wording *ret_wording)
{
    ret_wording->resource = (struct resource){0};
    for (const char *at = options->path; *at != '\0';) {
        size_t len = strcspn(at, "/");
        add_segment(&ret_wording->resource, at, len);
        at += at[len] == '/' ? len + 1 : len;
    }
    if (options->paths != 1) {
        int len =
            snprintf(ret_wording->number, sizeof(ret_wording->number), "%" PRIu64, request->path);
        add_segment(&ret_wording->resource, ret_wording->number, (size_t)len);
    }
    if (options->id_in_query) {
        memcpy(ret_wording->query, "r=", 2);
        hex_id(ret_wording->query + 2, request->id);
        ret_wording->resource.query = bytes_of(ret_wording->query, 2 + ID_DIGITS);
    }
    ret_wording->payload = (struct view){0};
    if (has_body(request->method)) {
        size_t len = options->body_len > ID_DIGITS ? options->body_len : ID_DIGITS;
        memset(ret_wording->body, '.', len);
        hex_id((char *)ret_wording->body, request->id);
        ret_wording->payload = (struct view){ret_wording->body, len};
        ret_wording->resource.has_format = options->has_format;
        ret_wording->resource.format = options->format;
    }
}

void request_transmit(struct load *load, const struct pending *request)
{
    uint8_t bytes[WIRE_DATAGRAM_MAX];
    uint8_t token[LOAD_TOKEN_MAX];
    struct wire_writer writer;
    struct wording wording;

    pending_token(&load->pending, request->token_seed, token);
    request_word(load->options, request, &wording);
    wire_begin(&writer, bytes, sizeof(bytes),
               &(struct wire_header){.type = request->confirmable ? WIRE_CON : WIRE_NON,
                                     .code = request->method,
                                     .mid = request->mid,
                                     .token = {token, load->pending.token_len}});
    const struct target *target = &load->options->targets[request->target];
    if (load->options->origins > 1) {
        const struct target further =
            target_further(target, (uint32_t)(request->id % load->options->origins));
        form_write(&writer, request->form, &further, &wording.resource);
    } else {
        form_write(&writer, request->form, target, &wording.resource);
    }
    wire_add_payload(&writer, wording.payload);
    if (writer.overflow) {
        load->error = -EMSGSIZE;
        return;
    }
    link_send(load->link, request->client, request->endpoint, bytes, writer.len);
}

/* Message ids in order, from a random start; after 65,536 of them at most another endpoint,
 * so that none is used again within EXCHANGE_LIFETIME (RFC 7252 section 4.4). */
static bool take_mid(struct load *load, uint32_t number, uint16_t *ret_mid)
{
    struct load_client *client = &load->clients[number];

    if (!client->opened || client->ids_used == load->options->ids) {
        int err = link_renew(load->link, number, &client->endpoint);
        if (err != 0) {
            load->error = err;
            return false;
        }
        client->opened = true;
        client->ids_used = 0;
        client->next_mid = (uint16_t)random_next(&load->random);
    }
    client->ids_used++;
    *ret_mid = client->next_mid++;
    return true;
}

static uint8_t choose_method(struct load *load)
{
    uint32_t draw;
    uint8_t method = WIRE_GET;

    if (load->options->weights[WIRE_GET] == load->options->weight_sum) {
        return WIRE_GET;
    }
    draw = random_below(&load->random, load->options->weight_sum);
    while (draw >= load->options->weights[method]) {
        draw -= load->options->weights[method];
        method++;
    }
    return method;
}

static bool choose_confirmable(struct load *load)
{
    if (load->options->type == LOAD_TYPE_MIX) {
        return random_below(&load->random, 2) == 0;
    }
    return load->options->type == LOAD_CON;
}

/* A token that this client has not in flight; false if none was found. */
static bool choose_token(struct load *load, struct pending *request)
{
    for (unsigned i = 0; i < TOKEN_TRIES; i++) {
        request->token_seed = random_next(&load->random);
        if (pending_token_is_free(&load->pending, request->client, request->token_seed)) {
            return true;
        }
    }
    return false;
}

/* In closed loop with all windows open, a slot belongs to a client; else they take turns. */
static uint32_t choose_client(struct load *load, uint32_t number)
{
    const struct load_options *options = load->options;
    uint32_t client;

    if (options->rate == 0 && load->in_flight_cap == (uint64_t)options->clients * options->window) {
        return number % options->clients;
    }
    client = load->next_client++;
    if (load->next_client == options->clients) {
        load->next_client = 0;
    }
    return client;
}

static void choose_resource(struct load *load, struct pending *request)
{
    const struct load_options *options = load->options;
    unsigned targets = options->target_count > 0 ? options->target_count : 1;

    request->id = load->result.counters.sent;
    request->path = options->paths == 0 ? request->id : random_below(&load->random, options->paths);
    request->target = (uint8_t)(request->id % targets);
    request->form = options->form == FORM_MIX ? (enum form)random_below(&load->random, FORM_DIRECT)
                                              : options->form;
}

static uint64_t first_timeout_ns(struct load *load, const struct pending *request)
{
    double factor = 1.0 + 0.5 * random_unit(&load->random); /* ACK_RANDOM_FACTOR is 1.5 */

    if (!request->confirmable) {
        return load->options->timeout_ns;
    }
    return (uint64_t)((double)load->options->ack_timeout_ns * factor);
}

bool request_is_wanted(const struct load *load)
{
    return load->sending &&
           (load->options->count == 0 || load->result.counters.sent < load->options->count);
}

void request_ask(struct load *load, uint32_t number)
{
    struct pending *request = &load->pending.requests[number];

    if (!request_is_wanted(load)) {
        return;
    }
    request->client = choose_client(load, number);
    if (!choose_token(load, request)) {
        load_set_timer(load, number, NS_PER_MS); /* short tokens: one has to come back first */
        return;
    }
    if (!take_mid(load, request->client, &request->mid)) {
        return;
    }
    request->endpoint = load->clients[request->client].endpoint;
    request->method = choose_method(load);
    request->confirmable = choose_confirmable(load);
    choose_resource(load, request);
    request->retransmits = 0;
    request->timeout_ns = first_timeout_ns(load, request);
    request->started_ns = load->options->rate > 0 ? load->due_ns : load->now_ns;
    request->state = PENDING_SENT;
    pending_add(&load->pending, number);
    load->in_flight++;
    load->result.counters.sent++;
    load_set_timer(load, number, request->timeout_ns);
    request_transmit(load, request);
}
