/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The load generator: one thread, one loop.
 *
 * Each request in flight has a slot of the pending table and the wheel's timer of
 * the same number. In closed loop a slot sends its next request when it ends (or a
 * pause later); in open loop requests are due at even intervals, whatever comes back,
 * and latency counts from the time a request was due, not from when it got sent.
 *
 *        turn() --------> ask() --> SENT --(empty ACK)--> ACKED
 *          ^                |  ^_(retransmit)_|             |
 *          |                v                               v
 *        end() <------ answer, RST, or time has run out <---+
 */
#include "load.h"

#include "clock.h"
#include "commands.h"
#include "echo.h"
#include "link.h"
#include "pending.h"
#include "random.h"
#include "wheel.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RECENT = 1 << 19, /* ended requests that a late answer is still known by */
    ACKED = 1 << 16,  /* separate answers that are acknowledged again */
    IDS = 1 << 16,    /* message ids of one endpoint */
    OPEN_IN_FLIGHT = 1 << 16,
    RAMP_PER_MS = 64, /* first requests of a closed loop, so that no queue overflows */
    POLL_MS = 20,
    TOKEN_TRIES = 8,
    ID_DIGITS = 16,
    SEGMENT_MAX = 24,
};

struct client {
    uint32_t endpoint;
    uint32_t ids_used;
    uint16_t next_mid;
    bool opened;
};

struct recent {
    uint64_t token_key;
    uint32_t client;
    bool used;
};

struct load {
    const struct load_options *options;
    struct load_result result;
    struct link *link;
    struct pending_table pending;
    struct wheel wheel;
    struct random random;
    struct client *clients;
    struct recent *recent;
    uint64_t *acked; /* keys of message ids, 0: none */
    uint32_t in_flight_cap, in_flight;
    uint32_t free_slot;
    uint32_t next_client;
    uint64_t now_ns, start_ns, warm_ns, stop_ns;
    uint64_t due_count; /* open loop: requests that were due so far */
    uint64_t due_ns;    /* open loop: when the one being sent was due */
    bool measuring, sending;
    int error; /* of a callback; ends the loop */
};

/* The texts a request is made of, and the resource that points to them. */
struct wording {
    struct resource resource;
    char number[SEGMENT_MAX], query[SEGMENT_MAX];
    uint8_t body[LOAD_BODY_MAX];
    struct view payload;
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

/* Path, query and payload of a request: the same each time they are asked for. */
static void word_request(const struct load_options *options, const struct pending *request,
                         struct wording *ret)
{
    ret->resource = (struct resource){0};
    for (const char *at = options->path; *at != '\0';) {
        size_t len = strcspn(at, "/");
        add_segment(&ret->resource, at, len);
        at += at[len] == '/' ? len + 1 : len;
    }
    if (options->paths != 1) {
        int len = snprintf(ret->number, sizeof(ret->number), "%" PRIu64, request->path);
        add_segment(&ret->resource, ret->number, (size_t)len);
    }
    if (options->id_in_query) {
        memcpy(ret->query, "r=", 2);
        hex_id(ret->query + 2, request->id);
        ret->resource.query = bytes_of(ret->query, 2 + ID_DIGITS);
    }
    ret->payload = (struct view){0};
    if (has_body(request->method)) {
        size_t len = options->body_len > ID_DIGITS ? options->body_len : ID_DIGITS;
        memset(ret->body, '.', len);
        hex_id((char *)ret->body, request->id);
        ret->payload = (struct view){ret->body, len};
    }
}

static void transmit(struct load *load, const struct pending *request)
{
    uint8_t bytes[WIRE_DATAGRAM_MAX];
    uint8_t token[LOAD_TOKEN_MAX];
    struct wire_writer writer;
    struct wording wording;

    pending_token(&load->pending, request->token_seed, token);
    word_request(load->options, request, &wording);
    wire_begin(&writer, bytes, sizeof(bytes), request->confirmable ? WIRE_CON : WIRE_NON,
               request->method, request->mid, (struct view){token, load->pending.token_len});
    form_write(&writer, request->form, &load->options->targets[request->target], &wording.resource);
    wire_add_payload(&writer, wording.payload);
    if (writer.overflow) {
        load->error = -EMSGSIZE;
        return;
    }
    link_send(load->link, request->client, request->endpoint, bytes, writer.len);
}

static void set_timer(struct load *load, uint32_t number, uint64_t delay_ns)
{
    wheel_set(&load->wheel, number, (load->now_ns + delay_ns) / NS_PER_MS + 1);
}

/* Message ids in order, from a random start; after 65,536 of them another endpoint, so
 * that none is used again within EXCHANGE_LIFETIME (RFC 7252 section 4.4). */
static bool take_mid(struct load *load, uint32_t number, uint16_t *ret_mid)
{
    struct client *client = &load->clients[number];

    if (!client->opened || client->ids_used == IDS) {
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

    request->id = load->result.counters.sent;
    request->path = options->paths == 0 ? request->id : random_below(&load->random, options->paths);
    request->target =
        options->target_count <= 1 ? 0 : (uint8_t)(request->id % options->target_count);
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

static bool may_send(const struct load *load)
{
    return load->sending &&
           (load->options->count == 0 || load->result.counters.sent < load->options->count);
}

/* Send a new request from slot @p number, which is idle. */
static void ask(struct load *load, uint32_t number)
{
    struct pending *request = &load->pending.requests[number];

    if (!may_send(load)) {
        return;
    }
    request->client = choose_client(load, number);
    if (!choose_token(load, request)) {
        set_timer(load, number, NS_PER_MS); /* short tokens: one has to come back first */
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
    set_timer(load, number, request->timeout_ns);
    transmit(load, request);
}

static void remember(struct load *load, const struct pending *request)
{
    struct recent *recent = &load->recent[random_mix(request->token_key) % RECENT];

    *recent = (struct recent){request->token_key, request->client, true};
}

static void ask_again_later(struct load *load, uint32_t number)
{
    if (load->options->rate > 0) {
        load->pending.requests[number].next_free = load->free_slot;
        load->free_slot = number;
    } else if (load->options->think_ns > 0) {
        double factor = 0.5 + random_unit(&load->random);
        set_timer(load, number, (uint64_t)((double)load->options->think_ns * factor));
    } else {
        ask(load, number);
    }
}

static void end(struct load *load, uint32_t number, enum load_end how)
{
    struct pending *request = &load->pending.requests[number];

    load->result.counters.ends[how]++;
    if (load->measuring && how == END_ANSWERED) {
        uint64_t now = load->now_ns > request->started_ns ? load->now_ns : request->started_ns;
        histogram_add(&load->result.latency, now - request->started_ns);
        load->result.measured_answers++;
    }
    wheel_cancel(&load->wheel, number);
    pending_remove(&load->pending, number);
    remember(load, request);
    request->state = PENDING_IDLE;
    load->in_flight--;
    ask_again_later(load, number);
}

static void send_empty(struct load *load, uint32_t client, uint32_t endpoint, enum wire_type type,
                       uint16_t mid)
{
    uint8_t bytes[WIRE_HEADER_LEN];
    struct wire_writer writer;

    wire_begin(&writer, bytes, sizeof(bytes), type, WIRE_EMPTY, mid, (struct view){0});
    link_send(load->link, client, endpoint, bytes, writer.len);
}

static void count_reason(struct load_counters *counters, const struct wire_message *message)
{
    char text[LOAD_TEXT_MAX] = "";
    size_t len =
        message->payload.len < LOAD_TEXT_MAX - 1 ? message->payload.len : LOAD_TEXT_MAX - 1;
    unsigned at = 0;

    for (size_t i = 0; i < len; i++) {
        uint8_t byte = message->payload.data[i];
        text[i] = byte >= 0x20 && byte < 0x7f ? (char)byte : '?';
    }
    while (at < counters->reason_count && (counters->reasons[at].code != message->code ||
                                           strcmp(counters->reasons[at].text, text) != 0)) {
        at++;
    }
    if (at == LOAD_REASONS_MAX) {
        return; /* the codes are counted all the same */
    }
    if (at == counters->reason_count) {
        counters->reason_count++;
        counters->reasons[at].code = message->code;
        memcpy(counters->reasons[at].text, text, sizeof(text));
    }
    counters->reasons[at].count++;
}

/* Does the payload say what was asked? Errors and 2.03 have no echo line. */
static bool answers(const struct load *load, const struct pending *request,
                    const struct wire_message *message)
{
    struct echo_line line;
    struct wording wording;

    if (!load->options->check || WIRE_CODE_CLASS(message->code) != 2 ||
        message->code == WIRE_CODE(2, 3)) {
        return true;
    }
    word_request(load->options, request, &wording);
    echo_begin(&line, request->method);
    for (unsigned i = 0; i < wording.resource.segment_count; i++) {
        echo_add_path(&line, wording.resource.segments[i]);
    }
    if (wording.resource.query.len > 0) {
        echo_add_query(&line, wording.resource.query);
    }
    echo_end(&line, wording.payload);
    return echo_matches(&line, message->payload);
}

/* An answer to no request of this client: once more, too late, or somebody else's? */
static void on_stray(struct load *load, uint32_t client, const struct wire_message *message,
                     bool other)
{
    uint64_t key = pending_token_key(message->token);
    const struct recent *recent = &load->recent[random_mix(key) % RECENT];
    bool known = recent->used && recent->token_key == key;

    if (known && recent->client == client) {
        load->result.counters.late++;
    } else if (known || other) {
        load->result.counters.wrong_client++;
    } else {
        load->result.counters.unknown++;
    }
}

static void on_answer(struct load *load, uint32_t number, const struct wire_message *message)
{
    struct load_counters *counters = &load->result.counters;
    const struct pending *request = &load->pending.requests[number];

    counters->codes[message->code]++;
    if (WIRE_CODE_CLASS(message->code) >= 4) {
        count_reason(counters, message);
    }
    end(load, number, answers(load, request, message) ? END_ANSWERED : END_WRONG);
}

static void on_response(struct load *load, uint32_t client, uint32_t endpoint,
                        const struct wire_message *message)
{
    uint64_t key = pending_mid_key(client, endpoint, message->mid) + 1;
    uint64_t *acked = &load->acked[random_mix(key) % ACKED];
    bool other;
    uint32_t number = pending_find_token(&load->pending, client, message->token, &other);

    if (message->type == WIRE_CON && *acked == key) {
        send_empty(load, client, endpoint, WIRE_ACK, message->mid); /* our ACK was lost */
        load->result.counters.late++;
        return;
    }
    if (number == INDEX_NONE) {
        on_stray(load, client, message, other);
        if (message->type == WIRE_CON) {
            send_empty(load, client, endpoint, WIRE_RST, message->mid);
        }
        return;
    }
    if (message->type == WIRE_ACK && load->pending.requests[number].mid != message->mid) {
        load->result.counters.wrong_mid++;
        return;
    }
    if (message->type == WIRE_CON) {
        *acked = key;
        send_empty(load, client, endpoint, WIRE_ACK, message->mid);
    }
    on_answer(load, number, message);
}

static void on_empty(struct load *load, uint32_t client, uint32_t endpoint,
                     const struct wire_message *message)
{
    uint32_t number = pending_find_mid(&load->pending, client, endpoint, message->mid);

    if (message->type == WIRE_CON) {
        send_empty(load, client, endpoint, WIRE_RST, message->mid); /* a ping */
    } else if (number != INDEX_NONE && message->type == WIRE_RST) {
        end(load, number, END_RESET);
    } else if (number != INDEX_NONE && message->type == WIRE_ACK &&
               load->pending.requests[number].state == PENDING_SENT) {
        load->pending.requests[number].state = PENDING_ACKED;
        set_timer(load, number, load->options->timeout_ns);
    }
}

static void on_message(void *context, uint32_t client, uint32_t endpoint, const uint8_t *data,
                       size_t len)
{
    struct load *load = context;
    struct wire_message message;

    if (!wire_decode(data, len, &message)) {
        load->result.counters.malformed++;
    } else if (message.code == WIRE_EMPTY) {
        on_empty(load, client, endpoint, &message);
    } else if (WIRE_CODE_CLASS(message.code) >= 2 && message.type != WIRE_RST) {
        on_response(load, client, endpoint, &message);
    } else {
        load->result.counters.malformed++; /* nobody sends us requests */
    }
}

static void on_timer(void *context, uint32_t number)
{
    struct load *load = context;
    struct pending *request = &load->pending.requests[number];

    switch (request->state) {
    case PENDING_IDLE:
        ask(load, number);
        return;
    case PENDING_ACKED:
        end(load, number, END_UNANSWERED);
        return;
    case PENDING_SENT:
        break;
    }
    if (!request->confirmable) {
        end(load, number, END_UNANSWERED);
    } else if (request->retransmits == load->options->max_retransmit) {
        end(load, number, END_UNACKNOWLEDGED);
    } else {
        request->retransmits++;
        request->timeout_ns *= 2;
        load->result.counters.retransmitted++;
        set_timer(load, number, request->timeout_ns);
        transmit(load, request);
    }
}

static void ask_what_is_due(struct load *load)
{
    uint64_t elapsed = load->now_ns - load->start_ns;
    uint64_t due = (uint64_t)((double)elapsed / (double)NS_PER_S * (double)load->options->rate);

    for (; load->due_count < due && may_send(load); load->due_count++) {
        uint32_t number = load->free_slot;
        if (number == INDEX_NONE) {
            load->result.counters.overrun += due - load->due_count;
            load->due_count = due;
            return;
        }
        load->due_ns = load->start_ns + (uint64_t)((double)load->due_count * (double)NS_PER_S /
                                                   (double)load->options->rate);
        load->free_slot = load->pending.requests[number].next_free;
        ask(load, number);
    }
}

static uint64_t wait_ns(const struct load *load)
{
    uint64_t wait = wheel_next_ms(&load->wheel, POLL_MS) * NS_PER_MS;

    if (load->options->rate > 0 && load->sending) {
        uint64_t next = load->start_ns + (uint64_t)((double)(load->due_count + 1) *
                                                    (double)NS_PER_S / (double)load->options->rate);
        uint64_t until = next > load->now_ns ? next - load->now_ns : 0;
        wait = until < wait ? until : wait;
    }
    return wait;
}

static int sample(const struct load *load, struct process_sample *ret)
{
    return load->options->pid > 0 ? process_sample(load->options->pid, ret) : 0;
}

static int begin_measuring(struct load *load)
{
    load->measuring = true;
    load->warm_ns = load->now_ns;
    return sample(load, &load->result.before);
}

static int stop_sending(struct load *load)
{
    load->sending = false;
    load->measuring = false;
    load->result.measured_ns = load->now_ns - load->warm_ns;
    return sample(load, &load->result.after);
}

/* The phases of a run: warm-up, measuring, waiting for what is open. */
static int step_phase(struct load *load)
{
    bool all_sent = load->options->count > 0 && load->result.counters.sent >= load->options->count;

    if (load->sending && !load->measuring &&
        load->now_ns - load->start_ns >= load->options->warmup_ns) {
        int err = begin_measuring(load);
        if (err != 0) {
            return err;
        }
    }
    if (load->sending && (all_sent || load->now_ns >= load->stop_ns || clock_stop != 0)) {
        if (!load->measuring) {
            load->warm_ns = load->now_ns; /* it ended in the warm-up: nothing was measured */
        }
        return stop_sending(load);
    }
    return 0;
}

static int turn(struct load *load)
{
    int err;

    load->now_ns = clock_now_ns();
    err = step_phase(load);
    if (err != 0) {
        return err;
    }
    wheel_advance(&load->wheel, load->now_ns / NS_PER_MS, on_timer, load);
    if (load->options->rate > 0) {
        ask_what_is_due(load);
    }
    err = link_turn(load->link, wait_ns(load), on_message, load);
    return err != 0 ? err : load->error;
}

static void start_slots(struct load *load)
{
    load->free_slot = INDEX_NONE;
    for (uint32_t i = load->in_flight_cap; i-- > 0;) {
        if (load->options->rate > 0) {
            load->pending.requests[i].next_free = load->free_slot;
            load->free_slot = i;
        } else {
            set_timer(load, i, i / RAMP_PER_MS * NS_PER_MS);
        }
    }
}

static int run_loop(struct load *load)
{
    load->start_ns = load->now_ns;
    load->stop_ns = load->now_ns + load->options->time_ns;
    load->sending = true;
    start_slots(load);
    while (load->sending || (load->in_flight > 0 && clock_stop == 0)) {
        int err = turn(load);
        if (err != 0) {
            return err;
        }
    }
    load->result.counters.ends[END_UNFINISHED] += load->in_flight;
    load->result.total_ns = clock_now_ns() - load->start_ns;
    load->result.counters.refused = load->link->refused;
    load->result.counters.foreign = load->link->foreign;
    return 0;
}

static uint32_t cap_in_flight(const struct load_options *options)
{
    uint64_t cap = (uint64_t)options->clients * options->window;

    if (options->rate > 0) {
        cap = OPEN_IN_FLIGHT;
    }
    if (options->in_flight > 0 && (options->rate > 0 || options->in_flight < cap)) {
        cap = options->in_flight;
    }
    return cap < LOAD_IN_FLIGHT_MAX ? (uint32_t)cap : LOAD_IN_FLIGHT_MAX;
}

static int open_load(struct load *load)
{
    struct link_options link = {.peer = load->options->peer,
                                .clients = load->options->clients,
                                .own_sockets = load->options->own_sockets};
    int err;

    load->now_ns = clock_now_ns();
    load->random = (struct random){load->options->seed};
    load->in_flight_cap = cap_in_flight(load->options);
    load->clients = calloc(load->options->clients, sizeof(*load->clients));
    load->recent = calloc(RECENT, sizeof(*load->recent));
    load->acked = calloc(ACKED, sizeof(*load->acked));
    if (load->clients == NULL || load->recent == NULL || load->acked == NULL) {
        return -ENOMEM;
    }
    err = pending_init(&load->pending, load->in_flight_cap, load->options->token_len);
    if (err == 0) {
        err = wheel_init(&load->wheel, load->in_flight_cap, load->now_ns / NS_PER_MS);
    }
    return err == 0 ? link_open_udp(&link, &load->link) : err;
}

static void close_load(struct load *load)
{
    link_close(load->link);
    wheel_clear(&load->wheel);
    pending_clear(&load->pending);
    free(load->acked);
    free(load->recent);
    free(load->clients);
    free(load);
}

uint64_t load_wrong(const struct load_counters *counters)
{
    return counters->ends[END_WRONG] + counters->wrong_client + counters->wrong_mid;
}

int load_run(const struct load_options *options, struct load_result *ret_result)
{
    struct load *load = calloc(1, sizeof(*load));
    int err;

    if (load == NULL) {
        return -ENOMEM;
    }
    load->options = options;
    err = open_load(load);
    if (err == 0) {
        err = run_loop(load);
    }
    if (err == 0) {
        *ret_result = load->result;
    }
    close_load(load);
    return err;
}
